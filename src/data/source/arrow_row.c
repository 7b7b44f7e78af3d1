/* Values of an Arrow file as JSON: see arrow.h. */
#include "base/real_text.h"
#include "data/source/arrow_parts.h"

#include <assert.h>
#include <math.h>
#include <string.h>

typedef struct reading {
    const lzt__arrow *a;
    const lzt__arrow_column *column; /* [field_count] of the batch */
    lzt__text *json;
    const char *broken; /* name of the column whose offsets are wrong; NULL: none */
} reading;

static uint64_t little_endian(const uint8_t *at, unsigned bytes)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++) v |= (uint64_t)at[i] << 8 * i;
    return v;
}

static bool bit(const lzt__arrow_buffer *b, uint64_t index)
{
    return b->at[index / 8] >> index % 8 & 1;
}

static void put(reading *r, const char *text)
{
    lzt__text_add_bytes(r->json, text, strlen(text));
}

static void put_integer(reading *r, uint64_t v, bool negative)
{
    char digits[24];
    unsigned at = sizeof digits;
    if (negative) v = ~v + 1;
    do digits[--at] = (char)('0' + v % 10);
    while (v /= 10);
    if (negative) digits[--at] = '-';
    lzt__text_add_bytes(r->json, digits + at, sizeof digits - at);
}

static void put_number(reading *r, const lzt__arrow_field *f, const uint8_t *at)
{
    uint64_t v = little_endian(at, f->bytes);
    unsigned shift = 64 - 8u * f->bytes;
    if (f->is_signed) v = (uint64_t)((int64_t)(v << shift) >> shift);
    put_integer(r, v, f->is_signed && v >> 63);
}

static void put_float(reading *r, const lzt__arrow_field *f, const uint8_t *at)
{
    char text[32];
    double v;
    float narrow;
    uint64_t bits = little_endian(at, f->bytes);
    uint32_t low = (uint32_t)bits;
    memcpy(&v, &bits, sizeof v);
    memcpy(&narrow, &low, sizeof narrow);
    if (f->bytes == 4) v = (double)narrow;
    if (!isfinite(v)) {
        put(r, isnan(v) ? "NaN" : v > 0 ? "Infinity" : "-Infinity");
        return;
    }
    lzt__real_text(v, text);
    put(r, text);
}

/* The range of value i in what its column's offsets point into, which has limit elements. */
static bool range(reading *r, const lzt__arrow_field *f, const lzt__arrow_column *c, uint64_t i, uint64_t limit,
                  uint64_t *begin, uint64_t *end)
{
    *begin = little_endian(c->offsets.at + i * f->bytes, f->bytes);
    *end = little_endian(c->offsets.at + (i + 1) * f->bytes, f->bytes);
    if (*begin <= *end && *end <= limit) return true;
    r->broken = f->name;
    return false;
}

static void put_value(reading *r, uint32_t index, uint64_t i);

static void put_list(reading *r, uint32_t index, uint64_t i)
{
    uint64_t begin, end;
    if (!range(r, &r->a->field[index], &r->column[index], i, r->column[index + 1].length, &begin, &end)) return;
    put(r, "[");
    for (uint64_t k = begin; k < end && !r->broken && !r->json->failed; k++) {
        if (k > begin) put(r, ",");
        put_value(r, index + 1, k);
    }
    put(r, "]");
}

/* count fields from index on, as members of an object. */
static void put_members(reading *r, uint32_t index, uint32_t count, uint64_t i)
{
    put(r, "{");
    for (uint32_t k = 0; k < count && !r->broken; k++, index += r->a->field[index].skip) {
        if (k) put(r, ",");
        lzt__text_add_json(r->json, r->a->field[index].name);
        put(r, ":");
        put_value(r, index, i);
    }
    put(r, "}");
}

static void put_text(reading *r, const lzt__arrow_field *f, const lzt__arrow_column *c, uint64_t i)
{
    uint64_t begin, end;
    if (!range(r, f, c, i, c->data.size, &begin, &end)) return;
    put(r, "\"");
    lzt__text_add_json_part(r->json, (const char *)c->data.at + begin, end - begin);
    put(r, "\"");
}

/* Value i of field index; the depth is that of the schema. */
static void put_value(reading *r, uint32_t index, uint64_t i)
{
    const lzt__arrow_field *f = &r->a->field[index];
    const lzt__arrow_column *c = &r->column[index];
    assert(i < c->length);
    if (f->type == LZT__ARROW_NULL || (c->validity.size && !bit(&c->validity, i))) {
        put(r, "null");
        return;
    }
    switch (f->type) {
    case LZT__ARROW_INT: put_number(r, f, c->data.at + i * f->bytes); break;
    case LZT__ARROW_FLOAT: put_float(r, f, c->data.at + i * f->bytes); break;
    case LZT__ARROW_BOOL: put(r, bit(&c->data, i) ? "true" : "false"); break;
    case LZT__ARROW_UTF8:
    case LZT__ARROW_LARGE_UTF8: put_text(r, f, c, i); break;
    case LZT__ARROW_STRUCT: put_members(r, index + 1, f->children, i); break;
    default: put_list(r, index, i); break;
    }
}

lzt_status lzt__arrow_row(const lzt__arrow *a, uint64_t row, const char *where, lzt__text *json, lzt_error *err)
{
    assert(row < a->rows);
    uint64_t low = 0, high = a->batch_count - 1; /* the last batch that begins at or before row */
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        if (a->batch[middle].first <= row)
            low = middle;
        else
            high = middle - 1;
    }
    reading r = {.a = a, .column = a->column + low * a->field_count, .json = json};
    put_members(&r, 0, a->columns, row - a->batch[low].first);
    if (json->failed) return lzt_fail(err, LZT_ERR_NO_MEMORY, where, "no memory for a row");
    if (r.broken)
        return lzt_fail(err, LZT_ERR_DATA, where, "broken Arrow data: the offsets of column \"%.100s\" leave its data",
                        r.broken);
    return LZT_OK;
}
