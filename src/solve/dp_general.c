/* The exact dynamic programme for boundaries of any sizes.
 *
 * Sizes take the order away that dp.c lives on, so a label carries the bytes of each tier beside its times, and the
 * tier of every checkpoint is a choice. One label makes another superfluous when it uses no more of any tier and cannot
 * end dearer. Exact, with as many labels as the instance demands: small models are proven, larger ones end at the label
 * or time limit with the best placement of a narrow first sweep and a simple bound. HiGHS is the solver for those. */
#include "solve/dp.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { NARROW = 256 };

typedef struct label {
    uint64_t cost_ps; /* recompute, penalties and tie-breaks */
    uint64_t used_bytes[3];
    uint64_t exposed_ps[LZT_POOL_COUNT];
    uint32_t from, length; /* index in the row of boundary i + length */
    lzt_tier tier;
} label;

typedef struct row {
    label *label;
    uint64_t count, capacity;
} row;

typedef struct dp {
    const lzt__solve_view *v;
    const lzt_problem *p;
    uint64_t n;
    row *rows; /* [n + 1] */
    uint64_t label_count, best_ps;
    lzt_tier *best; /* [n + 1] */
    bool has_incumbent, dropped;
} dp;

static uint64_t total_ps(const label *a)
{
    uint64_t total = a->cost_ps;
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) total += a->exposed_ps[pool];
    return total;
}

static bool dominates(const label *a, const label *b)
{
    uint64_t worst = a->cost_ps;
    for (int t = 0; t < 3; t++)
        if (a->used_bytes[t] > b->used_bytes[t]) return false;
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++)
        if (a->exposed_ps[pool] > b->exposed_ps[pool]) worst += a->exposed_ps[pool] - b->exposed_ps[pool];
    return worst <= b->cost_ps;
}

/* Penalties of the shortest path from 0 to i, i not included. */
static uint64_t least_rest(const dp *d, uint64_t i)
{
    return d->p->penalty_ps * ((i + d->p->max_segment - 1) / d->p->max_segment);
}

static lzt_status no_memory(const dp *d, lzt_error *err)
{
    return lzt_fail(err, LZT_ERR_NO_MEMORY, "solve", "no memory to solve a problem of %" PRIu64 " layers", d->n);
}

static lzt_status add_label(dp *d, row *r, const label *a, lzt_error *err)
{
    uint64_t kept = 0;
    for (uint64_t k = 0; k < r->count; k++)
        if (dominates(&r->label[k], a)) return LZT_OK;
    for (uint64_t k = 0; k < r->count; k++)
        if (!dominates(a, &r->label[k])) r->label[kept++] = r->label[k];
    r->count = kept;
    if (r->count == r->capacity) {
        uint64_t capacity = r->capacity ? r->capacity * 2 : 64;
        label *grown = realloc(r->label, capacity * sizeof *grown);
        if (!grown) return no_memory(d, err);
        r->label = grown;
        r->capacity = capacity;
    }
    r->label[r->count++] = *a;
    return LZT_OK;
}

/* Boundary i joins a label in this tier; false when it does not fit. */
static bool place_in(const dp *d, uint64_t i, lzt_tier tier, label *a)
{
    const lzt_problem *p = d->p;
    a->tier = tier;
    a->used_bytes[tier] += p->boundary_bytes[i];
    a->cost_ps += p->penalty_ps + (tier == LZT_TIER_NVME ? p->tiebreak_ps : 0);
    if (a->used_bytes[tier] > p->budget_bytes[tier]) return false;
    const uint64_t nvme = a->used_bytes[LZT_TIER_NVME], bytes[2] = {a->used_bytes[LZT_TIER_CPU] + nvme, nvme};
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) {
        uint64_t load = bytes[pool > LZT_POOL_H2D], hidden = d->v->free_suffix[pool][i];
        if (load <= hidden) continue;
        uint64_t ps = lzt_pool_ps(p, (lzt_pool)pool, d->v->overflow_bytes[pool] + load - hidden);
        if (ps > a->exposed_ps[pool]) a->exposed_ps[pool] = ps;
    }
    return true;
}

static bool tier_allowed(const dp *d, uint64_t i, lzt_tier tier)
{
    if (i == 0 || i == d->n) return tier == LZT_TIER_GPU;
    return !d->p->lock_gpu || (tier == LZT_TIER_GPU) == d->p->locked_gpu[i];
}

/* The exact sweep has met a limit. A label here weighs several of the uniform programme's, and is compared with all of
 * its row. */
static bool is_exhausted(const dp *d, uint64_t width, uint64_t i)
{
    return lzt__solve_expired(d->v) || (!width && d->label_count + d->rows[i].count > d->v->label_limit / 16);
}

/* Every label of boundary i that continues one of boundary `to`, until a limit is met. */
static lzt_status extend(dp *d, uint64_t width, uint64_t i, uint64_t to, lzt_error *err)
{
    const uint64_t cost = d->v->layer_prefix_ps[to - 1] - d->v->layer_prefix_ps[i];
    for (uint64_t k = 0; k < d->rows[to].count; k++) {
        if (k % 64 == 0 && is_exhausted(d, width, i)) return LZT_OK;
        for (int t = 0; t < 3; t++) {
            label a = d->rows[to].label[k];
            if (!tier_allowed(d, i, (lzt_tier)t)) continue;
            a.cost_ps += cost;
            a.from = (uint32_t)k;
            a.length = (uint32_t)(to - i);
            if (!place_in(d, i, (lzt_tier)t, &a)) continue;
            if (d->has_incumbent && total_ps(&a) + least_rest(d, i) >= d->best_ps) continue;
            lzt_status status = add_label(d, &d->rows[i], &a, err);
            if (status) return status;
        }
    }
    return LZT_OK;
}

static int cheaper(const void *a, const void *b)
{
    uint64_t x = total_ps(a), y = total_ps(b);
    return (x > y) - (x < y);
}

static int smaller(const void *a, const void *b)
{
    const label *l = a, *r = b;
    uint64_t x = l->used_bytes[0] + l->used_bytes[1] + l->used_bytes[2];
    uint64_t y = r->used_bytes[0] + r->used_bytes[1] + r->used_bytes[2];
    return (x > y) - (x < y);
}

/* Half of what stays is cheap, the other half small: the cheapest labels alone fill the tiers and then find no end. */
static void narrow(row *r, uint64_t width)
{
    uint64_t cheap = width / 2;
    qsort(r->label, r->count, sizeof *r->label, cheaper);
    qsort(r->label + cheap, r->count - cheap, sizeof *r->label, smaller);
    r->count = width;
}

static void take_best(dp *d)
{
    const label *best = NULL;
    for (uint64_t k = 0; k < d->rows[0].count; k++)
        if (!best || total_ps(&d->rows[0].label[k]) < total_ps(best)) best = &d->rows[0].label[k];
    if (!best || (d->has_incumbent && total_ps(best) >= d->best_ps)) return;
    d->has_incumbent = true;
    d->best_ps = total_ps(best);
    for (uint64_t i = 0; i <= d->n; i++) d->best[i] = LZT_TIER_RECOMPUTE;
    for (uint64_t i = 0; i < d->n; best = &d->rows[i].label[best->from]) {
        d->best[i] = best->tier;
        i += best->length;
        if (i == d->n) break;
    }
    d->best[d->n] = LZT_TIER_GPU;
}

static void free_rows(dp *d)
{
    for (uint64_t i = 0; d->rows && i <= d->n; i++) {
        free(d->rows[i].label);
        d->rows[i] = (row){0};
    }
    d->label_count = 0;
}

/* width 0: keep every label that may matter. */
static lzt_status sweep(dp *d, uint64_t width, bool *finished, lzt_error *err)
{
    *finished = false;
    free_rows(d);
    label last = {0};
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++)
        last.exposed_ps[pool] = lzt_pool_ps(d->p, (lzt_pool)pool, d->v->overflow_bytes[pool]);
    bool fits = place_in(d, d->n, LZT_TIER_GPU, &last);
    lzt_status status = fits ? add_label(d, &d->rows[d->n], &last, err) : LZT_OK;
    for (uint64_t i = d->n; !status && i-- > 0;) {
        uint64_t end = d->v->next_required[i];
        if (end - i > d->p->max_segment) end = i + d->p->max_segment;
        if (!lzt__solve_allowed(d->v, i)) continue;
        for (uint64_t to = i + 1; !status && to <= end; to++) {
            status = extend(d, width, i, to, err);
            if (is_exhausted(d, width, i)) return status;
        }
        row *r = &d->rows[i];
        if (width && r->count > width) {
            narrow(r, width);
            d->dropped = true;
        }
        d->label_count += r->count;
    }
    if (status) return status;
    take_best(d);
    *finished = true;
    return LZT_OK;
}

static lzt_status answer(dp *d, bool proven, lzt_tier *boundary, lzt_solve_result *result, lzt_error *err)
{
    lzt_evaluation e;
    if (!d->has_incumbent) {
        result->status = proven ? LZT_PLAN_INFEASIBLE : LZT_PLAN_LIMIT;
        result->bound_ps = lzt__solve_simple_bound(d->v);
        return LZT_OK;
    }
    memcpy(boundary, d->best, (d->n + 1) * sizeof *boundary);
    lzt_status status = lzt_problem_check(d->p, boundary, NULL, NULL, &e, err);
    if (status) return status;
    assert(!e.violation_count && e.objective_ps == d->best_ps);
    result->objective_ps = e.objective_ps;
    result->bound_ps = proven ? e.objective_ps : lzt__solve_simple_bound(d->v);
    result->status = result->bound_ps >= e.objective_ps ? LZT_PLAN_OPTIMAL : LZT_PLAN_FEASIBLE;
    return LZT_OK;
}

lzt_status lzt__dp_general(const lzt__solve_view *v, lzt_tier *boundary, lzt_solve_result *result, lzt_error *err)
{
    dp d = {.v = v, .p = v->problem, .n = v->n};
    bool finished = false;
    lzt_status status = LZT_OK;
    d.rows = calloc(d.n + 1, sizeof *d.rows);
    d.best = calloc(d.n + 1, sizeof *d.best);
    if (!d.rows || !d.best) status = no_memory(&d, err);
    if (!status) status = sweep(&d, NARROW, &finished, err);
    if (!status && (!finished || d.dropped)) status = sweep(&d, 0, &finished, err);
    if (!status) status = answer(&d, finished, boundary, result, err);
    free_rows(&d);
    free(d.rows);
    free(d.best);
    return status;
}
