/* What every solver needs to know of a problem, and what can be said of it without a search. */
#include "solve/dp.h"

#include "base/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_MEMORY "no memory to solve a problem of %" PRIu64 " layers"

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void fill_pool(lzt__solve_view *v, lzt_pool pool)
{
    const lzt_problem *p = v->problem;
    bool aware = pool <= LZT_POOL_H2D ? p->overlap_aware_pcie : p->overlap_aware_nvme;
    v->free_suffix[pool][v->n] = 0;
    for (uint64_t w = v->n; w-- > 0;) {
        uint64_t capacity = aware ? p->window_bytes[pool][w] : 0;
        uint64_t mandatory = aware && pool <= LZT_POOL_H2D ? p->mandatory_bytes[pool][w] : 0;
        uint64_t hidden = least(capacity, mandatory);
        v->overflow_bytes[pool] += mandatory - hidden;
        v->free_suffix[pool][w] = v->free_suffix[pool][w + 1] + capacity - hidden;
    }
}

static bool is_required(const lzt_problem *p, uint64_t i)
{
    return i == p->layer_count || (p->lock_edges && p->locked_checkpoint[i]) || (p->lock_gpu && p->locked_gpu[i]);
}

lzt_status lzt__solve_view_init(const lzt_problem *problem, const lzt_solve_options *options, lzt__solve_view *v,
                                lzt_error *err)
{
    const uint64_t n = problem->layer_count;
    memset(v, 0, sizeof *v);
    v->problem = problem;
    v->n = n;
    v->label_limit = options->label_limit ? options->label_limit : UINT64_C(64) << 20;
    if (options->time_limit_s > 0 && options->time_limit_s < 1e9)
        v->deadline_ns = lzt__clock_ns() + (uint64_t)(options->time_limit_s * 1e9) + 1;
    bool ok = (v->layer_prefix_ps = calloc(n + 1, 8)) && (v->next_required = calloc(n + 1, 8));
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) ok = ok && (v->free_suffix[pool] = calloc(n + 1, 8));
    if (!ok) {
        lzt__solve_view_fini(v);
        return lzt_fail(err, LZT_ERR_NO_MEMORY, "solve", NO_MEMORY, n);
    }
    for (uint64_t i = 0; i < n; i++) v->layer_prefix_ps[i + 1] = v->layer_prefix_ps[i] + problem->recompute_ps[i];
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) fill_pool(v, (lzt_pool)pool);
    v->next_required[n] = n;
    for (uint64_t i = n; i-- > 0;) v->next_required[i] = is_required(problem, i + 1) ? i + 1 : v->next_required[i + 1];
    return LZT_OK;
}

void lzt__solve_view_fini(lzt__solve_view *v)
{
    free(v->layer_prefix_ps);
    free(v->next_required);
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) free(v->free_suffix[pool]);
    memset(v, 0, sizeof *v);
}

bool lzt__solve_expired(const lzt__solve_view *v)
{
    return v->deadline_ns && lzt__clock_ns() >= v->deadline_ns;
}

bool lzt__solve_is_uniform(const lzt_problem *p)
{
    for (uint64_t i = 1; i <= p->layer_count; i++)
        if (p->boundary_bytes[i] != p->boundary_bytes[0]) return false;
    return true;
}

/* Checkpoints strictly inside 0..n that every plan needs, and how many of them the GPU lock keeps there. */
typedef struct need {
    uint64_t interior_min, gpu_locked; /* gpu_locked counts the ends */
    uint64_t long_start, long_end;     /* a locked block longer than max_segment, or 0, 0 */
    bool lacks_ends;                   /* the reference does not have 0 and n where they must be */
} need;

static need count_need(const lzt__solve_view *v)
{
    const lzt_problem *p = v->problem;
    const uint64_t n = v->n;
    need out = {0};
    for (uint64_t i = 0; i < n; i = v->next_required[i]) {
        uint64_t length = v->next_required[i] - i;
        out.interior_min += p->lock_edges ? 1 : (length + p->max_segment - 1) / p->max_segment;
        if (p->lock_edges && length > p->max_segment && !out.long_end) {
            out.long_start = i;
            out.long_end = i + length;
        }
    }
    out.interior_min -= 1; /* blocks - 1 */
    for (uint64_t i = 0; p->lock_gpu && i <= n; i++) out.gpu_locked += p->locked_gpu[i];
    out.lacks_ends = (p->lock_edges && !(p->locked_checkpoint[0] && p->locked_checkpoint[n])) ||
                     (p->lock_gpu && !(p->locked_gpu[0] && p->locked_gpu[n]));
    return out;
}

static uint64_t slots_of(const lzt__solve_view *v, lzt_tier tier)
{
    uint64_t size = v->problem->boundary_bytes[0];
    return size ? least(v->problem->budget_bytes[tier] / size, v->n + 1) : v->n + 1;
}

/* Bytes by which a tier's budget falls short of holding this many boundaries. */
static uint64_t missing_for(const lzt__solve_view *v, lzt_tier tier, uint64_t slots)
{
    uint64_t wanted = slots * v->problem->boundary_bytes[0], budget = v->problem->budget_bytes[tier];
    uint64_t missing = wanted > budget ? wanted - budget : 0;
    return missing && tier == LZT_TIER_GPU ? missing + v->problem->overdrawn_bytes : missing;
}

/* With the GPU's set locked, what is short beside it is short whatever the GPU gets. */
static void explain_beside(const lzt__solve_view *v, const need *n, uint64_t off_max, lzt_solve_result *result)
{
    uint64_t wanted = n->interior_min + 2, have = n->gpu_locked + off_max;
    if (!v->problem->lock_gpu || wanted <= have) return;
    snprintf(result->way_out, sizeof result->way_out,
             "besides, %" PRIu64 " bytes more of cpu, or %" PRIu64 " of nvme, are needed for the others",
             missing_for(v, LZT_TIER_CPU, slots_of(v, LZT_TIER_CPU) + wanted - have),
             missing_for(v, LZT_TIER_NVME, slots_of(v, LZT_TIER_NVME) + wanted - have));
}

/* The GPU's own minimum does not fit, whatever the other tiers hold. */
static bool explain_gpu(const lzt__solve_view *v, const need *n, lzt_solve_result *result)
{
    uint64_t slots = slots_of(v, LZT_TIER_GPU), wanted = v->problem->lock_gpu ? n->gpu_locked : 2;
    if (slots >= wanted) return true;
    uint64_t off_max = slots_of(v, LZT_TIER_CPU) + slots_of(v, LZT_TIER_NVME);
    if (!v->problem->lock_gpu && n->interior_min > off_max) wanted += n->interior_min - off_max;
    result->resource = LZT_TIER_GPU;
    result->missing_bytes = missing_for(v, LZT_TIER_GPU, wanted);
    snprintf(result->reason, sizeof result->reason,
             "the gpu activation budget is %" PRIu64 " bytes short: %" PRIu64 " boundaries of %" PRIu64
             " bytes must stay on the gpu (%s), it holds %" PRIu64,
             result->missing_bytes, wanted, v->problem->boundary_bytes[0],
             v->problem->lock_gpu ? "the reference's" : "both ends, and what the other tiers cannot hold", slots);
    size_t used = strlen(result->reason);
    if (v->problem->overdrawn_bytes)
        snprintf(result->reason + used, sizeof result->reason - used, " and is %" PRIu64 " bytes below zero",
                 v->problem->overdrawn_bytes);
    explain_beside(v, n, off_max, result);
    return false;
}

/* All tiers together hold too few checkpoints. Names the tier whose budget is cheapest to raise. */
static bool explain_slots(const lzt__solve_view *v, const need *n, lzt_solve_result *result)
{
    const lzt_tier tiers[] = {LZT_TIER_GPU, LZT_TIER_CPU, LZT_TIER_NVME};
    bool locked = v->problem->lock_gpu;
    uint64_t gpu = locked ? n->gpu_locked : slots_of(v, LZT_TIER_GPU);
    uint64_t have = gpu + slots_of(v, LZT_TIER_CPU) + slots_of(v, LZT_TIER_NVME), wanted = n->interior_min + 2;
    if (have >= wanted) return true;
    uint64_t missing[3];
    int best = -1;
    for (int t = locked ? 1 : 0; t < 3; t++) {
        missing[t] = missing_for(v, tiers[t], slots_of(v, tiers[t]) + wanted - have);
        if (best < 0 || missing[t] < missing[best]) best = t;
    }
    result->resource = tiers[best];
    result->missing_bytes = missing[best];
    snprintf(result->reason, sizeof result->reason,
             "the %s activation budget is %" PRIu64 " bytes short: %" PRIu64 " layers in blocks of at most %" PRIu64
             " need %" PRIu64 " checkpoints of %" PRIu64 " bytes, all tiers together hold %" PRIu64,
             lzt_tier_name(tiers[best]), missing[best], v->n, v->problem->max_segment, wanted,
             v->problem->boundary_bytes[0], have);
    for (int t = locked ? 1 : 0; t < 3; t++) {
        size_t used = strlen(result->way_out);
        if (t != best)
            snprintf(result->way_out + used, sizeof result->way_out - used,
                     "%s%" PRIu64 " bytes more of %s would do as well", used ? "; " : "", missing[t],
                     lzt_tier_name(tiers[t]));
    }
    return false;
}

bool lzt__solve_explain(const lzt__solve_view *v, lzt_solve_result *result)
{
    need n = count_need(v);
    result->reason[0] = result->way_out[0] = 0;
    result->missing_bytes = 0;
    result->resource = LZT_TIER_GPU;
    if (n.lacks_ends) {
        snprintf(result->reason, sizeof result->reason,
                 "the reference schedule does not keep boundaries 0 and %" PRIu64 " on the gpu", v->n);
        return false;
    }
    if (n.long_end) {
        snprintf(result->reason, sizeof result->reason,
                 "the reference block %" PRIu64 "..%" PRIu64 " is longer than max_segment_layers %" PRIu64,
                 n.long_start, n.long_end, v->problem->max_segment);
        return false;
    }
    if (!lzt__solve_is_uniform(v->problem)) return true;
    return explain_gpu(v, &n, result) && explain_slots(v, &n, result);
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Recompute time that the slots force: every interior boundary without a slot is recomputed, at best the cheapest. */
static uint64_t forced_recompute(const lzt__solve_view *v)
{
    if (!lzt__solve_is_uniform(v->problem) || v->n < 2) return 0;
    uint64_t slots = 0, interior = v->n - 1, total = 0;
    for (int t = 0; t < 3; t++) slots += slots_of(v, (lzt_tier)t);
    uint64_t kept = slots > 2 ? least(slots - 2, interior) : 0;
    uint64_t *cost = malloc(interior * sizeof *cost);
    if (!cost) return 0;
    memcpy(cost, v->problem->recompute_ps, interior * sizeof *cost); /* boundary b is rebuilt by layer b - 1 */
    qsort(cost, interior, sizeof *cost, compare_u64);
    for (uint64_t i = 0; i < interior - kept; i++) total += cost[i];
    free(cost);
    return total;
}

uint64_t lzt__solve_simple_bound(const lzt__solve_view *v)
{
    uint64_t bound = forced_recompute(v) + v->problem->penalty_ps * (count_need(v).interior_min + 2);
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++)
        bound += lzt_pool_ps(v->problem, (lzt_pool)pool, v->overflow_bytes[pool]);
    return bound;
}
