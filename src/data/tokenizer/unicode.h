/* What the tokenizers ask about code points, as the reference package answers it (see tools/make_unicode_tables.py).
 *
 * Threads: read-only once created.
 */
#ifndef LZT_DATA_UNICODE_H
#define LZT_DATA_UNICODE_H

#include "lazytrain/status.h"

#include <stdbool.h>

/* Flags of a code point. */
#define LZT__CHAR_LETTER  0x01 /* \p{L} */
#define LZT__CHAR_NUMBER  0x02 /* \p{N} */
#define LZT__CHAR_MARK    0x04 /* \p{M} */
#define LZT__CHAR_PUNCT   0x08 /* \p{P} */
#define LZT__CHAR_SYMBOL  0x10 /* \p{S} */
#define LZT__CHAR_SPACE   0x20 /* \s */
#define LZT__CHAR_COMPOSE 0x40 /* NFC may change a text that holds it */
#define LZT__CHAR_NUMERIC 0x80 /* a digit to the Digits pre-tokenizer */

#define LZT__CODES 0x110000

typedef struct lzt__unicode {
    uint8_t flags[LZT__CODES];
    uint8_t ccc[LZT__CODES]; /* canonical combining class */
    uint8_t is_word[LZT__CODES / 8];
    struct lzt__decomposition *decomposition; /* sorted by code point */
    uint32_t decomposition_count;
    struct lzt__composition *composition; /* sorted by (first, second) */
    uint32_t composition_count;
} lzt__unicode;

#define LZT__CATEGORY_COUNT 29
extern const char lzt__category_names[LZT__CATEGORY_COUNT][3];
/* Run i of code points of one general category, in order; false behind the last. */
bool lzt__unicode_run(uint32_t i, uint32_t *begin, uint32_t *end, uint32_t *category);

lzt_status lzt__unicode_create(lzt__unicode **unicode, lzt_error *err);
void lzt__unicode_destroy(lzt__unicode *unicode);

/* A text with, for each byte, the byte of the original it came from: origin[size] is the original's size. */
typedef struct lzt__traced {
    char *bytes;
    uint32_t *origin; /* [size + 1] */
    uint64_t size, capacity;
} lzt__traced;

lzt_status lzt__traced_reserve(lzt__traced *text, uint64_t capacity, lzt_error *err);
void lzt__traced_free(lzt__traced *text);

/* true when NFC leaves the text (valid UTF-8) as it is, as far as a quick look tells. */
bool lzt__unicode_is_nfc(const lzt__unicode *u, const char *text, uint64_t size);
/* out = the canonical composition (compose) or decomposition of in; origins are carried along. */
lzt_status lzt__unicode_normalise(const lzt__unicode *u, bool compose, const lzt__traced *in, lzt__traced *out,
                                  lzt_error *err);

/* Decodes valid UTF-8 without checks; returns the bytes of the code point. */
static inline uint32_t lzt__utf8_next(const char *text, uint32_t *code)
{
    const unsigned char *t = (const unsigned char *)text;
    if (t[0] < 0x80) {
        *code = t[0];
        return 1;
    }
    if (t[0] < 0xe0) {
        *code = (t[0] & 31u) << 6 | (t[1] & 63u);
        return 2;
    }
    if (t[0] < 0xf0) {
        *code = (t[0] & 15u) << 12 | (t[1] & 63u) << 6 | (t[2] & 63u);
        return 3;
    }
    *code = (t[0] & 7u) << 18 | (t[1] & 63u) << 12 | (t[2] & 63u) << 6 | (t[3] & 63u);
    return 4;
}

#endif
