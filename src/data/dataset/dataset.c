/* A dataset: the index over the rows of its sources, and rows made on demand. See lazytrain/data.h.
 *
 * open walks the files once (unless lazy), so that what cannot train is found before the first step: each row is made,
 * cut by the truncation policy, counted, and forgotten again; its token counts stay in the index. read makes it anew.
 * With a token cache rows are made once, and both take them from there.
 */
#include "data/dataset/dataset.h"

#include "base/rng.h"
#include "data/source/mix.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNMEASURED UINT32_MAX
#define SPLIT_SEED UINT64_C(0x76616c5f73697a65) /* keeps the split's permutation apart from the epochs' */

static lzt_status no_memory(const lzt_dataset *d, const char *what, lzt_error *err)
{
    return lzt_fail(err, LZT_ERR_NO_MEMORY, d->path, "no memory for %s", what);
}

/* ---- counting ---- */

/* Keeps the place of the first row of its kind. */
static void note_first(const lzt_dataset *d, uint64_t row, uint64_t *line, const char **path)
{
    if (*line) return;
    const lzt__source *s = lzt__sources_of(&d->sources, row);
    *line = lzt__rowfile_line(&s->file, row - s->first);
    *path = s->path;
}

static void drop(lzt_dataset *d, uint64_t row, uint64_t *counter)
{
    ++*counter;
    note_first(d, row, &d->report.first_dropped_line, &d->report.first_dropped_path);
}

/* Counts a row into the report. all: of its weights */
static void count(lzt_dataset *d, uint64_t row, const lzt__row_facts *f, const lzt__weighing *all)
{
    lzt_dataset_report *r = &d->report;
    if (f->facts & LZT__FACT_BAD) {
        r->dropped_bad++;
        note_first(d, row, &r->first_bad_line, &r->first_bad_path);
        return;
    }
    r->replaced_text += (f->facts & LZT__FACT_REPLACED) > 0;
    r->nul_text += (f->facts & LZT__FACT_NUL) > 0;
    r->control_text += (f->facts & LZT__FACT_CONTROL) > 0;
    r->double_bos += (f->facts & LZT__FACT_DOUBLE_BOS) > 0;
    if (f->verdict == LZT__ROW_TOO_LONG)
        r->dropped_too_long++;
    else if (f->verdict == LZT__ROW_UNTRAINED)
        drop(d, row, &r->dropped_untrained);
    else if (f->verdict == LZT__ROW_CUT_AWAY)
        drop(d, row, &r->dropped_cut);
    if (f->verdict != LZT__ROW_TRAINS) return;
    r->rows_out++;
    r->truncated += (f->facts & LZT__FACT_CUT) > 0;
    r->tokens += f->tokens;
    r->trained_tokens += f->trained;
    r->loss_weight += all->sum;
    r->weighted_rows += all->weighted > 0;
    r->weighted_tokens += all->weighted;
    if (f->tokens > r->longest) r->longest = f->tokens;
}

/* Of everything that the row trains with; labels say the weights of 0 and 1. */
static uint64_t digest_of(const lzt__rowbuf *b)
{
    uint64_t h = XXH3_64bits(b->ids, b->count * sizeof *b->ids);
    h = XXH3_64bits_withSeed(b->labels, b->count * sizeof *b->labels, h);
    return XXH3_64bits_withSeed(b->weights, b->count * sizeof *b->weights, h);
}

static lzt__row_facts facts_of(const lzt_dataset *d, bool was_cut, lzt__verdict v)
{
    lzt__row_facts f = {.verdict = v};
    f.facts = (was_cut ? LZT__FACT_CUT : 0) | (d->doc.replaced > 0 ? LZT__FACT_REPLACED : 0) |
              (d->doc.nuls > 0 ? LZT__FACT_NUL : 0) | (d->buf.control_text ? LZT__FACT_CONTROL : 0) |
              (d->buf.double_bos ? LZT__FACT_DOUBLE_BOS : 0);
    if (v != LZT__ROW_TRAINS) return f;
    f.tokens = (uint32_t)d->buf.count;
    f.trained = (uint32_t)lzt__rowbuf_trained(&d->buf);
    if (lzt__weigh(d->buf.weights, d->buf.count).weighted) f.facts |= LZT__FACT_WEIGHTED;
    f.digest = digest_of(&d->buf);
    return f;
}

/* What the row that was just learnt weighs. weights: its own where they are kept or made, NULL: as many as trained */
static lzt__weighing weigh(const lzt__row_facts *f, const float *weights)
{
    if (!(f->facts & LZT__FACT_WEIGHTED)) return (lzt__weighing){.sum = f->trained};
    return lzt__weigh(weights, f->tokens);
}

/* What becomes of a row, and what it weighs: as it was kept, or by making it. */
static lzt_status learn(lzt_dataset *d, uint64_t row, lzt__row_facts *f, lzt__weighing *all, lzt_error *err)
{
    bool was_cut;
    lzt__verdict v;
    const lzt__row_facts *kept = d->cache ? lzt__token_cache_row(d->cache, row) : NULL;
    if (kept) {
        *f = *kept;
        *all = weigh(f, lzt__token_cache_weights(d->cache, kept));
        return LZT_OK;
    }
    lzt_status s = lzt__row_make(d, row, &was_cut, &v, err);
    if (s == LZT_ERR_DATA && d->o.on_bad_row == LZT_BAD_ROW_SKIP)
        *f = (lzt__row_facts){.facts = LZT__FACT_BAD};
    else if (s)
        return s;
    else
        *f = facts_of(d, was_cut, v);
    *all = weigh(f, d->buf.weights);
    lzt__dataset_cache_keep(d, row, f);
    return LZT_OK;
}

/* Keeps the sum of a row's weights beside the index; the list is there from the first row that needs it. */
static lzt_status keep_weight(lzt_dataset *d, uint64_t index, const lzt__weighing *all, lzt_error *err)
{
    if (!d->weight && !all->weighted) return LZT_OK;
    if (!d->weight) d->weight = calloc(d->sources.rows + 1, sizeof *d->weight);
    if (!d->weight) return no_memory(d, "the weights of rows", err);
    d->weight[index] = all->weighted ? all->sum : 0;
    return LZT_OK;
}

/* The kinds of rows that the options refuse, by name and with the way out. */
static lzt_status refuse(const lzt_dataset *d, uint64_t row, const lzt__row_facts *f, lzt_error *err)
{
    bool untrained = f->verdict == LZT__ROW_UNTRAINED || f->verdict == LZT__ROW_CUT_AWAY;
    bool too_long = f->verdict == LZT__ROW_TOO_LONG || f->facts & LZT__FACT_CUT;
    char where[512];
    if (f->facts & LZT__FACT_BAD || !d->o.refuse) return LZT_OK;
    lzt__row_place(d, row, where, sizeof where);
    if (untrained && d->o.refuse & LZT_REFUSE_UNTRAINED) {
        lzt_fail(err, LZT_ERR_DATA, where, "no token of the row bears loss%s",
                 f->verdict == LZT__ROW_CUT_AWAY ? " after truncation" : "");
        return lzt_hint(err, "take untrained out of refuse_rows to drop such rows and count them");
    }
    if (too_long && d->o.refuse & LZT_REFUSE_TRUNCATED) {
        lzt_fail(err, LZT_ERR_DATA, where, "the row is longer than the %llu tokens of max_seq_length",
                 (unsigned long long)d->o.max_seq_length);
        return lzt_hint(err, "raise max_seq_length, or take truncated out of refuse_rows");
    }
    if (f->facts & LZT__FACT_DOUBLE_BOS && d->o.refuse & LZT_REFUSE_DOUBLE_BOS) {
        lzt_fail(err, LZT_ERR_DATA, where, "the row begins with two BOS");
        return lzt_hint(err,
                        "the text holds a BOS beside the template's; take double_bos out of refuse_rows to train it");
    }
    return LZT_OK;
}

/* Into the hash of all rows, which goes over them in their order. */
static void hash_number(lzt_dataset *d, uint64_t number)
{
    if (d->hash) XXH3_128bits_update(d->hash, &number, sizeof number);
}

/* Looks into a row for the first time and fills its entry: tokens 0 when it does not train. */
static lzt_status look(lzt_dataset *d, lzt__entry *e, lzt_error *err)
{
    lzt__row_facts f;
    lzt__weighing all;
    lzt_status s = learn(d, e->row, &f, &all, err);
    if (!s) s = refuse(d, e->row, &f, err);
    if (!s) s = keep_weight(d, (uint64_t)(e - d->index), &all, err);
    if (s) return s;
    count(d, e->row, &f, &all);
    if (f.tokens) hash_number(d, f.digest);
    *e = (lzt__entry){e->row, f.tokens, f.trained};
    return LZT_OK;
}

/* ---- opening ---- */

static lzt_status no_rows(const lzt_dataset *d, lzt_error *err)
{
    const lzt_dataset_report *r = &d->report;
    if (!r->rows_in)
        return lzt_fail(err, LZT_ERR_DATA, d->path, "the dataset has no rows (%llu blank lines)",
                        (unsigned long long)r->blank_lines);
    lzt_fail(
        err, LZT_ERR_DATA, d->path,
        "no trainable tokens: of %llu rows %llu cannot be read, %llu bear no loss, %llu bear none after truncation "
        "to %llu, %llu are too long",
        (unsigned long long)r->rows_in, (unsigned long long)r->dropped_bad, (unsigned long long)r->dropped_untrained,
        (unsigned long long)r->dropped_cut, (unsigned long long)d->o.max_seq_length,
        (unsigned long long)r->dropped_too_long);
    return lzt_hint(err, "look at the rows with `lazytrain data inspect`; raise max_seq_length if they were cut");
}

/* One bit a row: which ones val_size splits off. *bits is NULL when nothing is. */
static lzt_status split(lzt_dataset *d, uint8_t **bits, lzt_error *err)
{
    uint64_t rows = d->sources.rows;
    double size = d->o.val_size, wanted = size < 1 ? ceil(size * (double)rows - 1e-9) : size;
    *bits = NULL;
    if (!(size > 0) || !rows) return LZT_OK;
    if (wanted >= (double)rows || wanted < 1) {
        lzt_fail(err, LZT_ERR_DATA, d->path, "val_size %g splits off %.0f of %llu rows", size, wanted,
                 (unsigned long long)rows);
        return lzt_hint(err, "both sides of the split need a row");
    }
    *bits = calloc(rows / 8 + 1, 1);
    if (!*bits) return no_memory(d, "the split", err);
    for (uint64_t i = 0; i < (uint64_t)wanted; i++) {
        uint64_t row = lzt__rng_permute(d->o.split_seed ^ SPLIT_SEED, 0, rows, i);
        (*bits)[row / 8] |= (uint8_t)(1 << row % 8);
    }
    return LZT_OK;
}

static bool is_ours(const lzt_dataset *d, const uint8_t *bits, uint64_t row)
{
    bool split_off = bits && (bits[row / 8] >> row % 8 & 1);
    return split_off == (d->o.side == LZT_SIDE_VALIDATION);
}

/* Appends the rows of one source that are on this side of the split and (unless lazy) train. */
static lzt_status index_source(lzt_dataset *d, lzt__source *source, const uint8_t *bits, lzt_error *err)
{
    source->begin = d->count;
    d->report.blank_lines += source->file.blank_lines;
    for (uint64_t i = source->first; i < source->first + source->file.row_count; i++) {
        lzt__entry *e = &d->index[d->count];
        if (!is_ours(d, bits, i)) {
            d->report.split_off++;
            continue;
        }
        source->rows_in++;
        d->report.rows_in++;
        *e = (lzt__entry){i, UNMEASURED, 0};
        lzt_status s = d->o.lazy ? LZT_OK : look(d, e, err);
        if (s) return s;
        d->count += e->tokens > 0;
    }
    source->rows = d->count - source->begin;
    hash_number(d, source->rows);
    return LZT_OK;
}

static lzt_status build_index(lzt_dataset *d, lzt_error *err)
{
    uint8_t *bits = NULL;
    lzt_status s = split(d, &bits, err);
    d->index = malloc((d->sources.rows + 1) * sizeof *d->index);
    if (!s && !d->index) s = no_memory(d, "the index of rows", err);
    if (!s && !d->o.lazy && !(d->hash = XXH3_createState())) s = no_memory(d, "a hash", err);
    if (d->hash) XXH3_128bits_reset(d->hash);
    for (uint64_t k = 0; !s && k < d->sources.count; k++) s = index_source(d, &d->sources.at[k], bits, err);
    free(bits);
    if (d->hash) d->row_digest = XXH3_128bits_digest(d->hash);
    XXH3_freeState(d->hash);
    d->hash = NULL;
    if (s) return s;
    return d->count ? LZT_OK : no_rows(d, err);
}

/* How many rows of each source an epoch holds, where they are mixed. */
static lzt_status plan_mix(lzt_dataset *d, lzt_error *err)
{
    uint64_t n = d->sources.count;
    d->epoch_rows = d->count;
    if (d->o.mix == LZT_MIX_CONCAT || n == 1) return LZT_OK;
    d->places = calloc(n, sizeof *d->places);
    d->rows = calloc(n, sizeof *d->rows);
    if (!d->places || !d->rows) return no_memory(d, "the mix", err);
    for (uint64_t k = 0; k < n; k++) {
        const lzt__source *s = &d->sources.at[k];
        d->rows[k] = s->rows;
        if (!s->rows)
            return lzt_fail(err, LZT_ERR_DATA, s->path, "none of its %llu rows trains, so it cannot be mixed in",
                            (unsigned long long)s->rows_in);
    }
    lzt_status s = lzt__mix_counts(d->rows, d->o.weights, n, d->o.mix == LZT_MIX_UNDER, d->places, &d->epoch_rows, err);
    for (uint64_t k = 0; !s && k < n; k++)
        if (!d->places[k]) {
            s = lzt_fail(err, LZT_ERR_DATA, d->sources.at[k].path, "its weight gives it none of an epoch's %llu rows",
                         (unsigned long long)d->epoch_rows);
            lzt_hint(err, "raise its weight in interleave_probs, or use mix_strategy: interleave_over");
        }
    return s;
}

static lzt_status copy_text(const char *from, char **to, lzt_error *err)
{
    *to = from ? strdup(from) : NULL;
    return from && !*to ? lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the dataset's options") : LZT_OK;
}

static lzt_status check_options(const lzt_dataset_options *o, lzt_error *err)
{
    if (o->struct_bytes != sizeof *o) return lzt_fail(err, LZT_ERR_USAGE, "dataset", "options of another version");
    if (!o->path || !*o->path) return lzt_fail(err, LZT_ERR_USAGE, "dataset", "no file is named");
    if (!o->query_field != !o->response_field)
        return lzt_fail(err, LZT_ERR_USAGE, "query_field", "query_field and response_field are given together");
    if (o->vocabulary > INT32_MAX) return lzt_fail(err, LZT_ERR_USAGE, "dataset", "the vocabulary is above 2^31 - 1");
    if (!(o->val_size >= 0) || o->val_size > 1e15 || (o->val_size >= 1 && o->val_size != floor(o->val_size)))
        return lzt_fail(err, LZT_ERR_USAGE, "val_size", "%g is neither a share below 1 nor a number of rows",
                        o->val_size);
    if (o->side == LZT_SIDE_VALIDATION && !(o->val_size > 0))
        return lzt_fail(err, LZT_ERR_USAGE, "val_size", "nothing is split off for validation");
    return LZT_OK;
}

static lzt_status open_sources(lzt_dataset *d, lzt_error *err)
{
    lzt_status s = lzt__sources_find(d->path, d->o.dataset_dir, &d->sources, err);
    uint64_t n = d->sources.count;
    if (!s && d->o.weight_count && d->o.weight_count != n)
        s = lzt_fail(err, LZT_ERR_USAGE, "interleave_probs", "%llu weights for %llu datasets",
                     (unsigned long long)d->o.weight_count, (unsigned long long)n);
    if (!s) s = lzt__sources_open(&d->sources, d->o.max_samples, err);
    d->o.lazy = d->o.lazy || d->sources.bytes > LZT__LAZY_BYTES;
    d->report.lazy = d->o.lazy;
    return s;
}

lzt_status lzt_dataset_open(const lzt_dataset_options *options, lzt_dataset **dataset, lzt_error *err)
{
    *dataset = NULL;
    lzt_status s = check_options(options, err);
    if (s) return s;
    lzt_dataset *d = calloc(1, sizeof *d);
    if (!d) return lzt_fail(err, LZT_ERR_NO_MEMORY, options->path, "no memory for a dataset");
    d->o = *options;
    s = copy_text(options->path, &d->path, err);
    if (!s) s = copy_text(options->query_field, &d->query_field, err);
    if (!s) s = copy_text(options->response_field, &d->response_field, err);
    d->maker = (lzt__rowmaker){.tokenizer = options->tokenizer,
                               .chat = options->chat,
                               .query_field = d->query_field,
                               .response_field = d->response_field,
                               .loss_on = options->loss_on};
    if (!s && options->tokenizer) s = lzt_encoder_create(options->tokenizer, &d->maker.encoder, err);
    if (!s) s = open_sources(d, err);
    if (!s) s = lzt__dataset_cache_find(d, err);
    if (!s) s = build_index(d, err);
    if (!s) s = lzt__dataset_cache_finish(d, err);
    if (!s) s = plan_mix(d, err);
    if (s) {
        lzt_dataset_close(d);
        return s;
    }
    d->o.weights = NULL; /* the caller's */
    *dataset = d;
    return LZT_OK;
}

void lzt_dataset_close(lzt_dataset *d)
{
    if (!d) return;
    XXH3_freeState(d->hash);
    lzt__dataset_cache_close(d);
    lzt__sources_close(&d->sources);
    lzt__json_free(&d->doc);
    lzt__rowmaker_fini(&d->maker);
    lzt__text_free(&d->row_text);
    lzt__text_free(&d->converted);
    lzt_template_close(d->own_chat);
    free(d->buf.ids);
    free(d->buf.labels);
    free(d->buf.weights);
    free(d->index);
    free(d->weight);
    free(d->places);
    free(d->rows);
    free(d->path);
    free(d->query_field);
    free(d->response_field);
    free(d);
}

/* ---- using ---- */

uint64_t lzt_dataset_rows(const lzt_dataset *d)
{
    return d->count;
}

lzt_status lzt_dataset_measure(lzt_dataset *d, uint64_t row, uint32_t *tokens, uint32_t *trained, lzt_error *err)
{
    assert(row < d->count);
    lzt__entry *e = &d->index[row];
    lzt_status s = e->tokens == UNMEASURED ? look(d, e, err) : LZT_OK;
    if (tokens) *tokens = s ? 0 : e->tokens;
    if (trained) *trained = s ? 0 : e->trained;
    return s;
}

lzt_status lzt_dataset_weigh(lzt_dataset *d, uint64_t row, double *weight, lzt_error *err)
{
    uint32_t trained;
    lzt_status s = lzt_dataset_measure(d, row, NULL, &trained, err);
    double kept = !s && d->weight ? d->weight[row] : 0;
    *weight = kept > 0 ? kept : trained;
    return s;
}

/* weights: NULL, or for the weights of labels[count]; from: the row's own, NULL: 1 each. */
static void copy_weights(const int32_t *labels, const float *from, uint64_t count, float *weights)
{
    for (uint64_t i = 0; weights && i < count; i++) weights[i] = from ? from[i] : labels[i] == LZT_LABEL_NONE ? 0 : 1;
}

lzt_status lzt_dataset_read(lzt_dataset *d, uint64_t row, int32_t *ids, int32_t *labels, float *weights, lzt_error *err)
{
    uint32_t tokens;
    bool was_cut;
    lzt__verdict v;
    lzt_status s = lzt_dataset_measure(d, row, &tokens, NULL, err);
    if (s || !tokens) return s;
    const lzt__row_facts *kept = d->cache ? lzt__token_cache_row(d->cache, d->index[row].row) : NULL;
    if (kept) {
        const int32_t *from = lzt__token_cache_tokens(d->cache, kept);
        memcpy(ids, from, tokens * sizeof *ids);
        if (labels) memcpy(labels, from + tokens, tokens * sizeof *labels);
        copy_weights(from + tokens, lzt__token_cache_weights(d->cache, kept), tokens, weights);
        return LZT_OK;
    }
    s = lzt__row_make(d, d->index[row].row, &was_cut, &v, err);
    if (s) return s;
    if (d->buf.count != tokens) return lzt_fail(err, LZT_ERR_DATA, d->path, "the file has changed since it was opened");
    memcpy(ids, d->buf.ids, tokens * sizeof *ids);
    if (labels) memcpy(labels, d->buf.labels, tokens * sizeof *labels);
    copy_weights(d->buf.labels, d->buf.weights, tokens, weights);
    return LZT_OK;
}

lzt_status lzt_dataset_question(lzt_dataset *d, uint64_t row, lzt_question *question, lzt_error *err)
{
    assert(row < d->count);
    char where[512];
    *question = (lzt_question){0};
    d->maker.question = true;
    lzt_status s = lzt__row_fill(d, d->index[row].row, err);
    d->maker.question = false;
    lzt__row_place(d, d->index[row].row, where, sizeof where);
    if (!s && lzt__json_get(d->doc.node, "input_ids")) s = lzt__row_ask_pretokenised(&d->maker, where, &d->buf, err);
    if (s) return s;
    *question = (lzt_question){d->buf.ids, d->buf.count, d->maker.answer, d->maker.answer_size};
    return LZT_OK;
}

lzt_status lzt_dataset_convert(lzt_dataset *d, uint64_t row, const char **text, uint64_t *size, lzt_error *err)
{
    assert(row < d->count);
    lzt_dataset_report *r = &d->report;
    uint64_t source_row = d->index[row].row;
    *size = 0;
    lzt_status s = lzt__row_convert(d, source_row, err);
    if (s == LZT_ERR_DATA && d->o.on_bad_row == LZT_BAD_ROW_SKIP) {
        r->dropped_bad++;
        note_first(d, source_row, &r->first_bad_line, &r->first_bad_path);
        return LZT_OK;
    }
    if (s) return s;
    r->rows_out++;
    r->replaced_text += d->doc.replaced > 0;
    r->nul_text += d->doc.nuls > 0;
    *text = d->converted.at;
    *size = d->converted.bytes;
    return LZT_OK;
}

uint64_t lzt_dataset_line(const lzt_dataset *d, uint64_t row)
{
    assert(row < d->count);
    const lzt__source *s = lzt__sources_of(&d->sources, d->index[row].row);
    return lzt__rowfile_line(&s->file, d->index[row].row - s->first);
}

uint64_t lzt_dataset_epoch_rows(const lzt_dataset *d)
{
    return d->epoch_rows;
}

uint64_t lzt_dataset_epoch_row(const lzt_dataset *d, uint64_t seed, bool shuffled, uint64_t epoch, uint64_t index)
{
    assert(index < d->epoch_rows);
    uint64_t own, place = shuffled ? lzt__rng_permute(seed, epoch, d->epoch_rows, index) : index;
    if (!d->places) return place;
    uint64_t k = lzt__mix_place(d->places, d->sources.count, place, &own);
    return d->sources.at[k].begin + lzt__mix_row(seed, shuffled, k, d->rows[k], d->places[k], epoch, own);
}

bool lzt_dataset_epochs_differ(const lzt_dataset *d)
{
    for (uint64_t k = 0; d->places && k < d->sources.count; k++)
        if (d->places[k] % d->rows[k]) return true;
    return false;
}

uint64_t lzt_dataset_source_count(const lzt_dataset *d)
{
    return d->sources.count;
}

void lzt_dataset_get_source(const lzt_dataset *d, uint64_t index, lzt_dataset_source *source)
{
    assert(index < d->sources.count);
    const lzt__source *s = &d->sources.at[index];
    *source = (lzt_dataset_source){.name = s->name,
                                   .path = s->path,
                                   .rows_in = s->rows_in,
                                   .rows = s->rows,
                                   .rows_per_epoch = d->places ? d->places[index] : s->rows,
                                   .blank_lines = s->file.blank_lines};
}

void lzt_dataset_get_report(const lzt_dataset *d, lzt_dataset_report *report)
{
    *report = d->report;
}

uint64_t lzt_dataset_max_tokens(const lzt_dataset *d)
{
    return d->o.max_seq_length;
}

bool lzt_dataset_is_lazy(const lzt_dataset *d)
{
    return d->o.lazy;
}

bool lzt_dataset_tells_time(const lzt_dataset *d, int64_t *seconds)
{
    return d->o.chat && lzt_template_asks_time(d->o.chat, seconds);
}

static void put_digest(XXH128_hash_t hash, char text[LZT_DIGEST_TEXT])
{
    snprintf(text, LZT_DIGEST_TEXT, "%016llx%016llx", (unsigned long long)hash.high64, (unsigned long long)hash.low64);
}

lzt_status lzt_dataset_digest(const lzt_dataset *d, char rows[LZT_DIGEST_TEXT], char files[LZT_DIGEST_TEXT],
                              lzt_error *err)
{
    XXH128_hash_t hash;
    lzt_status s = lzt__dataset_settings_hash(d, &hash, err);
    rows[0] = files[0] = 0;
    if (s) return s;
    put_digest(hash, files);
    if (!d->o.lazy) put_digest(d->row_digest, rows);
    return LZT_OK;
}

const char *lzt_dataset_path(const lzt_dataset *d)
{
    return d->path;
}
