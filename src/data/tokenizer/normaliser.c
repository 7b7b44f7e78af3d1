/* The chain of normalisers: a text to its normal form, each byte with the byte it came from. */
#include "data/tokenizer/tokenizer_parts.h"

#include <string.h>

#define GROWN_MAX (UINT64_C(1) << 28) /* bytes that a normal form may have, however short the text */

/* A chain of replacements could grow a text without end. */
static lzt_status reserve(lzt__traced *out, const lzt__traced *in, uint64_t size, lzt_error *err)
{
    if (size > GROWN_MAX && size > 4 * in->size)
        return lzt_fail(err, LZT_ERR_DATA, NULL, "the normaliser makes %llu bytes out of %llu",
                        (unsigned long long)size, (unsigned long long)in->size);
    return lzt__traced_reserve(out, size, err);
}

static void put(lzt__traced *out, const char *bytes, uint64_t size, uint32_t origin)
{
    for (uint64_t k = 0; k < size; k++) {
        out->origin[out->size] = origin;
        out->bytes[out->size++] = bytes[k];
    }
}

static void copy(const lzt__traced *in, uint64_t begin, uint64_t end, lzt__traced *out)
{
    memcpy(out->bytes + out->size, in->bytes + begin, end - begin);
    memcpy(out->origin + out->size, in->origin + begin, (end - begin) * sizeof *in->origin);
    out->size += end - begin;
}

/* The last character of text[begin, end): the reference has it that what replaces a text stands there. */
static uint64_t last_character(const char *text, uint64_t begin, uint64_t end)
{
    while (end > begin && ((unsigned char)text[--end] & 0xc0) == 0x80) continue;
    return end;
}

lzt_status lzt__traced_replace(const lzt__traced *in, const char *a, uint32_t a_size, const char *b, uint32_t b_size,
                               lzt__traced *out, lzt_error *err)
{
    uint64_t hits = 0;
    for (uint64_t i = 0; i + a_size <= in->size; i++) hits += !memcmp(in->bytes + i, a, a_size);
    lzt_status s = reserve(out, in, in->size + hits * b_size + 1, err);
    if (s) return s;
    out->size = 0;
    for (uint64_t i = 0; i < in->size;) {
        bool hit = i + a_size <= in->size && !memcmp(in->bytes + i, a, a_size);
        if (hit)
            put(out, b, b_size, in->origin[last_character(in->bytes, i, i + a_size)]);
        else
            copy(in, i, i + 1, out);
        i += hit ? a_size : 1;
    }
    out->origin[out->size] = in->origin[in->size];
    return LZT_OK;
}

lzt_status lzt__traced_prepend(lzt__traced *text, const char *a, uint32_t a_size, lzt_error *err)
{
    lzt_status s = lzt__traced_reserve(text, text->size + a_size, err);
    if (s) return s;
    memmove(text->bytes + a_size, text->bytes, text->size);
    memmove(text->origin + a_size, text->origin, (text->size + 1) * sizeof *text->origin);
    memcpy(text->bytes, a, a_size);
    for (uint32_t i = 0; i < a_size; i++) text->origin[i] = text->origin[a_size];
    text->size += a_size;
    return LZT_OK;
}

/* Every match of a pattern, empty ones too, becomes n->b. */
static lzt_status replace_matches(const lzt__norm *n, const lzt__traced *in, lzt__split_scratch *scratch,
                                  lzt__traced *out, lzt_error *err)
{
    scratch->matches.count = 0;
    lzt_status s = lzt__regex_matches(n->regex, in->bytes, (lzt__piece){0, (uint32_t)in->size}, scratch, err);
    uint64_t count = scratch->matches.count, at = 0;
    if (!s) s = reserve(out, in, in->size + count * n->b_size + 1, err);
    if (s) return s;
    out->size = 0;
    for (uint64_t i = 0; i < count; i++) {
        lzt__piece m = scratch->matches.at[i];
        copy(in, at, m.begin, out);
        put(out, n->b, n->b_size, in->origin[last_character(in->bytes, m.begin, m.end)]);
        at = m.end;
    }
    copy(in, at, in->size, out);
    out->origin[out->size] = in->origin[in->size];
    return LZT_OK;
}

static lzt_status step(const lzt_tokenizer *t, const lzt__norm *n, lzt__split_scratch *scratch, lzt__traced **from,
                       lzt__traced **to, lzt_error *err)
{
    lzt_status s = LZT_OK;
    const lzt__traced *in = *from;
    if (in->size > UINT32_MAX / 2) return lzt_fail(err, LZT_ERR_DATA, NULL, "a text above 2 GiB");
    if (!in->size) return LZT_OK; /* an empty text stays empty, whatever the pattern */
    if (n->kind == LZT__NORM_PREPEND) return lzt__traced_prepend(*from, n->a, n->a_size, err);
    if (n->kind == LZT__NORM_NFC && lzt__unicode_is_nfc(t->unicode, in->bytes, in->size)) return LZT_OK;
    if (n->kind == LZT__NORM_REPLACE)
        s = n->regex ? replace_matches(n, in, scratch, *to, err)
                     : lzt__traced_replace(in, n->a, n->a_size, n->b, n->b_size, *to, err);
    else if (n->kind == LZT__NORM_CHARSMAP)
        s = lzt__charsmap_apply(t, in, *to, err);
    else
        s = lzt__unicode_normalise(t->unicode, n->kind == LZT__NORM_NFC, in, *to, err);
    lzt__traced *other = *from;
    *from = *to;
    *to = other;
    return s;
}

lzt_status lzt__normalise(const lzt_tokenizer *t, lzt__split_scratch *scratch, lzt__traced **from, lzt__traced **to,
                          lzt_error *err)
{
    lzt_status s = LZT_OK;
    for (uint32_t k = 0; !s && k < t->norm_count; k++) s = step(t, &t->norm[k], scratch, from, to, err);
    return s;
}
