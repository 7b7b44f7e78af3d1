/* A step's forecast: see forecast.h. */
#include "cli/forecast.h"

#include "base/resident.h"
#include "cli/probe_list.h"
#include "lazytrain/report.h"

#include <stdlib.h>
#include <string.h>

/* Tables of bound programs, buffers of files and the allocator's own: beside what a process has before it runs. */
#define TABLE_BYTES (UINT64_C(16) << 20)

/* The events of the step so far. */
typedef struct timeline {
    lzt_trace_event *event;
    lzt_program *program[3]; /* names of events are theirs */
    uint64_t event_count;
    uint32_t program_count;
    double seconds;
} timeline;

typedef struct forecaster {
    const lzt_session *s;
    lzt_price_options price;
    const lzt_state_layout *layout;
    lzt_forecast *out;
    timeline *line; /* NULL: no trace is wanted */
} forecaster;

/* What a trace can hold: three centuries. */
static uint64_t ns_of(double seconds)
{
    return seconds < 1e10 ? (uint64_t)(seconds * 1e9) : UINT64_C(10000000000000000000);
}

static lzt_status append(timeline *line, const lzt_program_info *p, const double *start, const double *end,
                         lzt_error *err)
{
    lzt_trace_event *grown = realloc(line->event, (line->event_count + p->task_count + 1) * sizeof *grown);
    if (!grown) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a trace of %u tasks", p->task_count);
    line->event = grown;
    for (uint32_t i = 0; i < p->task_count; i++)
        grown[line->event_count++] = (lzt_trace_event){p->task[i].lane, p->task[i].name,
                                                       ns_of(line->seconds + start[i]), ns_of(line->seconds + end[i])};
    return LZT_OK;
}

static lzt_status price(forecaster *f, const lzt_program *program, uint64_t times, lzt_error *err)
{
    const lzt_program_info *p = lzt_program_get_info(program);
    lzt_account account;
    double seconds, *start = calloc(3 * ((size_t)p->task_count + 1), sizeof *start);
    if (!start) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for %u tasks", p->task_count);
    double *end = start + p->task_count, *each = end + p->task_count;
    lzt_status status = lzt_price_program(program, &f->price, start, end, &account, &seconds, err);
    if (!status) status = lzt_price_tasks(program, &f->price, each, err);
    if (!status) f->out->unlimited_seconds += (double)times * lzt_program_simulate(program, each, true, NULL, NULL);
    for (uint64_t i = 0; i < times && !status; i++) {
        if (f->line) status = append(f->line, p, start, end, err);
        if (f->line) f->line->seconds += seconds;
        f->out->price.seconds += seconds;
        lzt_account_add(&f->out->price.account, &account);
    }
    for (int space = 0; space < LZT_SPACE_COUNT; space++)
        if (p->peak_bytes[space] > f->out->peak_bytes[space]) f->out->peak_bytes[space] = p->peak_bytes[space];
    free(start);
    return status;
}

static lzt_status add(forecaster *f, lzt_variant variant, bool update, uint64_t times, lzt_error *err)
{
    lzt_program *program;
    lzt_step_options options = {.model = f->s->info,
                                .plan = &f->s->plan,
                                .layout = f->layout,
                                .kern = f->s->kern,
                                .variant = variant,
                                .update = update,
                                .micro_batches = f->s->caps.micro_batches,
                                .frozen = f->s->frozen};
    lzt_status status = lzt_step_compile(&options, &program, err);
    if (status) return status;
    status = price(f, program, times, err);
    if (f->line)
        f->line->program[f->line->program_count++] = program;
    else
        lzt_program_destroy(program);
    return status;
}

static lzt_status write_trace(const timeline *line, const char *path, lzt_error *err)
{
    const char *lane[LZT_LANE_COUNT];
    for (int i = 0; i < LZT_LANE_COUNT; i++) lane[i] = lzt_lane_name((lzt_lane)i);
    const lzt_trace_process process = {"planned", lane, line->event, line->event_count, LZT_LANE_COUNT};
    return lzt_trace_write(path, &process, 1, err);
}

uint64_t lzt_forecast_rss(uint64_t device_bytes, uint64_t host_bytes)
{
    return lzt__resident_bytes() + device_bytes + host_bytes + TABLE_BYTES;
}

lzt_status lzt_forecast_step(const lzt_session *s, const lzt_profile *profile, uint64_t rows, const char *trace,
                             lzt_forecast *out, lzt_error *err)
{
    timeline line = {0};
    lzt_state_layout *layout;
    uint64_t m = s->caps.micro_batches;
    *out = (lzt_forecast){0};
    lzt_status status = lzt_state_layout_create(s->info, &s->plan.numerics, true, &layout, err);
    if (status) return status;
    forecaster f = {.s = s,
                    .price = lzt_session_price_options(s, profile, rows),
                    .layout = layout,
                    .out = out,
                    .line = trace ? &line : NULL};
    out->peak_bytes[LZT_SPACE_HOST] = layout->bytes;
    status = add(&f, m > 1 ? LZT_VARIANT_FIRST : LZT_VARIANT_SINGLE, true, 1, err);
    if (!status && m > 2) status = add(&f, LZT_VARIANT_MIDDLE, false, m - 2, err);
    if (!status && m > 1) status = add(&f, LZT_VARIANT_LAST, false, 1, err);
    if (!status && trace) status = write_trace(&line, trace, err);
    out->rss_bytes = lzt_forecast_rss(out->peak_bytes[LZT_SPACE_DEVICE], out->peak_bytes[LZT_SPACE_HOST]);
    for (uint32_t i = 0; i < line.program_count; i++) lzt_program_destroy(line.program[i]);
    free(line.event);
    lzt_state_layout_destroy(layout);
    return status;
}
