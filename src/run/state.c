/* The training state in the host arena: weights, moments and gradients, tensor by tensor. */
#include "run/engine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef union word {
    uint32_t u;
    float f;
} word;

static const lzt_state_unit *unit_of(const lzt_engine *engine, uint32_t tensor, uint64_t *at, uint64_t *count)
{
    assert(tensor < engine->info->tensor_count);
    const lzt_tensor *t = &engine->info->tensor[tensor];
    *at = t->unit_offset;
    *count = t->element_count;
    return &engine->layout->unit[t->unit];
}

static void read_bf16(const uint16_t *from, uint64_t count, float *out)
{
    for (uint64_t i = 0; i < count; i++) out[i] = lzt_bf16_to_f32(from[i]);
}

/* bits = (hi << 16) + lo: see lazytrain/dtype.h. Without low halves (not training) the high half is all there is. */
static void read_master(const lzt_engine *engine, const lzt_state_unit *unit, uint64_t at, uint64_t count, float *out)
{
    if (engine->plan.numerics.dtype == LZT_DTYPE_F32) {
        memcpy(out, (float *)lzt__host(engine, unit->weight_offset) + at, count * sizeof *out);
        return;
    }
    const uint16_t *high = (uint16_t *)lzt__host(engine, unit->weight_offset) + at;
    if (!engine->training) {
        read_bf16(high, count, out);
        return;
    }
    const int16_t *low = (int16_t *)lzt__host(engine, unit->low_offset) + at;
    for (uint64_t i = 0; i < count; i++) {
        word w = {((uint32_t)high[i] << 16) + (uint32_t)(int32_t)low[i]};
        out[i] = w.f;
    }
}

static void write_master(lzt_engine *engine, const lzt_state_unit *unit, uint64_t at, uint64_t count, const float *in)
{
    if (engine->plan.numerics.dtype == LZT_DTYPE_F32) {
        memcpy((float *)lzt__host(engine, unit->weight_offset) + at, in, count * sizeof *in);
        return;
    }
    uint16_t *high = (uint16_t *)lzt__host(engine, unit->weight_offset) + at;
    int16_t *low = engine->training ? (int16_t *)lzt__host(engine, unit->low_offset) + at : NULL;
    for (uint64_t i = 0; i < count; i++) {
        word w = {.f = in[i]};
        high[i] = lzt_bf16_hi(w.u);
        if (low) low[i] = (int16_t)(w.u - ((uint32_t)high[i] << 16));
    }
}

lzt_status lzt_engine_read(const lzt_engine *engine, lzt_state_part part, uint32_t tensor, float *out, lzt_error *err)
{
    uint64_t at, count;
    const lzt_state_unit *unit = unit_of(engine, tensor, &at, &count);
    if (engine->pending && part != LZT_STATE_PART_GRADIENT)
        return lzt_fail(err, LZT_ERR_INTERNAL, NULL, "state read while an update is pending");
    if (part == LZT_STATE_PART_MASTER) {
        read_master(engine, unit, at, count, out);
        return LZT_OK;
    }
    assert(engine->training);
    if (part == LZT_STATE_PART_GRADIENT && engine->plan.numerics.grad_dtype == LZT_DTYPE_BF16) {
        read_bf16((uint16_t *)lzt__host(engine, unit->gradient_offset) + at, count, out);
        return LZT_OK;
    }
    uint64_t offset = part == LZT_STATE_PART_GRADIENT  ? unit->gradient_offset
                      : part == LZT_STATE_PART_EXP_AVG ? unit->exp_avg_offset
                                                       : unit->exp_avg_sq_offset;
    memcpy(out, (float *)lzt__host(engine, offset) + at, count * sizeof *out);
    return LZT_OK;
}

lzt_status lzt_engine_write(lzt_engine *engine, lzt_state_part part, uint32_t tensor, const float *in, lzt_error *err)
{
    uint64_t at, count;
    const lzt_state_unit *unit = unit_of(engine, tensor, &at, &count);
    if (engine->pending || part == LZT_STATE_PART_GRADIENT)
        return lzt_fail(err, LZT_ERR_INTERNAL, NULL, "state written while an update is pending, or a gradient");
    if (part == LZT_STATE_PART_MASTER) {
        write_master(engine, unit, at, count, in);
        return LZT_OK;
    }
    assert(engine->training);
    uint64_t offset = part == LZT_STATE_PART_EXP_AVG ? unit->exp_avg_offset : unit->exp_avg_sq_offset;
    memcpy((float *)lzt__host(engine, offset) + at, in, count * sizeof *in);
    return LZT_OK;
}

lzt_status lzt_engine_read_weight(const lzt_engine *engine, uint32_t tensor, float *out, lzt_error *err)
{
    if (engine->plan.numerics.dtype == LZT_DTYPE_F32)
        return lzt_engine_read(engine, LZT_STATE_PART_MASTER, tensor, out, err);
    uint64_t at, count;
    const lzt_state_unit *unit = unit_of(engine, tensor, &at, &count);
    if (engine->pending) return lzt_fail(err, LZT_ERR_INTERNAL, NULL, "weights read while an update is pending");
    read_bf16((uint16_t *)lzt__host(engine, unit->weight_offset) + at, count, out);
    return LZT_OK;
}

static uint64_t largest_tensor(const lzt_model_info *info)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < info->tensor_count; i++)
        if (info->tensor[i].element_count > most) most = info->tensor[i].element_count;
    return most;
}

lzt_status lzt_engine_load(lzt_engine *engine, lzt_error *err)
{
    const lzt_model_info *info = engine->info;
    float *values = malloc(largest_tensor(info) * sizeof *values);
    if (!values) return lzt_fail(err, LZT_ERR_NO_MEMORY, info->directory, "no memory to read the largest tensor");
    lzt_status status = LZT_OK;
    for (uint32_t i = 0; i < info->tensor_count && !status; i++) {
        status = lzt_model_read_tensor(engine->model, i, values, err);
        if (!status) status = lzt_engine_write(engine, LZT_STATE_PART_MASTER, i, values, err);
    }
    free(values);
    return status;
}
