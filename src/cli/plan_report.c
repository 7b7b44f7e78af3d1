/* A plan's HTML page with its sweeps: see plan_report.h. */
#include "cli/plan_report.h"

#include "lazytrain/plan_html.h"
#include "lazytrain/solve.h"

#include <stdlib.h>
#include <string.h>

enum { POINTS = 25, POINTS_LEAST = 5, POINT_SECONDS = 2 };

#define SWEEP_SECONDS 5.0 /* for all three tiers */

static lzt_status solve_point(const lzt_problem *problem, lzt_tier tier, lzt_tier *boundary, lzt_sweep_point *point,
                              lzt_error *err)
{
    lzt_problem other = *problem; /* its arrays are shared, and only read */
    lzt_solve_options options = LZT_SOLVE_OPTIONS_INIT;
    lzt_solve_result result;
    options.solver = LZT_SOLVER_DP;
    options.time_limit_s = POINT_SECONDS;
    other.budget_bytes[tier] = point->budget_bytes;
    lzt_status status = lzt_solve(&other, &options, boundary, &result, err);
    if (status) return status;
    point->has_plan = result.status == LZT_PLAN_OPTIMAL || result.status == LZT_PLAN_FEASIBLE;
    return point->has_plan ? lzt_problem_check(&other, boundary, NULL, NULL, &point->evaluation, err) : LZT_OK;
}

static int by_budget(const void *a, const void *b)
{
    const lzt_sweep_point *x = a, *y = b;
    return (x->budget_bytes > y->budget_bytes) - (x->budget_bytes < y->budget_bytes);
}

/* From nothing to half as much again as the plan has, in equal steps, and the plan's own budget among them. */
static lzt_status sweep_tier(const lzt_plan *plan, lzt_tier tier, uint64_t count, lzt_tier *boundary,
                             lzt_plan_sweep *sweep, lzt_error *err)
{
    uint64_t have = plan->problem->budget_bytes[tier], one = plan->problem->boundary_bytes[0];
    uint64_t high = have + have / 2 > have + 6 * one ? have + have / 2 : have + 6 * one;
    lzt_status status = LZT_OK;
    *sweep = (lzt_plan_sweep){.tier = tier, .point = calloc(count + 1, sizeof *sweep->point)};
    if (!sweep->point) return lzt_fail(err, LZT_ERR_NO_MEMORY, "html", "no memory for a sweep");
    for (uint64_t i = 0; i < count; i++) sweep->point[i].budget_bytes = high / (count - 1) * i;
    sweep->point[count].budget_bytes = have;
    sweep->point_count = count + 1;
    qsort(sweep->point, sweep->point_count, sizeof *sweep->point, by_budget);
    for (uint64_t i = 0; i < sweep->point_count && !status; i++)
        status = solve_point(plan->problem, tier, boundary, &sweep->point[i], err);
    return status;
}

/* Locks leave nothing to sweep but exposure; they are kept, as the plan has them. */
static lzt_status sweep_all(const lzt_plan *plan, lzt_plan_sweep sweep[3], uint64_t *count, lzt_error *err)
{
    static const lzt_tier order[] = {LZT_TIER_CPU, LZT_TIER_GPU, LZT_TIER_NVME};
    lzt_tier *boundary = calloc(plan->layer_count + 1, sizeof *boundary);
    double points = plan->solve_seconds > 0 ? SWEEP_SECONDS / (3 * plan->solve_seconds) : POINTS;
    uint64_t each = points > POINTS ? POINTS : points < POINTS_LEAST ? POINTS_LEAST : (uint64_t)points;
    if (!boundary) return lzt_fail(err, LZT_ERR_NO_MEMORY, "html", "no memory for a sweep");
    lzt_status status = LZT_OK;
    for (int i = 0; i < 3 && !status; i++) {
        if (order[i] == LZT_TIER_NVME && !plan->source.nvme_enabled) continue;
        status = sweep_tier(plan, order[i], each, boundary, &sweep[*count], err);
        ++*count;
    }
    free(boundary);
    return status;
}

lzt_status lzt_plan_report(const lzt_plan *plan, const char *path, lzt_error *err)
{
    lzt_plan_sweep sweep[3] = {{0}};
    uint64_t count = 0;
    lzt_status status = plan->problem ? sweep_all(plan, sweep, &count, err) : LZT_OK;
    if (!status) status = lzt_plan_write_html(plan, sweep, count, path, err);
    for (int i = 0; i < 3; i++) free(sweep[i].point);
    return status;
}
