/* A strict look at a model directory: see lzt_model_verify in lazytrain/model.h. */
#include "model_files.h"
#include "model_internal.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_VALUES (UINT64_C(1) << 18)

typedef struct verifier {
    lzt_note_fn *note;
    void *arg;
    const lzt_model *model;
    lzt_error *err;
} verifier;

static void say(const verifier *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(const verifier *v, const char *fmt, ...)
{
    if (!v->note) return;
    char line[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    v->note(v->arg, line);
}

static bool is_listed(const lzt_model *m, const char *name)
{
    for (uint32_t i = 0; i < m->weights.shard_count; i++)
        if (!strcmp(m->weights.shard[i].name, name)) return true;
    return false;
}

static int note_stray(void *arg, const char *name)
{
    const verifier *v = arg;
    if (!fnmatch("*.safetensors", name, 0) && !is_listed(v->model, name))
        say(v, "%s: not listed as weights of the model, ignored", name);
    if (!strcmp(name, LZT__MODEL_INDEX_NAME) && !v->model->weights.has_index)
        say(v, "%s: ignored, because model.safetensors is there", name);
    return 0;
}

static lzt_status note_strays(const verifier *v)
{
    int fd;
    const lzt_os *os = lzt__os_posix();
    const char *directory = v->model->directory;
    lzt_status status = lzt__os_open(os, AT_FDCWD, directory, O_RDONLY | O_DIRECTORY, 0, &fd, v->err);
    if (status) return status;
    int rc = os->list(os, fd, note_stray, (void *)(uintptr_t)v);
    os->close(os, fd);
    return rc < 0 ? lzt_fail_os(v->err, LZT_ERR_STORAGE, -rc, directory, "cannot list the directory") : LZT_OK;
}

/* Stored tensors that the tables do not use. */
static lzt_status note_unused(const verifier *v, const lzt__model_shard *shard)
{
    const lzt_model *m = v->model;
    const lzt__st *st = &shard->st;
    bool *used = calloc(st->count + 1, sizeof *used);
    if (!used) return lzt_fail(v->err, LZT_ERR_NO_MEMORY, m->directory, "no memory");
    for (uint32_t i = 0; i < m->tables.tensor_count; i++)
        if (m->weights.place[i].file == st) used[m->weights.place[i].entry - st->entry] = true;
    if (m->weights.tied_head.file == st) used[m->weights.tied_head.entry - st->entry] = true;
    lzt__model_name_list unused = {{0}, 0, 0};
    for (uint32_t k = 0; k < st->count; k++)
        if (!used[k]) lzt__model_name_list_add(&unused, st->entry[k].name);
    free(used);
    if (unused.count)
        say(v, "%s: %u tensors are not part of the model: %s", shard->name, unused.count,
            lzt__model_name_list_end(&unused));
    return LZT_OK;
}

static lzt_status check_total_size(const verifier *v)
{
    const lzt__model_weights *w = &v->model->weights;
    uint64_t total = 0;
    for (uint32_t i = 0; i < w->shard_count; i++) total += w->shard[i].st.data_bytes;
    if (!w->has_index) return LZT_OK;
    if (!w->has_total_size) {
        say(v, "%s: has no metadata.total_size", LZT__MODEL_INDEX_NAME);
        return LZT_OK;
    }
    if (w->total_size == total) return LZT_OK;
    return lzt_fail(v->err, LZT_ERR_MODEL, v->model->directory, "%s says total_size %llu; the files hold %llu bytes",
                    LZT__MODEL_INDEX_NAME, (unsigned long long)w->total_size, (unsigned long long)total);
}

static lzt_status count_nonfinite(const verifier *v, const lzt__model_place *place, float *values, uint64_t *count)
{
    uint64_t width = lzt_dtype_bytes(place->entry->dtype), elements = place->entry->element_count;
    lzt_status status = LZT_OK;
    *count = 0;
    for (uint64_t at = 0; at < elements && !status; at += PIECE_VALUES) {
        uint64_t n = elements - at < PIECE_VALUES ? elements - at : PIECE_VALUES;
        char *raw = (char *)values + n * (sizeof *values - width); /* widened in place: see safetensors.h */
        status = lzt__st_read(place->file, place->entry, at * width, n * width, raw, v->err);
        if (status) break;
        lzt__st_to_f32(place->entry->dtype, raw, n, values);
        for (uint64_t i = 0; i < n; i++) *count += !isfinite(values[i]);
    }
    return status;
}

static lzt_status check_data(const verifier *v)
{
    const lzt_model *m = v->model;
    float *values = malloc(PIECE_VALUES * sizeof *values);
    if (!values) return lzt_fail(v->err, LZT_ERR_NO_MEMORY, m->directory, "no memory");
    lzt_status status = LZT_OK;
    uint64_t total = 0, count = 0;
    const char *first = NULL;
    for (uint32_t i = 0; i < m->tables.tensor_count && !status; i++) {
        status = count_nonfinite(v, &m->weights.place[i], values, &count);
        if (count) say(v, "%s: %llu values are not finite", m->tables.tensor[i].name, (unsigned long long)count);
        if (count && !first) first = m->tables.tensor[i].name;
        total += count;
    }
    free(values);
    if (status || !total) return status;
    return lzt_fail(v->err, LZT_ERR_MODEL, m->directory, "%llu weights are not finite, first in \"%s\"",
                    (unsigned long long)total, first);
}

lzt_status lzt_model_verify(const char *path, bool with_data, lzt_note_fn *note, void *arg, lzt_error *err)
{
    lzt_model *model;
    lzt_status status = lzt_model_open(path, LZT_MODEL_WANT_WEIGHTS, &model, err);
    if (status) return status;
    verifier v = {note, arg, model, err};
    if (model->config.rope.theta_is_default)
        say(&v, "config.json names no rope_theta: %g, the architecture's own, is used", model->config.rope.theta);
    if (!model->info.trainable_arch) say(&v, "cannot be trained yet: %s", model->info.not_trainable);
    for (uint32_t i = 0; i < model->weights.shard_count && !status; i++)
        status = note_unused(&v, &model->weights.shard[i]);
    if (!status) status = note_strays(&v);
    if (!status) status = check_total_size(&v);
    if (!status && with_data) status = check_data(&v);
    lzt_model_close(model);
    return status;
}
