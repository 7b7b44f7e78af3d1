/* The weight files of a model directory: see model_weights.h. */
#include "model_weights.h"
#include "model_files.h"
#include "model_json.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INDEX_NAME  LZT__MODEL_INDEX_NAME
#define SINGLE_NAME "model.safetensors"
#define PIECE_BYTES (UINT64_C(1) << 20)

void lzt__model_name_list_add(lzt__model_name_list *list, const char *name)
{
    size_t used = strlen(list->text);
    list->count++;
    if (list->shown + 1 < list->count || used + strlen(name) + 24 > sizeof list->text) return;
    snprintf(list->text + used, sizeof list->text - used, "%s%s", list->shown ? ", " : "", name);
    list->shown++;
}

const char *lzt__model_name_list_end(lzt__model_name_list *list)
{
    size_t used = strlen(list->text);
    if (list->shown < list->count)
        snprintf(list->text + used, sizeof list->text - used, "%s%u more", used ? " and " : "",
                 list->count - list->shown);
    return list->text;
}

/* A plain file name: no way out of the directory. */
static bool is_plain_name(const char *name)
{
    return *name && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, "..") && strlen(name) < 256;
}

static lzt_status load_index(const char *directory, lzt__model_weights *w, lzt_error *err)
{
    char *path = lzt__model_path(directory, INDEX_NAME), *text = NULL;
    size_t bytes = 0;
    json_t *root = NULL;
    if (!path) return lzt_fail(err, LZT_ERR_NO_MEMORY, directory, "no memory");
    lzt_status status = lzt__model_read_file(path, LZT__ST_HEADER_MAX, &text, &bytes, err);
    if (!status) status = lzt__model_json_load(text, bytes, path, &root, err);
    if (status) goto out;
    lzt__model_json j = {root, "", path, err, LZT_OK};
    const json_t *map = lzt__model_json_object(&j, "weight_map");
    const json_t *metadata = lzt__model_json_object(&j, "metadata");
    if (!j.status && !map) lzt__model_json_fail(&j, "weight_map", "is missing");
    lzt__model_json m = {metadata, "metadata.", path, err, j.status};
    const json_t *total = metadata ? lzt__model_json_get(&m, "total_size") : NULL;
    if (total && !json_is_number(total)) lzt__model_json_fail(&m, "total_size", "is not a number");
    w->has_total_size = total != NULL;
    w->total_size = total ? (uint64_t)json_number_value(total) : 0; /* some writers store it as 1.6e10 */
    status = m.status;
    if (!status) w->map = json_incref((json_t *)(uintptr_t)map);
out:
    json_decref(root);
    free(text);
    free(path);
    return status;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const lzt__model_shard *)a)->name, ((const lzt__model_shard *)b)->name);
}

/* The distinct file names of the index, in order. */
static lzt_status list_shards(const char *directory, lzt__model_weights *w, lzt_error *err)
{
    const char *tensor;
    json_t *value, *seen = json_object();
    lzt_status status = seen ? LZT_OK : lzt_fail(err, LZT_ERR_NO_MEMORY, directory, "no memory");
    json_object_foreach(w->map, tensor, value)
    {
        const char *name = json_string_value(value);
        if (!status && (!name || !is_plain_name(name)))
            status = lzt_fail(err, LZT_ERR_MODEL, directory,
                              INDEX_NAME ": weight_map[\"%.200s\"] is \"%.200s\", not a file name in this directory",
                              tensor, name ? name : "(not a string)");
        if (!status && json_object_set(seen, name, value))
            status = lzt_fail(err, LZT_ERR_NO_MEMORY, directory, "no memory");
    }
    if (status) goto out;
    w->shard = calloc(json_object_size(seen) + 1, sizeof *w->shard);
    if (!w->shard) status = lzt_fail(err, LZT_ERR_NO_MEMORY, directory, "no memory");
    if (status) goto out;
    const char *name;
    json_object_foreach(seen, name, value)
    {
        w->shard[w->shard_count].name = strdup(name);
        if (!w->shard[w->shard_count].name) {
            status = lzt_fail(err, LZT_ERR_NO_MEMORY, directory, "no memory");
            goto out;
        }
        w->shard_count++;
    }
    qsort(w->shard, w->shard_count, sizeof *w->shard, compare_names);
out:
    json_decref(seen);
    return status;
}

static lzt_status check_shards_exist(const char *directory, const lzt__model_weights *w, lzt_error *err)
{
    lzt__model_name_list missing = {{0}, 0, 0};
    for (uint32_t i = 0; i < w->shard_count; i++)
        if (!lzt__model_has_file(directory, w->shard[i].name)) lzt__model_name_list_add(&missing, w->shard[i].name);
    if (!missing.count) return LZT_OK;
    return lzt_fail(err, LZT_ERR_MODEL, directory, "%u of %u weight files that " INDEX_NAME " names are missing: %s",
                    missing.count, w->shard_count, lzt__model_name_list_end(&missing));
}

static lzt_status open_shards(const char *directory, lzt__model_weights *w, lzt_error *err)
{
    lzt_status status = check_shards_exist(directory, w, err);
    for (uint32_t i = 0; i < w->shard_count && !status; i++) {
        char *path = lzt__model_path(directory, w->shard[i].name);
        status = path ? lzt__st_open(lzt__os_posix(), path, &w->shard[i].st, err)
                      : lzt_fail(err, LZT_ERR_NO_MEMORY, directory, "no memory");
        free(path);
    }
    return status;
}

/* Every tensor of the index must lie in the file that it names. */
static lzt_status check_index(const char *directory, const lzt__model_weights *w, lzt_error *err)
{
    lzt__model_name_list missing = {{0}, 0, 0};
    const char *tensor, *file = NULL;
    json_t *value;
    json_object_foreach(w->map, tensor, value)
    {
        if (lzt__model_weights_find(w, tensor).entry) continue;
        lzt__model_name_list_add(&missing, tensor);
        if (!file) file = json_string_value(value);
    }
    if (!missing.count) return LZT_OK;
    return lzt_fail(err, LZT_ERR_MODEL, directory,
                    INDEX_NAME " lists %u tensors that their files lack (the first should be in %s): %s", missing.count,
                    file, lzt__model_name_list_end(&missing));
}

lzt_status lzt__model_weights_open(const char *directory, lzt__model_weights *w, lzt_error *err)
{
    memset(w, 0, sizeof *w);
    lzt_status status = LZT_OK;
    /* As transformers: a single file goes before an index. */
    if (lzt__model_has_file(directory, SINGLE_NAME)) {
        w->shard = calloc(1, sizeof *w->shard);
        if (w->shard) w->shard[0].name = strdup(SINGLE_NAME);
        if (!w->shard || !w->shard[0].name) status = lzt_fail(err, LZT_ERR_NO_MEMORY, directory, "no memory");
        if (!status) w->shard_count = 1;
    } else if (lzt__model_has_file(directory, INDEX_NAME)) {
        w->has_index = true;
        status = load_index(directory, w, err);
        if (!status) status = list_shards(directory, w, err);
    } else {
        status = lzt_fail(err, LZT_ERR_MODEL, directory, "no weights: neither " SINGLE_NAME " nor " INDEX_NAME);
    }
    if (!status) status = open_shards(directory, w, err);
    if (!status && w->map) status = check_index(directory, w, err);
    if (status) lzt__model_weights_close(w);
    return status;
}

void lzt__model_weights_close(lzt__model_weights *w)
{
    for (uint32_t i = 0; i < w->shard_count; i++) {
        lzt__st_close(&w->shard[i].st);
        free(w->shard[i].name);
    }
    json_decref(w->map);
    free(w->shard);
    free(w->place);
    memset(w, 0, sizeof *w);
}

lzt__model_place lzt__model_weights_find(const lzt__model_weights *w, const char *name)
{
    lzt__model_place none = {NULL, NULL};
    const char *file = w->map ? json_string_value(json_object_get(w->map, name)) : NULL;
    if (w->map && !file) return none;
    for (uint32_t i = 0; i < w->shard_count; i++) {
        if (file && strcmp(file, w->shard[i].name)) continue;
        const lzt__st_entry *entry = lzt__st_find(&w->shard[i].st, name);
        if (entry) return (lzt__model_place){&w->shard[i].st, entry};
    }
    return none;
}

lzt__model_spelling lzt__model_weights_spelling(const lzt__model_weights *w, const lzt__model_config *config)
{
    static const char *const prefixes[] = {"model.", "model.language_model.", "language_model.model."};
    lzt__model_spelling spelling = lzt__model_spelling_default(config);
    char name[256];
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        snprintf(name, sizeof name, "%snorm.weight", prefixes[i]);
        if (!lzt__model_weights_find(w, name).entry) continue;
        spelling.prefix = prefixes[i];
        break;
    }
    bool inner = lzt__model_weights_find(w, "language_model.lm_head.weight").entry != NULL;
    bool outer = lzt__model_weights_find(w, "lm_head.weight").entry != NULL;
    if (inner != outer) spelling.head = inner ? "language_model.lm_head.weight" : "lm_head.weight";
    if (config->arch != LZT_ARCH_QWEN3_5_MOE && config->arch != LZT_ARCH_QWEN3_MOE) return spelling;
    for (uint64_t layer = 0; layer < config->layer_count; layer++) {
        if (!config->layer[layer].sparse) continue;
        snprintf(name, sizeof name, "%slayers.%llu.mlp.experts.gate_up_proj", spelling.prefix,
                 (unsigned long long)layer);
        spelling.fused_experts = lzt__model_weights_find(w, name).entry != NULL;
        break;
    }
    return spelling;
}

static void format_shape(char *out, size_t size, const uint64_t *shape, uint32_t rank)
{
    size_t used = (size_t)snprintf(out, size, "[");
    for (uint32_t i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%llu", i ? ", " : "", (unsigned long long)shape[i]);
    if (used < size) snprintf(out + used, size - used, "]");
}

static lzt_status check_shape(const lzt_tensor *tensor, const lzt__model_place *place, lzt_error *err)
{
    const uint64_t *shape = lzt__st_shape(place->file, place->entry);
    bool equal = place->entry->rank == tensor->rank;
    for (uint32_t i = 0; equal && i < tensor->rank; i++) equal = shape[i] == tensor->shape[i];
    char have[128], want[128];
    format_shape(have, sizeof have, shape, place->entry->rank);
    format_shape(want, sizeof want, tensor->shape, tensor->rank);
    if (!equal)
        return lzt_fail(err, LZT_ERR_MODEL, place->file->path,
                        "tensor \"%s\" has the shape %s; config.json makes it %s", tensor->name, have, want);
    lzt_dtype dtype = place->entry->dtype;
    if (dtype == LZT_DTYPE_F32 || dtype == LZT_DTYPE_BF16 || dtype == LZT_DTYPE_F16) return LZT_OK;
    return lzt_fail(err, LZT_ERR_MODEL, place->file->path, "tensor \"%s\" is %s; readable are F32, BF16 and F16",
                    tensor->name, lzt_dtype_name(dtype));
}

/* Compares two places' values in pieces. */
static lzt_status are_equal(const lzt__model_place *a, const lzt__model_place *b, bool *equal, lzt_error *err)
{
    uint64_t step = PIECE_BYTES / 4, count = a->entry->element_count;
    float *values = malloc(4 * PIECE_BYTES), *x = values, *y = values + step, *raw = values + 2 * step;
    if (!values) return lzt_fail(err, LZT_ERR_NO_MEMORY, a->file->path, "no memory");
    lzt_status status = LZT_OK;
    *equal = true;
    for (uint64_t at = 0; at < count && *equal && !status; at += step) {
        uint64_t n = count - at < step ? count - at : step;
        const lzt__model_place *places[2] = {a, b};
        float *to[2] = {x, y};
        for (int i = 0; i < 2 && !status; i++) {
            uint64_t width = lzt_dtype_bytes(places[i]->entry->dtype);
            status = lzt__st_read(places[i]->file, places[i]->entry, at * width, n * width, raw, err);
            if (!status) lzt__st_to_f32(places[i]->entry->dtype, raw, n, to[i]);
        }
        if (!status) *equal = !memcmp(x, y, n * 4);
    }
    free(values);
    return status;
}

/* One stored copy is enough; two must agree; an untied model needs its head. */
static lzt_status settle_tied(lzt__model_weights *w, const lzt__model_spelling *spelling,
                              const lzt__model_tables *tables, lzt_error *err)
{
    const lzt_tensor *embed = &tables->tensor[0];
    assert(embed->role == LZT_ROLE_EMBED);
    lzt__model_place head = lzt__model_weights_find(w, spelling->head);
    if (!head.entry) return LZT_OK;
    lzt_tensor as_head = *embed;
    as_head.name = spelling->head;
    lzt_status status = check_shape(&as_head, &head, err);
    if (status) return status;
    if (!w->place[0].entry) {
        w->place[0] = head;
        return LZT_OK;
    }
    bool equal = false;
    status = are_equal(&w->place[0], &head, &equal, err);
    if (status) return status;
    w->tied_head = head;
    if (equal) return LZT_OK;
    lzt_fail(err, LZT_ERR_MODEL, head.file->path,
             "\"%s\" differs from \"%s\" although config.json ties them (tie_word_embeddings)", spelling->head,
             embed->name);
    lzt_hint(err, "set \"tie_word_embeddings\": false in config.json if the head is its own");
    return LZT_ERR_MODEL;
}

static lzt_status report_missing(const lzt__model_weights *w, const lzt__model_tables *tables, const char *directory,
                                 lzt_error *err)
{
    lzt__model_name_list missing = {{0}, 0, 0};
    bool head_only = true;
    for (uint32_t i = 0; i < tables->tensor_count; i++) {
        if (w->place[i].entry) continue;
        lzt__model_name_list_add(&missing, tables->tensor[i].name);
        head_only &= tables->tensor[i].role == LZT_ROLE_HEAD;
    }
    if (!missing.count) return LZT_OK;
    lzt_fail(err, LZT_ERR_MODEL, directory, "%u of %u tensors are missing: %s", missing.count, tables->tensor_count,
             lzt__model_name_list_end(&missing));
    if (head_only) lzt_hint(err, "set \"tie_word_embeddings\": true in config.json if the embedding is the head");
    return LZT_ERR_MODEL;
}

lzt_status lzt__model_weights_bind(lzt__model_weights *w, const char *directory, const lzt__model_config *config,
                                   const lzt__model_spelling *spelling, lzt__model_tables *tables, lzt_error *err)
{
    w->place = calloc(tables->tensor_count, sizeof *w->place);
    if (!w->place) return lzt_fail(err, LZT_ERR_NO_MEMORY, directory, "no memory");
    for (uint32_t i = 0; i < tables->tensor_count; i++) {
        w->place[i] = lzt__model_weights_find(w, tables->tensor[i].name);
        if (!w->place[i].entry) continue;
        lzt_status status = check_shape(&tables->tensor[i], &w->place[i], err);
        if (status) return status;
    }
    lzt_status status = config->tied ? settle_tied(w, spelling, tables, err) : LZT_OK;
    if (!status) status = report_missing(w, tables, directory, err);
    for (uint32_t i = 0; i < tables->tensor_count && !status; i++)
        tables->tensor[i].file_dtype = w->place[i].entry->dtype;
    return status;
}
