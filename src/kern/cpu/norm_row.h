/* RMSNorm of one row, forward and backward: shared by the norm of hidden states and that of heads. For *_isa.c files.
 *
 * Sums over a row run in 4 VW lanes of F32 and move to double every NORM_PIECE elements, so that their error stays far
 * below that of a plain F32 sum, whatever the length.
 */
#ifndef LZT_KERN_CPU_NORM_ROW_H
#define LZT_KERN_CPU_NORM_ROW_H

#include "kern/cpu/vfast.h"

enum { NORM_PIECE = 1024 };

/* The weights of one norm and the constants of its call; bf16 is a constant after inlining. */
typedef struct norm_weight {
    const void *w; /* [size] */
    uint64_t size;
    float add;  /* to each weight */
    double eps; /* to the mean square */
} norm_weight;

VINLINE vf norm_weight_at(const norm_weight *w, bool bf16, uint64_t i)
{
    return vload_left(w->w, bf16, i, w->size - i) + w->add;
}

/* 1 / sqrt(mean(x^2) + eps) of the row that begins at element at */
VINLINE float norm_row_rstd(const void *x, uint64_t at, const norm_weight *w, bool bf16)
{
    double total = 0;
    for (uint64_t begin = 0; begin < w->size; begin += NORM_PIECE) {
        uint64_t end = begin + NORM_PIECE < w->size ? begin + NORM_PIECE : w->size, i = begin;
        vf s0 = vset1(0), s1 = s0, s2 = s0, s3 = s0;
        for (; i + 4 * VW <= end; i += 4 * VW) {
            vf x0 = vload_dtype(x, at + i, bf16), x1 = vload_dtype(x, at + i + VW, bf16);
            vf x2 = vload_dtype(x, at + i + 2 * VW, bf16), x3 = vload_dtype(x, at + i + 3 * VW, bf16);
            s0 = vfma(x0, x0, s0);
            s1 = vfma(x1, x1, s1);
            s2 = vfma(x2, x2, s2);
            s3 = vfma(x3, x3, s3);
        }
        for (; i < end; i += VW) {
            vf x0 = vload_left(x, bf16, at + i, end - i);
            s0 = vfma(x0, x0, s0);
        }
        total += vsum_wide((s0 + s1) + (s2 + s3));
    }
    return (float)(1 / sqrt(total / (double)w->size + w->eps));
}

/* y = x * rstd * (w + add) */
VINLINE void norm_row_forward(const void *x, uint64_t at, const norm_weight *w, float rstd, void *y, uint64_t to,
                              bool bf16)
{
    for (uint64_t i = 0; i < w->size; i += VW) {
        uint64_t left = w->size - i;
        vstore_left(y, bf16, to + i, left, (vload_left(x, bf16, at + i, left) * rstd) * norm_weight_at(w, bf16, i));
    }
}

/* sum of dy * (w + add) * x over the row */
VINLINE double norm_row_projection(const void *dy, uint64_t dy_at, const void *x, uint64_t x_at, const norm_weight *w,
                                   bool bf16)
{
    double total = 0;
    for (uint64_t begin = 0; begin < w->size; begin += NORM_PIECE) {
        uint64_t end = begin + NORM_PIECE < w->size ? begin + NORM_PIECE : w->size, i = begin;
        vf s0 = vset1(0), s1 = s0;
        for (; i + 2 * VW <= end; i += 2 * VW) {
            vf g0 = vload_dtype(dy, dy_at + i, bf16) * norm_weight_at(w, bf16, i);
            vf g1 = vload_dtype(dy, dy_at + i + VW, bf16) * norm_weight_at(w, bf16, i + VW);
            s0 = vfma(g0, vload_dtype(x, x_at + i, bf16), s0);
            s1 = vfma(g1, vload_dtype(x, x_at + i + VW, bf16), s1);
        }
        for (; i < end; i += VW)
            s0 = vfma(vload_left(dy, bf16, dy_at + i, end - i) * norm_weight_at(w, bf16, i),
                      vload_left(x, bf16, x_at + i, end - i), s0);
        total += vsum_wide(s0 + s1);
    }
    return total;
}

/* dx = residual + rstd * (dy * (w + add) - x * rstd^2 * mean(dy * (w + add) * x)); dw += dy * x * rstd. residual and dw
 * may be NULL; dx may be dy or residual, at the same place. */
VINLINE void norm_row_backward(const void *dy, uint64_t dy_at, const void *x, uint64_t x_at, const norm_weight *w,
                               float rstd, const void *residual, void *dx, uint64_t dx_at, float *dw, bool bf16)
{
    double r = (double)rstd;
    float back = (float)(-r * r * r * norm_row_projection(dy, dy_at, x, x_at, w, bf16) / (double)w->size);
    for (uint64_t i = 0; i < w->size; i += VW) {
        uint64_t left = w->size - i;
        vf g = vload_left(dy, bf16, dy_at + i, left), value = vload_left(x, bf16, x_at + i, left);
        vf d = vfma(value, vset1(back), g * norm_weight_at(w, bf16, i) * rstd);
        if (residual) d += vload_left(residual, bf16, dx_at + i, left);
        if (dw) vstore_left(dw, false, i, left, vfma(g, value * rstd, vload_left(dw, false, i, left)));
        vstore_left(dx, bf16, dx_at + i, left, d);
    }
}

#endif
