/* The exact dynamic programmes. */
#ifndef LZT_SOLVE_DP_H
#define LZT_SOLVE_DP_H

#include "lazytrain/solve.h"

/* What both programmes need to know of a problem, precomputed once. */
typedef struct lzt__solve_view {
    const lzt_problem *problem;
    uint64_t n;
    uint64_t *layer_prefix_ps;               /* [n + 1] time of the layers before i */
    uint64_t *free_suffix[LZT_POOL_COUNT];   /* [n + 1] free capacity of windows i..n-1; 0 where not overlap-aware */
    uint64_t overflow_bytes[LZT_POOL_COUNT]; /* mandatory bytes over their windows' capacity */
    uint64_t *next_required;                 /* [n + 1] the first boundary after i that must be a checkpoint */
    uint64_t deadline_ns;                    /* 0: none */
    uint64_t label_limit;
} lzt__solve_view;

lzt_status lzt__solve_view_init(const lzt_problem *problem, const lzt_solve_options *options, lzt__solve_view *view,
                                lzt_error *err);
void lzt__solve_view_fini(lzt__solve_view *view);

/* Whether boundary i may be a checkpoint under the locks. */
static inline bool lzt__solve_allowed(const lzt__solve_view *view, uint64_t i)
{
    return !view->problem->lock_edges || view->problem->locked_checkpoint[i];
}

/* All boundaries have one size: every tier is a number of slots. */
bool lzt__solve_is_uniform(const lzt_problem *problem);

/* Every boundary of one size. Finds the optimum, or with the limit reached the best known placement (status feasible
 * with a proven bound, or limit). The problem is feasible: lzt__solve_explain has said so. */
lzt_status lzt__dp_uniform(const lzt__solve_view *view, lzt_tier *boundary, lzt_solve_result *result, lzt_error *err);

/* Any sizes. Says infeasible itself, with the reason left to the caller. */
lzt_status lzt__dp_general(const lzt__solve_view *view, lzt_tier *boundary, lzt_solve_result *result, lzt_error *err);

/* With HiGHS, begun from the best placement that a short run of the programmes above finds. */
lzt_status lzt__highs_solve(const lzt__solve_view *view, const lzt_solve_options *options, lzt_tier *boundary,
                            lzt_solve_result *result, lzt_error *err);

/* A uniform problem's feasibility, exactly: true, or false with resource, missing_bytes, reason and way_out filled. */
bool lzt__solve_explain(const lzt__solve_view *view, lzt_solve_result *result);

/* A lower bound that needs no search: the cheapest recomputations that the slots force, the penalties of the shortest
 * path, mandatory overflow. */
uint64_t lzt__solve_simple_bound(const lzt__solve_view *view);

/* The time limit has passed. */
bool lzt__solve_expired(const lzt__solve_view *view);

#endif
