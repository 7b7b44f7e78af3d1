/* Numbers as people and language models write them, as exact rationals.
 *
 *     18   -3   1,000   $1,000.00   0.50   .5   1e3   1/2   1 1/2   \frac{1}{2}   50%   18 dollars   x = 4   **7**
 *
 * A currency sign in front and a unit behind are left out of the value: 50% is 50, and 18 dollars are 18. What has
 * more than one number in it, or an operator, is no number. Threads: pure.
 */
#ifndef LZT_DATA_ANSWER_NUMBER_H
#define LZT_DATA_ANSWER_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Little-endian in base 10^9. Room for the cross products of what parse takes: LZT__RATIONAL_DIGITS digits in each
 * part of a number, and as many places of an exponent. */
enum { LZT__RATIONAL_DIGITS = 100, LZT__NATURAL_LIMBS = 80 };

typedef struct lzt__natural {
    uint32_t limb[LZT__NATURAL_LIMBS]; /* [count]; no leading zeros */
    uint32_t count;
} lzt__natural;

typedef struct lzt__rational {
    lzt__natural over, under; /* over / under; under is not 0 */
    bool negative;            /* never of zero */
} lzt__rational;

/* false: not a number. */
bool lzt__rational_parse(const char *text, uint64_t size, lzt__rational *out);
bool lzt__rational_equal(const lzt__rational *a, const lzt__rational *b);

#endif
