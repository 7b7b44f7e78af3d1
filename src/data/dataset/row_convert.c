/* A row as one line of normalised JSON, whatever its format was. See lzt_dataset_convert. */
#include "base/real_text.h"
#include "data/dataset/dataset.h"
#include "data/loss_weight.h"

#include <stdlib.h>
#include <string.h>

static bool put_value(lzt__text *out, const char *name, const lzt__value *v)
{
    static const lzt__dump plain = {.indent = -1};
    const char *what = NULL;
    lzt__out text = {0};
    bool ok = lzt__value_dump(&text, v, &plain, 0, &what);
    lzt__text_add(out, "\"%s\": ", name);
    if (ok) lzt__text_add_bytes(out, text.bytes, text.size);
    lzt__out_free(&text);
    return ok && !out->failed;
}

static bool is_trained_as_usual(const lzt__dict *message, float wanted)
{
    const lzt__value *role = lzt__dict_find(message, "role");
    const lzt__string *r = role && role->kind == LZT__KIND_STRING ? role->string : NULL;
    bool usual =
        r && ((r->size == 9 && !memcmp(r->bytes, "assistant", 9)) || (r->size == 5 && !memcmp(r->bytes, "model", 5)));
    return wanted == (usual ? 1.0f : 0.0f);
}

/* Says how much a message counts, where that is not the usual and the row had not said it itself. */
static bool add_weight(lzt__arena *arena, lzt__dict *message, float wanted)
{
    char text[LZT_REAL_TEXT];
    bool whole = wanted == 0 || wanted == 1;
    lzt__value key, weight = {.kind = whole ? LZT__KIND_INT : LZT__KIND_FLOAT};
    if (is_trained_as_usual(message, wanted)) return true;
    if (whole)
        weight.integer = wanted != 0;
    else
        weight.real = strtod(lzt__real_text_f32(wanted, text), NULL); /* 0.1, not 0.100000001 */
    for (const char *const *name = lzt__weight_fields; *name; name++) {
        const lzt__value *own = lzt__dict_find(message, *name);
        if (own && own->kind != LZT__KIND_NONE) return true;
    }
    return lzt__value_string(arena, "weight", 6, 0, &key) && lzt__dict_set(arena, message, key, weight);
}

lzt_status lzt__convert_messages(lzt__text *out, lzt__arena *arena, const lzt__value *messages, const lzt__value *tools,
                                 const float *wanted, lzt_error *err)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < messages->list->count; i++)
        ok = add_weight(arena, messages->list->item[i].dict, wanted[i]);
    lzt__text_add_bytes(out, "{", 1);
    ok = ok && put_value(out, "messages", messages);
    if (ok && tools) {
        lzt__text_add_bytes(out, ", ", 2);
        ok = put_value(out, "tools", tools);
    }
    lzt__text_add_bytes(out, "}", 1);
    return ok && !out->failed ? LZT_OK : lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a row");
}

lzt_status lzt__convert_text(lzt__text *out, const lzt__json *text, lzt_error *err)
{
    lzt__text_add(out, "{\"text\": \"");
    lzt__text_add_json_part(out, text->text, text->size);
    lzt__text_add(out, "\"}");
    return out->failed ? lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a row") : LZT_OK;
}

static void put_list(lzt__text *out, const char *name, const int32_t *list, uint64_t n)
{
    lzt__text_add(out, "\"%s\": [", name);
    for (uint64_t i = 0; i < n; i++) lzt__text_add(out, i ? ", %d" : "%d", (int)list[i]);
    lzt__text_add(out, "]");
}

static void put_weights(lzt__text *out, const float *list, uint64_t n)
{
    char text[LZT_REAL_TEXT];
    lzt__text_add(out, "\"loss_weights\": [");
    for (uint64_t i = 0; i < n; i++) lzt__text_add(out, i ? ", %s" : "%s", lzt__real_text_f32(list[i], text));
    lzt__text_add(out, "]");
}

static lzt_status convert_ids(lzt_dataset *d, const char *where, lzt_error *err)
{
    lzt__text *out = &d->converted;
    d->buf.count = 0;
    lzt_status s = lzt__row_pretokenised(d->doc.node, d->o.vocabulary, where, &d->buf, err);
    if (!s) s = lzt__rowbuf_weigh(&d->buf, d->maker.weight, where, err);
    if (s) return s;
    lzt__text_add(out, "{");
    put_list(out, "input_ids", d->buf.ids, d->buf.count);
    lzt__text_add(out, ", ");
    put_list(out, "labels", d->buf.labels, d->buf.count);
    if (lzt__weigh(d->buf.weights, d->buf.count).weighted) {
        lzt__text_add(out, ", ");
        put_weights(out, d->buf.weights, d->buf.count);
    }
    lzt__text_add(out, "}");
    return out->failed ? lzt_fail(err, LZT_ERR_NO_MEMORY, where, "no memory for a row") : LZT_OK;
}

/* The row's own weight, behind what else the object has. */
static lzt_status put_row_weight(lzt__text *out, float weight, const char *where, lzt_error *err)
{
    char text[LZT_REAL_TEXT];
    if (weight == 1) return LZT_OK;
    out->bytes--; /* the closing brace */
    lzt__text_add(out, ", \"weight\": %s}", lzt__real_text_f32(weight, text));
    return out->failed ? lzt_fail(err, LZT_ERR_NO_MEMORY, where, "no memory for a row") : LZT_OK;
}

lzt_status lzt__row_convert(lzt_dataset *d, uint64_t row, lzt_error *err)
{
    char where[512];
    lzt_status s = LZT_OK;
    lzt_template *chat = d->maker.chat;
    lzt__row_place(d, row, where, sizeof where);
    d->converted.bytes = 0;
    /* Conversations are put together in a template's arena; any template will do. */
    if (!chat && !d->own_chat) s = lzt_template_open("chatml", NULL, &d->own_chat, err);
    if (!s) s = lzt__row_parse(d, row, where, err);
    if (s) return s;
    if (lzt__json_get(d->doc.node, "input_ids")) return convert_ids(d, where, err);
    d->maker.chat = chat ? chat : d->own_chat;
    d->maker.shape = &lzt__sources_of(&d->sources, row)->shape;
    d->maker.converted = &d->converted;
    s = lzt__row_text(&d->maker, d->doc.node, where, &d->buf, err);
    d->maker.converted = NULL;
    d->maker.chat = chat;
    return s ? s : put_row_weight(&d->converted, d->maker.weight, where, err);
}
