/* The plan: where every object of the training step lives. Plain data: printable, diffable, editable, checkable.
 *
 * lzt_plan is what plan.json holds. `numerics` decides the numbers a run computes (plans with equal numerics give
 * bit-identical weights); everything else decides only where bytes lie and when they move. The step compiler turns a
 * plan into a program; the checker (lzt_plan_check) verifies it without knowing how it was found.
 *
 *     lzt_plan plan;
 *     if (lzt_plan_read("plan.json", &plan, &err) || lzt_plan_match(&plan, model_info, &err)) ...
 *     lzt_plan_fini(&plan);
 *
 * Boundaries are 0..N: boundary i is the input of layer i, boundary N the output of the last. A recomputed boundary is
 * rebuilt in backward from the nearest kept one before it; a recomputed boundary 0 from the batch's ids. `internals`
 * says where a layer's intermediate activations wait for its backward: on the device (GPU), on the host (CPU: down
 * after its forward, up ahead of its backward), or nowhere (RECOMPUTE: backward runs the layer forward again).
 * `weights` are the layers whose weights stay on the device from their first use in a step to their last; the others
 * are uploaded once in forward and once in backward.
 *
 * Threads: plain data. Ownership: lzt_plan_fini frees what init, copy or read made.
 */
#ifndef LAZYTRAIN_PLAN_H
#define LAZYTRAIN_PLAN_H

#include "lazytrain/dtype.h"
#include "lazytrain/model.h"
#include "lazytrain/problem.h"
#include "lazytrain/status.h"
#include "lazytrain/step_model.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LZT_PLAN_VERSION     1
#define LZT_PLAN_BYTES_MAX   (UINT64_C(64) << 20)   /* a larger plan.json is refused */
#define LZT_PLAN_LAYERS_MAX  LZT_PROBLEM_LAYERS_MAX /* the same for its layers */
#define LZT_PLAN_NUMBERS_MAX (UINT64_C(1) << 62)    /* and for any number in it */
#define LZT_PLAN_STAGES_MAX  64                     /* the most stages that a layer's internals move under */

typedef struct lzt_numerics {
    uint64_t micro_batch_tokens; /* token capacity of a micro-batch */
    uint64_t loss_chunk;         /* tokens whose logits are held at once */
    uint64_t attention_tile;     /* query rows a block; 0: the kernel's own */
    uint64_t threads;            /* of the compute lane; 0: not decided yet */
    lzt_dtype dtype;             /* weights and activations: F32 or BF16 */
    lzt_dtype grad_dtype;        /* gradients as they leave the device and are added on the host: F32 or BF16 */
    uint64_t layer_splits; /* parts of the micro-batch that go through a layer one after the other, under one upload of
                              its weights; 0 and 1: whole */
} lzt_numerics;

/* Training state of a streaming unit (model.h: 0 embedding, 1..N layers, N+1 final norm, N+2 head). */
typedef enum lzt_state_object {
    LZT_STATE_WEIGHTS = 0,
    LZT_STATE_GRADIENTS,
    LZT_STATE_MASTER,
    LZT_STATE_MOMENTS,
    LZT_STATE_COUNT
} lzt_state_object;

/* "weights", "gradients", "master", "moments". Never NULL. */
LZT_EXPORT const char *lzt_state_name(lzt_state_object object);

typedef struct lzt_state_place {
    lzt_state_object object;
    uint64_t unit;
    lzt_tier tier; /* CPU or NVME */
} lzt_state_place;

/* How a plan was found. */
typedef enum lzt_plan_status {
    LZT_PLAN_NOT_SOLVED = 0,
    LZT_PLAN_OPTIMAL,    /* proven */
    LZT_PLAN_FEASIBLE,   /* limit reached; bound_ps is proven */
    LZT_PLAN_INFEASIBLE, /* proven: no plan fits */
    LZT_PLAN_LIMIT       /* limit reached without a plan */
} lzt_plan_status;

/* "not solved", "optimal", "feasible", "infeasible", "limit". Never NULL. */
LZT_EXPORT const char *lzt_plan_status_name(lzt_plan_status status);

/* Which limit a search reached: of work, which is counted, so that any machine stops at the same place; or of time. */
typedef enum lzt_plan_cut { LZT_PLAN_CUT_NONE = 0, LZT_PLAN_CUT_WORK, LZT_PLAN_CUT_CLOCK } lzt_plan_cut;

/* What a plan of the source's model was derived from, beyond the problem itself: the rows of its tables. Memory is in
 * GiB, bandwidth in 10^9 B/s, as the source prints them. */
typedef struct lzt_plan_source {
    uint64_t batch_size, max_seq_len, dtype_bytes;
    double peak_cap_gib;
    bool nvme_enabled, cpu_staging; /* false: gds */
    char optimizer_mode[64];        /* "" : none */
    double optimizer_8bit_fraction, optimizer_step_s;
    char reference[256];       /* path of the reference schedule, or "" */
    char topology[256];        /* path of the topology that the rank's rates and budgets come from, or "" */
    uint64_t rank, world_size; /* with a topology: rank < world_size */
} lzt_plan_source;

typedef struct lzt_plan {
    /* the model it belongs to */
    uint64_t model_fingerprint;
    uint64_t layer_count;
    char model_name[256];

    lzt_numerics numerics;

    lzt_tier *boundary;       /* [layer_count + 1] */
    lzt_tier *internals;      /* [layer_count] NVME is refused when the plan is run */
    bool *weights;            /* [layer_count] */
    bool head_weights;        /* the head's table stays from micro-batch to micro-batch */
    uint64_t prefetch_layers; /* units whose upload may be in flight ahead of compute: >= 1 */
    uint64_t gradient_slots;  /* device buffers for a layer's gradients: >= 1 */
    uint64_t
        internals_stages; /* layers' passes under which a layer's internals leave, and return: 1 to the limit above */

    lzt_state_place *state; /* [state_count] ordered by unit, then object; what is not listed lives on the CPU */
    uint64_t state_count;

    /* what the compiler promised when the plan was written; 0 where it was not compiled */
    uint64_t device_bytes, host_bytes, nvme_bytes;
    uint64_t layer_forwards; /* per micro-batch */
    uint64_t weight_uploads; /* decoder layers' uploads per micro-batch */

    /* how it was found: only in plans of a solver */
    lzt_plan_status status;
    lzt_plan_cut cut;                /* of FEASIBLE plans of the real step */
    char solver[16];                 /* "dp", "highs", "step" */
    uint64_t objective_ps, bound_ps; /* as the solver stated them; the checker recomputes the first */
    double solve_seconds;
    lzt_problem *problem; /* the source's model, owned; NULL in other plans */
    lzt_plan_source source;
    lzt_step_model *step; /* the real step's, owned; NULL in other plans. The objective is then the simulated step */
} lzt_plan;

/* A plan for layer_count layers with every boundary on the device, no internals and no weights: numerics zero but for
 * F32, one prefetched layer, one gradient slot. Errors: LZT_ERR_USAGE (no layers, or too many), LZT_ERR_NO_MEMORY. */
LZT_EXPORT lzt_status lzt_plan_init(lzt_plan *plan, uint64_t layer_count, lzt_error *err);
LZT_EXPORT void lzt_plan_fini(lzt_plan *plan); /* a zeroed plan is allowed */
LZT_EXPORT lzt_status lzt_plan_copy(lzt_plan *to, const lzt_plan *from, lzt_error *err);

/* The fixed-interval plan: boundaries 0, k, 2k, ..., N on the device, the others recomputed, no internals, no weights
 * kept. Errors: LZT_ERR_USAGE when checkpoint_interval is 0, LZT_ERR_NO_MEMORY. */
LZT_EXPORT lzt_status lzt_plan_baseline(const lzt_model_info *model, const lzt_numerics *numerics,
                                        uint64_t checkpoint_interval, lzt_plan *plan, lzt_error *err);

/* Reads and writes plan.json. Unknown and duplicate keys, wrong types, indices out of order and negative numbers are
 * LZT_ERR_USAGE with the file and the key's path. On error *plan is zeroed. write publishes by one rename: an existing
 * file stays as it is until the new one is complete. Errors of the disk: LZT_ERR_STORAGE. blocks: on disk */
LZT_EXPORT lzt_status lzt_plan_read(const char *path, lzt_plan *plan, lzt_error *err);
LZT_EXPORT lzt_status lzt_plan_write(const char *path, const lzt_plan *plan, lzt_error *err);

/* The same from and to memory. where names the text in messages. *text is NUL-terminated; the caller frees it. */
LZT_EXPORT lzt_status lzt_plan_parse(const char *text, uint64_t text_bytes, const char *where, lzt_plan *plan,
                                     lzt_error *err);
LZT_EXPORT lzt_status lzt_plan_print(const lzt_plan *plan, char **text, lzt_error *err);

/* The plan is well-formed and belongs to the model: fingerprint, counts, tiers, ends on the device, numerics in range.
 * Errors: LZT_ERR_USAGE with plan value and model value. */
LZT_EXPORT lzt_status lzt_plan_match(const lzt_plan *plan, const lzt_model_info *model, lzt_error *err);

/* Every constraint that the plan itself can be held to, without its model: ends on the device, block structure and, in
 * a plan with a problem, all of lzt_problem_check; in a plan of the real step, that bytes and times are no less than
 * what its placement adds up to, and within the caps. Broken ones go to note (may be NULL) and are counted in
 * evaluation->violation_count. Errors: LZT_ERR_USAGE when the problem itself is malformed. */
LZT_EXPORT lzt_status lzt_plan_check(const lzt_plan *plan, lzt_violation_fn *note, void *arg,
                                     lzt_evaluation *evaluation, lzt_error *err);

/* What a plan must hold before it is run, simulated or followed: its problem's constraints, or the ends where it has
 * none. What it states of times and peaks may be out of date, as after an edit. Errors: LZT_ERR_USAGE, with where and
 * the first constraint that it breaks. */
LZT_EXPORT lzt_status lzt_plan_require(const lzt_plan *plan, const char *where, lzt_error *err);

/* What `lazytrain plan` prints of a plan with a problem: every row of the source's result tables. explain adds, for
 * any plan, the boundaries by tier and what a person needs to check it by hand: budgets and use, and what each window
 * of each pool carries when transfers run as early as they can. *text is NUL-terminated; the caller frees it. */
LZT_EXPORT lzt_status lzt_plan_table(const lzt_plan *plan, char **text, lzt_error *err);
LZT_EXPORT lzt_status lzt_plan_explain(const lzt_plan *plan, char **text, lzt_error *err);

/* Layer forwards of one micro-batch: N + the recomputed boundaries + the layers whose internals are made again.
 */
LZT_EXPORT uint64_t lzt_plan_layer_forwards(const lzt_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
