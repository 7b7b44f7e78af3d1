/* The independent checker: it knows the constraints of lazytrain/problem.h and nothing of how a plan is found.
 *
 * Exposed bytes are recomputed by filling windows from the last to the first: boundary k's bytes may use the free
 * capacity of windows k, k+1, ..., and of those the later boundaries have already taken their part. Since all transfers
 * of a pool share the same last window, this greedy fill exposes as little as any other. */
#include "lazytrain/problem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct report {
    lzt_violation_fn *note;
    void *arg;
    uint64_t count;
} report;

__attribute__((format(printf, 2, 3))) static void violate(report *r, const char *fmt, ...)
{
    char line[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    r->count++;
    if (r->note) r->note(r->arg, line);
}

static bool uses_pool(lzt_tier tier, lzt_pool pool)
{
    return tier == LZT_TIER_NVME || (tier == LZT_TIER_CPU && pool <= LZT_POOL_H2D);
}

static bool is_overlap_aware(const lzt_problem *p, lzt_pool pool)
{
    return pool <= LZT_POOL_H2D ? p->overlap_aware_pcie : p->overlap_aware_nvme;
}

static uint64_t mandatory_of(const lzt_problem *p, lzt_pool pool, uint64_t window)
{
    return pool <= LZT_POOL_H2D ? p->mandatory_bytes[pool][window] : 0;
}

/* The least bytes that a pool must expose. */
static uint64_t exposed_bytes(const lzt_problem *p, const lzt_tier *boundary, lzt_pool pool)
{
    uint64_t exposed = 0, free_bytes = 0;
    for (uint64_t k = p->layer_count; k-- > 0;) {
        uint64_t need = uses_pool(boundary[k], pool) ? p->boundary_bytes[k] : 0;
        if (!is_overlap_aware(p, pool)) {
            exposed += need;
            continue;
        }
        uint64_t capacity = p->window_bytes[pool][k], mandatory = mandatory_of(p, pool, k);
        if (mandatory > capacity)
            exposed += mandatory - capacity;
        else
            free_bytes += capacity - mandatory;
        uint64_t hidden = need < free_bytes ? need : free_bytes;
        free_bytes -= hidden;
        exposed += need - hidden;
    }
    return exposed;
}

static void check_tiers(const lzt_problem *p, const lzt_tier *boundary, report *r)
{
    uint64_t n = p->layer_count;
    for (uint64_t i = 0; i <= n; i += n)
        if (boundary[i] != LZT_TIER_GPU)
            violate(r, "boundary %" PRIu64 " is %s, but the ends stay on the gpu", i, lzt_tier_name(boundary[i]));
    for (uint64_t i = 0; i <= n; i++) {
        bool kept = boundary[i] != LZT_TIER_RECOMPUTE;
        if (p->lock_edges && kept != p->locked_checkpoint[i])
            violate(r, "boundary %" PRIu64 " is %s, but the reference edges %s it", i, lzt_tier_name(boundary[i]),
                    kept ? "skip" : "need");
        if (p->lock_gpu && (boundary[i] == LZT_TIER_GPU) != p->locked_gpu[i])
            violate(r, "boundary %" PRIu64 " is %s, but the reference has it %s the gpu", i, lzt_tier_name(boundary[i]),
                    p->locked_gpu[i] ? "on" : "off");
    }
}

/* Walks the blocks: their lengths, their recompute time. */
static void check_blocks(const lzt_problem *p, const lzt_tier *boundary, lzt_evaluation *e, report *r)
{
    uint64_t start = 0;
    for (uint64_t end = 1; end <= p->layer_count; end++) {
        if (boundary[end] == LZT_TIER_RECOMPUTE) {
            e->recompute_ps += p->recompute_ps[end - 1];
            continue;
        }
        if (end - start > p->max_segment)
            violate(r, "block %" PRIu64 "..%" PRIu64 " has %" PRIu64 " layers, max_segment is %" PRIu64, start, end,
                    end - start, p->max_segment);
        e->block_count++;
        start = end;
    }
}

static void check_budgets(const lzt_problem *p, const lzt_tier *boundary, lzt_evaluation *e, report *r)
{
    for (uint64_t i = 0; i <= p->layer_count; i++) {
        assert(boundary[i] >= 0 && boundary[i] < LZT_TIER_COUNT);
        e->count[boundary[i]]++;
        if (boundary[i] != LZT_TIER_RECOMPUTE) e->used_bytes[boundary[i]] += p->boundary_bytes[i];
    }
    for (int t = 0; t < 3; t++)
        if (e->used_bytes[t] > p->budget_bytes[t])
            violate(r, "%s holds %" PRIu64 " bytes, its budget is %" PRIu64 " (%" PRIu64 " too many)",
                    lzt_tier_name((lzt_tier)t), e->used_bytes[t], p->budget_bytes[t],
                    e->used_bytes[t] - p->budget_bytes[t]);
}

lzt_status lzt_problem_check(const lzt_problem *p, const lzt_tier *boundary, lzt_violation_fn *note, void *arg,
                             lzt_evaluation *e, lzt_error *err)
{
    memset(e, 0, sizeof *e);
    lzt_status status = lzt_problem_validate(p, err);
    if (status) return status;
    report r = {note, arg, 0};
    check_tiers(p, boundary, &r);
    check_blocks(p, boundary, e, &r);
    check_budgets(p, boundary, e, &r);
    e->tiebreak_ps = p->tiebreak_ps * e->count[LZT_TIER_NVME];
    e->penalty_ps = p->penalty_ps * (p->layer_count + 1 - e->count[LZT_TIER_RECOMPUTE]);
    e->objective_ps = e->recompute_ps + e->tiebreak_ps + e->penalty_ps;
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) {
        e->exposed_bytes[pool] = exposed_bytes(p, boundary, (lzt_pool)pool);
        e->exposed_ps[pool] = lzt_pool_ps(p, (lzt_pool)pool, e->exposed_bytes[pool]);
        e->objective_ps += e->exposed_ps[pool];
    }
    e->violation_count = r.count;
    return LZT_OK;
}

void lzt_problem_windows(const lzt_problem *p, const lzt_tier *boundary, lzt_pool pool, lzt_window *window)
{
    uint64_t waiting = 0;
    for (uint64_t w = 0; w < p->layer_count; w++) {
        uint64_t capacity = p->window_bytes[pool][w], mandatory = mandatory_of(p, pool, w);
        uint64_t free_bytes = capacity > mandatory ? capacity - mandatory : 0;
        if (uses_pool(boundary[w], pool)) waiting += p->boundary_bytes[w];
        window[w] = (lzt_window){.capacity_bytes = capacity, .mandatory_bytes = mandatory};
        if (is_overlap_aware(p, pool)) {
            window[w].activation_bytes = waiting < free_bytes ? waiting : free_bytes;
            window[w].exposed_bytes = mandatory > capacity ? mandatory - capacity : 0;
            waiting -= window[w].activation_bytes;
        }
    }
    window[p->layer_count - 1].exposed_bytes += waiting;
}
