/* The optimizer's inner loops, built once per instruction set (optim_isa.c). Plain arguments, one thread. */
#ifndef LZT_OPTIM_CODE_H
#define LZT_OPTIM_CODE_H

#include "base/isa_level.h"
#include "lazytrain/optim.h"

enum { SQNORM_BLOCK = 4096 };

/* A step's coefficients for one weight decay, rounded to F32. */
typedef struct lzt_adamw_coef {
    float clip, keep, take1, keep2, take2, root_c2, eps, rate;
} lzt_adamw_coef;

typedef struct lzt_optim_code {
    /* elements begin .. end - 1 of a run */
    void (*adamw)(const lzt_optim_run *run, const lzt_adamw_coef *coef, uint64_t begin, uint64_t end);
    /* count <= SQNORM_BLOCK values */
    double (*sqnorm_f32)(const float *values, uint64_t count);
    double (*sqnorm_bf16)(const uint16_t *values, uint64_t count);
    void (*add_f32)(float *target, const float *source, uint64_t count);
    void (*add_f32_bf16)(float *target, const uint16_t *source, uint64_t count);
    void (*add_bf16)(uint16_t *target, const uint16_t *source, uint64_t count);
    void (*split)(const float *weight, uint16_t *high, int16_t *low, uint64_t count);
    void (*join)(const uint16_t *high, const int16_t *low, float *weight, uint64_t count);
} lzt_optim_code;

extern const lzt_optim_code lzt__optim_code_v2, lzt__optim_code_avx2, lzt__optim_code_avx512;

#endif
