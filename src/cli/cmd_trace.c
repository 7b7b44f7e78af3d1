/* lazytrain trace: what a run's trace says, lane by lane. */
#include "cli/commands.h"
#include "cli/talk.h"
#include "lazytrain/report.h"

#include <errno.h>
#include <fnmatch.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const lzt_option options[] = {
    {.name = "RUN", .type = LZT_OPTION_PATH, .required = true, .help = "a run directory, or a trace file"},
    LZT_OPTION_JSON,
};

enum { LANES_MAX = 256 };

typedef struct lane {
    json_int_t process, thread;
    char name[64], process_name[64];
    uint64_t events;
    double busy_us, first_us, last_us;
} lane;

typedef struct lanes {
    lane lane[LANES_MAX];
    int count;
} lanes;

/* The newest trace-*.json of a run directory, or path itself. */
static lzt_status find_trace(const char *path, char *out, size_t size, lzt_error *err)
{
    struct stat st;
    time_t newest = 0;
    snprintf(out, size, "%s", path);
    if (stat(path, &st)) return lzt_fail_os(err, LZT_ERR_USAGE, errno, path, "cannot read the run");
    if (!S_ISDIR(st.st_mode)) return LZT_OK;
    DIR *d = opendir(path);
    if (!d) return lzt_fail_os(err, LZT_ERR_USAGE, errno, path, "cannot read the run");
    for (struct dirent *entry; (entry = readdir(d));) {
        char file[4096];
        snprintf(file, sizeof file, "%.3500s/%.255s", path, entry->d_name);
        if (fnmatch("trace-*.json", entry->d_name, 0) || stat(file, &st) || st.st_mtime < newest) continue;
        newest = st.st_mtime;
        snprintf(out, size, "%s", file);
    }
    closedir(d);
    if (newest) return LZT_OK;
    lzt_fail(err, LZT_ERR_USAGE, path, "the run has no trace-*.json");
    return lzt_hint(err, "train --trace writes one");
}

static lane *find_lane(lanes *all, json_int_t process, json_int_t thread)
{
    for (int i = 0; i < all->count; i++)
        if (all->lane[i].process == process && all->lane[i].thread == thread) return &all->lane[i];
    if (all->count == LANES_MAX) return NULL;
    lane *made = &all->lane[all->count++];
    *made = (lane){.process = process, .thread = thread};
    return made;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static void take_metadata(lanes *all, const json_t *event, lane *at)
{
    const char *name = text_of(json_object_get(event, "args"), "name");
    if (!strcmp(text_of(event, "name"), "thread_name")) snprintf(at->name, sizeof at->name, "%.63s", name);
    if (strcmp(text_of(event, "name"), "process_name")) return;
    for (int i = 0; i < all->count; i++)
        if (all->lane[i].process == at->process)
            snprintf(all->lane[i].process_name, sizeof at->process_name, "%.63s", name);
}

static void take_event(lanes *all, const json_t *event)
{
    lane *at = find_lane(all, json_integer_value(json_object_get(event, "pid")),
                         json_integer_value(json_object_get(event, "tid")));
    if (!at) return;
    if (!strcmp(text_of(event, "ph"), "M")) take_metadata(all, event, at);
    if (strcmp(text_of(event, "ph"), "X")) return;
    double begin = json_number_value(json_object_get(event, "ts"));
    double duration = json_number_value(json_object_get(event, "dur"));
    if (!at->events || begin < at->first_us) at->first_us = begin;
    if (!at->events || begin + duration > at->last_us) at->last_us = begin + duration;
    at->busy_us += duration;
    at->events++;
}

static lzt_status read_trace(const char *path, lanes *all, lzt_error *err)
{
    json_error_t problem;
    json_t *trace = json_load_file(path, 0, &problem);
    const json_t *events = json_object_get(trace, "traceEvents");
    if (!json_is_array(events)) {
        json_decref(trace);
        return lzt_fail(err, LZT_ERR_USAGE, path, "this is not a trace: %s", trace ? "no traceEvents" : problem.text);
    }
    for (size_t i = 0; i < json_array_size(events); i++) take_event(all, json_array_get(events, i));
    json_decref(trace);
    return LZT_OK;
}

static double span_us(const lanes *all, json_int_t process)
{
    double first = 0, last = 0;
    bool any = false;
    for (int i = 0; i < all->count; i++) {
        const lane *l = &all->lane[i];
        if (l->process != process || !l->events) continue;
        if (!any || l->first_us < first) first = l->first_us;
        if (!any || l->last_us > last) last = l->last_us;
        any = true;
    }
    return last - first;
}

/* The process's name was met on its own lane (thread 0); give it to the others. */
static const char *process_name(const lanes *all, json_int_t process)
{
    for (int i = 0; i < all->count; i++)
        if (all->lane[i].process == process && all->lane[i].process_name[0]) return all->lane[i].process_name;
    return "";
}

static lzt_status print_json(const char *path, const lanes *all, lzt_error *err)
{
    json_t *list = json_array();
    for (int i = 0; i < all->count; i++) {
        const lane *l = &all->lane[i];
        if (!l->events) continue;
        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:f, s:f}", "process", process_name(all, l->process),
                                              "lane", l->name, "events", (json_int_t)l->events, "busy_seconds",
                                              l->busy_us * 1e-6, "span_seconds", span_us(all, l->process) * 1e-6));
    }
    return lzt_talk_json(json_pack("{s:s, s:o}", "trace", path, "lanes", list), err);
}

static lzt_status print_table(const char *path, const lanes *all, lzt_error *err)
{
    static const lzt_table_column columns[] = {
        {"process", false}, {"lane", false}, {"events", true}, {"busy ms", true}, {"share", true}};
    lzt_table *table = lzt_table_create(columns, 5);
    for (int i = 0; i < all->count; i++) {
        const lane *l = &all->lane[i];
        double span = span_us(all, l->process);
        if (!l->events) continue;
        lzt_table_cell(table, "%s", process_name(all, l->process));
        lzt_table_cell(table, "%s", l->name);
        lzt_table_cell(table, "%llu", (unsigned long long)l->events);
        lzt_table_cell(table, "%.3f", l->busy_us * 1e-3);
        lzt_table_cell(table, "%.1f %%", span > 0 ? 100 * l->busy_us / span : 0);
    }
    lzt_status status = lzt_table_print(table, stdout, err);
    lzt_table_destroy(table);
    lzt_talk("open %s in https://ui.perfetto.dev", path);
    return status;
}

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    char path[4096];
    lzt_status status = find_trace(lzt_args_text(args, "RUN"), path, sizeof path, err);
    if (status) return status;
    lanes *all = calloc(1, sizeof *all);
    if (!all) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the trace");
    status = read_trace(path, all, err);
    if (!status) status = lzt_args_flag(args, "json") ? print_json(path, all, err) : print_table(path, all, err);
    free(all);
    return status;
}

const lzt_command lzt_command_trace = {.name = "trace",
                                       .summary = "summarise a run's trace, lane by lane",
                                       .example = "lazytrain trace out",
                                       .details = "Reads the newest trace-*.json of the run and prints how busy each "
                                                  "lane was. The file itself opens in Perfetto.",
                                       .option = options,
                                       .option_count = LZT_COUNT(options),
                                       .run = run};
