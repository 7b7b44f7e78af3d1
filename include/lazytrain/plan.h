/* The plan: where every object of the training step lives. Plain data: printable, diffable, editable, checkable.
 *
 * lzt_plan is what plan.json holds. `numerics` decides the numbers a run computes (plans with equal numerics give
 * bit-identical weights); everything else decides only where bytes lie and when they move. The step compiler turns a
 * plan into a program; the checker (lzt_plan_check) verifies it without knowing how it was found.
 *
 * Boundaries are 0..N: boundary i is the input of layer i, boundary N the output of the last. A recomputed boundary is
 * rebuilt in backward from the nearest kept one before it. `internals` are the layers whose intermediate activations
 * stay on the device, so that backward does not run them forward again. `weights` are the layers whose weights stay on
 * the device from their first use in a step to their last; the others are uploaded once in forward and once in
 * backward.
 *
 * Threads: plain data. Ownership: lzt_plan_fini frees what init or read made.
 */
#ifndef LAZYTRAIN_PLAN_H
#define LAZYTRAIN_PLAN_H

#include "lazytrain/dtype.h"
#include "lazytrain/model.h"
#include "lazytrain/status.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lzt_tier { LZT_TIER_GPU = 0, LZT_TIER_CPU, LZT_TIER_NVME, LZT_TIER_RECOMPUTE, LZT_TIER_COUNT } lzt_tier;

/* "gpu", "cpu", "nvme", "recompute". Never NULL. */
LZT_EXPORT const char *lzt_tier_name(lzt_tier tier);

typedef struct lzt_numerics {
    uint64_t micro_batch_tokens; /* token capacity of a micro-batch */
    uint64_t loss_chunk;         /* tokens whose logits are held at once */
    uint64_t attention_tile;     /* query rows a block; 0: the kernel's own */
    uint64_t threads;            /* of the compute lane */
    lzt_dtype dtype;             /* weights and activations: F32 or BF16 */
    lzt_dtype grad_dtype;        /* gradients as they leave the device and are added on the host: F32 or BF16 */
} lzt_numerics;

typedef struct lzt_problem lzt_problem; /* the source's model: see lazytrain/solve.h */

typedef struct lzt_plan {
    /* the model it belongs to */
    uint64_t model_fingerprint;
    uint64_t layer_count;
    char model_name[256];

    lzt_numerics numerics;

    lzt_tier *boundary;       /* [layer_count + 1] */
    bool *internals;          /* [layer_count] */
    bool *weights;            /* [layer_count] */
    bool head_weights;        /* the head's table stays from micro-batch to micro-batch */
    uint64_t prefetch_layers; /* units whose upload may be in flight ahead of compute: >= 1 */
    uint64_t gradient_slots;  /* device buffers for a layer's gradients: >= 1 */

    /* what the compiler promised when the plan was written; 0 where it was not compiled */
    uint64_t device_bytes, host_bytes, nvme_bytes;
    uint64_t layer_forwards; /* per micro-batch */
    uint64_t weight_uploads; /* decoder layers' uploads per micro-batch */
} lzt_plan;

/* An all-on-device plan for a model of layer_count layers. Errors: LZT_ERR_NO_MEMORY. */
LZT_EXPORT lzt_status lzt_plan_init(lzt_plan *plan, uint64_t layer_count, lzt_error *err);
LZT_EXPORT void lzt_plan_fini(lzt_plan *plan); /* a zeroed plan is allowed */
LZT_EXPORT lzt_status lzt_plan_copy(lzt_plan *to, const lzt_plan *from, lzt_error *err);

/* Reads and writes plan.json. Unknown keys, duplicate keys and wrong types are LZT_ERR_USAGE with the key. */
LZT_EXPORT lzt_status lzt_plan_read(const char *path, lzt_plan *plan, lzt_error *err);
LZT_EXPORT lzt_status lzt_plan_write(const char *path, const lzt_plan *plan, lzt_error *err);

/* The plan is well-formed and belongs to the model: fingerprint, counts, tiers, ends on the device, numerics in range.
 * Errors: LZT_ERR_USAGE with plan value and model value. */
LZT_EXPORT lzt_status lzt_plan_match(const lzt_plan *plan, const lzt_model_info *model, lzt_error *err);

/* Layer forwards of one micro-batch: N + the recomputed boundaries + the layers without kept internals. */
LZT_EXPORT uint64_t lzt_plan_layer_forwards(const lzt_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
