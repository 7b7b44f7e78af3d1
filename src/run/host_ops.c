/* The bodies of host tasks: what the data and optimizer lanes run, on the host arena.
 *
 * Work is split over the engine's team by fixed rules, so that results do not depend on timing or on the thread count.
 */
#include "run/engine.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { NORM_BLOCK = 4096 };

/* ---- embedding rows ---- */

static void gather(const lzt_host_call *c)
{
    const int32_t *ids = c->ptr[0];
    uint64_t row_bytes = c->dim[0] * lzt_dtype_bytes(c->engine->plan.numerics.dtype);
    for (int32_t i = 0; i < ids[0]; i++)
        memcpy((char *)c->ptr[2] + (uint64_t)i * row_bytes, (const char *)c->ptr[1] + (uint64_t)ids[1 + i] * row_bytes,
               row_bytes);
}

/* In place, no memory: keys are id << 32 | position, so the order within an id is that of the tokens. */
static void heap_sort(uint64_t *key, uint64_t count)
{
    for (uint64_t end = count, root = count / 2; end > 1;) {
        if (root) {
            root--;
        } else {
            uint64_t top = key[0];
            key[0] = key[--end];
            key[end] = top;
        }
        uint64_t at = root, value = key[at];
        for (uint64_t child; (child = 2 * at + 1) < end; at = child) {
            if (child + 1 < end && key[child + 1] > key[child]) child++;
            if (key[child] <= value) break;
            key[at] = key[child];
        }
        key[at] = value;
    }
}

static void add_row(float *sum, const void *row, uint64_t count, lzt_dtype dtype)
{
    if (dtype == LZT_DTYPE_F32)
        for (uint64_t i = 0; i < count; i++) sum[i] += ((const float *)row)[i];
    else
        for (uint64_t i = 0; i < count; i++) sum[i] += lzt_bf16_to_f32(((const uint16_t *)row)[i]);
}

static void store_row(void *gradient, const float *sum, uint64_t count, lzt_dtype dtype)
{
    if (dtype == LZT_DTYPE_F32)
        for (uint64_t i = 0; i < count; i++) ((float *)gradient)[i] += sum[i];
    else
        for (uint64_t i = 0; i < count; i++) {
            uint16_t *g = &((uint16_t *)gradient)[i];
            *g = lzt_bf16_from_f32(lzt_bf16_to_f32(*g) + sum[i]);
        }
}

static void scatter(const lzt_host_call *c)
{
    const lzt_numerics *numerics = &c->engine->plan.numerics;
    const int32_t *ids = c->ptr[0];
    uint64_t n = (uint64_t)ids[0], columns = c->dim[0], *key = c->ptr[3];
    float *sum = (float *)(key + numerics->micro_batch_tokens);
    uint64_t in_bytes = columns * lzt_dtype_bytes(numerics->dtype);
    uint64_t out_bytes = columns * lzt_dtype_bytes(numerics->grad_dtype);
    for (uint64_t i = 0; i < n; i++) key[i] = (uint64_t)ids[1 + i] << 32 | i;
    heap_sort(key, n);
    for (uint64_t i = 0; i < n;) {
        uint64_t id = key[i] >> 32;
        memset(sum, 0, columns * sizeof *sum);
        for (; i < n && key[i] >> 32 == id; i++)
            add_row(sum, (const char *)c->ptr[1] + (key[i] & 0xffffffff) * in_bytes, columns, numerics->dtype);
        store_row((char *)c->ptr[2] + id * out_bytes, sum, columns, numerics->grad_dtype);
    }
}

/* ---- gradients ---- */

static float gradient_at(const void *gradient, uint64_t i, lzt_dtype dtype)
{
    return dtype == LZT_DTYPE_F32 ? ((const float *)gradient)[i] : lzt_bf16_to_f32(((const uint16_t *)gradient)[i]);
}

static void add_part(void *arg, uint32_t part, uint32_t part_count)
{
    const lzt_host_call *c = arg;
    uint64_t begin, end;
    lzt__team_split(c->dim[0], 64, part, part_count, &begin, &end);
    if (c->engine->plan.numerics.grad_dtype == LZT_DTYPE_F32) {
        const float *slab = c->ptr[0];
        float *gradient = c->ptr[1];
        for (uint64_t i = begin; i < end; i++) gradient[i] += slab[i];
    } else {
        const uint16_t *slab = c->ptr[0];
        uint16_t *gradient = c->ptr[1];
        for (uint64_t i = begin; i < end; i++)
            gradient[i] = lzt_bf16_from_f32(lzt_bf16_to_f32(gradient[i]) + lzt_bf16_to_f32(slab[i]));
    }
}

/* Sum of squares over the unit's tensors (not the gaps between them). */
static void norm(const lzt_host_call *c)
{
    const lzt_model_info *m = c->engine->info;
    const lzt_unit *unit = &m->unit[c->dim[0]];
    double *partial = c->ptr[1], sum = 0;
    for (uint32_t t = 0; t < unit->tensor_count; t++) {
        const lzt_tensor *tensor = &m->tensor[unit->first_tensor + t];
        for (uint64_t i = 0; i < tensor->element_count; i++) {
            double g = gradient_at(c->ptr[0], tensor->unit_offset + i, c->engine->plan.numerics.grad_dtype);
            sum += g * g;
        }
    }
    partial[0] = sum;
    partial[1] = !isfinite(sum);
}

static void clip(const lzt_host_call *c)
{
    const double *partial = c->ptr[0];
    lzt_step_scalars *s = c->ptr[1];
    double sum = 0;
    for (uint64_t unit = 0; unit < c->dim[0]; unit++) sum += partial[2 * unit];
    s->grad_norm = sqrt(sum);
    s->skip = !isfinite(s->grad_norm);
    s->clip_factor = 1.0;
    if (s->max_grad_norm > 0 && !s->skip) {
        double factor = s->max_grad_norm / (s->grad_norm + 1e-6);
        if (factor < 1.0) s->clip_factor = factor;
    }
}

/* ---- the update ---- */

static void adamw_part(void *arg, uint32_t part, uint32_t part_count)
{
    const lzt_host_call *c = arg;
    const lzt_model_info *model = c->engine->info;
    const lzt_step_scalars *s = c->ptr[5];
    const lzt_unit *unit = &model->unit[c->dim[0]];
    bool split = c->engine->plan.numerics.dtype == LZT_DTYPE_BF16;
    float *exp_avg = c->ptr[3], *exp_avg_sq = c->ptr[4];
    for (uint32_t t = 0; t < unit->tensor_count; t++) {
        const lzt_tensor *tensor = &model->tensor[unit->first_tensor + t];
        float decay = tensor->rank >= 2 ? (float)(1.0 - s->lr * s->weight_decay) : 1.0f;
        float beta1 = (float)s->beta1, beta2 = (float)s->beta2, scale = (float)s->clip_factor;
        float step = (float)(s->lr / s->bias_correction1), root = (float)sqrt(s->bias_correction2);
        uint64_t begin, end;
        lzt__team_split(tensor->element_count, 64, part, part_count, &begin, &end);
        for (uint64_t i = tensor->unit_offset + begin; i < tensor->unit_offset + end; i++) {
            union {
                uint32_t u;
                float f;
            } w;
            w.u = split ? ((uint32_t)((uint16_t *)c->ptr[1])[i] << 16) + (uint32_t)(int32_t)((int16_t *)c->ptr[2])[i]
                        : ((uint32_t *)c->ptr[1])[i];
            float g = gradient_at(c->ptr[0], i, c->engine->plan.numerics.grad_dtype) * scale;
            exp_avg[i] = beta1 * exp_avg[i] + (1.0f - beta1) * g;
            exp_avg_sq[i] = beta2 * exp_avg_sq[i] + (1.0f - beta2) * g * g;
            w.f = w.f * decay - step * exp_avg[i] / (sqrtf(exp_avg_sq[i]) / root + (float)s->epsilon);
            if (split) {
                uint16_t hi = lzt_bf16_hi(w.u);
                ((uint16_t *)c->ptr[1])[i] = hi;
                ((int16_t *)c->ptr[2])[i] = (int16_t)(w.u - ((uint32_t)hi << 16));
            } else {
                ((float *)c->ptr[1])[i] = w.f;
            }
        }
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
    case LZT_HOST_ADD: lzt__team_run(c->engine->team, add_part, c); return LZT_OK;
    case LZT_HOST_NORM: norm(c); return LZT_OK;
    case LZT_HOST_CLIP: clip(c); return LZT_OK;
    case LZT_HOST_ADAMW:
        if (!((const lzt_step_scalars *)c->ptr[5])->skip) lzt__team_run(c->engine->team, adamw_part, c);
        return LZT_OK;
    case LZT_HOST_NONE:
    case LZT_HOST_COUNT: break;
    }
    return lzt_fail(err, LZT_ERR_INTERNAL, NULL, "unknown host operator %d", (int)c->op);
}
