/* The automatic plan: the best of a family of placements that fits the caps, by compiling candidates.
 *
 * The family is ordered by what it costs: keep the internals of as many layers as fit (a layer forward saved each),
 * then keep boundaries on the device rather than on the host, then keep weights on the device, then prefetch further;
 * the smallest gathers boundary 0 again from the ids. A candidate's memory is its compiled programs' own peak, so a
 * plan that is returned runs.
 *
 * Threads: pure. Ownership: the plan is the caller's.
 */
#ifndef LAZYTRAIN_AUTO_PLAN_H
#define LAZYTRAIN_AUTO_PLAN_H

#include "lazytrain/step.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The numerics of a run where the config leaves them unset: a function of the model, the dtype, the batch and the cores
 * alone. capacity: tokens of the largest micro-batch. */
LZT_EXPORT void lzt_numerics_default(const lzt_model_info *model, lzt_dtype dtype, uint64_t capacity,
                                     uint64_t accumulation, uint64_t threads, lzt_numerics *numerics);

typedef struct lzt_auto_options {
    const lzt_model_info *model;
    const lzt_numerics *numerics;
    const lzt_kern *kern;
    uint64_t micro_batches;                    /* of a step */
    uint64_t device_cap_bytes, host_cap_bytes; /* 0: no cap */
    bool training;
    const bool *frozen; /* [tensor_count] not trained (lzt_step_options); NULL: none */
    uint64_t *work;     /* grows by the tasks of every program that is compiled; NULL: not counted */
} lzt_auto_options;

/* Errors: LZT_ERR_NO_PLAN "device_cap: needs at least N bytes" (or host_cap), where N is the least of the family. */
LZT_EXPORT lzt_status lzt_auto_plan(const lzt_auto_options *options, lzt_plan *plan, lzt_error *err);

/* The largest peak over the program variants that a run of the plan needs; also fills the plan's promises. */
LZT_EXPORT lzt_status lzt_plan_measure(const lzt_auto_options *options, lzt_plan *plan,
                                       uint64_t peak_bytes[LZT_SPACE_COUNT], lzt_error *err);

/* The cache that generation gets under the caps: as many of wanted's sequences as fit, at least one. wanted.length and
 * wanted.prompt_tokens (the longest prompt) stay what they are or grow; keep_weights is chosen. Where there is no cap,
 * all sequences fit. Errors: LZT_ERR_NO_PLAN "device_cap: needs at least N bytes", where N serves one sequence. */
LZT_EXPORT lzt_status lzt_cache_fit(const lzt_auto_options *options, const lzt_plan *plan,
                                    const lzt_cache_shape *wanted, lzt_cache_shape *shape, lzt_error *err);

#ifdef __cplusplus
}
#endif
#endif
