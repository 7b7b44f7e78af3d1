/* From numbers to tables: see model_tables.h.
 *
 * One function a block (attention of each kind, MLP of each kind) lists its tensors in unit order with Hugging Face's
 * names and shapes; add() places them. A tensor that is `joined` follows the one before without a gap; any other begins
 * at the next multiple of LZT_UNIT_ALIGNMENT.
 */
#include "model_tables.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TENSORS_MAX    (UINT32_C(1) << 19)
#define PARAMETERS_MAX (UINT64_C(1) << 50)

enum {
    JOINED = 1, /* no gap before it */
    EXPERT = 2, /* active for k of E tokens */
    MATRIX = 4, /* a matrix product: counts in forward_flops_per_token */
    KEEP_F32 = 8
};

typedef struct builder {
    const lzt__model_config *c;
    const lzt__model_spelling *spelling;
    lzt__model_tables *t;
    const char *where;
    lzt_error *err;
    lzt_status status;
    int32_t layer;
    uint64_t expert_parameters, whole_matrices, expert_matrices, parameters; /* of the unit being built */
} builder;

static lzt_status no_memory(builder *b)
{
    return b->status = lzt_fail(b->err, LZT_ERR_NO_MEMORY, b->where, "no memory for the tables");
}

static lzt_tensor *new_tensor(builder *b)
{
    lzt__model_tables *t = b->t;
    if (t->tensor_count == TENSORS_MAX) {
        b->status = lzt_fail(b->err, LZT_ERR_MODEL, b->where, "the model would have more than %u tensors", TENSORS_MAX);
        return NULL;
    }
    if (t->tensor_count == t->tensor_capacity) {
        uint32_t capacity = t->tensor_capacity ? 2 * t->tensor_capacity : 256;
        lzt_tensor *grown = realloc(t->tensor, capacity * sizeof *grown);
        if (!grown) return no_memory(b), NULL;
        t->tensor = grown;
        t->tensor_capacity = capacity;
    }
    lzt_tensor *tensor = &t->tensor[t->tensor_count];
    memset(tensor, 0, sizeof *tensor);
    return tensor;
}

static uint64_t align_up(uint64_t elements)
{
    return (elements + LZT_UNIT_ALIGNMENT - 1) / LZT_UNIT_ALIGNMENT * LZT_UNIT_ALIGNMENT;
}

/* Appends a tensor to the unit being built. name: after "model." or "model.layers.N."; rank <= 3 dimensions d. */
static void add(builder *b, lzt_role role, int flags, uint32_t rank, const uint64_t d[3], const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));
static void add(builder *b, lzt_role role, int flags, uint32_t rank, const uint64_t d[3], const char *fmt, ...)
{
    if (b->status) return;
    lzt_tensor *tensor = new_tensor(b);
    if (!tensor) return;
    char name[256];
    va_list args;
    va_start(args, fmt);
    int used = vsnprintf(name, sizeof name, fmt, args);
    va_end(args);
    assert(used > 0 && (size_t)used < sizeof name);
    lzt_unit *unit = &b->t->unit[b->t->unit_count - 1];
    tensor->role = role;
    tensor->layer = b->layer;
    tensor->unit = b->t->unit_count - 1;
    tensor->rank = rank;
    tensor->element_count = 1;
    bool overflow = false;
    for (uint32_t i = 0; i < rank; i++) {
        tensor->shape[i] = d[i];
        overflow |= __builtin_mul_overflow(tensor->element_count, d[i], &tensor->element_count);
    }
    tensor->trainable = true;
    tensor->keep_f32 = flags & KEEP_F32;
    if (overflow || tensor->element_count > PARAMETERS_MAX ||
        b->t->parameters + b->parameters + tensor->element_count > PARAMETERS_MAX) {
        b->status = lzt_fail(b->err, LZT_ERR_MODEL, b->where, "the sizes make more than 2^50 parameters (at %s)", name);
        return;
    }
    tensor->name = strdup(name);
    if (!tensor->name) {
        no_memory(b);
        return;
    }
    tensor->unit_offset = flags & JOINED ? unit->element_count : align_up(unit->element_count);
    unit->element_count = tensor->unit_offset + tensor->element_count;
    unit->tensor_count++;
    b->t->tensor_count++;
    b->parameters += tensor->element_count;
    if (flags & EXPERT) b->expert_parameters += tensor->element_count;
    if (flags & MATRIX) *(flags & EXPERT ? &b->expert_matrices : &b->whole_matrices) += tensor->element_count;
}

/* "model.layers.N." of the layer being built. */
typedef struct layer_name {
    char text[96];
} layer_name;

static layer_name name_of_layer(const builder *b)
{
    layer_name name;
    snprintf(name.text, sizeof name.text, "%slayers.%d.", b->spelling->prefix, b->layer);
    return name;
}

static void matrix(builder *b, lzt_role role, int flags, uint64_t rows, uint64_t columns, const char *suffix)
{
    add(b, role, flags | MATRIX, 2, (uint64_t[3]){rows, columns}, "%s%s", name_of_layer(b).text, suffix);
}

static void vector(builder *b, lzt_role role, int flags, uint64_t elements, const char *suffix)
{
    add(b, role, flags, 1, (uint64_t[3]){elements}, "%s%s", name_of_layer(b).text, suffix);
}

/* Grouped-query attention. Qwen3.5's q_proj holds the output gate too: twice the rows. */
static void add_attention(builder *b)
{
    const lzt__model_config *c = b->c;
    uint64_t q = c->query_heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    bool gated = c->arch == LZT_ARCH_QWEN3_5 || c->arch == LZT_ARCH_QWEN3_5_MOE;
    matrix(b, LZT_ROLE_Q, 0, gated ? 2 * q : q, c->hidden, "self_attn.q_proj.weight");
    matrix(b, LZT_ROLE_K, JOINED, kv, c->hidden, "self_attn.k_proj.weight");
    matrix(b, LZT_ROLE_V, JOINED, kv, c->hidden, "self_attn.v_proj.weight");
    if (c->qkv_bias) {
        vector(b, LZT_ROLE_Q_BIAS, 0, gated ? 2 * q : q, "self_attn.q_proj.bias");
        vector(b, LZT_ROLE_K_BIAS, JOINED, kv, "self_attn.k_proj.bias");
        vector(b, LZT_ROLE_V_BIAS, JOINED, kv, "self_attn.v_proj.bias");
    }
    if (c->qk_norm) {
        vector(b, LZT_ROLE_Q_NORM, 0, c->head_dim, "self_attn.q_norm.weight");
        vector(b, LZT_ROLE_K_NORM, 0, c->head_dim, "self_attn.k_norm.weight");
    }
    if (c->arch == LZT_ARCH_GPT_OSS) vector(b, LZT_ROLE_OTHER, 0, c->query_heads, "self_attn.sinks");
    matrix(b, LZT_ROLE_O, 0, c->hidden, q, "self_attn.o_proj.weight");
    if (c->output_bias) vector(b, LZT_ROLE_OTHER, 0, c->hidden, "self_attn.o_proj.bias");
}

/* Qwen3.5's gated delta rule. */
static void add_linear_attention(builder *b)
{
    const lzt__model_config *c = b->c;
    uint64_t key = c->linear_key_heads * c->linear_key_dim, value = c->linear_value_heads * c->linear_value_dim;
    uint64_t heads = c->linear_value_heads, mixed = 2 * key + value;
    matrix(b, LZT_ROLE_OTHER, 0, mixed, c->hidden, "linear_attn.in_proj_qkv.weight");
    matrix(b, LZT_ROLE_OTHER, 0, value, c->hidden, "linear_attn.in_proj_z.weight");
    matrix(b, LZT_ROLE_OTHER, 0, heads, c->hidden, "linear_attn.in_proj_b.weight");
    matrix(b, LZT_ROLE_OTHER, 0, heads, c->hidden, "linear_attn.in_proj_a.weight");
    add(b, LZT_ROLE_OTHER, 0, 3, (uint64_t[3]){mixed, 1, c->conv_kernel}, "%slinear_attn.conv1d.weight",
        name_of_layer(b).text);
    vector(b, LZT_ROLE_OTHER, KEEP_F32, heads, "linear_attn.A_log");
    vector(b, LZT_ROLE_OTHER, KEEP_F32, heads, "linear_attn.dt_bias");
    vector(b, LZT_ROLE_OTHER, 0, c->linear_value_dim, "linear_attn.norm.weight");
    matrix(b, LZT_ROLE_OTHER, 0, c->hidden, value, "linear_attn.out_proj.weight");
}

/* DeepSeek's multi-head latent attention. */
static void add_latent_attention(builder *b)
{
    const lzt__model_config *c = b->c;
    uint64_t q = c->query_heads * c->head_dim;
    if (c->q_rank) {
        matrix(b, LZT_ROLE_OTHER, 0, c->q_rank, c->hidden, "self_attn.q_a_proj.weight");
        if (c->output_bias) vector(b, LZT_ROLE_OTHER, 0, c->q_rank, "self_attn.q_a_proj.bias");
        vector(b, LZT_ROLE_OTHER, 0, c->q_rank, "self_attn.q_a_layernorm.weight");
        matrix(b, LZT_ROLE_OTHER, 0, q, c->q_rank, "self_attn.q_b_proj.weight");
    } else {
        matrix(b, LZT_ROLE_OTHER, 0, q, c->hidden, "self_attn.q_proj.weight");
    }
    matrix(b, LZT_ROLE_OTHER, 0, c->kv_rank + c->rotary_dim, c->hidden, "self_attn.kv_a_proj_with_mqa.weight");
    if (c->output_bias) vector(b, LZT_ROLE_OTHER, 0, c->kv_rank + c->rotary_dim, "self_attn.kv_a_proj_with_mqa.bias");
    vector(b, LZT_ROLE_OTHER, 0, c->kv_rank, "self_attn.kv_a_layernorm.weight");
    matrix(b, LZT_ROLE_OTHER, 0, c->query_heads * (c->nope_dim + c->value_dim), c->kv_rank,
           "self_attn.kv_b_proj.weight");
    matrix(b, LZT_ROLE_O, 0, c->hidden, c->query_heads * c->value_dim, "self_attn.o_proj.weight");
    if (c->output_bias) vector(b, LZT_ROLE_OTHER, 0, c->hidden, "self_attn.o_proj.bias");
}

static void add_dense_mlp(builder *b)
{
    const lzt__model_config *c = b->c;
    matrix(b, LZT_ROLE_GATE, 0, c->intermediate, c->hidden, "mlp.gate_proj.weight");
    matrix(b, LZT_ROLE_UP, JOINED, c->intermediate, c->hidden, "mlp.up_proj.weight");
    if (c->mlp_bias) {
        vector(b, LZT_ROLE_OTHER, 0, c->intermediate, "mlp.gate_proj.bias");
        vector(b, LZT_ROLE_OTHER, JOINED, c->intermediate, "mlp.up_proj.bias");
    }
    matrix(b, LZT_ROLE_DOWN, 0, c->hidden, c->intermediate, "mlp.down_proj.weight");
    if (c->mlp_bias) vector(b, LZT_ROLE_OTHER, 0, c->hidden, "mlp.down_proj.bias");
}

/* One expert's three matrices under its own names. */
static void add_expert(builder *b, uint64_t e, const char *path, const char *gate, const char *up, const char *down)
{
    const lzt__model_config *c = b->c;
    layer_name layer = name_of_layer(b);
    const uint64_t wide[3] = {c->expert_intermediate, c->hidden}, narrow[3] = {c->hidden, c->expert_intermediate};
    unsigned long long index = e;
    add(b, LZT_ROLE_OTHER, EXPERT | MATRIX, 2, wide, "%s%s.%llu.%s.weight", layer.text, path, index, gate);
    add(b, LZT_ROLE_OTHER, EXPERT | MATRIX | JOINED, 2, wide, "%s%s.%llu.%s.weight", layer.text, path, index, up);
    add(b, LZT_ROLE_OTHER, EXPERT | MATRIX, 2, narrow, "%s%s.%llu.%s.weight", layer.text, path, index, down);
}

static void stacked(builder *b, int flags, uint64_t rows, uint64_t columns, const char *suffix)
{
    add(b, LZT_ROLE_OTHER, EXPERT | flags, 3, (uint64_t[3]){b->c->expert_count, rows, columns}, "%s%s",
        name_of_layer(b).text, suffix);
}

/* gpt-oss stores all experts of a layer together, transposed, with biases. */
static void add_gpt_oss_experts(builder *b)
{
    const lzt__model_config *c = b->c;
    uint64_t wide = 2 * c->expert_intermediate, experts = c->expert_count;
    layer_name layer = name_of_layer(b);
    matrix(b, LZT_ROLE_OTHER, 0, experts, c->hidden, "mlp.router.weight");
    vector(b, LZT_ROLE_OTHER, 0, experts, "mlp.router.bias");
    stacked(b, MATRIX, c->hidden, wide, "mlp.experts.gate_up_proj");
    add(b, LZT_ROLE_OTHER, EXPERT, 2, (uint64_t[3]){experts, wide}, "%smlp.experts.gate_up_proj_bias", layer.text);
    stacked(b, MATRIX, c->expert_intermediate, c->hidden, "mlp.experts.down_proj");
    add(b, LZT_ROLE_OTHER, EXPERT, 2, (uint64_t[3]){experts, c->hidden}, "%smlp.experts.down_proj_bias", layer.text);
}

static void add_shared_expert(builder *b)
{
    const lzt__model_config *c = b->c;
    uint64_t width = c->shared_intermediate;
    bool deepseek = c->arch == LZT_ARCH_DEEPSEEK_V3;
    matrix(b, LZT_ROLE_OTHER, 0, width, c->hidden,
           deepseek ? "mlp.shared_experts.gate_proj.weight" : "mlp.shared_expert.gate_proj.weight");
    matrix(b, LZT_ROLE_OTHER, JOINED, width, c->hidden,
           deepseek ? "mlp.shared_experts.up_proj.weight" : "mlp.shared_expert.up_proj.weight");
    matrix(b, LZT_ROLE_OTHER, 0, c->hidden, width,
           deepseek ? "mlp.shared_experts.down_proj.weight" : "mlp.shared_expert.down_proj.weight");
    if (!deepseek) matrix(b, LZT_ROLE_OTHER, 0, 1, c->hidden, "mlp.shared_expert_gate.weight");
}

static void add_sparse_mlp(builder *b)
{
    const lzt__model_config *c = b->c;
    if (c->arch == LZT_ARCH_GPT_OSS) {
        add_gpt_oss_experts(b);
        return;
    }
    bool mixtral = c->arch == LZT_ARCH_MIXTRAL;
    matrix(b, LZT_ROLE_OTHER, 0, c->expert_count, c->hidden,
           mixtral ? "block_sparse_moe.gate.weight" : "mlp.gate.weight");
    if (b->spelling->fused_experts) {
        stacked(b, MATRIX, 2 * c->expert_intermediate, c->hidden, "mlp.experts.gate_up_proj");
        stacked(b, MATRIX, c->hidden, c->expert_intermediate, "mlp.experts.down_proj");
    } else {
        for (uint64_t e = 0; e < c->expert_count && !b->status; e++) {
            if (mixtral)
                add_expert(b, e, "block_sparse_moe.experts", "w1", "w3", "w2");
            else
                add_expert(b, e, "mlp.experts", "gate_proj", "up_proj", "down_proj");
        }
    }
    if (c->shared_intermediate) add_shared_expert(b);
}

static void open_unit(builder *b, int32_t layer)
{
    b->layer = layer;
    b->parameters = b->expert_parameters = b->whole_matrices = b->expert_matrices = 0;
    b->t->unit[b->t->unit_count++] = (lzt_unit){.first_tensor = b->t->tensor_count, .layer = layer};
}

static uint64_t active_share(const builder *b, uint64_t expert_parameters)
{
    if (!expert_parameters) return 0;
    __uint128_t product = (__uint128_t)expert_parameters * b->c->experts_per_token;
    return (uint64_t)(product / b->c->expert_count);
}

static void close_unit(builder *b)
{
    if (b->status) return;
    lzt_unit *unit = &b->t->unit[b->t->unit_count - 1];
    unit->element_count = align_up(unit->element_count);
    uint64_t active = b->parameters - b->expert_parameters + active_share(b, b->expert_parameters);
    b->t->parameters += b->parameters;
    b->t->parameters_active += active;
    if (b->layer < 0) return;
    const lzt__model_layer_shape *shape = &b->c->layer[b->layer];
    uint64_t matrices = b->whole_matrices + active_share(b, b->expert_matrices);
    b->t->layer[b->layer] = (lzt_layer){.kind = shape->kind,
                                        .unit = b->t->unit_count - 1,
                                        .parameters = b->parameters,
                                        .parameters_active = active,
                                        .window = shape->window,
                                        .forward_flops_per_token = 2.0 * (double)matrices};
}

static void add_layer(builder *b, uint64_t index)
{
    const lzt__model_config *c = b->c;
    open_unit(b, (int32_t)index);
    vector(b, LZT_ROLE_INPUT_NORM, 0, c->hidden, "input_layernorm.weight");
    if (c->layer[index].kind == LZT_LAYER_LINEAR_ATTENTION)
        add_linear_attention(b);
    else if (c->arch == LZT_ARCH_DEEPSEEK_V3)
        add_latent_attention(b);
    else
        add_attention(b);
    /* Gemma 3 norms what comes out of attention and of the MLP too, and calls the norm before the MLP otherwise. */
    bool gemma = c->arch == LZT_ARCH_GEMMA3;
    vector(b, gemma ? LZT_ROLE_OTHER : LZT_ROLE_POST_NORM, 0, c->hidden, "post_attention_layernorm.weight");
    if (gemma) vector(b, LZT_ROLE_POST_NORM, 0, c->hidden, "pre_feedforward_layernorm.weight");
    if (c->layer[index].sparse)
        add_sparse_mlp(b);
    else
        add_dense_mlp(b);
    if (gemma) vector(b, LZT_ROLE_OTHER, 0, c->hidden, "post_feedforward_layernorm.weight");
    close_unit(b);
}

lzt__model_spelling lzt__model_spelling_default(const lzt__model_config *config)
{
    bool gemma = config->arch == LZT_ARCH_GEMMA3;
    lzt__model_spelling plain = {"model.", "lm_head.weight", config->arch == LZT_ARCH_QWEN3_5_MOE};
    if (config->wrapped) plain.prefix = gemma ? "language_model.model." : "model.language_model.";
    if (config->wrapped && gemma) plain.head = "language_model.lm_head.weight";
    return plain;
}

lzt_status lzt__model_tables_build(const lzt__model_config *config, const lzt__model_spelling *spelling,
                                   const char *where, lzt__model_tables *tables, lzt_error *err)
{
    memset(tables, 0, sizeof *tables);
    builder b = {.c = config, .spelling = spelling, .t = tables, .where = where, .err = err};
    tables->layer_count = config->layer_count;
    tables->layer = calloc(config->layer_count, sizeof *tables->layer);
    tables->unit = calloc(config->layer_count + 3, sizeof *tables->unit);
    if (!tables->layer || !tables->unit) no_memory(&b);
    if (b.status) goto out;
    const uint64_t table[3] = {config->vocabulary, config->hidden};
    open_unit(&b, -1);
    add(&b, LZT_ROLE_EMBED, 0, 2, table, "%sembed_tokens.weight", spelling->prefix);
    close_unit(&b);
    for (uint64_t i = 0; i < config->layer_count && !b.status; i++) add_layer(&b, i);
    if (b.status) goto out;
    open_unit(&b, -1);
    add(&b, LZT_ROLE_FINAL_NORM, 0, 1, (uint64_t[3]){config->hidden}, "%snorm.weight", spelling->prefix);
    close_unit(&b);
    if (!config->tied) {
        open_unit(&b, -1);
        add(&b, LZT_ROLE_HEAD, 0, 2, table, "%s", spelling->head);
        close_unit(&b);
    }
out:
    if (b.status) lzt__model_tables_fini(tables);
    return b.status;
}

void lzt__model_tables_fini(lzt__model_tables *tables)
{
    for (uint32_t i = 0; i < tables->tensor_count; i++) free((char *)(uintptr_t)tables->tensor[i].name);
    free(tables->tensor);
    free(tables->layer);
    free(tables->unit);
    memset(tables, 0, sizeof *tables);
}
