/* The row loops of SwiGLU. */
#ifndef LZT_KERN_CPU_SWIGLU_H
#define LZT_KERN_CPU_SWIGLU_H

#include "kern/cpu/kern_cpu.h"

typedef struct lzt_swiglu {
    const void *gu; /* [rows, 2 size]: gate, up */
    const void *ds; /* [rows, size]: backward */
    void *out;      /* s [rows, size], or dgu [rows, 2 size], which may be gu */
    uint64_t rows, size;
    bool bf16;
} lzt_swiglu;

typedef struct lzt_swiglu_code {
    void (*forward)(const lzt_swiglu *s, uint64_t begin, uint64_t end);
    void (*backward)(const lzt_swiglu *s, uint64_t begin, uint64_t end);
} lzt_swiglu_code;

extern const lzt_swiglu_code lzt__swiglu_code_v2, lzt__swiglu_code_avx2, lzt__swiglu_code_avx512;

#endif
