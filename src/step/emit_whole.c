/* A decoder layer whose operators do not exist yet, as tasks of its size: so that its model plans and simulates.
 *
 * One task a pass; where the plan splits the micro-batch, one a part, under one upload of the weights. Internals that
 * are not kept are made again part by part, ahead of that part's backward, so that both they and the working memory are
 * a part's:
 *
 *     fwd.L3.0  fwd.L3.1 ...        bwd.L3.0.again  bwd.L3.0  bwd.L3.1.again  bwd.L3.1 ...
 *
 * Such a program is verified, placed, priced and simulated like any other. A backend refuses to run it. */
#include "step/emit.h"

#include <math.h>

/* A part of the micro-batch: rows begin .. begin + count - 1. */
typedef struct part {
    uint64_t index, begin, count;
} part;

bool lzt__layer_is_whole(const lzt_model_info *model)
{
    return !model->trainable_arch;
}

static uint64_t part_tokens(const lzt_builder *b)
{
    uint64_t splits = b->plan->numerics.layer_splits ? b->plan->numerics.layer_splits : 1;
    return (b->capacity + splits - 1) / splits;
}

static bool next_part(const lzt_builder *b, part *p)
{
    p->begin += p->count;
    p->index++;
    if (p->begin >= b->capacity) return false;
    uint64_t left = b->capacity - p->begin, most = part_tokens(b);
    p->count = left < most ? left : most;
    return true;
}

static const part before_first = {UINT64_MAX, 0, 0};

static lzt_task *begin(lzt_builder *b, const lzt_batch_objects *batch, lzt_op op, uint32_t layer, const part *p,
                       const char *name)
{
    const lzt_layer *l = &b->model->layer[layer];
    lzt_layer_size size;
    lzt_layer_get_size(b->model, layer, b->dtype, &size);
    lzt_task *task = lzt__task(b, LZT_LANE_COMPUTE, (int32_t)layer, "%s.L%u.%u", name, layer, (unsigned)p->index);
    task->op = op;
    task->dim[0] = p->count;
    task->dim[1] = l->kind;
    task->dim[2] = l->window;
    bool back = op == LZT_OP_LAYER_BWD;
    task->real[0] = size.forward_flops * (back ? 2 : 1);
    task->real[1] = size.forward_pair_flops * (back ? 2.5 : 1);
    lzt__use_all(b, 0, LZT_ACCESS_READ, batch->descriptor);
    return task;
}

static uint32_t object(lzt_builder *b, double bytes_per_token, uint64_t tokens, const char *name, uint32_t layer)
{
    return lzt__object(b, LZT_SPACE_DEVICE, (uint64_t)ceil(bytes_per_token) * tokens, "%s.L%u", name, layer);
}

static void use_rows(lzt_builder *b, int slot, lzt_access access, uint32_t rows, const part *p)
{
    uint64_t bytes = b->model->hidden * b->element_bytes;
    lzt__use(b, slot, access, rows, p->begin * bytes, p->count * bytes);
}

/* All of a part's internals: its share of a kept object, or an object of its own. */
static void use_internals(lzt_builder *b, int slot, lzt_access access, uint32_t internals, bool kept, const part *p)
{
    if (b->failed) return;
    uint64_t bytes = b->program->objects[internals].bytes, rows = kept ? b->capacity : part_tokens(b);
    lzt__use(b, slot, access, internals, kept ? bytes / rows * p->begin : 0, bytes / rows * p->count);
}

uint32_t lzt__emit_whole_forward(lzt_builder *b, const lzt_batch_objects *batch, uint32_t layer, lzt_layer_objects *o,
                                 bool keep, const char *pass)
{
    lzt_layer_size size;
    part p = before_first;
    uint32_t first_task = b->program->info.task_count;
    lzt_layer_get_size(b->model, layer, b->dtype, &size);
    uint64_t tokens = keep ? b->capacity : part_tokens(b);
    o->whole = object(b, size.internals_bytes, tokens, "internals", layer);
    uint32_t work = object(b, size.forward_work_bytes, part_tokens(b), "work", layer);
    uint32_t y = lzt__rows(b, b->model->hidden, "x", (int32_t)layer + 1);
    while (next_part(b, &p) && !b->failed) {
        begin(b, batch, LZT_OP_LAYER_FWD, layer, &p, pass);
        use_rows(b, 1, LZT_ACCESS_READ, o->x, &p);
        lzt__use_all(b, 2, LZT_ACCESS_READ, o->weights);
        use_rows(b, 3, LZT_ACCESS_WRITE, y, &p);
        use_internals(b, 4, LZT_ACCESS_WRITE, o->whole, keep, &p);
        lzt__use_all(b, 5, LZT_ACCESS_READ_WRITE, work);
    }
    if (!b->failed) b->program->tasks[first_task].layer_forward = true;
    b->program->info.layer_forwards++;
    return y;
}

/* The internals of a part once more, without the layer's output. */
static void emit_again(lzt_builder *b, const lzt_batch_objects *batch, uint32_t layer, const lzt_layer_objects *o,
                       uint32_t work, const part *p)
{
    lzt_task *task = begin(b, batch, LZT_OP_LAYER_FWD, layer, p, "again");
    task->layer_forward = p->index == 0;
    use_rows(b, 1, LZT_ACCESS_READ, o->x, p);
    lzt__use_all(b, 2, LZT_ACCESS_READ, o->weights);
    use_internals(b, 4, LZT_ACCESS_WRITE, o->whole, false, p);
    lzt__use_all(b, 5, LZT_ACCESS_READ_WRITE, work);
}

uint32_t lzt__emit_whole_backward(lzt_builder *b, const lzt_batch_objects *batch, uint32_t layer, lzt_layer_objects *o,
                                  uint32_t dy)
{
    lzt_layer_size size;
    part p = before_first;
    bool kept = b->plan->internals[layer] != LZT_TIER_RECOMPUTE;
    lzt_layer_get_size(b->model, layer, b->dtype, &size);
    if (!kept) o->whole = object(b, size.internals_bytes, part_tokens(b), "internals", layer);
    uint32_t work = object(b, size.backward_work_bytes, part_tokens(b), "work", layer);
    uint32_t dx = lzt__rows(b, b->model->hidden, "dx", (int32_t)layer);
    b->program->info.layer_forwards += !kept;
    while (next_part(b, &p) && !b->failed) {
        if (!kept) emit_again(b, batch, layer, o, work, &p);
        begin(b, batch, LZT_OP_LAYER_BWD, layer, &p, "bwd");
        use_rows(b, 1, LZT_ACCESS_READ, dy, &p);
        use_rows(b, 2, LZT_ACCESS_READ, o->x, &p);
        lzt__use_all(b, 3, LZT_ACCESS_READ, o->weights);
        use_internals(b, 4, LZT_ACCESS_READ, o->whole, kept, &p);
        use_rows(b, 5, LZT_ACCESS_WRITE, dx, &p);
        lzt__use_all(b, 6, p.index ? LZT_ACCESS_READ_WRITE : LZT_ACCESS_WRITE, o->gradients);
        lzt__use_all(b, 7, LZT_ACCESS_READ_WRITE, work);
    }
    return dx;
}
