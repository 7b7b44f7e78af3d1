/* The CPU optimizer: squared norm, gradient addition, AdamW over state in host memory, learning-rate schedules.
 *
 *     lzt_optim_create(&options, &optim, &err);
 *     norm = sqrt(sum over tensors, in a fixed order, of lzt_optim_sqnorm(optim, dtype, grad, count));
 *     lzt_optim_step_init(&step, lr, beta1, beta2, eps, t);
 *     step.clip_factor = lzt_optim_clip_factor(norm, max_norm);
 *     lzt_optim_adamw(optim, &run, &step);                     for each run of elements with one weight decay
 *
 * A step's scalars lie in a small struct that every run reads, so that nothing of a task changes from step to step.
 *
 * Numerics: elements are independent and every element goes through the same instructions, so results do not depend on
 * how tensors are cut into runs, nor on the number of threads. They may depend on the instruction set (fused
 * multiply-add). Sums are in double over fixed blocks in a fixed order: the same on every machine.
 *
 * Threads: one call at a time per handle; each call uses the handle's team and returns when all is done. Memory:
 * nothing is allocated after create. Buffers need only their elements' alignment and must not overlap.
 */
#ifndef LAZYTRAIN_OPTIM_H
#define LAZYTRAIN_OPTIM_H

#include "lazytrain/dtype.h"
#include "lazytrain/status.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lzt_optim lzt_optim;

typedef struct lzt_optim_options {
    uint64_t struct_bytes;
    uint32_t threads; /* 0: the cores of this process's affinity mask */
    const char *isa;  /* as in lzt_kern_cpu_options */
} lzt_optim_options;

#define LZT_OPTIM_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(lzt_optim_options), 0, NULL                                                                             \
    }

/* Errors: LZT_ERR_USAGE (an instruction set that this CPU lacks, too many threads), NO_MEMORY. */
LZT_EXPORT lzt_status lzt_optim_create(const lzt_optim_options *options, lzt_optim **optim, lzt_error *err);
LZT_EXPORT void lzt_optim_destroy(lzt_optim *optim); /* NULL is allowed */
/* "avx512 2 threads" */
LZT_EXPORT const char *lzt_optim_description(const lzt_optim *optim);

/* How a run keeps its F32 master weight. */
typedef enum lzt_master {
    LZT_MASTER_SPLIT = 0, /* the halves of dtype.h: uint16 hi (the BF16 weight that is uploaded), int16 lo */
    LZT_MASTER_F32        /* float; also tensors that the model keeps in F32 */
} lzt_master;

/* A step's scalars. */
typedef struct lzt_optim_step {
    double lr;
    double clip_factor; /* multiplies every gradient; 1: none */
    double beta1, beta2, eps;
    double bias_correction1, bias_correction2; /* 1 - beta^t, t = 1 in the first step */
    uint32_t skip;                             /* not 0: the step changes nothing (non-finite gradients) */
    uint32_t reserved;
} lzt_optim_step;

/* Fills a step: clip factor 1, no skip. t counts from 1: the optimizer steps taken, this one included. */
LZT_EXPORT void lzt_optim_step_init(lzt_optim_step *step, double lr, double beta1, double beta2, double eps,
                                    uint64_t t);

/* min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_; 1 where max_norm is 0 (off). */
LZT_EXPORT double lzt_optim_clip_factor(double norm, double max_norm);

/* count elements that share a weight decay: a tensor, a part of one, or neighbours. */
typedef struct lzt_optim_run {
    lzt_master master;
    lzt_dtype grad_dtype; /* F32 or BF16 */
    uint64_t count;
    void *weight;        /* SPLIT: uint16 hi[count]; F32: float[count] */
    int16_t *low;        /* SPLIT: [count]; else NULL */
    uint16_t *bf16_copy; /* F32: the new weight rounded to BF16 [count], or NULL */
    const void *grad;    /* [count] */
    float *m, *v;        /* [count] */
    double weight_decay;
} lzt_optim_run;

/* One AdamW step (Loshchilov and Hutter 2019) in F32, in the order of PyTorch's single-tensor and fused code:
 *
 *     g *= clip;  w *= 1 - lr decay;  m += (g - m)(1 - beta1);  v = v beta2 + (1 - beta2) g^2
 *     w -= (lr / c1) m / (sqrt(v) / sqrt(c2) + eps)
 *
 * Coefficients are computed in double and rounded to F32. blocks: yes; allocates nothing */
LZT_EXPORT void lzt_optim_adamw(lzt_optim *optim, const lzt_optim_run *run, const lzt_optim_step *step);

/* The sum of squares of count values, F32 or BF16, in double: blocks of 4,096 by 16 lanes, then block after block. Not
 * finite exactly if a value is not: no finite F32 values overflow it. blocks: yes; allocates nothing */
LZT_EXPORT double lzt_optim_sqnorm(lzt_optim *optim, lzt_dtype dtype, const void *values, uint64_t count);

/* target += source, element by element. target F32 or BF16; source the same, or BF16. BF16 sums are formed in F32 and
 * rounded to nearest even. blocks: yes; allocates nothing */
LZT_EXPORT void lzt_optim_add(lzt_optim *optim, lzt_dtype target_dtype, void *target, lzt_dtype source_dtype,
                              const void *source, uint64_t count);

/* F32 to master halves, and back: bit for bit, NaN and infinity included. blocks: yes; allocates nothing */
LZT_EXPORT void lzt_optim_split(lzt_optim *optim, const float *weight, uint16_t *high, int16_t *low, uint64_t count);
LZT_EXPORT void lzt_optim_join(lzt_optim *optim, const uint16_t *high, const int16_t *low, float *weight,
                               uint64_t count);

/* Rows of an embedding: out[i] = table[ids[i]]. */
LZT_EXPORT void lzt_optim_gather_rows(const int32_t *ids, uint64_t count, const void *table, uint64_t row_bytes,
                                      void *out);
/* gradient[ids[i]] += rows[i][columns], F32 or BF16: the rows of an id are first summed in F32, in the order of i.
 * skip_id's rows are left out; negative: none. scratch: 8-byte aligned, scatter_scratch_bytes of it. */
LZT_EXPORT void lzt_optim_scatter_rows(const int32_t *ids, uint64_t count, int64_t skip_id, lzt_dtype dtype,
                                       const void *rows, lzt_dtype grad_dtype, void *gradient, uint64_t columns,
                                       void *scratch);
LZT_EXPORT uint64_t lzt_optim_scatter_scratch_bytes(uint64_t count, uint64_t columns);

/* Learning-rate schedules with the formulas of transformers' optimization.py (get_*_schedule*). */
typedef enum lzt_schedule_type {
    LZT_SCHEDULE_CONSTANT = 0,
    LZT_SCHEDULE_CONSTANT_WITH_WARMUP,
    LZT_SCHEDULE_LINEAR,
    LZT_SCHEDULE_COSINE,
    LZT_SCHEDULE_COSINE_WITH_RESTARTS,
    LZT_SCHEDULE_COSINE_WITH_MIN_LR,
    LZT_SCHEDULE_INVERSE_SQRT,
    LZT_SCHEDULE_POLYNOMIAL,
    LZT_SCHEDULE_WARMUP_STABLE_DECAY, /* linear warm-up, plateau, cosine decay */
    LZT_SCHEDULE_COUNT
} lzt_schedule_type;

/* 0 in a field after warmup_steps means the schedule's own value. */
typedef struct lzt_schedule {
    lzt_schedule_type type;
    double base_lr; /* > 0 where lr_end or min_lr is used */
    uint64_t total_steps, warmup_steps;
    double num_cycles;           /* cosine ones: 0.5; with_restarts: 1 */
    double min_lr, min_lr_ratio; /* cosine_with_min_lr, warmup_stable_decay: the lowest rate, absolute or as a share of
                                    base_lr; at most one is not 0 */
    double lr_end, power;        /* polynomial; lr_end < base_lr is 0 where it says 0 (the config's default is 1e-7);
                                    power: 1 */
    uint64_t timescale;          /* inverse_sqrt: warmup_steps, or 10,000 without warm-up */
    uint64_t stable_steps;       /* warmup_stable_decay: what warm-up and decay leave of total_steps */
    uint64_t decay_steps;        /* warmup_stable_decay: what warm-up and plateau leave of total_steps */
} lzt_schedule;

/* The rate of a step; step 0 is the first (with a warm-up its rate is 0, as in transformers). Pure. */
LZT_EXPORT double lzt_schedule_lr(const lzt_schedule *schedule, uint64_t step);
/* "cosine_with_min_lr", ... as lr_scheduler_type spells them. Never NULL. */
LZT_EXPORT const char *lzt_schedule_name(lzt_schedule_type type);
/* False: no schedule of that name. */
LZT_EXPORT bool lzt_schedule_from_name(const char *name, lzt_schedule_type *type);

#ifdef __cplusplus
}
#endif
#endif
