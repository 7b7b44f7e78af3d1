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

/* What a panel of the forward carries from block to block: the maximum of S so far, the sum of e^(scale (S - max)). */
typedef struct attention_running {
    float max[TILE_COLUMNS], sum[TILE_COLUMNS];
} attention_running;

VINLINE void attention_begin(attention_running *state)
{
    for (uint64_t r = 0; r < TILE_COLUMNS; r++) {
        state->max[r] = -INFINITY;
        state->sum[r] = 0;
    }
}

/* rows[TILE_COLUMNS, d] = the outputs of one panel's queries from its sums ot[d, TILE_COLUMNS]. */
VINLINE void attention_normalise(float *ot, float *rows, const attention_running *state, uint64_t d)
{
    vf inverse[2] = {1.0f / vload(state->sum), 1.0f / vload(state->sum + VW)};
    for (uint64_t i = 0; i < d; i++) {
        vstore(ot + i * TILE_COLUMNS, vload(ot + i * TILE_COLUMNS) * inverse[0]);
        vstore(ot + i * TILE_COLUMNS + VW, vload(ot + i * TILE_COLUMNS + VW) * inverse[1]);
    }
    attention_untranspose(ot, rows, d);
}

/* Output and lse of one panel's queries; rows[TILE_COLUMNS, d] is scratch. */
VINLINE void attention_finish(const lzt_attention *a, float *ot, float *rows, const attention_running *state,
                              uint64_t head, uint64_t token, uint64_t count)
{
    uint64_t d = a->head_dim;
    attention_normalise(ot, rows, state, d);
    for (uint64_t r = 0; r < count; r++) {
        attention_put_row(a->o, a->bf16, (token + r) * a->ldo + head * d, rows + r * d, d);
        a->lse[head * a->capacity + token + r] =
            (float)((double)state->max[r] * (double)a->scale + (double)logf(state->sum[r]));
    }
}

/* ---- backward ---- */

enum { ATTENTION_KEY_GROUP = 24 }; /* keys of one product for dV and dK: panels that see none of them are left out */

/* Of the panels of count queries from begin on, those that see any of the keys key .. key + keys - 1, as a range: all
 * panels before the first come before the keys, all after the last are past the window of every key. */
VINLINE attention_range attention_seeing(uint64_t begin, uint64_t count, uint64_t window, uint64_t key, uint64_t keys)
{
    attention_range r = {0, (count + TILE_COLUMNS - 1) / TILE_COLUMNS};
    while (r.begin < r.end) {
        uint64_t query = begin + r.begin * TILE_COLUMNS;
        attention_range see = attention_seen(query, attention_left(begin + count, query), window, key, key + keys);
        if (see.begin < see.end || see.begin >= key + keys) break;
        r.begin++;
    }
    while (r.end > r.begin) {
        uint64_t query = begin + (r.end - 1) * TILE_COLUMNS;
        attention_range see = attention_seen(query, attention_left(begin + count, query), window, key, key + keys);
        if (see.begin < see.end) break;
        r.end--;
    }
    return r;
}

/* A row of a sum: set at the first contribution, added to later. */
VINLINE void attention_give_row(float *sum, const float *row, uint64_t count, bool first)
{
    if (first) {
        memcpy(sum, row, count * sizeof(float));
        return;
    }
    for (uint64_t i = 0; i < count; i += VW) {
        uint64_t left = count - i;
        vstore_left(sum, false, i, left, vload_left(sum, false, i, left) + vload_left(row, false, i, left));
    }
}

/* dq[panels * TILE_COLUMNS, wide] of count queries from token on to the sums. */
VINLINE void attention_give_tile(const lzt_attention_grad *g, const float *dq, uint64_t wide, uint64_t group,
                                 uint64_t token, uint64_t count, uint64_t kv_head, bool first)
{
    uint64_t d = g->fwd.head_dim;
    for (uint64_t panel = 0; panel < (count + TILE_COLUMNS - 1) / TILE_COLUMNS * group; panel++) {
        uint64_t from = panel / group * TILE_COLUMNS, head = kv_head * group + panel % group;
        for (uint64_t r = 0; r < attention_left(count, from); r++)
            attention_give_row(g->dq + (token + from + r) * g->ld_sum + head * d,
                               dq + (panel * TILE_COLUMNS + r) * wide, d, first);
    }
}

/* dk and dv[count, wide] of keys from token on to the sums. */
VINLINE void attention_give_keys(const lzt_attention_grad *g, const float *dk, const float *dv, uint64_t wide,
                                 uint64_t token, uint64_t count, uint64_t column, bool first)
{
    for (uint64_t j = 0; j < count; j++) {
        uint64_t at = (token + j) * g->ld_sum + column;
        attention_give_row(g->dk + at, dk + j * wide, g->fwd.head_dim, first);
        attention_give_row(g->dv + at, dv + j * wide, g->fwd.head_dim, first);
    }
}

#endif
