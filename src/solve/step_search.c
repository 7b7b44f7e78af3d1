/* The search over candidates: see lazytrain/step_plan.h.
 *
 * Candidates are visited by rank, and compiled and simulated when they may still win: their own sums fit the caps, and
 * their longest lane is no longer than the best step so far. A candidate's objective is what the clock says, and never
 * less than that lane; its peak is its programs' own, and never less than what it holds at the head's moment. Both are
 * functions of the candidate alone, so what is skipped could not have won, and the answer is the best of the whole list
 * whatever was simulated for other caps before. What a visit costs is charged in full even when it is remembered: a
 * work limit ends the search at the same candidate whatever came before. */
#include "solve/step_search.h"

#include "base/clock.h"
#include "lazytrain/auto_plan.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lzt_step_search {
    lzt_step_plan_options options;
    lzt_step_model model;
    lzt__step_classes classes;
    lzt__step_surrogate *surrogate;
    lzt__step_candidate *candidate;
    uint32_t candidate_count;
    uint64_t simulated;
    lzt_plan plan; /* of the candidate in hand */
};

static lzt_auto_options auto_options(const lzt_step_search *s)
{
    return (lzt_auto_options){.model = s->options.model,
                              .numerics = &s->options.numerics,
                              .kern = s->options.kern,
                              .micro_batches = s->options.micro_batches,
                              .training = true,
                              .frozen = s->options.frozen};
}

lzt_status lzt_step_search_create(const lzt_step_plan_options *options, lzt_step_search **search, lzt_error *err)
{
    assert(options->struct_bytes == sizeof *options && options->price.profile);
    lzt_step_search *s = calloc(1, sizeof *s);
    if (!s) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to plan a step");
    s->options = *options;
    lzt_status status = lzt__step_costs(options, &s->model, err);
    if (!status) status = lzt__step_classes_create(&s->model, &s->classes, err);
    if (!status) status = lzt__step_surrogate_create(&s->model, &s->classes, &s->surrogate, err);
    if (!status)
        status = lzt__step_candidates(&s->model, &s->classes, s->surrogate, &s->candidate, &s->candidate_count, err);
    if (!status) status = lzt_plan_baseline(options->model, &options->numerics, 1, &s->plan, err);
    if (status)
        lzt_step_search_destroy(s);
    else
        *search = s;
    return status;
}

void lzt_step_search_destroy(lzt_step_search *s)
{
    if (!s) return;
    lzt_plan_fini(&s->plan);
    free(s->candidate);
    lzt__step_surrogate_destroy(s->surrogate);
    lzt__step_classes_fini(&s->classes);
    lzt_step_model_fini(&s->model);
    free(s);
}

const lzt_step_model *lzt_step_search_get_model(const lzt_step_search *s)
{
    return &s->model;
}

const lzt_step_plan_options *lzt__step_search_options(const lzt_step_search *s)
{
    return &s->options;
}

/* ---- measuring ---- */

/* What one program of the step adds. */
static lzt_status add_program(const lzt_step_search *s, const lzt_state_layout *layout, lzt_variant variant,
                              bool update, uint64_t times, const lzt_plan *plan, lzt__step_candidate *c,
                              lzt_account *total, lzt_error *err)
{
    lzt_step_options step = {.model = s->options.model,
                             .plan = plan,
                             .layout = layout,
                             .kern = s->options.kern,
                             .variant = variant,
                             .update = update,
                             .micro_batches = s->options.micro_batches,
                             .frozen = s->options.frozen};
    lzt_program *program;
    lzt_account account = {0};
    double seconds = 0;
    lzt_status status = lzt_step_compile(&step, &program, err);
    if (status) return status;
    const lzt_program_info *p = lzt_program_get_info(program);
    for (int k = 0; k < LZT_STEP_MEMORY_COUNT; k++)
        if (p->peak_bytes[k] > c->step_bytes[k]) c->step_bytes[k] = p->peak_bytes[k];
    c->step_work += p->task_count;
    status = lzt_price_program(program, &s->options.price, NULL, NULL, &account, &seconds, err);
    lzt_program_destroy(program);
    c->ps += times * (uint64_t)llround(seconds * 1e12);
    for (uint64_t i = 0; i < times; i++) lzt_account_add(total, &account);
    return status;
}

/* Compiles, prices and simulates the programs of a step of the plan. */
static lzt_status simulate(const lzt_step_search *s, const lzt_plan *plan, lzt__step_candidate *c, lzt_error *err)
{
    uint64_t m = s->model.micro_batches;
    lzt_state_layout *layout;
    lzt_account total = {0};
    lzt_status status = lzt_state_layout_create(s->options.model, &s->options.numerics, true, &layout, err);
    if (status) return status;
    c->ps = c->step_work = 0;
    memcpy(c->step_bytes, c->least_bytes, sizeof c->step_bytes);
    if (m == 1) status = add_program(s, layout, LZT_VARIANT_SINGLE, true, 1, plan, c, &total, err);
    if (m > 1) status = add_program(s, layout, LZT_VARIANT_FIRST, true, 1, plan, c, &total, err);
    if (m > 2 && !status) status = add_program(s, layout, LZT_VARIANT_MIDDLE, false, m - 2, plan, c, &total, err);
    if (m > 1 && !status) status = add_program(s, layout, LZT_VARIANT_LAST, false, 1, plan, c, &total, err);
    lzt_state_layout_destroy(layout);
    if (status) return status;
    if (c->ps < c->bound_ps) c->ps = c->bound_ps;
    c->waits_ps[LZT_STEP_COMPUTE] = (uint64_t)llround(total.busy_seconds[LZT_LANE_COMPUTE] * 1e12);
    c->waits_ps[LZT_STEP_H2D] = (uint64_t)llround(total.exposed_seconds[LZT_LANE_H2D] * 1e12);
    c->waits_ps[LZT_STEP_D2H] = (uint64_t)llround(total.exposed_seconds[LZT_LANE_D2H] * 1e12);
    c->waits_ps[LZT_STEP_HOST] = (uint64_t)llround(total.exposed_seconds[LZT_LANE_CPU_OPTIMIZER] * 1e12);
    return LZT_OK;
}

/* The peak over every program that a run has: evaluation, and steps without a pending update. */
static lzt_status measure(const lzt_step_search *s, lzt_plan *plan, lzt__step_candidate *c, lzt_error *err)
{
    uint64_t peak[LZT_SPACE_COUNT];
    lzt_auto_options options = auto_options(s);
    c->run_work = 0;
    options.work = &c->run_work;
    lzt_status status = lzt_plan_measure(&options, plan, peak, err);
    if (status) return status;
    for (int k = 0; k < LZT_STEP_MEMORY_COUNT; k++)
        c->peak_bytes[k] = peak[k] > c->step_bytes[k] ? peak[k] : c->step_bytes[k];
    c->state = LZT__STEP_MEASURED;
    return LZT_OK;
}

/* ---- the search ---- */

typedef struct hunt {
    uint64_t cap[LZT_STEP_MEMORY_COUNT];
    uint64_t deadline_ns, work_limit, work;
    lzt__step_candidate *best;
    uint64_t least_bytes[LZT_STEP_MEMORY_COUNT];
    lzt_plan_cut cut;
} hunt;

/* Whether a limit has come. */
static bool cut_short(hunt *h)
{
    if (h->work_limit && h->work >= h->work_limit)
        h->cut = LZT_PLAN_CUT_WORK;
    else if (h->deadline_ns && lzt__clock_ns() > h->deadline_ns)
        h->cut = LZT_PLAN_CUT_CLOCK;
    return h->cut != LZT_PLAN_CUT_NONE;
}

static lzt_status ensure_simulated(lzt_step_search *s, hunt *h, lzt__step_candidate *c, lzt_error *err)
{
    lzt_status status = LZT_OK;
    lzt__step_place(&s->model, &s->classes, c, &s->plan);
    if (c->state == LZT__STEP_NEW) {
        status = simulate(s, &s->plan, c, err);
        if (!status) c->state = LZT__STEP_SIMULATED, s->simulated++;
    }
    h->work += c->step_work;
    return status;
}

/* After ensure_simulated. */
static lzt_status ensure_measured(lzt_step_search *s, hunt *h, lzt__step_candidate *c, lzt_error *err)
{
    lzt_status status = c->state == LZT__STEP_MEASURED ? LZT_OK : measure(s, &s->plan, c, err);
    h->work += c->run_work;
    return status;
}

static bool fits(const hunt *h, const uint64_t *bytes)
{
    return bytes[LZT_STEP_DEVICE] <= h->cap[LZT_STEP_DEVICE] && bytes[LZT_STEP_RAM] <= h->cap[LZT_STEP_RAM];
}

/* c, holding these bytes, wins over b: faster; or as fast, and smaller on the device, then on the host. */
static bool beats(const lzt__step_candidate *c, const uint64_t *bytes, const lzt__step_candidate *b)
{
    if (!b) return true;
    if (c->ps != b->ps) return c->ps < b->ps;
    if (bytes[0] != b->peak_bytes[0]) return bytes[0] < b->peak_bytes[0];
    return bytes[1] < b->peak_bytes[1];
}

/* What its sums alone allow. */
static bool may_win(const hunt *h, const lzt__step_candidate *c)
{
    return fits(h, c->least_bytes) && !(h->best && c->bound_ps > h->best->ps);
}

static lzt_status visit(lzt_step_search *s, hunt *h, lzt__step_candidate *c, lzt_error *err)
{
    lzt_status status = ensure_simulated(s, h, c, err);
    if (status || !fits(h, c->step_bytes) || !beats(c, c->step_bytes, h->best)) return status;
    status = ensure_measured(s, h, c, err);
    if (!status && fits(h, c->peak_bytes) && beats(c, c->peak_bytes, h->best)) h->best = c;
    return status;
}

typedef struct least_key {
    uint64_t bytes;
    uint32_t index;
} least_key;

static int by_bytes(const void *a, const void *b)
{
    const least_key *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

/* With nothing that fits, the least that any candidate needs of a memory: they are compiled by what they hold at least,
 * until none that is left could need less, or a limit comes. */
static lzt_status find_least(lzt_step_search *s, hunt *h, int memory, lzt_error *err)
{
    lzt_status status = LZT_OK;
    least_key *key = malloc(((size_t)s->candidate_count + 1) * sizeof *key);
    if (!key) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to look for the least plan");
    for (uint32_t i = 0; i < s->candidate_count; i++) key[i] = (least_key){s->candidate[i].least_bytes[memory], i};
    qsort(key, s->candidate_count, sizeof *key, by_bytes);
    for (uint32_t i = 0; i < s->candidate_count && !status && key[i].bytes < h->least_bytes[memory]; i++) {
        lzt__step_candidate *c = &s->candidate[key[i].index];
        if (cut_short(h)) break;
        status = ensure_simulated(s, h, c, err);
        if (!status) status = ensure_measured(s, h, c, err);
        if (!status && c->peak_bytes[memory] < h->least_bytes[memory]) h->least_bytes[memory] = c->peak_bytes[memory];
    }
    free(key);
    return status;
}

static lzt_status take(lzt_step_search *s, const hunt *h, const lzt_step_caps *caps, lzt_step_plan_result *r,
                       lzt_plan *plan, lzt_error *err)
{
    lzt_evaluation e;
    lzt__step_candidate *c = h->best;
    uint64_t peak[LZT_SPACE_COUNT];
    lzt_auto_options options = auto_options(s);
    lzt__step_place(&s->model, &s->classes, c, &s->plan);
    lzt_status status = lzt_plan_copy(plan, &s->plan, err);
    if (!status) status = lzt_plan_measure(&options, plan, peak, err);
    if (!status && !(plan->step = calloc(1, sizeof *plan->step)))
        status = lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a plan");
    if (!status) status = lzt_step_model_copy(plan->step, &s->model, err);
    if (status) {
        lzt_plan_fini(plan);
        return status;
    }
    plan->device_bytes = c->peak_bytes[LZT_STEP_DEVICE];
    plan->host_bytes = c->peak_bytes[LZT_STEP_RAM];
    plan->step->cap_bytes[LZT_STEP_DEVICE] = caps->device_bytes;
    plan->step->cap_bytes[LZT_STEP_RAM] = caps->host_bytes;
    plan->step->surrogate_ps = r->bound_ps;
    memcpy(plan->step->waits_ps, c->waits_ps, sizeof plan->step->waits_ps);
    plan->status = r->status;
    plan->cut = r->cut;
    snprintf(plan->solver, sizeof plan->solver, "step");
    plan->objective_ps = r->objective_ps = c->ps;
    plan->bound_ps = r->bound_ps;
    status = lzt_plan_check(plan, NULL, NULL, &e, err);
    assert(status || !e.violation_count);
    return status;
}

static lzt_plan_status outcome_of(const hunt *h)
{
    if (h->best) return h->cut ? LZT_PLAN_FEASIBLE : LZT_PLAN_OPTIMAL;
    return h->cut ? LZT_PLAN_LIMIT : LZT_PLAN_INFEASIBLE;
}

lzt_status lzt_step_search_solve(lzt_step_search *s, const lzt_step_caps *caps, lzt_plan *plan, lzt_step_plan_result *r,
                                 lzt_error *err)
{
    uint64_t begin_ns = lzt__clock_ns();
    hunt h = {.cap = {caps->device_bytes ? caps->device_bytes : UINT64_MAX / 2,
                      caps->host_bytes ? caps->host_bytes : UINT64_MAX / 2},
              .work_limit = caps->work_limit,
              .least_bytes = {UINT64_MAX, UINT64_MAX}};
    lzt_status status = LZT_OK;
    memset(plan, 0, sizeof *plan);
    *r = (lzt_step_plan_result){.candidates = s->candidate_count};
    if (caps->time_limit_s > 0) h.deadline_ns = begin_ns + (uint64_t)(caps->time_limit_s * 1e9);
    r->bound_ps = lzt__step_bound(s->surrogate, h.cap);
    for (uint32_t i = 0; i < s->candidate_count && !status; i++) {
        if (!may_win(&h, &s->candidate[i])) continue;
        if (cut_short(&h)) break;
        status = visit(s, &h, &s->candidate[i], err);
    }
    for (int k = 0; k < LZT_STEP_MEMORY_COUNT && !status && outcome_of(&h) == LZT_PLAN_INFEASIBLE; k++)
        status = find_least(s, &h, k, err);
    r->status = outcome_of(&h);
    r->cut = h.cut;
    r->work = h.work;
    if (!status && h.best) status = take(s, &h, caps, r, plan, err);
    memcpy(r->least_bytes, h.least_bytes, sizeof r->least_bytes);
    r->simulated = s->simulated;
    r->solve_seconds = lzt__clock_seconds(lzt__clock_ns() - begin_ns);
    if (!status && h.best) plan->solve_seconds = r->solve_seconds;
    return status;
}

lzt_status lzt_step_search_measure(lzt_step_search *s, const lzt_step_caps *caps, lzt_plan *plan, lzt_error *err)
{
    lzt__step_candidate c = {0};
    lzt_step_sum sum;
    uint64_t peak[LZT_SPACE_COUNT];
    lzt_auto_options options = auto_options(s);
    lzt_step_model_sum(&s->model, plan->boundary, plan->internals, plan->weights, &sum);
    c.bound_ps = sum.bound_ps;
    lzt_status status = simulate(s, plan, &c, err);
    if (!status) status = lzt_plan_measure(&options, plan, peak, err);
    if (!status && !plan->step && !(plan->step = calloc(1, sizeof *plan->step)))
        status = lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a plan");
    if (status) return status;
    lzt_step_model_fini(plan->step);
    status = lzt_step_model_copy(plan->step, &s->model, err);
    if (status) return status;
    plan->step->cap_bytes[LZT_STEP_DEVICE] = caps->device_bytes;
    plan->step->cap_bytes[LZT_STEP_RAM] = caps->host_bytes;
    memcpy(plan->step->waits_ps, c.waits_ps, sizeof c.waits_ps);
    plan->objective_ps = c.ps;
    plan->bound_ps = plan->step->surrogate_ps = sum.bound_ps;
    return LZT_OK;
}
