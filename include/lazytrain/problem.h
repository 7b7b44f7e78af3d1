/* The source's planning problem as data, and the checker that knows only its constraints.
 *
 * The problem (spec: LAZY-Train v4, section 1): for every layer boundary 0..N decide whether its activation is kept as
 * a checkpoint on the GPU, in CPU memory, on NVMe, or recomputed. Boundary i is the input of layer i; layer i spans
 * boundaries i and i + 1. Two neighbouring checkpoints s < e form a block; backward runs the layers s..e-2 again and
 * layer e-1 in any case, so the block costs the times of the former. A transfer of boundary i may use any window (the
 * compute time of one layer) from i on; what does not fit is exposed.
 *
 * Everything is an exact integer: bytes, bytes per second, picoseconds. Exposed bytes become picoseconds once per pool,
 * rounded to nearest, so that solvers and checker agree to the last digit.
 *
 *     lzt_evaluation eval;
 *     lzt_problem_check(problem, plan.boundary, print_line, stderr, &eval, &err);
 *     if (!eval.violation_count) printf("%.5f ms\n", lzt_ms(eval.objective_ps));
 *
 * Threads: plain data. Ownership: lzt_problem_fini frees the arrays.
 */
#ifndef LAZYTRAIN_PROBLEM_H
#define LAZYTRAIN_PROBLEM_H

#include "lazytrain/status.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lzt_tier { LZT_TIER_GPU = 0, LZT_TIER_CPU, LZT_TIER_NVME, LZT_TIER_RECOMPUTE, LZT_TIER_COUNT } lzt_tier;

/* "gpu", "cpu", "nvme", "recompute". Never NULL. */
LZT_EXPORT const char *lzt_tier_name(lzt_tier tier);

/* The shared links. An NVMe checkpoint uses all four, a CPU checkpoint the first two. */
typedef enum lzt_pool {
    LZT_POOL_D2H = 0,
    LZT_POOL_H2D,
    LZT_POOL_NVME_WRITE,
    LZT_POOL_NVME_READ,
    LZT_POOL_COUNT
} lzt_pool;

/* "d2h", "h2d", "nvme_write", "nvme_read". Never NULL. */
LZT_EXPORT const char *lzt_pool_name(lzt_pool pool);

#define LZT_PROBLEM_LAYERS_MAX UINT64_C(65536)

typedef struct lzt_problem {
    uint64_t layer_count;                   /* N */
    uint64_t max_segment;                   /* longest block, in layers: >= 1 */
    uint64_t budget_bytes[3];               /* by tier: GPU, CPU, NVMe (0 where NVMe is not enabled) */
    uint64_t bytes_per_s[LZT_POOL_COUNT];   /* >= 1 */
    bool overlap_aware_pcie;                /* D2H and H2D: only what does not fit the windows is charged; else all */
    bool overlap_aware_nvme;                /* the same for the drive */
    uint64_t tiebreak_ps;                   /* per NVMe checkpoint */
    uint64_t penalty_ps;                    /* per checkpoint */
    bool lock_edges;                        /* the checkpoints are exactly locked_checkpoint */
    bool lock_gpu;                          /* the GPU checkpoints are exactly locked_gpu */
    uint64_t *boundary_bytes;               /* [N + 1] activation of each boundary */
    uint64_t *recompute_ps;                 /* [N] forward time of each layer */
    uint64_t *window_bytes[LZT_POOL_COUNT]; /* [N] what a pool can carry under each layer */
    uint64_t *mandatory_bytes[2];           /* [N] gradients down (D2H), parameters up (H2D), in their own window */
    bool *locked_checkpoint;                /* [N + 1] */
    bool *locked_gpu;                       /* [N + 1] */
    uint64_t overdrawn_bytes;               /* by which the GPU's budget, 0 then, is below zero: for what is missing */
} lzt_problem;

/* Zeroed arrays for layer_count layers, no locks, max_segment 1, bandwidths 1. Errors: USAGE (count), NO_MEMORY. */
LZT_EXPORT lzt_status lzt_problem_init(lzt_problem *problem, uint64_t layer_count, lzt_error *err);
LZT_EXPORT void lzt_problem_fini(lzt_problem *problem); /* a zeroed problem is allowed */
LZT_EXPORT lzt_status lzt_problem_copy(lzt_problem *to, const lzt_problem *from, lzt_error *err);

/* Values in range, and small enough together that no sum of bytes or picoseconds overflows 62 bits.
 * Errors: LZT_ERR_USAGE naming the field. */
LZT_EXPORT lzt_status lzt_problem_validate(const lzt_problem *problem, lzt_error *err);

/* What a placement costs and uses, recomputed from the constraints alone. */
typedef struct lzt_evaluation {
    uint64_t count[LZT_TIER_COUNT]; /* boundaries by tier */
    uint64_t block_count;
    uint64_t used_bytes[3];
    uint64_t exposed_bytes[LZT_POOL_COUNT]; /* mandatory overflow included */
    uint64_t exposed_ps[LZT_POOL_COUNT];
    uint64_t recompute_ps, tiebreak_ps, penalty_ps;
    uint64_t objective_ps; /* the sum of the above */
    uint64_t violation_count;
} lzt_evaluation;

typedef void lzt_violation_fn(void *arg, const char *line);

/* Checks a placement, boundary[N + 1], against every constraint. Each broken one goes to note (may be NULL), one line
 * each, and is counted; a broken placement is not an error of the call. Errors: LZT_ERR_USAGE from validate. */
LZT_EXPORT lzt_status lzt_problem_check(const lzt_problem *problem, const lzt_tier *boundary, lzt_violation_fn *note,
                                        void *arg, lzt_evaluation *evaluation, lzt_error *err);

/* One window of one pool when every transfer runs as early as it can. */
typedef struct lzt_window {
    uint64_t capacity_bytes, mandatory_bytes, activation_bytes, exposed_bytes;
} lzt_window;

/* Fills window[N] for a pool: activations take free capacity in order, the rest of the last window is exposed. */
LZT_EXPORT void lzt_problem_windows(const lzt_problem *problem, const lzt_tier *boundary, lzt_pool pool,
                                    lzt_window *window);

/* bytes at a pool's bandwidth, in picoseconds, rounded to nearest. */
LZT_EXPORT uint64_t lzt_pool_ps(const lzt_problem *problem, lzt_pool pool, uint64_t bytes);

static inline double lzt_ms(uint64_t ps)
{
    return (double)ps / 1e9;
}

#ifdef __cplusplus
}
#endif
#endif
