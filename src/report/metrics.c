/* The metrics files of a run: metrics.jsonl, trainer_log.jsonl, a TensorBoard event file. See lazytrain/report.h.
 *
 * Each file is appended to at an offset that moves only when a whole line or record has been written, so that what a
 * full disk cut short is overwritten by the next line. Lines are formatted in a buffer that lives in the handle: the
 * step loop allocates nothing.
 */
#include "report/metrics_file.h"

#include "report/event_file.h"
#include "report/json_text.h"
#include "report/metrics_names.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_SIZE = 32768, PATH_SIZE = 4096 };

typedef struct log_file {
    char path[PATH_SIZE];
    int fd;
    uint64_t offset; /* the next line goes here */
} log_file;

struct lzt_metrics {
    const lzt_os *os;
    lzt_metrics_options options;
    log_file metrics, trainer_log, events;
    char line[LINE_SIZE];
    double begin_seconds; /* monotonic, of this process's part of the run */
    uint64_t tokens;      /* real, since this process began */
    uint64_t last_eval_step;
    bool has_eval;
};

static double clock_seconds(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static lzt_status append(const lzt_metrics *m, log_file *file, const void *data, size_t bytes, lzt_error *err)
{
    lzt_status status = lzt__os_write_all(m->os, file->fd, file->path, data, bytes, file->offset, err);
    if (!status) file->offset += bytes;
    return status;
}

/* The step that a line of either JSONL file belongs to. False: the line is torn or not ours. */
static bool line_step(const char *line, size_t length, uint64_t *step, bool *is_eval)
{
    if (!length || line[length - 1] != '\n') return false;
    json_t *object = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
    json_t *value = json_object_get(object, "step");
    if (!value) value = json_object_get(object, "current_steps");
    bool ok = json_is_integer(value) && json_integer_value(value) >= 0;
    if (ok) *step = (uint64_t)json_integer_value(value);
    *is_eval = json_object_get(object, "event") != NULL;
    json_decref(object);
    return ok;
}

/* Bytes of the lines that a run resumed at start_step keeps: all up to the first that is later, or torn. */
static lzt_status kept_bytes(lzt_metrics *m, const log_file *file, uint64_t *bytes, lzt_error *err)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    *bytes = 0;
    FILE *in = fopen(file->path, "rb");
    if (!in) return lzt_fail_os(err, LZT_ERR_STORAGE, errno, file->path, "cannot be read");
    while ((length = getline(&line, &size, in)) > 0) {
        uint64_t step;
        bool is_eval;
        if (!line_step(line, (size_t)length, &step, &is_eval) || step > m->options.start_step) break;
        if (is_eval && file == &m->metrics) {
            m->has_eval = true;
            m->last_eval_step = step;
        }
        *bytes += (uint64_t)length;
    }
    lzt_status status = ferror(in) ? lzt_fail(err, LZT_ERR_STORAGE, file->path, "cannot be read") : LZT_OK;
    free(line);
    fclose(in);
    return status;
}

static lzt_status open_file(lzt_metrics *m, log_file *file, const char *name, lzt_error *err)
{
    size_t length = (size_t)snprintf(file->path, sizeof file->path, "%s/%s", m->options.output_dir, name);
    if (length >= sizeof file->path) return lzt_fail(err, LZT_ERR_STORAGE, name, "the path is too long");
    return lzt__os_open(m->os, AT_FDCWD, file->path, O_RDWR | O_CREAT, 0666, &file->fd, err);
}

/* Opens a JSONL file and cuts it: to nothing, or to the step that the run resumes from. A truncation is one operation
 * of the file system, so that a kill leaves the old length or the new one. */
static lzt_status open_log(lzt_metrics *m, log_file *file, const char *name, lzt_error *err)
{
    lzt_status status = open_file(m, file, name, err);
    if (!status && m->options.resume) status = kept_bytes(m, file, &file->offset, err);
    if (status) return status;
    int rc = m->os->ftruncate(m->os, file->fd, file->offset);
    if (!rc) rc = m->os->fsync(m->os, file->fd);
    return rc < 0 ? lzt_fail_os(err, LZT_ERR_STORAGE, -rc, file->path, "cannot cut the file") : LZT_OK;
}

static bool is_event_file(const char *name)
{
    static const char prefix[] = "events.out.tfevents.", suffix[] = ".lazytrain";
    size_t length = strlen(name);
    return length > sizeof prefix + sizeof suffix && !strncmp(name, prefix, sizeof prefix - 1) &&
           !strcmp(name + length - (sizeof suffix - 1), suffix);
}

typedef struct removal {
    const lzt_os *os;
    int dir;
} removal;

static int remove_event_file(void *arg, const char *name)
{
    const removal *r = arg;
    return is_event_file(name) ? r->os->unlinkat(r->os, r->dir, name, 0) : 0;
}

/* A run that starts anew does not leave the curves of the run before it. */
static lzt_status remove_event_files(const lzt_metrics *m, lzt_error *err)
{
    removal r = {m->os, -1};
    lzt_status status = lzt__os_open(m->os, AT_FDCWD, m->options.output_dir, O_RDONLY | O_DIRECTORY, 0, &r.dir, err);
    if (status) return status;
    int rc = m->os->list(m->os, r.dir, remove_event_file, &r);
    m->os->close(m->os, r.dir);
    if (rc >= 0) return LZT_OK;
    return lzt_fail_os(err, LZT_ERR_STORAGE, -rc, m->options.output_dir, "cannot remove the old event files");
}

static lzt_status open_events(lzt_metrics *m, lzt_error *err)
{
    char host[64] = "host", name[160];
    double now = clock_seconds(CLOCK_REALTIME);
    lzt_status status = m->options.resume ? LZT_OK : remove_event_files(m, err);
    if (status) return status;
    gethostname(host, sizeof host - 1);
    for (char *p = host; *p; p++)
        if (*p == '/') *p = '_';
    snprintf(name, sizeof name, "events.out.tfevents.%.0f.%s.%ld.lazytrain", now, host, (long)getpid());
    status = open_file(m, &m->events, name, err);
    if (status) return status;
    struct stat st; /* two runs in one second: records are appended to the first one's */
    int rc = m->os->fstat(m->os, m->events.fd, &st);
    if (rc < 0) return lzt_fail_os(err, LZT_ERR_STORAGE, -rc, m->events.path, "cannot be examined");
    m->events.offset = (uint64_t)st.st_size;
    uint8_t *out = (uint8_t *)m->line;
    size_t bytes = lzt__event_version(now, out, LINE_SIZE);
    if (m->options.resume) bytes += lzt__event_restart(now, m->options.start_step + 1, out + bytes, LINE_SIZE - bytes);
    return append(m, &m->events, out, bytes, err);
}

lzt_status lzt__metrics_open(const lzt_os *os, const lzt_metrics_options *options, lzt_metrics **out, lzt_error *err)
{
    assert(options->struct_bytes == sizeof *options && options->output_dir);
    lzt_metrics *m = calloc(1, sizeof *m);
    if (!m) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the metrics");
    m->os = os;
    m->options = *options;
    m->metrics.fd = m->trainer_log.fd = m->events.fd = -1;
    m->begin_seconds = clock_seconds(CLOCK_MONOTONIC);
    lzt_status status = open_log(m, &m->metrics, "metrics.jsonl", err);
    if (!status) status = open_log(m, &m->trainer_log, "trainer_log.jsonl", err);
    if (!status) status = open_events(m, err);
    if (status) {
        lzt_metrics_close(m);
        return status;
    }
    *out = m;
    return LZT_OK;
}

lzt_status lzt_metrics_open(const lzt_metrics_options *options, lzt_metrics **metrics, lzt_error *err)
{
    return lzt__metrics_open(lzt__os_posix(), options, metrics, err);
}

void lzt_metrics_close(lzt_metrics *m)
{
    if (!m) return;
    const log_file *files[] = {&m->metrics, &m->trainer_log, &m->events};
    for (size_t i = 0; i < 3; i++)
        if (files[i]->fd >= 0) m->os->close(m->os, files[i]->fd);
    free(m);
}

bool lzt_metrics_has_eval(const lzt_metrics *m, uint64_t step)
{
    return m->has_eval && step <= m->last_eval_step;
}

lzt_status lzt_metrics_sync(lzt_metrics *m, lzt_error *err)
{
    const log_file *files[] = {&m->metrics, &m->trainer_log, &m->events};
    for (size_t i = 0; i < 3; i++) {
        int rc = m->os->fdatasync(m->os, files[i]->fd);
        if (rc < 0) return lzt_fail_os(err, LZT_ERR_STORAGE, -rc, files[i]->path, "cannot make the file durable");
    }
    return LZT_OK;
}

/* --- the lines --- */

static void put_fields(lzt_json_text *json, const lzt_metrics_field *field, int count, const void *from)
{
    for (int i = 0; i < count; i++) {
        const void *value = (const char *)from + field[i].offset;
        switch (field[i].type) {
        case LZT_FIELD_UINT: lzt__jsontext_uint(json, field[i].key, *(const uint64_t *)value); break;
        case LZT_FIELD_REAL: lzt__jsontext_real(json, field[i].key, *(const double *)value); break;
        case LZT_FIELD_BOOL: lzt__jsontext_bool(json, field[i].key, *(const bool *)value); break;
        }
    }
}

static void put_groups(lzt_json_text *json, const lzt_step_metrics *step)
{
    for (int g = 0; g < lzt__step_group_count; g++) {
        const lzt_metrics_group *group = &lzt__step_groups[g];
        const void *values = (const char *)step + group->offset;
        lzt__jsontext_begin(json, group->key, '{');
        for (int i = 0; i < group->count; i++) {
            if (!group->name[i]) continue;
            if (group->is_uint)
                lzt__jsontext_uint(json, group->name[i], ((const uint64_t *)values)[i]);
            else
                lzt__jsontext_real(json, group->name[i], ((const double *)values)[i]);
        }
        lzt__jsontext_end(json, '}');
    }
}

static void put_queues(lzt_json_text *json, const lzt_step_metrics *step)
{
    lzt__jsontext_begin(json, "queues", '[');
    for (uint32_t i = 0; i < step->queue_count; i++) {
        const lzt_queue_metrics *queue = &step->queue[i];
        lzt__jsontext_begin(json, NULL, '{');
        lzt__jsontext_string(json, "name", queue->name);
        lzt__jsontext_real(json, "D", queue->demand);
        lzt__jsontext_real(json, "B", queue->capacity);
        lzt__jsontext_real(json, "T", queue->period_seconds);
        lzt__jsontext_real(json, "ratio", queue->ratio);
        lzt__jsontext_uint(json, "depth_max", queue->depth_max);
        lzt__jsontext_end(json, '}');
    }
    lzt__jsontext_end(json, ']');
}

static double per_second(uint64_t count, double seconds)
{
    return seconds > 0 ? (double)count / seconds : NAN;
}

static void put_rates(lzt_json_text *json, const lzt_step_metrics *step)
{
    lzt__jsontext_real(json, "tokens_padded_per_second", per_second(step->tokens_padded, step->step_seconds));
    lzt__jsontext_real(json, "tokens_real_per_second", per_second(step->tokens_real, step->step_seconds));
    lzt__jsontext_real(json, "tokens_loss_per_second", per_second(step->tokens_loss, step->step_seconds));
}

static lzt_json_text begin_line(lzt_metrics *m)
{
    lzt_json_text json = {.text = m->line, .size = sizeof m->line};
    lzt__jsontext_begin(&json, NULL, '{');
    return json;
}

static lzt_status end_line(lzt_metrics *m, lzt_json_text *json, log_file *file, lzt_error *err)
{
    lzt__jsontext_end(json, '}');
    lzt__jsontext_raw(json, "\n");
    assert(!json->overflow);
    return append(m, file, json->text, json->used, err);
}

/* Python's str(timedelta): LLaMA-Factory's spelling, which its plotting scripts read. */
static void put_duration(lzt_json_text *json, const char *key, double seconds)
{
    char text[48];
    uint64_t s = seconds > 0 && seconds < 1e12 ? (uint64_t)seconds : 0;
    uint64_t days = s / 86400;
    int used = days ? snprintf(text, sizeof text, "%" PRIu64 " day%s, ", days, days > 1 ? "s" : "") : 0;
    snprintf(text + used, sizeof text - (size_t)used, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s % 86400 / 3600,
             s % 3600 / 60, s % 60);
    lzt__jsontext_string(json, key, text);
}

static void put_trainer_progress(lzt_metrics *m, lzt_json_text *json, uint64_t step, double epoch)
{
    double elapsed = clock_seconds(CLOCK_MONOTONIC) - m->begin_seconds;
    uint64_t done = step > m->options.start_step ? step - m->options.start_step : 0;
    uint64_t left = m->options.total_steps > step ? m->options.total_steps - step : 0;
    double total = (double)m->options.total_steps;
    lzt__jsontext_real(json, "epoch", epoch);
    lzt__jsontext_real(json, "percentage", total > 0 ? round((double)step / total * 1e4) / 100 : 100);
    put_duration(json, "elapsed_time", elapsed);
    put_duration(json, "remaining_time", done ? elapsed / (double)done * (double)left : 0);
    lzt__jsontext_real(json, "throughput", round(per_second(m->tokens, elapsed) * 100) / 100);
    lzt__jsontext_uint(json, "total_tokens", m->tokens);
}

static lzt_status put_trainer_step(lzt_metrics *m, const lzt_step_metrics *step, lzt_error *err)
{
    uint64_t every = m->options.logging_steps;
    if (!every || step->step % every) return LZT_OK;
    lzt_json_text json = begin_line(m);
    lzt__jsontext_uint(&json, "current_steps", step->step);
    lzt__jsontext_uint(&json, "total_steps", m->options.total_steps);
    lzt__jsontext_real(&json, "loss", step->loss);
    lzt__jsontext_real(&json, "lr", step->lr);
    put_trainer_progress(m, &json, step->step, step->epoch);
    return end_line(m, &json, &m->trainer_log, err);
}

static lzt_status put_events(lzt_metrics *m, uint64_t step, const lzt_event_scalar *scalar, size_t count,
                             lzt_error *err)
{
    uint8_t *out = (uint8_t *)m->line;
    size_t bytes = lzt__event_scalars(clock_seconds(CLOCK_REALTIME), step, scalar, count, out, sizeof m->line);
    assert(bytes);
    return append(m, &m->events, out, bytes, err);
}

lzt_status lzt_metrics_step(lzt_metrics *m, const lzt_step_metrics *step, lzt_error *err)
{
    assert(step->queue_count <= LZT_QUEUE_MAX && (!step->queue_count || step->queue));
    lzt_step_metrics copy = *step;
    copy.finite = step->finite && isfinite(step->loss) && isfinite(step->grad_norm);
    lzt_json_text json = begin_line(m);
    lzt__jsontext_uint(&json, "schema", LZT_METRICS_SCHEMA);
    put_fields(&json, lzt__step_fields, lzt__step_field_count, &copy);
    put_rates(&json, step);
    put_groups(&json, step);
    put_queues(&json, step);
    lzt_status status = end_line(m, &json, &m->metrics, err);
    if (status) return status;
    m->tokens += step->tokens_real;
    status = put_trainer_step(m, step, err);
    if (status) return status;
    const lzt_event_scalar scalars[] = {{"train/loss", step->loss},
                                        {"train/grad_norm", step->grad_norm},
                                        {"train/learning_rate", step->lr},
                                        {"train/epoch", step->epoch},
                                        {"train/step_seconds", step->step_seconds}};
    return put_events(m, step->step, scalars, sizeof scalars / sizeof scalars[0], err);
}

lzt_status lzt_metrics_eval(lzt_metrics *m, const lzt_eval_metrics *eval, lzt_error *err)
{
    lzt_json_text json = begin_line(m);
    lzt__jsontext_uint(&json, "schema", LZT_METRICS_SCHEMA);
    lzt__jsontext_string(&json, "event", "eval");
    put_fields(&json, lzt__eval_fields, lzt__eval_field_count, eval);
    lzt__jsontext_real(&json, "perplexity", exp(eval->eval_loss));
    if (eval->has_exact_match) {
        lzt__jsontext_real(&json, "exact_match", eval->exact_match);
        lzt__jsontext_uint(&json, "answers", eval->answers);
        lzt__jsontext_uint(&json, "answers_right", eval->answers_right);
        lzt__jsontext_uint(&json, "answers_none", eval->answers_none);
        lzt__jsontext_uint(&json, "answer_tokens", eval->answer_tokens);
        lzt__jsontext_real(&json, "answer_seconds", eval->answer_seconds);
    }
    lzt_status status = end_line(m, &json, &m->metrics, err);
    if (status) return status;
    m->has_eval = true;
    m->last_eval_step = eval->step;
    json = begin_line(m);
    lzt__jsontext_uint(&json, "current_steps", eval->step);
    lzt__jsontext_uint(&json, "total_steps", m->options.total_steps);
    lzt__jsontext_real(&json, "eval_loss", eval->eval_loss);
    put_trainer_progress(m, &json, eval->step, eval->epoch);
    status = end_line(m, &json, &m->trainer_log, err);
    if (status) return status;
    const lzt_event_scalar scalars[] = {{"eval/loss", eval->eval_loss}, {"eval/exact_match", eval->exact_match}};
    return put_events(m, eval->step, scalars, eval->has_exact_match ? 2 : 1, err);
}
