/* From a plan to a program: walks the stages of a micro-batch and emits every task in program order.
 *
 * Where a task stands in program order decides two things: what its reads mean, and how long the objects it touches
 * live. So prefetching is emitting an upload some stages before its use, and letting a download run beside later
 * compute is emitting it some stages after its source was made (its source then lives that long). Lanes take it from
 * there.
 */
#include "step/emit.h"
#include "step/stages.h"

#include <assert.h>
#include <stdlib.h>

enum { HEAD_PIECES = 8, DEFERRED_MAX = 64 };

/* A task that is to be emitted at the end of a later stage. */
typedef struct deferred {
    enum { DEFER_BOUNDARY, DEFER_INTERNALS, DEFER_GRADIENT, DEFER_ADD } kind;
    uint32_t due_stage;
    uint32_t index; /* boundary, layer, or unit */
    uint32_t object;
    uint64_t begin, count; /* elements, for gradients */
    bool complete;         /* the unit's gradient is whole once this is on the host */
} deferred;

typedef struct compiler {
    lzt_builder b;
    lzt_stage_list stages;
    lzt_batch_objects batch;
    bool training, overwrite, take_norm, update;
    bool generating;            /* PREFILL, DECODE */
    bool weights_stay, present; /* kept weights outlive the program; they are there already */
    uint32_t stage;             /* in hand */
    uint32_t next_upload, uploads_ahead;
    uint32_t *device_unit;              /* [units] weights on the device, or LZT_NO_OBJECT */
    uint32_t *boundary, *boundary_host; /* [N+1] */
    lzt_layer_objects *layer;           /* [N] internals that are not made again, where they are now */
    lzt_move *move;                     /* [N] on their way between device and host */
    uint32_t internals_to_leave;        /* layers whose internals have yet to go down to the host */
    bool *updated;                      /* [units] the pending optimizer step has been emitted */
    deferred queue[DEFERRED_MAX];
    uint32_t queue_count;
    uint32_t *keys, *values; /* [N] the cache */
    uint64_t device_base;    /* bytes of the cache and of kept weights that outlive the program */
    /* persistent host objects */
    uint32_t *weight, *low, *gradient, *exp_avg, *exp_avg_sq; /* [units] */
    uint32_t descriptor, ids, inv_freq, current, pending, partials, result, logits;
} compiler;

/* ---- persistent objects ---- */

static uint32_t host(compiler *c, uint64_t offset, uint64_t bytes, const char *name, int unit)
{
    return lzt__persistent(&c->b, LZT_SPACE_HOST, offset, bytes, "%s.U%d", name, unit);
}

static void add_state(compiler *c)
{
    const lzt_state_layout *layout = c->b.options->layout;
    uint64_t T = c->b.capacity;
    for (uint32_t u = 0; u < layout->unit_count; u++) {
        const lzt_state_unit *s = &layout->unit[u];
        uint64_t n = s->element_count;
        c->weight[u] = host(c, s->weight_offset, n * c->b.element_bytes, "weight", (int)u);
        if (!layout->training) continue;
        c->low[u] = c->b.dtype == LZT_DTYPE_BF16 ? host(c, s->low_offset, n * 2, "low", (int)u) : LZT_NO_OBJECT;
        c->gradient[u] = host(c, s->gradient_offset, n * c->b.grad_bytes, "gradient", (int)u);
        c->exp_avg[u] = host(c, s->exp_avg_offset, n * 4, "exp_avg", (int)u);
        c->exp_avg_sq[u] = host(c, s->exp_avg_sq_offset, n * 4, "exp_avg_sq", (int)u);
    }
    c->descriptor = host(c, layout->descriptor_offset, lzt_batch_bytes(T), "descriptor", -1);
    c->ids = host(c, layout->ids_offset, 4 * (1 + T), "ids", -1);
    c->inv_freq = host(c, layout->inv_freq_offset, c->b.model->rotary_dim / 2 * 4, "inv_freq", -1);
    c->current = host(c, layout->current_offset, sizeof(lzt_step_scalars), "scalars.current", -1);
    c->pending = host(c, layout->pending_offset, sizeof(lzt_step_scalars), "scalars.pending", -1);
    c->partials = host(c, layout->partials_offset, sizeof(double) * layout->unit_count, "partials", -1);
    c->result = host(c, layout->result_offset, 64 + 4 * T, "result", -1);
    c->logits = host(c, layout->logits_offset, 4 * c->b.model->vocabulary, "logits", -1);
}

static uint64_t align(uint64_t bytes)
{
    return (bytes + LZT_DEV_ALIGNMENT - 1) / LZT_DEV_ALIGNMENT * LZT_DEV_ALIGNMENT;
}

static uint32_t head_unit(const compiler *c)
{
    return c->b.model->tied ? 0 : (uint32_t)c->b.model->layer_count + 2;
}

/* The cache lies below everything else, in the same place for PREFILL and DECODE. */
static void add_cache(compiler *c)
{
    const lzt_cache_shape *shape = &c->b.options->cache;
    const lzt_model_info *m = c->b.model;
    uint64_t bytes = shape->sequences * shape->length * m->kv_heads * m->head_dim * c->b.element_bytes;
    for (uint32_t l = 0; c->generating && l < m->layer_count; l++) {
        c->keys[l] = lzt__persistent(&c->b, LZT_SPACE_DEVICE, c->device_base, bytes, "keys.L%u", (unsigned)l);
        c->device_base += align(bytes);
        c->values[l] = lzt__persistent(&c->b, LZT_SPACE_DEVICE, c->device_base, bytes, "values.L%u", (unsigned)l);
        c->device_base += align(bytes);
    }
    if (!c->generating) return;
    c->batch.keys = c->keys;
    c->batch.values = c->values;
    c->batch.cached = c->b.options->variant == LZT_VARIANT_DECODE;
}

/* With several micro-batches a step, and in generation, kept weights have places below all transient objects. */
static void add_kept_weights(compiler *c)
{
    const lzt_plan *plan = c->b.plan;
    if (!c->weights_stay) return;
    for (uint32_t l = 0; l <= plan->layer_count; l++) {
        bool is_head = l == plan->layer_count;
        if (!(is_head ? plan->head_weights : plan->weights[l])) continue;
        uint32_t unit = is_head ? head_unit(c) : c->b.model->layer[l].unit;
        uint64_t bytes = c->b.model->unit[unit].element_count * c->b.element_bytes;
        c->device_unit[unit] =
            lzt__persistent(&c->b, LZT_SPACE_DEVICE, c->device_base, bytes, "kept.U%u", (unsigned)unit);
        c->device_base += align(bytes);
    }
}

/* ---- the optimizer ---- */

static bool is_frozen(const compiler *c, uint32_t tensor)
{
    return c->b.options->frozen && c->b.options->frozen[tensor];
}

/* The elements of a unit from a tensor that is trained to the next one that is not; *tensor moves on. False: none is
 * left. A unit without frozen tensors is one such stretch. */
static bool next_trained(const compiler *c, uint32_t unit, uint32_t *tensor, uint64_t *begin, uint64_t *count)
{
    const lzt_unit *u = &c->b.model->unit[unit];
    uint32_t end = u->first_tensor + u->tensor_count, i = *tensor;
    while (i < end && is_frozen(c, i)) i++;
    if (i == end) return false;
    *begin = c->b.model->tensor[i].unit_offset;
    while (i < end && !is_frozen(c, i)) i++;
    *tensor = i;
    *count = (i < end ? c->b.model->tensor[i].unit_offset : u->element_count) - *begin;
    return true;
}

static uint64_t trained_elements(const compiler *c, uint32_t unit)
{
    uint32_t tensor = c->b.model->unit[unit].first_tensor;
    uint64_t begin, count, sum = 0;
    while (next_trained(c, unit, &tensor, &begin, &count)) sum += count;
    return sum;
}

/* The trained elements of one of a unit's arrays; the first stretch has the pointer. */
static void use_trained(compiler *c, uint32_t unit, int slot, lzt_access access, uint32_t object,
                        uint64_t element_bytes)
{
    uint32_t tensor = c->b.model->unit[unit].first_tensor;
    uint64_t begin, count;
    for (int at = slot; next_trained(c, unit, &tensor, &begin, &count); at = LZT_SLOT_RANGE)
        lzt__use(&c->b, at, access, object, begin * element_bytes, count * element_bytes);
}

static void emit_update(compiler *c, uint32_t unit)
{
    if (!c->update || c->updated[unit]) return;
    c->updated[unit] = true;
    lzt_builder *b = &c->b;
    uint64_t elements = trained_elements(c, unit);
    if (!elements) return;
    lzt_task *task = lzt__task(b, LZT_LANE_CPU_OPTIMIZER, b->model->unit[unit].layer, "adamw.U%u", (unsigned)unit);
    task->host_op = LZT_HOST_ADAMW;
    task->iteration = -1;
    task->dim[0] = unit;
    task->dim[1] = elements;
    use_trained(c, unit, 0, LZT_ACCESS_READ, c->gradient[unit], b->grad_bytes);
    use_trained(c, unit, 1, LZT_ACCESS_READ_WRITE, c->weight[unit], b->element_bytes);
    if (c->low[unit] != LZT_NO_OBJECT) use_trained(c, unit, 2, LZT_ACCESS_READ_WRITE, c->low[unit], 2);
    use_trained(c, unit, 3, LZT_ACCESS_READ_WRITE, c->exp_avg[unit], 4);
    use_trained(c, unit, 4, LZT_ACCESS_READ_WRITE, c->exp_avg_sq[unit], 4);
    lzt__use_all(b, 5, LZT_ACCESS_READ, c->pending);
}

static void emit_norm(compiler *c, uint32_t unit)
{
    uint64_t elements = trained_elements(c, unit);
    if (!c->take_norm || !elements) return; /* the partial sum of a frozen unit stays 0 */
    lzt_builder *b = &c->b;
    lzt_task *task = lzt__task(b, LZT_LANE_CPU_OPTIMIZER, b->model->unit[unit].layer, "norm.U%u", (unsigned)unit);
    task->host_op = LZT_HOST_NORM;
    task->dim[0] = unit;
    task->dim[1] = elements;
    use_trained(c, unit, 0, LZT_ACCESS_READ, c->gradient[unit], b->grad_bytes);
    lzt__use(b, 1, LZT_ACCESS_WRITE, c->partials, 8 * (uint64_t)unit, 8);
}

static void emit_clip(compiler *c)
{
    if (!c->take_norm) return;
    lzt_task *task = lzt__task(&c->b, LZT_LANE_CPU_OPTIMIZER, -1, "clip");
    task->host_op = LZT_HOST_CLIP;
    task->dim[0] = c->b.model->unit_count;
    lzt__use_all(&c->b, 0, LZT_ACCESS_READ, c->partials);
    lzt__use_all(&c->b, 1, LZT_ACCESS_READ_WRITE, c->current);
}

/* ---- gradients on their way to the host ---- */

static void defer(compiler *c, deferred d)
{
    assert(c->queue_count < DEFERRED_MAX);
    c->queue[c->queue_count++] = d;
}

static void emit_add(compiler *c, const deferred *d)
{
    lzt_builder *b = &c->b;
    int32_t layer = b->model->unit[d->index].layer;
    lzt_task *task = lzt__task(b, LZT_LANE_CPU_OPTIMIZER, layer, "add.U%u", (unsigned)d->index);
    task->host_op = LZT_HOST_ADD;
    task->dim[0] = d->count;
    lzt__use_all(b, 0, LZT_ACCESS_READ, d->object);
    lzt__use(b, 1, LZT_ACCESS_READ_WRITE, c->gradient[d->index], d->begin * b->grad_bytes, d->count * b->grad_bytes);
    if (d->complete) emit_norm(c, d->index);
}

/* The first micro-batch of a step lands its gradients in place; later ones go through a slab and are added. */
static void emit_gradient_download(compiler *c, const deferred *d)
{
    lzt_builder *b = &c->b;
    int32_t layer = b->model->unit[d->index].layer;
    uint64_t bytes = d->count * b->grad_bytes, at = d->begin * b->grad_bytes;
    if (c->overwrite) {
        lzt__copy(b, LZT_LANE_D2H, layer, d->object, 0, c->gradient[d->index], at, bytes, "down.gradient.U%u",
                  (unsigned)d->index);
        if (d->complete) emit_norm(c, d->index);
        return;
    }
    uint32_t slab = lzt__object(b, LZT_SPACE_HOST, bytes, "slab.U%u", (unsigned)d->index);
    lzt__copy(b, LZT_LANE_D2H, layer, d->object, 0, slab, 0, bytes, "down.gradient.U%u", (unsigned)d->index);
    defer(c, (deferred){DEFER_ADD, c->stage + 1, d->index, slab, d->begin, d->count, d->complete});
}

static void emit_boundary_download(compiler *c, const deferred *d)
{
    lzt_builder *b = &c->b;
    if (b->failed) return;
    uint64_t bytes = b->program->objects[d->object].bytes;
    uint32_t to = lzt__object(b, LZT_SPACE_HOST, bytes, "boundary.%u", (unsigned)d->index);
    lzt__copy(b, LZT_LANE_D2H, -1, d->object, 0, to, 0, bytes, "down.boundary.%u", (unsigned)d->index);
    c->boundary_host[d->index] = to;
}

/* The next pieces of a layer's internals; what is left goes under the stages to come, all of it before the head. */
static void emit_internals_download(compiler *c, const deferred *d)
{
    uint32_t layer = d->index, left = (uint32_t)(c->b.plan->layer_count - 1) - c->stage;
    bool done = lzt__move_internals(&c->b, layer, LZT_LANE_D2H, left, &c->layer[layer], &c->move[layer]);
    c->internals_to_leave -= done;
    if (!done) defer(c, (deferred){DEFER_INTERNALS, c->stage + 1, layer, LZT_NO_OBJECT, 0, 0, false});
}

/* Emits what is due; what that defers again may be due at once at the end of the program. */
static void flush(compiler *c, uint32_t stage)
{
    for (uint32_t i = 0; i < c->queue_count;) {
        deferred d = c->queue[i];
        if (d.due_stage > stage) {
            i++;
            continue;
        }
        for (uint32_t k = i + 1; k < c->queue_count; k++) c->queue[k - 1] = c->queue[k];
        c->queue_count--;
        if (d.kind == DEFER_BOUNDARY) emit_boundary_download(c, &d);
        if (d.kind == DEFER_INTERNALS) emit_internals_download(c, &d);
        if (d.kind == DEFER_GRADIENT) emit_gradient_download(c, &d);
        if (d.kind == DEFER_ADD) emit_add(c, &d);
    }
}

static void download_gradient(compiler *c, uint32_t unit, uint32_t object, uint64_t begin, uint64_t count,
                              bool complete)
{
    uint32_t due = c->stage + (uint32_t)c->b.plan->gradient_slots - 1;
    defer(c, (deferred){DEFER_GRADIENT, due, unit, object, begin, count, complete});
}

/* ---- uploads ---- */

static void emit_unit_upload(compiler *c, uint32_t unit)
{
    lzt_builder *b = &c->b;
    emit_update(c, unit);
    int32_t layer = b->model->unit[unit].layer;
    uint64_t bytes = b->model->unit[unit].element_count * b->element_bytes;
    uint32_t kept = c->device_unit[unit];
    bool persistent = kept != LZT_NO_OBJECT && !b->failed && b->program->objects[kept].persistent;
    uint32_t to = persistent ? kept : lzt__object(b, LZT_SPACE_DEVICE, bytes, "weights.U%u", (unsigned)unit);
    lzt_task *task =
        lzt__copy(b, LZT_LANE_H2D, layer, c->weight[unit], 0, to, 0, bytes, "up.weights.U%u", (unsigned)unit);
    task->weight_upload = layer >= 0;
    b->program->info.weight_uploads += layer >= 0;
    c->device_unit[unit] = to;
}

static void emit_boundary_upload(compiler *c, uint32_t boundary)
{
    lzt_builder *b = &c->b;
    if (b->failed) return;
    uint32_t from = c->boundary_host[boundary];
    uint64_t bytes = b->program->objects[from].bytes;
    uint32_t to = lzt__rows(b, b->model->hidden, "x", (int32_t)boundary);
    lzt__copy(b, LZT_LANE_H2D, -1, from, 0, to, 0, bytes, "up.boundary.%u", (unsigned)boundary);
    c->boundary[boundary] = to;
}

/* Boundary 0: the embedding's rows of the batch, gathered on the host. */
static void emit_embedded(compiler *c)
{
    lzt_builder *b = &c->b;
    uint64_t H = b->model->hidden, row_bytes = b->capacity * H * b->element_bytes;
    uint32_t staging = lzt__object(b, LZT_SPACE_HOST, row_bytes, "embedded");
    lzt_task *task = lzt__task(b, LZT_LANE_DATA, -1, "gather");
    task->host_op = LZT_HOST_GATHER;
    task->dim[0] = H;
    lzt__use_all(b, 0, LZT_ACCESS_READ, c->ids);
    lzt__use_all(b, 1, LZT_ACCESS_READ, c->weight[0]);
    lzt__use_all(b, 2, LZT_ACCESS_WRITE, staging);
    c->boundary[0] = lzt__rows(b, H, "x", 0);
    lzt__copy(b, LZT_LANE_H2D, -1, staging, 0, c->boundary[0], 0, row_bytes, "up.embedded");
}

static void emit_internals_upload(compiler *c, const lzt_upload *u)
{
    uint32_t layer = u->index;
    lzt__move_internals(&c->b, layer, LZT_LANE_H2D, UINT32_MAX, &c->layer[layer], &c->move[layer]);
}

/* A boundary cannot come back before it has left. Nor does anything come back while internals have yet to leave: all
 * that is on the host is there at one moment then, which is what the model of the step counts. */
static bool may_return(const compiler *c, const lzt_upload *u)
{
    if (u->kind == LZT_UPLOAD_BOUNDARY && c->boundary_host[u->index] == LZT_NO_OBJECT) return false;
    return !c->internals_to_leave || (u->kind != LZT_UPLOAD_BOUNDARY && u->kind != LZT_UPLOAD_INTERNALS);
}

/* What the stage in hand needs, and the next few uploads beyond. */
static void emit_uploads(compiler *c)
{
    uint64_t prefetch = c->b.plan->prefetch_layers;
    uint32_t ahead = 0;
    for (uint32_t i = 0; i < c->next_upload; i++) ahead += c->stages.upload[i].need_stage > c->stage;
    while (c->next_upload < c->stages.upload_count) {
        const lzt_upload *u = &c->stages.upload[c->next_upload];
        bool needed = u->need_stage <= c->stage;
        if (!needed && ahead >= prefetch) break;
        if (!may_return(c, u)) {
            if (!needed) break;
            flush(c, UINT32_MAX);
        }
        if (u->kind == LZT_UPLOAD_BOUNDARY) emit_boundary_upload(c, u->index);
        if (u->kind == LZT_UPLOAD_INTERNALS) emit_internals_upload(c, u);
        if (u->kind == LZT_UPLOAD_EMBEDDED) emit_embedded(c);
        if (u->kind == LZT_UPLOAD_UNIT) emit_unit_upload(c, u->index);
        ahead += !needed;
        c->next_upload++;
    }
}

/* ---- stages ---- */

static void emit_prologue(compiler *c)
{
    lzt_builder *b = &c->b;
    uint64_t T = b->capacity, R = b->model->rotary_dim;
    emit_update(c, 0);
    c->batch.descriptor = lzt__object(b, LZT_SPACE_DEVICE, lzt_batch_bytes(T), "descriptor");
    lzt__copy(b, LZT_LANE_H2D, -1, c->descriptor, 0, c->batch.descriptor, 0, lzt_batch_bytes(T), "up.descriptor");
    uint32_t inv_freq = lzt__object(b, LZT_SPACE_DEVICE, R / 2 * 4, "inv_freq");
    lzt__copy(b, LZT_LANE_H2D, -1, c->inv_freq, 0, inv_freq, 0, R / 2 * 4, "up.inv_freq");
    emit_embedded(c);
    c->batch.rope_table = lzt__object(b, LZT_SPACE_DEVICE, T * R * 4, "rope_table");
    lzt_task *task = lzt__task(b, LZT_LANE_COMPUTE, -1, "rope_table");
    task->op = LZT_OP_ROPE_TABLE;
    task->dim[0] = T;
    task->dim[1] = R;
    task->real[0] = b->model->rope_attention_factor;
    lzt__use_all(b, 0, LZT_ACCESS_READ, c->batch.descriptor);
    lzt__use_all(b, 1, LZT_ACCESS_READ, inv_freq);
    lzt__use_all(b, 2, LZT_ACCESS_WRITE, c->batch.rope_table);
    lzt__scratch(b);
}

/* A boundary that has just been made goes where the plan says. */
static void settle_boundary(compiler *c, uint32_t boundary, uint32_t object)
{
    c->boundary[boundary] = object;
    if (c->training && c->b.plan->boundary[boundary] == LZT_TIER_CPU)
        defer(c, (deferred){DEFER_BOUNDARY, c->stage + 1, boundary, object, 0, 0, false});
}

static lzt_layer_objects layer_objects(const compiler *c, uint32_t l)
{
    lzt_layer_objects o = lzt__no_layer_objects();
    o.weights = c->device_unit[c->b.model->layer[l].unit];
    o.x = c->boundary[l];
    return o;
}

/* Internals that go to the host leave under the next layer's forward; the last layer's before the head. */
static void settle_internals(compiler *c, uint32_t l, const lzt_layer_objects *o)
{
    bool last = l + 1 == c->b.plan->layer_count;
    if (!c->training || c->b.plan->internals[l] == LZT_TIER_RECOMPUTE) return;
    c->layer[l] = *o;
    if (c->b.plan->internals[l] == LZT_TIER_CPU)
        defer(c, (deferred){DEFER_INTERNALS, c->stage + !last, l, LZT_NO_OBJECT, 0, 0, false});
}

static void emit_forward(compiler *c, uint32_t l)
{
    lzt_layer_objects o = layer_objects(c, l);
    uint32_t y = lzt__emit_layer_forward(&c->b, &c->batch, l, &o, true, "fwd");
    settle_internals(c, l, &o);
    settle_boundary(c, l + 1, y);
}

static void emit_recompute(compiler *c, uint32_t l)
{
    lzt_layer_objects o = layer_objects(c, l);
    c->boundary[l + 1] = lzt__emit_layer_forward(&c->b, &c->batch, l, &o, true, "re");
}

static uint32_t emit_backward(compiler *c, uint32_t l, uint32_t dy)
{
    lzt_builder *b = &c->b;
    uint32_t unit = b->model->layer[l].unit;
    uint64_t n = b->model->unit[unit].element_count;
    bool again = b->plan->internals[l] == LZT_TIER_RECOMPUTE;
    lzt_layer_objects o = again ? layer_objects(c, l) : c->layer[l];
    o.weights = c->device_unit[unit];
    o.x = c->boundary[l];
    bool whole = lzt__layer_is_whole(b->model); /* runs its own forward again, part by part */
    if (again && !whole) lzt__emit_layer_forward(b, &c->batch, l, &o, false, "bwd");
    o.gradients = lzt__object(b, LZT_SPACE_DEVICE, n * b->grad_bytes, "gradients.U%u", (unsigned)unit);
    uint32_t dx = lzt__emit_layer_backward(b, &c->batch, l, &o, dy);
    download_gradient(c, unit, o.gradients, 0, n, true);
    return dx;
}

/* lm_head and cross-entropy, a chunk of tokens at a time. dw, dh: LZT_NO_OBJECT outside training. */
static void emit_loss(compiler *c, uint32_t h, uint32_t table, uint32_t loss, uint32_t dh, uint32_t dw)
{
    lzt_builder *b = &c->b;
    uint64_t T = b->capacity, chunk = b->plan->numerics.loss_chunk;
    uint64_t table_bytes = b->model->vocabulary * b->model->hidden * b->element_bytes;
    for (uint64_t begin = 0; begin < T; begin += chunk) {
        uint64_t count = T - begin < chunk ? T - begin : chunk;
        lzt_task *task = lzt__task(b, LZT_LANE_COMPUTE, -1, "loss.%u", (unsigned)(begin / chunk));
        task->op = LZT_OP_LOSS_CHUNK;
        uint64_t dim[] = {T, b->model->hidden, b->model->vocabulary, begin, count, begin == 0};
        for (int i = 0; i < 6; i++) task->dim[i] = dim[i];
        lzt__use_all(b, 0, LZT_ACCESS_READ, c->batch.descriptor);
        lzt__use_all(b, 1, LZT_ACCESS_READ, h);
        lzt__use(b, 2, LZT_ACCESS_READ, table, 0, table_bytes);
        lzt__use_all(b, 3, LZT_ACCESS_READ_WRITE, loss);
        if (dh != LZT_NO_OBJECT) {
            lzt__use_all(b, 4, LZT_ACCESS_READ_WRITE, dh);
            lzt__use_all(b, 5, LZT_ACCESS_READ_WRITE, dw);
        }
        lzt__scratch(b);
    }
}

/* The table's gradient, summed over chunks in f32: as it is, or cast piece by piece on its way out. */
static void emit_table_gradient(compiler *c, uint32_t dw)
{
    lzt_builder *b = &c->b;
    uint32_t unit = head_unit(c);
    uint64_t n = b->model->vocabulary * b->model->hidden;
    bool complete = !b->model->tied; /* tied: the embedding's rows are still to come */
    if (b->grad_dtype == LZT_DTYPE_F32) {
        download_gradient(c, unit, dw, 0, n, complete);
        return;
    }
    /* One piece leaves while the next is cast. */
    uint64_t piece = (n + HEAD_PIECES - 1) / HEAD_PIECES;
    deferred before = {.count = 0};
    for (uint64_t begin = 0; begin < n; begin += piece) {
        uint64_t count = n - begin < piece ? n - begin : piece;
        uint32_t out = lzt__object(b, LZT_SPACE_DEVICE, count * b->grad_bytes, "gradients.U%u.part", (unsigned)unit);
        lzt_task *task = lzt__task(b, LZT_LANE_COMPUTE, -1, "cast.U%u", (unsigned)unit);
        task->op = LZT_OP_CAST;
        task->dim[0] = count;
        lzt__use(b, 0, LZT_ACCESS_READ, dw, begin * 4, count * 4);
        lzt__use_all(b, 1, LZT_ACCESS_WRITE, out);
        lzt__scratch(b);
        if (before.count) emit_gradient_download(c, &before);
        before = (deferred){DEFER_GRADIENT, 0, unit, out, begin, count, complete && begin + count == n};
    }
    emit_gradient_download(c, &before);
}

/* Final norm, loss, and back to the gradient of boundary N; LZT_NO_OBJECT outside training. */
static uint32_t emit_head(compiler *c)
{
    lzt_builder *b = &c->b;
    uint64_t H = b->model->hidden, N = b->model->layer_count;
    uint32_t norm_unit = (uint32_t)N + 1, x = c->boundary[N];
    const lzt_tensor *w = lzt__tensor(b, norm_unit, LZT_ROLE_FINAL_NORM);
    uint32_t h = lzt__rows(b, H, "h", -1), table = c->device_unit[head_unit(c)];
    uint32_t rstd = c->training ? lzt__object(b, LZT_SPACE_DEVICE, b->capacity * 4, "rstd") : LZT_NO_OBJECT;
    lzt__emit_rmsnorm(b, &c->batch, -1, x, c->device_unit[norm_unit], w, h, rstd, "fwd.final_norm");
    uint32_t loss = lzt__object(b, LZT_SPACE_DEVICE, 8, "loss");
    uint32_t dh = LZT_NO_OBJECT, dw = LZT_NO_OBJECT;
    if (c->training) {
        dh = h; /* a chunk's gradient takes the place of its rows */
        dw = lzt__object(b, LZT_SPACE_DEVICE, b->model->vocabulary * H * 4, "table_gradient");
    }
    emit_loss(c, h, table, loss, dh, dw);
    lzt__copy(b, LZT_LANE_D2H, -1, loss, 0, c->result, 0, 8, "down.loss");
    if (!c->training) return LZT_NO_OBJECT;
    emit_table_gradient(c, dw);
    uint64_t n = b->model->unit[norm_unit].element_count;
    uint32_t gradients = lzt__object(b, LZT_SPACE_DEVICE, n * b->grad_bytes, "gradients.U%u", (unsigned)norm_unit);
    lzt__emit_rmsnorm_backward(b, &c->batch, -1, dh, x, c->device_unit[norm_unit], w, rstd, LZT_NO_OBJECT, dh,
                               gradients, "bwd.final_norm");
    download_gradient(c, norm_unit, gradients, 0, n, true);
    return dh;
}

static void emit_greedy(compiler *c)
{
    lzt_builder *b = &c->b;
    uint64_t T = b->capacity, H = b->model->hidden, N = b->model->layer_count, V = b->model->vocabulary;
    uint32_t norm_unit = (uint32_t)N + 1, h = lzt__rows(b, H, "h", -1);
    lzt__emit_rmsnorm(b, &c->batch, -1, c->boundary[N], c->device_unit[norm_unit],
                      lzt__tensor(b, norm_unit, LZT_ROLE_FINAL_NORM), h, LZT_NO_OBJECT, "fwd.final_norm");
    uint32_t ids = lzt__object(b, LZT_SPACE_DEVICE, 4 * T, "ids");
    uint32_t logits = b->options->logits ? lzt__object(b, LZT_SPACE_DEVICE, 4 * T * V, "logits") : LZT_NO_OBJECT;
    lzt_task *task = lzt__task(b, LZT_LANE_COMPUTE, -1, "greedy");
    task->op = LZT_OP_GREEDY;
    uint64_t dim[] = {T, H, V};
    for (int i = 0; i < 3; i++) task->dim[i] = dim[i];
    lzt__use_all(b, 0, LZT_ACCESS_READ, c->batch.descriptor);
    lzt__use_all(b, 1, LZT_ACCESS_READ, h);
    lzt__use(b, 2, LZT_ACCESS_READ, c->device_unit[head_unit(c)], 0, V * H * b->element_bytes);
    lzt__use_all(b, 3, LZT_ACCESS_WRITE, ids);
    if (logits != LZT_NO_OBJECT) lzt__use_all(b, 4, LZT_ACCESS_WRITE, logits);
    lzt__scratch(b);
    lzt__copy(b, LZT_LANE_D2H, -1, ids, 0, c->result, 64, 4 * T, "down.ids");
    if (logits != LZT_NO_OBJECT) lzt__copy(b, LZT_LANE_D2H, -1, logits, 0, c->logits, 0, 4 * V, "down.logits");
}

/* The embedding's own gradient: rows by id, added on the host. */
static void emit_embedding_backward(compiler *c, uint32_t dx)
{
    lzt_builder *b = &c->b;
    uint64_t T = b->capacity, H = b->model->hidden, bytes = T * H * b->element_bytes;
    uint32_t staging = lzt__object(b, LZT_SPACE_HOST, bytes, "embedding_gradient");
    uint32_t scratch = lzt__object(b, LZT_SPACE_HOST, 8 * T + 4 * H, "scatter_scratch");
    if (c->overwrite && !b->model->tied) {
        lzt_task *zero = lzt__task(b, LZT_LANE_CPU_OPTIMIZER, -1, "zero.U0");
        zero->host_op = LZT_HOST_ZERO;
        zero->dim[0] = b->model->unit[0].element_count * b->grad_bytes;
        lzt__use_all(b, 0, LZT_ACCESS_WRITE, c->gradient[0]);
    }
    lzt__copy(b, LZT_LANE_D2H, -1, dx, 0, staging, 0, bytes, "down.embedding");
    lzt_task *task = lzt__task(b, LZT_LANE_CPU_OPTIMIZER, -1, "scatter");
    task->host_op = LZT_HOST_SCATTER;
    task->dim[0] = H;
    lzt__use_all(b, 0, LZT_ACCESS_READ, c->ids);
    lzt__use_all(b, 1, LZT_ACCESS_READ, staging);
    lzt__use_all(b, 2, LZT_ACCESS_READ_WRITE, c->gradient[0]);
    lzt__use_all(b, 3, LZT_ACCESS_READ_WRITE, scratch);
    emit_norm(c, 0);
}

static void emit_micro_batch(compiler *c)
{
    uint32_t gradient = LZT_NO_OBJECT; /* of the boundary between what is done and what is to come */
    emit_prologue(c);
    for (c->stage = 0; c->stage < c->stages.stage_count && !c->b.failed; c->stage++) {
        const lzt_stage *s = &c->stages.stage[c->stage];
        emit_uploads(c);
        if (s->kind == LZT_STAGE_FORWARD) emit_forward(c, s->layer);
        if (s->kind == LZT_STAGE_RECOMPUTE) emit_recompute(c, s->layer);
        if (s->kind == LZT_STAGE_BACKWARD) gradient = emit_backward(c, s->layer, gradient);
        if (s->kind == LZT_STAGE_HEAD) {
            if (c->generating)
                emit_greedy(c);
            else
                gradient = emit_head(c);
        }
        flush(c, c->stage);
    }
    while (c->queue_count) flush(c, UINT32_MAX);
    if (!c->training || c->b.failed) return;
    emit_embedding_backward(c, gradient);
    emit_clip(c);
}

/* ---- the whole ---- */

static void free_tables(compiler *c)
{
    void *tables[] = {c->device_unit, c->boundary, c->boundary_host, c->layer, c->updated, c->weight, c->low,
                      c->gradient,    c->exp_avg,  c->exp_avg_sq,    c->keys,  c->values,  c->move};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) free(tables[i]);
    lzt__stages_fini(&c->stages);
}

static uint32_t *none(uint64_t count)
{
    uint32_t *table = malloc(count * sizeof *table);
    for (uint64_t i = 0; table && i < count; i++) table[i] = LZT_NO_OBJECT;
    return table;
}

static lzt_status make_tables(compiler *c, lzt_error *err)
{
    uint64_t units = c->b.model->unit_count, n = c->b.model->layer_count;
    c->device_unit = none(units);
    c->weight = none(units);
    c->low = none(units);
    c->gradient = none(units);
    c->exp_avg = none(units);
    c->exp_avg_sq = none(units);
    c->boundary = none(n + 1);
    c->boundary_host = none(n + 1);
    c->keys = none(n);
    c->values = none(n);
    c->layer = calloc(n, sizeof *c->layer);
    c->move = calloc(n, sizeof *c->move);
    c->updated = calloc(units, sizeof *c->updated);
    if (!c->device_unit || !c->weight || !c->low || !c->gradient || !c->exp_avg || !c->exp_avg_sq || !c->boundary ||
        !c->boundary_host || !c->layer || !c->move || !c->updated || !c->keys || !c->values)
        return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to compile a step program");
    return LZT_OK;
}

/* Nothing that a plan asks for is silently done otherwise. */
static lzt_status refuse(const lzt_plan *plan, const lzt_model_info *model, lzt_error *err)
{
    if (plan->numerics.layer_splits > 1 && !lzt__layer_is_whole(model)) {
        lzt_fail(err, LZT_ERR_USAGE, "plan",
                 "numerics.layer_splits is %llu, but this version's kernels take a layer whole",
                 (unsigned long long)plan->numerics.layer_splits);
        return lzt_hint(err, "set it to 1, and shorten the micro-batch instead");
    }
    for (uint64_t i = 0; i <= plan->layer_count; i++)
        if (plan->boundary[i] == LZT_TIER_NVME) {
            lzt_fail(err, LZT_ERR_USAGE, "plan", "boundary %llu lies on nvme, which this version cannot execute",
                     (unsigned long long)i);
            return lzt_hint(err, "place it on cpu or recompute it");
        }
    for (uint64_t l = 0; l < plan->layer_count; l++)
        if (plan->internals[l] == LZT_TIER_NVME) {
            lzt_fail(err, LZT_ERR_USAGE, "plan",
                     "internals of layer %llu lie on nvme, which this version cannot execute", (unsigned long long)l);
            return lzt_hint(err, "list the layer in internals_cpu, or in neither: they are then made again");
        }
    for (uint64_t i = 0; i < plan->state_count; i++)
        if (plan->state[i].tier != LZT_TIER_CPU) {
            lzt_fail(err, LZT_ERR_USAGE, "plan",
                     "state of unit %llu (0 is the embedding, 1 is layer 0): its %s on %s is more "
                     "than this version can execute",
                     (unsigned long long)plan->state[i].unit, lzt_state_name(plan->state[i].object),
                     lzt_tier_name(plan->state[i].tier));
            return lzt_hint(err, "leave it on cpu");
        }
    return LZT_OK;
}

static void set_variant(compiler *c)
{
    lzt_variant v = c->b.options->variant;
    bool many = c->b.options->micro_batches > 1, keep = c->b.options->cache.keep_weights;
    c->generating = v == LZT_VARIANT_PREFILL || v == LZT_VARIANT_DECODE;
    c->training = v != LZT_VARIANT_EVALUATE && v != LZT_VARIANT_DRAIN && !c->generating;
    c->weights_stay = c->generating ? keep : c->training && many;
    c->present = c->weights_stay && (v == LZT_VARIANT_MIDDLE || v == LZT_VARIANT_LAST || v == LZT_VARIANT_DECODE);
    c->overwrite = v == LZT_VARIANT_SINGLE || v == LZT_VARIANT_FIRST;
    c->take_norm = v == LZT_VARIANT_SINGLE || v == LZT_VARIANT_LAST;
    c->update = v == LZT_VARIANT_DRAIN || (c->overwrite && c->b.options->update);
    for (uint64_t l = 0; c->training && l < c->b.plan->layer_count; l++)
        c->internals_to_leave += c->b.plan->internals[l] == LZT_TIER_CPU;
}

lzt_status lzt_step_compile(const lzt_step_options *options, lzt_program **program, lzt_error *err)
{
    assert(options->layout->training || options->variant == LZT_VARIANT_EVALUATE ||
           options->variant == LZT_VARIANT_PREFILL || options->variant == LZT_VARIANT_DECODE);
    compiler *c = calloc(1, sizeof *c);
    if (!c) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to compile a step program");
    lzt_program *made = NULL;
    lzt_status status = lzt_plan_match(options->plan, options->model, err);
    if (!status) status = refuse(options->plan, options->model, err);
    if (!status) status = lzt__builder_init(&c->b, options, err);
    if (status) {
        free(c);
        return status;
    }
    set_variant(c);
    status = make_tables(c, err);
    if (!status) status = lzt__stages_create(options->plan, options->model, c->training, c->present, &c->stages, err);
    if (status) {
        lzt_program_destroy(c->b.program);
        free_tables(c);
        free(c);
        return status;
    }
    add_state(c);
    add_cache(c);
    add_kept_weights(c);
    if (options->variant == LZT_VARIANT_DRAIN)
        for (uint32_t unit = 0; unit < options->model->unit_count; unit++) emit_update(c, unit);
    else
        emit_micro_batch(c);
    uint64_t base[LZT_SPACE_COUNT] = {c->device_base, options->layout->bytes};
    status = lzt__builder_finish(&c->b, &made, err);
    free_tables(c);
    free(c);
    if (!status) status = lzt__place(made, base, err);
    if (!status) status = lzt__depend(made, err);
    if (status)
        lzt_program_destroy(made);
    else
        *program = made;
    return status;
}

static const char *const host_op_names[LZT_HOST_COUNT] = {"none", "gather", "scatter", "zero",
                                                          "add",  "norm",   "clip",    "adamw"};

const char *lzt_host_op_name(lzt_host_op op)
{
    assert(op >= 0 && op < LZT_HOST_COUNT);
    return host_op_names[op];
}
