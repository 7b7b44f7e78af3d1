/* Greedy generation: the whole text so far runs through the model for each new id. */
#include "lazytrain/train.h"

#include "run/batch_memory.h"

#include <string.h>

static bool is_end(const lzt_model_info *model, int32_t id)
{
    for (int i = 0; i < model->eos_id_count; i++)
        if (model->eos_id[i] == id) return true;
    return false;
}

/* One document of count ids. */
static void set_text(lzt_micro_batch *batch, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        batch->position[i] = (int32_t)i;
        batch->target[i] = -1;
    }
    batch->document_begin[0] = 0;
    batch->document_begin[1] = (int32_t)count;
    batch->token_count = count;
    batch->document_count = 1;
    batch->loss_count = 0;
}

static lzt_status check_prompt(const lzt_engine_info *info, const int32_t *prompt, uint64_t count, uint64_t max_new,
                               lzt_error *err)
{
    uint64_t capacity = info->plan->numerics.micro_batch_tokens;
    if (!count) return lzt_fail(err, LZT_ERR_USAGE, "prompt", "the prompt is empty");
    if (count + max_new > capacity + 1)
        return lzt_fail(err, LZT_ERR_USAGE, "prompt", "%llu ids and %llu new ones exceed the capacity of %llu",
                        (unsigned long long)count, (unsigned long long)max_new, (unsigned long long)capacity);
    for (uint64_t i = 0; i < count; i++)
        if (prompt[i] < 0 || (uint64_t)prompt[i] >= info->model->vocabulary)
            return lzt_fail(err, LZT_ERR_USAGE, "prompt", "id %d is outside the vocabulary of %llu", prompt[i],
                            (unsigned long long)info->model->vocabulary);
    return LZT_OK;
}

lzt_status lzt_generate(lzt_engine *engine, const int32_t *prompt, uint64_t count, uint64_t max_new, int32_t *out,
                        uint64_t *made, float *logits, lzt_error *err)
{
    lzt_engine_info info;
    lzt_micro_batch batch = {0};
    *made = 0;
    lzt_engine_get_info(engine, &info);
    lzt_status status = check_prompt(&info, prompt, count, max_new, err);
    if (!status) status = lzt_engine_drain(engine, NULL, err);
    if (!status) status = lzt__batch_create(info.plan->numerics.micro_batch_tokens, &batch, err);
    if (status) return status;
    memcpy(batch.ids, prompt, count * sizeof *prompt);
    for (bool ended = false; *made < max_new && !ended && !status;) {
        lzt_run_result result;
        set_text(&batch, count + *made);
        lzt_engine_set_batch(engine, &batch, 1.0f);
        status = lzt_engine_run(engine, LZT_VARIANT_GENERATE, &result, err);
        if (status) break;
        if (logits && *made == 0) memcpy(logits, result.logits, info.model->vocabulary * sizeof *logits);
        int32_t id = result.ids[0];
        out[*made] = id;
        if (count + *made < batch.capacity) batch.ids[count + *made] = id;
        (*made)++;
        ended = is_end(info.model, id);
    }
    lzt__batch_destroy(&batch);
    return status;
}
