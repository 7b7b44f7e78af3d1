/* explain --objects: see explain_objects.h. */
#include "cli/explain_objects.h"

#include "base/units.h"
#include "cli/talk.h"
#include "lazytrain/lives.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USES_SHOWN = 4 };

/* A program of a step, and how often the step runs it. */
typedef struct part {
    const char *name;
    lzt_variant variant;
    bool update;
    uint64_t times;
} step_part;

typedef struct totals {
    uint64_t moved_bytes[LZT_LANE_COUNT], peak_bytes[LZT_SPACE_COUNT], layer_forwards, weight_uploads;
} totals;

/* The programs of a step in the middle of a run, in order. */
static int parts_of(uint64_t micro_batches, step_part out[3])
{
    if (micro_batches == 1) {
        out[0] = (step_part){"single", LZT_VARIANT_SINGLE, true, 1};
        return 1;
    }
    out[0] = (step_part){"first", LZT_VARIANT_FIRST, true, 1};
    out[1] = (step_part){"middle", LZT_VARIANT_MIDDLE, false, micro_batches - 2};
    out[2] = (step_part){"last", LZT_VARIANT_LAST, false, 1};
    return 3;
}

static const char *space_name(const lzt_object *o)
{
    return o->space == LZT_SPACE_DEVICE ? "device" : "host";
}

/* ---- text ---- */

static void put_task(const lzt_program_info *p, uint32_t task)
{
    const lzt_task *t = &p->task[task];
    printf("%s (task %u, %s%s)", t->name, task, lzt_lane_name(t->lane), t->iteration < 0 ? ", the step before" : "");
}

/* Who needs the stay, each task once. */
static void put_readers(const lzt_lives *v, const lzt_stay *stay)
{
    uint32_t shown = 0, more = 0, last = LZT_LIVES_NONE;
    for (uint32_t i = 0; i < stay->use_count; i++) {
        const lzt_use *u = &v->use[stay->first_use + i];
        if (!(u->access & LZT_ACCESS_READ) || u->task == last) continue;
        last = u->task;
        if (shown >= USES_SHOWN) {
            more++;
            continue;
        }
        printf(shown++ ? ", " : "         needed by ");
        put_task(v->program, u->task);
    }
    if (more > 1) printf(", %u more", more - 1);
    if (more) printf(", last ");
    if (more) put_task(v->program, last);
    if (shown) putchar('\n');
}

static void put_arrivals(const lzt_lives *v, const lzt_stay *stay)
{
    uint64_t bytes = 0;
    const lzt_use *first = NULL;
    for (uint32_t i = 0; i < stay->use_count; i++) {
        const lzt_use *u = &v->use[stay->first_use + i];
        if (!u->is_copy || u->access != LZT_ACCESS_WRITE) continue;
        if (!first) first = u;
        bytes += u->bytes;
    }
    if (!first) return;
    printf("         %" PRIu64 " bytes from the %s by ", bytes,
           space_name(&v->program->object[v->stay[first->other].object]));
    put_task(v->program, first->task);
    putchar('\n');
}

static void put_stay(const lzt_lives *v, const lzt_stay *stay)
{
    const lzt_program_info *p = v->program;
    const lzt_object *o = &p->object[stay->object];
    printf("  %-6s %" PRIu64 " bytes at %" PRIu64, space_name(o), o->bytes, o->offset);
    if (o->persistent)
        printf(", always\n");
    else
        printf(", tasks %u to %u\n", stay->first_task, stay->last_task);
    put_arrivals(v, stay);
    put_readers(v, stay);
    if (o->persistent) return;
    printf("         free after task %u", stay->last_task);
    if (stay->next_object != LZT_LIVES_NONE)
        printf(", then %s from task %u", p->object[stay->next_object].name, p->object[stay->next_object].first_task);
    putchar('\n');
}

static void put_life(const lzt_lives *v, const lzt_life *life)
{
    const lzt_object *first = &v->program->object[v->stay[life->first_stay].object];
    printf("%s: ", first->name);
    if (life->maker == LZT_LIVES_NONE)
        printf("there before the program");
    else {
        printf("made by ");
        put_task(v->program, life->maker);
    }
    putchar('\n');
    for (uint32_t i = 0; i < life->stay_count; i++) put_stay(v, &v->stay[life->first_stay + i]);
}

static void put_program(const step_part *part, const lzt_lives *v)
{
    printf("Program %s%s, %" PRIu64 " a step: %u tasks, %u objects in %u places\n", part->name,
           part->update ? " with the update of the step before" : "", part->times, v->program->task_count,
           v->life_count, v->stay_count);
    printf("An object: who makes it; each of its places, with offset and time; how it got there; who needs it; who has "
           "the memory then\n\n");
    for (uint32_t i = 0; i < v->life_count; i++) put_life(v, &v->life[i]);
    putchar('\n');
}

static void put_totals(const totals *t)
{
    char text[LZT_UNITS_TEXT];
    printf("A step\n");
    for (int lane = 0; lane < LZT_LANE_COUNT; lane++)
        if (t->moved_bytes[lane])
            printf("  %-16s %16" PRIu64 " bytes (%s)\n", lzt_lane_name((lzt_lane)lane), t->moved_bytes[lane],
                   lzt__units_format_bytes(t->moved_bytes[lane], text));
    printf("  %-16s %16" PRIu64 " bytes (%s)\n", "device peak", t->peak_bytes[LZT_SPACE_DEVICE],
           lzt__units_format_bytes(t->peak_bytes[LZT_SPACE_DEVICE], text));
    printf("  %-16s %16" PRIu64 " bytes (%s)\n", "host peak", t->peak_bytes[LZT_SPACE_HOST],
           lzt__units_format_bytes(t->peak_bytes[LZT_SPACE_HOST], text));
    printf("  %-16s %16" PRIu64 "\n  %-16s %16" PRIu64 "\n", "layer forwards", t->layer_forwards, "weight uploads",
           t->weight_uploads);
}

/* ---- JSON ---- */

static json_t *task_or_null(uint32_t task)
{
    return task == LZT_LIVES_NONE ? json_null() : json_integer(task);
}

static json_t *use_json(const lzt_lives *v, const lzt_use *u)
{
    static const char *const access[] = {"", "read", "write", "read_write"};
    const lzt_task *t = &v->program->task[u->task];
    return json_pack("{s:I, s:s, s:s, s:s, s:I, s:b}", "task", (json_int_t)u->task, "name", t->name, "lane",
                     lzt_lane_name(t->lane), "access", access[u->access & LZT_ACCESS_READ_WRITE], "bytes",
                     (json_int_t)u->bytes, "copy", u->is_copy);
}

static json_t *stay_json(const lzt_lives *v, const lzt_stay *stay)
{
    const lzt_object *o = &v->program->object[stay->object];
    json_t *uses = json_array();
    for (uint32_t i = 0; i < stay->use_count; i++)
        json_array_append_new(uses, use_json(v, &v->use[stay->first_use + i]));
    bool has_next = stay->next_object != LZT_LIVES_NONE;
    return json_pack("{s:s, s:s, s:I, s:I, s:b, s:I, s:I, s:o, s:o, s:o}", "object", o->name, "space", space_name(o),
                     "offset", (json_int_t)o->offset, "bytes", (json_int_t)o->bytes, "persistent", o->persistent,
                     "first_task", (json_int_t)stay->first_task, "last_task", (json_int_t)stay->last_task, "free_after",
                     o->persistent ? json_null() : json_integer(stay->last_task), "next_object",
                     has_next ? json_string(v->program->object[stay->next_object].name) : json_null(), "uses", uses);
}

static json_t *life_json(const lzt_lives *v, const lzt_life *life)
{
    json_t *stays = json_array();
    for (uint32_t i = 0; i < life->stay_count; i++)
        json_array_append_new(stays, stay_json(v, &v->stay[life->first_stay + i]));
    return json_pack("{s:s, s:I, s:o, s:o}", "name", v->program->object[v->stay[life->first_stay].object].name, "bytes",
                     (json_int_t)life->bytes, "maker", task_or_null(life->maker), "places", stays);
}

static json_t *program_json(const step_part *part, const lzt_lives *v)
{
    json_t *lives = json_array();
    for (uint32_t i = 0; i < v->life_count; i++) json_array_append_new(lives, life_json(v, &v->life[i]));
    return json_pack("{s:s, s:b, s:I, s:I, s:o}", "name", part->name, "update", part->update, "times",
                     (json_int_t)part->times, "tasks", (json_int_t)v->program->task_count, "objects", lives);
}

static json_t *totals_json(const totals *t)
{
    json_t *bytes = json_object();
    static const lzt_lane links[] = {LZT_LANE_H2D, LZT_LANE_D2H, LZT_LANE_NVME_READ, LZT_LANE_NVME_WRITE};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        json_object_set_new(bytes, lzt_lane_name(links[i]), json_integer((json_int_t)t->moved_bytes[links[i]]));
    return json_pack("{s:o, s:I, s:I, s:I, s:I}", "bytes", bytes, "peak_device_bytes",
                     (json_int_t)t->peak_bytes[LZT_SPACE_DEVICE], "peak_host_bytes",
                     (json_int_t)t->peak_bytes[LZT_SPACE_HOST], "layer_forwards", (json_int_t)t->layer_forwards,
                     "weight_uploads", (json_int_t)t->weight_uploads);
}

/* ---- all of it ---- */

static void add(totals *t, const lzt_lives *v, uint64_t times)
{
    for (int lane = 0; lane < LZT_LANE_COUNT; lane++) t->moved_bytes[lane] += times * v->moved_bytes[lane];
    for (int space = 0; space < LZT_SPACE_COUNT; space++)
        if (times && v->peak_bytes[space] > t->peak_bytes[space]) t->peak_bytes[space] = v->peak_bytes[space];
    t->layer_forwards += times * v->program->layer_forwards;
    t->weight_uploads += times * v->program->weight_uploads;
}

/* programs: NULL for text. */
static lzt_status explain_part(const lzt_step_options *base, const step_part *part, json_t *programs, totals *t,
                               lzt_error *err)
{
    lzt_step_options options = *base;
    lzt_program *program = NULL;
    lzt_lives *lives = NULL;
    options.variant = part->variant;
    options.update = part->update;
    lzt_status status = lzt_step_compile(&options, &program, err);
    if (!status) status = lzt_lives_create(program, &lives, err);
    if (!status) {
        add(t, lives, part->times);
        if (programs)
            json_array_append_new(programs, program_json(part, lives));
        else
            put_program(part, lives);
    }
    lzt_lives_destroy(lives);
    lzt_program_destroy(program);
    return status;
}

static lzt_status explain_step(const lzt_plan *plan, const lzt_objects_options *o, const lzt_model_info *model,
                               const lzt_kern *kern, lzt_error *err)
{
    step_part parts[3];
    totals t = {0};
    lzt_state_layout *layout;
    json_t *programs = o->json ? json_array() : NULL;
    lzt_status status = lzt_state_layout_create(model, &plan->numerics, true, &layout, err);
    if (status) return status;
    lzt_step_options options = {
        .model = model, .plan = plan, .layout = layout, .kern = kern, .micro_batches = o->micro_batches};
    int count = parts_of(o->micro_batches, parts);
    for (int i = 0; i < count && !status; i++)
        if (parts[i].times) status = explain_part(&options, &parts[i], programs, &t, err);
    lzt_state_layout_destroy(layout);
    if (!status && o->json)
        status = lzt_talk_json(json_pack("{s:o, s:O}", "step", totals_json(&t), "programs", programs), err);
    else if (!status)
        put_totals(&t);
    json_decref(programs);
    return status;
}

lzt_status lzt_explain_objects(const lzt_plan *plan, const lzt_objects_options *o, lzt_error *err)
{
    lzt_model *model = NULL;
    lzt_kern *kern = NULL;
    lzt_kern_cpu_options options = LZT_KERN_CPU_OPTIONS_INIT;
    if (plan->numerics.threads) options.threads = (uint32_t)plan->numerics.threads;
    const char *path = o->model ? o->model : plan->model_name;
    lzt_status status = lzt_model_open(path, LZT_MODEL_CONFIG_ONLY, &model, err);
    if (status && !o->model) lzt_hint(err, "the plan names its model so; --model says where it is now");
    if (!status) status = lzt_plan_match(plan, lzt_model_get_info(model), err);
    if (!status) status = lzt_kern_cpu_create(&options, &kern, err);
    if (!status) status = explain_step(plan, o, lzt_model_get_info(model), kern, err);
    lzt_kern_destroy(kern);
    lzt_model_close(model);
    return status;
}
