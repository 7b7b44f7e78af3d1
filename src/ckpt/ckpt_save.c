/* Writing a version: see lazytrain/ckpt.h.
 *
 *     clean leftovers ─> staging ─> room? ─> state files ─> trainer.json ─> MANIFEST.json ─> publish ─> rotate
 *
 * Tensors are streamed: the memory held is that of the largest one. An error anywhere before publish removes the
 * staging directory; nothing else has been touched by then.
 */
#include "ckpt/ckpt_internal.h"

#include "base/safetensors_write.h"
#include "base/text.h"

#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARD_BYTES_DEFAULT (UINT64_C(4) << 30)
#define SPARE_BYTES         (UINT64_C(1) << 20) /* headers, manifest, directory */

typedef struct saver {
    const lzt_os *os;
    const lzt_ckpt_state *state;
    lzt_error *err;
    lzt__staging staging;
    lzt__ckpt_manifest manifest;
    float *values; /* of the largest tensor */
} saver;

const char *lzt__ckpt_part_prefix(int part)
{
    static const char *const prefixes[LZT_CKPT_PART_COUNT] = {"master.", "exp_avg.", "exp_avg_sq."};
    assert(part >= 0 && part < LZT_CKPT_PART_COUNT);
    return prefixes[part];
}

static int parts_of(const lzt_ckpt_tensor *tensor)
{
    return tensor->has_moments ? LZT_CKPT_PART_COUNT : 1;
}

static uint64_t bytes_of(const lzt_ckpt_tensor *tensor)
{
    return tensor->element_count * sizeof(float) * (uint64_t)parts_of(tensor);
}

static lzt_status check_room(const saver *s)
{
    struct statvfs fs;
    uint64_t need = SPARE_BYTES;
    for (uint32_t i = 0; i < s->state->tensor_count; i++) need += bytes_of(&s->state->tensor[i]);
    int rc = s->os->fstatvfs(s->os, s->staging.parent_fd, &fs);
    if (rc < 0) return lzt_fail_os(s->err, LZT_ERR_STORAGE, -rc, s->staging.parent, "cannot ask for the free space");
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (free_bytes >= need) return LZT_OK;
    lzt_fail(s->err, LZT_ERR_STORAGE, s->staging.parent, "a checkpoint needs %llu bytes; %llu are free",
             (unsigned long long)need, (unsigned long long)free_bytes);
    lzt_hint(s->err, "free some space, lower save_total_limit or name another output_dir");
    return LZT_ERR_STORAGE;
}

static lzt_status add_to_manifest(saver *s, const lzt__staging_file *file, XXH3_state_t *hash)
{
    return lzt__ckpt_manifest_add(&s->manifest, file->name, file->bytes, XXH3_128bits_digest(hash), s->err);
}

/* The members of tensors [first, end): names are allocated. */
static lzt_status list_members(const saver *s, uint32_t first, uint32_t end, lzt__st_member *members, uint32_t *count)
{
    *count = 0;
    for (uint32_t i = first; i < end; i++) {
        const lzt_ckpt_tensor *t = &s->state->tensor[i];
        for (int part = 0; part < parts_of(t); part++) {
            char *name = NULL;
            if (asprintf(&name, "%s%s", lzt__ckpt_part_prefix(part), t->name) < 0)
                return lzt_fail(s->err, LZT_ERR_NO_MEMORY, t->name, "no memory");
            members[(*count)++] = (lzt__st_member){name,
                                                   LZT_DTYPE_F32,
                                                   t->rank,
                                                   t->shape,
                                                   t->element_count * sizeof(float),
                                                   (uint64_t)i * LZT_CKPT_PART_COUNT + (uint64_t)part};
        }
    }
    return LZT_OK;
}

static lzt_status write_members(saver *s, lzt__staging_file *file, const lzt__st_member *members, uint32_t count)
{
    lzt_status status = lzt__st_write_header(file, members, count, s->err);
    for (uint32_t i = 0; i < count && !status; i++) {
        uint32_t tensor = (uint32_t)(members[i].key / LZT_CKPT_PART_COUNT);
        int part = (int)(members[i].key % LZT_CKPT_PART_COUNT);
        status = s->state->source(s->state->arg, tensor, part, s->values, s->err);
        if (!status) status = lzt__staging_write(file, s->values, members[i].bytes, s->err);
    }
    return status;
}

static lzt_status write_shard(saver *s, uint32_t number, uint32_t first, uint32_t end)
{
    uint32_t count = 0;
    char name[64];
    lzt__staging_file file;
    lzt__st_member *members = calloc((size_t)(end - first) * LZT_CKPT_PART_COUNT + 1, sizeof *members);
    XXH3_state_t *hash = XXH3_createState();
    lzt_status status = LZT_OK;
    if (!members || !hash) status = lzt_fail(s->err, LZT_ERR_NO_MEMORY, s->staging.name, "no memory");
    if (!status) status = list_members(s, first, end, members, &count);
    if (status) goto out;
    lzt__st_order(members, count);
    snprintf(name, sizeof name, LZT__CKPT_SHARD_FORMAT, number);
    status = lzt__staging_create(&s->staging, name, &file, s->err);
    if (status) goto out;
    XXH3_128bits_reset(hash);
    file.hash = hash;
    status = write_members(s, &file, members, count);
    if (status)
        lzt__staging_drop(&file);
    else
        status = lzt__staging_finish(&file, s->err);
    if (!status) status = add_to_manifest(s, &file, hash);
out:
    for (uint32_t i = 0; i < count; i++) free((char *)(uintptr_t)members[i].name);
    free(members);
    XXH3_freeState(hash);
    return status;
}

static lzt_status write_shards(saver *s, uint64_t shard_bytes)
{
    lzt_status status = LZT_OK;
    uint32_t number = 0;
    for (uint32_t first = 0, end; first < s->state->tensor_count && !status; first = end) {
        uint64_t bytes = 0;
        for (end = first; end < s->state->tensor_count && bytes < shard_bytes; end++)
            bytes += bytes_of(&s->state->tensor[end]);
        status = write_shard(s, ++number, first, end);
    }
    return status;
}

static lzt_status write_trainer(saver *s)
{
    const lzt_ckpt_state *state = s->state;
    lzt__text text = {0};
    lzt__text_add(&text,
                  "{\n  \"format_version\": %d,\n  \"step\": %llu,\n  \"applied_steps\": %llu,\n"
                  "  \"nonfinite_steps\": %llu,\n  \"rows_seen\": %llu,\n  \"epoch\": %.17g,\n  \"seed\": \"%llu\",\n"
                  "  \"model_fingerprint\": \"%016llx\",\n  \"config\": %s\n}\n",
                  LZT__CKPT_VERSION, (unsigned long long)state->step, (unsigned long long)state->applied_steps,
                  (unsigned long long)state->nonfinite_steps, (unsigned long long)state->rows_seen, state->epoch,
                  (unsigned long long)state->seed, (unsigned long long)state->model_fingerprint,
                  state->config_json ? state->config_json : "{}");
    if (text.failed) {
        lzt__text_free(&text);
        return lzt_fail(s->err, LZT_ERR_NO_MEMORY, LZT__CKPT_TRAINER, "no memory");
    }
    lzt_status status = lzt__staging_put(&s->staging, LZT__CKPT_TRAINER, text.at, text.bytes, s->err);
    if (!status)
        status = lzt__ckpt_manifest_add(&s->manifest, LZT__CKPT_TRAINER, text.bytes, XXH3_128bits(text.at, text.bytes),
                                        s->err);
    lzt__text_free(&text);
    return status;
}

static lzt_status allocate(saver *s)
{
    uint64_t largest = 1;
    for (uint32_t i = 0; i < s->state->tensor_count; i++)
        if (s->state->tensor[i].element_count > largest) largest = s->state->tensor[i].element_count;
    s->values = malloc(largest * sizeof *s->values);
    if (s->values) return LZT_OK;
    return lzt_fail(s->err, LZT_ERR_NO_MEMORY, NULL, "no memory for a tensor of %llu elements",
                    (unsigned long long)largest);
}

/* The caller's object is pasted into trainer.json, so it must be one. */
static lzt_status check_config(const lzt_ckpt_state *state, lzt_error *err)
{
    json_error_t json_err;
    if (!state->config_json) return LZT_OK;
    json_t *object = json_loads(state->config_json, JSON_REJECT_DUPLICATES, &json_err);
    bool good = json_is_object(object);
    json_decref(object);
    return good ? LZT_OK : lzt_fail(err, LZT_ERR_INTERNAL, "config_json", "not a JSON object: %s", json_err.text);
}

lzt_status lzt__ckpt_save(const lzt_os *os, const char *root, const lzt_ckpt_state *state,
                          const lzt_ckpt_options *options, lzt_error *err)
{
    assert(state->struct_bytes == sizeof *state && state->source && isfinite(state->epoch));
    const lzt_ckpt_options defaults = LZT_CKPT_OPTIONS_INIT;
    if (!options) options = &defaults;
    saver s = {.os = os, .state = state, .err = err, .manifest = {.step = state->step}};
    uint32_t removed;
    char *directory = lzt__ckpt_directory(root, state->step);
    if (!directory) return lzt_fail(err, LZT_ERR_NO_MEMORY, root, "no memory");
    lzt_status status = check_config(state, err);
    if (!status) status = allocate(&s);
    if (!status) status = lzt__staging_clean(os, root, LZT__CKPT_DIR_PREFIX, &removed, err);
    if (!status) status = lzt__staging_open(os, directory, &s.staging, err);
    if (status) goto out;
    status = check_room(&s);
    if (!status) status = write_shards(&s, options->shard_bytes ? options->shard_bytes : SHARD_BYTES_DEFAULT);
    if (!status) status = write_trainer(&s);
    if (!status) status = lzt__ckpt_manifest_write(&s.manifest, &s.staging, err);
    if (!status) status = lzt__staging_publish(&s.staging, true, err);
    lzt__staging_close(&s.staging);
    if (!status && options->save_total_limit)
        lzt__ckpt_rotate(os, root, options->save_total_limit, options->note, options->note_arg);
out:
    lzt__ckpt_manifest_fini(&s.manifest);
    free(s.values);
    free(directory);
    return status;
}

lzt_status lzt_ckpt_save(const char *root, const lzt_ckpt_state *state, const lzt_ckpt_options *options, lzt_error *err)
{
    return lzt__ckpt_save(lzt__os_posix(), root, state, options, err);
}
