/* Patterns for PCRE2 with the reference's classes.
 *
 * PCRE2's Unicode tables are of another age than the reference's, and its \s has one code point more. So a pattern is
 * rewritten before it is compiled: \s \d \w \p{..} and their negations become explicit ranges from our tables. What
 * means something else in Oniguruma (which compiles the patterns of tokenizer.json) and has no rewriting here is
 * refused by name.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/jsontree.h"
#include "data/tokenizer/text_split.h"
#include "data/tokenizer/unicode.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rewriting {
    const char *in;
    uint64_t size, at;
    char *out;
    uint64_t used, capacity;
    lzt__pattern_syntax syntax;
    lzt_error *err;
} rewriting;

static lzt_status put(rewriting *r, const char *text, uint64_t size)
{
    if (r->capacity - r->used < size + 1) {
        uint64_t capacity = r->capacity * 2 + size + 256;
        char *out = realloc(r->out, capacity);
        if (!out) return lzt_fail(r->err, LZT_ERR_NO_MEMORY, NULL, "no memory for a pattern");
        r->out = out;
        r->capacity = capacity;
    }
    memcpy(r->out + r->used, text, size);
    r->used += size;
    r->out[r->used] = 0;
    return LZT_OK;
}

static lzt_status put_range(rewriting *r, uint32_t begin, uint32_t end)
{
    char text[48];
    /* surrogates cannot be named and cannot occur */
    if (begin < 0xd800 && end > 0xd800) {
        lzt_status s = put_range(r, begin, 0xd800);
        return s || end <= 0xe000 ? s : put_range(r, 0xe000, end);
    }
    if (begin >= 0xd800 && begin < 0xe000) begin = 0xe000;
    if (begin >= end) return LZT_OK;
    int n = snprintf(text, sizeof text, "\\x{%x}-\\x{%x}", begin, end - 1);
    return put(r, text, (uint64_t)n);
}

/* The members of a class, without brackets: general categories by a mask, or \s by mask 0. */
static lzt_status put_members(rewriting *r, uint32_t mask, bool is_space, bool negated)
{
    static const uint32_t space[] = {0x9,    0xe,    0x20,   0x21,   0x85,   0x86,   0xa0,   0xa1,   0x1680, 0x1681,
                                     0x2000, 0x200b, 0x2028, 0x202a, 0x202f, 0x2030, 0x205f, 0x2060, 0x3000, 0x3001};
    uint32_t begin, end, category, from = 0;
    bool open = false;
    lzt_status s = LZT_OK;
    if (is_space) {
        for (size_t i = 0; !s && i < sizeof space / sizeof space[0]; i += 2) {
            s = negated ? put_range(r, from, space[i]) : put_range(r, space[i], space[i + 1]);
            from = space[i + 1];
        }
        return s || !negated ? s : put_range(r, from, LZT__CODES);
    }
    for (uint32_t i = 0; !s && lzt__unicode_run(i, &begin, &end, &category); i++) {
        bool in = (mask >> category & 1) != negated;
        if (in && !open) from = begin;
        if (!in && open) s = put_range(r, from, begin);
        open = in;
    }
    return s || !open ? s : put_range(r, from, LZT__CODES);
}

/* Bits of the categories that a property name stands for; 0: unknown. */
static uint32_t property_mask(const char *name, uint64_t size)
{
    static const struct {
        const char *name;
        const char *categories;
    } longer[] = {{"Letter", "L"}, {"Number", "N"},    {"Mark", "M"},  {"Punctuation", "P"},
                  {"Symbol", "S"}, {"Separator", "Z"}, {"Digit", "Nd"}};
    for (size_t i = 0; i < sizeof longer / sizeof longer[0]; i++)
        if (strlen(longer[i].name) == size && !memcmp(name, longer[i].name, size)) {
            name = longer[i].categories;
            size = strlen(name);
        }
    uint32_t mask = 0;
    for (uint32_t c = 0; c < LZT__CATEGORY_COUNT; c++)
        if ((size == 1 || size == 2) && !memcmp(lzt__category_names[c], name, size)) mask |= 1u << c;
    return mask;
}

static lzt_status refuse(rewriting *r, const char *what, uint64_t size)
{
    return lzt_fail(r->err, LZT_ERR_DATA, NULL, "the pattern has %.*s at byte %llu, which is not supported",
                    (int)(size > 40 ? 40 : size), what, (unsigned long long)r->at + 1);
}

static lzt_status put_class(rewriting *r, uint32_t mask, bool is_space, bool negated, bool inside)
{
    lzt_status s = inside ? LZT_OK : put(r, "[", 1);
    if (!s) s = put_members(r, mask, is_space, negated);
    return s || inside ? s : put(r, "]", 1);
}

/* \p{Name}, \p{^Name}, \pN and their negations */
static lzt_status property(rewriting *r, bool inside)
{
    bool negated = r->in[r->at + 1] == 'P';
    uint64_t begin = r->at + 2, end = begin + 1, next = end;
    if (begin < r->size && r->in[begin] == '{') {
        const char *close = memchr(r->in + begin, '}', r->size - begin);
        if (!close) return refuse(r, "an open brace", 13);
        begin++;
        end = (uint64_t)(close - r->in);
        next = end + 1;
    }
    if (begin >= end || end > r->size) return refuse(r, "an unfinished property", 22);
    if (r->in[begin] == '^') {
        negated = !negated;
        begin++;
    }
    uint32_t mask = property_mask(r->in + begin, end - begin);
    if (!mask) return refuse(r, r->in + r->at, next - r->at);
    r->at = next;
    return put_class(r, mask, false, negated, inside);
}

static lzt_status escaped(rewriting *r, bool inside)
{
    if (r->at + 1 >= r->size) return refuse(r, "a lone backslash", 16);
    char c = r->in[r->at + 1];
    if (c == 'p' || c == 'P') return property(r, inside);
    if (c == 's' || c == 'S' || c == 'd' || c == 'D') {
        r->at += 2;
        bool space = (c | 32) == 's';
        return put_class(r, space ? 0 : property_mask("Nd", 2), space, c < 'a', inside);
    }
    if (strchr("rnt", c)) {
        r->at += 2;
        return put(r, r->in + r->at - 2, 2);
    }
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80)) {
        bool hex = (c == 'x' || (c == 'u' && r->at + 6 <= r->size)) && r->at + 4 <= r->size;
        uint64_t n = c == 'u' ? 6 : 4;
        if (!hex || r->in[r->at + 2] == '{') return refuse(r, r->in + r->at, 2);
        char text[16];
        int size = snprintf(text, sizeof text, "\\x{%.*s}", (int)(n - 2), r->in + r->at + 2);
        r->at += n;
        return put(r, text, (uint64_t)size);
    }
    r->at += 2;
    return put(r, r->in + r->at - 2, 2);
}

static lzt_status bracket(rewriting *r)
{
    lzt_status s = put(r, "[", 1);
    r->at++;
    if (!s && r->at < r->size && r->in[r->at] == '^') {
        s = put(r, "^", 1);
        r->at++;
    }
    for (bool first = true; !s && r->at < r->size; first = false) {
        char c = r->in[r->at];
        if (c == ']' && !first) {
            r->at++;
            return put(r, "]", 1);
        }
        if (c == '\\') {
            s = escaped(r, true);
            continue;
        }
        bool perl = r->syntax == LZT__PATTERN_PERL;
        if (c == '[' && (!perl || (r->at + 1 < r->size && strchr(":.=", r->in[r->at + 1]))))
            return refuse(r, "a class inside a class", 22);
        if (c == ']' && !perl) return refuse(r, "an empty class", 14);
        if (c == '&' && !perl && r->at + 1 < r->size && r->in[r->at + 1] == '&')
            return refuse(r, "an intersection (&&)", 20);
        s = put(r, r->in + r->at, 1);
        r->at++;
    }
    return s ? s : refuse(r, "an open bracket", 15);
}

/* Options at (?: Oniguruma's m is Perl's s. i folds single letters alike, several into one (ss and U+00DF) only there.
 */
static lzt_status options(rewriting *r)
{
    static const char *const folded[] = {"ss", "st", "ff", "fi", "fl"};
    uint64_t end = r->at + 2;
    while (end < r->size && strchr("im-", r->in[end])) end++;
    if (end == r->size || (r->in[end] != ')' && r->in[end] != ':')) return refuse(r, r->in + r->at, end - r->at + 1);
    bool folds = memchr(r->in + r->at, 'i', end - r->at);
    for (uint64_t k = 0; folds && k < r->size; k++) {
        bool many = r->in[k] & 0x80;
        for (size_t f = 0; f < sizeof folded / sizeof folded[0] && k + 1 < r->size; f++)
            many = many || ((r->in[k] | 32) == folded[f][0] && (r->in[k + 1] | 32) == folded[f][1]);
        if (many) return refuse(r, "letters that fold into one under (?i)", 37);
    }
    lzt_status s = put(r, "(?", 2);
    for (r->at += 2; !s && r->at < end; r->at++) s = put(r, r->in[r->at] == 'm' ? "s" : r->in + r->at, 1);
    return s;
}

/* Oniguruma: X{,m} is X{0,m}; X{n,m}+ repeats the repeat, which Perl's syntax would call possessive, and X{n}? may be
 * absent, which it would call lazy. */
static lzt_status repeat(rewriting *r)
{
    uint64_t end = r->at + 1;
    while (end < r->size && ((r->in[end] >= '0' && r->in[end] <= '9') || r->in[end] == ',')) end++;
    bool whole = end < r->size && r->in[end] == '}' && end > r->at + 1;
    bool single = whole && !memchr(r->in + r->at, ',', end - r->at);
    char behind = whole && end + 1 < r->size ? r->in[end + 1] : 0;
    if (behind == '+') return refuse(r, "{..}+", 5);
    if (single && behind == '?') return refuse(r, "{n}?", 4);
    bool upto = whole && r->in[r->at + 1] == ',' && end > r->at + 2;
    r->at++;
    return put(r, upto ? "{0" : "{", upto ? 2 : 1);
}

/* ^ and $ are those of each line. */
static lzt_status outside(rewriting *r)
{
    char c = r->in[r->at], next = r->at + 1 < r->size ? r->in[r->at + 1] : 0;
    if (r->syntax == LZT__PATTERN_ONIGURUMA) {
        char kind = next == '?' && r->at + 2 < r->size ? r->in[r->at + 2] : 0;
        if (c == '{') return repeat(r);
        if (c == '(' && next == '*') return refuse(r, "(*", 2);
        if (c == '(' && kind && strchr("@~#'&PCRU+0123456789", kind)) return refuse(r, r->in + r->at, 3);
        if (c == '(' && kind && (kind == '-' || ((kind | 32) >= 'a' && (kind | 32) <= 'z'))) return options(r);
    }
    r->at++;
    return put(r, r->in + r->at - 1, 1);
}

lzt_status lzt__regex_compile(const char *pattern, uint64_t size, lzt__pattern_syntax syntax, void **code,
                              lzt_error *err)
{
    rewriting r = {.in = pattern, .size = size, .syntax = syntax, .err = err};
    lzt_status s = put(&r, "", 0);
    while (!s && r.at < r.size) {
        char c = r.in[r.at];
        s = c == '\\' ? escaped(&r, false) : c == '[' ? bracket(&r) : outside(&r);
    }
    if (!s) {
        int error;
        PCRE2_SIZE where;
        uint32_t options = PCRE2_UTF | (syntax == LZT__PATTERN_ONIGURUMA ? PCRE2_MULTILINE : PCRE2_DOLLAR_ENDONLY);
        *code = pcre2_compile((PCRE2_SPTR)r.out, r.used, options, &error, &where, NULL);
        char text[128] = "";
        if (!*code) pcre2_get_error_message(error, (PCRE2_UCHAR *)text, sizeof text);
        if (!*code)
            s = lzt_fail(err, LZT_ERR_DATA, NULL, "the pattern is not valid: %s", text);
        else
            pcre2_jit_compile(*code, PCRE2_JIT_COMPLETE); /* a machine without it interprets */
    }
    free(r.out);
    return s;
}

void lzt__regex_free(void *code)
{
    if (code) pcre2_code_free(code);
}

bool lzt__regex_matches_empty(const void *code)
{
    uint32_t may = 1;
    return pcre2_pattern_info(code, PCRE2_INFO_MATCHEMPTY, &may) || may;
}
