/* The rows of the norm of heads. */
#include "kern/cpu/norm.h"

#include "kern/cpu/norm_row.h"

VINLINE void forward_rows(const lzt_head_norm *n, uint64_t begin, uint64_t end, bool bf16)
{
    for (uint64_t t = begin; t < end; t++)
        for (uint64_t head = 0; head < n->q_heads + n->k_heads; head++) {
            const norm_weight w = {head < n->q_heads ? n->wq : n->wk, n->size, n->add, n->eps};
            uint64_t at = t * n->ldx + head * n->size;
            float rstd = norm_row_rstd(n->x, at, &w, bf16);
            norm_row_forward(n->x, at, &w, rstd, n->y, t * n->ldy + head * n->size, bf16);
        }
}

static void forward(const lzt_head_norm *n, uint64_t begin, uint64_t end)
{
    if (n->bf16)
        forward_rows(n, begin, end, true);
    else
        forward_rows(n, begin, end, false);
}

/* One token: its heads are summed in row_dw[2][size] first, which keeps the sums short. */
VINLINE void backward_row(const lzt_head_norm *n, uint64_t t, float *row_dw, bool bf16)
{
    memset(row_dw, 0, 2 * n->size * sizeof(float));
    for (uint64_t head = 0; head < n->q_heads + n->k_heads; head++) {
        bool key = head >= n->q_heads;
        const norm_weight w = {key ? n->wk : n->wq, n->size, n->add, n->eps};
        uint64_t at = t * n->ldx + head * n->size, to = t * n->ldy + head * n->size;
        norm_row_backward(n->y, to, n->x, at, &w, norm_row_rstd(n->x, at, &w, bf16), NULL, n->y, to,
                          row_dw + (key ? n->size : 0), bf16);
    }
}

static void backward(const lzt_head_norm *n, uint64_t begin_block, uint64_t end_block)
{
    for (uint64_t block = begin_block; block < end_block; block++) {
        uint64_t begin = block * NORM_BLOCK_ROWS;
        uint64_t end = begin + NORM_BLOCK_ROWS < n->rows ? begin + NORM_BLOCK_ROWS : n->rows;
        float *dw = n->partial + block * 4 * n->size, *row_dw = dw + 2 * n->size;
        memset(dw, 0, 2 * n->size * sizeof(float));
        for (uint64_t t = begin; t < end; t++) {
            if (n->bf16)
                backward_row(n, t, row_dw, true);
            else
                backward_row(n, t, row_dw, false);
            for (uint64_t i = 0; i < 2 * n->size; i++) dw[i] += row_dw[i];
        }
    }
}

const lzt_head_norm_code ISA(lzt__head_norm_code) = {.forward = forward, .backward = backward};
