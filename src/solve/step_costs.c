/* What the step's parts cost: two reference plans, compiled and priced, and the times of their tasks by layer and lane.
 *
 *     A  nothing is kept, every inner boundary is made again: a layer's runs on the compute lane are its forward, its
 *        forward for the boundary behind it, and then its forward once more with its backward
 *     B  internals and boundaries leave and return: forward, backward
 *
 * What no layer accounts for is fixed. The model's sums of A are therefore A's own, to the picosecond, and those of any
 * other plan follow from tasks that A and B have. */
#include "solve/step_search.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A compiled program with its prices. */
typedef struct priced {
    lzt_program *program;
    const lzt_program_info *p;
    double *seconds, *start, *end;
    uint32_t head; /* the first compute task of the loss */
} priced;

/* The tasks that run a layer, one stretch of the compute lane after the other. */
typedef struct layer_runs {
    uint32_t count;
    uint32_t first[3], last[3];
    uint64_t ps[3];
} layer_runs;

static uint64_t ps_of(double seconds)
{
    return (uint64_t)llround(seconds * 1e12);
}

static void priced_fini(priced *r)
{
    lzt_program_destroy(r->program);
    free(r->seconds);
}

static lzt_status price(const lzt_step_plan_options *o, const lzt_plan *plan, const lzt_state_layout *layout,
                        lzt_variant variant, bool update, priced *r, lzt_error *err)
{
    lzt_step_options step = {.model = o->model,
                             .plan = plan,
                             .layout = layout,
                             .kern = o->kern,
                             .variant = variant,
                             .update = update,
                             .micro_batches = o->micro_batches,
                             .frozen = o->frozen};
    *r = (priced){0};
    lzt_status status = lzt_step_compile(&step, &r->program, err);
    if (status) return status;
    r->p = lzt_program_get_info(r->program);
    size_t n = (size_t)r->p->task_count + 1;
    r->seconds = malloc(3 * n * sizeof *r->seconds);
    if (!r->seconds) status = lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to price a program");
    if (!status) status = lzt_price_tasks(r->program, &o->price, r->seconds, err);
    if (status) {
        priced_fini(r);
        return status;
    }
    r->start = r->seconds + n;
    r->end = r->start + n;
    while (r->head < r->p->task_count && r->p->task[r->head].op != LZT_OP_LOSS_CHUNK) r->head++;
    return LZT_OK;
}

static lzt_step_lane lane_of(lzt_lane lane)
{
    return lane == LZT_LANE_COMPUTE ? LZT_STEP_COMPUTE
           : lane == LZT_LANE_H2D   ? LZT_STEP_H2D
           : lane == LZT_LANE_D2H   ? LZT_STEP_D2H
                                    : LZT_STEP_HOST;
}

/* In A every upload that belongs to no layer is for the forward, or for the head at its end. */
static lzt_step_window window_of(const priced *r, uint32_t i, const bool *uploaded)
{
    const lzt_task *t = &r->p->task[i];
    if (t->lane == LZT_LANE_COMPUTE) return i < r->head ? LZT_STEP_FORWARD : LZT_STEP_BACKWARD;
    if (t->lane == LZT_LANE_H2D) return t->layer >= 0 && uploaded[t->layer] ? LZT_STEP_BACKWARD : LZT_STEP_FORWARD;
    if (t->lane == LZT_LANE_D2H) return LZT_STEP_BACKWARD;
    return t->iteration < 0 ? LZT_STEP_FORWARD : LZT_STEP_BACKWARD;
}

/* Adds a program of A to the totals, `times` over. */
static lzt_status add_totals(const priced *r, uint64_t layers, uint64_t times, lzt_step_model *m, lzt_error *err)
{
    bool *uploaded = calloc(layers, sizeof *uploaded);
    if (!uploaded) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to add up a program");
    for (uint32_t i = 0; i < r->p->task_count; i++) {
        const lzt_task *t = &r->p->task[i];
        if (t->lane == LZT_LANE_DATA) continue; /* a lane of its own; what compute waits for it is in the edges */
        m->fixed_ps[window_of(r, i, uploaded)][lane_of(t->lane)] += times * ps_of(r->seconds[i]);
        if (t->lane == LZT_LANE_H2D && t->layer >= 0) uploaded[t->layer] = true;
    }
    free(uploaded);
    return LZT_OK;
}

/* What must follow task `from`, along what flows alone: a lane may have other work in one plan and none in another.
 * tail [task_count] is scratch. */
static double seconds_after(const priced *r, uint32_t from, double *tail)
{
    for (uint32_t i = 0; i < r->p->task_count; i++) tail[i] = 0;
    for (uint32_t i = r->p->task_count; i-- > from + 1;)
        for (uint32_t k = 0; k < r->p->task[i].flow_count; k++) {
            uint32_t before = r->p->flow[r->p->task[i].first_flow + k];
            if (tail[i] + r->seconds[i] > tail[before]) tail[before] = tail[i] + r->seconds[i];
        }
    return tail[from];
}

/* What every plan does before the loss, in the same order on each lane: updates, each layer's first upload, forward.
 * Without an update a layer's weights may be there already. */
static bool is_in_any_plan(const lzt_task *t, bool update, bool *uploaded)
{
    if (t->lane == LZT_LANE_COMPUTE || t->lane == LZT_LANE_DATA) return true;
    if (t->lane == LZT_LANE_CPU_OPTIMIZER) return t->iteration < 0;
    if (t->lane != LZT_LANE_H2D) return false;
    if (t->layer < 0) return true;
    bool first = update && !uploaded[t->layer];
    uploaded[t->layer] = true;
    return first;
}

/* When the loss begins at the earliest in any plan, less what compute does for it: what follows from what flows, and
 * from lanes that run these tasks in order. r->start and r->end are overwritten. */
static double wait_before_loss(const priced *r, bool update, bool *uploaded)
{
    double lane[LZT_LANE_COUNT] = {0}, busy = 0, *end = r->end;
    for (uint32_t i = 0; i <= r->head && i < r->p->task_count; i++) {
        const lzt_task *t = &r->p->task[i];
        end[i] = 0;
        if (!is_in_any_plan(t, update, uploaded)) continue;
        double start = lane[t->lane];
        for (uint32_t k = 0; k < t->flow_count; k++) start = fmax(start, end[r->p->flow[t->first_flow + k]]);
        if (i == r->head) return start - busy;
        lane[t->lane] = end[i] = start + r->seconds[i];
        if (t->lane == LZT_LANE_COMPUTE) busy += r->seconds[i];
    }
    return 0;
}

/* What compute waits before the loss and after the last layer, in any plan. */
static lzt_status add_edges(const priced *r, uint64_t times, bool update, lzt_step_model *m, lzt_error *err)
{
    uint32_t last = 0;
    bool *uploaded = calloc(m->layer_count, sizeof *uploaded);
    if (!uploaded) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the edges of a program");
    for (uint32_t i = 0; i < r->p->task_count; i++)
        if (r->p->task[i].lane == LZT_LANE_COMPUTE && r->p->task[i].layer >= 0) last = i;
    double before = wait_before_loss(r, update, uploaded);
    if (before > 0) m->edge_ps[LZT_STEP_FORWARD] += times * (uint64_t)(before * 1e12);
    m->edge_ps[LZT_STEP_BACKWARD] += times * (uint64_t)(seconds_after(r, last, r->start) * 1e12);
    free(uploaded);
    return LZT_OK;
}

static lzt_status find_runs(const priced *r, uint64_t layers, layer_runs **runs, lzt_error *err)
{
    *runs = calloc(layers, sizeof **runs);
    if (!*runs) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the runs of layers");
    int32_t before = -1;
    for (uint32_t i = 0; i < r->p->task_count; i++) {
        const lzt_task *t = &r->p->task[i];
        if (t->lane != LZT_LANE_COMPUTE) continue;
        if (t->layer >= 0) {
            layer_runs *l = &(*runs)[t->layer];
            if (t->layer != before) {
                assert(l->count < 3);
                l->first[l->count++] = i;
            }
            l->last[l->count - 1] = i;
            l->ps[l->count - 1] += ps_of(r->seconds[i]);
        }
        before = t->layer;
    }
    return LZT_OK;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* A's runs give everything but what backward takes alone, which B's give. */
static void take_times(const priced *a, const layer_runs *of_a, const layer_runs *of_b, lzt_step_model *m)
{
    uint64_t n = m->layer_count;
    for (uint64_t l = 0; l < n; l++) {
        lzt_step_layer *x = &m->layer[l];
        x->forward_ps = of_a[l].ps[0];
        x->backward_ps = of_b[l].ps[1];
        x->again_ps = minus(of_a[l].ps[of_a[l].count - 1], x->backward_ps);
        if (l + 1 < n) x->recompute_ps = of_a[l].ps[1];
    }
    for (uint32_t i = 0; i < a->p->task_count; i++) {
        const lzt_task *t = &a->p->task[i];
        if (t->layer < 0) continue;
        if (t->lane == LZT_LANE_H2D) m->layer[t->layer].upload_ps = ps_of(a->seconds[i]);
        if (t->lane == LZT_LANE_D2H) m->layer[t->layer].gradient_ps = ps_of(a->seconds[i]);
    }
}

/* B's copies of layers between the device and objects of the host that do not outlive the program: internals. (Weights
 * come from, gradients go to persistent ones: its micro-batch is the first.) */
static void take_internals(const priced *b, lzt_step_model *m)
{
    for (uint32_t i = 0; i < b->p->task_count; i++) {
        const lzt_task *t = &b->p->task[i];
        if (t->layer < 0 || (t->lane != LZT_LANE_D2H && t->lane != LZT_LANE_H2D)) continue;
        const lzt_operand *host = &b->p->operand[t->first_operand + (t->lane == LZT_LANE_D2H)];
        if (b->p->object[host->object].persistent) continue;
        lzt_step_layer *l = &m->layer[t->layer];
        *(t->lane == LZT_LANE_D2H ? &l->internals_down_ps : &l->internals_up_ps) += ps_of(b->seconds[i]);
        if (t->lane == LZT_LANE_D2H) l->internals_bytes += host->bytes;
    }
}

/* Copies of one boundary: those of B whose like A has not. */
static void take_boundary(const priced *a, const priced *b, uint64_t boundary_bytes, lzt_step_model *m)
{
    uint64_t down[2] = {0}, up[2] = {0};
    const priced *both[2] = {a, b};
    m->boundary_bytes = boundary_bytes;
    for (int k = 0; k < 2; k++)
        for (uint32_t i = 0; i < both[k]->p->task_count; i++) {
            const lzt_task *t = &both[k]->p->task[i];
            if (t->layer >= 0) continue;
            if (t->lane == LZT_LANE_D2H) down[k] += ps_of(both[k]->seconds[i]);
            if (t->lane == LZT_LANE_H2D) up[k] += ps_of(both[k]->seconds[i]);
        }
    if (m->layer_count < 2) return;
    m->boundary_down_ps = minus(down[1], down[0]) / (m->layer_count - 1);
    m->boundary_up_ps = minus(up[1], up[0]) / (m->layer_count - 1);
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Picoseconds of a GiB at this pace, rounded up; 0 where there is none, or it is out of the model's range. */
static uint64_t pace_of(uint64_t ps, uint64_t bytes)
{
    double pace = bytes ? ceil((double)ps / (double)bytes * 1073741824.0 * (1 + 1e-12)) : 0;
    return pace < 1e15 ? (uint64_t)pace : 0;
}

/* The pace of the slowest kind of copy of a lane, and what single tasks take beyond it: a kind's small parts may be
 * slower than the whole of it. */
static void take_hold(const priced *b, lzt_lane lane, uint64_t times, uint64_t ps_per_gib, lzt_step_hold *hold)
{
    *hold = (lzt_step_hold){ps_per_gib, 0};
    for (uint32_t i = 0; i < b->p->task_count; i++) {
        const lzt_task *t = &b->p->task[i];
        if (t->lane != lane) continue;
        double bytes = (double)b->p->operand[t->first_operand].bytes;
        double beyond = b->seconds[i] * 1e12 - bytes * ((double)ps_per_gib / 1073741824.0);
        hold->slack_ps += times * (uint64_t)(beyond > 0 ? ceil(beyond) : 0);
    }
    hold->slack_ps += times * b->p->task_count; /* every price is rounded to a picosecond */
}

static void take_holds(const priced *b, lzt_step_model *m)
{
    uint64_t down = pace_of(m->boundary_down_ps, m->boundary_bytes);
    uint64_t up = pace_of(m->boundary_up_ps, m->boundary_bytes);
    for (uint64_t l = 0; l < m->layer_count; l++) {
        const lzt_step_layer *x = &m->layer[l];
        down = most(down, pace_of(x->internals_down_ps, x->internals_bytes));
        up = most(up, pace_of(x->internals_up_ps, x->internals_bytes));
        up = most(up, pace_of(x->upload_ps, x->weight_bytes));
    }
    take_hold(b, LZT_LANE_D2H, m->micro_batches, down, &m->hold[LZT_STEP_FORWARD]);
    take_hold(b, LZT_LANE_H2D, m->micro_batches, up, &m->hold[LZT_STEP_BACKWARD]);
}

static bool is_layer_upload_target(const lzt_program_info *p, uint32_t object)
{
    for (uint32_t i = 0; i < p->task_count; i++) {
        const lzt_task *t = &p->task[i];
        if (t->lane != LZT_LANE_H2D || t->layer < 0) continue;
        for (uint32_t k = 0; k < t->operand_count; k++)
            if (p->operand[t->first_operand + k].object == object) return true;
    }
    return false;
}

/* Live on the device at a task of the loss, without boundary 0 and layers' weights, which the placement counts. */
static uint64_t live_at(const priced *a, uint32_t task, uint64_t boundary_bytes)
{
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < a->p->object_count; k++) {
        const lzt_object *o = &a->p->object[k];
        if (o->space != LZT_SPACE_DEVICE || o->first_task == UINT32_MAX) continue;
        if (o->first_task <= task && task <= o->last_task && !is_layer_upload_target(a->p, k)) bytes += o->bytes;
    }
    return minus(bytes, boundary_bytes);
}

static lzt_status reference(const lzt_step_plan_options *o, bool keep, lzt_plan *plan, lzt_error *err)
{
    lzt_status status = lzt_plan_baseline(o->model, &o->numerics, 1, plan, err);
    if (status) return status;
    for (uint64_t i = 1; i < plan->layer_count; i++) plan->boundary[i] = keep ? LZT_TIER_CPU : LZT_TIER_RECOMPUTE;
    for (uint64_t l = 0; l < plan->layer_count; l++) plan->internals[l] = keep ? LZT_TIER_CPU : LZT_TIER_RECOMPUTE;
    plan->head_weights = o->micro_batches > 1; /* the fewest uploads that any plan has */
    return LZT_OK;
}

/* Everything that one micro-batch's programs of A and B say. */
static lzt_status take_reference(const lzt_step_plan_options *o, const priced *a, const lzt_plan *plan_b,
                                 const lzt_state_layout *layout, lzt_step_model *m, lzt_error *err)
{
    lzt_variant first = o->micro_batches > 1 ? LZT_VARIANT_FIRST : LZT_VARIANT_SINGLE;
    layer_runs *of_a = NULL, *of_b = NULL;
    priced b;
    lzt_status status = price(o, plan_b, layout, first, true, &b, err);
    if (status) return status;
    status = find_runs(a, m->layer_count, &of_a, err);
    if (!status) status = find_runs(&b, m->layer_count, &of_b, err);
    uint64_t element = lzt_dtype_bytes(o->numerics.dtype);
    uint64_t boundary_bytes = o->numerics.micro_batch_tokens * o->model->hidden * element;
    if (!status) {
        take_times(a, of_a, of_b, m);
        take_internals(&b, m);
        take_boundary(a, &b, boundary_bytes, m);
        for (uint64_t l = 0; l < m->layer_count; l++)
            m->layer[l].weight_bytes = o->model->unit[o->model->layer[l].unit].element_count * element;
        take_holds(&b, m);
        m->floor_bytes[LZT_STEP_DEVICE] = live_at(a, a->head, boundary_bytes);
        m->floor_bytes[LZT_STEP_RAM] = layout->bytes;
    }
    free(of_a);
    free(of_b);
    priced_fini(&b);
    return status;
}

/* What A does beyond what its layers account for. */
static void subtract_layers(const lzt_plan *a, lzt_step_model *m)
{
    lzt_step_sum sum;
    uint64_t total[LZT_STEP_WINDOW_COUNT][LZT_STEP_LANE_COUNT];
    memcpy(total, m->fixed_ps, sizeof total);
    memset(m->fixed_ps, 0, sizeof m->fixed_ps);
    lzt_step_model_sum(m, a->boundary, a->internals, a->weights, &sum);
    for (int w = 0; w < LZT_STEP_WINDOW_COUNT; w++)
        for (int lane = 0; lane < LZT_STEP_LANE_COUNT; lane++)
            m->fixed_ps[w][lane] = minus(total[w][lane], sum.window_ps[w][lane]);
}

static lzt_status take_all(const lzt_step_plan_options *o, const lzt_plan *plan_a, const lzt_plan *plan_b,
                           const lzt_state_layout *layout, lzt_step_model *m, lzt_error *err)
{
    static const lzt_variant many[] = {LZT_VARIANT_FIRST, LZT_VARIANT_MIDDLE, LZT_VARIANT_LAST};
    uint64_t count = o->micro_batches > 1 ? o->micro_batches : 1;
    const uint64_t times[] = {1, count - 2, 1};
    lzt_status status = LZT_OK;
    for (int k = 0; k < (count > 1 ? 3 : 1) && !status; k++) {
        priced a;
        if (count > 1 && !times[k]) continue;
        status = price(o, plan_a, layout, count > 1 ? many[k] : LZT_VARIANT_SINGLE, k == 0, &a, err);
        if (status) return status;
        status = add_totals(&a, m->layer_count, count > 1 ? times[k] : 1, m, err);
        if (!status) status = add_edges(&a, count > 1 ? times[k] : 1, k == 0, m, err);
        if (!status && k == 0) status = take_reference(o, &a, plan_b, layout, m, err);
        priced_fini(&a);
    }
    if (!status) subtract_layers(plan_a, m);
    return status;
}

lzt_status lzt__step_costs(const lzt_step_plan_options *o, lzt_step_model *m, lzt_error *err)
{
    lzt_plan a = {0}, b = {0};
    lzt_state_layout *layout = NULL;
    lzt_status status = lzt_step_model_init(m, o->model->layer_count, err);
    if (!status) status = reference(o, false, &a, err);
    if (!status) status = reference(o, true, &b, err);
    if (!status) status = lzt_state_layout_create(o->model, &o->numerics, true, &layout, err);
    if (!status) {
        m->micro_batches = o->micro_batches > 1 ? o->micro_batches : 1;
        const char *machine = o->price.profile->machine;
        size_t length = strnlen(machine, sizeof m->machine - 1);
        memcpy(m->machine, machine, length);
        status = take_all(o, &a, &b, layout, m, err);
    }
    if (!status && (status = lzt_step_model_validate(m, err)))
        lzt_hint(err, "in picoseconds or bytes; by this profile a part of the step is more than a plan holds");
    lzt_state_layout_destroy(layout);
    lzt_plan_fini(&a);
    lzt_plan_fini(&b);
    if (status) lzt_step_model_fini(m);
    return status;
}
