/* `step` of plan.json: the real step's model, read and written. Times in milliseconds to the last picosecond. */
#include "plan/plan_json.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#define LANES    "compute h2d d2h cpu_optimizer"
#define MEMORIES "device host"

static const char keys[] = "machine micro_batches cap_bytes surrogate_ms waits_ms floor_bytes edge_ms hold? fixed_ms "
                           "boundary layers";

static const char *const memory_names[LZT_STEP_MEMORY_COUNT] = {"device", "host"};

/* The columns of `layers`, in order of writing. */
static const struct {
    const char *name;
    size_t offset;
    bool is_ms;
} columns[] = {
    {"forward_ms", offsetof(lzt_step_layer, forward_ps), true},
    {"again_ms", offsetof(lzt_step_layer, again_ps), true},
    {"recompute_ms", offsetof(lzt_step_layer, recompute_ps), true},
    {"backward_ms", offsetof(lzt_step_layer, backward_ps), true},
    {"upload_ms", offsetof(lzt_step_layer, upload_ps), true},
    {"gradient_ms", offsetof(lzt_step_layer, gradient_ps), true},
    {"internals_bytes", offsetof(lzt_step_layer, internals_bytes), false},
    {"weight_bytes", offsetof(lzt_step_layer, weight_bytes), false},
    {"internals_down_ms", offsetof(lzt_step_layer, internals_down_ps), true}, /* the last two: not in older files */
    {"internals_up_ms", offsetof(lzt_step_layer, internals_up_ps), true},
};
#define COLUMN_KEYS                                                                                                    \
    "forward_ms again_ms recompute_ms backward_ms upload_ms gradient_ms internals_bytes weight_bytes "                 \
    "internals_down_ms? internals_up_ms?"
enum { COLUMNS = sizeof columns / sizeof *columns };

static uint64_t *cell(lzt_step_layer *layer, int column)
{
    return (uint64_t *)(void *)((char *)layer + columns[column].offset);
}

/* ---- writing ---- */

static void put_lanes(FILE *out, const uint64_t *ps)
{
    fputc('{', out);
    for (int lane = 0; lane < LZT_STEP_LANE_COUNT; lane++) {
        fprintf(out, "%s\"%s\": ", lane ? ", " : "", lzt_step_lane_name((lzt_step_lane)lane));
        lzt__plan_put_ms(out, ps[lane]);
    }
    fputc('}', out);
}

static void put_memories(FILE *out, const char *key, const uint64_t *bytes)
{
    fprintf(out, ",\n    \"%s\": {\"device\": %" PRIu64 ", \"host\": %" PRIu64 "}", key, bytes[0], bytes[1]);
}

static void put_hold(FILE *out, const lzt_step_model *m)
{
    fprintf(out, ",\n    \"hold\": {");
    for (int w = 0; w < LZT_STEP_WINDOW_COUNT; w++) {
        fprintf(out, "%s\"%s\": {\"ms_per_gib\": ", w ? ", " : "", lzt_step_window_name((lzt_step_window)w));
        lzt__plan_put_ms(out, m->hold[w].ps_per_gib);
        fprintf(out, ", \"slack_ms\": ");
        lzt__plan_put_ms(out, m->hold[w].slack_ps);
        fputc('}', out);
    }
    fputc('}', out);
}

lzt_status lzt__plan_put_step(FILE *out, const lzt_step_model *m, lzt_error *err)
{
    uint64_t *value = malloc(m->layer_count * sizeof *value);
    if (!value)
        return lzt_fail(err, LZT_ERR_NO_MEMORY, "step", "no memory to print %" PRIu64 " layers", m->layer_count);
    fprintf(out, ",\n  \"step\": {\n    \"machine\": ");
    lzt__plan_put_text(out, m->machine);
    fprintf(out, ",\n    \"micro_batches\": %" PRIu64, m->micro_batches);
    put_memories(out, "cap_bytes", m->cap_bytes);
    fprintf(out, ",\n    \"surrogate_ms\": ");
    lzt__plan_put_ms(out, m->surrogate_ps);
    fprintf(out, ",\n    \"waits_ms\": ");
    put_lanes(out, m->waits_ps);
    put_memories(out, "floor_bytes", m->floor_bytes);
    fprintf(out, ",\n    \"edge_ms\": {\"forward\": ");
    lzt__plan_put_ms(out, m->edge_ps[LZT_STEP_FORWARD]);
    fprintf(out, ", \"backward\": ");
    lzt__plan_put_ms(out, m->edge_ps[LZT_STEP_BACKWARD]);
    fputc('}', out);
    put_hold(out, m);
    fprintf(out, ",\n    \"fixed_ms\": {\n      \"forward\": ");
    put_lanes(out, m->fixed_ps[LZT_STEP_FORWARD]);
    fprintf(out, ",\n      \"backward\": ");
    put_lanes(out, m->fixed_ps[LZT_STEP_BACKWARD]);
    fprintf(out, "\n    },\n    \"boundary\": {\"bytes\": %" PRIu64 ", \"down_ms\": ", m->boundary_bytes);
    lzt__plan_put_ms(out, m->boundary_down_ps);
    fprintf(out, ", \"up_ms\": ");
    lzt__plan_put_ms(out, m->boundary_up_ps);
    fprintf(out, "},\n    \"layers\": {");
    for (int c = 0; c < COLUMNS; c++) {
        for (uint64_t l = 0; l < m->layer_count; l++) value[l] = *cell(&m->layer[l], c);
        fprintf(out, "%s\n      \"%s\": ", c ? "," : "", columns[c].name);
        lzt__plan_put_array(out, "        ", value, m->layer_count, columns[c].is_ms);
    }
    fprintf(out, "\n    }\n  }");
    free(value);
    return LZT_OK;
}

/* ---- reading ---- */

static void read_lanes(const lzt__json_node *node, uint64_t *ps)
{
    lzt__json_keys(node, LANES);
    for (int lane = 0; lane < LZT_STEP_LANE_COUNT; lane++)
        ps[lane] = lzt__plan_member_ps(node, lzt_step_lane_name((lzt_step_lane)lane), LZT__PLAN_MS_MAX);
}

static void read_memories(const lzt__json_node *step, const char *key, uint64_t *bytes)
{
    lzt__json_node node = lzt__json_member(step, key);
    lzt__json_keys(&node, MEMORIES);
    for (int k = 0; k < LZT_STEP_MEMORY_COUNT; k++)
        bytes[k] = lzt__json_u64(&node, memory_names[k], 0, LZT_PLAN_NUMBERS_MAX);
}

static lzt_status read_layers(const lzt__json_node *step, lzt_step_model *m, lzt_error *err)
{
    lzt__json_node node = lzt__json_member(step, "layers");
    uint64_t *value = calloc(m->layer_count, sizeof *value);
    if (!value) return lzt_fail(err, LZT_ERR_NO_MEMORY, "step", "no memory to read it");
    lzt__json_keys(&node, COLUMN_KEYS);
    for (int c = 0; c < COLUMNS && !step->reader->status; c++) {
        if (c >= COLUMNS - 2 && !lzt__json_has(&node, columns[c].name)) continue;
        lzt__json_node list = lzt__json_member(&node, columns[c].name);
        lzt__plan_read_numbers(&list, value, m->layer_count, columns[c].is_ms);
        for (uint64_t l = 0; l < m->layer_count; l++) *cell(&m->layer[l], c) = value[l];
    }
    free(value);
    return step->reader->status;
}

static void read_hold(const lzt__json_node *step, lzt_step_model *m)
{
    if (!lzt__json_has(step, "hold")) return; /* older files */
    lzt__json_node hold = lzt__json_member(step, "hold");
    lzt__json_keys(&hold, "forward backward");
    for (int w = 0; w < LZT_STEP_WINDOW_COUNT; w++) {
        lzt__json_node node = lzt__json_member(&hold, lzt_step_window_name((lzt_step_window)w));
        lzt__json_keys(&node, "ms_per_gib slack_ms");
        m->hold[w].ps_per_gib = lzt__plan_member_ps(&node, "ms_per_gib", LZT__PLAN_MS_MAX);
        m->hold[w].slack_ps = lzt__plan_member_ps(&node, "slack_ms", LZT__PLAN_MS_MAX);
    }
}

static void read_scalars(const lzt__json_node *step, lzt_step_model *m)
{
    lzt__json_node fixed = lzt__json_member(step, "fixed_ms"), boundary = lzt__json_member(step, "boundary"), node;
    lzt__json_keys(step, keys);
    lzt__json_text(step, "machine", m->machine, sizeof m->machine);
    m->micro_batches = lzt__json_u64(step, "micro_batches", 1, 65536);
    read_memories(step, "cap_bytes", m->cap_bytes);
    read_memories(step, "floor_bytes", m->floor_bytes);
    node = lzt__json_member(step, "edge_ms");
    lzt__json_keys(&node, "forward backward");
    for (int w = 0; w < LZT_STEP_WINDOW_COUNT; w++)
        m->edge_ps[w] = lzt__plan_member_ps(&node, lzt_step_window_name((lzt_step_window)w), LZT__PLAN_MS_MAX);
    read_hold(step, m);
    m->surrogate_ps = lzt__plan_member_ps(step, "surrogate_ms", LZT__PLAN_MS_MAX);
    node = lzt__json_member(step, "waits_ms");
    read_lanes(&node, m->waits_ps);
    lzt__json_keys(&fixed, "forward backward");
    for (int w = 0; w < LZT_STEP_WINDOW_COUNT; w++) {
        node = lzt__json_member(&fixed, lzt_step_window_name((lzt_step_window)w));
        read_lanes(&node, m->fixed_ps[w]);
    }
    lzt__json_keys(&boundary, "bytes down_ms up_ms");
    m->boundary_bytes = lzt__json_u64(&boundary, "bytes", 0, LZT_PLAN_NUMBERS_MAX);
    m->boundary_down_ps = lzt__plan_member_ps(&boundary, "down_ms", LZT__PLAN_MS_MAX);
    m->boundary_up_ps = lzt__plan_member_ps(&boundary, "up_ms", LZT__PLAN_MS_MAX);
}

lzt_status lzt__plan_read_step(const lzt__json_node *root, lzt_plan *plan, lzt_error *err)
{
    if (!lzt__json_has(root, "step")) return LZT_OK;
    lzt_error why = {0};
    lzt__json_node step = lzt__json_member(root, "step");
    if (plan->problem) lzt__json_fail(&step, "stands beside \"problem\"; a plan has one of them");
    plan->step = calloc(1, sizeof *plan->step);
    if (!plan->step) return lzt_fail(err, LZT_ERR_NO_MEMORY, "step", "no memory to read it");
    lzt_status status = lzt_step_model_init(plan->step, plan->layer_count, err);
    if (status) return status;
    read_scalars(&step, plan->step);
    status = read_layers(&step, plan->step, err);
    if (!status && lzt_step_model_validate(plan->step, &why))
        lzt__json_fail(&step, "is refused: %s %s", why.where, why.message);
    return status ? status : root->reader->status;
}
