/* config.json to numbers: see model_config.h.
 *
 * Each architecture has one row of defaults, those of its configuration class in transformers 5.24, used where a
 * published config.json leaves a key out. Sizes that every published file states have no default.
 */
#include "model_config.h"
#include "model_config_rope.h"
#include "model_json.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS_MAX     UINT64_C(4096)
#define WIDTH_MAX      (UINT64_C(1) << 24)
#define VOCABULARY_MAX (UINT64_C(1) << 28)
#define HEADS_MAX      (UINT64_C(1) << 16)
#define HEAD_DIM_MAX   (UINT64_C(1) << 16)
#define EXPERTS_MAX    (UINT64_C(1) << 16)
#define POSITIONS_MAX  (UINT64_C(1) << 40)
#define REQUIRED       INT64_C(-1)

typedef struct family {
    const char *causal, *conditional, *model_type; /* conditional: the multimodal wrapper's name, or NULL */
    lzt_arch arch;
    int64_t query_heads, kv_heads, head_dim, vocabulary; /* -1: required; 0: as many as query heads, hidden / heads */
    int64_t max_positions;
    double norm_eps, theta, partial;
    int64_t window; /* where "sliding_window" is absent; 0: none */
    int32_t bos_id, eos_id, pad_id;
    bool tied, qkv_bias, qk_norm, norm_zero_centred, trainable;
} family;

static const family families[] = {
    {"LlamaForCausalLM",
     NULL,
     "llama",
     LZT_ARCH_LLAMA,
     REQUIRED,
     0,
     0,
     REQUIRED,
     2048,
     1e-6,
     1e4,
     1.0,
     0,
     1,
     2,
     -1,
     false,
     false,
     false,
     false,
     true},
    {"MistralForCausalLM",
     NULL,
     "mistral",
     LZT_ARCH_MISTRAL,
     REQUIRED,
     8,
     0,
     REQUIRED,
     131072,
     1e-6,
     1e4,
     1.0,
     4096,
     1,
     2,
     -1,
     false,
     false,
     false,
     false,
     true},
    {"Qwen2ForCausalLM",
     NULL,
     "qwen2",
     LZT_ARCH_QWEN2,
     REQUIRED,
     32,
     0,
     REQUIRED,
     32768,
     1e-6,
     1e4,
     1.0,
     4096,
     -1,
     -1,
     -1,
     false,
     true,
     false,
     false,
     true},
    {"Qwen3ForCausalLM",
     NULL,
     "qwen3",
     LZT_ARCH_QWEN3,
     REQUIRED,
     32,
     128,
     REQUIRED,
     32768,
     1e-6,
     1e4,
     1.0,
     4096,
     -1,
     -1,
     -1,
     false,
     false,
     true,
     false,
     true},
    {"Qwen3_5ForCausalLM",
     "Qwen3_5ForConditionalGeneration",
     "qwen3_5",
     LZT_ARCH_QWEN3_5,
     REQUIRED,
     4,
     256,
     REQUIRED,
     32768,
     1e-6,
     1e4,
     0.25,
     0,
     -1,
     -1,
     -1,
     false,
     false,
     true,
     true,
     false},
    {"Qwen3_5MoeForCausalLM",
     "Qwen3_5MoeForConditionalGeneration",
     "qwen3_5_moe",
     LZT_ARCH_QWEN3_5_MOE,
     REQUIRED,
     2,
     256,
     REQUIRED,
     32768,
     1e-6,
     1e4,
     0.25,
     0,
     -1,
     -1,
     -1,
     false,
     false,
     true,
     true,
     false},
    {"Qwen3MoeForCausalLM",
     NULL,
     "qwen3_moe",
     LZT_ARCH_QWEN3_MOE,
     REQUIRED,
     4,
     0,
     REQUIRED,
     32768,
     1e-6,
     1e4,
     1.0,
     4096,
     -1,
     -1,
     -1,
     false,
     false,
     true,
     false,
     false},
    {"MixtralForCausalLM",
     NULL,
     "mixtral",
     LZT_ARCH_MIXTRAL,
     REQUIRED,
     8,
     0,
     REQUIRED,
     131072,
     1e-5,
     1e6,
     1.0,
     0,
     1,
     2,
     -1,
     false,
     false,
     false,
     false,
     false},
    {"Gemma3ForCausalLM",
     "Gemma3ForConditionalGeneration",
     "gemma3",
     LZT_ARCH_GEMMA3,
     8,
     4,
     256,
     262208,
     131072,
     1e-6,
     1e6,
     1.0,
     4096,
     2,
     1,
     0,
     true,
     false,
     true,
     true,
     false},
    {"GptOssForCausalLM",
     NULL,
     "gpt_oss",
     LZT_ARCH_GPT_OSS,
     REQUIRED,
     8,
     64,
     REQUIRED,
     131072,
     1e-5,
     1.5e5,
     1.0,
     128,
     -1,
     -1,
     -1,
     false,
     true,
     false,
     false,
     false},
    {"DeepseekV3ForCausalLM",
     NULL,
     "deepseek_v3",
     LZT_ARCH_DEEPSEEK_V3,
     REQUIRED,
     0,
     0,
     REQUIRED,
     4096,
     1e-6,
     1e4,
     1.0,
     0,
     0,
     1,
     -1,
     false,
     false,
     false,
     false,
     false},
};

static const family *find_family(lzt__model_json *root, lzt__model_config *c)
{
    size_t count = sizeof families / sizeof families[0];
    const json_t *list = lzt__model_json_get(root, "architectures");
    const char *name = json_string_value(json_array_get(list, 0));
    if (list && !name) lzt__model_json_fail(root, "architectures", "does not begin with a string");
    const char *model_type = lzt__model_json_string(root, "model_type", NULL);
    for (size_t i = 0; i < count; i++) {
        const family *f = &families[i];
        bool is_causal = name && !strcmp(name, f->causal);
        bool is_wrapped = name && f->conditional && !strcmp(name, f->conditional);
        bool is_by_type = !name && model_type && !strcmp(model_type, f->model_type);
        if (!is_causal && !is_wrapped && !is_by_type) continue;
        c->arch = f->arch;
        c->wrapped = is_wrapped;
        snprintf(c->architecture, sizeof c->architecture, "%s", name ? name : f->causal);
        return f;
    }
    if (name)
        lzt__model_json_fail(root, "architectures",
                             "is [\"%.64s\"], which is not known; known are the dense Llama, Mistral, "
                             "Qwen2, Qwen3, and for figures Qwen3.5, Qwen3-MoE, Mixtral, Gemma 3, gpt-oss, DeepSeek-V3",
                             name);
    else
        lzt__model_json_fail(root, "architectures", "is missing and \"model_type\" does not tell the architecture");
    return NULL;
}

/* A key of the text part that may also stand at the top; two different values are an error. */
static const json_t *either(lzt__model_json *text, lzt__model_json *root, const char *key)
{
    const json_t *inner = lzt__model_json_get(text, key), *outer = lzt__model_json_get(root, key);
    if (inner && outer && text->object != root->object && !json_equal(inner, outer))
        lzt__model_json_fail(root, key, "differs from \"text_config.%s\"", key);
    return outer ? outer : inner;
}

static lzt_dtype parse_dtype(lzt__model_json *text, lzt__model_json *root)
{
    static const struct {
        const char *name;
        lzt_dtype dtype;
    } names[] = {{"float32", LZT_DTYPE_F32},
                 {"bfloat16", LZT_DTYPE_BF16},
                 {"float16", LZT_DTYPE_F16},
                 {"float64", LZT_DTYPE_F64}};
    const char *keys[] = {"dtype", "torch_dtype"};
    lzt_dtype found = LZT_DTYPE_NONE;
    for (int k = 0; k < 2; k++) {
        const json_t *value = lzt__model_json_get(root, keys[k]);
        if (!value) value = lzt__model_json_get(text, keys[k]);
        if (!value) continue;
        const char *name = json_string_value(value);
        if (name && !strncmp(name, "torch.", 6)) name += 6;
        lzt_dtype dtype = LZT_DTYPE_NONE;
        for (size_t i = 0; name && i < sizeof names / sizeof names[0]; i++)
            if (!strcmp(name, names[i].name)) dtype = names[i].dtype;
        if (!dtype) lzt__model_json_fail(root, keys[k], "is not one of float32, bfloat16, float16, float64");
        if (found && dtype != found) lzt__model_json_fail(root, "torch_dtype", "and \"dtype\" differ");
        found = dtype;
    }
    return found;
}

static int32_t parse_id(lzt__model_json *j, const char *key, const json_t *value, int32_t fallback)
{
    if (!value || json_is_null(value)) return fallback;
    json_int_t id = json_integer_value(value);
    if (!json_is_integer(value) || id < -1 || id > INT32_MAX) lzt__model_json_fail(j, key, "is not a token id");
    return (int32_t)id;
}

/* One id or a list of them. */
static void parse_eos(lzt__model_json *j, const json_t *value, lzt__model_config *c)
{
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    if (count > 8) lzt__model_json_fail(j, "eos_token_id", "lists more than 8 ids");
    if (j->status) return;
    c->eos_id_count = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t id = parse_id(j, "eos_token_id", json_is_array(value) ? json_array_get(value, i) : value, -1);
        if (id >= 0) c->eos_id[c->eos_id_count++] = id;
    }
}

static int32_t id_or_default(lzt__model_json *text, lzt__model_json *root, const char *key, int32_t fallback)
{
    /* null says "none"; only an absent key takes the family's default. */
    if (!json_object_get(text->object, key) && !json_object_get(root->object, key)) return fallback;
    const json_t *value = lzt__model_json_get(text, key);
    return parse_id(text, key, value ? value : lzt__model_json_get(root, key), -1);
}

static void parse_ids(lzt__model_json *text, lzt__model_json *root, const family *f, lzt__model_config *c)
{
    c->bos_id = id_or_default(text, root, "bos_token_id", f->bos_id);
    c->pad_id = id_or_default(text, root, "pad_token_id", f->pad_id);
    if (f->eos_id >= 0) c->eos_id[c->eos_id_count++] = f->eos_id;
    const json_t *value = lzt__model_json_get(text, "eos_token_id");
    if (!value) value = lzt__model_json_get(root, "eos_token_id");
    if (value)
        parse_eos(text, value, c);
    else if (json_object_get(text->object, "eos_token_id") || json_object_get(root->object, "eos_token_id"))
        c->eos_id_count = 0;
}

static void parse_heads(lzt__model_json *j, const family *f, lzt__model_config *c)
{
    c->query_heads = lzt__model_json_size(j, "num_attention_heads", f->query_heads, 1, HEADS_MAX);
    bool kv_is_null = json_is_null(json_object_get(j->object, "num_key_value_heads"));
    int64_t kv_default = f->kv_heads && !kv_is_null ? f->kv_heads : (int64_t)c->query_heads;
    c->kv_heads = lzt__model_json_size(j, "num_key_value_heads", kv_default, 1, HEADS_MAX);
    if (!j->status && c->query_heads % c->kv_heads)
        lzt__model_json_fail(j, "num_key_value_heads", "is %llu, which does not divide \"num_attention_heads\" = %llu",
                             (unsigned long long)c->kv_heads, (unsigned long long)c->query_heads);
    if (f->arch == LZT_ARCH_DEEPSEEK_V3) return;
    bool head_dim_is_null = json_is_null(json_object_get(j->object, "head_dim"));
    int64_t head_dim = f->head_dim && !head_dim_is_null ? f->head_dim : 0;
    if (!lzt__model_json_get(j, "head_dim") && !head_dim && !j->status) {
        head_dim = (int64_t)(c->hidden / c->query_heads);
        if (c->hidden % c->query_heads || !head_dim)
            lzt__model_json_fail(j, "hidden_size",
                                 "is %llu, which \"num_attention_heads\" = %llu does not divide, and there "
                                 "is no \"head_dim\"",
                                 (unsigned long long)c->hidden, (unsigned long long)c->query_heads);
    }
    c->head_dim = lzt__model_json_size(j, "head_dim", head_dim ? head_dim : 1, 1, HEAD_DIM_MAX);
}

/* DeepSeek's latent attention: each head has a plain and a rotary part; keys and values come from a joint projection.
 */
static void parse_latent_attention(lzt__model_json *j, lzt__model_config *c)
{
    bool no_q_rank = json_is_null(json_object_get(j->object, "q_lora_rank"));
    c->q_rank = no_q_rank ? 0 : lzt__model_json_size(j, "q_lora_rank", 1536, 1, WIDTH_MAX);
    c->kv_rank = lzt__model_json_size(j, "kv_lora_rank", 512, 1, WIDTH_MAX);
    c->nope_dim = lzt__model_json_size(j, "qk_nope_head_dim", 128, 1, HEAD_DIM_MAX);
    c->value_dim = lzt__model_json_size(j, "v_head_dim", 128, 1, HEAD_DIM_MAX);
    c->rotary_dim = lzt__model_json_size(j, "qk_rope_head_dim", 64, 1, HEAD_DIM_MAX);
    c->head_dim = c->nope_dim + c->rotary_dim;
}

static void parse_linear_attention(lzt__model_json *j, lzt__model_config *c)
{
    c->linear_key_heads = lzt__model_json_size(j, "linear_num_key_heads", 16, 1, HEADS_MAX);
    c->linear_value_heads = lzt__model_json_size(j, "linear_num_value_heads", 32, 1, HEADS_MAX);
    c->linear_key_dim = lzt__model_json_size(j, "linear_key_head_dim", 128, 1, HEAD_DIM_MAX);
    c->linear_value_dim = lzt__model_json_size(j, "linear_value_head_dim", 128, 1, HEAD_DIM_MAX);
    c->conv_kernel = lzt__model_json_size(j, "linear_conv_kernel_dim", 4, 1, 1024);
    if (!j->status && c->linear_value_heads % c->linear_key_heads)
        lzt__model_json_fail(j, "linear_num_value_heads", "is not a multiple of \"linear_num_key_heads\"");
}

static void parse_experts(lzt__model_json *j, lzt__model_config *c)
{
    const char *count_key = "num_experts", *width_key = "moe_intermediate_size";
    if (c->arch == LZT_ARCH_MIXTRAL || c->arch == LZT_ARCH_GPT_OSS) {
        count_key = "num_local_experts";
        width_key = "intermediate_size";
    } else if (c->arch == LZT_ARCH_DEEPSEEK_V3) {
        count_key = "n_routed_experts";
    } else if (!lzt__model_json_get(j, count_key) && lzt__model_json_get(j, "num_local_experts")) {
        count_key = "num_local_experts"; /* as transformers 5 writes it */
    }
    c->expert_count = lzt__model_json_size(j, count_key, REQUIRED, 1, EXPERTS_MAX);
    c->experts_per_token = lzt__model_json_size(j, "num_experts_per_tok", REQUIRED, 1, EXPERTS_MAX);
    c->expert_intermediate = lzt__model_json_size(j, width_key, REQUIRED, 1, WIDTH_MAX);
    if (!j->status && c->experts_per_token > c->expert_count)
        lzt__model_json_fail(j, "num_experts_per_tok", "exceeds \"%s\"", count_key);
    if (c->arch == LZT_ARCH_QWEN3_5_MOE)
        c->shared_intermediate = lzt__model_json_size(j, "shared_expert_intermediate_size", 512, 1, WIDTH_MAX);
    if (c->arch == LZT_ARCH_DEEPSEEK_V3)
        c->shared_intermediate = c->expert_intermediate * lzt__model_json_size(j, "n_shared_experts", 1, 1, 1024);
}

static bool is_listed(const json_t *list, uint64_t layer)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_integer_value(json_array_get(list, i)) == (json_int_t)layer) return true;
    return false;
}

static void mark_sparse_layers(lzt__model_json *j, lzt__model_config *c)
{
    uint64_t first = 0, step = 1;
    const json_t *dense = NULL;
    if (c->arch == LZT_ARCH_DEEPSEEK_V3) {
        first = lzt__model_json_size(j, "first_k_dense_replace", 3, 0, LAYERS_MAX);
        if (lzt__model_json_size(j, "moe_layer_freq", 1, 1, LAYERS_MAX) != 1)
            lzt__model_json_fail(j, "moe_layer_freq", "is not 1, which is not supported");
    }
    if (c->arch == LZT_ARCH_QWEN3_MOE) {
        step = lzt__model_json_size(j, "decoder_sparse_step", 1, 1, LAYERS_MAX);
        dense = lzt__model_json_get(j, "mlp_only_layers");
        if (dense && (!json_is_array(dense) || json_array_size(dense) > LAYERS_MAX))
            lzt__model_json_fail(j, "mlp_only_layers", "is not a list of layers");
    }
    for (uint64_t i = 0; i < c->layer_count && !j->status; i++)
        c->layer[i].sparse = i >= first && (i + 1) % step == 0 && !is_listed(dense, i);
}

static bool needs_dense_width(const lzt__model_config *c)
{
    for (uint64_t i = 0; i < c->layer_count; i++)
        if (!c->layer[i].sparse) return true;
    return false;
}

/* The kind of a layer where "layer_types" does not say it. */
static lzt_layer_kind default_kind(lzt__model_json *j, const lzt__model_config *c, uint64_t i, bool windowed)
{
    switch (c->arch) {
    case LZT_ARCH_QWEN3_5:
    case LZT_ARCH_QWEN3_5_MOE:
        return (i + 1) % lzt__model_json_size(j, "full_attention_interval", 4, 1, LAYERS_MAX)
                   ? LZT_LAYER_LINEAR_ATTENTION
                   : LZT_LAYER_FULL_ATTENTION;
    case LZT_ARCH_GEMMA3:
        return (i + 1) % lzt__model_json_size(j, "sliding_window_pattern", 6, 1, LAYERS_MAX)
                   ? LZT_LAYER_SLIDING_ATTENTION
                   : LZT_LAYER_FULL_ATTENTION;
    case LZT_ARCH_GPT_OSS: return i % 2 ? LZT_LAYER_FULL_ATTENTION : LZT_LAYER_SLIDING_ATTENTION;
    case LZT_ARCH_QWEN2:
    case LZT_ARCH_QWEN3:
        windowed = windowed && i >= lzt__model_json_size(j, "max_window_layers", 28, 0, INT32_MAX);
        break;
    default: break;
    }
    return windowed ? LZT_LAYER_SLIDING_ATTENTION : LZT_LAYER_FULL_ATTENTION;
}

static bool has_layer_types(lzt_arch arch)
{
    return arch == LZT_ARCH_QWEN2 || arch == LZT_ARCH_QWEN3 || arch == LZT_ARCH_QWEN3_5 ||
           arch == LZT_ARCH_QWEN3_5_MOE || arch == LZT_ARCH_GEMMA3 || arch == LZT_ARCH_GPT_OSS;
}

static lzt_layer_kind parse_kind(lzt__model_json *j, const json_t *value)
{
    static const char *const names[LZT_LAYER_KIND_COUNT] = {"full_attention", "sliding_attention", "linear_attention"};
    const char *name = json_string_value(value);
    for (int k = 0; name && k < LZT_LAYER_KIND_COUNT; k++)
        if (!strcmp(name, names[k])) return (lzt_layer_kind)k;
    lzt__model_json_fail(j, "layer_types",
                         "holds \"%.64s\"; known are full_attention, sliding_attention, linear_attention",
                         name ? name : "something not a string");
    return LZT_LAYER_FULL_ATTENTION;
}

/* The window in tokens, or 0. Families with "use_sliding_window" have none unless it is true. */
static uint64_t parse_window(lzt__model_json *j, const family *f, const lzt__model_config *c)
{
    if (!f->window && c->arch != LZT_ARCH_MIXTRAL) return 0; /* Llama and others ignore the key */
    if (c->arch == LZT_ARCH_QWEN2 || c->arch == LZT_ARCH_QWEN3 || c->arch == LZT_ARCH_QWEN3_MOE)
        if (!lzt__model_json_bool(j, "use_sliding_window", false)) return 0;
    const json_t *value = json_object_get(j->object, "sliding_window");
    if (json_is_null(value)) return 0;
    if (!value) return (uint64_t)f->window;
    return lzt__model_json_size(j, "sliding_window", REQUIRED, 1, POSITIONS_MAX);
}

static void parse_layer_kinds(lzt__model_json *j, const family *f, lzt__model_config *c)
{
    uint64_t window = parse_window(j, f, c);
    const json_t *types = lzt__model_json_get(j, "layer_types");
    if (types && (!json_is_array(types) || json_array_size(types) != c->layer_count))
        lzt__model_json_fail(j, "layer_types", "is not a list of \"num_hidden_layers\" = %llu kinds",
                             (unsigned long long)c->layer_count);
    bool may_be_linear = c->arch == LZT_ARCH_QWEN3_5 || c->arch == LZT_ARCH_QWEN3_5_MOE;
    for (uint64_t i = 0; i < c->layer_count && !j->status; i++) {
        lzt_layer_kind kind = default_kind(j, c, i, window > 0);
        if (types) {
            lzt_layer_kind named = parse_kind(j, json_array_get(types, i));
            if (!has_layer_types(c->arch) && named != kind)
                lzt__model_json_fail(j, "layer_types", "gives layer %llu a kind that %s does not have",
                                     (unsigned long long)i, c->architecture);
            kind = named;
        }
        if ((kind == LZT_LAYER_LINEAR_ATTENTION) && !may_be_linear)
            lzt__model_json_fail(j, "layer_types", "names linear_attention, which %s does not have", c->architecture);
        if (kind == LZT_LAYER_SLIDING_ATTENTION && !window)
            lzt__model_json_fail(j, "layer_types", "names sliding_attention but there is no \"sliding_window\"%s",
                                 c->arch == LZT_ARCH_QWEN2 || c->arch == LZT_ARCH_QWEN3 ? " in use (use_sliding_window)"
                                                                                        : "");
        c->layer[i].kind = kind;
        c->layer[i].window = kind == LZT_LAYER_SLIDING_ATTENTION ? window : 0;
    }
}

static void parse_biases(lzt__model_json *j, const family *f, lzt__model_config *c)
{
    bool has_key = f->arch != LZT_ARCH_MISTRAL && f->arch != LZT_ARCH_MIXTRAL && f->arch != LZT_ARCH_QWEN2;
    bool attention_bias = has_key && lzt__model_json_bool(j, "attention_bias", f->qkv_bias);
    c->qkv_bias = f->arch == LZT_ARCH_QWEN2 || attention_bias;
    c->output_bias = attention_bias;
    c->mlp_bias = f->arch == LZT_ARCH_LLAMA && lzt__model_json_bool(j, "mlp_bias", false);
    c->qk_norm = f->qk_norm;
    c->norm_zero_centred = f->norm_zero_centred;
}

static void judge_trainable(lzt__model_json *j, const family *f, lzt__model_config *c)
{
    const char *act = lzt__model_json_string(j, "hidden_act", "silu");
    char *why = c->not_trainable;
    if (!f->trainable)
        snprintf(why, sizeof c->not_trainable, "the operators of %s come later", c->architecture);
    else if (strcmp(act, "silu") && strcmp(act, "swish"))
        snprintf(why, sizeof c->not_trainable, "\"hidden_act\" is \"%.32s\", not silu", act);
    else if (c->output_bias)
        snprintf(why, sizeof c->not_trainable, "\"attention_bias\" gives o_proj a bias");
    else if (c->mlp_bias)
        snprintf(why, sizeof c->not_trainable, "\"mlp_bias\" is true");
    else if (c->rotary_dim != c->head_dim)
        snprintf(why, sizeof c->not_trainable, "\"partial_rotary_factor\" is below 1");
    else if (c->quantized)
        snprintf(why, sizeof c->not_trainable, "\"quantization_config\": the weights are quantised");
}

static void parse_rotary(lzt__model_json *j, const family *f, lzt__model_config *c)
{
    lzt__model_config_rope(j, f->arch, f->theta, f->partial, c->max_positions, &c->rope);
    if (f->arch != LZT_ARCH_DEEPSEEK_V3) c->rotary_dim = (uint64_t)((double)c->head_dim * c->rope.partial);
    if (!j->status && (c->rotary_dim % 2 || !c->rotary_dim))
        lzt__model_json_fail(j, "head_dim", "gives %llu rotary dimensions; they must be even and above 0",
                             (unsigned long long)c->rotary_dim);
}

static void parse_text(lzt__model_json *j, const family *f, lzt__model_config *c)
{
    c->hidden = lzt__model_json_size(j, "hidden_size", REQUIRED, 1, WIDTH_MAX);
    c->vocabulary = lzt__model_json_size(j, "vocab_size", f->vocabulary, 1, VOCABULARY_MAX);
    c->max_positions = lzt__model_json_size(j, "max_position_embeddings", f->max_positions, 1, POSITIONS_MAX);
    c->norm_eps = lzt__model_json_number(j, "rms_norm_eps", f->norm_eps, 0.0, 1.0);
    parse_heads(j, f, c);
    parse_biases(j, f, c);
    if (f->arch == LZT_ARCH_DEEPSEEK_V3) parse_latent_attention(j, c);
    if (f->arch == LZT_ARCH_QWEN3_5 || f->arch == LZT_ARCH_QWEN3_5_MOE) parse_linear_attention(j, c);
    parse_rotary(j, f, c);
    bool sparse = f->arch == LZT_ARCH_QWEN3_5_MOE || f->arch == LZT_ARCH_QWEN3_MOE || f->arch == LZT_ARCH_MIXTRAL ||
                  f->arch == LZT_ARCH_GPT_OSS || f->arch == LZT_ARCH_DEEPSEEK_V3;
    if (sparse) parse_experts(j, c);
    if (sparse) mark_sparse_layers(j, c);
    int64_t width_default = needs_dense_width(c) ? REQUIRED : 0;
    c->intermediate = lzt__model_json_size(j, "intermediate_size", width_default, 1, WIDTH_MAX);
    parse_layer_kinds(j, f, c);
    judge_trainable(j, f, c);
}

static lzt_status parse_root(const json_t *object, const char *where, lzt__model_config *c, lzt_error *err)
{
    lzt__model_json root = {object, "", where, err, LZT_OK};
    lzt__model_json text = root;
    const json_t *nested = lzt__model_json_object(&root, "text_config");
    if (nested) text = (lzt__model_json){nested, "text_config.", where, err, LZT_OK};
    const family *f = root.status ? NULL : find_family(&root, c);
    if (!f) return root.status;
    c->layer_count = lzt__model_json_size(&text, "num_hidden_layers", REQUIRED, 1, LAYERS_MAX);
    if (text.status) return text.status;
    c->layer = calloc(c->layer_count, sizeof *c->layer);
    if (!c->layer) return lzt_fail(err, LZT_ERR_NO_MEMORY, where, "no memory for the layers");
    c->quantized =
        lzt__model_json_get(&root, "quantization_config") || lzt__model_json_get(&text, "quantization_config");
    parse_text(&text, f, c);
    if (text.status) return text.status;
    const json_t *tied = either(&text, &root, "tie_word_embeddings");
    if (tied && !json_is_boolean(tied)) lzt__model_json_fail(&root, "tie_word_embeddings", "is neither true nor false");
    c->tied = tied ? json_is_true(tied) : f->tied;
    c->dtype = parse_dtype(&text, &root);
    if (!root.status) parse_ids(&text, &root, f, c);
    return root.status ? root.status : text.status;
}

lzt_status lzt__model_config_parse(const char *text, size_t bytes, const char *where, lzt__model_config *config,
                                   lzt_error *err)
{
    memset(config, 0, sizeof *config);
    json_t *root = NULL;
    lzt_status status = lzt__model_json_load(text, bytes, where, &root, err);
    if (status) return status;
    status = parse_root(root, where, config, err);
    json_decref(root);
    if (status) lzt__model_config_fini(config);
    return status;
}

void lzt__model_config_fini(lzt__model_config *config)
{
    free(config->layer);
    config->layer = NULL;
}

lzt_status lzt__model_config_generation(lzt__model_config *config, const char *text, size_t bytes, const char *where,
                                        lzt_error *err)
{
    json_t *object = NULL;
    lzt_status status = lzt__model_json_load(text, bytes, where, &object, err);
    if (status) return status;
    lzt__model_json root = {object, "", where, err, LZT_OK};
    const json_t *eos = lzt__model_json_get(&root, "eos_token_id");
    if (eos) parse_eos(&root, eos, config);
    json_decref(object);
    return root.status;
}
