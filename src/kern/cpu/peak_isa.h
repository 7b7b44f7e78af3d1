/* The loops of lzt_kern_cpu_peak, once per instruction set. Each returns the floating-point operations it has done. */
#ifndef LZT_KERN_CPU_PEAK_ISA_H
#define LZT_KERN_CPU_PEAK_ISA_H

#include <stdint.h>

typedef struct lzt_peak_code {
    double (*f32)(uint64_t rounds);
    double (*bf16)(uint64_t rounds); /* NULL: the build has none */
} lzt_peak_code;

extern const lzt_peak_code lzt__peak_code_v2, lzt__peak_code_avx2, lzt__peak_code_avx512;

#endif
