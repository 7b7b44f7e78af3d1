/* The splitters: see text_split.h.
 *
 * Each `..._end` is one pattern by hand: given a position, it returns the end of the piece that begins there, with the
 * alternatives in the pattern's order and the backtracking worked out. The pattern stands above it.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/tokenizer/text_split.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#define L LZT__CHAR_LETTER
#define N LZT__CHAR_NUMBER
#define M LZT__CHAR_MARK
#define P LZT__CHAR_PUNCT
#define S LZT__CHAR_SYMBOL
#define W LZT__CHAR_SPACE

/* One text under a splitter. */
typedef struct view {
    const uint8_t *flags;
    const char *t;
    uint32_t end;
} view;

static inline uint8_t look(const view *v, uint32_t i, uint32_t *size)
{
    unsigned char b = (unsigned char)v->t[i];
    if (b < 0x80) {
        *size = 1;
        return v->flags[b];
    }
    uint32_t code;
    *size = lzt__utf8_next(v->t + i, &code);
    return v->flags[code];
}

/* The end of the run, from i, of code points that have one of the flags (wanted) or none of them. */
static inline uint32_t run_of(const view *v, uint32_t i, uint8_t flags, bool wanted)
{
    uint32_t n;
    while (i < v->end && ((look(v, i, &n) & flags) != 0) == wanted) i += n;
    return i;
}

static inline bool is_newline(char c)
{
    return c == '\r' || c == '\n';
}

static inline uint32_t newlines(const view *v, uint32_t i)
{
    while (i < v->end && is_newline(v->t[i])) i++;
    return i;
}

/* 's 't 're 've 'm 'll 'd; folded: in any case, and the long s that folds to s. Returns the bytes, 0: none. */
static uint32_t contraction(const view *v, uint32_t i, bool folded)
{
    uint32_t left = v->end - i;
    if (left < 2) return 0;
    char a = v->t[i + 1], b = left > 2 ? v->t[i + 2] : 0;
    if (folded) {
        if (a == '\xc5' && b == '\xbf') return 3;
        a = a >= 'A' && a <= 'Z' ? (char)(a | 32) : a;
        b = b >= 'A' && b <= 'Z' ? (char)(b | 32) : b;
    }
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
    return 0;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ at white space; without the first alternative when newline is false. */
static uint32_t space_end(const view *v, uint32_t i, bool newline)
{
    uint32_t at = i, last = i, behind_newline = 0, n;
    while (at < v->end && (look(v, at, &n) & W)) {
        last = at;
        at += n;
        if (is_newline(v->t[last])) behind_newline = at;
    }
    if (newline && behind_newline) return behind_newline;
    return at == v->end || last == i ? at : last;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static uint32_t gpt2_end(const view *v, uint32_t i)
{
    uint32_t n;
    if (v->t[i] == '\'' && (n = contraction(v, i, false))) return i + n;
    uint32_t j = i + (v->t[i] == ' ');
    uint8_t c = j < v->end ? look(v, j, &n) : W;
    if (c & W) return space_end(v, i, false);
    if (c & L) return run_of(v, j + n, L, true);
    if (c & N) return run_of(v, j + n, N, true);
    return run_of(v, j + n, W | L | N, false);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,k}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * or, with marks in `letters`, [\p{L}\p{M}]+ for the letters and \p{M} out of the punctuation. */
static uint32_t words_end(const view *v, uint32_t i, uint8_t letters, uint32_t digits)
{
    uint32_t n, m;
    uint8_t c = look(v, i, &n);
    if (c & letters) return run_of(v, i + n, letters, true);
    if (c & N) {
        uint32_t at = i + n;
        for (uint32_t k = 1; k < digits && at < v->end && (look(v, at, &n) & N); k++) at += n;
        return at;
    }
    if (v->t[i] == '\'' && (m = contraction(v, i, true))) return i + m;
    if (!is_newline(v->t[i]) && i + n < v->end && (look(v, i + n, &m) & letters))
        return run_of(v, i + n + m, letters, true);
    uint32_t j = i + (v->t[i] == ' ');
    uint8_t rest = W | letters | N;
    if (j < v->end && !(look(v, j, &m) & rest)) return newlines(v, run_of(v, j + m, rest, false));
    return space_end(v, i, true);
}

static inline bool is_ascii_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*
 * |\s*[\r\n]+|\s+(?!\S)|\s+        Returns i where nothing matches. */
static uint32_t deepseek_end(const view *v, uint32_t i)
{
    uint32_t n, m;
    uint8_t c = look(v, i, &n);
    if (n == 1 && (c & (P | S)) && i + 1 < v->end && is_ascii_letter(v->t[i + 1])) {
        uint32_t at = i + 2;
        while (at < v->end && is_ascii_letter(v->t[at])) at++;
        return at;
    }
    if (c & (L | M)) return run_of(v, i + n, L | M, true);
    if (!(c & (P | S)) && !is_newline(v->t[i]) && i + n < v->end && (look(v, i + n, &m) & (L | M)))
        return run_of(v, i + n + m, L | M, true);
    uint32_t j = i + (v->t[i] == ' ');
    if (j < v->end && (look(v, j, &m) & (P | S))) return newlines(v, run_of(v, j + m, P | S, true));
    return c & W ? space_end(v, i, true) : i;
}

/* \p{N}{1,k} */
static uint32_t numbers_end(const view *v, uint32_t i, uint32_t digits)
{
    uint32_t n;
    for (uint32_t k = 0; k < digits && i < v->end && (look(v, i, &n) & N); k++) i += n;
    return i;
}

/* [一-龥぀-ゟ゠-ヿ]+ */
static uint32_t kana_han_end(const view *v, uint32_t i)
{
    while (i < v->end && (unsigned char)v->t[i] >= 0xe3) {
        uint32_t code, n = lzt__utf8_next(v->t + i, &code);
        if (!((code >= 0x4e00 && code <= 0x9fa5) || (code >= 0x3040 && code <= 0x30ff))) break;
        i += n;
    }
    return i;
}

static uint32_t digits_end(const view *v, uint32_t i, bool single)
{
    uint32_t n;
    if (!(look(v, i, &n) & LZT__CHAR_NUMERIC)) return i;
    return single ? i + n : run_of(v, i + n, LZT__CHAR_NUMERIC, true);
}

lzt_status lzt__pieces_reserve(lzt__pieces *pieces, uint64_t more, lzt_error *err)
{
    if (pieces->capacity - pieces->count >= more) return LZT_OK;
    uint64_t capacity = pieces->count + more + pieces->count / 2 + 64;
    lzt__piece *at = realloc(pieces->at, capacity * sizeof *at);
    if (!at) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for pieces of text");
    pieces->at = at;
    pieces->capacity = capacity;
    return LZT_OK;
}

static inline void push(lzt__pieces *out, uint32_t begin, uint32_t end)
{
    if (begin < end) out->at[out->count++] = (lzt__piece){begin, end};
}

/* The patterns that match at every position. out has room for a piece a byte. */
static void split_all(const lzt__split *s, const view *v, uint32_t i, lzt__pieces *out)
{
    uint8_t letters = s->letters;
    uint32_t digits = s->digits;
    if (s->kind == LZT__SPLIT_GPT2) {
        for (uint32_t e; i < v->end; i = e) push(out, i, e = gpt2_end(v, i));
    } else {
        for (uint32_t e; i < v->end; i = e) push(out, i, e = words_end(v, i, letters, digits));
    }
}

/* The patterns that leave text between their matches, each match and each gap a piece. */
static void split_some(const lzt__split *s, const view *v, uint32_t i, lzt__pieces *out)
{
    uint32_t gap = i, e = i, n;
    while (i < v->end) {
        switch (s->kind) {
        case LZT__SPLIT_DEEPSEEK: e = deepseek_end(v, i); break;
        case LZT__SPLIT_NUMBERS: e = numbers_end(v, i, s->digits); break;
        case LZT__SPLIT_KANA_HAN: e = kana_han_end(v, i); break;
        default: e = digits_end(v, i, s->digits == 1); break;
        }
        if (e == i) {
            look(v, i, &n);
            i += n;
            continue;
        }
        push(out, gap, i);
        push(out, i, e);
        gap = i = e;
    }
    push(out, gap, v->end);
}

static lzt_status add_match(lzt__split_scratch *x, uint32_t begin, uint32_t end, lzt_error *err)
{
    lzt_status s = lzt__pieces_reserve(&x->matches, 1, err);
    if (!s) x->matches.at[x->matches.count++] = (lzt__piece){begin, end};
    return s;
}

lzt_status lzt__regex_matches(void *regex, const char *text, lzt__piece piece, lzt__split_scratch *x, lzt_error *err)
{
    if (!x->match_data && !(x->match_data = pcre2_match_data_create(1, NULL)))
        return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a pattern");
    const char *t = text + piece.begin;
    size_t size = piece.end - piece.begin, last = SIZE_MAX; /* last: where the match before ended */
    for (size_t at = 0; at <= size;) {
        int r = pcre2_match(regex, (PCRE2_SPTR)t, size, at, PCRE2_NO_UTF_CHECK, x->match_data, NULL);
        if (r == PCRE2_ERROR_NOMATCH) break;
        if (r < 0) return lzt_fail(err, LZT_ERR_DATA, NULL, "the pattern fails on the text (PCRE2 code %d)", r);
        const PCRE2_SIZE *o = pcre2_get_ovector_pointer(x->match_data);
        if (o[1] == o[0] && o[1] == last) {
            uint32_t code;
            at += at < size ? lzt__utf8_next(t + at, &code) : 1;
            continue;
        }
        lzt_status e = add_match(x, piece.begin + (uint32_t)o[0], piece.begin + (uint32_t)o[1], err);
        if (e) return e;
        at = last = o[1];
    }
    return LZT_OK;
}

static lzt_status match_literal(const lzt__split *s, const char *text, lzt__piece piece, lzt__split_scratch *x,
                                lzt_error *err)
{
    for (uint32_t at = piece.begin; s->literal_size && piece.end - at >= s->literal_size;) {
        const char *found = memmem(text + at, piece.end - at, s->literal, s->literal_size);
        if (!found) break;
        uint32_t begin = (uint32_t)(found - text);
        lzt_status e = add_match(x, begin, begin + s->literal_size, err);
        if (e) return e;
        at = begin + s->literal_size;
    }
    return LZT_OK;
}

/* Joins gaps and matches to pieces by the behavior: an empty match still parts what stands around it. The list
 * alternates in offsets, not in kind: two matches may touch. */
static void apply_behavior(const lzt__split *s, lzt__piece piece, const lzt__pieces *matches, lzt__pieces *out)
{
    uint64_t first = out->count, kept = first;
    uint32_t at = piece.begin;
    bool before = false; /* the part before this one was a match */
    for (uint64_t i = 0; i <= matches->count; i++) {
        lzt__piece m = i < matches->count ? matches->at[i] : (lzt__piece){piece.end, piece.end};
        lzt__piece part[2] = {{at, m.begin}, m};
        for (int k = 0; k < 2; k++) {
            if (part[k].begin == part[k].end && (k == 0 || i == matches->count)) continue;
            bool is_match = (k == 1) != s->invert, any = out->count > first;
            lzt__piece *last = any ? &out->at[out->count - 1] : NULL;
            if (s->behavior == LZT__SPLIT_REMOVED && is_match) {
            } else if (s->behavior == LZT__SPLIT_CONTIGUOUS && any && is_match == before) {
                last->end = part[k].end;
            } else if (s->behavior == LZT__SPLIT_MERGED_WITH_PREVIOUS && any && is_match && !before) {
                last->end = part[k].end;
            } else if (s->behavior == LZT__SPLIT_MERGED_WITH_NEXT && any && !is_match && before) {
                last->end = part[k].end;
            } else {
                out->at[out->count++] = part[k];
            }
            before = is_match;
        }
        at = m.end;
    }
    for (uint64_t i = first; i < out->count; i++)
        if (out->at[i].begin < out->at[i].end) out->at[kept++] = out->at[i];
    out->count = kept;
}

lzt_status lzt__split_run(const lzt__split *split, const lzt__unicode *u, const char *text, lzt__piece piece,
                          lzt__split_scratch *scratch, lzt__pieces *out, lzt_error *err)
{
    view v = {u->flags, text, piece.end};
    lzt_status s = lzt__pieces_reserve(out, (uint64_t)(piece.end - piece.begin) + 1, err);
    if (s) return s;
    if (split->kind <= LZT__SPLIT_WORDS) {
        split_all(split, &v, piece.begin, out);
    } else if (split->kind <= LZT__SPLIT_DIGITS) {
        split_some(split, &v, piece.begin, out);
    } else {
        scratch->matches.count = 0;
        s = split->kind == LZT__SPLIT_LITERAL ? match_literal(split, text, piece, scratch, err)
                                              : lzt__regex_matches(split->regex, text, piece, scratch, err);
        if (!s) s = lzt__pieces_reserve(out, 2 * scratch->matches.count + 1, err);
        if (!s) apply_behavior(split, piece, &scratch->matches, out);
    }
    return s;
}

void lzt__split_scratch_free(lzt__split_scratch *scratch)
{
    pcre2_match_data_free(scratch->match_data);
    free(scratch->matches.at);
    *scratch = (lzt__split_scratch){0};
}

#define CONTRACTIONS "'s|'t|'re|'ve|'m|'ll|'d"
#define SPACES       "\\s+(?!\\S)|\\s+"

/* Patterns by their exact text. */
static const struct known {
    const char *pattern;
    lzt__split split;
} known_patterns[] = {
    {CONTRACTIONS "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|" SPACES, {.kind = LZT__SPLIT_GPT2}},
    {"(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|" SPACES,
     {.kind = LZT__SPLIT_WORDS, .letters = L, .digits = 1}},
    {"(?i:" CONTRACTIONS
     ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|" SPACES,
     {.kind = LZT__SPLIT_WORDS, .letters = L, .digits = 3}},
    {"(?i:" CONTRACTIONS
     ")|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|" SPACES,
     {.kind = LZT__SPLIT_WORDS, .letters = L | M, .digits = 1}},
    {"\\p{N}{1,3}", {.kind = LZT__SPLIT_NUMBERS, .digits = 3}},
    {"[一-龥\xe3\x81\x80-ゟ゠-ヿ]+", {.kind = LZT__SPLIT_KANA_HAN}},
    {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
     "?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|" SPACES,
     {.kind = LZT__SPLIT_DEEPSEEK}},
};

lzt_status lzt__split_make(const lzt__unicode *u, const char *pattern, uint64_t size, lzt__pattern_syntax syntax,
                           lzt__split *split, lzt_error *err)
{
    (void)u;
    for (size_t i = 0; i < sizeof known_patterns / sizeof known_patterns[0]; i++)
        if (strlen(known_patterns[i].pattern) == size && !memcmp(known_patterns[i].pattern, pattern, size)) {
            *split = known_patterns[i].split;
            return LZT_OK;
        }
    *split = (lzt__split){.kind = LZT__SPLIT_REGEX};
    return lzt__regex_compile(pattern, size, syntax, &split->regex, err);
}

void lzt__split_free(lzt__split *split)
{
    lzt__regex_free(split->regex);
    free(split->literal);
    *split = (lzt__split){0};
}
