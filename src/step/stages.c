/* A micro-batch as a row of stages: see stages.h. */
#include "step/stages.h"

#include <stdlib.h>

static void add_stage(lzt_stage_list *list, lzt_stage_kind kind, uint32_t layer)
{
    list->stage[list->stage_count++] = (lzt_stage){.kind = kind, .layer = layer};
}

static void add_upload(lzt_stage_list *list, lzt_upload_kind kind, uint32_t index)
{
    list->upload[list->upload_count++] = (lzt_upload){kind, index, list->stage_count};
}

static void add_forward(const lzt_plan *plan, const lzt_model_info *model, bool weights_present, lzt_stage_list *list)
{
    for (uint32_t l = 0; l < plan->layer_count; l++) {
        if (!(weights_present && plan->weights[l])) add_upload(list, LZT_UPLOAD_UNIT, model->layer[l].unit);
        add_stage(list, LZT_STAGE_FORWARD, l);
    }
    uint32_t norm_unit = (uint32_t)plan->layer_count + 1;
    add_upload(list, LZT_UPLOAD_UNIT, norm_unit);
    if (!(weights_present && plan->head_weights)) add_upload(list, LZT_UPLOAD_UNIT, model->tied ? 0 : norm_unit + 1);
    add_stage(list, LZT_STAGE_HEAD, 0);
}

/* Internals come back in pieces, under the last internals_stages stages that end with their layer's backward. */
static void add_internals(const lzt_plan *plan, uint32_t layer, lzt_stage_list *list)
{
    uint32_t first = (uint32_t)plan->layer_count + 1; /* the first stage after the head */
    for (uint32_t left = (uint32_t)plan->internals_stages; left-- > 0;) {
        uint32_t need = list->stage_count >= first + left ? list->stage_count - left : first, at = list->upload_count++;
        for (; at && list->upload[at - 1].need_stage > need; at--) list->upload[at] = list->upload[at - 1];
        list->upload[at] = (lzt_upload){LZT_UPLOAD_INTERNALS, layer, need};
    }
}

/* The block of boundaries first .. end: recompute what lies between, then go back through its layers. */
static void add_block(const lzt_plan *plan, const lzt_model_info *model, uint32_t first, uint32_t end,
                      lzt_stage_list *list)
{
    if (plan->boundary[first] == LZT_TIER_CPU) add_upload(list, LZT_UPLOAD_BOUNDARY, first);
    if (plan->boundary[first] == LZT_TIER_RECOMPUTE) add_upload(list, LZT_UPLOAD_EMBEDDED, first);
    for (uint32_t l = first; l + 1 < end; l++) {
        if (!plan->weights[l]) add_upload(list, LZT_UPLOAD_UNIT, model->layer[l].unit);
        add_stage(list, LZT_STAGE_RECOMPUTE, l);
    }
    if (!plan->weights[end - 1]) add_upload(list, LZT_UPLOAD_UNIT, model->layer[end - 1].unit);
    for (uint32_t l = end; l-- > first;) {
        if (plan->internals[l] == LZT_TIER_CPU) add_internals(plan, l, list);
        add_stage(list, LZT_STAGE_BACKWARD, l);
    }
}

lzt_status lzt__stages_create(const lzt_plan *plan, const lzt_model_info *model, bool training, bool weights_present,
                              lzt_stage_list *list, lzt_error *err)
{
    uint64_t n = plan->layer_count;
    *list = (lzt_stage_list){0};
    list->stage = calloc(3 * n + 1, sizeof *list->stage);
    list->upload = calloc((3 + plan->internals_stages) * n + 4, sizeof *list->upload);
    if (!list->stage || !list->upload) {
        lzt__stages_fini(list);
        return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the stages of %llu layers", (unsigned long long)n);
    }
    add_forward(plan, model, weights_present, list);
    if (!training) return LZT_OK;
    for (uint32_t end = (uint32_t)n; end > 0;) {
        uint32_t first = end - 1;
        while (first && plan->boundary[first] == LZT_TIER_RECOMPUTE) first--;
        add_block(plan, model, first, end, list);
        end = first;
    }
    return LZT_OK;
}

void lzt__stages_fini(lzt_stage_list *list)
{
    free(list->stage);
    free(list->upload);
    *list = (lzt_stage_list){0};
}
