/* The row loops of RMSNorm and of the norm of heads, and the blocks in which weight gradients are summed. */
#ifndef LZT_KERN_CPU_NORM_H
#define LZT_KERN_CPU_NORM_H

#include "kern/cpu/kern_cpu.h"

/* Rows whose weight gradients are summed one after the other; blocks are then summed in order, in double. Fixed, so
 * that the result does not depend on the team. */
enum { NORM_BLOCK_ROWS = 32 };

/* Rows [begin, end) of an RMSNorm. */
typedef struct lzt_norm {
    const void *x, *w, *dy, *residual; /* dy, residual: backward */
    void *y;                           /* or dx */
    float *rstd;                       /* written forward (may be NULL), read backward */
    float *partial;                    /* [blocks][size]: backward; NULL: no dw */
    uint64_t rows, size;
    double eps;
    float add;
    bool bf16;
} lzt_norm;

typedef struct lzt_norm_code {
    void (*forward)(const lzt_norm *n, uint64_t begin, uint64_t end);
    /* blocks of NORM_BLOCK_ROWS rows */
    void (*backward)(const lzt_norm *n, uint64_t begin_block, uint64_t end_block);
} lzt_norm_code;

/* Rows of heads: the first q_heads with wq, the next k_heads with wk. */
typedef struct lzt_head_norm {
    const void *x, *wq, *wk; /* x: rows of ldx elements */
    void *y;                 /* forward: rows of ldy elements; backward: dqk, in place */
    float *partial;          /* [blocks][2 sums and 2 of one row][size] */
    uint64_t rows, q_heads, k_heads, size, ldx, ldy;
    double eps;
    float add;
    bool bf16;
} lzt_head_norm;

typedef struct lzt_head_norm_code {
    void (*forward)(const lzt_head_norm *n, uint64_t begin, uint64_t end);
    void (*backward)(const lzt_head_norm *n, uint64_t begin_block, uint64_t end_block);
} lzt_head_norm_code;

extern const lzt_norm_code lzt__norm_code_v2, lzt__norm_code_avx2, lzt__norm_code_avx512;
extern const lzt_head_norm_code lzt__head_norm_code_v2, lzt__head_norm_code_avx2, lzt__head_norm_code_avx512;

static inline uint64_t lzt__norm_blocks(uint64_t rows)
{
    return (rows + NORM_BLOCK_ROWS - 1) / NORM_BLOCK_ROWS;
}

/* dw[i] = sum over blocks of partial[block * stride + i], for i in [begin, end), rounded once. */
void lzt__norm_sum_blocks(const float *partial, uint64_t stride, uint64_t blocks, uint64_t begin, uint64_t end,
                          void *dw, lzt_dtype dtype);

#endif
