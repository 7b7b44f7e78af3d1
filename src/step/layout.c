/* The persistent part of the host arena: weights, gradients, moments, and the small buffers of a step. */
#include "lazytrain/step.h"

#include <assert.h>
#include <stdlib.h>

/* Hands out places one after the other. */
static uint64_t take(uint64_t *cursor, uint64_t bytes)
{
    uint64_t at = *cursor;
    *cursor += (bytes + LZT_DEV_ALIGNMENT - 1) / LZT_DEV_ALIGNMENT * LZT_DEV_ALIGNMENT;
    return at;
}

static void lay_unit(lzt_state_unit *unit, const lzt_numerics *numerics, bool training, uint64_t *cursor)
{
    uint64_t n = unit->element_count;
    bool split = numerics->dtype == LZT_DTYPE_BF16;
    unit->weight_offset = take(cursor, n * (split ? 2 : 4));
    if (!training) return;
    unit->low_offset = split ? take(cursor, n * 2) : 0;
    unit->gradient_offset = take(cursor, n * lzt_dtype_bytes(numerics->grad_dtype));
    unit->exp_avg_offset = take(cursor, n * 4);
    unit->exp_avg_sq_offset = take(cursor, n * 4);
}

lzt_status lzt_state_layout_create(const lzt_model_info *model, const lzt_numerics *numerics, bool training,
                                   lzt_state_layout **out, lzt_error *err)
{
    assert(numerics->dtype == LZT_DTYPE_F32 || numerics->dtype == LZT_DTYPE_BF16);
    lzt_state_layout *layout = calloc(1, sizeof *layout);
    lzt_state_unit *unit = calloc(model->unit_count, sizeof *unit);
    if (!layout || !unit) {
        free(layout);
        free(unit);
        return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the state layout");
    }
    layout->unit = unit;
    layout->unit_count = model->unit_count;
    layout->training = training;
    uint64_t cursor = 0, tokens = numerics->micro_batch_tokens;
    for (uint32_t u = 0; u < model->unit_count; u++) {
        unit[u].element_count = model->unit[u].element_count;
        lay_unit(&unit[u], numerics, training, &cursor);
    }
    layout->state_bytes = cursor;
    layout->descriptor_offset = take(&cursor, lzt_batch_bytes(tokens));
    layout->ids_offset = take(&cursor, 4 * (1 + tokens));
    layout->inv_freq_offset = take(&cursor, model->rotary_dim / 2 * 4);
    layout->current_offset = take(&cursor, sizeof(lzt_step_scalars));
    layout->pending_offset = take(&cursor, sizeof(lzt_step_scalars));
    layout->partials_offset = take(&cursor, sizeof(double) * model->unit_count);
    layout->result_offset = take(&cursor, 64 + 4 * tokens);
    layout->logits_offset = take(&cursor, 4 * model->vocabulary);
    layout->bytes = cursor;
    *out = layout;
    return LZT_OK;
}

void lzt_state_layout_destroy(lzt_state_layout *layout)
{
    if (!layout) return;
    free(layout->unit);
    free(layout);
}
