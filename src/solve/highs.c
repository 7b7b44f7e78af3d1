/* HiGHS as a second solver. It gets the suffix form, a placement to begin from and what is left of the time limit; its
 * answer is a placement like any other, which the checker then evaluates. The floating-point bound is taken as proven
 * up to HiGHS's own tolerance: an answer that it calls optimal is reported as optimal. */
#include "solve/highs_model.h"

#include "base/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The warm start may take this share of the time, and this many states. */
#define START_SHARE  0.25
#define START_LABELS (UINT64_C(1) << 20)

typedef struct session {
    const lzt__solve_view *v;
    lzt__highs_library library;
    lzt__highs_model model;
    void *highs;
    double *column;    /* [cols] */
    lzt_tier *start;   /* [n + 1] the warm start */
    uint64_t start_ps; /* its objective; UINT64_MAX: none */
} session;

static double seconds_left(const lzt__solve_view *v)
{
    uint64_t now = lzt__clock_ns();
    return now >= v->deadline_ns ? 0 : lzt__clock_seconds(v->deadline_ns - now);
}

/* A short run of our own programmes. */
static lzt_status find_start(session *s, lzt_error *err)
{
    lzt__solve_view hurried = *s->v;
    lzt_solve_result r = {0};
    s->start_ps = UINT64_MAX;
    hurried.label_limit = START_LABELS;
    if (s->v->deadline_ns) {
        uint64_t now = lzt__clock_ns();
        hurried.deadline_ns = now + (uint64_t)(seconds_left(s->v) * START_SHARE * 1e9);
    }
    lzt_status status = lzt__solve_is_uniform(s->v->problem) ? lzt__dp_uniform(&hurried, s->start, &r, err)
                                                             : lzt__dp_general(&hurried, s->start, &r, err);
    if (!status && (r.status == LZT_PLAN_OPTIMAL || r.status == LZT_PLAN_FEASIBLE)) s->start_ps = r.objective_ps;
    return status;
}

static lzt_status set_options(session *s, lzt_error *err)
{
    const lzt__highs_library *l = &s->library;
    lzt__highs_int bad = 0;
    bad |= l->set_string(s->highs, "parallel", "off"); /* the answer must not depend on the machine */
    bad |= l->set_double(s->highs, "mip_rel_gap", 0);  /* the default's 1e-4 exceeds the tie-break */
    bad |= l->set_double(s->highs, "mip_abs_gap", 0);
    bad |= l->set_double(s->highs, "mip_feasibility_tolerance", 1e-9);
    bad |= l->set_double(s->highs, "primal_feasibility_tolerance", 1e-9);
    bad |= l->set_double(s->highs, "dual_feasibility_tolerance", 1e-9);
    if (s->v->deadline_ns) bad |= l->set_double(s->highs, "time_limit", seconds_left(s->v));
    return bad ? lzt_fail(err, LZT_ERR_INTERNAL, "highs", "HiGHS %s refuses an option", l->version()) : LZT_OK;
}

static lzt_status pass(session *s, lzt_error *err)
{
    const lzt__highs_library *l = &s->library;
    const lzt__highs_model *m = &s->model;
    lzt__highs_int bad = l->pass_mip(s->highs, m->cols, m->rows, m->nonzeros, LZT__HIGHS_ROWWISE, LZT__HIGHS_MINIMIZE,
                                     m->offset_ms, m->cost, m->lower, m->upper, m->row_lower, m->row_upper, m->start,
                                     m->index, m->value, m->integrality);
    if (bad < 0) return lzt_fail(err, LZT_ERR_INTERNAL, "highs", "HiGHS refuses the model");
    if (s->start_ps != UINT64_MAX) {
        lzt__highs_model_encode(m, s->start, s->column);
        l->set_solution(s->highs, s->column, NULL, NULL, NULL); /* a start that it dislikes is no start */
    }
    return LZT_OK;
}

/* HiGHS's lower bound in picoseconds, at least ours. */
static uint64_t bound_ps(const session *s)
{
    double bound_ms = -INFINITY;
    uint64_t ours = lzt__solve_simple_bound(s->v);
    s->library.get_double(s->highs, "mip_dual_bound", &bound_ms);
    if (!(bound_ms > 0) || bound_ms > 1e15) return ours;
    uint64_t theirs = (uint64_t)(bound_ms * 1e9);
    return theirs > ours ? theirs : ours;
}

/* The better of HiGHS's placement and the start. */
static lzt_status take_answer(session *s, lzt_tier *boundary, lzt_solve_result *result, lzt_error *err)
{
    lzt_evaluation e;
    lzt__highs_int verdict = s->library.model_status(s->highs);
    bool found = !s->library.get_solution(s->highs, s->column, NULL, NULL, NULL);
    if (verdict == LZT__HIGHS_INFEASIBLE && s->start_ps == UINT64_MAX) {
        result->status = LZT_PLAN_INFEASIBLE;
        return LZT_OK;
    }
    lzt__highs_model_decode(&s->model, s->column, boundary);
    lzt_status status = lzt_problem_check(s->v->problem, boundary, NULL, NULL, &e, err);
    if (status) return status;
    found = found && !e.violation_count;
    bool optimal = found && verdict == LZT__HIGHS_OPTIMAL;
    if (s->start_ps != UINT64_MAX && (!found || s->start_ps < e.objective_ps)) {
        memcpy(boundary, s->start, (s->v->n + 1) * sizeof *boundary);
        e.objective_ps = s->start_ps;
        found = true;
    }
    result->bound_ps = optimal ? e.objective_ps : bound_ps(s);
    result->status = LZT_PLAN_LIMIT;
    if (!found) return LZT_OK;
    result->objective_ps = e.objective_ps;
    if (result->bound_ps > e.objective_ps) result->bound_ps = e.objective_ps;
    result->status = result->bound_ps == e.objective_ps ? LZT_PLAN_OPTIMAL : LZT_PLAN_FEASIBLE;
    return LZT_OK;
}

/* No time is left for HiGHS: the start is the answer. */
static void take_start(session *s, lzt_tier *boundary, lzt_solve_result *result)
{
    result->bound_ps = lzt__solve_simple_bound(s->v);
    result->status = LZT_PLAN_LIMIT;
    if (s->start_ps == UINT64_MAX) return;
    memcpy(boundary, s->start, (s->v->n + 1) * sizeof *boundary);
    result->objective_ps = s->start_ps;
    if (result->bound_ps > s->start_ps) result->bound_ps = s->start_ps;
    result->status = result->bound_ps == s->start_ps ? LZT_PLAN_OPTIMAL : LZT_PLAN_FEASIBLE;
}

static lzt_status solve(session *s, const lzt_solve_options *options, lzt_tier *boundary, lzt_solve_result *result,
                        lzt_error *err)
{
    s->start_ps = UINT64_MAX;
    lzt_status status = options->cold_start ? LZT_OK : find_start(s, err);
    if (status) return status;
    s->highs = s->library.create();
    if (!s->highs) return lzt_fail(err, LZT_ERR_NO_MEMORY, "highs", "HiGHS has no memory");
    status = lzt__highs_model_init(s->v, s->library.infinity(s->highs), &s->model, err);
    if (status) return status;
    s->column = calloc((size_t)s->model.cols, sizeof *s->column);
    if (!s->column) return lzt_fail(err, LZT_ERR_NO_MEMORY, "highs", "no memory for the solution");
    s->library.set_bool(s->highs, "output_flag", 0); /* before anything else: it greets on stdout */
    status = pass(s, err);
    if (!status) status = set_options(s, err);
    if (status) return status;
    if (lzt__solve_expired(s->v)) {
        take_start(s, boundary, result);
        return LZT_OK;
    }
    s->library.run(s->highs); /* its outcome is the model status */
    return take_answer(s, boundary, result, err);
}

lzt_status lzt__highs_solve(const lzt__solve_view *v, const lzt_solve_options *options, lzt_tier *boundary,
                            lzt_solve_result *result, lzt_error *err)
{
    session s = {.v = v};
    lzt_status status = lzt__highs_open(options->highs_library, &s.library, err);
    if (status) return status;
    s.start = calloc(v->n + 1, sizeof *s.start);
    if (!s.start)
        status = lzt_fail(err, LZT_ERR_NO_MEMORY, "highs", "no memory for the solution");
    else
        status = solve(&s, options, boundary, result, err);
    if (s.highs) s.library.destroy(s.highs);
    lzt__highs_model_fini(&s.model);
    free(s.column);
    free(s.start);
    lzt__highs_close(&s.library);
    return status;
}
