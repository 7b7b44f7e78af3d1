/* Evaluation and generation over an engine.
 *
 * Threads: one. Ownership: everything in the options is borrowed.
 */
#ifndef LAZYTRAIN_TRAIN_H
#define LAZYTRAIN_TRAIN_H

#include "lazytrain/run.h"

#include <signal.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- evaluation ---- */

typedef struct lzt_eval_result {
    double loss_sum;     /* of -log p over the loss-bearing tokens */
    uint64_t loss_count; /* of those */
    uint64_t rows;
    double seconds;
} lzt_eval_result;

/* The loss over every row of the dataset, rows a micro-batch; drains the engine first. rows x longest must fit the
 * engine's token capacity. stop may be NULL; when it becomes non-zero: LZT_ERR_INTERRUPTED. */
LZT_EXPORT lzt_status lzt_evaluate(lzt_engine *engine, lzt_dataset *dataset, uint64_t rows,
                                   const volatile sig_atomic_t *stop, lzt_eval_result *out, lzt_error *err);

/* ---- generation ---- */

/* Greedy continuation of prompt[count]: up to max_new ids into out, stopping at, and including, an end-of-sequence id.
 * count + max_new - 1 must fit the engine's token capacity. *made: how many. logits (may be NULL; needs an engine with
 * logits): those after the prompt, [vocabulary]. */
LZT_EXPORT lzt_status lzt_generate(lzt_engine *engine, const int32_t *prompt, uint64_t count, uint64_t max_new,
                                   int32_t *out, uint64_t *made, float *logits, lzt_error *err);

#ifdef __cplusplus
}
#endif
#endif
