/* Finding, checking and reading a version: see lazytrain/ckpt.h.
 *
 * Opening hashes every byte. Loading hashes them again on the way to the sink, in the order of the file.
 */
#include "ckpt/ckpt_internal.h"

#include <assert.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES (UINT64_C(1) << 20)

typedef struct shard {
    const lzt__ckpt_file *file;
    lzt__st st;
} shard;

struct lzt_ckpt {
    lzt_ckpt_info info;
    const lzt_os *os;
    char *directory, *config_json;
    lzt__ckpt_manifest manifest;
    shard *shard;
    uint32_t shard_count;
};

/* ---- hashing ---- */

static lzt_status check_hash(const lzt__ckpt_file *file, const char *path, XXH128_hash_t got, lzt_error *err)
{
    if (XXH128_isEqual(file->hash, got)) return LZT_OK;
    return lzt_fail(err, LZT_ERR_MODEL, path, "its content does not match the manifest's hash");
}

static lzt_status hash_range(const lzt_os *os, int fd, const char *path, uint64_t begin, uint64_t end, void *piece,
                             XXH3_state_t *hash, lzt_error *err)
{
    lzt_status status = LZT_OK;
    for (uint64_t at = begin; at < end && !status; at += PIECE_BYTES) {
        uint64_t n = end - at < PIECE_BYTES ? end - at : PIECE_BYTES;
        status = lzt__os_read_all(os, fd, path, piece, n, at, err);
        if (!status) XXH3_128bits_update(hash, piece, n);
    }
    return status;
}

static lzt_status verify_file(const lzt_ckpt *c, const lzt__ckpt_file *file, void *piece, XXH3_state_t *hash,
                              lzt_error *err)
{
    char path[4096];
    int fd;
    snprintf(path, sizeof path, "%s/%s", c->directory, file->name);
    lzt_status status = lzt__os_open(c->os, AT_FDCWD, path, O_RDONLY, 0, &fd, err);
    if (status) return status;
    XXH3_128bits_reset(hash);
    status = hash_range(c->os, fd, path, 0, file->bytes, piece, hash, err);
    c->os->close(c->os, fd);
    return status ? status : check_hash(file, path, XXH3_128bits_digest(hash), err);
}

static lzt_status verify_files(const lzt_ckpt *c, lzt_error *err)
{
    void *piece = malloc(PIECE_BYTES);
    XXH3_state_t *hash = XXH3_createState();
    lzt_status status = LZT_OK;
    if (!piece || !hash) status = lzt_fail(err, LZT_ERR_NO_MEMORY, c->directory, "no memory");
    for (uint32_t i = 0; i < c->manifest.file_count && !status; i++)
        status = verify_file(c, &c->manifest.file[i], piece, hash, err);
    XXH3_freeState(hash);
    free(piece);
    return status;
}

/* ---- trainer.json ---- */

static uint64_t field(const json_t *root, const char *key, bool *bad)
{
    const json_t *value = json_object_get(root, key);
    if (!json_is_integer(value)) *bad = true;
    return (uint64_t)json_integer_value(value);
}

static lzt_status parse_trainer(lzt_ckpt *c, const json_t *root, const char *path, lzt_error *err)
{
    lzt_ckpt_info *info = &c->info;
    bool bad = false;
    uint64_t version = field(root, "format_version", &bad);
    info->step = field(root, "step", &bad);
    info->applied_steps = field(root, "applied_steps", &bad);
    info->nonfinite_steps = field(root, "nonfinite_steps", &bad);
    info->rows_seen = field(root, "rows_seen", &bad);
    const char *seed = json_string_value(json_object_get(root, "seed")); /* a string: JSON readers stop at 2^63 */
    info->seed = seed ? strtoull(seed, NULL, 10) : 0;
    info->epoch = json_number_value(json_object_get(root, "epoch"));
    const char *fingerprint = json_string_value(json_object_get(root, "model_fingerprint"));
    const json_t *config = json_object_get(root, "config");
    if (bad || !seed || !fingerprint || !json_is_object(config) || version != LZT__CKPT_VERSION ||
        info->step != c->manifest.step)
        return lzt_fail(err, LZT_ERR_MODEL, path, "not the trainer.json of step %llu",
                        (unsigned long long)c->manifest.step);
    info->model_fingerprint = strtoull(fingerprint, NULL, 16);
    c->config_json = json_dumps(config, JSON_COMPACT | JSON_SORT_KEYS);
    info->config_json = c->config_json;
    return c->config_json ? LZT_OK : lzt_fail(err, LZT_ERR_NO_MEMORY, path, "no memory");
}

static lzt_status read_trainer(lzt_ckpt *c, lzt_error *err)
{
    char path[4096], *text = NULL;
    uint64_t bytes = 0;
    json_error_t json_err;
    snprintf(path, sizeof path, "%s/" LZT__CKPT_TRAINER, c->directory);
    lzt_status status = lzt__os_read_file(c->os, path, LZT__CKPT_TEXT_MAX, &text, &bytes, err);
    if (status) return status;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &json_err);
    free(text);
    if (!root) return lzt_fail(err, LZT_ERR_MODEL, path, "not valid JSON: %s (line %d)", json_err.text, json_err.line);
    status = parse_trainer(c, root, path, err);
    json_decref(root);
    return status;
}

/* ---- opening ---- */

static lzt_status open_shards(lzt_ckpt *c, lzt_error *err)
{
    c->shard = calloc(c->manifest.file_count + 1, sizeof *c->shard);
    if (!c->shard) return lzt_fail(err, LZT_ERR_NO_MEMORY, c->directory, "no memory");
    for (uint32_t i = 0; i < c->manifest.file_count; i++) {
        const lzt__ckpt_file *file = &c->manifest.file[i];
        c->info.bytes += file->bytes;
        if (strncmp(file->name, "state-", 6)) continue;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", c->directory, file->name);
        shard *s = &c->shard[c->shard_count];
        lzt_status status = lzt__st_open(c->os, path, &s->st, err);
        if (status) return status;
        s->file = file;
        c->shard_count++;
        c->info.tensor_count += s->st.count;
    }
    c->info.file_count = c->manifest.file_count;
    return LZT_OK;
}

lzt_status lzt__ckpt_open(const lzt_os *os, const char *directory, lzt_ckpt **ckpt, lzt_error *err)
{
    *ckpt = NULL;
    lzt_ckpt *c = calloc(1, sizeof *c);
    if (!c) return lzt_fail(err, LZT_ERR_NO_MEMORY, directory, "no memory");
    c->os = os;
    c->directory = strdup(directory);
    c->info.directory = c->directory;
    lzt_status status = c->directory ? LZT_OK : lzt_fail(err, LZT_ERR_NO_MEMORY, directory, "no memory");
    if (!status) status = lzt__ckpt_manifest_read(os, directory, &c->manifest, err);
    if (!status) status = verify_files(c, err);
    if (!status) status = read_trainer(c, err);
    if (!status) status = open_shards(c, err);
    if (status)
        lzt_ckpt_close(c);
    else
        *ckpt = c;
    return status;
}

lzt_status lzt_ckpt_open(const char *directory, lzt_ckpt **ckpt, lzt_error *err)
{
    return lzt__ckpt_open(lzt__os_posix(), directory, ckpt, err);
}

void lzt_ckpt_close(lzt_ckpt *c)
{
    if (!c) return;
    for (uint32_t i = 0; i < c->shard_count; i++) lzt__st_close(&c->shard[i].st);
    lzt__ckpt_manifest_fini(&c->manifest);
    free(c->shard);
    free(c->config_json);
    free(c->directory);
    free(c);
}

const lzt_ckpt_info *lzt_ckpt_get_info(const lzt_ckpt *ckpt)
{
    return &ckpt->info;
}

static void note_skipped(lzt_ckpt_note *note, void *arg, uint64_t step, const lzt_error *why)
{
    char line[2048];
    if (!note) return;
    snprintf(line, sizeof line, LZT__CKPT_DIR_PREFIX "%llu is skipped: %s: %s", (unsigned long long)step, why->where,
             why->message);
    note(arg, line);
}

/* Opens one version if it is whole; a status other than LZT_OK says why it is skipped. */
static lzt_status try_version(const lzt_os *os, const char *root, uint64_t step, lzt_ckpt **ckpt, lzt_error *why)
{
    char *directory = lzt__ckpt_directory(root, step);
    if (!directory) return lzt_fail(why, LZT_ERR_NO_MEMORY, root, "no memory");
    lzt_status status = lzt__ckpt_open(os, directory, ckpt, why);
    if (!status && lzt_ckpt_get_info(*ckpt)->step != step) {
        status = lzt_fail(why, LZT_ERR_MODEL, directory, "its content is of another step");
        lzt_ckpt_close(*ckpt);
        *ckpt = NULL;
    }
    free(directory);
    return status;
}

lzt_status lzt__ckpt_find_latest(const lzt_os *os, const char *root, lzt_ckpt_note *note, void *arg, lzt_ckpt **ckpt,
                                 lzt_error *err)
{
    uint64_t *steps;
    uint32_t count, removed;
    *ckpt = NULL;
    lzt_status status = lzt__staging_clean(os, root, LZT__CKPT_DIR_PREFIX, &removed, err);
    if (!status) status = lzt__ckpt_steps(os, root, &steps, &count, err);
    if (status) return status;
    for (uint32_t i = 0; i < count && !*ckpt; i++) {
        lzt_error why = {0};
        lzt_status skipped = try_version(os, root, steps[i], ckpt, &why);
        if (!skipped) break;
        note_skipped(note, arg, steps[i], &why);
        /* Not whole is one thing; not readable must not end in a run that begins anew. */
        if (skipped != LZT_ERR_MODEL && !status) {
            status = skipped;
            if (err) *err = why;
        }
    }
    free(steps);
    return *ckpt ? LZT_OK : status;
}

lzt_status lzt_ckpt_find_latest(const char *root, lzt_ckpt_note *note, void *arg, lzt_ckpt **ckpt, lzt_error *err)
{
    return lzt__ckpt_find_latest(lzt__os_posix(), root, note, arg, ckpt, err);
}

/* ---- reading ---- */

static const lzt__st_entry *find_part(const lzt_ckpt *c, const char *name, int part, const shard **where)
{
    char *full = NULL;
    if (asprintf(&full, "%s%s", lzt__ckpt_part_prefix(part), name) < 0) return NULL;
    const lzt__st_entry *entry = NULL;
    for (uint32_t i = 0; i < c->shard_count && !entry; i++) {
        entry = lzt__st_find(&c->shard[i].st, full);
        *where = &c->shard[i];
    }
    free(full);
    return entry;
}

lzt_status lzt_ckpt_read(const lzt_ckpt *c, const char *name, lzt_ckpt_part part, float *out, uint64_t element_count,
                         lzt_error *err)
{
    const shard *where = NULL;
    const lzt__st_entry *entry = find_part(c, name, part, &where);
    if (!entry || entry->dtype != LZT_DTYPE_F32 || entry->element_count != element_count)
        return lzt_fail(err, LZT_ERR_MODEL, c->directory, "there is no \"%s%s\" of %llu elements",
                        lzt__ckpt_part_prefix(part), name, (unsigned long long)element_count);
    return lzt__st_read(&where->st, entry, 0, element_count * sizeof *out, out, err);
}

/* One wanted part of one tensor, found by its stored entry. */
typedef struct target {
    const lzt__st_entry *entry;
    uint32_t tensor;
    int part;
} target;

static int by_entry(const void *a, const void *b)
{
    const target *x = a, *y = b;
    return x->entry < y->entry ? -1 : x->entry > y->entry;
}

static bool same_shape(const shard *s, const lzt__st_entry *entry, const lzt_ckpt_tensor *t)
{
    if (entry->rank != t->rank || entry->dtype != LZT_DTYPE_F32) return false;
    return !t->rank || !memcmp(lzt__st_shape(&s->st, entry), t->shape, t->rank * sizeof *t->shape);
}

/* Finds every part of every tensor. The version must hold these and no others. */
static lzt_status list_targets(const lzt_ckpt *c, const lzt_ckpt_tensor *tensor, uint32_t tensor_count, target *targets,
                               uint32_t *count, lzt_error *err)
{
    *count = 0;
    for (uint32_t i = 0; i < tensor_count; i++) {
        for (int part = 0; part < (tensor[i].has_moments ? LZT_CKPT_PART_COUNT : 1); part++) {
            const shard *where = NULL;
            const lzt__st_entry *entry = find_part(c, tensor[i].name, part, &where);
            if (!entry)
                return lzt_fail(err, LZT_ERR_MODEL, c->directory, "it has no \"%s%s\": it is of another model",
                                lzt__ckpt_part_prefix(part), tensor[i].name);
            if (!same_shape(where, entry, &tensor[i]))
                return lzt_fail(err, LZT_ERR_MODEL, c->directory, "\"%s\" has another shape: it is of another model",
                                entry->name);
            targets[(*count)++] = (target){entry, i, part};
        }
    }
    if (*count == c->info.tensor_count) return LZT_OK;
    return lzt_fail(err, LZT_ERR_MODEL, c->directory, "it holds %u tensors where the model has %u",
                    c->info.tensor_count, *count);
}

static int by_offset(const void *a, const void *b)
{
    const target *x = a, *y = b;
    if (x->entry->begin != y->entry->begin) return x->entry->begin < y->entry->begin ? -1 : 1;
    return x->entry->end < y->entry->end ? -1 : x->entry->end > y->entry->end;
}

typedef struct loader {
    const lzt_ckpt *c;
    lzt_ckpt_sink *sink;
    void *arg;
    void *piece;
    float *values;
    XXH3_state_t *hash;
    lzt_error *err;
} loader;

/* targets: those of this shard, in the order of its data, which they tile. */
static lzt_status load_shard(const loader *l, const shard *s, const target *targets, uint32_t count)
{
    int fd;
    const lzt_os *os = l->c->os;
    const char *path = s->st.path;
    lzt_status status = lzt__os_open(os, AT_FDCWD, path, O_RDONLY, 0, &fd, l->err);
    if (status) return status;
    XXH3_128bits_reset(l->hash);
    status = hash_range(os, fd, path, 0, s->st.data_offset, l->piece, l->hash, l->err);
    for (uint32_t i = 0; i < count && !status; i++) {
        const lzt__st_entry *entry = targets[i].entry;
        uint64_t bytes = entry->end - entry->begin;
        status = lzt__os_read_all(os, fd, path, l->values, bytes, s->st.data_offset + entry->begin, l->err);
        if (status) break;
        XXH3_128bits_update(l->hash, l->values, bytes);
        status = l->sink(l->arg, targets[i].tensor, targets[i].part, l->values, l->err);
    }
    os->close(os, fd);
    return status ? status : check_hash(s->file, path, XXH3_128bits_digest(l->hash), l->err);
}

/* targets are sorted by entry, so those of one shard stand together. */
static lzt_status load_shards(const loader *l, target *targets, uint32_t count)
{
    lzt_status status = LZT_OK;
    for (uint32_t i = 0; i < l->c->shard_count && !status; i++) {
        const shard *s = &l->c->shard[i];
        uint32_t first = 0;
        while (first < count &&
               (targets[first].entry < s->st.entry || targets[first].entry >= s->st.entry + s->st.count))
            first++;
        if (first == count) continue;
        assert(first + s->st.count <= count);
        qsort(&targets[first], s->st.count, sizeof *targets, by_offset);
        status = load_shard(l, s, &targets[first], s->st.count);
    }
    return status;
}

lzt_status lzt_ckpt_load(const lzt_ckpt *c, const lzt_ckpt_tensor *tensor, uint32_t tensor_count, lzt_ckpt_sink *sink,
                         void *arg, lzt_error *err)
{
    uint64_t largest = 1;
    uint32_t count;
    for (uint32_t i = 0; i < tensor_count; i++)
        if (tensor[i].element_count > largest) largest = tensor[i].element_count;
    target *targets = malloc(((size_t)tensor_count * LZT_CKPT_PART_COUNT + 1) * sizeof *targets);
    loader l = {c, sink, arg, malloc(PIECE_BYTES), malloc(largest * sizeof(float)), XXH3_createState(), err};
    lzt_status status = LZT_OK;
    if (!targets || !l.piece || !l.values || !l.hash)
        status = lzt_fail(err, LZT_ERR_NO_MEMORY, c->directory, "no memory for a tensor of %llu elements",
                          (unsigned long long)largest);
    if (!status) status = list_targets(c, tensor, tensor_count, targets, &count, err);
    if (!status) qsort(targets, count, sizeof *targets, by_entry);
    if (!status) status = load_shards(&l, targets, count);
    free(targets);
    free(l.piece);
    free(l.values);
    XXH3_freeState(l.hash);
    return status;
}
