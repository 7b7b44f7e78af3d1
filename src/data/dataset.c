/* A dataset: the index over a file of rows, and rows made on demand. See lazytrain/data.h.
 *
 * open walks the file once (unless lazy), so that what cannot train is found before the first step: each row is made,
 * cut by the truncation policy, counted, and forgotten again; its token counts stay in the index. read makes it anew.
 */
#include "data/dataset.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNMEASURED UINT32_MAX
#define LAZY_BYTES (UINT64_C(256) << 20) /* larger files are not read whole at open */

typedef struct entry {
    uint64_t row; /* of the file */
    uint32_t tokens, trained;
} entry;

struct lzt_dataset {
    lzt_dataset_options o;
    char *path, *query_field, *response_field;
    lzt__rowfile file;
    entry *index; /* [count] */
    uint64_t count;
    lzt_dataset_report report;
    lzt__json_doc doc;
    lzt__rowbuf buf;
    lzt__rowmaker maker;
    char *csv; /* a record as JSON */
    uint64_t csv_capacity;
};

/* What the policies say about a row that could be read. */
typedef enum verdict { TRAINS, UNTRAINED, TOO_LONG, CUT_AWAY } verdict;

static void name_place(const lzt_dataset *d, uint64_t row, char *where, size_t size)
{
    snprintf(where, size, "%s:%u", d->path, d->file.row[row].line);
}

/* A tokenizer can know more ids than the model has rows. */
static lzt_status check_ids(const lzt_dataset *d, const char *where, lzt_error *err)
{
    for (uint64_t i = 0; d->o.vocabulary && i < d->buf.count; i++) {
        uint64_t size, id = (uint64_t)d->buf.ids[i];
        if (id < d->o.vocabulary) continue;
        const char *text = lzt_tokenizer_bytes(d->o.tokenizer, d->buf.ids[i], &size);
        lzt_fail(err, LZT_ERR_DATA, where, "token %llu (%.*s) is beyond the model's %llu rows", (unsigned long long)id,
                 (int)(size > 40 ? 40 : size), text ? text : "", (unsigned long long)d->o.vocabulary);
        return lzt_hint(err, "the tokenizer is not this model's");
    }
    return LZT_OK;
}

/* Fills the row buffer from a row of the file. */
static lzt_status make(lzt_dataset *d, uint64_t row, lzt_error *err)
{
    char where[512];
    name_place(d, row, where, sizeof where);
    d->buf.count = 0;
    d->buf.control_text = d->buf.double_bos = false;
    const lzt__rowspan *span = &d->file.row[row];
    const char *text = d->file.text + span->offset;
    uint64_t size = span->size;
    lzt_status s = LZT_OK;
    if (d->file.kind == LZT__ROWFILE_CSV) {
        s = lzt__csv_to_json(d->file.text + d->file.header.offset, d->file.header.size, text, size, where, &d->csv,
                             &size, &d->csv_capacity, err);
        text = d->csv;
    }
    if (!s) s = lzt__json_parse(&d->doc, text, size, where, err);
    if (s) return s;
    const lzt__json *root = d->doc.node;
    if (root->type != LZT__JSON_OBJECT) return lzt_fail(err, LZT_ERR_DATA, where, "the row is not a JSON object");
    if (lzt__json_get(root, "input_ids")) return lzt__row_pretokenised(root, d->o.vocabulary, where, &d->buf, err);
    if (!d->maker.encoder) {
        lzt_fail(err, LZT_ERR_DATA, where, "the row has no input_ids, and there is no tokenizer for its text");
        return lzt_hint(err, "name one: tokenizer: DIR");
    }
    s = lzt__row_text(&d->maker, root, where, &d->buf, err);
    return s ? s : check_ids(d, where, err);
}

static uint64_t count_trained(const lzt__rowbuf *buf)
{
    uint64_t n = 0;
    for (uint64_t i = 1; i < buf->count; i++) n += buf->labels[i] != LZT_LABEL_NONE;
    return n;
}

/* The window of max tokens that ends with the last trained token. */
static uint64_t answer_window(const lzt__rowbuf *buf, uint64_t max)
{
    uint64_t last = buf->count;
    while (last && buf->labels[last - 1] == LZT_LABEL_NONE) last--;
    return last > max ? last - max : 0;
}

static lzt_status cut(lzt_dataset *d, uint64_t row, bool *was_cut, verdict *v, lzt_error *err)
{
    lzt__rowbuf *b = &d->buf;
    uint64_t max = d->o.max_seq_length, begin = 0;
    *was_cut = false;
    *v = TRAINS;
    if (!max || b->count <= max) return LZT_OK;
    if (d->o.truncation == LZT_TRUNCATE_DROP) {
        *v = TOO_LONG;
        return LZT_OK;
    }
    if (d->o.truncation == LZT_TRUNCATE_ERROR) {
        char where[512];
        name_place(d, row, where, sizeof where);
        lzt_fail(err, LZT_ERR_DATA, where, "the row has %llu tokens, max_seq_length is %llu",
                 (unsigned long long)b->count, (unsigned long long)max);
        return lzt_hint(err, "raise max_seq_length, or choose another truncation");
    }
    if (d->o.truncation == LZT_TRUNCATE_KEEP_ANSWER) begin = answer_window(b, max);
    memmove(b->ids, b->ids + begin, max * sizeof *b->ids);
    memmove(b->labels, b->labels + begin, max * sizeof *b->labels);
    b->count = max;
    *was_cut = true;
    return LZT_OK;
}

/* Makes the row, cuts it and judges it. */
static lzt_status produce(lzt_dataset *d, uint64_t row, bool *was_cut, verdict *v, lzt_error *err)
{
    lzt_status s = make(d, row, err);
    if (s) return s;
    bool any = count_trained(&d->buf) > 0;
    s = cut(d, row, was_cut, v, err);
    if (s) return s;
    if (d->buf.count) d->buf.labels[0] = LZT_LABEL_NONE;
    if (!any)
        *v = UNTRAINED;
    else if (*v == TRAINS && !count_trained(&d->buf))
        *v = CUT_AWAY;
    if (d->buf.count >= UNMEASURED) return lzt_fail(err, LZT_ERR_DATA, d->path, "a row has over 4 billion tokens");
    return LZT_OK;
}

static void drop(lzt_dataset *d, uint64_t row, uint64_t *counter)
{
    ++*counter;
    if (!d->report.first_dropped_line) d->report.first_dropped_line = d->file.row[row].line;
}

/* Counts a produced row into the report; true when it trains. */
static bool count(lzt_dataset *d, uint64_t row, bool was_cut, verdict v, uint32_t *trained)
{
    lzt_dataset_report *r = &d->report;
    r->replaced_text += d->doc.replaced > 0;
    r->control_text += d->buf.control_text;
    r->double_bos += d->buf.double_bos;
    if (v == TOO_LONG)
        r->dropped_too_long++;
    else if (v == UNTRAINED)
        drop(d, row, &r->dropped_untrained);
    else if (v == CUT_AWAY)
        drop(d, row, &r->dropped_cut);
    if (v != TRAINS) return false;
    *trained = (uint32_t)count_trained(&d->buf);
    r->rows_out++;
    r->truncated += was_cut;
    r->tokens += d->buf.count;
    r->trained_tokens += *trained;
    if (d->buf.count > r->longest) r->longest = d->buf.count;
    return true;
}

/* Looks into a row for the first time and fills its entry: tokens 0 when it does not train. */
static lzt_status look(lzt_dataset *d, entry *e, lzt_error *err)
{
    bool was_cut;
    verdict v;
    lzt_status s = produce(d, e->row, &was_cut, &v, err);
    uint32_t trained = 0;
    if (s == LZT_ERR_DATA && d->o.on_bad_row == LZT_BAD_ROW_SKIP) {
        d->report.dropped_bad++;
        *e = (entry){e->row, 0, 0};
        return LZT_OK;
    }
    if (s) return s;
    bool trains = count(d, e->row, was_cut, v, &trained);
    e->tokens = trains ? (uint32_t)d->buf.count : 0;
    e->trained = trained;
    return LZT_OK;
}

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

static lzt_status build_index(lzt_dataset *d, lzt_error *err)
{
    uint64_t rows = d->file.row_count;
    d->report.rows_in = rows;
    d->report.blank_lines = d->file.blank_lines;
    if (!rows) return no_rows(d, err);
    d->index = malloc(rows * sizeof *d->index);
    if (!d->index) return lzt_fail(err, LZT_ERR_NO_MEMORY, d->path, "no memory for the index of rows");
    for (uint64_t i = 0; i < rows; i++) {
        entry *e = &d->index[d->count];
        *e = (entry){i, UNMEASURED, 0};
        lzt_status s = d->o.lazy ? LZT_OK : look(d, e, err);
        if (s) return s;
        d->count += e->tokens > 0;
    }
    return d->count ? LZT_OK : no_rows(d, err);
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
    return LZT_OK;
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
    if (!s) s = lzt__rowfile_open(d->path, options->max_samples, &d->file, err);
    if (!s && d->file.size > LAZY_BYTES) d->o.lazy = true;
    if (!s) s = build_index(d, err);
    if (s) {
        lzt_dataset_close(d);
        return s;
    }
    *dataset = d;
    return LZT_OK;
}

void lzt_dataset_close(lzt_dataset *d)
{
    if (!d) return;
    lzt__rowfile_close(&d->file);
    lzt__json_free(&d->doc);
    lzt__rowmaker_fini(&d->maker);
    free(d->csv);
    free(d->buf.ids);
    free(d->buf.labels);
    free(d->index);
    free(d->path);
    free(d->query_field);
    free(d->response_field);
    free(d);
}

uint64_t lzt_dataset_rows(const lzt_dataset *d)
{
    return d->count;
}

lzt_status lzt_dataset_measure(lzt_dataset *d, uint64_t row, uint32_t *tokens, uint32_t *trained, lzt_error *err)
{
    assert(row < d->count);
    entry *e = &d->index[row];
    lzt_status s = e->tokens == UNMEASURED ? look(d, e, err) : LZT_OK;
    if (tokens) *tokens = s ? 0 : e->tokens;
    if (trained) *trained = s ? 0 : e->trained;
    return s;
}

lzt_status lzt_dataset_read(lzt_dataset *d, uint64_t row, int32_t *ids, int32_t *labels, lzt_error *err)
{
    uint32_t tokens;
    bool was_cut;
    verdict v;
    lzt_status s = lzt_dataset_measure(d, row, &tokens, NULL, err);
    if (s || !tokens) return s;
    s = produce(d, d->index[row].row, &was_cut, &v, err);
    if (s) return s;
    if (d->buf.count != tokens) return lzt_fail(err, LZT_ERR_DATA, d->path, "the file has changed since it was opened");
    memcpy(ids, d->buf.ids, tokens * sizeof *ids);
    if (labels) memcpy(labels, d->buf.labels, tokens * sizeof *labels);
    return LZT_OK;
}

lzt_status lzt_dataset_question(lzt_dataset *d, uint64_t row, lzt_question *question, lzt_error *err)
{
    assert(row < d->count);
    char where[512];
    *question = (lzt_question){0};
    d->maker.question = true;
    lzt_status s = make(d, d->index[row].row, err);
    d->maker.question = false;
    name_place(d, d->index[row].row, where, sizeof where);
    if (!s && lzt__json_get(d->doc.node, "input_ids")) s = lzt__row_ask_pretokenised(&d->maker, where, &d->buf, err);
    if (s) return s;
    *question = (lzt_question){d->buf.ids, d->buf.count, d->maker.answer, d->maker.answer_size};
    return LZT_OK;
}

uint64_t lzt_dataset_line(const lzt_dataset *d, uint64_t row)
{
    assert(row < d->count);
    return d->file.row[d->index[row].row].line;
}

void lzt_dataset_get_report(const lzt_dataset *d, lzt_dataset_report *report)
{
    *report = d->report;
}

bool lzt_dataset_is_lazy(const lzt_dataset *d)
{
    return d->o.lazy;
}

const char *lzt_dataset_path(const lzt_dataset *d)
{
    return d->path;
}
