/* Sizes and operations of a decoder layer from its tensors: contract in lazytrain/model.h. */
#include "lazytrain/model.h"

#include <assert.h>
#include <string.h>

enum { DELTA_CHUNK = 64 };

/* Of the experts' parameters, the share that a token uses. */
static double active_share(const lzt_model_info *model, const lzt_layer *layer)
{
    const lzt_unit *unit = &model->unit[layer->unit];
    double experts = 0, all = (double)layer->parameters;
    for (uint32_t i = 0; i < unit->tensor_count; i++) {
        const lzt_tensor *t = &model->tensor[unit->first_tensor + i];
        if (strstr(t->name, ".experts.")) experts += (double)t->element_count;
    }
    return experts > 0 ? ((double)layer->parameters_active - (all - experts)) / experts : 1;
}

/* Columns of activations that a matrix stands for, with what it makes (projections in) or reads (projections out). */
typedef struct widths {
    double in, out, mlp; /* made from the hidden state; read by the mixer's last product; read by the MLP's last */
    double mixed;        /* channels of a causal convolution */
    double state;        /* elements of a delta layer's state */
} widths;

static void add_matrix(const lzt_model_info *model, const lzt_tensor *t, double share, widths *w)
{
    uint64_t rows = t->shape[t->rank - 2], columns = t->shape[t->rank - 1], hidden = model->hidden;
    double count = strstr(t->name, ".experts.") ? share * (t->rank == 3 ? (double)t->shape[0] : 1) : 1;
    bool down = t->role == LZT_ROLE_DOWN || strstr(t->name, ".down_proj") || strstr(t->name, ".w2.");
    bool back = down || t->role == LZT_ROLE_O || strstr(t->name, ".out_proj");
    double wide =
        (double)(back ? (rows == hidden ? columns : rows) : (columns == hidden || rows != hidden ? rows : columns));
    if (down)
        w->mlp += count * wide;
    else
        *(back ? &w->out : &w->in) += count * wide;
}

static void add_tensor(const lzt_model_info *model, const lzt_tensor *t, double share, widths *w)
{
    if (strstr(t->name, "conv1d")) {
        w->mixed += (double)t->shape[0];
        return;
    }
    bool matrix = t->rank >= 2 && !strstr(t->name, "bias");
    if (matrix) add_matrix(model, t, share, w);
}

/* Heads and head size of a gated delta layer, from the vectors that carry them. */
static double delta_state(const lzt_model_info *model, const lzt_unit *unit)
{
    double heads = 0, size = 0;
    for (uint32_t i = 0; i < unit->tensor_count; i++) {
        const lzt_tensor *t = &model->tensor[unit->first_tensor + i];
        if (strstr(t->name, "linear_attn.A_log")) heads = (double)t->element_count;
        if (strstr(t->name, "linear_attn.norm.")) size = (double)t->element_count;
    }
    return heads * size * size;
}

static double max(double a, double b)
{
    return a > b ? a : b;
}

void lzt_layer_get_size(const lzt_model_info *model, uint32_t index, lzt_dtype dtype, lzt_layer_size *size)
{
    assert(index < model->layer_count);
    const lzt_layer *layer = &model->layer[index];
    const lzt_unit *unit = &model->unit[layer->unit];
    const double e = (double)lzt_dtype_bytes(dtype), hidden = (double)model->hidden;
    const bool attends = layer->kind != LZT_LAYER_LINEAR_ATTENTION;
    const double share = active_share(model, layer);
    widths w = {.state = attends ? 0 : delta_state(model, unit)};
    for (uint32_t i = 0; i < unit->tensor_count; i++)
        add_tensor(model, &model->tensor[unit->first_tensor + i], share, &w);
    double normed = attends && model->qk_norm ? (double)((model->query_heads + model->kv_heads) * model->head_dim) : 0;
    double statistics = 4 * (2 + (attends ? (double)model->query_heads : 0));
    double kept = w.in + w.out + hidden + normed + w.mixed;
    double state = w.state / DELTA_CHUNK;
    size->internals_bytes = kept * e + statistics;
    size->forward_work_bytes = (max(hidden, w.mlp) + state) * e;
    double mixer = w.in - 2 * w.mlp; /* the MLP's gradients take the place of its gate and up */
    size->backward_work_bytes = (max(2 * w.mlp + hidden, max(mixer, 0) + w.out + 3 * hidden) + state) * e;
    size->forward_flops = layer->forward_flops_per_token + 6 * w.state; /* decay, read, write of the state */
    size->forward_pair_flops = attends ? 4 * (double)(model->query_heads * model->head_dim) : 0;
}
