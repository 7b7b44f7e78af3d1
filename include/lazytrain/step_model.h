/* The real step as data: what each part of a training step costs on each lane, and holds in each memory. Beside the
 * source's problem (problem.h), which knows recompute, one window a layer and activations alone.
 *
 * Times are those that a profile gives the tasks of the compiled program, in picoseconds, of one micro-batch; a plan's
 * totals follow by adding what its placement does, so that a plan is checked by hand: see `lazytrain explain`. A step
 * has two windows, each with the traffic that really runs in it:
 *
 *     forward    compute: layer forwards              h2d: weights            d2h: boundaries and internals that
 *                host: the pending optimizer step                                  leave
 *     backward   compute: head, forwards again,       h2d: head's table,      d2h: gradients
 *                recomputed layers, backwards         weights not kept,
 *                host: norms, sums of gradients       boundaries and internals that return
 *
 * The sums bound the step's time from below. No lane does its work in less; and the loss lies between the windows:
 * before it come the forward's compute, every forward upload and every update of a weight, after it the backward's
 * compute, every gradient's way down and every norm. (Boundaries and internals may still leave, and backward's uploads
 * already come, on the other side of it.) So bound_ps is the longest lane, or the longest of those before plus the
 * longest of those after. Under a cap there is more: what leaves in forward and has not left at the loss, and what has
 * come back already, holds device memory then (`hold`); the rest of those copies is before and after it, too. The
 * surrogate's bound counts that.
 *
 * Memory: `least_bytes` is what is alive at one moment, the head's, at the very least. The peak of a plan is its
 * compiled program's own, never less.
 *
 * Threads: plain data. Ownership: lzt_step_model_fini frees what init or copy made. */
#ifndef LAZYTRAIN_STEP_MODEL_H
#define LAZYTRAIN_STEP_MODEL_H

#include "lazytrain/problem.h"
#include "lazytrain/status.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lzt_step_lane {
    LZT_STEP_COMPUTE = 0,
    LZT_STEP_H2D,
    LZT_STEP_D2H,
    LZT_STEP_HOST, /* gradient sums, norms, the optimizer */
    LZT_STEP_LANE_COUNT
} lzt_step_lane;

typedef enum lzt_step_window { LZT_STEP_FORWARD = 0, LZT_STEP_BACKWARD, LZT_STEP_WINDOW_COUNT } lzt_step_window;

enum { LZT_STEP_DEVICE = 0, LZT_STEP_RAM, LZT_STEP_MEMORY_COUNT };

/* "compute", "h2d", "d2h", "cpu_optimizer"; "forward", "backward". Never NULL. */
LZT_EXPORT const char *lzt_step_lane_name(lzt_step_lane lane);
LZT_EXPORT const char *lzt_step_window_name(lzt_step_window window);

typedef struct lzt_step_layer {
    uint64_t forward_ps;   /* in forward */
    uint64_t again_ps;     /* once more ahead of backward, where internals are not kept; without the layer's output */
    uint64_t recompute_ps; /* once more, whole, where the boundary behind it is recomputed */
    uint64_t backward_ps;
    uint64_t upload_ps;   /* its weights */
    uint64_t gradient_ps; /* its gradients, down */
    uint64_t internals_bytes, weight_bytes;
    uint64_t internals_down_ps, internals_up_ps; /* its internals, to the host and back */
} lzt_step_layer;

/* A copy of some bytes takes at most as many of them times ps_per_gib, and all copies of a step together slack_ps more:
 * how much of a window's copies can lie on the other side of the loss, where they hold device memory meanwhile.
 * ps_per_gib 0: not known. */
typedef struct lzt_step_hold {
    uint64_t ps_per_gib, slack_ps;
} lzt_step_hold;

typedef struct lzt_step_model {
    uint64_t layer_count, micro_batches;
    lzt_step_layer *layer;                                         /* [layer_count] */
    uint64_t boundary_bytes, boundary_down_ps, boundary_up_ps;     /* of one boundary */
    uint64_t fixed_ps[LZT_STEP_WINDOW_COUNT][LZT_STEP_LANE_COUNT]; /* of a whole step, wherever objects lie */
    uint64_t edge_ps[LZT_STEP_WINDOW_COUNT];   /* in any plan compute waits before the loss, and after its last layer */
    lzt_step_hold hold[LZT_STEP_WINDOW_COUNT]; /* what leaves in forward, and returns in backward */
    uint64_t floor_bytes[LZT_STEP_MEMORY_COUNT]; /* the same: at the head; state and staging */
    uint64_t cap_bytes[LZT_STEP_MEMORY_COUNT];   /* 0: none */
    uint64_t
        waits_ps[LZT_STEP_LANE_COUNT]; /* of the simulated step: compute at work, and waiting for each other lane */
    uint64_t surrogate_ps;             /* no plan under the caps has a bound below it */
    char machine[128];                 /* where the times come from */
} lzt_step_model;

/* What a placement sums up to. */
typedef struct lzt_step_sum {
    uint64_t window_ps[LZT_STEP_WINDOW_COUNT][LZT_STEP_LANE_COUNT];
    uint64_t lane_ps[LZT_STEP_LANE_COUNT]; /* both windows */
    uint64_t bound_ps;                     /* the step takes at least this: see the top */
    uint64_t windows_ps;                   /* each window as long as its longest lane: what ranks candidates */
    uint64_t least_bytes[LZT_STEP_MEMORY_COUNT];
} lzt_step_sum;

/* layer_count layers of zeros. Errors: LZT_ERR_USAGE (none, or too many), LZT_ERR_NO_MEMORY. */
LZT_EXPORT lzt_status lzt_step_model_init(lzt_step_model *model, uint64_t layer_count, lzt_error *err);
LZT_EXPORT void lzt_step_model_fini(lzt_step_model *model); /* a zeroed one is allowed */
LZT_EXPORT lzt_status lzt_step_model_copy(lzt_step_model *to, const lzt_step_model *from, lzt_error *err);

/* Numbers in range, so that no sum overflows. Errors: LZT_ERR_USAGE with the key. */
LZT_EXPORT lzt_status lzt_step_model_validate(const lzt_step_model *model, lzt_error *err);

/* Adds up a placement: tiers [layer_count + 1], internals and weights [layer_count]. Exact. What lies on nvme counts as
 * on the host. */
LZT_EXPORT void lzt_step_model_sum(const lzt_step_model *model, const lzt_tier *boundary, const lzt_tier *internals,
                                   const bool *weights, lzt_step_sum *sum);

#ifdef __cplusplus
}
#endif
#endif
