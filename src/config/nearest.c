/* The nearest known name: see nearest.h. */
#include "config/nearest.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

enum { LENGTH_MAX = 63 };

static int fold(char c)
{
    return c == '_' ? '-' : tolower((unsigned char)c);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Damerau-Levenshtein distance of two names no longer than LENGTH_MAX, three rows at a time. */
static uint32_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    uint32_t rows[3][LENGTH_MAX + 1];
    uint32_t *older = rows[0], *old = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_length; j++) old[j] = (uint32_t)j;
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = (uint32_t)i;
        for (size_t j = 1; j <= b_length; j++) {
            uint32_t cost = fold(a[i - 1]) != fold(b[j - 1]);
            row[j] = least(least(old[j] + 1, row[j - 1] + 1), old[j - 1] + cost);
            if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) && fold(a[i - 2]) == fold(b[j - 1]))
                row[j] = least(row[j], older[j - 2] + 1);
        }
        uint32_t *recycled = older;
        older = old;
        old = row;
        row = recycled;
    }
    return old[b_length];
}

void lzt__nearest_offer(lzt_nearest *nearest, const char *name)
{
    size_t wanted_length = strlen(nearest->wanted), length = strlen(name);
    if (wanted_length > LENGTH_MAX || length > LENGTH_MAX || !wanted_length || !length) return;
    uint32_t d = distance(nearest->wanted, wanted_length, name, length);
    if (nearest->best && d >= nearest->distance) return;
    nearest->best = name;
    nearest->distance = d;
}

const char *lzt__nearest_name(const lzt_nearest *nearest)
{
    if (!nearest->best) return NULL;
    size_t length = strlen(nearest->best);
    uint32_t limit = length < 4 ? 1 : (uint32_t)(length + 2) / 3;
    return nearest->distance <= limit ? nearest->best : NULL;
}
