/* The exact dynamic programme for boundaries of one size.
 *
 * With a given path and equal sizes, the GPU best takes the latest checkpoints, the CPU the next, NVMe the earliest: a
 * transfer may use every window from its boundary on, so an earlier boundary is never harder to hide. Counting from the
 * right, the tier of a checkpoint thus depends on its rank alone, and the traffic of every suffix on the number of
 * checkpoints in it. Boundaries are visited from the last to the first; a state is (boundary, checkpoints from here
 * on), a label in it {recompute time, exposed time of each pool so far}. The exposed bytes of a pool are the largest
 * suffix deficit: offloaded bytes at boundaries >= k less the free capacity of windows >= k, over all k.
 *
 * A label a makes b superfluous when R_a + sum over pools of max(0, T_a - T_b) <= R_b: whatever deficits come later,
 * a's total stays at or below b's. That holds for a label of fewer blocks at the same boundary as well, since fewer
 * checkpoints from here on mean less traffic and fewer penalties.
 *
 * Most states of a sensible instance are plain: nothing is exposed, one label suffices. They are the first ones of each
 * row and are kept as two bare arrays.
 *
 * Three passes: a fast one that keeps the cheapest label of each state (exact when it never drops one that is not
 * superfluous), the least recompute time left of each boundary, and the full one, which drops labels that these two
 * show to be hopeless. */
#include "solve/dp.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct label {
    uint64_t recompute_ps;
    uint64_t exposed_ps[LZT_POOL_COUNT];
} label;

/* Where a label came from. Labels of a row are numbered plain ones first. */
typedef struct origin {
    uint32_t index;  /* in the row of boundary i + length */
    uint32_t length; /* of the block that begins here */
} origin;

/* All states of one boundary, by the number of blocks to its right. Labels are numbered, the plain ones first. */
typedef struct row {
    uint64_t low, high;     /* block counts; low > high: none */
    uint64_t plain_count;   /* states low..low + plain_count - 1 are plain */
    uint64_t *plain_ps;     /* [plain_count] recompute time; freed once no block can reach the row any more */
    uint32_t *plain_length; /* [plain_count] of the block that begins here */
    uint32_t *first;        /* [high - low + 2 - plain_count] where the labels of each other state begin */
    label *value;           /* [count] freed with plain_ps */
    origin *from;           /* [count] */
    uint64_t count, capacity;
    bool used;
} row;

typedef struct dp {
    const lzt__solve_view *v;
    const lzt_problem *p;
    uint64_t n, unit_bytes;
    uint64_t gpu_interior, cpu_slots, off_max; /* slots beside the two ends; off: CPU and NVMe */
    uint64_t blocks_max;
    uint64_t *gpu_after;  /* [n + 1] locked GPU boundaries in i..n-1, 0 excluded */
    uint64_t *left;       /* [(n + 1) * (blocks_max + 1)] least recompute time of 0..i in at most t blocks, or NULL */
    row *rows;            /* [n + 1] */
    uint64_t label_count; /* of all rows */
    uint64_t best_ps;     /* the incumbent's objective */
    bool *kept;           /* [n + 1] the incumbent */
    bool has_incumbent, dropped;
    uint64_t base_ps[LZT_POOL_COUNT]; /* of mandatory overflow alone */
} dp;

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t slots_of(const lzt_problem *p, lzt_tier tier)
{
    uint64_t size = p->boundary_bytes[0];
    return size ? least(p->budget_bytes[tier] / size, p->layer_count + 1) : p->layer_count + 1;
}

static lzt_status no_memory(const dp *d, lzt_error *err)
{
    return lzt_fail(err, LZT_ERR_NO_MEMORY, "solve", "no memory to solve a problem of %" PRIu64 " layers", d->n);
}

static lzt_status dp_init(dp *d, const lzt__solve_view *v, lzt_error *err)
{
    const lzt_problem *p = v->problem;
    memset(d, 0, sizeof *d);
    d->v = v;
    d->p = p;
    d->n = v->n;
    d->unit_bytes = p->boundary_bytes[0];
    d->cpu_slots = slots_of(p, LZT_TIER_CPU);
    d->off_max = d->cpu_slots + slots_of(p, LZT_TIER_NVME);
    d->gpu_interior = slots_of(p, LZT_TIER_GPU) - 2; /* explain has checked it */
    d->gpu_after = calloc(d->n + 1, 8);
    d->kept = calloc(d->n + 1, sizeof *d->kept);
    d->rows = calloc(d->n + 1, sizeof *d->rows);
    if (!d->gpu_after || !d->kept || !d->rows) return no_memory(d, err);
    for (uint64_t i = d->n; i-- > 1;) d->gpu_after[i] = d->gpu_after[i + 1] + (p->lock_gpu && p->locked_gpu[i]);
    d->gpu_after[0] = d->n > 1 ? d->gpu_after[1] : 0;
    if (p->lock_gpu) d->gpu_interior = d->gpu_after[0];
    d->blocks_max = least(d->gpu_interior + d->off_max + 1, d->n);
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++)
        d->base_ps[pool] = lzt_pool_ps(p, (lzt_pool)pool, v->overflow_bytes[pool]);
    return LZT_OK;
}

static void free_row(row *r)
{
    free(r->plain_ps);
    free(r->plain_length);
    free(r->first);
    free(r->value);
    free(r->from);
    memset(r, 0, sizeof *r);
}

static void free_rows(dp *d)
{
    for (uint64_t i = 0; d->rows && i <= d->n; i++) free_row(&d->rows[i]);
    d->label_count = 0;
}

static void dp_fini(dp *d)
{
    free_rows(d);
    free(d->gpu_after);
    free(d->kept);
    free(d->rows);
    free(d->left);
}

/* Checkpoints off the GPU among boundaries i..n-1 when they begin `blocks` blocks. */
static uint64_t off_count(const dp *d, uint64_t i, uint64_t blocks)
{
    uint64_t interior = blocks - (i == 0);
    uint64_t gpu = d->p->lock_gpu ? d->gpu_after[i] : least(interior, d->gpu_interior);
    return interior - gpu;
}

static uint64_t nvme_count(const dp *d, uint64_t off)
{
    return off > d->cpu_slots ? off - d->cpu_slots : 0;
}

/* Exposed time of each pool as far as the suffix that begins at i goes. */
static void suffix_exposure(const dp *d, uint64_t i, uint64_t off, uint64_t exposed_ps[LZT_POOL_COUNT])
{
    const uint64_t bytes[2] = {off * d->unit_bytes, nvme_count(d, off) * d->unit_bytes};
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) {
        uint64_t load = bytes[pool > LZT_POOL_H2D], hidden = d->v->free_suffix[pool][i];
        exposed_ps[pool] = d->base_ps[pool];
        if (load > hidden)
            exposed_ps[pool] = lzt_pool_ps(d->p, (lzt_pool)pool, d->v->overflow_bytes[pool] + load - hidden);
    }
}

static uint64_t label_total(const label *a)
{
    uint64_t total = a->recompute_ps;
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) total += a->exposed_ps[pool];
    return total;
}

static bool dominates(const label *a, const label *b)
{
    uint64_t worst = a->recompute_ps;
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++)
        if (a->exposed_ps[pool] > b->exposed_ps[pool]) worst += a->exposed_ps[pool] - b->exposed_ps[pool];
    return worst <= b->recompute_ps;
}

/* Least objective that a label at (i, blocks) can still end with. */
static uint64_t least_total(const dp *d, uint64_t i, uint64_t blocks, const label *a)
{
    uint64_t left_blocks = d->blocks_max - blocks;
    uint64_t rest = d->left[i * (d->blocks_max + 1) + left_blocks];
    if (rest == UINT64_MAX) return UINT64_MAX;
    uint64_t checkpoints = blocks + (i + d->p->max_segment - 1) / d->p->max_segment + 1;
    uint64_t nvme = nvme_count(d, off_count(d, i, blocks));
    return label_total(a) + rest + d->p->penalty_ps * checkpoints + d->p->tiebreak_ps * nvme;
}

/* Label index of a row. */
static label label_at(const dp *d, const row *r, uint64_t index)
{
    if (index >= r->plain_count) return r->value[index - r->plain_count];
    label a = {.recompute_ps = r->plain_ps[index]};
    memcpy(a.exposed_ps, d->base_ps, sizeof d->base_ps);
    return a;
}

/* The labels begin..end-1 of a row's state. */
static void state_range(const row *r, uint64_t blocks, uint64_t *begin, uint64_t *end)
{
    uint64_t rank = blocks - r->low;
    *begin = *end = 0;
    if (!r->used || blocks < r->low || blocks > r->high) return;
    *begin = rank < r->plain_count ? rank : r->plain_count + r->first[rank - r->plain_count];
    *end = rank < r->plain_count ? rank + 1 : r->plain_count + r->first[rank - r->plain_count + 1];
}

static lzt_status grow(dp *d, row *r, lzt_error *err)
{
    uint64_t capacity = r->capacity ? r->capacity * 2 : 64;
    label *value = realloc(r->value, capacity * sizeof *value);
    if (value) r->value = value;
    origin *from = realloc(r->from, capacity * sizeof *from);
    if (from) r->from = from;
    if (!value || !from) return no_memory(d, err);
    r->capacity = capacity;
    return LZT_OK;
}

/* Adds a label to the state whose labels begin at `begin`, unless one there makes it superfluous. */
static lzt_status add_label(dp *d, row *r, uint64_t begin, const label *a, origin from, bool widest, lzt_error *err)
{
    uint64_t kept = begin;
    for (uint64_t k = begin; k < r->count; k++)
        if (dominates(&r->value[k], a)) return LZT_OK;
    for (uint64_t k = begin; k < r->count; k++) {
        if (dominates(a, &r->value[k])) continue;
        r->value[kept] = r->value[k];
        r->from[kept++] = r->from[k];
    }
    r->count = kept;
    if (!widest && kept > begin) { /* one label a state: the cheaper stays */
        d->dropped = true;
        if (label_total(&r->value[begin]) <= label_total(a)) return LZT_OK;
        r->count = begin;
    }
    if (r->count == r->capacity) {
        lzt_status status = grow(d, r, err);
        if (status) return status;
    }
    r->value[r->count] = *a;
    r->from[r->count++] = from;
    return LZT_OK;
}

/* One of the labels begin..end-1 of fewer blocks makes a superfluous. */
static bool is_outdone(const dp *d, const row *r, uint64_t begin, uint64_t end, const label *a)
{
    for (uint64_t k = begin; k < end; k++) {
        label other = label_at(d, r, k);
        if (dominates(&other, a)) return true;
    }
    return false;
}

static uint64_t furthest(const dp *d, uint64_t i)
{
    return least(i + least(d->p->max_segment, d->n), d->v->next_required[i]);
}

/* All labels of (i, blocks): one block more than those of the boundaries within reach. fewer: the last state of the row
 * that has labels. */
static lzt_status fill_state(dp *d, uint64_t i, uint64_t blocks, const uint64_t fewer[2], bool widest, lzt_error *err)
{
    row *r = &d->rows[i];
    const uint64_t state = r->count, *prefix = d->v->layer_prefix_ps;
    uint64_t here[LZT_POOL_COUNT], begin, end;
    suffix_exposure(d, i, off_count(d, i, blocks), here);
    for (uint64_t to = i + 1; to <= furthest(d, i); to++) {
        state_range(&d->rows[to], blocks - 1, &begin, &end);
        for (uint64_t k = begin; k < end; k++) {
            label a = label_at(d, &d->rows[to], k);
            a.recompute_ps += prefix[to - 1] - prefix[i];
            for (int pool = 0; pool < LZT_POOL_COUNT; pool++)
                if (here[pool] > a.exposed_ps[pool]) a.exposed_ps[pool] = here[pool];
            if (is_outdone(d, r, fewer[0], fewer[1], &a)) continue;
            if (widest && d->has_incumbent && least_total(d, i, blocks, &a) >= d->best_ps) continue;
            lzt_status status = add_label(d, r, state, &a, (origin){(uint32_t)k, (uint32_t)(to - i)}, widest, err);
            if (status) return status;
        }
    }
    return LZT_OK;
}

/* Nothing is exposed at (i, blocks) beyond mandatory overflow. */
static bool is_hidden(const dp *d, uint64_t i, uint64_t blocks)
{
    const uint64_t off = off_count(d, i, blocks), pcie = off * d->unit_bytes;
    const uint64_t drive = nvme_count(d, off) * d->unit_bytes;
    uint64_t *const *free_suffix = d->v->free_suffix;
    return pcie <= free_suffix[LZT_POOL_D2H][i] && pcie <= free_suffix[LZT_POOL_H2D][i] &&
           drive <= free_suffix[LZT_POOL_NVME_WRITE][i] && drive <= free_suffix[LZT_POOL_NVME_READ][i];
}

/* The common case of fill_state, and what it spends least on: this state and all it continues are plain, so that one
 * label, the one of least recompute time, makes all others superfluous. False: not so, nothing was done. */
static bool fill_plain_state(dp *d, uint64_t i, uint64_t blocks)
{
    row *r = &d->rows[i];
    const uint64_t *prefix = d->v->layer_prefix_ps, end = furthest(d, i);
    uint64_t best = UINT64_MAX, length = 0;
    if (!is_hidden(d, i, blocks)) return false;
    for (uint64_t to = i + 1; to <= end; to++) {
        const row *next = &d->rows[to];
        if (!next->used || blocks - 1 < next->low || blocks - 1 > next->high) continue;
        uint64_t rank = blocks - 1 - next->low;
        if (rank >= next->plain_count) return false;
        uint64_t time = next->plain_ps[rank] + prefix[to - 1] - prefix[i];
        if (time >= best) continue;
        best = time;
        length = to - i;
    }
    if (best == UINT64_MAX) return false;
    r->plain_ps[r->plain_count] = best;
    r->plain_length[r->plain_count++] = (uint32_t)length;
    return true;
}

/* The range of block counts that boundary i can have; low > high: none. */
static void set_range(const dp *d, uint64_t i, row *r)
{
    const uint64_t right = d->n - i, m = d->p->max_segment;
    r->low = right / m + (right % m != 0);
    r->high = least(right, d->blocks_max);
    if (d->p->lock_gpu && r->low < d->gpu_after[i] + (i == 0)) r->low = d->gpu_after[i] + (i == 0);
    while (r->high >= r->low && off_count(d, i, r->high) > d->off_max) r->high--;
}

static lzt_status fill_row(dp *d, uint64_t i, bool widest, lzt_error *err)
{
    row *r = &d->rows[i];
    lzt_status status = LZT_OK;
    set_range(d, i, r);
    if (!lzt__solve_allowed(d->v, i) || r->high < r->low) return LZT_OK;
    uint64_t states = r->high - r->low + 1, blocks = r->low, fewer[2];
    r->plain_ps = malloc(states * sizeof *r->plain_ps);
    r->plain_length = malloc(states * sizeof *r->plain_length);
    if (!r->plain_ps || !r->plain_length) return no_memory(d, err);
    while (blocks <= r->high && fill_plain_state(d, i, blocks)) blocks++;
    states -= r->plain_count;
    r->first = calloc(states + 1, sizeof *r->first);
    if (!r->first) return no_memory(d, err);
    fewer[0] = r->plain_count ? r->plain_count - 1 : 0;
    fewer[1] = r->plain_count;
    for (uint64_t k = 0; k < states; k++, blocks++) {
        uint64_t begin = r->count;
        status = fill_state(d, i, blocks, fewer, widest, err);
        if (status) return status;
        if (r->count > begin) {
            fewer[0] = r->plain_count + begin;
            fewer[1] = r->plain_count + r->count;
        }
        if (r->plain_count + r->count > UINT32_MAX) return no_memory(d, err);
        r->first[k + 1] = (uint32_t)r->count;
    }
    d->label_count += r->plain_count + r->count;
    r->used = true;
    return LZT_OK;
}

/* The last boundary: no blocks to its right. */
static lzt_status fill_last(dp *d, lzt_error *err)
{
    row *r = &d->rows[d->n];
    r->plain_ps = calloc(1, sizeof *r->plain_ps);
    r->plain_length = calloc(1, sizeof *r->plain_length);
    r->first = calloc(1, sizeof *r->first);
    if (!r->plain_ps || !r->plain_length || !r->first) return no_memory(d, err);
    r->plain_count = 1;
    r->used = true;
    return LZT_OK;
}

static origin origin_of(const row *r, uint64_t blocks, uint64_t index, const row *rows)
{
    if (index >= r->plain_count) return r->from[index - r->plain_count];
    const row *next = r + r->plain_length[index];
    assert(next > rows);
    return (origin){(uint32_t)(blocks - 1 - next->low), r->plain_length[index]};
}

/* The checkpoints of a label of row 0. */
static void take_path(dp *d, uint64_t blocks, uint64_t at)
{
    memset(d->kept, 0, (d->n + 1) * sizeof *d->kept);
    for (uint64_t i = 0; i < d->n; blocks--) {
        d->kept[i] = true;
        origin from = origin_of(&d->rows[i], blocks, at, d->rows);
        i += from.length;
        at = from.index;
    }
    d->kept[d->n] = true;
}

/* The cheapest complete label of row 0, when it beats the incumbent. */
static void take_best(dp *d)
{
    const row *r = &d->rows[0];
    uint64_t best = UINT64_MAX, at = 0, best_blocks = 0, begin, end;
    for (uint64_t blocks = r->low; r->used && blocks <= r->high; blocks++) {
        state_range(r, blocks, &begin, &end);
        uint64_t nvme = nvme_count(d, off_count(d, 0, blocks));
        uint64_t fixed = d->p->penalty_ps * (blocks + 1) + d->p->tiebreak_ps * nvme;
        for (uint64_t k = begin; k < end; k++) {
            label a = label_at(d, r, k);
            uint64_t total = label_total(&a) + fixed;
            if (total >= best) continue;
            best = total;
            best_blocks = blocks;
            at = k;
        }
    }
    if (best == UINT64_MAX || (d->has_incumbent && best >= d->best_ps)) return;
    d->best_ps = best;
    d->has_incumbent = true;
    take_path(d, best_blocks, at);
}

/* One sweep over all boundaries; *finished is false when a limit ended it. */
static lzt_status sweep(dp *d, bool widest, bool *finished, lzt_error *err)
{
    const uint64_t reach = least(d->p->max_segment, d->n);
    *finished = false;
    free_rows(d);
    lzt_status status = fill_last(d, err);
    for (uint64_t i = d->n; !status && i-- > 0;) {
        status = fill_row(d, i, widest, err);
        if (i + reach <= d->n) { /* nothing reaches it any more; the ways back stay */
            row *done = &d->rows[i + reach];
            free(done->value);
            free(done->plain_ps);
            done->value = NULL;
            done->plain_ps = NULL;
        }
        if (lzt__solve_expired(d->v) || d->label_count > d->v->label_limit) return status;
    }
    if (status) return status;
    take_best(d);
    *finished = true;
    return LZT_OK;
}

/* Fills left: the least recompute time of the layers before i in at most t blocks. */
static lzt_status fill_left(dp *d, lzt_error *err)
{
    const uint64_t width = d->blocks_max + 1, *prefix = d->v->layer_prefix_ps;
    d->left = malloc((d->n + 1) * width * sizeof *d->left);
    if (!d->left) return no_memory(d, err);
    memset(d->left, 0xff, (d->n + 1) * width * sizeof *d->left); /* UINT64_MAX: unreachable */
    for (uint64_t t = 0; t < width; t++) d->left[t] = 0;
    for (uint64_t i = 1; i <= d->n; i++) {
        uint64_t begin = i > d->p->max_segment ? i - d->p->max_segment : 0;
        if (!lzt__solve_allowed(d->v, i)) continue;
        for (uint64_t from = begin; from < i; from++) {
            if (d->v->next_required[from] < i) continue;
            uint64_t cost = prefix[i - 1] - prefix[from];
            for (uint64_t t = 1; t < width; t++) {
                uint64_t before = d->left[from * width + t - 1];
                if (before != UINT64_MAX && before + cost < d->left[i * width + t])
                    d->left[i * width + t] = before + cost;
            }
        }
        if (i % 64 == 0 && lzt__solve_expired(d->v)) return LZT_OK; /* the full sweep ends at once as well */
    }
    return LZT_OK;
}

/* A path of the longest blocks, so that there is a placement whenever there is time for nothing else. */
static void take_shortest_path(dp *d)
{
    memset(d->kept, 0, (d->n + 1) * sizeof *d->kept);
    for (uint64_t i = 0; i < d->n;) {
        d->kept[i] = true;
        uint64_t next = d->v->next_required[i];
        i = next - i <= d->p->max_segment ? next : i + d->p->max_segment;
    }
    d->kept[d->n] = true;
}

/* Tiers by rank from the right: GPU, then CPU, then NVMe. */
static void place(const dp *d, lzt_tier *boundary)
{
    uint64_t gpu = 0, off = 0;
    for (uint64_t i = d->n + 1; i-- > 0;) {
        bool is_end = i == 0 || i == d->n, on_gpu = is_end;
        if (!d->kept[i]) {
            boundary[i] = LZT_TIER_RECOMPUTE;
            continue;
        }
        if (!is_end) on_gpu = d->p->lock_gpu ? d->p->locked_gpu[i] : gpu < d->gpu_interior;
        gpu += on_gpu && !is_end;
        boundary[i] = on_gpu ? LZT_TIER_GPU : off < d->cpu_slots ? LZT_TIER_CPU : LZT_TIER_NVME;
        off += !on_gpu;
    }
}

/* The passes; *proven when the incumbent is the optimum. */
static lzt_status search(dp *d, bool *proven, lzt_error *err)
{
    bool finished = false;
    *proven = false;
    lzt_status status = sweep(d, false, &finished, err);
    if (status || !finished) return status;
    *proven = !d->dropped || (d->has_incumbent && d->best_ps == lzt__solve_simple_bound(d->v));
    if (*proven) return LZT_OK;
    status = fill_left(d, err);
    if (!status) status = sweep(d, true, &finished, err);
    *proven = finished;
    return status;
}

lzt_status lzt__dp_uniform(const lzt__solve_view *v, lzt_tier *boundary, lzt_solve_result *result, lzt_error *err)
{
    dp d;
    lzt_evaluation e;
    bool proven = false;
    lzt_status status = dp_init(&d, v, err);
    if (!status) status = search(&d, &proven, err);
    if (!status && !d.has_incumbent) take_shortest_path(&d);
    if (!status) {
        place(&d, boundary);
        status = lzt_problem_check(v->problem, boundary, NULL, NULL, &e, err);
    }
    if (!status) {
        assert(!e.violation_count);
        assert(!d.has_incumbent || e.objective_ps == d.best_ps);
        result->objective_ps = e.objective_ps;
        result->bound_ps = proven ? e.objective_ps : least(lzt__solve_simple_bound(v), e.objective_ps);
        result->status = result->bound_ps == e.objective_ps ? LZT_PLAN_OPTIMAL : LZT_PLAN_FEASIBLE;
    }
    dp_fini(&d);
    return status;
}
