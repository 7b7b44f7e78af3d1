/* The last step of a run as a trace: see step_trace.h. */
#include "cli/step_trace.h"

#include "lazytrain/report.h"

#include <stdio.h>
#include <stdlib.h>

/* The program whose tasks ended last: SINGLE or LAST, with or without the update. */
static const lzt_program *last_program(const lzt_engine *engine, lzt_variant *variant, bool *update)
{
    static const lzt_variant variants[] = {LZT_VARIANT_SINGLE, LZT_VARIANT_LAST};
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++)
        for (int with = 1; with >= 0; with--) {
            const lzt_program *program = lzt_engine_program(engine, variants[v], with);
            if (!program || !lzt_engine_has_run(engine, variants[v], with)) continue;
            *variant = variants[v];
            *update = with;
            return program;
        }
    return NULL;
}

static void fill(const lzt_program_info *p, const double *start, const double *end, lzt_trace_event *event)
{
    for (uint32_t i = 0; i < p->task_count; i++)
        event[i] =
            (lzt_trace_event){p->task[i].lane, p->task[i].name, (uint64_t)(start[i] * 1e9), (uint64_t)(end[i] * 1e9)};
}

lzt_status lzt_step_trace_write(const lzt_engine *engine, const char *directory, uint64_t step, lzt_error *err)
{
    lzt_variant variant;
    bool update;
    const lzt_program *program = last_program(engine, &variant, &update);
    if (!program) return LZT_OK;
    const lzt_program_info *p = lzt_program_get_info(program);
    size_t n = p->task_count;
    double *times = calloc(5 * n + 1, sizeof *times), *start = times, *end = times + n, *length = times + 2 * n;
    lzt_trace_event *event = calloc(2 * n + 1, sizeof *event);
    const char *lane[LZT_LANE_COUNT];
    char path[4200];
    lzt_status status = LZT_OK;
    if (!times || !event) {
        status = lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a trace of %u tasks", p->task_count);
    } else {
        for (int i = 0; i < LZT_LANE_COUNT; i++) lane[i] = lzt_lane_name((lzt_lane)i);
        lzt_engine_times(engine, variant, update, start, end);
        fill(p, start, end, event);
        for (size_t i = 0; i < n; i++) length[i] = end[i] - start[i];
        lzt_program_simulate(program, length, false, times + 3 * n, times + 4 * n);
        fill(p, times + 3 * n, times + 4 * n, event + n);
        const lzt_trace_process processes[] = {{"actual", lane, event, n, LZT_LANE_COUNT},
                                               {"planned", lane, event + n, n, LZT_LANE_COUNT}};
        snprintf(path, sizeof path, "%s/trace-step-%llu.json", directory, (unsigned long long)step);
        status = lzt_trace_write(path, processes, 2, err);
    }
    free(event);
    free(times);
    return status;
}
