/* lzt_plan_check: what a plan can be held to without its model. */
#include "lazytrain/plan.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void violate(lzt_violation_fn *note, void *arg, lzt_evaluation *e, const char *line)
{
    e->violation_count++;
    if (note) note(arg, line);
}

/* A plan without a problem: the ends, counts and blocks. */
static void check_placement(const lzt_plan *plan, lzt_violation_fn *note, void *arg, lzt_evaluation *e)
{
    const uint64_t n = plan->layer_count;
    char line[256];
    memset(e, 0, sizeof *e);
    for (uint64_t i = 0; i <= n; i++) {
        e->count[plan->boundary[i]]++;
        e->block_count += i && plan->boundary[i] != LZT_TIER_RECOMPUTE;
    }
    for (uint64_t i = 0; i <= n; i += n) {
        if (plan->boundary[i] == LZT_TIER_GPU || (!i && plan->boundary[i] == LZT_TIER_RECOMPUTE)) continue;
        snprintf(line, sizeof line,
                 "boundary %" PRIu64 " is %s, but the ends stay on the gpu (the first may be recompute)", i,
                 lzt_tier_name(plan->boundary[i]));
        violate(note, arg, e, line);
    }
}

static void check_step(const lzt_plan *plan, lzt_violation_fn *note, void *arg, lzt_evaluation *e)
{
    static const char *const names[LZT_STEP_MEMORY_COUNT] = {"device", "host"};
    const uint64_t planned[LZT_STEP_MEMORY_COUNT] = {plan->device_bytes, plan->host_bytes};
    const lzt_step_model *m = plan->step;
    lzt_step_sum sum;
    char line[256];
    lzt_step_model_sum(m, plan->boundary, plan->internals, plan->weights, &sum);
    for (int k = 0; k < LZT_STEP_MEMORY_COUNT; k++) {
        uint64_t most = planned[k] > sum.least_bytes[k] ? planned[k] : sum.least_bytes[k];
        if (m->cap_bytes[k] && most > m->cap_bytes[k]) {
            snprintf(line, sizeof line, "the %s needs %" PRIu64 " bytes, %" PRIu64 " more than its cap of %" PRIu64,
                     names[k], most, most - m->cap_bytes[k], m->cap_bytes[k]);
            violate(note, arg, e, line);
        }
        if (planned[k] >= sum.least_bytes[k]) continue;
        snprintf(line, sizeof line, "planned.%s_bytes is %" PRIu64 ", but the placement holds %" PRIu64 " at once",
                 names[k], planned[k], sum.least_bytes[k]);
        violate(note, arg, e, line);
    }
    e->recompute_ps = sum.window_ps[LZT_STEP_BACKWARD][LZT_STEP_COMPUTE];
    e->objective_ps = sum.bound_ps;
    if (!plan->status || plan->objective_ps >= sum.bound_ps) return;
    snprintf(line, sizeof line, "objective_ms is %.5f, but the placement's own sums are %.5f",
             lzt_ms(plan->objective_ps), lzt_ms(sum.bound_ps));
    violate(note, arg, e, line);
}

/* What the file states of itself: a bound is at most the objective of any placement, so of the one it was stated with.
 */
static void check_stated(const lzt_plan *plan, lzt_violation_fn *note, void *arg, lzt_evaluation *e)
{
    char line[256];
    bool solved = plan->status == LZT_PLAN_OPTIMAL || plan->status == LZT_PLAN_FEASIBLE;
    if (!solved || plan->bound_ps <= plan->objective_ps) return;
    snprintf(line, sizeof line, "bound_ms is %.5f, more than objective_ms, which is %.5f", lzt_ms(plan->bound_ps),
             lzt_ms(plan->objective_ps));
    violate(note, arg, e, line);
}

lzt_status lzt_plan_check(const lzt_plan *plan, lzt_violation_fn *note, void *arg, lzt_evaluation *e, lzt_error *err)
{
    assert(plan->boundary);
    lzt_status status = LZT_OK;
    if (plan->problem) status = lzt_problem_check(plan->problem, plan->boundary, note, arg, e, err);
    if (status) return status;
    if (!plan->problem) check_placement(plan, note, arg, e);
    if (plan->step) check_step(plan, note, arg, e);
    check_stated(plan, note, arg, e);
    return LZT_OK;
}

static void keep_first(void *arg, const char *line)
{
    char *first = arg;
    if (!first[0]) snprintf(first, 256, "%s", line);
}

lzt_status lzt_plan_require(const lzt_plan *plan, const char *where, lzt_error *err)
{
    lzt_evaluation e;
    lzt_status status = LZT_OK;
    char first[256] = "";
    assert(plan->boundary);
    if (plan->problem)
        status = lzt_problem_check(plan->problem, plan->boundary, keep_first, first, &e, err);
    else
        check_placement(plan, keep_first, first, &e);
    if (status || !e.violation_count) return status;
    lzt_fail(err, LZT_ERR_USAGE, where, "the plan breaks a constraint: %s", first);
    return lzt_hint(err, "lazytrain check %s lists them", where);
}
