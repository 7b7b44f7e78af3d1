/* HiGHS as a second solver. It gets the suffix form, a placement to begin from and what is left of the time limit; its
 * answer is a placement like any other, which the checker then evaluates. The floating-point bound is taken as proven
 * up to HiGHS's own tolerance: an answer that it calls optimal is reported as optimal.
 *
 * HiGHS looks at the clock only between some of its steps, and not at all in others. So the model is built and solved
 * in a process of its own, which is stopped where no answer came by the limit and LZT_SOLVE_GRACE_S (ADR 0023). */
#include "solve/highs_model.h"

#include "base/child.h"
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
    lzt_tier *start;   /* [n + 1] the warm start */
    uint64_t start_ps; /* its objective; UINT64_MAX: none */
    /* in the child */
    lzt__highs_model model;
    void *highs;
    double *column; /* [cols] */
} session;

/* What the child says. */
typedef struct answer {
    lzt_status status;
    lzt_error error;
    lzt__highs_int verdict;
    bool found;          /* whether HiGHS has a placement */
    double bound_ms;     /* -INFINITY: none */
    lzt_tier boundary[]; /* [n + 1] */
} answer;

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

/* The model, built and solved. Where no time is left to begin, there is no placement. */
static lzt_status solve_here(session *s, answer *a)
{
    s->highs = s->library.create();
    if (!s->highs) return lzt_fail(&a->error, LZT_ERR_NO_MEMORY, "highs", "HiGHS has no memory");
    lzt_status status = lzt__highs_model_init(s->v, s->library.infinity(s->highs), &s->model, &a->error);
    if (status) return status;
    s->column = calloc((size_t)s->model.cols, sizeof *s->column);
    if (!s->column) return lzt_fail(&a->error, LZT_ERR_NO_MEMORY, "highs", "no memory for the solution");
    s->library.set_bool(s->highs, "output_flag", 0); /* before anything else: it greets on stdout */
    status = pass(s, &a->error);
    if (!status) status = set_options(s, &a->error);
    if (status || lzt__solve_expired(s->v)) return status;
    s->library.run(s->highs); /* its outcome is the model status */
    a->verdict = s->library.model_status(s->highs);
    a->found = !s->library.get_solution(s->highs, s->column, NULL, NULL, NULL);
    s->library.get_double(s->highs, "mip_dual_bound", &a->bound_ms);
    if (a->found) lzt__highs_model_decode(&s->model, s->column, a->boundary);
    return LZT_OK;
}

/* The process ends after this, and what it allocated with it. */
static void child(void *context, void *out)
{
    answer *a = out;
    a->status = solve_here(context, a);
}

/* HiGHS's lower bound in picoseconds, at least ours. */
static uint64_t bound_ps(const session *s, const answer *a)
{
    uint64_t ours = lzt__solve_simple_bound(s->v);
    if (!(a->bound_ms > 0) || a->bound_ms > 1e15) return ours;
    uint64_t theirs = (uint64_t)(a->bound_ms * 1e9);
    return theirs > ours ? theirs : ours;
}

/* The better of HiGHS's placement and the start. */
static lzt_status take_answer(const session *s, const answer *a, lzt_tier *boundary, lzt_solve_result *result,
                              lzt_error *err)
{
    lzt_evaluation e = {0};
    bool found = a->found;
    if (a->verdict == LZT__HIGHS_INFEASIBLE && s->start_ps == UINT64_MAX) {
        result->status = LZT_PLAN_INFEASIBLE;
        return LZT_OK;
    }
    if (found) {
        memcpy(boundary, a->boundary, (s->v->n + 1) * sizeof *boundary);
        lzt_status status = lzt_problem_check(s->v->problem, boundary, NULL, NULL, &e, err);
        if (status) return status;
        found = !e.violation_count;
    }
    bool optimal = found && a->verdict == LZT__HIGHS_OPTIMAL;
    if (s->start_ps != UINT64_MAX && (!found || s->start_ps < e.objective_ps)) {
        memcpy(boundary, s->start, (s->v->n + 1) * sizeof *boundary);
        e.objective_ps = s->start_ps;
        found = true;
    }
    result->bound_ps = optimal ? e.objective_ps : bound_ps(s, a);
    result->status = LZT_PLAN_LIMIT;
    if (!found) return LZT_OK;
    result->objective_ps = e.objective_ps;
    if (result->bound_ps > e.objective_ps) result->bound_ps = e.objective_ps;
    result->status = result->bound_ps == e.objective_ps ? LZT_PLAN_OPTIMAL : LZT_PLAN_FEASIBLE;
    return LZT_OK;
}

static lzt_status solve(session *s, const lzt_solve_options *options, answer *a, size_t answer_bytes,
                        lzt_tier *boundary, lzt_solve_result *result, lzt_error *err)
{
    bool late;
    uint64_t until_ns = s->v->deadline_ns ? s->v->deadline_ns + (uint64_t)(LZT_SOLVE_GRACE_S * 1e9) : 0;
    s->start_ps = UINT64_MAX;
    lzt_status status = options->cold_start ? LZT_OK : find_start(s, err);
    if (status) return status;
    a->bound_ms = -INFINITY;
    status = lzt__child_run("HiGHS", child, s, a, answer_bytes, until_ns, &late, err);
    if (!status && late) *a = (answer){.bound_ms = -INFINITY}; /* it was stopped: what there is, is the start */
    if (!status && a->status) {
        status = a->status;
        if (err) *err = a->error;
    }
    if (!status) return take_answer(s, a, boundary, result, err);
    lzt_hint(err, "use --solver dp, which needs no HiGHS");
    return status;
}

lzt_status lzt__highs_solve(const lzt__solve_view *v, const lzt_solve_options *options, lzt_tier *boundary,
                            lzt_solve_result *result, lzt_error *err)
{
    session s = {.v = v};
    size_t answer_bytes = sizeof(answer) + (v->n + 1) * sizeof(lzt_tier);
    lzt_status status = lzt__highs_open(options->highs_library, &s.library, err);
    if (status) return status;
    s.start = calloc(v->n + 1, sizeof *s.start);
    answer *a = calloc(1, answer_bytes);
    if (!s.start || !a)
        status = lzt_fail(err, LZT_ERR_NO_MEMORY, "highs", "no memory for the solution");
    else
        status = solve(&s, options, a, answer_bytes, boundary, result, err);
    free(a);
    free(s.start);
    lzt__highs_close(&s.library);
    return status;
}
