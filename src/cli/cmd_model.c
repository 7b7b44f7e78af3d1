/* lazytrain model inspect, model verify: what a model directory holds. */
#include "cli/commands.h"
#include "cli/talk.h"

#include "base/units.h"
#include "lazytrain/model.h"
#include "lazytrain/report.h"

#include <string.h>

static const char *kind_name(lzt_layer_kind kind)
{
    static const char *const names[LZT_LAYER_KIND_COUNT] = {"full_attention", "sliding_attention", "linear_attention"};
    return names[kind];
}

static const char *rope_name(lzt_rope_type type)
{
    static const char *const names[] = {"default", "linear", "llama3", "yarn"};
    return names[type];
}

/* The type whose size the figures use: the config's, F32 where it names none (as transformers does). */
static lzt_dtype dtype_of(const lzt_model_info *info)
{
    return info->dtype ? info->dtype : LZT_DTYPE_F32;
}

static uint64_t unit_bytes(const lzt_model_info *info, uint32_t unit)
{
    uint64_t bytes = 0;
    const lzt_unit *u = &info->unit[unit];
    for (uint32_t i = u->first_tensor; i < u->first_tensor + u->tensor_count; i++) {
        const lzt_tensor *t = &info->tensor[i];
        bytes += t->element_count * lzt_dtype_bytes(t->keep_f32 ? LZT_DTYPE_F32 : dtype_of(info));
    }
    return bytes;
}

static uint64_t model_bytes(const lzt_model_info *info)
{
    uint64_t bytes = 0;
    for (uint32_t u = 0; u < info->unit_count; u++) bytes += unit_bytes(info, u);
    return bytes;
}

static json_t *layers_json(const lzt_model_info *info)
{
    json_t *layers = json_array();
    for (uint64_t i = 0; i < info->layer_count; i++) {
        const lzt_layer *l = &info->layer[i];
        json_array_append_new(layers, json_pack("{s:I, s:s, s:I, s:I, s:I, s:o, s:I}", "index", (json_int_t)i, "kind",
                                                kind_name(l->kind), "parameters", (json_int_t)l->parameters,
                                                "parameters_active", (json_int_t)l->parameters_active, "bytes",
                                                (json_int_t)unit_bytes(info, l->unit), "forward_flops_per_token",
                                                lzt_talk_json_real(l->forward_flops_per_token), "window",
                                                (json_int_t)l->window));
    }
    return layers;
}

static json_t *inspect_json(const lzt_model_info *info)
{
    json_t *root =
        json_pack("{s:s, s:I, s:I, s:I, s:s, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:b, s:b, s:b}",
                  "architecture", info->architecture, "parameters", (json_int_t)info->parameters, "parameters_active",
                  (json_int_t)info->parameters_active, "bytes", (json_int_t)model_bytes(info), "dtype",
                  lzt_dtype_name(dtype_of(info)), "trainable", info->trainable_arch, "quantized", info->quantized,
                  "hidden", (json_int_t)info->hidden, "intermediate", (json_int_t)info->intermediate, "vocabulary",
                  (json_int_t)info->vocabulary, "query_heads", (json_int_t)info->query_heads, "kv_heads",
                  (json_int_t)info->kv_heads, "head_dim", (json_int_t)info->head_dim, "rotary_dim",
                  (json_int_t)info->rotary_dim, "max_positions", (json_int_t)info->max_positions, "norm_eps",
                  info->norm_eps, "tied", info->tied, "qkv_bias", info->qkv_bias, "qk_norm", info->qk_norm);
    json_object_set_new(root, "rope",
                        json_pack("{s:s, s:f, s:f}", "type", rope_name(info->rope_type), "theta", info->rope_theta,
                                  "attention_factor", info->rope_attention_factor));
    json_object_set_new(root, "not_trainable", info->not_trainable ? json_string(info->not_trainable) : json_null());
    json_object_set_new(root, "layers", layers_json(info));
    return root;
}

static bool are_alike(const lzt_layer *a, const lzt_layer *b)
{
    return a->kind == b->kind && a->window == b->window && a->parameters == b->parameters &&
           a->parameters_active == b->parameters_active;
}

static void add_unit_row(lzt_table *table, const lzt_model_info *info, uint32_t unit, const char *name)
{
    char text[LZT_UNITS_TEXT];
    const lzt_unit *u = &info->unit[unit];
    uint64_t parameters = 0;
    for (uint32_t i = u->first_tensor; i < u->first_tensor + u->tensor_count; i++)
        parameters += info->tensor[i].element_count;
    lzt_table_cell(table, "%s", name);
    lzt_table_cell(table, " ");
    lzt_table_cell(table, "%llu", (unsigned long long)parameters);
    lzt_table_cell(table, "%s", lzt__units_format_bytes(unit_bytes(info, unit), text));
    lzt_table_cell(table, " ");
}

/* One row for each run of equal layers. */
static void add_layer_rows(lzt_table *table, const lzt_model_info *info)
{
    char text[LZT_UNITS_TEXT];
    for (uint64_t i = 0, end; i < info->layer_count; i = end) {
        const lzt_layer *l = &info->layer[i];
        for (end = i + 1; end < info->layer_count && are_alike(l, &info->layer[end]);) end++;
        if (end - i == 1)
            lzt_table_cell(table, "layer %llu", (unsigned long long)i);
        else
            lzt_table_cell(table, "layers %llu-%llu", (unsigned long long)i, (unsigned long long)end - 1);
        if (l->window)
            lzt_table_cell(table, "%s, %llu tokens", kind_name(l->kind), (unsigned long long)l->window);
        else
            lzt_table_cell(table, "%s", kind_name(l->kind));
        lzt_table_cell(table, "%llu", (unsigned long long)l->parameters);
        lzt_table_cell(table, "%s", lzt__units_format_bytes(unit_bytes(info, l->unit), text));
        lzt_table_cell(table, "%s", lzt__units_format_decimal(l->forward_flops_per_token, "FLOP", text));
    }
}

static lzt_status print_tables(const lzt_model_info *info, lzt_error *err)
{
    static const lzt_table_column columns[] = {
        {"part", false}, {"kind", false}, {"parameters", true}, {"bytes", true}, {"forward a token", true}};
    char text[LZT_UNITS_TEXT];
    printf("%s, %llu layers, hidden %llu, %s\n", info->architecture, (unsigned long long)info->layer_count,
           (unsigned long long)info->hidden, lzt_dtype_name(dtype_of(info)));
    printf("%llu parameters", (unsigned long long)info->parameters);
    if (info->parameters_active != info->parameters)
        printf(", %llu of them active for a token", (unsigned long long)info->parameters_active);
    printf(", %s", lzt__units_format_bytes(model_bytes(info), text));
    printf(", embedding and head %s\n\n", info->tied ? "tied" : "apart");
    lzt_table *table = lzt_table_create(columns, LZT_COUNT(columns));
    add_unit_row(table, info, 0, "embedding");
    add_layer_rows(table, info);
    add_unit_row(table, info, (uint32_t)info->layer_count + 1, "final norm");
    if (!info->tied) add_unit_row(table, info, (uint32_t)info->layer_count + 2, "head");
    lzt_status status = lzt_table_print(table, stdout, err);
    lzt_table_destroy(table);
    return status;
}

static lzt_status inspect(const lzt_args *args, lzt_error *err)
{
    lzt_model *model;
    lzt_status status = lzt_model_open(lzt_args_text(args, "PATH"), LZT_MODEL_CONFIG_ONLY, &model, err);
    if (status) return status;
    const lzt_model_info *info = lzt_model_get_info(model);
    if (info->quantized) lzt_talk("note: quantization_config is ignored; the figures are those of the plain weights");
    if (!info->trainable_arch && !info->quantized) lzt_talk("note: cannot be trained yet: %s", info->not_trainable);
    status = lzt_args_flag(args, "json") ? lzt_talk_json(inspect_json(info), err) : print_tables(info, err);
    lzt_model_close(model);
    return status;
}

static void collect_note(void *arg, const char *line)
{
    json_array_append_new(arg, json_string(line));
}

static lzt_status verify(const lzt_args *args, lzt_error *err)
{
    json_t *notes = json_array();
    if (!notes) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory");
    lzt_status status =
        lzt_model_verify(lzt_args_text(args, "DIR"), lzt_args_flag(args, "data"), collect_note, notes, err);
    bool json = lzt_args_flag(args, "json");
    for (size_t i = 0; i < json_array_size(notes) && !json; i++)
        lzt_talk("note: %s", json_string_value(json_array_get(notes, i)));
    if (json) {
        json_t *root = json_pack("{s:b, s:O}", "valid", !status, "notes", notes);
        if (status) {
            json_object_set_new(root, "where", json_string(err->where));
            json_object_set_new(root, "error", json_string(err->message));
        }
        lzt_error print_err;
        lzt_status printed = lzt_talk_json(root, &print_err);
        if (printed && !status) {
            *err = print_err;
            status = printed;
        }
    } else if (!status) {
        printf("valid\n");
    }
    json_decref(notes);
    return status;
}

static const lzt_option inspect_options[] = {
    {.name = "PATH", .type = LZT_OPTION_PATH, .required = true, .help = "a model directory or a config.json"},
    LZT_OPTION_JSON};

const lzt_command lzt_command_model_inspect = {
    .name = "model inspect",
    .summary = "print a model's layers, parameters, bytes and FLOPs",
    .example = "lazytrain model inspect models/smollm2-135m",
    .details =
        "Reads config.json alone, in the spellings of old and new transformers. Bytes are those of the dtype that "
        "config.json names (float32 if none); FLOPs are the matrix products of a forward pass, two for each "
        "weight that a token meets, without attention scores.",
    .option = inspect_options,
    .option_count = LZT_COUNT(inspect_options),
    .run = inspect};

static const lzt_option verify_options[] = {
    {.name = "DIR", .type = LZT_OPTION_PATH, .required = true, .help = "a model directory with weights"},
    {.name = "data", .help = "read every weight and count those that are not finite"},
    LZT_OPTION_JSON};

const lzt_command lzt_command_model_verify = {
    .name = "model verify",
    .summary = "check a model directory strictly",
    .example = "lazytrain model verify models/smollm2-135m --data",
    .details =
        "Checks config.json, the index, every safetensors header (no hole, overlap or tail), every tensor's name, "
        "shape and type, and tied embeddings. Exit code 5 names the first thing that is wrong.",
    .option = verify_options,
    .option_count = LZT_COUNT(verify_options),
    .run = verify};
