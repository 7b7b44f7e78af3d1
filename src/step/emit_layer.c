/* A decoder layer of the Llama family as tasks, forward and backward.
 *
 *     x ── norm ── qkv ── (q/k norm) ── rope ── attention ── o_proj ─(+x)─ x1 ── norm ── gate,up ── swiglu ── down
 * ─(+x1)─ y
 *
 * Backward recomputes the cheap elementwise results (both norms' outputs, swiglu's) instead of keeping them. It writes
 * some gradients over values that have had their last use: the gate/up gradient over gate/up, an input gradient over
 * the gradient it is made from.
 */
#include "step/emit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

lzt_layer_objects lzt__no_layer_objects(void)
{
    const uint32_t none = LZT_NO_OBJECT;
    return (lzt_layer_objects){none, none, none, none, none, none, none, none, none, none, none, none};
}

uint32_t lzt__layer_internals(lzt_layer_objects *o, uint32_t *field[LZT_INTERNALS])
{
    uint32_t *const all[LZT_INTERNALS] = {&o->rstd1, &o->qkv,   &o->qk, &o->o,    &o->lse,
                                          &o->x1,    &o->rstd2, &o->gu, &o->whole};
    uint32_t count = 0;
    for (int i = 0; i < LZT_INTERNALS; i++)
        if (*all[i] != LZT_NO_OBJECT) field[count++] = all[i];
    return count;
}

uint32_t lzt__rows(lzt_builder *b, uint64_t columns, const char *name, int32_t layer)
{
    return lzt__object(b, LZT_SPACE_DEVICE, b->capacity * columns * b->element_bytes, "%s.L%d", name, layer);
}

static uint32_t float_rows(lzt_builder *b, uint64_t columns, const char *name, int32_t layer)
{
    return lzt__object(b, LZT_SPACE_DEVICE, b->capacity * columns * 4, "%s.L%d", name, layer);
}

/* Begins a compute task whose first operand is the micro-batch descriptor. */
static lzt_task *begin(lzt_builder *b, const lzt_batch_objects *batch, lzt_op op, int32_t layer, const char *name)
{
    lzt_task *task = lzt__task(b, LZT_LANE_COMPUTE, layer, "%s.L%d", name, layer);
    task->op = op;
    task->dim[0] = b->capacity;
    lzt__use_all(b, 0, LZT_ACCESS_READ, batch->descriptor);
    return task;
}

/* The range of tensors first..last of a unit, which lie together, as an operand. */
static void use_weight(lzt_builder *b, int slot, uint32_t weights, const lzt_tensor *first, const lzt_tensor *last)
{
    uint64_t begin = first->unit_offset, end = last->unit_offset + last->element_count;
    lzt__use(b, slot, LZT_ACCESS_READ, weights, begin * b->element_bytes, (end - begin) * b->element_bytes);
}

static void use_gradient(lzt_builder *b, int slot, uint32_t gradients, const lzt_tensor *first, const lzt_tensor *last)
{
    uint64_t begin = first->unit_offset, end = last->unit_offset + last->element_count;
    lzt__use(b, slot, LZT_ACCESS_WRITE, gradients, begin * b->grad_bytes, (end - begin) * b->grad_bytes);
}

/* Columns from `column` on of an object whose rows are wider. */
static void use_columns(lzt_builder *b, int slot, lzt_access access, uint32_t object, uint64_t column)
{
    if (b->failed) return;
    uint64_t skip = column * b->element_bytes;
    lzt__use(b, slot, access, object, skip, b->program->objects[object].bytes - skip);
}

void lzt__emit_rmsnorm(lzt_builder *b, const lzt_batch_objects *batch, int32_t layer, uint32_t x, uint32_t weights,
                       const lzt_tensor *w, uint32_t y, uint32_t rstd, const char *name)
{
    lzt_task *task = begin(b, batch, LZT_OP_RMSNORM_FWD, layer, name);
    task->dim[1] = b->model->hidden;
    task->real[0] = b->model->norm_eps;
    task->real[1] = b->model->norm_zero_centred;
    lzt__use_all(b, 1, LZT_ACCESS_READ, x);
    use_weight(b, 2, weights, w, w);
    lzt__use_all(b, 3, LZT_ACCESS_WRITE, y);
    if (rstd != LZT_NO_OBJECT) lzt__use_all(b, 4, LZT_ACCESS_WRITE, rstd);
    lzt__scratch(b);
}

void lzt__emit_rmsnorm_backward(lzt_builder *b, const lzt_batch_objects *batch, int32_t layer, uint32_t dy, uint32_t x,
                                uint32_t weights, const lzt_tensor *w, uint32_t rstd, uint32_t residual, uint32_t dx,
                                uint32_t gradients, const char *name)
{
    lzt_task *task = begin(b, batch, LZT_OP_RMSNORM_BWD, layer, name);
    task->dim[1] = b->model->hidden;
    task->real[0] = b->model->norm_eps;
    task->real[1] = b->model->norm_zero_centred;
    lzt__use_all(b, 1, LZT_ACCESS_READ, dy);
    lzt__use_all(b, 2, LZT_ACCESS_READ, x);
    use_weight(b, 3, weights, w, w);
    lzt__use_all(b, 4, LZT_ACCESS_READ, rstd);
    if (residual != LZT_NO_OBJECT) lzt__use_all(b, 5, LZT_ACCESS_READ, residual);
    lzt__use_all(b, 6, LZT_ACCESS_WRITE, dx);
    use_gradient(b, 7, gradients, w, w);
    lzt__scratch(b);
}

/* y = x w^T (+ bias) (+ residual); w runs from tensor first to last. */
static void linear(lzt_builder *b, const lzt_batch_objects *batch, int32_t layer, uint32_t x, uint64_t columns_in,
                   uint32_t weights, const lzt_tensor *first, const lzt_tensor *last, const lzt_tensor *bias_first,
                   const lzt_tensor *bias_last, uint32_t residual, uint32_t y, uint64_t columns_out, const char *name)
{
    lzt_task *task = begin(b, batch, LZT_OP_LINEAR_FWD, layer, name);
    task->dim[1] = columns_in;
    task->dim[2] = columns_out;
    task->real[0] = batch->keys != NULL; /* a prompt's token and a new one get the same bits */
    lzt__use_all(b, 1, LZT_ACCESS_READ, x);
    use_weight(b, 2, weights, first, last);
    if (bias_first) use_weight(b, 3, weights, bias_first, bias_last);
    if (residual != LZT_NO_OBJECT) lzt__use_all(b, 4, LZT_ACCESS_READ, residual);
    lzt__use_all(b, 5, LZT_ACCESS_WRITE, y);
    lzt__scratch(b);
}

/* dx = dy w and dw = dy^T x (with the bias), as two tasks. */
static void linear_backward(lzt_builder *b, const lzt_batch_objects *batch, const lzt_layer_objects *o, int32_t layer,
                            uint32_t dy, uint32_t x, uint32_t dx, uint64_t columns_in, uint64_t columns_out,
                            const lzt_tensor *first, const lzt_tensor *last, const lzt_tensor *bias_first,
                            const lzt_tensor *bias_last, const char *name)
{
    char text[64];
    snprintf(text, sizeof text, "%s_dx", name);
    lzt_task *task = begin(b, batch, LZT_OP_LINEAR_BWD_X, layer, text);
    task->dim[1] = columns_in;
    task->dim[2] = columns_out;
    lzt__use_all(b, 1, LZT_ACCESS_READ, dy);
    use_weight(b, 2, o->weights, first, last);
    lzt__use_all(b, 3, LZT_ACCESS_WRITE, dx);
    lzt__scratch(b);
    snprintf(text, sizeof text, "%s_dw", name);
    task = begin(b, batch, LZT_OP_LINEAR_BWD_W, layer, text);
    task->dim[1] = columns_in;
    task->dim[2] = columns_out;
    lzt__use_all(b, 1, LZT_ACCESS_READ, dy);
    lzt__use_all(b, 2, LZT_ACCESS_READ, x);
    use_gradient(b, 3, o->gradients, first, last);
    if (bias_first) use_gradient(b, 4, o->gradients, bias_first, bias_last);
    lzt__scratch(b);
}

static void rope(lzt_builder *b, const lzt_batch_objects *batch, int32_t layer, uint32_t x, uint64_t row_columns,
                 double direction, const char *name)
{
    const lzt_model_info *m = b->model;
    lzt_task *task = begin(b, batch, LZT_OP_ROPE, layer, name);
    task->dim[1] = m->query_heads + m->kv_heads;
    task->dim[2] = m->head_dim;
    task->dim[3] = m->rotary_dim;
    task->dim[4] = row_columns;
    task->real[0] = direction;
    lzt__use_all(b, 1, LZT_ACCESS_READ, batch->rope_table);
    lzt__use_all(b, 2, LZT_ACCESS_READ_WRITE, x);
    lzt__scratch(b);
}

static void head_norm_dims(const lzt_model_info *m, lzt_task *task)
{
    task->dim[1] = m->query_heads;
    task->dim[2] = m->kv_heads;
    task->dim[3] = m->head_dim;
    task->dim[4] = (m->query_heads + 2 * m->kv_heads) * m->head_dim;
    task->real[0] = m->norm_eps;
    task->real[1] = m->norm_zero_centred;
}

static void head_norm(lzt_builder *b, const lzt_batch_objects *batch, uint32_t unit, int32_t layer,
                      const lzt_layer_objects *o, const char *name)
{
    const lzt_tensor *wq = lzt__tensor(b, unit, LZT_ROLE_Q_NORM), *wk = lzt__tensor(b, unit, LZT_ROLE_K_NORM);
    head_norm_dims(b->model, begin(b, batch, LZT_OP_HEAD_NORM_FWD, layer, name));
    lzt__use_all(b, 1, LZT_ACCESS_READ, o->qkv);
    use_weight(b, 2, o->weights, wq, wq);
    use_weight(b, 3, o->weights, wk, wk);
    lzt__use_all(b, 4, LZT_ACCESS_WRITE, o->qk);
    lzt__scratch(b);
}

static double attention_scale(const lzt_model_info *m)
{
    return 1.0 / sqrt((double)m->head_dim);
}

/* Where attention finds queries, keys and values: the column of each and the row strides. */
typedef struct attention_view {
    uint32_t qk;
    uint64_t qk_columns, v_columns, k_at, v_at;
} attention_view;

static attention_view view_of(const lzt_model_info *m, const lzt_layer_objects *o)
{
    uint64_t q = m->query_heads * m->head_dim, k = m->kv_heads * m->head_dim;
    attention_view view = {.qk = m->qk_norm ? o->qk : o->qkv, .v_columns = q + 2 * k, .k_at = q, .v_at = q + k};
    view.qk_columns = m->qk_norm ? q + k : q + 2 * k;
    return view;
}

static void attention(lzt_builder *b, const lzt_batch_objects *batch, int32_t layer, const lzt_layer_objects *o,
                      const char *name)
{
    const lzt_model_info *m = b->model;
    attention_view view = view_of(m, o);
    lzt_task *task = begin(b, batch, LZT_OP_ATTENTION_FWD, layer, name);
    uint64_t dim[] = {b->capacity,    m->query_heads,         m->kv_heads,
                      m->head_dim,    view.qk_columns,        view.qk_columns,
                      view.v_columns, m->layer[layer].window, b->plan->numerics.attention_tile};
    memcpy(task->dim, dim, sizeof dim);
    task->real[0] = attention_scale(m);
    task->real[1] = batch->keys != NULL;
    use_columns(b, 1, LZT_ACCESS_READ, view.qk, 0);
    use_columns(b, 2, LZT_ACCESS_READ, view.qk, view.k_at);
    use_columns(b, 3, LZT_ACCESS_READ, o->qkv, view.v_at);
    lzt__use_all(b, 4, LZT_ACCESS_WRITE, o->o);
    lzt__use_all(b, 5, LZT_ACCESS_WRITE, o->lse);
    lzt__scratch(b);
}

/* The batch's keys and values to their places in the layer's cache. */
static void cache_store(lzt_builder *b, const lzt_batch_objects *batch, int32_t layer, const lzt_layer_objects *o,
                        const char *pass)
{
    const lzt_model_info *m = b->model;
    attention_view view = view_of(m, o);
    char name[48];
    snprintf(name, sizeof name, "%s.cache_store", pass);
    lzt_task *task = begin(b, batch, LZT_OP_CACHE_STORE, layer, name);
    uint64_t dim[] = {b->capacity,    m->kv_heads * m->head_dim,   view.qk_columns,
                      view.v_columns, b->options->cache.sequences, b->options->cache.length};
    memcpy(task->dim, dim, sizeof dim);
    use_columns(b, 1, LZT_ACCESS_READ, view.qk, view.k_at);
    use_columns(b, 2, LZT_ACCESS_READ, o->qkv, view.v_at);
    lzt__use_all(b, 3, LZT_ACCESS_READ_WRITE, batch->keys[layer]); /* the rest of it stays */
    lzt__use_all(b, 4, LZT_ACCESS_READ_WRITE, batch->values[layer]);
    lzt__scratch(b);
}

static void attention_cached(lzt_builder *b, const lzt_batch_objects *batch, int32_t layer, const lzt_layer_objects *o,
                             const char *name)
{
    const lzt_model_info *m = b->model;
    attention_view view = view_of(m, o);
    lzt_task *task = begin(b, batch, LZT_OP_ATTENTION_CACHED, layer, name);
    uint64_t dim[] = {b->capacity,
                      m->query_heads,
                      m->kv_heads,
                      m->head_dim,
                      view.qk_columns,
                      b->options->cache.sequences,
                      b->options->cache.length,
                      m->layer[layer].window};
    memcpy(task->dim, dim, sizeof dim);
    task->real[0] = attention_scale(m);
    use_columns(b, 1, LZT_ACCESS_READ, view.qk, 0);
    lzt__use_all(b, 2, LZT_ACCESS_READ, batch->keys[layer]);
    lzt__use_all(b, 3, LZT_ACCESS_READ, batch->values[layer]);
    lzt__use_all(b, 4, LZT_ACCESS_WRITE, o->o);
    lzt__scratch(b);
}

static void attention_backward(lzt_builder *b, const lzt_batch_objects *batch, int32_t layer,
                               const lzt_layer_objects *o, uint32_t d_o, uint32_t dqkv)
{
    const lzt_model_info *m = b->model;
    attention_view view = view_of(m, o);
    lzt_task *task = begin(b, batch, LZT_OP_ATTENTION_BWD, layer, "bwd.attention");
    uint64_t dim[] = {b->capacity,    m->query_heads,         m->kv_heads,
                      m->head_dim,    view.qk_columns,        view.v_columns,
                      view.v_columns, m->layer[layer].window, b->plan->numerics.attention_tile};
    memcpy(task->dim, dim, sizeof dim);
    task->real[0] = attention_scale(m);
    use_columns(b, 1, LZT_ACCESS_READ, view.qk, 0);
    use_columns(b, 2, LZT_ACCESS_READ, view.qk, view.k_at);
    use_columns(b, 3, LZT_ACCESS_READ, o->qkv, view.v_at);
    lzt__use_all(b, 4, LZT_ACCESS_READ, o->o);
    lzt__use_all(b, 5, LZT_ACCESS_READ, o->lse);
    lzt__use_all(b, 6, LZT_ACCESS_READ, d_o);
    use_columns(b, 7, LZT_ACCESS_WRITE, dqkv, 0);
    use_columns(b, 8, LZT_ACCESS_WRITE, dqkv, view.k_at);
    use_columns(b, 9, LZT_ACCESS_WRITE, dqkv, view.v_at);
    lzt__scratch(b);
}

/* n = rmsnorm(x), then the fused q,k,v product; rotation (and q/k norm) on top. */
static void emit_attention_half(lzt_builder *b, const lzt_batch_objects *batch, uint32_t layer, lzt_layer_objects *o,
                                const char *pass)
{
    const lzt_model_info *m = b->model;
    uint32_t unit = m->layer[layer].unit;
    int32_t l = (int32_t)layer;
    uint64_t q = m->query_heads * m->head_dim, k = m->kv_heads * m->head_dim;
    char name[48];
    uint32_t n1 = lzt__rows(b, m->hidden, "n1", l);
    o->rstd1 = float_rows(b, 1, "rstd1", l);
    snprintf(name, sizeof name, "%s.norm1", pass);
    lzt__emit_rmsnorm(b, batch, l, o->x, o->weights, lzt__tensor(b, unit, LZT_ROLE_INPUT_NORM), n1, o->rstd1, name);
    o->qkv = lzt__rows(b, q + 2 * k, "qkv", l);
    snprintf(name, sizeof name, "%s.qkv", pass);
    linear(b, batch, l, n1, m->hidden, o->weights, lzt__tensor(b, unit, LZT_ROLE_Q), lzt__tensor(b, unit, LZT_ROLE_V),
           lzt__tensor(b, unit, LZT_ROLE_Q_BIAS), lzt__tensor(b, unit, LZT_ROLE_V_BIAS), LZT_NO_OBJECT, o->qkv,
           q + 2 * k, name);
    o->qk = LZT_NO_OBJECT;
    if (m->qk_norm) {
        o->qk = lzt__rows(b, q + k, "qk", l);
        snprintf(name, sizeof name, "%s.head_norm", pass);
        head_norm(b, batch, unit, l, o, name);
    }
    snprintf(name, sizeof name, "%s.rope", pass);
    rope(b, batch, l, m->qk_norm ? o->qk : o->qkv, m->qk_norm ? q + k : q + 2 * k, 1.0, name);
    if (batch->keys) cache_store(b, batch, l, o, pass);
    o->o = lzt__rows(b, q, "o", l);
    snprintf(name, sizeof name, "%s.attention", pass);
    if (batch->cached) {
        attention_cached(b, batch, l, o, name);
    } else {
        o->lse = float_rows(b, m->query_heads, "lse", l);
        attention(b, batch, l, o, name);
    }
    o->x1 = lzt__rows(b, m->hidden, "x1", l);
    snprintf(name, sizeof name, "%s.o_proj", pass);
    const lzt_tensor *wo = lzt__tensor(b, unit, LZT_ROLE_O);
    linear(b, batch, l, o->o, q, o->weights, wo, wo, NULL, NULL, o->x, o->x1, m->hidden, name);
}

uint32_t lzt__emit_layer_forward(lzt_builder *b, const lzt_batch_objects *batch, uint32_t layer, lzt_layer_objects *o,
                                 bool output, const char *pass)
{
    const lzt_model_info *m = b->model;
    if (lzt__layer_is_whole(m))
        return lzt__emit_whole_forward(b, batch, layer, o,
                                       b->plan->internals[layer] != LZT_TIER_RECOMPUTE && pass[0] == 'f', pass);
    uint32_t unit = m->layer[layer].unit, first_task = b->program->info.task_count;
    int32_t l = (int32_t)layer;
    char name[48];
    emit_attention_half(b, batch, layer, o, pass);
    if (!b->failed) b->program->tasks[first_task].layer_forward = true;
    b->program->info.layer_forwards++;
    uint32_t n2 = lzt__rows(b, m->hidden, "n2", l);
    o->rstd2 = float_rows(b, 1, "rstd2", l);
    snprintf(name, sizeof name, "%s.norm2", pass);
    lzt__emit_rmsnorm(b, batch, l, o->x1, o->weights, lzt__tensor(b, unit, LZT_ROLE_POST_NORM), n2, o->rstd2, name);
    o->gu = lzt__rows(b, 2 * m->intermediate, "gu", l);
    snprintf(name, sizeof name, "%s.gate_up", pass);
    linear(b, batch, l, n2, m->hidden, o->weights, lzt__tensor(b, unit, LZT_ROLE_GATE),
           lzt__tensor(b, unit, LZT_ROLE_UP), NULL, NULL, LZT_NO_OBJECT, o->gu, 2 * m->intermediate, name);
    if (!output) return LZT_NO_OBJECT;
    uint32_t s = lzt__rows(b, m->intermediate, "s", l);
    snprintf(name, sizeof name, "%s.swiglu", pass);
    begin(b, batch, LZT_OP_SWIGLU_FWD, l, name)->dim[1] = m->intermediate;
    lzt__use_all(b, 1, LZT_ACCESS_READ, o->gu);
    lzt__use_all(b, 2, LZT_ACCESS_WRITE, s);
    lzt__scratch(b);
    uint32_t y = lzt__rows(b, m->hidden, "x", l + 1);
    snprintf(name, sizeof name, "%s.down", pass);
    const lzt_tensor *down = lzt__tensor(b, unit, LZT_ROLE_DOWN);
    linear(b, batch, l, s, m->intermediate, o->weights, down, down, NULL, NULL, o->x1, y, m->hidden, name);
    return y;
}

/* From dy back to the gradient of x1. */
static uint32_t emit_mlp_backward(lzt_builder *b, const lzt_batch_objects *batch, uint32_t layer,
                                  const lzt_layer_objects *o, uint32_t dy)
{
    const lzt_model_info *m = b->model;
    uint32_t unit = m->layer[layer].unit;
    int32_t l = (int32_t)layer;
    const lzt_tensor *down = lzt__tensor(b, unit, LZT_ROLE_DOWN), *norm = lzt__tensor(b, unit, LZT_ROLE_POST_NORM);
    uint32_t s = lzt__rows(b, m->intermediate, "s", l), ds = lzt__rows(b, m->intermediate, "ds", l);
    begin(b, batch, LZT_OP_SWIGLU_FWD, l, "bwd.swiglu_again")->dim[1] = m->intermediate;
    lzt__use_all(b, 1, LZT_ACCESS_READ, o->gu);
    lzt__use_all(b, 2, LZT_ACCESS_WRITE, s);
    lzt__scratch(b);
    linear_backward(b, batch, o, l, dy, s, ds, m->intermediate, m->hidden, down, down, NULL, NULL, "bwd.down");
    begin(b, batch, LZT_OP_SWIGLU_BWD, l, "bwd.swiglu")->dim[1] = m->intermediate;
    lzt__use_all(b, 1, LZT_ACCESS_READ, o->gu);
    lzt__use_all(b, 2, LZT_ACCESS_READ, ds);
    lzt__use_all(b, 3, LZT_ACCESS_WRITE, o->gu);
    lzt__scratch(b);
    uint32_t n2 = lzt__rows(b, m->hidden, "n2", l), dn2 = lzt__rows(b, m->hidden, "dn2", l);
    lzt__emit_rmsnorm(b, batch, l, o->x1, o->weights, norm, n2, LZT_NO_OBJECT, "bwd.norm2_again");
    linear_backward(b, batch, o, l, o->gu, n2, dn2, m->hidden, 2 * m->intermediate, lzt__tensor(b, unit, LZT_ROLE_GATE),
                    lzt__tensor(b, unit, LZT_ROLE_UP), NULL, NULL, "bwd.gate_up");
    lzt__emit_rmsnorm_backward(b, batch, l, dn2, o->x1, o->weights, norm, o->rstd2, dy, dn2, o->gradients, "bwd.norm2");
    return dn2;
}

uint32_t lzt__emit_layer_backward(lzt_builder *b, const lzt_batch_objects *batch, uint32_t layer, lzt_layer_objects *o,
                                  uint32_t dy)
{
    const lzt_model_info *m = b->model;
    if (lzt__layer_is_whole(m)) return lzt__emit_whole_backward(b, batch, layer, o, dy);
    uint32_t unit = m->layer[layer].unit;
    int32_t l = (int32_t)layer;
    uint64_t q = m->query_heads * m->head_dim, k = m->kv_heads * m->head_dim;
    uint32_t dx1 = emit_mlp_backward(b, batch, layer, o, dy);
    const lzt_tensor *wo = lzt__tensor(b, unit, LZT_ROLE_O), *norm = lzt__tensor(b, unit, LZT_ROLE_INPUT_NORM);
    uint32_t d_o = lzt__rows(b, q, "do", l), dqkv = lzt__rows(b, q + 2 * k, "dqkv", l);
    linear_backward(b, batch, o, l, dx1, o->o, d_o, q, m->hidden, wo, wo, NULL, NULL, "bwd.o_proj");
    attention_backward(b, batch, l, o, d_o, dqkv);
    rope(b, batch, l, dqkv, q + 2 * k, -1.0, "bwd.rope");
    if (m->qk_norm) {
        const lzt_tensor *wq = lzt__tensor(b, unit, LZT_ROLE_Q_NORM), *wk = lzt__tensor(b, unit, LZT_ROLE_K_NORM);
        head_norm_dims(m, begin(b, batch, LZT_OP_HEAD_NORM_BWD, l, "bwd.head_norm"));
        lzt__use_all(b, 1, LZT_ACCESS_READ_WRITE, dqkv);
        lzt__use_all(b, 2, LZT_ACCESS_READ, o->qkv);
        use_weight(b, 3, o->weights, wq, wq);
        use_weight(b, 4, o->weights, wk, wk);
        use_gradient(b, 5, o->gradients, wq, wq);
        use_gradient(b, 6, o->gradients, wk, wk);
        lzt__scratch(b);
    }
    uint32_t n1 = lzt__rows(b, m->hidden, "n1", l), dn1 = lzt__rows(b, m->hidden, "dn1", l);
    lzt__emit_rmsnorm(b, batch, l, o->x, o->weights, norm, n1, LZT_NO_OBJECT, "bwd.norm1_again");
    linear_backward(b, batch, o, l, dqkv, n1, dn1, m->hidden, q + 2 * k, lzt__tensor(b, unit, LZT_ROLE_Q),
                    lzt__tensor(b, unit, LZT_ROLE_V), lzt__tensor(b, unit, LZT_ROLE_Q_BIAS),
                    lzt__tensor(b, unit, LZT_ROLE_V_BIAS), "bwd.qkv");
    lzt__emit_rmsnorm_backward(b, batch, l, dn1, o->x, o->weights, norm, o->rstd1, dx1, dn1, o->gradients, "bwd.norm1");
    return dn1;
}
