/* One entry to the solvers: feasibility first, then the solver that was asked for, then the checker. */
#include "solve/dp.h"
#include "solve/highs_library.h"

#include "base/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Unequal boundaries: the shortest path in bytes against all budgets. */
static void explain_general(const lzt__solve_view *v, lzt_solve_result *result)
{
    const lzt_problem *p = v->problem;
    uint64_t *bytes = calloc(v->n + 1, sizeof *bytes), budget = 0;
    snprintf(result->reason, sizeof result->reason, "no placement of these boundaries fits the budgets");
    if (!bytes) return;
    for (int t = 0; t < 3; t++) budget += p->budget_bytes[t];
    bytes[0] = p->boundary_bytes[0];
    for (uint64_t i = 1; i <= v->n; i++) {
        bytes[i] = UINT64_MAX;
        for (uint64_t from = i > p->max_segment ? i - p->max_segment : 0; from < i; from++)
            if (bytes[from] != UINT64_MAX && v->next_required[from] >= i && lzt__solve_allowed(v, i) &&
                bytes[from] + p->boundary_bytes[i] < bytes[i])
                bytes[i] = bytes[from] + p->boundary_bytes[i];
    }
    result->resource = LZT_TIER_GPU;
    result->missing_bytes = bytes[v->n] != UINT64_MAX && bytes[v->n] > budget ? bytes[v->n] - budget : 1;
    result->missing_bytes += v->problem->overdrawn_bytes;
    snprintf(result->reason, sizeof result->reason,
             "the gpu activation budget is at least %" PRIu64
             " bytes short: the smallest set of checkpoints has %" PRIu64 " bytes, all tiers together hold %" PRIu64,
             result->missing_bytes, bytes[v->n], budget);
    free(bytes);
}

/* A library that somebody named is used, or refused by name; one that is there by chance is used. */
static bool wants_highs(const lzt_solve_options *options)
{
    return lzt__highs_is_named(options->highs_library) || lzt_solve_has_highs(options->highs_library, NULL);
}

static lzt_status solve_view(const lzt__solve_view *v, const lzt_solve_options *options, lzt_tier *boundary,
                             lzt_solve_result *result, lzt_error *err)
{
    bool uniform = lzt__solve_is_uniform(v->problem);
    lzt_solver solver = options->solver;
    if (!lzt__solve_explain(v, result)) {
        result->status = LZT_PLAN_INFEASIBLE;
        snprintf(result->solver, sizeof result->solver, "%s", solver == LZT_SOLVER_HIGHS ? "highs" : "dp");
        return LZT_OK;
    }
    if (solver == LZT_SOLVER_AUTO) solver = uniform || !wants_highs(options) ? LZT_SOLVER_DP : LZT_SOLVER_HIGHS;
    snprintf(result->solver, sizeof result->solver, "%s", solver == LZT_SOLVER_HIGHS ? "highs" : "dp");
    lzt_status status = solver == LZT_SOLVER_HIGHS ? lzt__highs_solve(v, options, boundary, result, err)
                        : uniform                  ? lzt__dp_uniform(v, boundary, result, err)
                                                   : lzt__dp_general(v, boundary, result, err);
    if (!status && result->status == LZT_PLAN_INFEASIBLE && !result->reason[0]) explain_general(v, result);
    return status;
}

lzt_status lzt_solve(const lzt_problem *problem, const lzt_solve_options *options, lzt_tier *boundary,
                     lzt_solve_result *result, lzt_error *err)
{
    lzt__solve_view view;
    lzt_evaluation e;
    uint64_t begin_ns = lzt__clock_ns();
    assert(options->struct_bytes == sizeof *options);
    memset(result, 0, sizeof *result);
    lzt_status status = lzt_problem_validate(problem, err);
    if (!status) status = lzt__solve_view_init(problem, options, &view, err);
    if (status) return status;
    status = solve_view(&view, options, boundary, result, err);
    if (!status && (result->status == LZT_PLAN_OPTIMAL || result->status == LZT_PLAN_FEASIBLE)) {
        status = lzt_problem_check(problem, boundary, NULL, NULL, &e, err);
        if (!status && (e.violation_count || e.objective_ps != result->objective_ps))
            status = lzt_fail(err, LZT_ERR_INTERNAL, "solve", "the checker refuses the placement of solver %s",
                              result->solver);
    }
    result->solve_seconds = lzt__clock_seconds(lzt__clock_ns() - begin_ns);
    lzt__solve_view_fini(&view);
    return status;
}
