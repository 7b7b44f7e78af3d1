/* The engine: runs step programs on a device, and holds the training state in its host arena.
 *
 * An engine is made for one model, one plan and one device. It compiles every program variant before the first step,
 * reserves exactly the bytes they need, and refuses a device whose cap they exceed. After that it makes no decisions:
 * it submits tasks in program order and measures.
 *
 *     lzt_engine_create(&options, &engine, &err);
 *     lzt_engine_load(engine, &err);                              weights from the model directory
 *     lzt_engine_set_batch(engine, &micro_batch, loss_scale);     each micro-batch
 *     lzt_engine_run(engine, LZT_VARIANT_SINGLE, &result, &err);
 *     lzt_engine_drain(engine, &err);                             before anyone reads weights or moments
 *
 * The optimizer step of a step's gradients runs at the start of the next FIRST or SINGLE program, under its forward, or
 * in drain. lzt_engine_pending says whether one is outstanding.
 *
 * Threads: one thread calls. Ownership: the engine owns device and kernels given to it; the model is borrowed.
 */
#ifndef LAZYTRAIN_RUN_H
#define LAZYTRAIN_RUN_H

#include "lazytrain/data.h"
#include "lazytrain/step.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lzt_engine lzt_engine;

typedef struct lzt_engine_options {
    uint64_t struct_bytes;
    const lzt_model *model;  /* borrowed */
    const lzt_plan *plan;    /* copied */
    lzt_dev *dev;            /* owned by the engine, also when create fails */
    lzt_kern *kern;          /* the same */
    bool training;           /* false: EVALUATE and generation only, no gradients and moments */
    lzt_cache_shape cache;   /* of generation; 0 sequences: PREFILL and DECODE are not compiled */
    bool logits;             /* PREFILL and DECODE bring document 0's logits back */
    uint64_t micro_batches;  /* of a step, at most */
    int32_t drop_dependency; /* tests: leave out this dependency of SINGLE; -1: none */
    const bool *frozen;      /* [tensor_count] copied; not trained: no update, no part in the norm. NULL: none */
} lzt_engine_options;

#define LZT_ENGINE_OPTIONS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(lzt_engine_options), NULL, NULL, NULL, NULL, true, {0, 0, 0, false}, false, 1, -1, NULL                 \
    }

typedef struct lzt_run_result {
    double loss_sum;     /* of weight * -log p over the micro-batch's loss-bearing tokens */
    double grad_norm;    /* SINGLE, LAST: before clipping */
    bool finite;         /* SINGLE, LAST: the norm is */
    const int32_t *ids;  /* PREFILL, DECODE: the next one of each document. Borrowed until the next run */
    const float *logits; /* the same with logits: those of document 0 */
    lzt_account account;
} lzt_run_result;

typedef enum lzt_state_part {
    LZT_STATE_PART_MASTER = 0,
    LZT_STATE_PART_EXP_AVG,
    LZT_STATE_PART_EXP_AVG_SQ,
    LZT_STATE_PART_GRADIENT
} lzt_state_part;

/* Errors: LZT_ERR_NO_PLAN when the plan needs more than the device's cap (the hint names the bytes), and those of
 * compiling and reserving. */
LZT_EXPORT lzt_status lzt_engine_create(const lzt_engine_options *options, lzt_engine **engine, lzt_error *err);
LZT_EXPORT void lzt_engine_destroy(lzt_engine *engine); /* NULL is allowed */

/* Weights from the model directory; moments to zero. */
LZT_EXPORT lzt_status lzt_engine_load(lzt_engine *engine, lzt_error *err);

/* One tensor of the state as F32, both ways. Nothing may be running, no update pending. The master of a BF16 plan is
 * exact (hi and lo joined). */
LZT_EXPORT lzt_status lzt_engine_read(const lzt_engine *engine, lzt_state_part part, uint32_t tensor, float *out,
                                      lzt_error *err);
LZT_EXPORT lzt_status lzt_engine_write(lzt_engine *engine, lzt_state_part part, uint32_t tensor, const float *in,
                                       lzt_error *err);
/* The weight as the device sees it: the BF16 half of a BF16 plan, the F32 weight else. */
LZT_EXPORT lzt_status lzt_engine_read_weight(const lzt_engine *engine, uint32_t tensor, float *out, lzt_error *err);

/* The micro-batch that runs next. capacity of the arrays and counts as lzt_micro_batch has them. loss_scale: 1 / the
 * sum of weights over the global batch. */
LZT_EXPORT void lzt_engine_set_batch(lzt_engine *engine, const lzt_micro_batch *batch, float loss_scale);
/* The documents that PREFILL or DECODE runs next: document d belongs to sequence[d] of the cache, 0 .. sequences-1,
 * each at most once. PREFILL: whole prompts, positions from 0; what their sequences held is forgotten. DECODE: one
 * token each, at the position behind its sequence's last. Targets are not read. */
LZT_EXPORT void lzt_engine_set_sequences(lzt_engine *engine, lzt_variant variant, const lzt_micro_batch *batch,
                                         const int32_t *sequence);
/* The optimizer's settings for the step that begins: before its FIRST or SINGLE. */
LZT_EXPORT void lzt_engine_set_scalars(lzt_engine *engine, const lzt_step_scalars *scalars);

/* DECODE follows a PREFILL, with nothing but DECODE and PREFILL in between: other programs use the cache's bytes.
 * blocks: until the program has completed */
LZT_EXPORT lzt_status lzt_engine_run(lzt_engine *engine, lzt_variant variant, lzt_run_result *result, lzt_error *err);
/* The pending optimizer step, if there is one; account may be NULL. */
LZT_EXPORT lzt_status lzt_engine_drain(lzt_engine *engine, lzt_account *account, lzt_error *err);
LZT_EXPORT bool lzt_engine_pending(const lzt_engine *engine);
/* Forgets the pending step: its gradients are not applied. */
LZT_EXPORT void lzt_engine_abandon(lzt_engine *engine);

typedef struct lzt_engine_info {
    const lzt_plan *plan;
    const lzt_model_info *model;
    uint64_t planned_bytes[LZT_SPACE_COUNT]; /* the largest peak over the compiled variants */
    uint64_t state_bytes;                    /* weights, gradients and moments on the host */
    const bool *frozen;                      /* [model->tensor_count] not trained: their moments stay zero */
    lzt_cache_shape cache;
} lzt_engine_info;

LZT_EXPORT void lzt_engine_get_info(const lzt_engine *engine, lzt_engine_info *info);
LZT_EXPORT lzt_dev *lzt_engine_dev(const lzt_engine *engine); /* borrowed */
/* A compiled program, or NULL; and the start and end of its tasks in the last run (seconds since its first submit).
 * start and end may be NULL. */
LZT_EXPORT const lzt_program *lzt_engine_program(const lzt_engine *engine, lzt_variant variant, bool update);
/* Whether that program has run since the engine was made. */
LZT_EXPORT bool lzt_engine_has_run(const lzt_engine *engine, lzt_variant variant, bool update);
LZT_EXPORT void lzt_engine_times(const lzt_engine *engine, lzt_variant variant, bool update, double *start,
                                 double *end);

#ifdef __cplusplus
}
#endif
#endif
