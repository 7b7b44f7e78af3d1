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
        if (plan->boundary[i] == LZT_TIER_GPU) continue;
        snprintf(line, sizeof line, "boundary %" PRIu64 " is %s, but the ends stay on the gpu", i,
                 lzt_tier_name(plan->boundary[i]));
        violate(note, arg, e, line);
    }
}

lzt_status lzt_plan_check(const lzt_plan *plan, lzt_violation_fn *note, void *arg, lzt_evaluation *e, lzt_error *err)
{
    assert(plan->boundary);
    if (plan->problem) return lzt_problem_check(plan->problem, plan->boundary, note, arg, e, err);
    check_placement(plan, note, arg, e);
    return LZT_OK;
}
