/* The row loop of the rotary embedding. */
#ifndef LZT_KERN_CPU_ROPE_H
#define LZT_KERN_CPU_ROPE_H

#include "kern/cpu/kern_cpu.h"

typedef struct lzt_rope {
    const float *table; /* [rows, rotated / 2, 2] */
    void *x;            /* rows of ld elements */
    uint64_t rows, heads, head_dim, rotated, ld;
    float sign; /* of the sines */
    bool bf16;
} lzt_rope;

typedef struct lzt_rope_code {
    void (*rotate)(const lzt_rope *r, uint64_t begin, uint64_t end);
} lzt_rope_code;

extern const lzt_rope_code lzt__rope_code_v2, lzt__rope_code_avx2, lzt__rope_code_avx512;

#endif
