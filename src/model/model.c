/* Opening a model directory: see lazytrain/model.h. */
#include "lazytrain/model.h"
#include "model_files.h"
#include "model_internal.h"

#include "base/os.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define CONFIG_BYTES_MAX (UINT64_C(16) << 20)

static bool is_directory(const char *path)
{
    struct stat info;
    const lzt_os *os = lzt__os_posix();
    return os->fstatat(os, AT_FDCWD, path, &info, 0) >= 0 && S_ISDIR(info.st_mode);
}

/* path is a directory, or a config file in one. */
static lzt_status set_paths(lzt_model *m, const char *path, lzt_error *err)
{
    if (is_directory(path)) {
        m->directory = strdup(path);
        m->config_path = lzt__model_path(path, "config.json");
    } else {
        const char *slash = strrchr(path, '/');
        m->directory = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
        m->config_path = strdup(path);
    }
    if (m->directory && m->config_path) return LZT_OK;
    return lzt_fail(err, LZT_ERR_NO_MEMORY, path, "no memory");
}

static lzt_status load_config(lzt_model *m, lzt_error *err)
{
    char *text;
    size_t bytes;
    lzt_status status = lzt__model_read_file(m->config_path, CONFIG_BYTES_MAX, &text, &bytes, err);
    if (status) return status;
    status = lzt__model_config_parse(text, bytes, m->config_path, &m->config, err);
    free(text);
    if (status || !lzt__model_has_file(m->directory, "generation_config.json")) return status;
    char *path = lzt__model_path(m->directory, "generation_config.json");
    if (!path) return lzt_fail(err, LZT_ERR_NO_MEMORY, m->directory, "no memory");
    status = lzt__model_read_file(path, CONFIG_BYTES_MAX, &text, &bytes, err);
    if (!status) status = lzt__model_config_generation(&m->config, text, bytes, path, err);
    free(text);
    free(path);
    return status;
}

static lzt_status open_weights(lzt_model *m, lzt_error *err)
{
    if (m->config.quantized) {
        lzt_fail(err, LZT_ERR_MODEL, m->config_path, "\"quantization_config\": quantised weights cannot be loaded");
        lzt_hint(err, "use the unquantised directory of the model");
        return LZT_ERR_MODEL;
    }
    return lzt__model_weights_open(m->directory, &m->weights, err);
}

/* Everything that the arithmetic depends on but the weights. */
static uint64_t fingerprint(const lzt_model_info *info)
{
    XXH3_state_t *state = XXH3_createState();
    if (!state) return 0;
    XXH3_64bits_reset(state);
    const uint64_t sizes[] = {info->arch,       info->layer_count, info->hidden,           info->intermediate,
                              info->vocabulary, info->query_heads, info->kv_heads,         info->head_dim,
                              info->rotary_dim, info->tied,        info->norm_zero_centred};
    XXH3_64bits_update(state, sizes, sizeof sizes);
    XXH3_64bits_update(state, &info->norm_eps, sizeof info->norm_eps);
    XXH3_64bits_update(state, &info->rope_attention_factor, sizeof info->rope_attention_factor);
    XXH3_64bits_update(state, info->inv_freq, info->rotary_dim / 2 * sizeof(float));
    for (uint64_t i = 0; i < info->layer_count; i++) {
        const uint64_t layer[] = {info->layer[i].kind, info->layer[i].window};
        XXH3_64bits_update(state, layer, sizeof layer);
    }
    for (uint32_t i = 0; i < info->tensor_count; i++) {
        const lzt_tensor *t = &info->tensor[i];
        XXH3_64bits_update(state, t->name, strlen(t->name) + 1);
        XXH3_64bits_update(state, t->shape, t->rank * sizeof t->shape[0]);
    }
    uint64_t hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return hash;
}

static lzt_status fill_rope(lzt_model *m, lzt_error *err)
{
    lzt_model_info *info = &m->info;
    m->inv_freq = malloc(m->config.rotary_dim / 2 * sizeof *m->inv_freq);
    if (!m->inv_freq) return lzt_fail(err, LZT_ERR_NO_MEMORY, m->config_path, "no memory");
    lzt__model_inv_freq(&m->config.rope, m->config.rotary_dim, m->inv_freq, &info->rope_attention_factor);
    info->rope_type = m->config.rope.type;
    info->rope_theta = m->config.rope.theta;
    info->inv_freq = m->inv_freq;
    return LZT_OK;
}

static void fill_info(lzt_model *m)
{
    const lzt__model_config *c = &m->config;
    const lzt__model_tables *t = &m->tables;
    lzt_model_info *info = &m->info;
    info->arch = c->arch;
    info->architecture = c->architecture;
    info->directory = m->directory;
    info->layer_count = c->layer_count;
    info->hidden = c->hidden;
    info->intermediate = c->intermediate;
    info->vocabulary = c->vocabulary;
    info->query_heads = c->query_heads;
    info->kv_heads = c->kv_heads;
    info->head_dim = c->head_dim;
    info->rotary_dim = c->rotary_dim;
    info->max_positions = c->max_positions;
    info->norm_eps = c->norm_eps;
    info->tied = c->tied;
    info->qkv_bias = c->qkv_bias;
    info->qk_norm = c->qk_norm;
    info->norm_zero_centred = c->norm_zero_centred;
    info->trainable_arch = !c->not_trainable[0];
    info->not_trainable = c->not_trainable[0] ? c->not_trainable : NULL;
    info->quantized = c->quantized;
    info->dtype = c->dtype;
    info->bos_id = c->bos_id;
    info->pad_id = c->pad_id;
    info->eos_id_count = c->eos_id_count;
    memcpy(info->eos_id, c->eos_id, sizeof info->eos_id);
    info->parameters = t->parameters;
    info->parameters_active = t->parameters_active;
    info->layer = t->layer;
    info->tensor = t->tensor;
    info->unit = t->unit;
    info->tensor_count = t->tensor_count;
    info->unit_count = t->unit_count;
    info->fingerprint = fingerprint(info);
}

lzt_status lzt_model_open(const char *path, int want, lzt_model **model, lzt_error *err)
{
    *model = NULL;
    lzt_model *m = calloc(1, sizeof *m);
    if (!m) return lzt_fail(err, LZT_ERR_NO_MEMORY, path, "no memory");
    lzt_status status = set_paths(m, path, err);
    if (!status) status = load_config(m, err);
    if (!status) m->spelling = lzt__model_spelling_default(&m->config);
    if (!status && want == LZT_MODEL_WANT_WEIGHTS) {
        status = open_weights(m, err);
        if (!status) m->spelling = lzt__model_weights_spelling(&m->weights, &m->config);
    }
    if (!status) status = lzt__model_tables_build(&m->config, &m->spelling, m->config_path, &m->tables, err);
    if (!status && want == LZT_MODEL_WANT_WEIGHTS) {
        status = lzt__model_weights_bind(&m->weights, m->directory, &m->config, &m->spelling, &m->tables, err);
        m->info.has_weights = true;
    }
    if (!status) status = fill_rope(m, err);
    if (status) {
        lzt_model_close(m);
        return status;
    }
    fill_info(m);
    *model = m;
    return LZT_OK;
}

void lzt_model_close(lzt_model *model)
{
    if (!model) return;
    lzt__model_weights_close(&model->weights);
    lzt__model_tables_fini(&model->tables);
    lzt__model_config_fini(&model->config);
    free(model->inv_freq);
    free(model->directory);
    free(model->config_path);
    free(model);
}

const lzt_model_info *lzt_model_get_info(const lzt_model *model)
{
    return &model->info;
}

lzt_status lzt_model_read_tensor(const lzt_model *model, uint32_t tensor_index, float *out, lzt_error *err)
{
    assert(tensor_index < model->tables.tensor_count);
    if (!model->info.has_weights)
        return lzt_fail(err, LZT_ERR_MODEL, model->directory, "the model was opened without its weights");
    const lzt__model_place *place = &model->weights.place[tensor_index];
    uint64_t count = place->entry->element_count, bytes = place->entry->end - place->entry->begin;
    /* Narrow elements go into the tail of out and widen towards it. */
    char *raw = (char *)out + (count * sizeof *out - bytes);
    lzt_status status = lzt__st_read(place->file, place->entry, 0, bytes, raw, err);
    if (!status) lzt__st_to_f32(place->entry->dtype, raw, count, out);
    return status;
}

void lzt_model_drop_mappings(lzt_model *model)
{
    (void)model; /* files are read, not mapped, and are closed between reads */
}
