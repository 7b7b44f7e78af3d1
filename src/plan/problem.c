/* The source's problem as data: lifecycle, names, range checks. Contract: lazytrain/problem.h. */
#include "lazytrain/problem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* No sum of bytes or of picoseconds over a whole problem may exceed this. */
#define SUM_MAX (UINT64_C(1) << 61)

const char *lzt_tier_name(lzt_tier tier)
{
    static const char *const name[LZT_TIER_COUNT] = {"gpu", "cpu", "nvme", "recompute"};
    assert(tier >= 0 && tier < LZT_TIER_COUNT);
    return name[tier];
}

const char *lzt_pool_name(lzt_pool pool)
{
    static const char *const name[LZT_POOL_COUNT] = {"d2h", "h2d", "nvme_write", "nvme_read"};
    assert(pool >= 0 && pool < LZT_POOL_COUNT);
    return name[pool];
}

lzt_status lzt_problem_init(lzt_problem *problem, uint64_t layer_count, lzt_error *err)
{
    memset(problem, 0, sizeof *problem);
    if (layer_count < 1 || layer_count > LZT_PROBLEM_LAYERS_MAX)
        return lzt_fail(err, LZT_ERR_USAGE, "layers", "a problem has 1 to %" PRIu64 " layers, not %" PRIu64,
                        LZT_PROBLEM_LAYERS_MAX, layer_count);
    uint64_t n = layer_count;
    problem->layer_count = n;
    problem->max_segment = 1;
    bool ok = (problem->boundary_bytes = calloc(n + 1, 8)) && (problem->recompute_ps = calloc(n, 8)) &&
              (problem->locked_checkpoint = calloc(n + 1, sizeof(bool))) &&
              (problem->locked_gpu = calloc(n + 1, sizeof(bool)));
    for (int p = 0; p < LZT_POOL_COUNT; p++) {
        problem->bytes_per_s[p] = 1;
        ok = ok && (problem->window_bytes[p] = calloc(n, 8));
    }
    for (int p = 0; p < 2; p++) ok = ok && (problem->mandatory_bytes[p] = calloc(n, 8));
    if (ok) return LZT_OK;
    lzt_problem_fini(problem);
    return lzt_fail(err, LZT_ERR_NO_MEMORY, "problem", "no memory for a problem of %" PRIu64 " layers", layer_count);
}

void lzt_problem_fini(lzt_problem *problem)
{
    free(problem->boundary_bytes);
    free(problem->recompute_ps);
    free(problem->locked_checkpoint);
    free(problem->locked_gpu);
    for (int p = 0; p < LZT_POOL_COUNT; p++) free(problem->window_bytes[p]);
    for (int p = 0; p < 2; p++) free(problem->mandatory_bytes[p]);
    memset(problem, 0, sizeof *problem);
}

lzt_status lzt_problem_copy(lzt_problem *to, const lzt_problem *from, lzt_error *err)
{
    lzt_problem fresh;
    lzt_status status = lzt_problem_init(&fresh, from->layer_count, err);
    if (status) return status;
    uint64_t n = from->layer_count;
    memcpy(fresh.boundary_bytes, from->boundary_bytes, (n + 1) * 8);
    memcpy(fresh.recompute_ps, from->recompute_ps, n * 8);
    memcpy(fresh.locked_checkpoint, from->locked_checkpoint, (n + 1) * sizeof(bool));
    memcpy(fresh.locked_gpu, from->locked_gpu, (n + 1) * sizeof(bool));
    for (int p = 0; p < LZT_POOL_COUNT; p++) memcpy(fresh.window_bytes[p], from->window_bytes[p], n * 8);
    for (int p = 0; p < 2; p++) memcpy(fresh.mandatory_bytes[p], from->mandatory_bytes[p], n * 8);
    *to = *from; /* every plain field; then the owned arrays */
    to->boundary_bytes = fresh.boundary_bytes;
    to->recompute_ps = fresh.recompute_ps;
    to->locked_checkpoint = fresh.locked_checkpoint;
    to->locked_gpu = fresh.locked_gpu;
    memcpy(to->window_bytes, fresh.window_bytes, sizeof fresh.window_bytes);
    memcpy(to->mandatory_bytes, fresh.mandatory_bytes, sizeof fresh.mandatory_bytes);
    return LZT_OK;
}

uint64_t lzt_pool_ps(const lzt_problem *problem, lzt_pool pool, uint64_t bytes)
{
    unsigned __int128 rate = problem->bytes_per_s[pool];
    unsigned __int128 ps = ((unsigned __int128)bytes * 1000000000000u + rate / 2) / rate;
    assert(ps <= UINT64_MAX);
    return (uint64_t)ps;
}

static bool sum_fits(const uint64_t *value, uint64_t count, uint64_t *total)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (value[i] > SUM_MAX - sum) return false;
        sum += value[i];
    }
    *total = sum;
    return true;
}

/* All traffic of a pool, at its bandwidth, stays inside the range of exact arithmetic. */
static lzt_status validate_pool(const lzt_problem *p, lzt_pool pool, uint64_t activation_bytes, lzt_error *err)
{
    uint64_t window = 0, mandatory = 0;
    if (!p->bytes_per_s[pool] || p->bytes_per_s[pool] > SUM_MAX)
        return lzt_fail(err, LZT_ERR_USAGE, "problem.bytes_per_s", "the bandwidth of %s is out of range",
                        lzt_pool_name(pool));
    if (!sum_fits(p->window_bytes[pool], p->layer_count, &window))
        return lzt_fail(err, LZT_ERR_USAGE, "problem.window_bytes", "the windows of %s sum to more than 2^61 bytes",
                        lzt_pool_name(pool));
    if (pool <= LZT_POOL_H2D && !sum_fits(p->mandatory_bytes[pool], p->layer_count, &mandatory))
        return lzt_fail(err, LZT_ERR_USAGE, "problem.mandatory_bytes", "those of %s sum to more than 2^61",
                        lzt_pool_name(pool));
    unsigned __int128 ps = ((unsigned __int128)activation_bytes + mandatory) * 1000000000000u / p->bytes_per_s[pool];
    if (ps > SUM_MAX / 8)
        return lzt_fail(err, LZT_ERR_USAGE, "problem.bytes_per_s",
                        "all traffic over %s would take more than 2^58 picoseconds", lzt_pool_name(pool));
    return LZT_OK;
}

static lzt_status validate_locks(const lzt_problem *p, lzt_error *err)
{
    if (!p->lock_edges || !p->lock_gpu) return LZT_OK;
    for (uint64_t i = 0; i <= p->layer_count; i++)
        if (p->locked_gpu[i] && !p->locked_checkpoint[i])
            return lzt_fail(err, LZT_ERR_USAGE, "problem.locked_gpu",
                            "boundary %" PRIu64 " is locked to the GPU, but the locked edges skip it", i);
    return LZT_OK;
}

lzt_status lzt_problem_validate(const lzt_problem *p, lzt_error *err)
{
    uint64_t bytes = 0, ps = 0;
    if (p->max_segment < 1) return lzt_fail(err, LZT_ERR_USAGE, "problem.max_segment", "is 0, must be at least 1");
    if (!sum_fits(p->boundary_bytes, p->layer_count + 1, &bytes))
        return lzt_fail(err, LZT_ERR_USAGE, "problem.boundary_bytes", "sum to more than 2^61");
    if (!sum_fits(p->recompute_ps, p->layer_count, &ps) || ps > SUM_MAX / 8)
        return lzt_fail(err, LZT_ERR_USAGE, "problem.recompute_ms", "sum to more than 2^58 picoseconds");
    for (int t = 0; t < 3; t++)
        if (p->budget_bytes[t] > SUM_MAX)
            return lzt_fail(err, LZT_ERR_USAGE, "problem.budget_bytes", "%s is more than 2^61 bytes",
                            lzt_tier_name((lzt_tier)t));
    uint64_t per_checkpoint_max = SUM_MAX / 8 / (p->layer_count + 1);
    if (p->tiebreak_ps > per_checkpoint_max || p->penalty_ps > per_checkpoint_max)
        return lzt_fail(err, LZT_ERR_USAGE, "problem.tiebreak_ms", "tie-break or penalty is out of range");
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) {
        lzt_status status = validate_pool(p, (lzt_pool)pool, bytes, err);
        if (status) return status;
    }
    return validate_locks(p, err);
}
