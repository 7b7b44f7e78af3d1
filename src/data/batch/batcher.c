/* Steps, global batches and micro-batches as functions of the step: see lazytrain/data.h.
 *
 * Epoch e visits the dataset's rows in the order that (seed, e) names. Unpacked, a unit of a batch is a row, and step s
 * is batch s % B of epoch s / B, where B is the number of batches of an epoch. Grouped by length, the same, with the
 * rows of a window reordered. Packed, a unit is a pack; how many an epoch has depends on its order, so the epochs'
 * first steps are tabled when the batcher is made.
 */
#include "data/batch/grouper.h"
#include "data/batch/packer.h"
#include "lazytrain/data.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One window, kept until another is needed: its packs, or its rows grouped by length. */
typedef struct window {
    bool valid;
    uint64_t epoch, index;
    lzt__packs packs; /* packed */
    uint32_t *item;   /* grouped: [window_rows] */
} window;

struct lzt_batcher {
    lzt_batcher_options o;
    lzt_dataset *dataset;
    uint64_t rows, batch_units, steps_per_epoch, steps, capacity;
    int32_t *labels; /* [label_capacity] of one row */
    float *weights;  /* beside labels */
    uint64_t label_capacity;
    uint64_t window_rows; /* of a whole window */
    uint32_t *length;     /* [window_rows] packed, grouped */
    window kept;
    /* packed */
    uint64_t windows;       /* of an epoch */
    uint64_t epochs;        /* in the tables */
    uint64_t known;         /* windows of the last epoch that were counted */
    uint64_t *first;        /* [epochs + 1] step of an epoch's first batch */
    double tokens, squares; /* sums over the first epoch's lengths, and their squares */
    uint64_t *pack_base;    /* [epochs * (windows + 1)] packs of an epoch before a window */
};

static uint64_t row_at(const lzt_batcher *b, uint64_t epoch, uint64_t index)
{
    return lzt_dataset_epoch_row(b->dataset, b->o.seed, !b->o.disable_shuffling, epoch, index);
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
    if (o->packing && (!o->pack_tokens || o->pack_tokens > INT32_MAX))
        return lzt_fail(err, LZT_ERR_USAGE, "packing", "needs max_seq_length, the tokens of a pack");
    if (o->packing && o->group_by_length) {
        lzt_fail(err, LZT_ERR_USAGE, "group_by_length", "packing and group_by_length exclude one another");
        return lzt_hint(err, "packs are full whatever the lengths: leave group_by_length out");
    }
    if (o->disable_shuffling && o->group_by_length)
        return lzt_fail(err, LZT_ERR_USAGE, "group_by_length",
                        "disable_shuffling keeps the file's order, which group_by_length changes");
    return LZT_OK;
}

/* Batches that hold so many units. */
static uint64_t batches_of(const lzt_batcher *b, uint64_t units)
{
    return units / b->batch_units + (!b->o.drop_last && units % b->batch_units);
}

static lzt_status too_few(const lzt_batcher *b, uint64_t units, lzt_error *err)
{
    lzt_fail(err, LZT_ERR_DATA, lzt_dataset_path(b->dataset),
             "%llu %s do not fill one batch of %llu, and dataloader_drop_last leaves the rest out",
             (unsigned long long)units, b->o.packing ? "packs" : "rows", (unsigned long long)b->batch_units);
    return lzt_hint(err, "set dataloader_drop_last: false, or a smaller batch");
}

static uint64_t steps_of_epochs(double epochs, double steps_per_epoch)
{
    double steps = ceil(epochs * steps_per_epoch - 1e-9);
    return steps < 1 ? 1 : (uint64_t)steps;
}

/* ---- windows ---- */

static lzt_status make_window_memory(lzt_batcher *b, lzt_error *err)
{
    b->length = malloc(b->window_rows * sizeof *b->length);
    b->kept.item = b->o.group_by_length ? malloc(b->window_rows * sizeof *b->kept.item) : NULL;
    if (!b->length || (b->o.group_by_length && !b->kept.item))
        return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a window of rows");
    return LZT_OK;
}

/* The lengths of a window's rows, in the epoch's order. */
static lzt_status measure_window(lzt_batcher *b, uint64_t epoch, uint64_t begin, uint64_t end, lzt_error *err)
{
    lzt_status s = LZT_OK;
    for (uint64_t i = begin; !s && i < end; i++) {
        uint32_t *length = &b->length[i - begin];
        s = lzt_dataset_measure(b->dataset, row_at(b, epoch, i), length, NULL, err);
        if (!s && b->o.packing && *length > b->o.pack_tokens)
            s = lzt_fail(err, LZT_ERR_USAGE, "packing", "a row of %u tokens does not fit a pack of %llu", *length,
                         (unsigned long long)b->o.pack_tokens);
    }
    return s;
}

static lzt_status arrange(lzt_batcher *b, uint64_t epoch, uint64_t index, uint64_t rows, lzt_error *err)
{
    const uint64_t name[3] = {b->o.seed, epoch, index};
    if (b->o.group_by_length) return lzt__group(b->length, rows, b->batch_units, name, b->kept.item, err);
    lzt_status s = lzt__pack(b->length, (uint32_t)rows, b->o.pack_tokens, &b->kept.packs, err);
    return s || b->o.disable_shuffling ? s : lzt__packs_shuffle(&b->kept.packs, b->o.seed, epoch, index, err);
}

/* Makes a window the kept one. */
static lzt_status load_window(lzt_batcher *b, uint64_t epoch, uint64_t index, lzt_error *err)
{
    if (b->kept.valid && b->kept.epoch == epoch && b->kept.index == index) return LZT_OK;
    uint64_t begin = index * b->window_rows, end = b->rows - begin < b->window_rows ? b->rows : begin + b->window_rows;
    b->kept.valid = false;
    lzt_status s = measure_window(b, epoch, begin, end, err);
    if (!s) s = arrange(b, epoch, index, end - begin, err);
    b->kept.valid = !s;
    b->kept.epoch = epoch;
    b->kept.index = index;
    return s;
}

/* ---- packed ---- */

static lzt_status grow_tables(lzt_batcher *b, lzt_error *err)
{
    uint64_t n = b->epochs + 1;
    uint64_t *first = realloc(b->first, (n + 1) * sizeof *first);
    if (first) b->first = first;
    uint64_t *base = first ? realloc(b->pack_base, n * (b->windows + 1) * sizeof *base) : NULL;
    if (!base) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the table of packs");
    b->pack_base = base;
    if (!b->epochs) b->first[0] = 0;
    return LZT_OK;
}

/* Rows of a lazy dataset are not looked into beyond what max_steps needs. */
static bool is_enough(const lzt_batcher *b, uint64_t packs)
{
    return lzt_dataset_is_lazy(b->dataset) && b->o.max_steps &&
           b->first[b->epochs] + packs / b->batch_units >= b->o.max_steps;
}

/* Adds the kept window's lengths to the sums. */
static void add_lengths(lzt_batcher *b)
{
    uint64_t left = b->rows - b->kept.index * b->window_rows, rows = left < b->window_rows ? left : b->window_rows;
    for (uint64_t i = 0; i < rows; i++) {
        b->tokens += b->length[i];
        b->squares += (double)b->length[i] * b->length[i];
    }
}

/* Counts the packs of one more epoch; *batches receives its batches. */
static lzt_status table_epoch(lzt_batcher *b, uint64_t *batches, lzt_error *err)
{
    lzt_status s = grow_tables(b, err);
    if (s) return s;
    uint64_t *base = b->pack_base + b->epochs * (b->windows + 1), w = 0;
    base[0] = 0;
    for (; !s && w < b->windows && !is_enough(b, base[w]); w++) {
        s = load_window(b, b->epochs, w, err);
        base[w + 1] = base[w] + b->kept.packs.count;
        if (!s && !b->epochs) add_lengths(b);
    }
    if (s) return s;
    b->known = w;
    for (; w < b->windows; w++) base[w + 1] = base[w];
    uint64_t packs = base[b->windows];
    if (b->known < b->windows)
        packs = (uint64_t)((double)packs * (double)b->rows / (double)(b->known * b->window_rows));
    *batches = batches_of(b, packs);
    if (!*batches) return too_few(b, packs, err);
    b->first[b->epochs + 1] = b->first[b->epochs] + *batches;
    b->epochs++;
    return LZT_OK;
}

static lzt_status plan_packed(lzt_batcher *b, lzt_error *err)
{
    b->windows = (b->rows + b->window_rows - 1) / b->window_rows;
    double left = b->o.epochs;
    lzt_status s = make_window_memory(b, err);
    if (s) return s;
    do {
        uint64_t batches = 0;
        s = table_epoch(b, &batches, err);
        if (s) break;
        if (b->epochs == 1) b->steps_per_epoch = batches;
        if (b->o.max_steps)
            b->steps = b->first[b->epochs] < b->o.max_steps ? 0 : b->o.max_steps;
        else if (left <= 1)
            b->steps = b->first[b->epochs - 1] + steps_of_epochs(left, (double)batches);
        left -= 1;
    } while (!b->steps);
    uint64_t most = b->o.micro_batch_rows;
    if (!s && b->epochs == 1 && b->pack_base[b->windows] < most) most = b->pack_base[b->windows];
    b->capacity = most * b->o.pack_tokens;
    b->label_capacity = b->o.pack_tokens;
    return s;
}

static uint64_t epoch_of(const lzt_batcher *b, uint64_t step)
{
    if (!b->o.packing) return step / b->steps_per_epoch;
    uint64_t e = 0;
    while (b->first[e + 1] <= step) e++;
    return e;
}

/* ---- both ---- */

/* The units of step's batch: places [begin, end) of its epoch. */
static void batch_of(const lzt_batcher *b, uint64_t step, uint64_t *epoch, uint64_t *begin, uint64_t *end)
{
    assert(step < b->steps);
    *epoch = epoch_of(b, step);
    uint64_t first = b->o.packing ? b->first[*epoch] : *epoch * b->steps_per_epoch;
    uint64_t units = b->o.packing ? b->pack_base[*epoch * (b->windows + 1) + b->windows] : b->rows;
    *begin = (step - first) * b->batch_units;
    *end = units - *begin < b->batch_units ? units : *begin + b->batch_units;
}

static void micro_of(const lzt_batcher *b, uint64_t step, uint64_t m, uint64_t *epoch, uint64_t *begin, uint64_t *end)
{
    uint64_t last;
    batch_of(b, step, epoch, begin, &last);
    *begin += m * b->o.micro_batch_rows;
    assert(*begin < last);
    *end = last - *begin < b->o.micro_batch_rows ? last : *begin + b->o.micro_batch_rows;
}

typedef lzt_status row_fn(lzt_batcher *b, uint64_t row, void *arg, lzt_error *err);

/* Calls visit for the rows of a unit: one row, or a pack's. */
static lzt_status each_row(lzt_batcher *b, uint64_t epoch, uint64_t unit, row_fn *visit, void *arg, lzt_error *err)
{
    if (b->o.group_by_length) {
        lzt_status grouped = load_window(b, epoch, unit / b->window_rows, err);
        if (grouped) return grouped;
        uint64_t place = unit / b->window_rows * b->window_rows + b->kept.item[unit % b->window_rows];
        return visit(b, row_at(b, epoch, place), arg, err);
    }
    if (!b->o.packing) return visit(b, row_at(b, epoch, unit), arg, err);
    const uint64_t *base = b->pack_base + epoch * (b->windows + 1);
    uint64_t w = 0;
    while (base[w + 1] <= unit) w++;
    lzt_status s = load_window(b, epoch, w, err);
    if (s) return s;
    uint64_t p = unit - base[w];
    for (uint32_t i = b->kept.packs.begin[p]; !s && i < b->kept.packs.begin[p + 1]; i++)
        s = visit(b, row_at(b, epoch, w * b->window_rows + b->kept.packs.item[i]), arg, err);
    return s;
}

static lzt_status longest_row(lzt_batcher *b, uint64_t row, void *arg, lzt_error *err)
{
    uint64_t *longest = arg;
    uint32_t tokens;
    lzt_status s = lzt_dataset_measure(b->dataset, row, &tokens, NULL, err);
    if (!s && tokens > *longest) *longest = tokens;
    return s;
}

/* Walks all micro-batches of the run: O(rows of the run), counts only. In file order one epoch tells all, unless the
 * mix gives each epoch other rows. Epochs of a lazy dataset are not walked where its rows have a bound: that would make
 * every row before the first step. */
static lzt_status find_capacity(lzt_batcher *b, lzt_error *err)
{
    uint64_t bound = lzt_dataset_max_tokens(b->dataset);
    if (lzt_dataset_is_lazy(b->dataset) && !b->o.max_steps && bound) {
        b->label_capacity = bound;
        b->capacity = bound * (b->rows < b->o.micro_batch_rows ? b->rows : b->o.micro_batch_rows);
        return LZT_OK;
    }
    uint64_t steps = b->steps;
    bool alike = b->o.disable_shuffling && !lzt_dataset_epochs_differ(b->dataset);
    if (alike && steps > b->steps_per_epoch) steps = b->steps_per_epoch;
    for (uint64_t step = 0; step < steps; step++)
        for (uint64_t m = 0, n = lzt_batcher_micro_batches(b, step); m < n; m++) {
            uint64_t epoch, begin, end, longest = 0;
            micro_of(b, step, m, &epoch, &begin, &end);
            for (uint64_t i = begin; i < end; i++) {
                lzt_status s = each_row(b, epoch, i, longest_row, &longest, err);
                if (s) return s;
            }
            if (longest > b->label_capacity) b->label_capacity = longest;
            if (longest * (end - begin) > b->capacity) b->capacity = longest * (end - begin);
        }
    return LZT_OK;
}

static lzt_status plan_unpacked(lzt_batcher *b, lzt_error *err)
{
    b->steps_per_epoch = batches_of(b, b->rows);
    if (!b->steps_per_epoch) return too_few(b, b->rows, err);
    b->steps = b->o.max_steps ? b->o.max_steps : steps_of_epochs(b->o.epochs, (double)b->steps_per_epoch);
    lzt_status s = b->o.group_by_length ? make_window_memory(b, err) : LZT_OK;
    return s ? s : find_capacity(b, err);
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
    b->rows = lzt_dataset_epoch_rows(dataset);
    b->batch_units = b->o.micro_batch_rows * b->o.accumulation;
    b->window_rows = LZT__PACK_WINDOW;
    if (b->o.group_by_length && b->batch_units < LZT__PACK_WINDOW)
        b->window_rows = LZT__PACK_WINDOW / b->batch_units * b->batch_units; /* whole batches */
    else if (b->o.group_by_length)
        b->window_rows = b->batch_units;
    s = b->o.packing ? plan_packed(b, err) : plan_unpacked(b, err);
    if (!s && !b->capacity) s = lzt_fail(err, LZT_ERR_DATA, lzt_dataset_path(dataset), "no trainable tokens");
    if (!s) {
        b->labels = malloc(b->label_capacity * sizeof *b->labels);
        b->weights = malloc(b->label_capacity * sizeof *b->weights);
        if (!b->labels || !b->weights) s = lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a row of labels");
    }
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
    free(b->weights);
    free(b->first);
    free(b->pack_base);
    free(b->length);
    free(b->kept.item);
    free(b);
}

const lzt_dataset *lzt_batcher_dataset(const lzt_batcher *b)
{
    return b->dataset;
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
    if (!b->o.packing) return (double)step / (double)b->steps_per_epoch;
    if (!step) return 0;
    uint64_t e = epoch_of(b, step - 1);
    return (double)e + (double)(step - b->first[e]) / (double)(b->first[e + 1] - b->first[e]);
}

static void place_of(const lzt_batcher *b, uint64_t step, lzt_data_position *at)
{
    *at = (lzt_data_position){.epoch = b->epochs};
    if (step == b->first[b->epochs]) return; /* the epoch behind the tables */
    at->epoch = epoch_of(b, step);
    const uint64_t *base = b->pack_base + at->epoch * (b->windows + 1);
    uint64_t last = at->epoch + 1 == b->epochs ? b->known : b->windows;
    at->pack = (step - b->first[at->epoch]) * b->batch_units;
    while (at->window < last && base[at->window + 1] <= at->pack) at->window++;
    at->pack -= base[at->window];
}

void lzt_batcher_position(const lzt_batcher *b, uint64_t step, lzt_data_position *at)
{
    assert(step <= b->steps);
    if (b->o.packing) {
        place_of(b, step, at);
        return;
    }
    uint64_t row = step % b->steps_per_epoch * b->batch_units;
    *at = (lzt_data_position){step / b->steps_per_epoch, row / b->window_rows, row % b->window_rows};
}

bool lzt_batcher_ends_epoch(const lzt_batcher *b, uint64_t steps)
{
    lzt_data_position at;
    lzt_batcher_position(b, steps, &at);
    return steps && !at.window && !at.pack;
}

uint64_t lzt_batcher_document_tokens(const lzt_batcher *b)
{
    return b->tokens > 0 ? (uint64_t)(b->squares / b->tokens + 0.5) : 0;
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

typedef struct loss_total {
    uint64_t count;
    double weight;
} loss_total;

static lzt_status count_trained(lzt_batcher *b, uint64_t row, void *arg, lzt_error *err)
{
    loss_total *total = arg;
    uint32_t trained;
    double weight = 0;
    lzt_status s = lzt_dataset_measure(b->dataset, row, NULL, &trained, err);
    if (!s) s = lzt_dataset_weigh(b->dataset, row, &weight, err);
    total->count += trained;
    total->weight += weight;
    return s;
}

lzt_status lzt_batcher_loss_count(lzt_batcher *b, uint64_t step, uint64_t *count, double *weight, lzt_error *err)
{
    uint64_t epoch, begin, end;
    loss_total total = {0};
    lzt_status s = LZT_OK;
    batch_of(b, step, &epoch, &begin, &end);
    for (uint64_t i = begin; !s && i < end; i++) s = each_row(b, epoch, i, count_trained, &total, err);
    *count = total.count;
    *weight = total.weight;
    return s;
}

/* Appends one row as a document. */
static lzt_status append(lzt_batcher *b, uint64_t row, void *arg, lzt_error *err)
{
    lzt_micro_batch *out = arg;
    uint32_t tokens, trained;
    double weight;
    lzt_status s = lzt_dataset_measure(b->dataset, row, &tokens, &trained, err);
    if (!s) s = lzt_dataset_weigh(b->dataset, row, &weight, err);
    if (s || !tokens) return s;
    uint64_t at = out->token_count;
    if (out->capacity - at < tokens || tokens > b->label_capacity)
        return lzt_fail(err, LZT_ERR_USAGE, lzt_dataset_path(b->dataset), "a micro-batch exceeds its %llu tokens",
                        (unsigned long long)out->capacity);
    s = lzt_dataset_read(b->dataset, row, out->ids + at, b->labels, b->weights, err);
    if (s) return s;
    for (uint32_t t = 0; t < tokens; t++) {
        bool last = t + 1 == tokens;
        int32_t label = last ? LZT_LABEL_NONE : b->labels[t + 1];
        out->position[at + t] = (int32_t)t;
        out->target[at + t] = label == LZT_LABEL_NONE ? -1 : label;
        out->weight[at + t] = last ? 0 : b->weights[t + 1];
    }
    out->document_begin[out->document_count++] = (int32_t)at;
    out->token_count = at + tokens;
    out->loss_count += trained;
    out->loss_weight += weight;
    return LZT_OK;
}

lzt_status lzt_batcher_fill(lzt_batcher *b, uint64_t step, uint64_t m, lzt_micro_batch *out, lzt_error *err)
{
    uint64_t epoch, begin, end, longest = 0;
    micro_of(b, step, m, &epoch, &begin, &end);
    out->token_count = out->document_count = out->loss_count = 0;
    out->loss_weight = 0;
    for (uint64_t i = begin; i < end; i++) {
        uint64_t before = out->token_count;
        lzt_status s = each_row(b, epoch, i, append, out, err);
        if (s) return s;
        if (out->token_count - before > longest) longest = out->token_count - before;
    }
    out->document_begin[out->document_count] = (int32_t)out->token_count;
    out->padded_count = b->o.packing ? (end - begin) * b->o.pack_tokens : longest * out->document_count;
    return LZT_OK;
}
