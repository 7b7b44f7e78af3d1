/* The rows of RMSNorm. */
#include "kern/cpu/norm.h"

#include "kern/cpu/norm_row.h"

VINLINE void forward_rows(const lzt_norm *n, uint64_t begin, uint64_t end, bool bf16)
{
    const norm_weight w = {n->w, n->size, n->add, n->eps};
    for (uint64_t t = begin; t < end; t++) {
        float rstd = norm_row_rstd(n->x, t * n->size, &w, bf16);
        norm_row_forward(n->x, t * n->size, &w, rstd, n->y, t * n->size, bf16);
        if (n->rstd) n->rstd[t] = rstd;
    }
}

static void forward(const lzt_norm *n, uint64_t begin, uint64_t end)
{
    if (n->bf16)
        forward_rows(n, begin, end, true);
    else
        forward_rows(n, begin, end, false);
}

VINLINE void backward_rows(const lzt_norm *n, uint64_t begin, uint64_t end, float *dw, bool bf16)
{
    const norm_weight w = {n->w, n->size, n->add, n->eps};
    for (uint64_t t = begin; t < end; t++)
        norm_row_backward(n->dy, t * n->size, n->x, t * n->size, &w, n->rstd[t], n->residual, n->y, t * n->size, dw,
                          bf16);
}

static void backward(const lzt_norm *n, uint64_t begin_block, uint64_t end_block)
{
    for (uint64_t block = begin_block; block < end_block; block++) {
        uint64_t begin = block * NORM_BLOCK_ROWS;
        uint64_t end = begin + NORM_BLOCK_ROWS < n->rows ? begin + NORM_BLOCK_ROWS : n->rows;
        float *dw = n->partial ? n->partial + block * n->size : NULL;
        if (dw) memset(dw, 0, n->size * sizeof(float));
        if (n->bf16)
            backward_rows(n, begin, end, dw, true);
        else
            backward_rows(n, begin, end, dw, false);
    }
}

const lzt_norm_code ISA(lzt__norm_code) = {.forward = forward, .backward = backward};
