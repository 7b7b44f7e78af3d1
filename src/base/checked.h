/* Size arithmetic on uint64_t that notices overflow: every product of shapes read from a file goes through here.
 *
 * Each function returns false when the result does not fit, and then leaves *out alone. Threads: pure.
 */
#ifndef LZT_BASE_CHECKED_H
#define LZT_BASE_CHECKED_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

static inline bool lzt__checked_add(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) return false;
    *out = sum;
    return true;
}

static inline bool lzt__checked_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product)) return false;
    *out = product;
    return true;
}

/* The smallest multiple of alignment (> 0, any number) that is >= value. */
static inline bool lzt__checked_align(uint64_t value, uint64_t alignment, uint64_t *out)
{
    assert(alignment > 0);
    uint64_t rest = value % alignment;
    return lzt__checked_add(value, rest ? alignment - rest : 0, out);
}

#endif
