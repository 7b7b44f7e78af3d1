/* Builds the suffix form: see highs_model.h. */
#include "solve/highs_model.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef lzt__highs_int index_t;

static index_t place_col(uint64_t i, lzt_tier tier)
{
    return (index_t)(3 * i + (uint64_t)tier);
}

/* kind 0: PCIe, 1: drive */
static index_t load_col(const lzt__highs_model *m, int kind, uint64_t k)
{
    return m->first_load + (index_t)((uint64_t)kind * m->v->n + k);
}

static double ms_of_bytes(const lzt__highs_model *m, int pool, double bytes)
{
    return bytes / (double)m->v->problem->bytes_per_s[pool] * 1e3;
}

/* The rightmost end of a block that begins at s. */
static uint64_t reach(const lzt__solve_view *v, uint64_t s)
{
    uint64_t next = v->next_required[s];
    return next - s <= v->problem->max_segment ? next : s + v->problem->max_segment;
}

static uint64_t count_edges(const lzt__solve_view *v)
{
    uint64_t count = 0;
    for (uint64_t s = 0; s < v->n; s++)
        for (uint64_t e = s + 1; lzt__solve_allowed(v, s) && e <= reach(v, s); e++) count += lzt__solve_allowed(v, e);
    return count;
}

static bool allocate(lzt__highs_model *m)
{
    size_t cols = (size_t)m->cols_max, rows = (size_t)m->rows_max, nonzeros = (size_t)m->nonzeros_max;
    return (m->edge_from = calloc((size_t)m->edge_count + 1, sizeof *m->edge_from)) &&
           (m->edge_to = calloc((size_t)m->edge_count + 1, sizeof *m->edge_to)) &&
           (m->cost = calloc(cols, sizeof *m->cost)) && (m->lower = calloc(cols, sizeof *m->lower)) &&
           (m->upper = calloc(cols, sizeof *m->upper)) && (m->integrality = calloc(cols, sizeof *m->integrality)) &&
           (m->row_lower = calloc(rows, sizeof *m->row_lower)) && (m->row_upper = calloc(rows, sizeof *m->row_upper)) &&
           (m->start = calloc(rows + 1, sizeof *m->start)) && (m->index = calloc(nonzeros, sizeof *m->index)) &&
           (m->value = calloc(nonzeros, sizeof *m->value));
}

static void put(lzt__highs_model *m, index_t column, double value)
{
    assert(m->nonzeros < m->nonzeros_max && column < m->cols);
    m->index[m->nonzeros] = column;
    m->value[m->nonzeros++] = value;
}

static void end_row(lzt__highs_model *m, double lower, double upper)
{
    assert(m->rows < m->rows_max);
    m->row_lower[m->rows] = lower;
    m->row_upper[m->rows++] = upper;
    m->start[m->rows] = m->nonzeros;
}

static void put_checkpoint(lzt__highs_model *m, uint64_t i, double value)
{
    for (int t = 0; t < 3; t++) put(m, place_col(i, (lzt_tier)t), value);
}

static void add_places(lzt__highs_model *m)
{
    const lzt_problem *p = m->v->problem;
    for (uint64_t i = 0; i <= m->v->n; i++) {
        bool end = i == 0 || i == m->v->n;
        for (int t = 0; t < 3; t++) {
            index_t c = place_col(i, (lzt_tier)t);
            bool may = lzt__solve_allowed(m->v, i) && (!end || t == LZT_TIER_GPU);
            bool must = end && t == LZT_TIER_GPU;
            if (p->lock_gpu && !end) {
                may = may && (t == LZT_TIER_GPU) == p->locked_gpu[i];
                must = may && t == LZT_TIER_GPU;
            }
            m->cost[c] = lzt_ms(p->penalty_ps) + (t == LZT_TIER_NVME ? lzt_ms(p->tiebreak_ps) : 0);
            m->lower[c] = must;
            m->upper[c] = may;
            m->integrality[c] = LZT__HIGHS_INTEGER;
        }
    }
}

static void add_edges(lzt__highs_model *m)
{
    const uint64_t *prefix = m->v->layer_prefix_ps;
    index_t at = 0;
    for (uint64_t s = 0; s < m->v->n; s++)
        for (uint64_t e = s + 1; lzt__solve_allowed(m->v, s) && e <= reach(m->v, s); e++) {
            if (!lzt__solve_allowed(m->v, e)) continue;
            m->edge_from[at] = (index_t)s;
            m->edge_to[at] = (index_t)e;
            m->cost[m->first_edge + at] = lzt_ms(prefix[e - 1] - prefix[s]);
            m->upper[m->first_edge + at] = 1;
            at++;
        }
    assert(at == m->edge_count);
}

/* Edges out of s are contiguous; edges into e are gathered by a counting pass. */
static lzt_status add_path_rows(lzt__highs_model *m, lzt_error *err)
{
    const uint64_t n = m->v->n;
    index_t *first = calloc(n + 2, sizeof *first), *into = calloc((size_t)m->edge_count + 1, sizeof *into);
    if (!first || !into) {
        free(first);
        free(into);
        return lzt_fail(err, LZT_ERR_NO_MEMORY, "highs", "no memory for the model");
    }
    for (index_t k = 0; k < m->edge_count; k++) first[m->edge_to[k] + 1]++;
    for (uint64_t e = 0; e <= n; e++) first[e + 1] += first[e];
    for (index_t k = 0; k < m->edge_count; k++) into[first[m->edge_to[k]]++] = k;
    for (uint64_t e = 1; e <= n; e++) { /* first[e] has moved on to where e + 1 begins */
        for (index_t k = first[e - 1]; k < first[e]; k++) put(m, m->first_edge + into[k], 1);
        put_checkpoint(m, e, -1);
        end_row(m, 0, 0);
    }
    index_t k = 0;
    for (uint64_t s = 0; s < n; s++) {
        for (; k < m->edge_count && (uint64_t)m->edge_from[k] == s; k++) put(m, m->first_edge + k, 1);
        put_checkpoint(m, s, -1);
        end_row(m, 0, 0);
    }
    free(first);
    free(into);
    return LZT_OK;
}

static void add_budget_rows(lzt__highs_model *m, double infinity)
{
    const lzt_problem *p = m->v->problem;
    bool uniform = lzt__solve_is_uniform(p);
    for (int t = 0; t < 3; t++) {
        for (uint64_t i = 0; i <= m->v->n; i++)
            if (p->boundary_bytes[i]) put(m, place_col(i, (lzt_tier)t), (double)p->boundary_bytes[i] / m->unit_bytes);
        double capacity = (double)p->budget_bytes[t] / m->unit_bytes;
        end_row(m, -infinity, uniform ? floor(capacity + 1e-12) : capacity);
    }
}

/* load[k] = load[k + 1] + what boundary k sends through these pools */
static void add_load_rows(lzt__highs_model *m, double infinity)
{
    const lzt_problem *p = m->v->problem;
    for (int kind = 0; kind < 2; kind++)
        for (uint64_t k = 0; k < m->v->n; k++) {
            double size = (double)p->boundary_bytes[k] / m->unit_bytes;
            m->upper[load_col(m, kind, k)] = infinity;
            put(m, load_col(m, kind, k), 1);
            if (k + 1 < m->v->n) put(m, load_col(m, kind, k + 1), -1);
            if (size > 0 && kind == 0) put(m, place_col(k, LZT_TIER_CPU), -size);
            if (size > 0) put(m, place_col(k, LZT_TIER_NVME), -size);
            end_row(m, 0, 0);
        }
}

/* exposed time >= time of the load at >= k less that of the free windows >= k */
static void add_exposure_rows(lzt__highs_model *m, double infinity)
{
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) {
        const lzt_problem *p = m->v->problem;
        bool aware = pool <= LZT_POOL_H2D ? p->overlap_aware_pcie : p->overlap_aware_nvme;
        index_t exposed = m->first_exposed + pool;
        m->cost[exposed] = 1;
        m->upper[exposed] = infinity;
        for (uint64_t k = 0; k < (aware ? m->v->n : 1); k++) {
            put(m, load_col(m, pool > LZT_POOL_H2D, k), ms_of_bytes(m, pool, m->unit_bytes));
            put(m, exposed, -1);
            end_row(m, -infinity, ms_of_bytes(m, pool, (double)m->v->free_suffix[pool][k]));
        }
        m->offset_ms += ms_of_bytes(m, pool, (double)m->v->overflow_bytes[pool]);
    }
}

static lzt_status set_sizes(lzt__highs_model *m, lzt_error *err)
{
    const uint64_t n = m->v->n, edges = count_edges(m->v);
    uint64_t cols = 3 * (n + 1) + edges + 2 * n + LZT_POOL_COUNT;
    uint64_t rows = 2 * n + 3 + 2 * n + LZT_POOL_COUNT * n, nonzeros = 2 * edges + 6 * n + 3 * (n + 1) + 8 * n + 8 * n;
    if (cols > INT32_MAX || rows > INT32_MAX || nonzeros > INT32_MAX)
        return lzt_fail(err, LZT_ERR_USAGE, "highs", "a model of %" PRIu64 " blocks is too large for HiGHS", edges);
    m->edge_count = (index_t)edges;
    m->cols = m->cols_max = (index_t)cols;
    m->rows_max = (index_t)rows;
    m->nonzeros_max = (index_t)nonzeros;
    m->first_edge = (index_t)(3 * (n + 1));
    m->first_load = m->first_edge + m->edge_count;
    m->first_exposed = m->first_load + (index_t)(2 * n);
    return LZT_OK;
}

lzt_status lzt__highs_model_init(const lzt__solve_view *v, double infinity, lzt__highs_model *m, lzt_error *err)
{
    memset(m, 0, sizeof *m);
    m->v = v;
    m->unit_bytes = 1;
    for (uint64_t i = 0; i <= v->n; i++)
        if ((double)v->problem->boundary_bytes[i] > m->unit_bytes)
            m->unit_bytes = (double)v->problem->boundary_bytes[i];
    lzt_status status = set_sizes(m, err);
    if (!status && !allocate(m)) status = lzt_fail(err, LZT_ERR_NO_MEMORY, "highs", "no memory for the model");
    if (!status) {
        add_places(m);
        add_edges(m);
        status = add_path_rows(m, err);
    }
    if (!status) {
        add_budget_rows(m, infinity);
        add_load_rows(m, infinity);
        add_exposure_rows(m, infinity);
    }
    if (status) lzt__highs_model_fini(m);
    return status;
}

void lzt__highs_model_fini(lzt__highs_model *m)
{
    free(m->edge_from);
    free(m->edge_to);
    free(m->cost);
    free(m->lower);
    free(m->upper);
    free(m->integrality);
    free(m->row_lower);
    free(m->row_upper);
    free(m->start);
    free(m->index);
    free(m->value);
    memset(m, 0, sizeof *m);
}

static void encode_exposure(const lzt__highs_model *m, double *column)
{
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++)
        for (uint64_t k = 0; k < m->v->n; k++) {
            double load = column[load_col(m, pool > LZT_POOL_H2D, k)] * m->unit_bytes;
            double over = ms_of_bytes(m, pool, load - (double)m->v->free_suffix[pool][k]);
            if (over > column[m->first_exposed + pool]) column[m->first_exposed + pool] = over;
        }
}

void lzt__highs_model_encode(const lzt__highs_model *m, const lzt_tier *boundary, double *column)
{
    const lzt_problem *p = m->v->problem;
    memset(column, 0, (size_t)m->cols * sizeof *column);
    for (uint64_t i = 0; i <= m->v->n; i++)
        if (boundary[i] != LZT_TIER_RECOMPUTE) column[place_col(i, boundary[i])] = 1;
    for (index_t k = 0; k < m->edge_count; k++) {
        bool edge = boundary[m->edge_from[k]] != LZT_TIER_RECOMPUTE && boundary[m->edge_to[k]] != LZT_TIER_RECOMPUTE;
        for (index_t b = m->edge_from[k] + 1; b < m->edge_to[k]; b++) edge = edge && boundary[b] == LZT_TIER_RECOMPUTE;
        column[m->first_edge + k] = edge;
    }
    for (int kind = 0; kind < 2; kind++) {
        double load = 0;
        for (uint64_t k = m->v->n; k-- > 0;) {
            if (boundary[k] == LZT_TIER_NVME || (boundary[k] == LZT_TIER_CPU && kind == 0))
                load += (double)p->boundary_bytes[k] / m->unit_bytes;
            column[load_col(m, kind, k)] = load;
        }
    }
    encode_exposure(m, column);
}

void lzt__highs_model_decode(const lzt__highs_model *m, const double *column, lzt_tier *boundary)
{
    for (uint64_t i = 0; i <= m->v->n; i++) {
        boundary[i] = LZT_TIER_RECOMPUTE;
        for (int t = 0; t < 3; t++)
            if (column[place_col(i, (lzt_tier)t)] > 0.5) boundary[i] = (lzt_tier)t;
    }
}
