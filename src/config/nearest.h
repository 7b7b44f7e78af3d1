/* The nearest known name to one that was mistyped.
 *
 *     lzt_nearest nearest = {.wanted = "lerning-rate"};
 *     for each known name: lzt__nearest_offer(&nearest, name);
 *     if (lzt__nearest_name(&nearest)) ... "did you mean %s?"
 *
 * Distance: insertions, deletions, substitutions and swaps of neighbours; '-' equals '_', case is ignored. A name
 * qualifies within a third of its length. Of equals the first offered wins.
 */
#ifndef LZT_CONFIG_NEAREST_H
#define LZT_CONFIG_NEAREST_H

#include <stdint.h>

typedef struct lzt_nearest {
    const char *wanted;
    const char *best; /* NULL: nothing offered yet */
    uint32_t distance;
} lzt_nearest;

void lzt__nearest_offer(lzt_nearest *nearest, const char *name);
/* NULL when no offered name is near enough. Borrowed from the offer. */
const char *lzt__nearest_name(const lzt_nearest *nearest);

#endif
