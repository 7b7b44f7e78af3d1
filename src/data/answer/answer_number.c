/* Numbers in text: see answer_number.h.
 *
 * Markup is taken away first (LaTeX, Markdown, spaces of all kinds), then what is left is read by
 *
 *     [letters =] [sign] [currency] [sign] value [unit]
 *     value: digits[.digits][e[sign]digits] | digits/digits | digits digits/digits
 *
 * where digits may have commas before groups of three.
 */
#include "data/answer/answer_number.h"

#include <string.h>

enum { TEXT_MAX = 512, BASE = 1000000000 };

/* ---- naturals ---- */

/* n = n * factor + more; factor and more below BASE. */
static void multiply_add(lzt__natural *n, uint32_t factor, uint32_t more)
{
    uint64_t carry = more;
    for (uint32_t i = 0; i < n->count; i++) {
        carry += (uint64_t)n->limb[i] * factor;
        n->limb[i] = (uint32_t)(carry % BASE);
        carry /= BASE;
    }
    if (carry) n->limb[n->count++] = (uint32_t)carry;
}

static lzt__natural product(const lzt__natural *a, const lzt__natural *b)
{
    lzt__natural p = {.count = a->count + b->count};
    for (uint32_t i = 0; i < a->count; i++) {
        uint64_t carry = 0;
        for (uint32_t k = 0; k < b->count || carry; k++) {
            carry += p.limb[i + k] + (k < b->count ? (uint64_t)a->limb[i] * b->limb[k] : 0);
            p.limb[i + k] = (uint32_t)(carry % BASE);
            carry /= BASE;
        }
    }
    while (p.count && !p.limb[p.count - 1]) p.count--;
    return p;
}

bool lzt__rational_equal(const lzt__rational *a, const lzt__rational *b)
{
    lzt__natural x = product(&a->over, &b->under), y = product(&b->over, &a->under);
    return a->negative == b->negative && x.count == y.count && !memcmp(x.limb, y.limb, x.count * sizeof *x.limb);
}

/* ---- markup ---- */

typedef struct cleaning {
    char out[TEXT_MAX];
    uint64_t size;
    bool overflow;
} cleaning;

static void put(cleaning *c, const char *text)
{
    uint64_t n = strlen(text);
    if (c->size + n >= sizeof c->out) {
        c->overflow = true;
        return;
    }
    memcpy(c->out + c->size, text, n);
    c->size += n;
}

/* What markup becomes; where one spelling begins another, the longer stands first. */
static const struct {
    const char *from, *to;
} markup[] = {{"\\left", ""},
              {"\\right", ""},
              {"\\dfrac", "\\frac"},
              {"\\tfrac", "\\frac"},
              {"^{\\circ}", " degrees"},
              {"^\\circ", " degrees"},
              {"\\circ", " degrees"},
              {"\\degree", " degrees"},
              {"\\textbf", ""},
              {"\\text", ""},
              {"\\mbox", ""},
              {"\\mathrm", ""},
              {"\\boxed", ""},
              {"\\!", ""},
              {"\\,", " "},
              {"\\;", " "},
              {"\\:", " "},
              {"\\ ", " "},
              {"\\$", "$"},
              {"\\%", "%"},
              {"\\(", ""},
              {"\\)", ""},
              {"{,}", ","},
              {"**", ""},
              {"`", ""},
              {"~", " "},
              {"\t", " "},
              {"\xc2\xa0", " "},        /* no-break space */
              {"\xe2\x80\xaf", " "},    /* narrow no-break space */
              {"\xe2\x80\x89", " "},    /* thin space */
              {"\xe2\x88\x92", "-"},    /* minus */
              {"\xe2\x80\x93", "-"},    /* en dash */
              {"\xc2\xb0", " degrees"}, /* degree sign */
              {"\xc2\xbd", " 1/2"},     /* vulgar fractions */
              {"\xc2\xbc", " 1/4"},
              {"\xc2\xbe", " 3/4"},
              {"\xe2\x85\x93", " 1/3"},
              {"\xe2\x85\x94", " 2/3"}};

/* The text without markup; false where it is too long for a number. */
static bool clean(const char *text, uint64_t size, cleaning *c)
{
    *c = (cleaning){.size = 0};
    for (uint64_t i = 0; i < size && !c->overflow;) {
        uint64_t taken = 0;
        for (size_t m = 0; m < sizeof markup / sizeof *markup && !taken; m++) {
            uint64_t n = strlen(markup[m].from);
            if (n > size - i || memcmp(text + i, markup[m].from, n)) continue;
            put(c, markup[m].to);
            taken = n;
        }
        if (!taken && !text[i]) return false;
        if (!taken) put(c, (char[]){text[i], 0});
        i += taken ? taken : 1;
    }
    while (c->size && c->out[c->size - 1] == ' ') c->size--;
    c->out[c->size] = 0;
    return !c->overflow;
}

/* Takes away a pair of brackets of one kind around the whole: "$18$", "{18}", "\"18\"". */
static char *unwrap(char *text)
{
    static const char pairs[][2] = {{'$', '$'}, {'{', '}'}, {'"', '"'}, {'*', '*'}};
    for (bool again = true; again;) {
        again = false;
        while (*text == ' ') text++;
        uint64_t n = strlen(text);
        for (size_t i = 0; i < sizeof pairs / sizeof *pairs && !again; i++) {
            if (n < 3 || text[0] != pairs[i][0] || text[n - 1] != pairs[i][1]) continue;
            text[n - 1] = 0;
            text++;
            again = true;
        }
    }
    return text;
}

/* ---- reading ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static const char *skip_spaces(const char *at)
{
    while (*at == ' ') at++;
    return at;
}

/* Digits, with commas before groups of three when grouped; appended to n. NULL: none, or more than are taken. */
static const char *read_digits(const char *at, bool grouped, lzt__natural *n, uint32_t *count)
{
    uint32_t run = 0;
    bool commas = false;
    *count = 0;
    for (;; at++) {
        if (is_digit(*at)) {
            if (++*count > LZT__RATIONAL_DIGITS) return NULL;
            multiply_add(n, 10, (uint32_t)(*at - '0'));
            run++;
        } else if (grouped && *at == ',' && run >= 1 && run <= 3 && (!commas || run == 3) && is_digit(at[1]) &&
                   is_digit(at[2]) && is_digit(at[3]) && !is_digit(at[4])) {
            commas = true;
            run = 0;
        } else {
            return *count ? at : NULL;
        }
    }
}

/* "e-3" at at, applied to the number; at itself where there is no exponent, NULL where it is too large. */
static const char *read_exponent(const char *at, lzt__rational *r)
{
    if (*at != 'e' && *at != 'E') return at;
    bool below = at[1] == '-';
    const char *digits = at + 1 + (at[1] == '-' || at[1] == '+');
    if (!is_digit(*digits)) return at;
    uint32_t places = 0;
    for (; is_digit(*digits); digits++) {
        places = places * 10 + (uint32_t)(*digits - '0');
        if (places > LZT__RATIONAL_DIGITS) return NULL;
    }
    while (places--) multiply_add(below ? &r->under : &r->over, 10, 0);
    return digits;
}

/* "3/4" at at as a fraction of r, which holds the whole number in front of it (0: none). at where there is none. */
static const char *read_fraction(const char *at, lzt__rational *r)
{
    lzt__natural over = {.count = 0}, under = {.count = 0};
    uint32_t count;
    const char *slash = read_digits(at, false, &over, &count);
    if (!slash) return at;
    slash = skip_spaces(slash);
    if (*slash != '/') return at;
    const char *end = read_digits(skip_spaces(slash + 1), false, &under, &count);
    if (!end || !under.count) return at;
    lzt__natural whole = product(&r->over, &under);
    uint64_t carry = 0; /* over + whole */
    for (uint32_t i = 0; i < whole.count || i < over.count || carry; i++) {
        carry += (i < whole.count ? whole.limb[i] : 0) + (uint64_t)(i < over.count ? over.limb[i] : 0);
        whole.limb[i] = (uint32_t)(carry % BASE);
        carry /= BASE;
        if (i >= whole.count) whole.count = i + 1;
    }
    r->over = whole;
    r->under = under;
    return end;
}

/* "\frac{3}{4}", "\frac34" */
static const char *read_latex_fraction(const char *at, lzt__rational *r)
{
    lzt__natural *part[] = {&r->over, &r->under};
    *r = (lzt__rational){.negative = r->negative};
    at += strlen("\\frac");
    for (int i = 0; i < 2; i++) {
        uint32_t count;
        at = skip_spaces(at);
        if (*at == '{') {
            at = read_digits(skip_spaces(at + 1), true, part[i], &count);
            if (!at || *(at = skip_spaces(at)) != '}') return NULL;
            at++;
        } else {
            if (!is_digit(*at)) return NULL;
            multiply_add(part[i], 10, (uint32_t)(*at++ - '0'));
        }
    }
    return r->under.count ? at : NULL;
}

/* The value at at; NULL: none. */
static const char *read_value(const char *at, lzt__rational *r)
{
    uint32_t count = 0, places = 0;
    r->under = (lzt__natural){{1}, 1};
    r->over = (lzt__natural){.count = 0};
    if (!strncmp(at, "\\frac", 5)) return read_latex_fraction(at, r);
    const char *end = read_fraction(at, r); /* "3/4" */
    if (end != at) return end;
    if (is_digit(*at)) {
        at = read_digits(at, true, &r->over, &count);
        if (!at) return NULL;
    }
    if (*at == '.' && is_digit(at[1])) {
        at = read_digits(at + 1, false, &r->over, &places);
        if (!at) return NULL;
        for (uint32_t i = 0; i < places; i++) multiply_add(&r->under, 10, 0);
    } else if (!count) {
        return NULL;
    }
    if (!places && *at == ' ') { /* "1 1/2" */
        end = read_fraction(skip_spaces(at), r);
        if (end != skip_spaces(at)) return end;
    }
    return read_exponent(at, r);
}

/* A currency sign or code at at, or at. */
static const char *skip_currency(const char *at)
{
    static const char *const signs[] = {"US$", "USD",          "EUR",      "GBP",      "Rs.",         "Rs",
                                        "$",   "\xe2\x82\xac", "\xc2\xa3", "\xc2\xa5", "\xe2\x82\xb9"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (!strncmp(at, signs[i], strlen(signs[i]))) return skip_spaces(at + strlen(signs[i]));
    return at;
}

/* Behind "x =", "Total =", "=", or at. */
static const char *skip_name(const char *at)
{
    const char *end = at;
    while (is_letter(*end) || *end == '_' || *end == ' ') end++;
    return *end == '=' ? skip_spaces(end + 1) : at;
}

static const char *read_sign(const char *at, lzt__rational *r)
{
    if (*at != '-' && *at != '+') return at;
    r->negative ^= *at == '-';
    return skip_spaces(at + 1);
}

/* The first word of a unit. One letter alone is one only where it is a measure and no variable. */
static bool is_measure(const char *at)
{
    uint64_t word = 0;
    while (is_letter(at[word])) word++;
    if ((unsigned char)at[word] & 0x80) return strncmp(at, "\xcf\x80", 2) != 0; /* the letter pi is a factor */
    if (word == 1) return strchr("mgslLhVWCFK", *at) != NULL;
    return word != 2 || strncmp(at, "pi", 2) != 0;
}

/* A unit, or nothing: words, without a digit or an operator; hyphens and slashes stand between words alone. */
static bool is_unit(const char *at)
{
    const char *first = skip_spaces(at);
    if (!is_measure(first + (*first == '-' || *first == '/'))) return false;
    if (*first == '.' && is_letter(first[1])) return false;
    for (const char *c = at; *c; c++) {
        if ((*c == '-' || *c == '/') && (c[-1] == ' ' || !is_letter(c[1]))) return false;
        if (!is_letter(*c) && !((unsigned char)*c & 0x80) && !strchr(" %.,;!'\"/()-{}$", *c)) return false;
    }
    return true;
}

bool lzt__rational_parse(const char *text, uint64_t size, lzt__rational *r)
{
    cleaning c;
    *r = (lzt__rational){.negative = false};
    if (size >= TEXT_MAX || !clean(text, size, &c)) return false;
    char *named = unwrap(c.out);
    const char *at = read_sign(unwrap(named + (skip_name(named) - named)), r);
    at = skip_currency(at);
    at = read_sign(at, r);
    at = read_value(at, r);
    if (!at || !is_unit(at)) return false;
    if (!r->over.count) r->negative = false;
    return true;
}
