/* Traces in Chrome's JSON: see lazytrain/report.h. One pid per process, one tid per lane, complete ("X") events. */
#include "base/os.h"
#include "report/json_text.h"

#include "lazytrain/report.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* One object through a small buffer of its own; names that are too long for it are cut by the caller's choice. */
static void put_metadata(FILE *out, bool is_first, const char *what, uint32_t pid, uint32_t tid, const char *name)
{
    char buffer[1024], text[256];
    snprintf(text, sizeof text, "%.250s", name);
    lzt_json_text json = {.text = buffer, .size = sizeof buffer};
    lzt__jsontext_begin(&json, NULL, '{');
    lzt__jsontext_string(&json, "ph", "M");
    lzt__jsontext_string(&json, "name", what);
    lzt__jsontext_uint(&json, "pid", pid);
    lzt__jsontext_uint(&json, "tid", tid);
    lzt__jsontext_begin(&json, "args", '{');
    lzt__jsontext_string(&json, "name", text);
    lzt__jsontext_end(&json, '}');
    lzt__jsontext_end(&json, '}');
    assert(!json.overflow);
    fprintf(out, "%s\n%s", is_first ? "" : ",", buffer);
}

static void put_sort_index(FILE *out, uint32_t pid, uint32_t tid)
{
    fprintf(out, ",\n{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%u,\"tid\":%u,\"args\":{\"sort_index\":%u}}",
            pid, tid, tid);
}

/* Microseconds with the nanoseconds behind the point, exactly. */
static void put_event(FILE *out, uint32_t pid, const lzt_trace_event *event, uint64_t origin_ns)
{
    char buffer[2048], text[256];
    uint64_t start = event->start_ns - origin_ns, duration = event->end_ns - event->start_ns;
    snprintf(text, sizeof text, "%.250s", event->name);
    lzt_json_text json = {.text = buffer, .size = sizeof buffer};
    lzt__jsontext_string(&json, "name", text);
    assert(!json.overflow);
    fprintf(out, ",\n{\"ph\":\"X\",%s,\"pid\":%u,\"tid\":%u,\"ts\":%" PRIu64 ".%03u,\"dur\":%" PRIu64 ".%03u}", buffer,
            pid, event->lane + 1, start / 1000, (unsigned)(start % 1000), duration / 1000, (unsigned)(duration % 1000));
}

static void put_process(FILE *out, const lzt_trace_process *process, uint32_t pid)
{
    uint64_t origin = UINT64_MAX;
    put_metadata(out, pid == 1, "process_name", pid, 0, process->name);
    for (uint32_t lane = 0; lane < process->lane_count; lane++) {
        put_metadata(out, false, "thread_name", pid, lane + 1, process->lane[lane]);
        put_sort_index(out, pid, lane + 1);
    }
    for (uint64_t i = 0; i < process->event_count; i++)
        if (process->event[i].start_ns < origin) origin = process->event[i].start_ns;
    for (uint64_t i = 0; i < process->event_count; i++) {
        const lzt_trace_event *event = &process->event[i];
        assert(event->lane < process->lane_count && event->end_ns >= event->start_ns);
        put_event(out, pid, event, origin);
    }
}

lzt_status lzt_trace_write(const char *path, const lzt_trace_process *process, uint32_t process_count, lzt_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return lzt_fail(err, LZT_ERR_NO_MEMORY, path, "no memory for the trace");
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", out);
    for (uint32_t i = 0; i < process_count; i++) put_process(out, &process[i], i + 1);
    fputs("\n]}\n", out);
    bool is_bad = ferror(out) != 0;
    is_bad |= fclose(out) != 0;
    lzt_status status = is_bad ? lzt_fail(err, LZT_ERR_NO_MEMORY, path, "no memory for the trace")
                               : lzt__os_write_file_atomic(lzt__os_posix(), path, text, bytes, err);
    free(text);
    return status;
}
