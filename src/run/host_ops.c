/* The bodies of host tasks: what the data and optimizer lanes run, on the host arena.
 *
 * Results do not depend on timing or on the thread count: sums have a fixed order, here and in the optimizer.
 */
#include "run/engine.h"

#include <math.h>
#include <string.h>

/* ---- embedding rows ---- */

static void gather(const lzt_host_call *c)
{
    const int32_t *ids = c->ptr[0];
    uint64_t row_bytes = c->dim[0] * lzt_dtype_bytes(c->engine->plan.numerics.dtype);
    lzt_optim_gather_rows(ids + 1, (uint64_t)ids[0], c->ptr[1], row_bytes, c->ptr[2]);
}

/* The row of the padding id gets no gradient from lookups: transformers makes the embedding with padding_idx, so that
 * a model whose pad and end-of-turn ids are one trains that row through the head alone. */
static void scatter(const lzt_host_call *c)
{
    const lzt_numerics *numerics = &c->engine->plan.numerics;
    const int32_t *ids = c->ptr[0];
    lzt_optim_scatter_rows(ids + 1, (uint64_t)ids[0], c->engine->info->pad_id, numerics->dtype, c->ptr[1],
                           numerics->grad_dtype, c->ptr[2], c->dim[0], c->ptr[3]);
}

/* ---- gradients ---- */

static void add(const lzt_host_call *c)
{
    lzt_dtype dtype = c->engine->plan.numerics.grad_dtype;
    lzt_optim_add(c->engine->optim, dtype, c->ptr[1], dtype, c->ptr[0], c->dim[0]);
}

/* Where the arrays of NORM and ADAMW begin: at the unit's first tensor that is trained. */
static uint64_t first_element(const lzt_engine *engine, const lzt_unit *unit)
{
    uint32_t i = 0;
    while (i + 1 < unit->tensor_count && engine->frozen[unit->first_tensor + i]) i++;
    return engine->info->tensor[unit->first_tensor + i].unit_offset;
}

/* Sum of squares over the unit's tensors (not the gaps between them). */
static void norm(const lzt_host_call *c)
{
    const lzt_model_info *m = c->engine->info;
    const lzt_unit *unit = &m->unit[c->dim[0]];
    lzt_dtype dtype = c->engine->plan.numerics.grad_dtype;
    double *partial = c->ptr[1];
    uint64_t begin = first_element(c->engine, unit);
    *partial = 0;
    for (uint32_t i = 0; i < unit->tensor_count; i++) {
        const lzt_tensor *t = &m->tensor[unit->first_tensor + i];
        if (c->engine->frozen[unit->first_tensor + i]) continue;
        const char *at = (const char *)c->ptr[0] + (t->unit_offset - begin) * lzt_dtype_bytes(dtype);
        *partial += lzt_optim_sqnorm(c->engine->optim, dtype, at, t->element_count);
    }
}

static void clip(const lzt_host_call *c)
{
    const double *partial = c->ptr[0];
    lzt_step_scalars *s = c->ptr[1];
    double sum = 0;
    for (uint64_t unit = 0; unit < c->dim[0]; unit++) sum += partial[unit];
    s->grad_norm = sqrt(sum);
    s->skip = !isfinite(s->grad_norm);
    s->clip_factor = s->skip ? 1.0 : lzt_optim_clip_factor(s->grad_norm, s->max_grad_norm);
}

/* ---- the update ---- */

static void adamw(const lzt_host_call *c)
{
    const lzt_model_info *m = c->engine->info;
    const lzt_numerics *numerics = &c->engine->plan.numerics;
    const lzt_step_scalars *s = c->ptr[5];
    const lzt_unit *unit = &m->unit[c->dim[0]];
    bool split = numerics->dtype == LZT_DTYPE_BF16;
    uint64_t begin = first_element(c->engine, unit);
    lzt_optim_step step = {.lr = s->lr,
                           .clip_factor = s->clip_factor,
                           .beta1 = s->beta1,
                           .beta2 = s->beta2,
                           .eps = s->epsilon,
                           .bias_correction1 = s->bias_correction1,
                           .bias_correction2 = s->bias_correction2,
                           .skip = (uint32_t)s->skip};
    for (uint32_t i = 0; i < unit->tensor_count; i++) {
        const lzt_tensor *t = &m->tensor[unit->first_tensor + i];
        if (c->engine->frozen[unit->first_tensor + i]) continue;
        uint64_t at = t->unit_offset - begin;
        lzt_optim_run run = {.master = split ? LZT_MASTER_SPLIT : LZT_MASTER_F32,
                             .grad_dtype = numerics->grad_dtype,
                             .count = t->element_count,
                             .weight = (char *)c->ptr[1] + at * (split ? 2 : 4),
                             .low = split ? (int16_t *)c->ptr[2] + at : NULL,
                             .grad = (const char *)c->ptr[0] + at * lzt_dtype_bytes(numerics->grad_dtype),
                             .m = (float *)c->ptr[3] + at,
                             .v = (float *)c->ptr[4] + at,
                             .weight_decay = t->rank >= 2 ? s->weight_decay : 0.0};
        lzt_optim_adamw(c->engine->optim, &run, &step);
    }
}

lzt_status lzt__host_call(void *arg, void *native_stream, lzt_error *err)
{
    lzt_host_call *c = arg;
    (void)native_stream;
    switch (c->op) {
    case LZT_HOST_GATHER: gather(c); return LZT_OK;
    case LZT_HOST_SCATTER: scatter(c); return LZT_OK;
    case LZT_HOST_ZERO: memset(c->ptr[0], 0, c->dim[0]); return LZT_OK;
    case LZT_HOST_ADD: add(c); return LZT_OK;
    case LZT_HOST_NORM: norm(c); return LZT_OK;
    case LZT_HOST_CLIP: clip(c); return LZT_OK;
    case LZT_HOST_ADAMW: adamw(c); return LZT_OK;
    case LZT_HOST_NONE:
    case LZT_HOST_COUNT: break;
    }
    return lzt_fail(err, LZT_ERR_INTERNAL, NULL, "unknown host operator %d", (int)c->op);
}
