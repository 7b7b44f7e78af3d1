/* Reading metrics.jsonl back: see lazytrain/report.h. */
#include "report/metrics_names.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct place {
    const char *path;
    uint64_t line;
} place;

static lzt_status fail_line(const place *at, const char *message, lzt_error *err)
{
    char where[500];
    snprintf(where, sizeof where, "%.440s:%llu", at->path, (unsigned long long)at->line);
    return lzt_fail(err, LZT_ERR_USAGE, where, "%s", message);
}

static double real_of(const json_t *value)
{
    if (json_is_null(value)) return NAN;
    return json_is_number(value) ? json_number_value(value) : 0;
}

static void get_fields(const json_t *object, const lzt_metrics_field *field, int count, void *to)
{
    for (int i = 0; i < count; i++) {
        const json_t *value = json_object_get(object, field[i].key);
        void *out = (char *)to + field[i].offset;
        switch (field[i].type) {
        case LZT_FIELD_UINT: *(uint64_t *)out = (uint64_t)json_integer_value(value); break;
        case LZT_FIELD_REAL: *(double *)out = real_of(value); break;
        case LZT_FIELD_BOOL: *(bool *)out = json_is_true(value); break;
        }
    }
}

static void get_groups(const json_t *object, lzt_step_metrics *step)
{
    for (int g = 0; g < lzt__step_group_count; g++) {
        const lzt_metrics_group *group = &lzt__step_groups[g];
        const json_t *members = json_object_get(object, group->key);
        void *out = (char *)step + group->offset;
        for (int i = 0; i < group->count; i++) {
            if (!group->name[i]) continue;
            const json_t *value = json_object_get(members, group->name[i]);
            if (group->is_uint)
                ((uint64_t *)out)[i] = (uint64_t)json_integer_value(value);
            else
                ((double *)out)[i] = real_of(value);
        }
    }
}

/* Room for one more element, doubling. */
static void *grown(void *array, uint64_t count, size_t element)
{
    if (count & (count - 1)) return array; /* not a power of two: there is room up to the next */
    return realloc(array, (count ? count * 2 : 1) * element);
}

static lzt_status take_step(const json_t *object, lzt_run_history *history, lzt_error *err)
{
    lzt_step_metrics *steps = grown(history->step, history->step_count, sizeof *steps);
    if (!steps) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a run's metrics");
    history->step = steps;
    lzt_step_metrics *step = &steps[history->step_count++];
    *step = (lzt_step_metrics){0};
    get_fields(object, lzt__step_fields, lzt__step_field_count, step);
    get_groups(object, step);
    return LZT_OK;
}

static lzt_status take_eval(const json_t *object, lzt_run_history *history, lzt_error *err)
{
    lzt_eval_metrics *evals = grown(history->eval, history->eval_count, sizeof *evals);
    if (!evals) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a run's metrics");
    history->eval = evals;
    lzt_eval_metrics *eval = &evals[history->eval_count++];
    *eval = (lzt_eval_metrics){0};
    get_fields(object, lzt__eval_fields, lzt__eval_field_count, eval);
    const json_t *match = json_object_get(object, "exact_match");
    eval->has_exact_match = match != NULL;
    eval->exact_match = real_of(match);
    eval->answers = (uint64_t)json_integer_value(json_object_get(object, "answers"));
    eval->answers_right = (uint64_t)json_integer_value(json_object_get(object, "answers_right"));
    eval->answers_none = (uint64_t)json_integer_value(json_object_get(object, "answers_none"));
    eval->answer_tokens = (uint64_t)json_integer_value(json_object_get(object, "answer_tokens"));
    eval->answer_seconds = real_of(json_object_get(object, "answer_seconds"));
    return LZT_OK;
}

static lzt_status take_line(const place *at, const char *line, size_t length, lzt_run_history *history, lzt_error *err)
{
    json_error_t problem;
    json_t *object = json_loadb(line, length, JSON_REJECT_DUPLICATES, &problem);
    if (!object) return fail_line(at, problem.text, err);
    lzt_status status;
    const json_t *schema = json_object_get(object, "schema"), *event = json_object_get(object, "event");
    if (json_integer_value(schema) != LZT_METRICS_SCHEMA)
        status = fail_line(at, "this is not an object of schema 1", err);
    else if (!json_is_integer(json_object_get(object, "step")))
        status = fail_line(at, "step is missing", err);
    else if (!event)
        status = take_step(object, history, err);
    else if (!strcmp(json_string_value(event) ? json_string_value(event) : "", "eval"))
        status = take_eval(object, history, err);
    else
        status = LZT_OK; /* events of later versions are not ours to judge */
    json_decref(object);
    return status;
}

lzt_status lzt_run_history_read(const char *path, lzt_run_history *history, lzt_error *err)
{
    char name[4096], *line = NULL;
    size_t size = 0;
    ssize_t length;
    struct stat st;
    bool is_directory = !stat(path, &st) && S_ISDIR(st.st_mode);
    snprintf(name, sizeof name, "%s%s", path, is_directory ? "/metrics.jsonl" : "");
    *history = (lzt_run_history){0};
    FILE *in = fopen(name, "rb");
    if (!in) return lzt_fail_os(err, LZT_ERR_USAGE, errno, name, "cannot read the metrics of a run");
    lzt_status status = LZT_OK;
    for (place at = {name, 1}; !status && (length = getline(&line, &size, in)) > 0; at.line++)
        if (line[length - 1] == '\n') status = take_line(&at, line, (size_t)length, history, err);
    if (!status && ferror(in)) status = lzt_fail(err, LZT_ERR_STORAGE, name, "cannot be read");
    free(line);
    fclose(in);
    if (status) lzt_run_history_fini(history);
    return status;
}

void lzt_run_history_fini(lzt_run_history *history)
{
    free(history->step);
    free(history->eval);
    *history = (lzt_run_history){0};
}
