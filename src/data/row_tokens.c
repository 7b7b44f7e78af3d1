/* Pre-tokenised rows: input_ids and labels, checked and copied. */
#include "data/dataset.h"

#include <stdlib.h>

lzt_status lzt__rowbuf_reserve(lzt__rowbuf *buf, uint64_t more, lzt_error *err)
{
    if (buf->capacity - buf->count >= more) return LZT_OK;
    uint64_t capacity = (buf->count + more) + (buf->count + more) / 2 + 64;
    int32_t *ids = realloc(buf->ids, capacity * sizeof *ids);
    if (ids) buf->ids = ids;
    int32_t *labels = ids ? realloc(buf->labels, capacity * sizeof *labels) : NULL;
    if (!labels) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a row of tokens");
    buf->labels = labels;
    buf->capacity = capacity;
    return LZT_OK;
}

static lzt_status check(const lzt__json *node, const char *field, uint64_t place, uint64_t vocabulary, bool is_label,
                        const char *where, int32_t *id, lzt_error *err)
{
    int64_t v;
    if (!lzt__json_integer(node, &v))
        return lzt_fail(err, LZT_ERR_DATA, where, "%s[%llu] is not an integer", field, (unsigned long long)place);
    bool none = is_label && v == LZT_LABEL_NONE;
    uint64_t limit = vocabulary ? vocabulary : (uint64_t)INT32_MAX;
    if (!none && (v < 0 || (uint64_t)v >= limit)) {
        lzt_fail(err, LZT_ERR_DATA, where, "%s[%llu] is %lld, outside the vocabulary of %llu", field,
                 (unsigned long long)place, (long long)v, (unsigned long long)limit);
        return lzt_hint(err, "tokenise with this model's tokenizer%s",
                        is_label ? "; -100 marks a label without loss" : "");
    }
    *id = (int32_t)v;
    return LZT_OK;
}

lzt_status lzt__row_pretokenised(const lzt__json *row, uint64_t vocabulary, const char *where, lzt__rowbuf *buf,
                                 lzt_error *err)
{
    const lzt__json *ids = lzt__json_get(row, "input_ids"), *labels = lzt__json_get(row, "labels");
    if (labels && labels->type == LZT__JSON_NULL) labels = NULL;
    if (!ids || ids->type != LZT__JSON_ARRAY)
        return lzt_fail(err, LZT_ERR_DATA, where, "input_ids is not a list of token ids");
    if (labels && labels->type != LZT__JSON_ARRAY)
        return lzt_fail(err, LZT_ERR_DATA, where, "labels is not a list of token ids");
    if (labels && labels->size != ids->size)
        return lzt_fail(err, LZT_ERR_DATA, where, "labels has %u entries where input_ids has %u", labels->size,
                        ids->size);
    lzt_status s = lzt__rowbuf_reserve(buf, ids->size, err);
    const lzt__json *id = lzt__json_child(ids), *label = labels ? lzt__json_child(labels) : NULL;
    for (uint32_t i = 0; !s && i < ids->size; i++, id = lzt__json_next(id)) {
        uint64_t at = buf->count + i;
        s = check(id, "input_ids", i, vocabulary, false, where, &buf->ids[at], err);
        buf->labels[at] = buf->ids[at];
        if (s || !labels) continue;
        s = check(label, "labels", i, vocabulary, true, where, &buf->labels[at], err);
        label = lzt__json_next(label);
    }
    buf->count += s ? 0 : ids->size;
    return s;
}
