/* Loops over plain arrays, once per instruction set. */
#ifndef LZT_KERN_CPU_CONVERT_ISA_H
#define LZT_KERN_CPU_CONVERT_ISA_H

#include <stdbool.h>
#include <stdint.h>

typedef struct lzt_convert_code {
    void (*to_bf16)(const float *src, uint16_t *dst, uint64_t count);    /* round to nearest even */
    void (*add)(float *sum, const void *row, uint64_t count, bool bf16); /* sum[i] += row[i] */
} lzt_convert_code;

extern const lzt_convert_code lzt__convert_code_v2, lzt__convert_code_avx2, lzt__convert_code_avx512;

#endif
