/* lazytrain compare: the same window of several runs, side by side. */
#include "cli/commands.h"
#include "cli/talk.h"
#include "lazytrain/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const lzt_option options[] = {
    {.name = "RUN",
     .type = LZT_OPTION_PATH,
     .required = true,
     .repeated = true,
     .help = "a run directory, or a metrics.jsonl"},
    {.name = "steps", .argument = "A-B", .type = LZT_OPTION_TEXT, .help = "only steps A to B, both included"},
    {.name = "last", .argument = "N", .type = LZT_OPTION_UINT, .unit = "steps", .help = "only the last N steps"},
    LZT_OPTION_JSON,
};

typedef struct window {
    uint64_t first, last, latest;
} window;

static bool read_number(const char *text, size_t length, uint64_t *value)
{
    char digits[24], *end;
    if (!length || length >= sizeof digits || strspn(text, "0123456789") < length) return false;
    memcpy(digits, text, length);
    digits[length] = 0;
    *value = strtoull(digits, &end, 10);
    return true;
}

static lzt_status read_window(const lzt_args *args, window *w, lzt_error *err)
{
    const char *text = lzt_args_text(args, "steps");
    *w = (window){0, UINT64_MAX, 0};
    if (lzt_args_given(args, "last")) {
        if (text) return lzt_fail(err, LZT_ERR_USAGE, "--last", "cannot be given with --steps");
        w->latest = lzt_args_uint(args, "last");
        return w->latest ? LZT_OK : lzt_fail(err, LZT_ERR_USAGE, "--last", "must be at least 1");
    }
    if (!text) return LZT_OK;
    const char *dash = strchrnul(text, '-');
    bool ok = read_number(text, (size_t)(dash - text), &w->first) && *dash &&
              read_number(dash + 1, strlen(dash + 1), &w->last) && w->first <= w->last;
    if (ok) return LZT_OK;
    lzt_fail(err, LZT_ERR_USAGE, "--steps", "'%s' is not a range of steps", text);
    return lzt_hint(err, "for example: --steps 2-100");
}

static lzt_status read_run(const char *path, const window *w, lzt_run_summary *summary, lzt_error *err)
{
    lzt_run_history history;
    lzt_status status = lzt_run_history_read(path, &history, err);
    if (status) return status;
    status = lzt_run_summarize(&history, w->first, w->last, w->latest, summary, err);
    if (!status && !summary->step_count) status = lzt_fail(err, LZT_ERR_USAGE, path, "no step lies in the window");
    lzt_run_history_fini(&history);
    return status;
}

/* The rows of the table and the keys of the JSON. */
static const struct row {
    const char *key;
    size_t offset;
    bool is_count;
} rows[] = {
    {"steps", offsetof(lzt_run_summary, step_count), true},
    {"first_step", offsetof(lzt_run_summary, first_step), true},
    {"last_step", offsetof(lzt_run_summary, last_step), true},
    {"nonfinite_steps", offsetof(lzt_run_summary, nonfinite_steps), true},
    {"loss_mean", offsetof(lzt_run_summary, loss_mean), false},
    {"loss_last", offsetof(lzt_run_summary, loss_last), false},
    {"step_seconds_median", offsetof(lzt_run_summary, step_seconds_median), false},
    {"step_seconds_min", offsetof(lzt_run_summary, step_seconds_min), false},
    {"step_seconds_max", offsetof(lzt_run_summary, step_seconds_max), false},
    {"tokens_real_per_second", offsetof(lzt_run_summary, tokens_real_per_second), false},
    {"tokens_padded_per_second", offsetof(lzt_run_summary, tokens_padded_per_second), false},
    {"tokens_loss_per_second", offsetof(lzt_run_summary, tokens_loss_per_second), false},
    {"peak_device_bytes", offsetof(lzt_run_summary, peak_bytes[LZT_MEMORY_DEVICE]), true},
    {"rss_bytes", offsetof(lzt_run_summary, rss_bytes), true},
};

static double real_at(const lzt_run_summary *s, const struct row *row)
{
    return *(const double *)((const char *)s + row->offset);
}

static uint64_t count_at(const lzt_run_summary *s, const struct row *row)
{
    return *(const uint64_t *)((const char *)s + row->offset);
}

static json_t *group_json(const double *seconds, int first)
{
    json_t *object = json_object();
    for (int i = first; i < LZT_CAUSE_COUNT; i++)
        json_object_set_new(object, lzt_cause_name((lzt_cause)i), lzt_talk_json_real(seconds[i]));
    return object;
}

static json_t *summary_json(const char *path, const lzt_run_summary *s)
{
    json_t *object = json_object();
    json_object_set_new(object, "run", json_string(path));
    for (int i = 0; i < LZT_COUNT(rows); i++)
        json_object_set_new(object, rows[i].key,
                            rows[i].is_count ? json_integer((json_int_t)count_at(s, &rows[i]))
                                             : lzt_talk_json_real(real_at(s, &rows[i])));
    json_object_set_new(object, "busy_seconds", group_json(s->busy_seconds, 0));
    json_object_set_new(object, "exposed_seconds", group_json(s->exposed_seconds, 1));
    return object;
}

static lzt_status print_json(const lzt_args *args, const lzt_run_summary *s, int count, lzt_error *err)
{
    json_t *runs = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(runs, summary_json(lzt_args_text_at(args, "RUN", i), &s[i]));
    return lzt_talk_json(json_pack("{s:o}", "runs", runs), err);
}

static void add_exposed_rows(lzt_table *table, const lzt_run_summary *s, int count)
{
    for (int cause = LZT_CAUSE_COMPUTE; cause < LZT_CAUSE_COUNT; cause++) {
        bool is_compute = cause == LZT_CAUSE_COMPUTE;
        lzt_table_cell(table, is_compute ? "busy %s s/step" : "exposed %s s/step", lzt_cause_name((lzt_cause)cause));
        for (int i = 0; i < count; i++)
            lzt_table_cell(table, "%.4g", is_compute ? s[i].busy_seconds[cause] : s[i].exposed_seconds[cause]);
    }
}

static lzt_status print_table(const lzt_args *args, const lzt_run_summary *s, int count, lzt_error *err)
{
    lzt_table_column *columns = calloc((size_t)count + 1, sizeof *columns);
    if (!columns) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a table");
    columns[0].title = "";
    for (int i = 0; i < count; i++) columns[i + 1] = (lzt_table_column){lzt_args_text_at(args, "RUN", i), true};
    lzt_table *table = lzt_table_create(columns, (uint32_t)count + 1);
    for (int r = 0; r < LZT_COUNT(rows); r++) {
        lzt_table_cell(table, "%s", rows[r].key);
        for (int i = 0; i < count; i++)
            if (rows[r].is_count)
                lzt_table_cell(table, "%" PRIu64, count_at(&s[i], &rows[r]));
            else
                lzt_table_cell(table, "%.5g", real_at(&s[i], &rows[r]));
    }
    add_exposed_rows(table, s, count);
    lzt_status status = lzt_table_print(table, stdout, err);
    lzt_table_destroy(table);
    free(columns);
    return status;
}

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    window w;
    int count = lzt_args_count(args, "RUN");
    lzt_status status = read_window(args, &w, err);
    if (status) return status;
    lzt_run_summary *summaries = calloc((size_t)count, sizeof *summaries);
    if (!summaries) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for %d runs", count);
    for (int i = 0; i < count && !status; i++)
        status = read_run(lzt_args_text_at(args, "RUN", i), &w, &summaries[i], err);
    if (!status)
        status = lzt_args_flag(args, "json") ? print_json(args, summaries, count, err)
                                             : print_table(args, summaries, count, err);
    free(summaries);
    return status;
}

const lzt_command lzt_command_compare = {
    .name = "compare",
    .summary = "put windows of runs side by side",
    .example = "lazytrain compare out/baseline out/planned --steps 2-100\nlazytrain compare out/* --last 100 --json",
    .details =
        "Losses are means over the finite steps of the window; seconds of a cause are means a step; bytes are the "
        "greatest of the window.",
    .option = options,
    .option_count = LZT_COUNT(options),
    .run = run};
