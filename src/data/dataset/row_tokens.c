/* Pre-tokenised rows: input_ids, labels and loss_weights, checked and copied; and the buffer that all rows are made in.
 */
#include "data/dataset/dataset.h"

#include <stdio.h>
#include <stdlib.h>

lzt_status lzt__rowbuf_reserve(lzt__rowbuf *buf, uint64_t more, lzt_error *err)
{
    if (buf->capacity - buf->count >= more) return LZT_OK;
    uint64_t capacity = (buf->count + more) + (buf->count + more) / 2 + 64;
    int32_t *ids = realloc(buf->ids, capacity * sizeof *ids);
    if (ids) buf->ids = ids;
    int32_t *labels = ids ? realloc(buf->labels, capacity * sizeof *labels) : NULL;
    if (labels) buf->labels = labels;
    float *weights = labels ? realloc(buf->weights, capacity * sizeof *weights) : NULL;
    if (!weights) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a row of tokens");
    buf->weights = weights;
    buf->capacity = capacity;
    return LZT_OK;
}

/* ---- pre-tokenised rows ---- */

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

/* The row's list, NULL where it has none; as long as ids is. */
static lzt_status list_beside(const lzt__json *row, const char *field, const char *of, const lzt__json *ids,
                              const char *where, const lzt__json **list, lzt_error *err)
{
    *list = lzt__json_get(row, field);
    if (*list && (*list)->type == LZT__JSON_NULL) *list = NULL;
    if (*list && (*list)->type != LZT__JSON_ARRAY)
        return lzt_fail(err, LZT_ERR_DATA, where, "%s is not a list of %s", field, of);
    if (*list && (*list)->size != ids->size)
        return lzt_fail(err, LZT_ERR_DATA, where, "%s has %u entries where input_ids has %u", field, (*list)->size,
                        ids->size);
    return LZT_OK;
}

/* Sets what is trained at [begin, begin + n), and how much it counts. weights: NULL, or a list of n. */
static lzt_status weigh_labels(const lzt__json *weights, uint64_t begin, uint32_t n, const char *where,
                               lzt__rowbuf *buf, lzt_error *err)
{
    char found[48], what[32];
    const lzt__json *node = weights ? lzt__json_child(weights) : NULL;
    for (uint32_t i = 0; i < n; i++, node = node ? lzt__json_next(node) : NULL) {
        float w = 1;
        bool null = node && node->type == LZT__JSON_NULL && !node->size;
        if (null || (node && !lzt__weight_read(node, &w, found))) {
            snprintf(what, sizeof what, "loss_weights[%u]", i);
            return lzt__weight_refuse(where, what, null ? "not a number" : found, err);
        }
        if (w == 0) buf->labels[begin + i] = LZT_LABEL_NONE;
        buf->weights[begin + i] = buf->labels[begin + i] == LZT_LABEL_NONE ? 0 : w;
    }
    return LZT_OK;
}

lzt_status lzt__row_pretokenised(const lzt__json *row, uint64_t vocabulary, const char *where, lzt__rowbuf *buf,
                                 lzt_error *err)
{
    const lzt__json *ids = lzt__json_get(row, "input_ids"), *labels, *weights;
    if (!ids || ids->type != LZT__JSON_ARRAY)
        return lzt_fail(err, LZT_ERR_DATA, where, "input_ids is not a list of token ids");
    lzt_status s = list_beside(row, "labels", "token ids", ids, where, &labels, err);
    if (!s) s = list_beside(row, "loss_weights", "numbers", ids, where, &weights, err);
    if (!s) s = lzt__rowbuf_reserve(buf, ids->size, err);
    if (s) return s;
    const lzt__json *id = lzt__json_child(ids), *label = labels ? lzt__json_child(labels) : NULL;
    for (uint32_t i = 0; !s && i < ids->size; i++, id = lzt__json_next(id)) {
        uint64_t at = buf->count + i;
        s = check(id, "input_ids", i, vocabulary, false, where, &buf->ids[at], err);
        buf->labels[at] = buf->ids[at];
        if (s || !labels) continue;
        s = check(label, "labels", i, vocabulary, true, where, &buf->labels[at], err);
        label = lzt__json_next(label);
    }
    if (!s) s = weigh_labels(weights, buf->count, ids->size, where, buf, err);
    buf->count += s ? 0 : ids->size;
    return s;
}

lzt_status lzt__rowbuf_weigh(lzt__rowbuf *buf, float by, const char *where, lzt_error *err)
{
    lzt_status s = lzt__weights_allow(by, buf->weights, buf->count, "token", where, err);
    for (uint64_t i = 0; !s && by != 1 && i < buf->count; i++) {
        buf->weights[i] = (float)((double)by * (double)buf->weights[i]);
        if (by == 0) buf->labels[i] = LZT_LABEL_NONE;
    }
    return s;
}
