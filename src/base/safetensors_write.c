/* Writing one safetensors file: see safetensors_write.h. */
#include "base/safetensors_write.h"

#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_VALUES (UINT64_C(1) << 17)

static int compare_members(const void *a, const void *b)
{
    const lzt__st_member *x = a, *y = b;
    uint32_t x_bits = lzt_dtype_bits(x->dtype), y_bits = lzt_dtype_bits(y->dtype);
    if (x_bits != y_bits) return x_bits > y_bits ? -1 : 1;
    bool x_pages = x->bytes % LZT__ST_DATA_ALIGNMENT == 0, y_pages = y->bytes % LZT__ST_DATA_ALIGNMENT == 0;
    if (x_pages != y_pages) return x_pages ? -1 : 1;
    return strcmp(x->name, y->name);
}

void lzt__st_order(lzt__st_member *member, uint32_t count)
{
    if (count) qsort(member, count, sizeof *member, compare_members);
}

static void add_member(lzt__text *text, const lzt__st_member *m, uint64_t begin)
{
    lzt__text_add_bytes(text, ",", 1);
    lzt__text_add_json(text, m->name);
    lzt__text_add(text, ":{\"dtype\":\"%s\",\"shape\":[", lzt_dtype_name(m->dtype));
    for (uint32_t i = 0; i < m->rank; i++) lzt__text_add(text, "%s%llu", i ? "," : "", (unsigned long long)m->shape[i]);
    lzt__text_add(text, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin,
                  (unsigned long long)(begin + m->bytes));
}

lzt_status lzt__st_write_header(lzt__staging_file *file, const lzt__st_member *member, uint32_t count, lzt_error *err)
{
    lzt__text text = {0};
    uint64_t at = 0;
    lzt__text_pad(&text, 0, 8);
    lzt__text_add(&text, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (uint32_t i = 0; i < count; i++) {
        add_member(&text, &member[i], at);
        at += member[i].bytes;
    }
    lzt__text_add_bytes(&text, "}", 1);
    uint64_t rest = text.bytes % LZT__ST_DATA_ALIGNMENT;
    if (rest) lzt__text_pad(&text, ' ', LZT__ST_DATA_ALIGNMENT - rest);
    lzt_status status = LZT_OK;
    if (text.failed) {
        status = lzt_fail(err, LZT_ERR_NO_MEMORY, file->name, "no memory for the header");
    } else {
        uint64_t bytes = text.bytes - 8;
        for (int i = 0; i < 8; i++) text.at[i] = (char)(bytes >> 8 * i);
        status = lzt__staging_write(file, text.at, text.bytes, err);
    }
    lzt__text_free(&text);
    return status;
}

/* F32 to F16, to nearest even; *overflow when a finite value becomes infinite. */
static uint16_t narrow_f16(float value, bool *overflow)
{
    union {
        float f;
        uint32_t u;
    } v = {value};
    uint32_t sign = v.u >> 16 & 0x8000, magnitude = v.u & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude == 0x7f800000) return (uint16_t)(sign | 0x7c00);
    if (magnitude >= 0x477ff000) { /* 65520 rounds beyond the largest */
        *overflow = true;
        return (uint16_t)(sign | 0x7c00);
    }
    if (magnitude < 0x38800000) { /* subnormal: a count of 2^-24 */
        v.u = magnitude;
        return (uint16_t)(sign | (uint32_t)lrintf(v.f * 0x1p24f));
    }
    uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | ((rounded >> 13) - (112u << 10)));
}

lzt_status lzt__st_write_values(lzt__staging_file *file, const char *name, lzt_dtype dtype, const float *values,
                                uint64_t count, lzt_error *err)
{
    if (dtype == LZT_DTYPE_F32) return lzt__staging_write(file, values, count * sizeof *values, err);
    assert(dtype == LZT_DTYPE_BF16 || dtype == LZT_DTYPE_F16);
    uint16_t *piece = malloc(PIECE_VALUES * sizeof *piece);
    if (!piece) return lzt_fail(err, LZT_ERR_NO_MEMORY, file->name, "no memory");
    lzt_status status = LZT_OK;
    bool overflow = false;
    for (uint64_t at = 0; at < count && !status; at += PIECE_VALUES) {
        uint64_t n = count - at < PIECE_VALUES ? count - at : PIECE_VALUES;
        for (uint64_t i = 0; i < n; i++) {
            float value = values[at + i];
            piece[i] = dtype == LZT_DTYPE_BF16 ? lzt_bf16_from_f32(value) : narrow_f16(value, &overflow);
        }
        if (overflow)
            status = lzt_fail(err, LZT_ERR_MODEL, name, "a value is too large for F16; export as BF16 or F32");
        else
            status = lzt__staging_write(file, piece, n * sizeof *piece, err);
    }
    free(piece);
    return status;
}
