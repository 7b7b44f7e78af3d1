/* Strict scalar readings: see scalar.h. */
#include "config/scalar.h"

#include "base/units.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A decimal number taken apart: sign, the digits with the point removed, and where the point was. */
typedef struct decimal {
    bool negative, has_point, has_exponent, exact; /* exact: mantissa holds every digit */
    uint64_t mantissa;
    uint32_t digits, fraction_digits; /* digits: all that were written */
    int32_t exponent;
    const char *end; /* first byte after the number */
} decimal;

static bool refuse(const char **why, const char *text)
{
    if (why) *why = text;
    return false;
}

static void push_digit(decimal *d, char c)
{
    uint64_t next;
    d->digits++;
    if (__builtin_mul_overflow(d->mantissa, 10, &next) || __builtin_add_overflow(next, (uint64_t)(c - '0'), &next))
        d->exact = false;
    else
        d->mantissa = next;
}

/* Reads a run of digits in which single underscores separate digits. Returns NULL for a stray underscore. */
static const char *read_digits(const char *p, decimal *d, uint32_t *count)
{
    for (*count = 0; isdigit((unsigned char)*p); (*count)++) {
        push_digit(d, *p++);
        if (*p == '_' && !isdigit((unsigned char)*++p)) return NULL;
    }
    return p;
}

static const char *read_exponent(const char *p, decimal *d)
{
    const char *q = p + 1;
    bool negative = *q == '-';
    if (*q == '-' || *q == '+') q++;
    if (!isdigit((unsigned char)*q)) return p; /* not an exponent: the caller sees trailing text */
    int32_t value = 0;
    for (; isdigit((unsigned char)*q); q++)
        if (value < 100000) value = value * 10 + (*q - '0');
    d->exponent = negative ? -value : value;
    d->has_exponent = true;
    return q;
}

static bool read_decimal(const char *text, decimal *d, const char **why)
{
    *d = (decimal){.exact = true};
    const char *p = text;
    if (!*p) return refuse(why, "is empty");
    if (*p == '-' || *p == '+') d->negative = *p++ == '-';
    if (!strcasecmp(p, "nan") || !strcasecmp(p, ".nan")) return refuse(why, "is not a number");
    if (!strcasecmp(p, "inf") || !strcasecmp(p, ".inf") || !strcasecmp(p, "infinity"))
        return refuse(why, "is not finite");
    if (p[0] == '0' && (isdigit((unsigned char)p[1]) || p[1] == '_')) return refuse(why, "has a leading zero");
    uint32_t whole, fraction = 0;
    p = read_digits(p, d, &whole);
    if (p && *p == '.') {
        d->has_point = true;
        p = read_digits(p + 1, d, &fraction);
    }
    if (!p || whole + fraction == 0) return refuse(why, "is not a number");
    d->fraction_digits = fraction;
    if (*p == 'e' || *p == 'E') p = read_exponent(p, d);
    d->end = p;
    return true;
}

/* The magnitude of an integer: mantissa times ten to the exponent, exactly. */
static bool integer_value(const decimal *d, uint64_t *value, const char **why)
{
    if (*d->end) return refuse(why, "is not a whole number");
    if (d->has_point || d->exponent < 0) return refuse(why, "is not a whole number");
    uint64_t v = d->mantissa;
    bool fits = d->exact;
    for (int32_t i = 0; fits && v && i < d->exponent; i++) fits = !__builtin_mul_overflow(v, 10, &v);
    if (!fits) return refuse(why, "is too large");
    *value = v;
    return true;
}

bool lzt__scalar_uint(const char *text, uint64_t *value, const char **why)
{
    decimal d;
    uint64_t magnitude;
    if (!read_decimal(text, &d, why) || !integer_value(&d, &magnitude, why)) return false;
    if (d.negative && magnitude) return refuse(why, "is negative");
    *value = magnitude;
    return true;
}

bool lzt__scalar_int(const char *text, int64_t *value, const char **why)
{
    decimal d;
    uint64_t magnitude;
    if (!read_decimal(text, &d, why) || !integer_value(&d, &magnitude, why)) return false;
    if (magnitude > INT64_MAX) return refuse(why, "is too large");
    *value = d.negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return true;
}

/* strtod of a text already known to be a decimal number. The decimal point of the process's locale may be a comma, so
 * the number is handed over without a point: digits, then an exponent moved by the digits of the fraction. */
static double value_of(const char *text, const decimal *d)
{
    size_t size = strlen(text) + 32;
    char *buffer = malloc(size);
    if (!buffer) return d->negative ? -HUGE_VAL : HUGE_VAL;
    char *out = buffer;
    for (const char *p = text; p < d->end && *p != 'e' && *p != 'E'; p++)
        if (isdigit((unsigned char)*p)) *out++ = *p;
    snprintf(out, 32, "e%" PRId64, (int64_t)d->exponent - (int64_t)d->fraction_digits);
    double value = strtod(buffer, NULL);
    free(buffer);
    return d->negative ? -value : value;
}

bool lzt__scalar_real(const char *text, double *value, const char **why)
{
    decimal d;
    if (!read_decimal(text, &d, why)) return false;
    if (*d.end) return refuse(why, "is not a number");
    double v = value_of(text, &d);
    if (!isfinite(v)) return refuse(why, "is too large");
    if (v == 0.0 && (d.mantissa || !d.exact)) return refuse(why, "is too small");
    *value = v;
    return true;
}

bool lzt__scalar_size(const char *text, uint64_t *bytes, const char **why)
{
    const char *reason;
    if (lzt__scalar_uint(text, bytes, &reason)) return true;
    if (text[0] == '-') return refuse(why, "is negative");
    if (text[0] == '0' && isdigit((unsigned char)text[1])) return refuse(why, "has a leading zero");
    if (!lzt__units_parse_bytes(text, NULL, bytes, NULL)) return true;
    return refuse(why, "is not a size, such as 70GiB, 200MB or 4096");
}

bool lzt__scalar_bool(const char *text, bool *value, const char **why)
{
    static const char *const yes[] = {"true", "yes", "on"}, *const no[] = {"false", "no", "off"};
    for (size_t i = 0; i < 3; i++) {
        bool is_yes = !strcasecmp(text, yes[i]);
        if (!is_yes && strcasecmp(text, no[i])) continue;
        *value = is_yes;
        return true;
    }
    return refuse(why, "is not true or false");
}

bool lzt__scalar_is_null(const char *text)
{
    return !*text || !strcmp(text, "~") || !strcasecmp(text, "null");
}

bool lzt__scalar_choice(const char *text, const char *choices, const char **why)
{
    size_t length = strlen(text);
    for (const char *p = choices; length && *p;) {
        const char *end = strchrnul(p, '|');
        if ((size_t)(end - p) == length && !memcmp(p, text, length)) return true;
        p = *end ? end + 1 : end;
    }
    return refuse(why, "is not one of the choices");
}
