/* Writing a Hugging Face directory: see lazytrain/model.h.
 *
 * What the source directory stores decides the layout: each of its weight files is written under its own name with the
 * tensors it held. Tensors that the tables do not know (a vision tower, rotary tables of old files) are copied as they
 * are. Everything else in the directory is copied byte for byte, except weights in other formats, which would be stale.
 */
#include "model_export.h"
#include "model_config_dtype.h"
#include "model_files.h"
#include "model_internal.h"

#include "base/safetensors_write.h"
#include "base/staging.h"

#include <assert.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COPY_BYTES       (UINT64_C(1) << 20)
#define CONFIG_BYTES_MAX (UINT64_C(16) << 20)
#define NOT_OURS         UINT64_MAX /* a stored tensor that the tables do not know */

typedef struct exporter {
    const lzt_os *os;
    const lzt_model *model;
    lzt_dtype dtype;
    lzt_tensor_source *source;
    void *arg;
    lzt_error *err;
    lzt__staging staging;
    float *values; /* of the largest tensor */
    char *buffer;  /* COPY_BYTES */
    uint64_t total_bytes;
    lzt_status status; /* of a copy within a directory listing */
} exporter;

static lzt_status from_model(void *arg, uint32_t tensor_index, float *out, lzt_error *err)
{
    return lzt_model_read_tensor(arg, tensor_index, out, err);
}

/* ---- weights ---- */

typedef struct owner {
    const lzt__st_entry *entry;
    uint64_t tensor;
} owner;

static int compare_owners(const void *a, const void *b)
{
    const owner *x = a, *y = b;
    return x->entry < y->entry ? -1 : x->entry > y->entry;
}

/* Which tensor of the tables each stored entry is, sorted by entry. *count: how many. */
static owner *list_owners(const lzt_model *m, uint32_t *count)
{
    owner *owners = malloc((m->tables.tensor_count + 1) * sizeof *owners);
    if (!owners) return NULL;
    *count = m->tables.tensor_count;
    for (uint32_t i = 0; i < *count; i++) owners[i] = (owner){m->weights.place[i].entry, i};
    if (m->weights.tied_head.entry) owners[(*count)++] = (owner){m->weights.tied_head.entry, 0};
    qsort(owners, *count, sizeof *owners, compare_owners);
    return owners;
}

/* Fills member for the entry; false: the index places the tensor in another file, and this copy is not written. */
static bool fill_member(const exporter *x, const lzt__model_shard *shard, const lzt__st_entry *entry,
                        const owner *owners, uint32_t owner_count, lzt__st_member *member)
{
    const owner wanted = {entry, 0}, *found = bsearch(&wanted, owners, owner_count, sizeof *owners, compare_owners);
    if (!found && x->model->weights.map && lzt__model_weights_find(&x->model->weights, entry->name).entry != entry)
        return false;
    *member = (lzt__st_member){.name = entry->name,
                               .dtype = entry->dtype,
                               .rank = entry->rank,
                               .shape = lzt__st_shape(&shard->st, entry),
                               .bytes = entry->end - entry->begin,
                               .key = found ? found->tensor : NOT_OURS};
    if (!found) return true;
    member->dtype = x->model->tables.tensor[found->tensor].keep_f32 ? LZT_DTYPE_F32 : x->dtype;
    member->bytes = entry->element_count * lzt_dtype_bytes(member->dtype);
    return true;
}

static lzt_status copy_stored(exporter *x, const lzt__model_shard *shard, const char *name, lzt__staging_file *file)
{
    const lzt__st_entry *entry = lzt__st_find(&shard->st, name);
    uint64_t bytes = entry->end - entry->begin;
    lzt_status status = LZT_OK;
    for (uint64_t at = 0; at < bytes && !status; at += COPY_BYTES) {
        uint64_t n = bytes - at < COPY_BYTES ? bytes - at : COPY_BYTES;
        status = lzt__st_read(&shard->st, entry, at, n, x->buffer, x->err);
        if (!status) status = lzt__staging_write(file, x->buffer, n, x->err);
    }
    return status;
}

static lzt_status write_member(exporter *x, const lzt__model_shard *shard, const lzt__st_member *member,
                               lzt__staging_file *file)
{
    if (member->key == NOT_OURS) return copy_stored(x, shard, member->name, file);
    lzt_status status = x->source(x->arg, (uint32_t)member->key, x->values, x->err);
    if (status) return status;
    uint64_t count = x->model->tables.tensor[member->key].element_count;
    return lzt__st_write_values(file, member->name, member->dtype, x->values, count, x->err);
}

static lzt_status write_shard(exporter *x, const lzt__model_shard *shard, const owner *owners, uint32_t owner_count)
{
    lzt__staging_file file;
    lzt__st_member *members = malloc((shard->st.count + 1) * sizeof *members);
    if (!members) return lzt_fail(x->err, LZT_ERR_NO_MEMORY, shard->name, "no memory");
    uint32_t count = 0;
    for (uint32_t i = 0; i < shard->st.count; i++)
        count += fill_member(x, shard, &shard->st.entry[i], owners, owner_count, &members[count]);
    lzt__st_order(members, count);
    lzt_status status = lzt__staging_create(&x->staging, shard->name, &file, x->err);
    if (status) goto out;
    status = lzt__st_write_header(&file, members, count, x->err);
    for (uint32_t i = 0; i < count && !status; i++) {
        status = write_member(x, shard, &members[i], &file);
        x->total_bytes += members[i].bytes;
    }
    if (status)
        lzt__staging_drop(&file);
    else
        status = lzt__staging_finish(&file, x->err);
out:
    free(members);
    return status;
}

static lzt_status write_index(exporter *x)
{
    const lzt__model_weights *w = &x->model->weights;
    char *map = json_dumps(w->map, JSON_INDENT(2) | JSON_SORT_KEYS);
    lzt__text text = {0};
    lzt__text_add(&text, "{\n  \"metadata\": {\n    \"total_size\": %llu\n  },\n  \"weight_map\": ",
                  (unsigned long long)x->total_bytes);
    for (const char *at = map; at && *at; at++) { /* one level deeper */
        lzt__text_add_bytes(&text, at, 1);
        if (*at == '\n') lzt__text_add(&text, "  ");
    }
    lzt__text_add(&text, "\n}\n");
    lzt_status status = !map || text.failed
                            ? lzt_fail(x->err, LZT_ERR_NO_MEMORY, LZT__MODEL_INDEX_NAME, "no memory")
                            : lzt__staging_put(&x->staging, LZT__MODEL_INDEX_NAME, text.at, text.bytes, x->err);
    lzt__text_free(&text);
    free(map);
    return status;
}

static lzt_status write_weights(exporter *x)
{
    const lzt__model_weights *w = &x->model->weights;
    uint32_t owner_count = 0;
    owner *owners = list_owners(x->model, &owner_count);
    if (!owners) return lzt_fail(x->err, LZT_ERR_NO_MEMORY, x->model->directory, "no memory");
    lzt_status status = LZT_OK;
    for (uint32_t i = 0; i < w->shard_count && !status; i++) status = write_shard(x, &w->shard[i], owners, owner_count);
    if (!status && w->map) status = write_index(x);
    free(owners);
    return status;
}

/* ---- everything else ---- */

static lzt_status write_config(exporter *x)
{
    char *text;
    size_t bytes;
    lzt_status status = lzt__model_read_file(x->model->config_path, CONFIG_BYTES_MAX, &text, &bytes, x->err);
    if (status) return status;
    lzt__text out = {0};
    lzt__model_config_set_dtype(text, bytes, x->dtype, &out);
    status = out.failed ? lzt_fail(x->err, LZT_ERR_NO_MEMORY, x->model->config_path, "no memory")
                        : lzt__staging_put(&x->staging, "config.json", out.at, out.bytes, x->err);
    lzt__text_free(&out);
    free(text);
    return status;
}

/* config.json is written apart; weights of any other format would be those of before the training. */
static bool is_copied(const char *name)
{
    static const char *const skipped[] = {"config.json",
                                          "*.safetensors",
                                          "*.safetensors.index.json",
                                          "pytorch_model*.bin",
                                          "pytorch_model*.bin.index.json",
                                          "*.pt",
                                          "*.pth",
                                          "*.gguf",
                                          "tf_model*.h5",
                                          "flax_model*.msgpack"};
    for (size_t i = 0; i < sizeof skipped / sizeof skipped[0]; i++)
        if (!fnmatch(skipped[i], name, 0)) return false;
    return true;
}

static lzt_status copy_open_file(exporter *x, int fd, const char *path, const char *name, uint64_t bytes)
{
    lzt__staging_file file;
    lzt_status status = lzt__staging_create(&x->staging, name, &file, x->err);
    for (uint64_t at = 0; at < bytes && !status; at += COPY_BYTES) {
        uint64_t n = bytes - at < COPY_BYTES ? bytes - at : COPY_BYTES;
        status = lzt__os_read_all(x->os, fd, path, x->buffer, n, at, x->err);
        if (!status) status = lzt__staging_write(&file, x->buffer, n, x->err);
    }
    if (!status) return lzt__staging_finish(&file, x->err);
    lzt__staging_drop(&file);
    return status;
}

static int copy_entry(void *arg, const char *name)
{
    exporter *x = arg;
    struct stat info;
    char *path = lzt__model_path(x->model->directory, name);
    if (!path) x->status = lzt_fail(x->err, LZT_ERR_NO_MEMORY, name, "no memory");
    if (!path) return 1;
    /* Links are followed (the hub's cache is made of them); folders and dangling links are left out. */
    int rc = is_copied(name) ? x->os->fstatat(x->os, AT_FDCWD, path, &info, 0) : -1;
    if (rc >= 0 && S_ISREG(info.st_mode)) {
        int fd;
        x->status = lzt__os_open(x->os, AT_FDCWD, path, O_RDONLY, 0, &fd, x->err);
        if (!x->status) x->status = copy_open_file(x, fd, path, name, (uint64_t)info.st_size);
        if (fd >= 0) x->os->close(x->os, fd);
    }
    free(path);
    return x->status ? 1 : 0;
}

static lzt_status copy_others(exporter *x)
{
    int fd;
    lzt_status status = lzt__os_open(x->os, AT_FDCWD, x->model->directory, O_RDONLY | O_DIRECTORY, 0, &fd, x->err);
    if (status) return status;
    int rc = x->os->list(x->os, fd, copy_entry, x);
    x->os->close(x->os, fd);
    if (x->status) return x->status;
    return rc < 0 ? lzt_fail_os(x->err, LZT_ERR_STORAGE, -rc, x->model->directory, "cannot list the directory")
                  : LZT_OK;
}

/* ---- the target ---- */

typedef struct inspection {
    const lzt_os *os;
    int fd;
    bool has_config, has_folder, is_empty;
} inspection;

static int inspect_entry(void *arg, const char *name)
{
    inspection *i = arg;
    struct stat info;
    i->is_empty = false;
    if (!strcmp(name, "config.json")) i->has_config = true;
    if (i->os->fstatat(i->os, i->fd, name, &info, AT_SYMLINK_NOFOLLOW) >= 0 && S_ISDIR(info.st_mode))
        i->has_folder = true;
    return 0;
}

/* Only what looks like an export may be replaced: nobody's home directory, nor the source itself. */
static lzt_status check_target(const exporter *x, const char *path)
{
    struct stat target, source;
    const lzt_os *os = x->os;
    int rc = os->fstatat(os, AT_FDCWD, path, &target, 0);
    if (rc < 0) return LZT_OK; /* not there; anything else the staging will report */
    if (!S_ISDIR(target.st_mode)) return lzt_fail(x->err, LZT_ERR_STORAGE, path, "exists and is not a directory");
    rc = os->fstatat(os, AT_FDCWD, x->model->directory, &source, 0);
    if (rc >= 0 && source.st_dev == target.st_dev && source.st_ino == target.st_ino)
        return lzt_fail(x->err, LZT_ERR_STORAGE, path, "is the directory that the model was loaded from");
    inspection i = {.os = os, .is_empty = true};
    lzt_status status = lzt__os_open(os, AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0, &i.fd, x->err);
    if (status) return status;
    rc = os->list(os, i.fd, inspect_entry, &i);
    os->close(os, i.fd);
    if (rc < 0) return lzt_fail_os(x->err, LZT_ERR_STORAGE, -rc, path, "cannot list the directory");
    if (i.is_empty || (i.has_config && !i.has_folder)) return LZT_OK;
    lzt_fail(x->err, LZT_ERR_STORAGE, path, "exists and is not a model directory; it is not replaced");
    lzt_hint(x->err, "name a new directory, or remove this one");
    return LZT_ERR_STORAGE;
}

static lzt_status allocate(exporter *x)
{
    uint64_t largest = 1;
    for (uint32_t i = 0; i < x->model->tables.tensor_count; i++)
        if (x->model->tables.tensor[i].element_count > largest) largest = x->model->tables.tensor[i].element_count;
    x->values = malloc(largest * sizeof *x->values);
    x->buffer = malloc(COPY_BYTES);
    if (x->values && x->buffer) return LZT_OK;
    return lzt_fail(x->err, LZT_ERR_NO_MEMORY, x->model->directory, "no memory for a tensor of %llu elements",
                    (unsigned long long)largest);
}

lzt_status lzt__model_export(const lzt_os *os, const lzt_model *model, const char *out_directory, lzt_dtype dtype,
                             lzt_tensor_source *source, void *arg, lzt_error *err)
{
    assert(dtype == LZT_DTYPE_F32 || dtype == LZT_DTYPE_BF16 || dtype == LZT_DTYPE_F16);
    if (!model->info.has_weights)
        return lzt_fail(err, LZT_ERR_MODEL, model->directory, "the model was opened without its weights");
    exporter x = {.os = os, .model = model, .dtype = dtype, .source = source, .arg = arg, .err = err};
    if (!source) {
        x.source = from_model;
        x.arg = (void *)(uintptr_t)model;
    }
    lzt_status status = check_target(&x, out_directory);
    if (!status) status = allocate(&x);
    if (!status) status = lzt__staging_open(os, out_directory, &x.staging, err);
    if (status) goto out;
    status = copy_others(&x);
    if (!status) status = write_config(&x);
    if (!status) status = write_weights(&x);
    if (!status) status = lzt__staging_publish(&x.staging, true, err);
    lzt__staging_close(&x.staging);
out:
    free(x.values);
    free(x.buffer);
    return status;
}

lzt_status lzt_model_export(const lzt_model *model, const char *out_directory, lzt_dtype dtype,
                            lzt_tensor_source *source, void *arg, lzt_error *err)
{
    return lzt__model_export(lzt__os_posix(), model, out_directory, dtype, source, arg, err);
}
