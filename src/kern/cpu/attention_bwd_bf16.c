/* The tiles of attention backward in BF16, by the BF16 dot product: attention_bwd_isa.c with pairs (vpair.h).
 *
 *     P = e^(scale S - lse)   dS = scale P (dO V^T - delta)   dV += P^T dO   dK += dS^T Q   dQ += dS K
 *
 * P and dS are F32 where they are made and rounded to BF16 for their products; all sums are F32. P^T and dS^T are kept
 * by panels as rows of keys, pairs of queries; for dQ dS is wanted as pairs of keys too. Q, dO and K are brought into
 * both forms once a tile. Keys are taken two at a time, counted from the chunk's beginning.
 *
 * Compiled once, for AVX512-BF16; head_dim is even.
 */
#include "kern/cpu/attention.h"

#include "kern/cpu/attention_tile.h"
#include "kern/cpu/vpair.h"

#include <assert.h>

enum { PANEL_PAIRS = TILE_COLUMNS / 2 }; /* pairs of queries of a panel */

/* Where the pieces of the scratch lie. */
typedef struct plan {
    uint64_t group, panels, half, wide; /* panels of a tile; pairs of a row; head_dim in whole tiles */
    uint32_t *qt, *dot;                 /* [panels][half][TILE_COLUMNS]: Q^T and dO^T, pairs along D */
    uint32_t *q, *d_o;                  /* [panels][PANEL_PAIRS][wide]: pairs of queries */
    float *dq;                          /* [panels * TILE_COLUMNS][wide] */
    uint32_t *p, *ds;                   /* [panels][ATTENTION_KEYS][PANEL_PAIRS] */
    float *s, *dp;                      /* [ATTENTION_KEYS][TILE_COLUMNS] of one panel */
    uint32_t *ds_keys;                  /* [ATTENTION_KEYS / 2][TILE_COLUMNS] of one panel: pairs of keys */
    float *lse, *delta;                 /* [panels][TILE_COLUMNS] */
    uint32_t *k, *v;                    /* [ATTENTION_CHUNK][half] */
    uint32_t *k_pairs;                  /* [ATTENTION_CHUNK / 2][wide]: pairs of keys */
    float *dk, *dv;                     /* [ATTENTION_CHUNK][wide] */
    uint32_t *rows;                     /* [TILE_COLUMNS][half] */
    float *end;
} plan;

static plan cut_scratch(uint64_t tile, uint64_t group, uint64_t d, float *scratch)
{
    plan p = {.group = group,
              .panels = tile / TILE_COLUMNS * group,
              .half = d / 2,
              .wide = lzt__attention_round_up(d, TILE_COLUMNS)};
    uint64_t rows = p.panels * TILE_COLUMNS, block = ATTENTION_KEYS * TILE_COLUMNS, chunk = ATTENTION_CHUNK * p.wide;
    p.q = (uint32_t *)scratch;
    p.d_o = p.q + rows / 2 * p.wide;
    p.dq = (float *)(p.d_o + rows / 2 * p.wide);
    p.qt = (uint32_t *)(p.dq + rows * p.wide);
    p.dot = p.qt + rows * p.half;
    p.p = p.dot + rows * p.half;
    p.ds = p.p + p.panels * ATTENTION_KEYS * PANEL_PAIRS;
    p.s = (float *)(p.ds + p.panels * ATTENTION_KEYS * PANEL_PAIRS);
    p.dp = p.s + block;
    p.ds_keys = (uint32_t *)(p.dp + block);
    p.lse = (float *)(p.ds_keys + block / 2);
    p.delta = p.lse + rows;
    p.k_pairs = (uint32_t *)(p.delta + rows);
    p.dk = (float *)(p.k_pairs + chunk / 2);
    p.dv = p.dk + chunk;
    p.k = (uint32_t *)(p.dv + chunk);
    p.v = p.k + ATTENTION_CHUNK * p.half;
    p.rows = p.v + ATTENTION_CHUNK * p.half;
    p.end = (float *)(p.rows + TILE_COLUMNS * p.half);
    return p;
}

static uint64_t scratch_floats(uint64_t tile, uint64_t group, uint64_t d)
{
    return lzt__attention_round_up((uintptr_t)cut_scratch(tile, group, d, NULL).end / sizeof(float), 16);
}

/* P and dS of one key in a half of a panel. */
typedef struct key_pair {
    vf p, ds;
} key_pair;

VINLINE key_pair soften_key(const float *s, const float *dp, float scale, vf minus_lse, vf minus_delta)
{
    key_pair x = {.p = vexp_fast(vfma(vload(s), vset1(scale), minus_lse))};
    x.ds = x.p * vfma(vload(dp), vset1(scale), minus_delta);
    return x;
}

VINLINE void put_half_rows(uint32_t *row, vu xy, bool both)
{
    memcpy(row, &xy, VW * 2);
    if (both) memcpy(row + PANEL_PAIRS, (const char *)&xy + VW * 2, VW * 2);
}

/* P and dS of keys (rows from 0 of s and dp) in BF16: to rows of p and ds, and dS as pairs of keys to ds_keys. */
static void soften(const plan *p, uint64_t panel, uint32_t *rows_p, uint32_t *rows_ds, uint64_t keys, float scale)
{
    for (int half = 0; half < 2; half++) {
        uint64_t at = half * VW;
        vf minus_lse = -vload(p->lse + panel * TILE_COLUMNS + at);
        vf minus_delta = vload(p->delta + panel * TILE_COLUMNS + at) * -scale;
        for (uint64_t j = 0; j < keys; j += 2) {
            bool both = j + 1 < keys;
            const float *s = p->s + j * TILE_COLUMNS + at, *dp = p->dp + j * TILE_COLUMNS + at;
            key_pair x = soften_key(s, dp, scale, minus_lse, minus_delta), y = {vset1(0), vset1(0)};
            if (both) y = soften_key(s + TILE_COLUMNS, dp + TILE_COLUMNS, scale, minus_lse, minus_delta);
            vu ds = vpair_round(x.ds, y.ds);
            put_half_rows(rows_p + j * PANEL_PAIRS + at / 2, vpair_round(x.p, y.p), both);
            put_half_rows(rows_ds + j * PANEL_PAIRS + at / 2, ds, both);
            vpair_store(p->ds_keys + j / 2 * TILE_COLUMNS + at, vpair_interleave(ds));
        }
    }
}

static void clear_rows(uint32_t *panel, uint64_t begin, uint64_t end)
{
    if (begin < end) memset(panel + begin * PANEL_PAIRS, 0, (end - begin) * PANEL_PAIRS * sizeof *panel);
}

/* One panel against a block of keys: its P and dS, and its share of dQ. query, block and see count from the document,
 * chunk is the first key of p->k; see.begin - chunk is even. */
static void panel_step(const lzt_attention *a, const plan *p, uint64_t panel, uint64_t query, uint64_t chunk,
                       uint64_t block, uint64_t block_end, attention_range see)
{
    uint64_t keys = see.end - see.begin, at = see.begin - chunk, skip = see.begin - block;
    uint32_t *rows_p = p->p + panel * ATTENTION_KEYS * PANEL_PAIRS, *rows_ds = p->ds + (rows_p - p->p);
    clear_rows(rows_p, 0, skip);
    clear_rows(rows_ds, 0, skip);
    clear_rows(rows_p, see.end - block, block_end - block);
    clear_rows(rows_ds, see.end - block, block_end - block);
    vtile_sum depth = {1, p->half};
    vtile_product(keys, (vtile_operand){.p = p->k + at * p->half, .row = p->half, .column = 1},
                  (vtile_operand){.p = p->qt + panel * p->half * TILE_COLUMNS, .row = TILE_COLUMNS}, depth, p->s,
                  TILE_COLUMNS, VTILE_STORE, NULL);
    vtile_product(keys, (vtile_operand){.p = p->v + at * p->half, .row = p->half, .column = 1},
                  (vtile_operand){.p = p->dot + panel * p->half * TILE_COLUMNS, .row = TILE_COLUMNS}, depth, p->dp,
                  TILE_COLUMNS, VTILE_STORE, NULL);
    attention_mask(p->s, query, see.begin, see.end, a->window, -INFINITY);
    soften(p, panel, rows_p + skip * PANEL_PAIRS, rows_ds + skip * PANEL_PAIRS, keys, a->scale);
    for (uint64_t column = 0; column < p->wide; column += TILE_COLUMNS)
        vtile_product(TILE_COLUMNS, (vtile_operand){.p = p->ds_keys, .row = 1, .column = TILE_COLUMNS},
                      (vtile_operand){.p = p->k_pairs + at / 2 * p->wide + column, .row = p->wide},
                      (vtile_sum){1, (keys + 1) / 2}, p->dq + panel * TILE_COLUMNS * p->wide + column, p->wide,
                      VTILE_ADD, NULL);
}

/* rows[keys, wide] += s^T x over panels first .. end - 1, for keys of the block from row on. */
static void key_product(const plan *p, const uint32_t *s, const uint32_t *x, uint64_t row, uint64_t keys,
                        uint64_t first, uint64_t end, float *rows)
{
    for (uint64_t column = 0; column < p->wide; column += TILE_COLUMNS)
        vtile_product(keys,
                      (vtile_operand){.p = s + (first * ATTENTION_KEYS + row) * PANEL_PAIRS,
                                      .row = PANEL_PAIRS,
                                      .column = 1,
                                      .segment = ATTENTION_KEYS * PANEL_PAIRS},
                      (vtile_operand){.p = x + first * PANEL_PAIRS * p->wide + column,
                                      .row = p->wide,
                                      .segment = PANEL_PAIRS * p->wide},
                      (vtile_sum){end - first, PANEL_PAIRS}, rows + column, p->wide, VTILE_ADD, NULL);
}

/* dV and dK of a block of keys from the tile of count queries that begins at begin. */
static void block_keys(const lzt_attention *a, const plan *p, uint64_t begin, uint64_t count, uint64_t chunk,
                       uint64_t block, uint64_t block_end)
{
    for (uint64_t key = block; key < block_end; key += ATTENTION_KEY_GROUP) {
        uint64_t keys = block_end - key < ATTENTION_KEY_GROUP ? block_end - key : ATTENTION_KEY_GROUP;
        attention_range seeing = attention_seeing(begin, count, a->window, key, keys);
        if (seeing.begin == seeing.end) continue;
        uint64_t row = (key - chunk) * p->wide, first = seeing.begin * p->group, end = seeing.end * p->group;
        key_product(p, p->p, p->d_o, key - block, keys, first, end, p->dv + row);
        key_product(p, p->ds, p->q, key - block, keys, first, end, p->dk + row);
    }
}

/* A panel of count rows of BF16: pairs of rows, and transposed as pairs along D; zero past count. */
static void load_panel(const plan *p, const uint16_t *src, uint64_t lds, uint64_t count, uint64_t d, uint32_t *pairs,
                       uint32_t *transposed)
{
    uint64_t used = (count + 1) / 2 * p->wide;
    vpair_interleave_rows(src, lds, count, d, pairs, p->wide);
    memset(pairs + used, 0, (PANEL_PAIRS * p->wide - used) * sizeof *pairs);
    vpair_gather(src, lds, count, d, p->rows, p->half);
    memset(p->rows + count * p->half, 0, (TILE_COLUMNS - count) * p->half * sizeof *pairs);
    vtile_transpose((const float *)p->rows, p->half, (float *)transposed, TILE_COLUMNS, TILE_COLUMNS, p->half);
}

/* Q and dO of a tile of count queries, its lse and delta; dQ begins at zero. */
static void load_tile(const lzt_attention_grad *g, const plan *p, uint64_t token, uint64_t count, uint64_t kv_head)
{
    const lzt_attention *a = &g->fwd;
    uint64_t d = a->head_dim, panels = (count + TILE_COLUMNS - 1) / TILE_COLUMNS * p->group;
    for (uint64_t panel = 0; panel < panels; panel++) {
        uint64_t first = panel / p->group * TILE_COLUMNS, head = kv_head * p->group + panel % p->group;
        uint64_t used = attention_left(count, first), from = token + first;
        uint64_t pairs = panel * PANEL_PAIRS * p->wide, transposed = panel * p->half * TILE_COLUMNS;
        load_panel(p, (const uint16_t *)a->q + from * a->ldq + head * d, a->ldq, used, d, p->q + pairs,
                   p->qt + transposed);
        load_panel(p, (const uint16_t *)g->d_o + from * a->ldo + head * d, a->ldo, used, d, p->d_o + pairs,
                   p->dot + transposed);
        float *lse = p->lse + panel * TILE_COLUMNS, *delta_of = p->delta + panel * TILE_COLUMNS;
        for (uint64_t r = 0; r < TILE_COLUMNS; r++) {
            /* an unused column has P = 1, which meets rows of zeros */
            lse[r] = r < used ? a->lse[head * a->capacity + from + r] : 0;
            delta_of[r] = r < used ? g->delta[head * a->capacity + from + r] : 0;
        }
    }
    memset(p->dq, 0, panels * TILE_COLUMNS * p->wide * sizeof(float));
}

static void tile_step(const lzt_attention *a, const plan *p, const lzt_attention_unit *unit, uint64_t begin,
                      uint64_t count)
{
    uint64_t panels = (count + TILE_COLUMNS - 1) / TILE_COLUMNS * p->group,
             keys_end = unit->key_begin + unit->key_count;
    for (uint64_t block = unit->key_begin; block < keys_end; block += ATTENTION_KEYS) {
        uint64_t block_end = block + ATTENTION_KEYS < keys_end ? block + ATTENTION_KEYS : keys_end;
        for (uint64_t panel = 0; panel < panels; panel++) {
            uint64_t query = begin + panel / p->group * TILE_COLUMNS;
            attention_range see =
                attention_seen(query, attention_left(begin + count, query), a->window, block, block_end);
            see.begin &= ~UINT64_C(1); /* chunks begin at even positions */
            if (see.begin < see.end) panel_step(a, p, panel, query, unit->key_begin, block, block_end, see);
        }
        block_keys(a, p, begin, count, unit->key_begin, block, block_end);
    }
}

static void load_keys(const lzt_attention *a, const plan *p, uint64_t token, uint64_t count, uint64_t column)
{
    uint64_t d = a->head_dim;
    const uint16_t *k = (const uint16_t *)a->k + token * a->ldk + column;
    vpair_gather(k, a->ldk, count, d, p->k, p->half);
    vpair_interleave_rows(k, a->ldk, count, d, p->k_pairs, p->wide);
    vpair_gather((const uint16_t *)a->v + token * a->ldv + column, a->ldv, count, d, p->v, p->half);
    memset(p->dk, 0, count * p->wide * sizeof(float));
    memset(p->dv, 0, count * p->wide * sizeof(float));
}

static void run(const lzt_attention_grad *g, const lzt_attention_unit *unit, bool first, float *scratch)
{
    const lzt_attention *a = &g->fwd;
    uint64_t d = a->head_dim, kv_column = unit->kv_head * d, key_token = unit->document + unit->key_begin;
    plan p = cut_scratch(a->tile, a->q_heads / a->kv_heads, d, scratch);
    assert(unit->count <= ATTENTION_CHUNK && unit->key_count <= ATTENTION_CHUNK && d % 2 == 0);
    load_keys(a, &p, key_token, unit->key_count, kv_column);
    for (uint64_t done = 0; done < unit->count; done += a->tile) {
        uint64_t count = unit->count - done < a->tile ? unit->count - done : a->tile, begin = unit->begin + done;
        load_tile(g, &p, unit->document + begin, count, unit->kv_head);
        tile_step(a, &p, unit, begin, count);
        attention_give_tile(g, p.dq, p.wide, p.group, unit->document + begin, count, unit->kv_head, first);
    }
    attention_give_keys(g, p.dk, p.dv, p.wide, key_token, unit->key_count, kv_column, first);
}

const lzt_attention_bwd_code lzt__attention_bwd_code_bf16 = {
    .columns = TILE_COLUMNS,
    .scratch_floats = scratch_floats,
    .run = run,
};
