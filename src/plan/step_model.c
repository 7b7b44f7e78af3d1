/* The real step as data: lifecycle, ranges, and the sums of a placement. Contract: lazytrain/step_model.h. */
#include "lazytrain/step_model.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What milliseconds in plan.json hold to the last picosecond; and what a sum of parts may come to. */
#define PART_PS_MAX (UINT64_C(2000000) * UINT64_C(1000000000))
#define SUM_PS_MAX  (UINT64_C(1) << 59)
#define BYTES_MAX   (UINT64_C(1) << 44)

const char *lzt_step_lane_name(lzt_step_lane lane)
{
    static const char *const name[LZT_STEP_LANE_COUNT] = {"compute", "h2d", "d2h", "cpu_optimizer"};
    assert(lane >= 0 && lane < LZT_STEP_LANE_COUNT);
    return name[lane];
}

const char *lzt_step_window_name(lzt_step_window window)
{
    static const char *const name[LZT_STEP_WINDOW_COUNT] = {"forward", "backward"};
    assert(window >= 0 && window < LZT_STEP_WINDOW_COUNT);
    return name[window];
}

lzt_status lzt_step_model_init(lzt_step_model *model, uint64_t layer_count, lzt_error *err)
{
    memset(model, 0, sizeof *model);
    if (layer_count < 1 || layer_count > LZT_PROBLEM_LAYERS_MAX)
        return lzt_fail(err, LZT_ERR_USAGE, "layers", "a step has 1 to %" PRIu64 " layers, not %" PRIu64,
                        (uint64_t)LZT_PROBLEM_LAYERS_MAX, layer_count);
    model->layer = calloc(layer_count, sizeof *model->layer);
    if (!model->layer) return lzt_fail(err, LZT_ERR_NO_MEMORY, "step", "no memory for %" PRIu64 " layers", layer_count);
    model->layer_count = layer_count;
    model->micro_batches = 1;
    return LZT_OK;
}

void lzt_step_model_fini(lzt_step_model *model)
{
    free(model->layer);
    memset(model, 0, sizeof *model);
}

lzt_status lzt_step_model_copy(lzt_step_model *to, const lzt_step_model *from, lzt_error *err)
{
    lzt_step_layer *layer = malloc(from->layer_count * sizeof *layer);
    if (!layer) return lzt_fail(err, LZT_ERR_NO_MEMORY, "step", "no memory to copy a model of the step");
    memcpy(layer, from->layer, from->layer_count * sizeof *layer);
    *to = *from;
    to->layer = layer;
    return LZT_OK;
}

static lzt_status in_range(const char *where, uint64_t value, uint64_t most, lzt_error *err)
{
    if (value <= most) return LZT_OK;
    return lzt_fail(err, LZT_ERR_USAGE, where, "is %" PRIu64 ", must be at most %" PRIu64, value, most);
}

static lzt_status validate_layer(const lzt_step_layer *l, uint64_t most_ps, lzt_error *err)
{
    const uint64_t ps[] = {l->forward_ps, l->again_ps,    l->recompute_ps,      l->backward_ps,
                           l->upload_ps,  l->gradient_ps, l->internals_down_ps, l->internals_up_ps};
    for (size_t i = 0; i < sizeof ps / sizeof *ps; i++) {
        lzt_status status = in_range("step.layers", ps[i], most_ps, err);
        if (status) return status;
    }
    lzt_status status = in_range("step.layers.internals_bytes", l->internals_bytes, BYTES_MAX, err);
    return status ? status : in_range("step.layers.weight_bytes", l->weight_bytes, BYTES_MAX, err);
}

lzt_status lzt_step_model_validate(const lzt_step_model *m, lzt_error *err)
{
    lzt_status status = LZT_OK;
    if (!m->micro_batches || m->micro_batches > 65536)
        return lzt_fail(err, LZT_ERR_USAGE, "step.micro_batches", "is %" PRIu64 ", must be 1 to 65536",
                        m->micro_batches);
    uint64_t most_ps = SUM_PS_MAX / m->micro_batches / m->layer_count;
    if (most_ps > PART_PS_MAX) most_ps = PART_PS_MAX;
    for (uint64_t l = 0; l < m->layer_count && !status; l++) status = validate_layer(&m->layer[l], most_ps, err);
    if (!status) status = in_range("step.boundary", m->boundary_down_ps, most_ps, err);
    if (!status) status = in_range("step.boundary", m->boundary_up_ps, most_ps, err);
    if (!status) status = in_range("step.boundary", m->boundary_bytes, BYTES_MAX, err);
    if (!status) status = in_range("step.edge_ms", m->edge_ps[LZT_STEP_FORWARD], PART_PS_MAX, err);
    if (!status) status = in_range("step.edge_ms", m->edge_ps[LZT_STEP_BACKWARD], PART_PS_MAX, err);
    for (int w = 0; w < LZT_STEP_WINDOW_COUNT && !status; w++) {
        status = in_range("step.hold", m->hold[w].ps_per_gib, PART_PS_MAX, err);
        if (!status) status = in_range("step.hold", m->hold[w].slack_ps, PART_PS_MAX, err);
    }
    if (!status) status = in_range("step.surrogate_ms", m->surrogate_ps, PART_PS_MAX, err);
    for (int lane = 0; lane < LZT_STEP_LANE_COUNT && !status; lane++) {
        status = in_range("step.waits_ms", m->waits_ps[lane], PART_PS_MAX, err);
        for (int w = 0; w < LZT_STEP_WINDOW_COUNT && !status; w++)
            status = in_range("step.fixed_ms", m->fixed_ps[w][lane], PART_PS_MAX, err);
    }
    for (int k = 0; k < LZT_STEP_MEMORY_COUNT && !status; k++)
        status = in_range("step.floor_bytes", m->floor_bytes[k], BYTES_MAX, err);
    return status;
}

static void add_layer(const lzt_step_model *m, const lzt_step_layer *l, lzt_tier internals, bool weights,
                      lzt_step_sum *s)
{
    uint64_t count = m->micro_batches, *forward = s->window_ps[LZT_STEP_FORWARD],
             *backward = s->window_ps[LZT_STEP_BACKWARD];
    forward[LZT_STEP_COMPUTE] += count * l->forward_ps;
    backward[LZT_STEP_COMPUTE] += count * (l->backward_ps + (internals == LZT_TIER_RECOMPUTE ? l->again_ps : 0));
    forward[LZT_STEP_H2D] += (weights ? 1 : count) * l->upload_ps;
    backward[LZT_STEP_H2D] += weights ? 0 : count * l->upload_ps;
    backward[LZT_STEP_D2H] += count * l->gradient_ps;
    if (weights) s->least_bytes[LZT_STEP_DEVICE] += l->weight_bytes;
    if (internals == LZT_TIER_GPU) s->least_bytes[LZT_STEP_DEVICE] += l->internals_bytes;
    if (internals != LZT_TIER_CPU && internals != LZT_TIER_NVME) return;
    s->least_bytes[LZT_STEP_RAM] += l->internals_bytes;
    forward[LZT_STEP_D2H] += count * l->internals_down_ps;
    backward[LZT_STEP_H2D] += count * l->internals_up_ps;
}

/* Boundary i, an inner one or the first: on the device, away and back, or made again. */
static void add_boundary(const lzt_step_model *m, uint64_t i, lzt_tier tier, lzt_step_sum *s)
{
    uint64_t count = m->micro_batches, *forward = s->window_ps[LZT_STEP_FORWARD],
             *backward = s->window_ps[LZT_STEP_BACKWARD];
    if (tier == LZT_TIER_GPU) s->least_bytes[LZT_STEP_DEVICE] += m->boundary_bytes;
    if (tier == LZT_TIER_CPU || tier == LZT_TIER_NVME) {
        s->least_bytes[LZT_STEP_RAM] += m->boundary_bytes;
        forward[LZT_STEP_D2H] += count * m->boundary_down_ps;
        backward[LZT_STEP_H2D] += count * m->boundary_up_ps;
    }
    if (tier != LZT_TIER_RECOMPUTE) return;
    if (i)
        backward[LZT_STEP_COMPUTE] += count * m->layer[i - 1].recompute_ps;
    else
        backward[LZT_STEP_H2D] += count * m->boundary_up_ps;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void bound(const lzt_step_model *m, lzt_step_sum *s)
{
    const uint64_t *f = s->window_ps[LZT_STEP_FORWARD], *b = s->window_ps[LZT_STEP_BACKWARD];
    uint64_t before = most(f[LZT_STEP_COMPUTE] + m->edge_ps[LZT_STEP_FORWARD], most(f[LZT_STEP_H2D], f[LZT_STEP_HOST]));
    uint64_t after = most(b[LZT_STEP_COMPUTE] + m->edge_ps[LZT_STEP_BACKWARD], most(b[LZT_STEP_D2H], b[LZT_STEP_HOST]));
    s->bound_ps = before + after;
    for (int lane = 0; lane < LZT_STEP_LANE_COUNT; lane++) s->bound_ps = most(s->bound_ps, s->lane_ps[lane]);
}

void lzt_step_model_sum(const lzt_step_model *m, const lzt_tier *boundary, const lzt_tier *internals,
                        const bool *weights, lzt_step_sum *sum)
{
    memset(sum, 0, sizeof *sum);
    memcpy(sum->window_ps, m->fixed_ps, sizeof sum->window_ps);
    memcpy(sum->least_bytes, m->floor_bytes, sizeof sum->least_bytes);
    for (uint64_t l = 0; l < m->layer_count; l++) {
        add_layer(m, &m->layer[l], internals[l], weights[l], sum);
        add_boundary(m, l, boundary[l], sum);
    }
    for (int w = 0; w < LZT_STEP_WINDOW_COUNT; w++) {
        uint64_t longest = 0;
        for (int lane = 0; lane < LZT_STEP_LANE_COUNT; lane++) {
            uint64_t ps = sum->window_ps[w][lane];
            sum->lane_ps[lane] += ps;
            if (ps > longest) longest = ps;
        }
        sum->windows_ps += longest;
    }
    sum->windows_ps += m->edge_ps[LZT_STEP_FORWARD] + m->edge_ps[LZT_STEP_BACKWARD];
    bound(m, sum);
}
