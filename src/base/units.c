/* Sizes as people write them: see units.h. */
#include "base/units.h"
#include "base/checked.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define FRACTION_DIGITS_MAX 18 /* 10^18 * 2^50 fits 128 bits with room */

static const char prefixes[] = "KMGTP";

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The factor of a unit, or 0. */
static uint64_t unit_bytes(const char *unit)
{
    if (!*unit || !strcasecmp(unit, "B")) return 1;
    const char *prefix = strchr(prefixes, *unit >= 'a' ? *unit - 'a' + 'A' : *unit);
    if (!prefix) return 0;
    uint64_t power = (uint64_t)(prefix - prefixes) + 1, factor = 1;
    bool decimal = !strcasecmp(unit + 1, "B");
    if (!decimal && unit[1] && strcasecmp(unit + 1, "iB") != 0) return 0;
    while (power--) factor *= decimal ? 1000 : 1024;
    return factor;
}

/* Reads DIGITS[.DIGITS]; the fraction is fraction / scale. Returns the first character behind, or NULL: not a number,
 * over 2^64 - 1, or too many decimals. */
static const char *read_number(const char *at, uint64_t *whole, uint64_t *fraction, uint64_t *scale)
{
    *whole = *fraction = 0;
    *scale = 1;
    if (!is_digit(*at)) return NULL;
    for (; is_digit(*at); at++)
        if (!lzt__checked_mul(*whole, 10, whole) || !lzt__checked_add(*whole, (uint64_t)(*at - '0'), whole))
            return NULL;
    if (*at != '.') return at;
    if (!is_digit(*++at)) return NULL;
    for (int digits = 0; is_digit(*at); at++, digits++) {
        if (digits == FRACTION_DIGITS_MAX) return NULL;
        *fraction = *fraction * 10 + (uint64_t)(*at - '0');
        *scale *= 10;
    }
    return at;
}

lzt_status lzt__units_parse_bytes(const char *text, const char *where, uint64_t *bytes, lzt_error *err)
{
    assert(text && bytes);
    uint64_t whole, fraction, scale, result;
    const char *at = read_number(text, &whole, &fraction, &scale);
    if (at && *at == ' ' && at[1]) at++;
    uint64_t factor = at ? unit_bytes(at) : 0;
    if (!factor) goto bad;
    uint64_t part = (uint64_t)((unsigned __int128)fraction * factor / scale);
    if (!lzt__checked_mul(whole, factor, &result) || !lzt__checked_add(result, part, &result)) {
        return lzt_fail(err, LZT_ERR_USAGE, where, "'%.64s' is more than 64 bits hold", text);
    }
    if (factor == 1 && fraction) goto bad;
    *bytes = result;
    return LZT_OK;
bad:
    lzt_fail(err, LZT_ERR_USAGE, where, "'%.64s' is not a size", text);
    lzt_hint(err, "write a number of bytes, or a unit: 512K, 200MiB, 1.5GiB (powers of 1024), 5GB (10^9)");
    return LZT_ERR_USAGE;
}

const char *lzt__units_format_bytes(uint64_t bytes, char out[LZT_UNITS_TEXT])
{
    int power = 0;
    while (power < 5 && bytes >> (10 * (power + 1))) power++;
    if (power == 0) {
        snprintf(out, LZT_UNITS_TEXT, "%llu B", (unsigned long long)bytes);
        return out;
    }
    double value = (double)bytes / (double)(UINT64_C(1) << (10 * power));
    if (value > 1023.9 && power < 5) value /= 1024, power++;
    snprintf(out, LZT_UNITS_TEXT, "%.*f", value < 10 ? 3 : value < 100 ? 2 : 1, value);
    size_t length = strlen(out);
    while (out[length - 1] == '0') length--;
    if (out[length - 1] == '.') length--;
    snprintf(out + length, LZT_UNITS_TEXT - length, " %ciB", prefixes[power - 1]);
    return out;
}

const char *lzt__units_format_exact(uint64_t bytes, char out[LZT_UNITS_TEXT])
{
    int power = 0;
    while (bytes && power < 5 && bytes % 1024 == 0) bytes /= 1024, power++;
    char unit[] = {power ? prefixes[power - 1] : 0, 'i', 'B', 0};
    snprintf(out, LZT_UNITS_TEXT, "%llu%s", (unsigned long long)bytes, power ? unit : "");
    return out;
}

const char *lzt__units_format_decimal(double value, const char *unit, char out[LZT_UNITS_TEXT])
{
    static const char *const prefix[] = {"", "k", "M", "G", "T", "P", "E"};
    int power = 0;
    while (power < 6 && value >= 999.5) value /= 1000, power++;
    int decimals = value >= 99.95 || (power == 0 && value == (double)(int)value) ? 0 : value >= 9.995 ? 1 : 2;
    snprintf(out, LZT_UNITS_TEXT, "%.*f %s%.12s", decimals, value, prefix[power], unit);
    return out;
}
