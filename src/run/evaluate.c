/* Evaluation: the loss of a dataset, row by row, independent of how rows are grouped. */
#include "lazytrain/train.h"

#include "base/clock.h"
#include "run/batch_memory.h"

/* Leaves the first rows of a micro-batch. */
static void keep_rows(lzt_micro_batch *batch, uint64_t rows)
{
    if (rows >= batch->document_count) return;
    batch->document_count = rows;
    batch->token_count = (uint64_t)batch->document_begin[rows];
    batch->loss_count = 0;
    batch->loss_weight = 0;
    for (uint64_t d = 0; d < rows; d++) {
        double weight = 0;
        for (int32_t t = batch->document_begin[d]; t < batch->document_begin[d + 1]; t++) {
            batch->loss_count += batch->target[t] >= 0;
            weight += (double)batch->weight[t];
        }
        batch->loss_weight += weight;
    }
}

static lzt_status evaluate_rows(lzt_engine *engine, lzt_batcher *batcher, uint64_t limit,
                                const volatile sig_atomic_t *stop, lzt_micro_batch *batch, lzt_eval_result *out,
                                lzt_error *err)
{
    lzt_run_result result;
    for (uint64_t step = 0; step < lzt_batcher_steps(batcher) && (!limit || out->rows < limit); step++) {
        if (stop && *stop) return lzt_fail(err, LZT_ERR_INTERRUPTED, NULL, "interrupted during evaluation");
        lzt_status status = lzt_batcher_fill(batcher, step, 0, batch, err);
        if (status) return status;
        if (limit) keep_rows(batch, limit - out->rows);
        lzt_engine_set_batch(engine, batch, 1.0f);
        status = lzt_engine_run(engine, LZT_VARIANT_EVALUATE, &result, err);
        if (status) return status;
        out->loss_sum += result.loss_sum;
        out->loss_count += batch->loss_count;
        out->loss_weight += batch->loss_weight;
        out->rows += batch->document_count;
    }
    return LZT_OK;
}

lzt_status lzt_evaluate(lzt_engine *engine, lzt_dataset *dataset, uint64_t rows, uint64_t limit,
                        const volatile sig_atomic_t *stop, lzt_eval_result *out, lzt_error *err)
{
    lzt_engine_info info;
    lzt_batcher *batcher = NULL;
    lzt_micro_batch batch = {0};
    lzt_batcher_options options = LZT_BATCHER_OPTIONS_INIT;
    uint64_t begin = lzt__clock_ns();
    *out = (lzt_eval_result){0};
    lzt_engine_get_info(engine, &info);
    options.micro_batch_rows = rows;
    options.disable_shuffling = true;
    lzt_status status = lzt_engine_drain(engine, NULL, err);
    if (!status) status = lzt_batcher_create(dataset, &options, &batcher, err);
    if (!status) status = lzt__batch_create(info.plan->numerics.micro_batch_tokens, &batch, err);
    if (!status) status = evaluate_rows(engine, batcher, limit, stop, &batch, out, err);
    lzt__batch_destroy(&batch);
    lzt_batcher_destroy(batcher);
    out->seconds = lzt__clock_seconds(lzt__clock_ns() - begin);
    return status;
}
