/* Character classes and canonical normalisation: see unicode.h. */
#include "data/tokenizer/unicode.h"
#include "base/jsontree.h"
#include "data/tokenizer/unicode_tables.inc"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

struct lzt__decomposition {
    uint32_t code, count, part[4];
};

struct lzt__composition {
    uint32_t first, second, composite;
};

/* In the order of the table's indices. */
const char lzt__category_names[LZT__CATEGORY_COUNT][3] = {"Cn", "Cc", "Cf", "Co", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn",
                                                          "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi",
                                                          "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp"};

#define HANGUL_S 0xac00
#define HANGUL_L 0x1100
#define HANGUL_V 0x1161
#define HANGUL_T 0x11a7

static uint8_t category_flag(uint32_t category)
{
    switch (lzt__category_names[category][0]) {
    case 'L': return LZT__CHAR_LETTER;
    case 'N': return LZT__CHAR_NUMBER;
    case 'M': return LZT__CHAR_MARK;
    case 'P': return LZT__CHAR_PUNCT;
    case 'S': return LZT__CHAR_SYMBOL;
    default: return 0;
    }
}

bool lzt__unicode_run(uint32_t i, uint32_t *begin, uint32_t *end, uint32_t *category)
{
    if (i >= COUNT(category_run)) return false;
    *begin = category_run[i] >> 8;
    *category = category_run[i] & 0xff;
    *end = i + 1 < COUNT(category_run) ? category_run[i + 1] >> 8 : LZT__CODES;
    return true;
}

static void fill_flags(lzt__unicode *u)
{
    uint32_t begin, end, category;
    for (uint32_t i = 0; lzt__unicode_run(i, &begin, &end, &category); i++)
        memset(u->flags + begin, category_flag(category), end - begin);
    for (size_t i = 0; i < COUNT(space_range); i += 2)
        for (uint32_t c = space_range[i]; c <= space_range[i + 1]; c++) u->flags[c] |= LZT__CHAR_SPACE;
    for (size_t i = 0; i < COUNT(numeric_range); i += 2)
        for (uint32_t c = numeric_range[i]; c <= numeric_range[i + 1]; c++) u->flags[c] |= LZT__CHAR_NUMERIC;
    for (size_t i = 0; i < COUNT(word_range); i += 2)
        for (uint32_t c = word_range[i]; c <= word_range[i + 1]; c++) u->is_word[c / 8] |= (uint8_t)(1u << c % 8);
    for (size_t i = 0; i < COUNT(combining_class); i++) {
        u->ccc[combining_class[i] >> 8] = (uint8_t)combining_class[i];
        u->flags[combining_class[i] >> 8] |= LZT__CHAR_COMPOSE;
    }
}

static int by_code(const void *a, const void *b)
{
    const struct lzt__decomposition *x = a, *y = b;
    return (x->code > y->code) - (x->code < y->code);
}

static int by_pair(const void *a, const void *b)
{
    const struct lzt__composition *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x->second > y->second) - (x->second < y->second);
}

/* Composites decompose one step into their pair, the others at once into all their parts. */
static lzt_status fill_canonical(lzt__unicode *u, lzt_error *err)
{
    uint32_t pairs = COUNT(composition) / 3, singles = COUNT(decomposition) / 5;
    u->composition = malloc(pairs * sizeof *u->composition);
    u->decomposition = malloc((pairs + singles) * sizeof *u->decomposition);
    if (!u->composition || !u->decomposition)
        return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the Unicode tables");
    for (uint32_t i = 0; i < pairs; i++) {
        const uint32_t *c = &composition[3 * i];
        u->composition[i] = (struct lzt__composition){c[1], c[2], c[0]};
        u->decomposition[i] = (struct lzt__decomposition){c[0], 2, {c[1], c[2]}};
        u->flags[c[2]] |= LZT__CHAR_COMPOSE;
    }
    for (uint32_t i = 0; i < singles; i++) {
        const uint32_t *d = &decomposition[5 * i];
        struct lzt__decomposition *to = &u->decomposition[pairs + i];
        *to = (struct lzt__decomposition){d[0], 0, {d[1], d[2], d[3], d[4]}};
        while (to->count < 4 && to->part[to->count]) to->count++;
        u->flags[d[0]] |= LZT__CHAR_COMPOSE;
    }
    for (uint32_t c = HANGUL_V; c < HANGUL_V + 21; c++) u->flags[c] |= LZT__CHAR_COMPOSE;
    for (uint32_t c = HANGUL_T + 1; c < HANGUL_T + 28; c++) u->flags[c] |= LZT__CHAR_COMPOSE;
    u->composition_count = pairs;
    u->decomposition_count = pairs + singles;
    qsort(u->composition, pairs, sizeof *u->composition, by_pair);
    qsort(u->decomposition, pairs + singles, sizeof *u->decomposition, by_code);
    return LZT_OK;
}

lzt_status lzt__unicode_create(lzt__unicode **unicode, lzt_error *err)
{
    lzt__unicode *u = *unicode = calloc(1, sizeof *u);
    if (!u) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the Unicode tables");
    fill_flags(u);
    lzt_status s = fill_canonical(u, err);
    if (s) {
        lzt__unicode_destroy(u);
        *unicode = NULL;
    }
    return s;
}

void lzt__unicode_destroy(lzt__unicode *u)
{
    if (!u) return;
    free(u->composition);
    free(u->decomposition);
    free(u);
}

lzt_status lzt__traced_reserve(lzt__traced *text, uint64_t capacity, lzt_error *err)
{
    if (capacity <= text->capacity) return LZT_OK;
    capacity += capacity / 2 + 64;
    char *bytes = realloc(text->bytes, capacity);
    if (bytes) text->bytes = bytes;
    uint32_t *origin = bytes ? realloc(text->origin, (capacity + 1) * sizeof *origin) : NULL;
    if (!origin) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a text");
    text->origin = origin;
    text->capacity = capacity;
    return LZT_OK;
}

void lzt__traced_free(lzt__traced *text)
{
    free(text->bytes);
    free(text->origin);
    *text = (lzt__traced){0};
}

bool lzt__unicode_is_nfc(const lzt__unicode *u, const char *text, uint64_t size)
{
    for (uint64_t i = 0; i < size;) {
        /* code points below U+0300 compose with nothing before them and come back from their own decomposition */
        if ((unsigned char)text[i] < 0xcc) {
            i++;
            continue;
        }
        uint32_t code;
        i += lzt__utf8_next(text + i, &code);
        if (u->flags[code] & LZT__CHAR_COMPOSE) return false;
    }
    return true;
}

/* One code point of a text under normalisation. */
typedef struct letter {
    uint32_t code, origin;
} letter;

typedef struct letters {
    letter *at; /* [count] */
    uint64_t count, capacity;
} letters;

static lzt_status push(letters *l, uint32_t code, uint32_t origin, lzt_error *err)
{
    if (l->count == l->capacity) {
        uint64_t capacity = l->capacity * 2 + 64;
        letter *at = realloc(l->at, capacity * sizeof *at);
        if (!at) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a text");
        l->at = at;
        l->capacity = capacity;
    }
    l->at[l->count++] = (letter){code, origin};
    return LZT_OK;
}

static const struct lzt__decomposition *find_parts(const lzt__unicode *u, uint32_t code)
{
    struct lzt__decomposition key = {.code = code};
    if (code < 0xc0) return NULL;
    return bsearch(&key, u->decomposition, u->decomposition_count, sizeof key, by_code);
}

static lzt_status decompose(const lzt__unicode *u, uint32_t code, uint32_t origin, letters *out, lzt_error *err)
{
    if (code >= HANGUL_S && code < HANGUL_S + 11172) {
        uint32_t s = code - HANGUL_S, t = s % 28;
        lzt_status r = push(out, HANGUL_L + s / 588, origin, err);
        if (!r) r = push(out, HANGUL_V + s % 588 / 28, origin, err);
        if (!r && t) r = push(out, HANGUL_T + t, origin, err);
        return r;
    }
    const struct lzt__decomposition *d = find_parts(u, code);
    if (!d) return push(out, code, origin, err);
    lzt_status s = LZT_OK;
    for (uint32_t i = 0; !s && i < d->count; i++) /* a pair's first part may be a composite again */
        s = d->part[i] == code ? push(out, code, origin, err) : decompose(u, d->part[i], origin, out, err);
    return s;
}

/* Stable order of each run of marks by combining class. The origins stay where they are, so that they do not fall. */
static void sort_marks(const lzt__unicode *u, letters *l)
{
    for (uint64_t i = 1; i < l->count; i++) {
        uint32_t code = l->at[i].code;
        uint8_t k = u->ccc[code];
        uint64_t j = i;
        for (; k && j && u->ccc[l->at[j - 1].code] > k; j--) l->at[j].code = l->at[j - 1].code;
        l->at[j].code = code;
    }
}

static uint32_t compose_pair(const lzt__unicode *u, uint32_t a, uint32_t b)
{
    if (a >= HANGUL_L && a < HANGUL_L + 19 && b >= HANGUL_V && b < HANGUL_V + 21)
        return HANGUL_S + ((a - HANGUL_L) * 21 + (b - HANGUL_V)) * 28;
    if (a >= HANGUL_S && a < HANGUL_S + 11172 && (a - HANGUL_S) % 28 == 0 && b > HANGUL_T && b < HANGUL_T + 28)
        return a + (b - HANGUL_T);
    struct lzt__composition key = {a, b, 0};
    struct lzt__composition *found = bsearch(&key, u->composition, u->composition_count, sizeof key, by_pair);
    return found ? found->composite : 0;
}

/* The canonical composition algorithm, in place. */
static void compose_letters(const lzt__unicode *u, letters *l)
{
    uint64_t starter = UINT64_MAX, out = 0;
    int last = -1; /* class of the last letter kept after the starter; -1: none */
    for (uint64_t i = 0; i < l->count; i++) {
        uint32_t code = l->at[i].code;
        int k = u->ccc[code];
        if (starter != UINT64_MAX && last < k) {
            uint32_t c = compose_pair(u, l->at[starter].code, code);
            if (c) {
                l->at[starter].code = c;
                continue;
            }
        }
        if (k == 0) {
            starter = out;
            last = -1;
        } else {
            last = k;
        }
        l->at[out++] = l->at[i];
    }
    l->count = out;
}

static lzt_status write_letters(const letters *l, uint32_t end_origin, lzt__traced *out, lzt_error *err)
{
    lzt_status s = lzt__traced_reserve(out, 4 * l->count + 16, err);
    if (s) return s;
    out->size = 0;
    for (uint64_t i = 0; i < l->count; i++) {
        uint32_t n = lzt__utf8_put(out->bytes + out->size, l->at[i].code);
        for (uint32_t k = 0; k < n; k++) out->origin[out->size++] = l->at[i].origin;
    }
    out->origin[out->size] = end_origin;
    return LZT_OK;
}

lzt_status lzt__unicode_normalise(const lzt__unicode *u, bool compose, const lzt__traced *in, lzt__traced *out,
                                  lzt_error *err)
{
    letters l = {0};
    lzt_status s = LZT_OK;
    for (uint64_t i = 0; !s && i < in->size;) {
        uint32_t code, n = lzt__utf8_next(in->bytes + i, &code);
        s = decompose(u, code, in->origin[i], &l, err);
        i += n;
    }
    if (!s) {
        sort_marks(u, &l);
        if (compose) compose_letters(u, &l);
        s = write_letters(&l, in->origin[in->size], out, err);
    }
    free(l.at);
    return s;
}
