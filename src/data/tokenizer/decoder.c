/* Ids to text, with what is not certain yet held back. See lazytrain/tokenizer.h.
 *
 * BYTES: tokens are bytes; a prefix of a character waits. PIECES: tokens are spellings; a run of <0xNN> tokens waits
 * for its end, then is text if it is UTF-8 as a whole and one U+FFFD a byte if not, as the reference has it.
 */
#include "data/tokenizer/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

struct lzt_decoder {
    const lzt_tokenizer *t;
    bool skip_special, any;
    uint32_t strip; /* spaces that may still fall off the start */
    char *held;     /* [held_size] bytes that wait */
    uint64_t held_size, held_capacity;
    char *out;
    uint64_t out_size, out_capacity;
};

static lzt_status append(char **to, uint64_t *size, uint64_t *capacity, const char *bytes, uint64_t count,
                         lzt_error *err)
{
    if (*capacity - *size < count + 1) {
        uint64_t grown = *capacity * 2 + count + 64;
        char *p = realloc(*to, grown);
        if (!p) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for decoded text");
        *to = p;
        *capacity = grown;
    }
    memcpy(*to + *size, bytes, count);
    *size += count;
    (*to)[*size] = 0;
    return LZT_OK;
}

static lzt_status put(lzt_decoder *d, const char *bytes, uint64_t count, lzt_error *err)
{
    while (d->strip && count && bytes[0] == ' ') {
        bytes++;
        count--;
        d->strip--;
    }
    if (count) d->strip = 0;
    return append(&d->out, &d->out_size, &d->out_capacity, bytes, count, err);
}

/* Bytes of the longest prefix of a character at text (1 to 3), 0: none; the maximal subpart that Unicode replaces as
 * one. */
static uint32_t partial(const unsigned char *t, uint64_t size)
{
    uint32_t need = t[0] < 0xc2 ? 0 : t[0] < 0xe0 ? 2 : t[0] < 0xf0 ? 3 : t[0] < 0xf5 ? 4 : 0;
    if (!need) return 0;
    uint32_t n = 1;
    if (size > 1) {
        unsigned low = t[0] == 0xe0 ? 0xa0 : t[0] == 0xf0 ? 0x90 : 0x80;
        unsigned high = t[0] == 0xed ? 0x9f : t[0] == 0xf4 ? 0x8f : 0xbf;
        if (t[1] < low || t[1] > high) return 1;
        for (n = 2; n < need - 1 && n < size && (t[n] & 0xc0) == 0x80;) n++;
    }
    return n;
}

/* Moves what is certain from held to out; at the end everything is. */
static lzt_status flush_bytes(lzt_decoder *d, bool end, lzt_error *err)
{
    uint64_t i = 0;
    lzt_status s = LZT_OK;
    while (!s && i < d->held_size) {
        uint32_t code, n = lzt__utf8_get(d->held + i, d->held_size - i, &code);
        if (n) {
            s = put(d, d->held + i, n, err);
        } else {
            n = partial((const unsigned char *)d->held + i, d->held_size - i);
            if (n && !end && i + n == d->held_size) break;
            if (!n) n = 1;
            s = put(d, "\xef\xbf\xbd", 3, err);
        }
        i += n;
    }
    memmove(d->held, d->held + i, d->held_size - i);
    d->held_size -= i;
    return s;
}

/* A run of byte tokens has ended. */
static lzt_status flush_run(lzt_decoder *d, lzt_error *err)
{
    uint64_t i = 0;
    uint32_t code, n;
    while (i < d->held_size && (n = lzt__utf8_get(d->held + i, d->held_size - i, &code))) i += n;
    lzt_status s = LZT_OK;
    if (i == d->held_size)
        s = i ? put(d, d->held, i, err) : LZT_OK;
    else
        for (uint64_t k = 0; !s && k < d->held_size; k++) s = put(d, "\xef\xbf\xbd", 3, err);
    d->held_size = 0;
    return s;
}

static int byte_of(const lzt_tokenizer *t, int32_t id, const char *text, uint64_t size)
{
    if (t->type && t->type[id] == 6)
        for (int b = 0; b < 256; b++)
            if (t->byte_id[b] == (uint32_t)id) return b;
    if (size != 6 || memcmp(text, "<0x", 3) || text[5] != '>') return -1;
    int v = 0;
    for (int i = 3; i < 5; i++) {
        char c = text[i];
        int x = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                       : -1;
        if (x < 0) return -1;
        v = v << 4 | x;
    }
    return v;
}

static lzt_status push_piece(lzt_decoder *d, int32_t id, const char *text, uint64_t size, lzt_error *err)
{
    bool drops = d->t->drops_marks && !d->any;
    int byte = d->t->keeps_bytes ? -1 : byte_of(d->t, id, text, size);
    if (byte >= 0) {
        char c = (char)byte;
        return append(&d->held, &d->held_size, &d->held_capacity, &c, 1, err);
    }
    lzt_status s = flush_run(d, err);
    if (d->t->type && (d->t->type[id] == 3)) return s; /* control pieces have no text */
    for (uint64_t i = 0; !s && i < size;) {
        bool space = !d->t->keeps_marks && size - i >= 3 && !memcmp(text + i, "\xe2\x96\x81", 3);
        if (!space || !drops) s = space ? put(d, " ", 1, err) : put(d, text + i, 1, err);
        i += space ? 3 : 1;
    }
    return s;
}

lzt_status lzt_decoder_push(lzt_decoder *d, int32_t id, const char **text, uint64_t *size, lzt_error *err)
{
    const lzt_tokenizer *t = d->t;
    uint64_t count;
    const char *bytes = lzt_tokenizer_bytes(t, id, &count);
    d->out_size = 0;
    lzt_status s = LZT_OK;
    if (bytes && !(d->skip_special && lzt_tokenizer_is_special(t, id))) {
        if (t->decode == LZT__DECODE_PIECES) {
            s = push_piece(d, id, bytes, count, err);
        } else {
            if (t->decode == LZT__DECODE_WORDS && d->any)
                s = append(&d->held, &d->held_size, &d->held_capacity, " ", 1, err);
            if (!s) s = append(&d->held, &d->held_size, &d->held_capacity, bytes, count, err);
            if (!s) s = flush_bytes(d, false, err);
        }
        d->any = true;
    }
    *text = d->out;
    *size = s ? 0 : d->out_size;
    return s;
}

lzt_status lzt_decoder_finish(lzt_decoder *d, const char **text, uint64_t *size, lzt_error *err)
{
    d->out_size = 0;
    lzt_status s = d->t->decode == LZT__DECODE_PIECES ? flush_run(d, err) : flush_bytes(d, true, err);
    d->any = false;
    d->strip = d->t->strip;
    *text = d->out;
    *size = s ? 0 : d->out_size;
    return s;
}

lzt_status lzt_decoder_create(const lzt_tokenizer *tokenizer, bool skip_special, lzt_decoder **decoder, lzt_error *err)
{
    lzt_decoder *d = *decoder = calloc(1, sizeof *d);
    if (!d) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a decoder");
    d->t = tokenizer;
    d->skip_special = skip_special;
    d->strip = tokenizer->strip;
    lzt_status s = append(&d->out, &d->out_size, &d->out_capacity, "", 0, err); /* never NULL from here on */
    if (!s) s = append(&d->held, &d->held_size, &d->held_capacity, "", 0, err);
    if (s) {
        lzt_decoder_destroy(d);
        *decoder = NULL;
    }
    return s;
}

void lzt_decoder_destroy(lzt_decoder *d)
{
    if (!d) return;
    free(d->held);
    free(d->out);
    free(d);
}

lzt_status lzt_tokenizer_decode(const lzt_tokenizer *tokenizer, const int32_t *ids, uint64_t count, bool skip_special,
                                char **text, uint64_t *size, lzt_error *err)
{
    *text = NULL;
    if (size) *size = 0;
    char *all = NULL;
    uint64_t used = 0, capacity = 0, n;
    const char *part;
    lzt_decoder *d;
    lzt_status s = lzt_decoder_create(tokenizer, skip_special, &d, err);
    if (s) return s;
    for (uint64_t i = 0; !s && i <= count; i++) {
        s = i < count ? lzt_decoder_push(d, ids[i], &part, &n, err) : lzt_decoder_finish(d, &part, &n, err);
        if (!s) s = append(&all, &used, &capacity, part, n, err);
    }
    lzt_decoder_destroy(d);
    if (s) {
        free(all);
        return s;
    }
    *text = all;
    if (size) *size = used;
    return LZT_OK;
}
