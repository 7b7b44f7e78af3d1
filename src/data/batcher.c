/* Steps, global batches and micro-batches as functions of the step: see lazytrain/data.h.
 *
 * Epoch e visits the dataset's rows in the order that (seed, e) names. Step s is batch s % B of epoch s / B, where B is
 * the number of batches of an epoch; a batch is cut into micro-batches of micro_batch_rows.
 */
#include "base/rng.h"
#include "lazytrain/data.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

struct lzt_batcher {
    lzt_batcher_options o;
    lzt_dataset *dataset;
    uint64_t rows, batch_rows, steps_per_epoch, steps, capacity;
    int32_t *labels; /* [label_capacity] of one row */
    uint64_t label_capacity;
};

uint64_t lzt_order_row(const lzt_batcher_options *options, uint64_t rows, uint64_t epoch, uint64_t index)
{
    assert(index < rows);
    return options->disable_shuffling ? index : lzt__rng_permute(options->seed, epoch, rows, index);
}

/* The rows of step's batch: places [begin, end) of its epoch. */
static void batch_of(const lzt_batcher *b, uint64_t step, uint64_t *epoch, uint64_t *begin, uint64_t *end)
{
    assert(step < b->steps);
    *epoch = step / b->steps_per_epoch;
    *begin = step % b->steps_per_epoch * b->batch_rows;
    *end = b->rows - *begin < b->batch_rows ? b->rows : *begin + b->batch_rows;
}

static void micro_of(const lzt_batcher *b, uint64_t step, uint64_t m, uint64_t *epoch, uint64_t *begin, uint64_t *end)
{
    uint64_t last;
    batch_of(b, step, epoch, begin, &last);
    *begin += m * b->o.micro_batch_rows;
    assert(*begin < last);
    *end = last - *begin < b->o.micro_batch_rows ? last : *begin + b->o.micro_batch_rows;
}

static lzt_status check_options(const lzt_batcher_options *o, lzt_error *err)
{
    if (o->struct_bytes != sizeof *o) return lzt_fail(err, LZT_ERR_USAGE, "batches", "options of another version");
    if (!o->micro_batch_rows || o->micro_batch_rows > UINT32_MAX)
        return lzt_fail(err, LZT_ERR_USAGE, "per_device_train_batch_size", "must be 1 or more");
    if (!o->accumulation || o->accumulation > UINT32_MAX)
        return lzt_fail(err, LZT_ERR_USAGE, "gradient_accumulation_steps", "must be 1 or more");
    if (!o->max_steps && !(o->epochs > 0 && o->epochs < 1e9))
        return lzt_fail(err, LZT_ERR_USAGE, "num_train_epochs", "must be above 0 where max_steps is not given");
    return LZT_OK;
}

static lzt_status plan_steps(lzt_batcher *b, lzt_error *err)
{
    b->rows = lzt_dataset_rows(b->dataset);
    b->batch_rows = b->o.micro_batch_rows * b->o.accumulation;
    b->steps_per_epoch = b->rows / b->batch_rows + (!b->o.drop_last && b->rows % b->batch_rows);
    if (!b->steps_per_epoch) {
        lzt_fail(err, LZT_ERR_DATA, lzt_dataset_path(b->dataset),
                 "%llu rows do not fill one batch of %llu, and dataloader_drop_last leaves the rest out",
                 (unsigned long long)b->rows, (unsigned long long)b->batch_rows);
        return lzt_hint(err, "set dataloader_drop_last: false, or a smaller batch");
    }
    double steps = ceil(b->o.epochs * (double)b->steps_per_epoch - 1e-9);
    b->steps = b->o.max_steps ? b->o.max_steps : steps < 1 ? 1 : (uint64_t)steps;
    return LZT_OK;
}

/* Walks all micro-batches of the run: O(rows of the run), counts only. In file order one epoch tells all. */
static lzt_status find_capacity(lzt_batcher *b, lzt_error *err)
{
    uint64_t steps = b->steps;
    if (b->o.disable_shuffling && steps > b->steps_per_epoch) steps = b->steps_per_epoch;
    for (uint64_t step = 0; step < steps; step++)
        for (uint64_t m = 0, n = lzt_batcher_micro_batches(b, step); m < n; m++) {
            uint64_t epoch, begin, end, longest = 0;
            micro_of(b, step, m, &epoch, &begin, &end);
            for (uint64_t i = begin; i < end; i++) {
                uint32_t tokens;
                lzt_status s =
                    lzt_dataset_measure(b->dataset, lzt_order_row(&b->o, b->rows, epoch, i), &tokens, NULL, err);
                if (s) return s;
                if (tokens > longest) longest = tokens;
            }
            if (longest > b->label_capacity) b->label_capacity = longest;
            if (longest * (end - begin) > b->capacity) b->capacity = longest * (end - begin);
        }
    return LZT_OK;
}

lzt_status lzt_batcher_create(lzt_dataset *dataset, const lzt_batcher_options *options, lzt_batcher **batcher,
                              lzt_error *err)
{
    *batcher = NULL;
    lzt_status s = check_options(options, err);
    if (s) return s;
    lzt_batcher *b = calloc(1, sizeof *b);
    if (!b) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a batcher");
    b->o = *options;
    b->dataset = dataset;
    s = plan_steps(b, err);
    if (!s) s = find_capacity(b, err);
    if (!s && !b->capacity) s = lzt_fail(err, LZT_ERR_DATA, lzt_dataset_path(dataset), "no trainable tokens");
    if (!s && !(b->labels = malloc(b->label_capacity * sizeof *b->labels)))
        s = lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a row of labels");
    if (s) {
        lzt_batcher_destroy(b);
        return s;
    }
    *batcher = b;
    return LZT_OK;
}

void lzt_batcher_destroy(lzt_batcher *b)
{
    if (!b) return;
    free(b->labels);
    free(b);
}

uint64_t lzt_batcher_rows(const lzt_batcher *b)
{
    return b->rows;
}

uint64_t lzt_batcher_steps(const lzt_batcher *b)
{
    return b->steps;
}

uint64_t lzt_batcher_steps_per_epoch(const lzt_batcher *b)
{
    return b->steps_per_epoch;
}

double lzt_batcher_epoch(const lzt_batcher *b, uint64_t step)
{
    return (double)step / (double)b->steps_per_epoch;
}

uint64_t lzt_batcher_capacity(const lzt_batcher *b)
{
    return b->capacity;
}

uint64_t lzt_batcher_micro_batches(const lzt_batcher *b, uint64_t step)
{
    uint64_t epoch, begin, end;
    batch_of(b, step, &epoch, &begin, &end);
    return (end - begin + b->o.micro_batch_rows - 1) / b->o.micro_batch_rows;
}

lzt_status lzt_batcher_loss_count(lzt_batcher *b, uint64_t step, uint64_t *count, lzt_error *err)
{
    uint64_t epoch, begin, end, n = 0;
    batch_of(b, step, &epoch, &begin, &end);
    for (uint64_t i = begin; i < end; i++) {
        uint32_t trained;
        lzt_status s = lzt_dataset_measure(b->dataset, lzt_order_row(&b->o, b->rows, epoch, i), NULL, &trained, err);
        if (s) return s;
        n += trained;
    }
    *count = n;
    return LZT_OK;
}

/* Appends one row as a document. */
static lzt_status append(lzt_batcher *b, uint64_t row, lzt_micro_batch *out, lzt_error *err)
{
    uint32_t tokens, trained;
    lzt_status s = lzt_dataset_measure(b->dataset, row, &tokens, &trained, err);
    if (s || !tokens) return s;
    uint64_t at = out->token_count;
    if (out->capacity - at < tokens || tokens > b->label_capacity)
        return lzt_fail(err, LZT_ERR_USAGE, lzt_dataset_path(b->dataset), "a micro-batch exceeds its %llu tokens",
                        (unsigned long long)out->capacity);
    s = lzt_dataset_read(b->dataset, row, out->ids + at, b->labels, err);
    if (s) return s;
    for (uint32_t t = 0; t < tokens; t++) {
        int32_t label = t + 1 < tokens ? b->labels[t + 1] : LZT_LABEL_NONE;
        out->position[at + t] = (int32_t)t;
        out->target[at + t] = label == LZT_LABEL_NONE ? -1 : label;
    }
    out->document_begin[out->document_count++] = (int32_t)at;
    out->token_count = at + tokens;
    out->loss_count += trained;
    return LZT_OK;
}

lzt_status lzt_batcher_fill(lzt_batcher *b, uint64_t step, uint64_t m, lzt_micro_batch *out, lzt_error *err)
{
    uint64_t epoch, begin, end, longest = 0;
    micro_of(b, step, m, &epoch, &begin, &end);
    out->token_count = out->document_count = out->loss_count = 0;
    for (uint64_t i = begin; i < end; i++) {
        uint64_t before = out->token_count;
        lzt_status s = append(b, lzt_order_row(&b->o, b->rows, epoch, i), out, err);
        if (s) return s;
        if (out->token_count - before > longest) longest = out->token_count - before;
    }
    out->document_begin[out->document_count] = (int32_t)out->token_count;
    out->padded_count = longest * out->document_count;
    return LZT_OK;
}
