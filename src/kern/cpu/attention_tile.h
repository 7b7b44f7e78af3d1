/* Steps that attention's forward and backward tiles share: packing of queries, the mask, rows out. For the *_isa.c
 * files of attention only; positions are counted from the beginning of a document unless named token.
 */
#ifndef LZT_KERN_CPU_ATTENTION_TILE_H
#define LZT_KERN_CPU_ATTENTION_TILE_H

#include "kern/cpu/attention.h"
#include "kern/cpu/vtile.h"

typedef struct attention_range {
    uint64_t begin, end;
} attention_range;

/* How many of a panel's columns are in use when it begins at begin of end. */
VINLINE uint64_t attention_left(uint64_t end, uint64_t begin)
{
    return end - begin < TILE_COLUMNS ? end - begin : TILE_COLUMNS;
}

/* The keys within [begin, end) that any of the queries query .. query + count - 1 sees; empty: begin >= end. */
VINLINE attention_range attention_seen(uint64_t query, uint64_t count, uint64_t window, uint64_t begin, uint64_t end)
{
    uint64_t first = lzt__attention_first_key(query, window);
    return (attention_range){first > begin ? first : begin, query + count < end ? query + count : end};
}

/* dst[rows, ld] in f32 = rows of columns elements from token on, beginning at element column of each row. */
VINLINE void attention_gather(const void *src, bool bf16, uint64_t lds, uint64_t token, uint64_t column, uint64_t rows,
                              uint64_t columns, float *dst, uint64_t ld)
{
    const char *from = (const char *)src + (token * lds + column) * (bf16 ? 2 : 4);
    vtile_gather(from, bf16, lds, dst, ld, rows, columns);
}

/* A panel of count queries: rows[TILE_COLUMNS, ld] in f32, zero past count, and its transpose [columns, TILE_COLUMNS].
 */
VINLINE void attention_panel(const void *src, bool bf16, uint64_t lds, uint64_t token, uint64_t column, uint64_t count,
                             uint64_t columns, float *rows, uint64_t ld, float *transposed)
{
    attention_gather(src, bf16, lds, token, column, count, columns, rows, ld);
    memset(rows + count * ld, 0, (TILE_COLUMNS - count) * ld * sizeof(float));
    vtile_transpose(rows, ld, transposed, TILE_COLUMNS, TILE_COLUMNS, columns);
}

/* value where the query of a column does not see the key of a row: s[key - first, column], the panel's first query
 * being query. Nothing to do where the panel sees every key. */
VINLINE void attention_mask(float *s, uint64_t query, uint64_t first, uint64_t end, uint64_t window, float value)
{
    static const int32_t columns[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                        16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
    vi column[2];
    memcpy(column, columns, sizeof column);
    uint64_t all_from = lzt__attention_first_key(query + TILE_COLUMNS - 1, window);
    for (uint64_t key = first; key < end; key++) {
        if (key <= query && key >= all_from) {
            /* every query sees it; the next that some query does not see is query + 1 */
            if (end <= query + 1) return;
            key = query;
            continue;
        }
        /* column c sees the key if key - query <= c and (window) c <= key - query + window - 1 */
        int64_t low = (int64_t)key - (int64_t)query;
        int64_t high = window ? low + (int64_t)window - 1 : TILE_COLUMNS;
        int32_t low32 = (int32_t)(low < 0 ? 0 : low), high32 = (int32_t)(high > TILE_COLUMNS ? TILE_COLUMNS : high);
        float *row = s + (key - first) * TILE_COLUMNS;
        for (int half = 0; half < 2; half++) {
            vi seen = (column[half] >= low32) & (column[half] <= high32);
            vstore(row + half * VW, vselect(seen, vload(row + half * VW), vset1(value)));
        }
    }
}

/* rows[TILE_COLUMNS, d] = the transpose of ot[d, TILE_COLUMNS]. */
VINLINE void attention_untranspose(const float *ot, float *rows, uint64_t d)
{
    uint64_t i = 0;
    for (; i + 4 <= d; i += 4)
        for (uint64_t r = 0; r < TILE_COLUMNS; r += 4)
            vtile_transpose4(ot + i * TILE_COLUMNS + r, TILE_COLUMNS, rows + r * d + i, d);
    for (; i < d; i++)
        for (uint64_t r = 0; r < TILE_COLUMNS; r++) rows[r * d + i] = ot[i * TILE_COLUMNS + r];
}

/* count elements to an array of f32 or BF16, from element index on. */
VINLINE void attention_put_row(void *dst, bool bf16, uint64_t index, const float *src, uint64_t count)
{
    if (!bf16) {
        memcpy((float *)dst + index, src, count * sizeof(float));
        return;
    }
    for (uint64_t i = 0; i < count; i += VW) {
        uint64_t left = count - i;
        vstore_left(dst, true, index + i, left, vload_left(src, false, i, left));
    }
}

#endif
