/* A row of a source into ids, labels and weights, cut by the truncation policy and judged. See dataset.h. */
#include "data/dataset/dataset.h"

#include <stdio.h>
#include <string.h>

void lzt__row_place(const lzt_dataset *d, uint64_t row, char *where, size_t size)
{
    const lzt__source *s = lzt__sources_of(&d->sources, row);
    snprintf(where, size, "%s:%llu", s->path, (unsigned long long)lzt__rowfile_line(&s->file, row - s->first));
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

lzt_status lzt__row_parse(lzt_dataset *d, uint64_t row, const char *where, lzt_error *err)
{
    lzt__source *source = lzt__sources_of(&d->sources, row);
    const char *text;
    uint64_t size;
    const lzt__rowshape *shape = &source->shape;
    lzt_status s = lzt__rowfile_json(&source->file, row - source->first, where, &d->row_text, &text, &size, err);
    d->doc.not_finite = source->file.kind == LZT__ROWFILE_ARROW;
    d->maker.weight = 1;
    if (!s) s = lzt__json_parse(&d->doc, text, size, where, err);
    if (!s && d->doc.node->type != LZT__JSON_OBJECT)
        s = lzt_fail(err, LZT_ERR_DATA, where, "the row is not a JSON object");
    if (s || (shape->names_columns && !shape->column[LZT__COLUMN_WEIGHT])) return s;
    return lzt__weight_of_row(d->doc.node, shape->column[LZT__COLUMN_WEIGHT],
                              source->file.kind == LZT__ROWFILE_CSV ? &d->maker.doc : NULL, where, &d->maker.weight,
                              err);
}

lzt_status lzt__row_fill(lzt_dataset *d, uint64_t row, lzt_error *err)
{
    char where[512];
    lzt__row_place(d, row, where, sizeof where);
    d->buf.count = 0;
    d->buf.control_text = d->buf.double_bos = false;
    lzt_status s = lzt__row_parse(d, row, where, err);
    if (s) return s;
    const lzt__json *root = d->doc.node;
    if (lzt__json_get(root, "input_ids")) {
        s = lzt__row_pretokenised(root, d->o.vocabulary, where, &d->buf, err);
        return s ? s : lzt__rowbuf_weigh(&d->buf, d->maker.weight, where, err);
    }
    if (!d->maker.encoder) {
        lzt_fail(err, LZT_ERR_DATA, where, "the row has no input_ids, and there is no tokenizer for its text");
        return lzt_hint(err, "name one: tokenizer: DIR");
    }
    d->maker.shape = &lzt__sources_of(&d->sources, row)->shape;
    s = lzt__row_text(&d->maker, root, where, &d->buf, err);
    if (!s) s = lzt__rowbuf_weigh(&d->buf, d->maker.weight, where, err);
    return s ? s : check_ids(d, where, err);
}

uint64_t lzt__rowbuf_trained(const lzt__rowbuf *buf)
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

static lzt_status cut(lzt_dataset *d, uint64_t row, bool *was_cut, lzt__verdict *v, lzt_error *err)
{
    lzt__rowbuf *b = &d->buf;
    uint64_t max = d->o.max_seq_length, begin = 0;
    *was_cut = false;
    *v = LZT__ROW_TRAINS;
    if (!max || b->count <= max) return LZT_OK;
    if (d->o.truncation == LZT_TRUNCATE_DROP) {
        *v = LZT__ROW_TOO_LONG;
        return LZT_OK;
    }
    if (d->o.truncation == LZT_TRUNCATE_ERROR) {
        char where[512];
        lzt__row_place(d, row, where, sizeof where);
        lzt_fail(err, LZT_ERR_DATA, where, "the row has %llu tokens, max_seq_length is %llu",
                 (unsigned long long)b->count, (unsigned long long)max);
        return lzt_hint(err, "raise max_seq_length, or choose another truncation");
    }
    if (d->o.truncation == LZT_TRUNCATE_KEEP_ANSWER) begin = answer_window(b, max);
    memmove(b->ids, b->ids + begin, max * sizeof *b->ids);
    memmove(b->labels, b->labels + begin, max * sizeof *b->labels);
    memmove(b->weights, b->weights + begin, max * sizeof *b->weights);
    b->count = max;
    *was_cut = true;
    return LZT_OK;
}

/* Makes the row, cuts it and judges it. */
lzt_status lzt__row_make(lzt_dataset *d, uint64_t row, bool *was_cut, lzt__verdict *v, lzt_error *err)
{
    lzt_status s = lzt__row_fill(d, row, err);
    if (s) return s;
    bool any = lzt__rowbuf_trained(&d->buf) > 0;
    s = cut(d, row, was_cut, v, err);
    if (s) return s;
    if (d->buf.count) {
        d->buf.labels[0] = LZT_LABEL_NONE; /* nothing predicts it */
        d->buf.weights[0] = 0;
    }
    if (!any)
        *v = LZT__ROW_UNTRAINED;
    else if (*v == LZT__ROW_TRAINS && !lzt__rowbuf_trained(&d->buf))
        *v = LZT__ROW_CUT_AWAY;
    if (d->buf.count >= UINT32_MAX) return lzt_fail(err, LZT_ERR_DATA, d->path, "a row has over 4 billion tokens");
    return LZT_OK;
}
