/* Random instances and the brute-force optimum, for the solvers' tests. */
#ifndef LZT_SOLVE_RANDOM_PROBLEM_H
#define LZT_SOLVE_RANDOM_PROBLEM_H

#include "lazytrain/problem.h"

#include "base/rng.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct lzt__dice {
    uint64_t seed, index;
} lzt__dice;

static inline uint64_t lzt__roll(lzt__dice *dice, uint64_t bound)
{
    return lzt__rng_below(dice->seed, 0, dice->index++, bound);
}

static inline void lzt__random_locks(lzt__dice *dice, lzt_problem *p)
{
    const uint64_t n = p->layer_count;
    p->lock_edges = lzt__roll(dice, 5) == 0;
    p->lock_gpu = lzt__roll(dice, 5) == 0;
    for (uint64_t i = 0; i <= n; i++) {
        bool end = i == 0 || i == n;
        p->locked_checkpoint[i] = p->lock_edges && (end || lzt__roll(dice, 3) > 0);
        bool may = !p->lock_edges || p->locked_checkpoint[i];
        p->locked_gpu[i] = p->lock_gpu && may && (end || lzt__roll(dice, 3) == 0);
    }
}

/* A problem of n layers: sizes around 1000 bytes, times that make recompute and exposure compete, every switch either
 * way, budgets from nothing to plenty. unequal: each boundary has its own size. */
static inline void lzt__random_problem(lzt__dice *dice, uint64_t n, bool unequal, lzt_problem *p)
{
    lzt_status status = lzt_problem_init(p, n, NULL);
    assert(!status);
    (void)status;
    uint64_t unit = lzt__roll(dice, 20) ? 1 + lzt__roll(dice, 2000) : 0;
    uint64_t scale = 1 + lzt__roll(dice, 3000);
    p->max_segment = 1 + lzt__roll(dice, lzt__roll(dice, 2) ? 5 : n + 2);
    p->overlap_aware_pcie = lzt__roll(dice, 4) > 0;
    p->overlap_aware_nvme = lzt__roll(dice, 4) > 0;
    p->tiebreak_ps = lzt__roll(dice, 2) ? lzt__roll(dice, 100000) : 0;
    p->penalty_ps = lzt__roll(dice, 2) ? lzt__roll(dice, 1000) : 0;
    for (uint64_t i = 0; i <= n; i++) p->boundary_bytes[i] = unequal ? lzt__roll(dice, 2000) : unit;
    for (int t = 0; t < 3; t++)
        p->budget_bytes[t] = lzt__roll(dice, 4) ? lzt__roll(dice, (unequal ? 1000 : unit) * (n + 2) + 1) : 0;
    if (lzt__roll(dice, 4)) p->budget_bytes[LZT_TIER_GPU] += 2 * (unequal ? 2000 : unit);
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) p->bytes_per_s[pool] = 1 + lzt__roll(dice, 2000000000);
    for (uint64_t l = 0; l < n; l++) {
        p->recompute_ps[l] = lzt__roll(dice, 6) ? lzt__roll(dice, 2000000) : 0;
        for (int pool = 0; pool < LZT_POOL_COUNT; pool++) p->window_bytes[pool][l] = lzt__roll(dice, scale);
        for (int pool = 0; pool < 2; pool++)
            p->mandatory_bytes[pool][l] = lzt__roll(dice, 3) ? lzt__roll(dice, scale) : 0;
    }
    lzt__random_locks(dice, p);
}

static inline void lzt__brute_visit(const lzt_problem *p, uint64_t i, lzt_tier *boundary, bool *found, uint64_t *best)
{
    lzt_evaluation e;
    if (i > p->layer_count) {
        lzt_status status = lzt_problem_check(p, boundary, NULL, NULL, &e, NULL);
        assert(!status);
        (void)status;
        if (e.violation_count || (*found && e.objective_ps >= *best)) return;
        *found = true;
        *best = e.objective_ps;
        return;
    }
    bool end = i == 0 || i == p->layer_count;
    for (int t = 0; t < (end ? 1 : LZT_TIER_COUNT); t++) {
        bool kept = t != LZT_TIER_RECOMPUTE;
        if (p->lock_edges && kept != p->locked_checkpoint[i]) continue;
        if (p->lock_gpu && (t == LZT_TIER_GPU) != p->locked_gpu[i]) continue;
        boundary[i] = (lzt_tier)t;
        lzt__brute_visit(p, i + 1, boundary, found, best);
    }
}

/* Tries every placement; false when none is allowed. */
static inline bool lzt__brute_force(const lzt_problem *p, uint64_t *best_ps)
{
    lzt_tier *boundary = calloc(p->layer_count + 1, sizeof *boundary);
    bool found = false;
    assert(boundary);
    lzt__brute_visit(p, 0, boundary, &found, best_ps);
    free(boundary);
    return found;
}

#endif
