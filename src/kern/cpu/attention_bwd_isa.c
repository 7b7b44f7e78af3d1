/* The tiles of attention backward: see attention.h for the layout, attention_bwd.c for the order of the units.
 *
 * With P recomputed from the forward's lse (Dao et al. 2022, algorithm 4):
 *
 *     P = e^(scale S - lse)   dS = scale P (dO V^T - delta)   dV += P^T dO   dK += dS^T Q   dQ += dS K
 *
 * P and dS are kept transposed, [key, query] by panels; all five products read them and the gathered rows of Q, K, V
 * and dO as they lie, but for S and dO V^T, which need Q and dO transposed, once a tile. The columns of rows are padded
 * with zeros to whole tiles (wide).
 */
#include "kern/cpu/attention.h"

#include "kern/cpu/attention_tile.h"
#include "base/isa_level.h"

#include <assert.h>

/* Where the pieces of the scratch lie. */
typedef struct plan {
    uint64_t group, panels, wide; /* panels of a tile; head_dim in whole tiles */
    float *qt, *dot;              /* [panels][D][TILE_COLUMNS] */
    float *q, *d_o, *dq;          /* [panels * TILE_COLUMNS][wide] */
    float *p, *ds;                /* [panels][ATTENTION_KEYS][TILE_COLUMNS] */
    float *lse, *delta;           /* [panels][TILE_COLUMNS] */
    float *k, *v, *dk, *dv;       /* [ATTENTION_CHUNK][wide] */
} plan;

static uint64_t scratch_floats(uint64_t tile, uint64_t group, uint64_t d)
{
    uint64_t wide = lzt__attention_round_up(d, TILE_COLUMNS);
    uint64_t floats = tile * group * (2 * d + 3 * wide + 2 * ATTENTION_KEYS + 2) + 4 * ATTENTION_CHUNK * wide;
    return lzt__attention_round_up(floats, 16);
}

static plan cut_scratch(uint64_t tile, uint64_t group, uint64_t d, float *scratch)
{
    plan p = {.group = group, .panels = tile / TILE_COLUMNS * group, .wide = lzt__attention_round_up(d, TILE_COLUMNS)};
    uint64_t rows = p.panels * TILE_COLUMNS, keys = ATTENTION_CHUNK * p.wide;
    p.qt = scratch;
    p.dot = p.qt + rows * d;
    p.q = p.dot + rows * d;
    p.d_o = p.q + rows * p.wide;
    p.dq = p.d_o + rows * p.wide;
    p.p = p.dq + rows * p.wide;
    p.ds = p.p + rows * ATTENTION_KEYS;
    p.lse = p.ds + rows * ATTENTION_KEYS;
    p.delta = p.lse + rows;
    p.k = p.delta + rows;
    p.v = p.k + keys;
    p.dk = p.v + keys;
    p.dv = p.dk + keys;
    assert((uint64_t)(p.dv + keys - scratch) <= scratch_floats(tile, group, d));
    return p;
}

static void delta(const lzt_attention_grad *g, uint64_t begin, uint64_t end)
{
    const lzt_attention *a = &g->fwd;
    uint64_t d = a->head_dim;
    for (uint64_t t = begin; t < end; t++)
        for (uint64_t head = 0; head < a->q_heads; head++) {
            uint64_t at = t * a->ldo + head * d;
            vf sum = vset1(0);
            for (uint64_t i = 0; i < d; i += VW)
                sum = a->bf16
                          ? vfma(vload_left(a->o, true, at + i, d - i), vload_left(g->d_o, true, at + i, d - i), sum)
                          : vfma(vload_left(a->o, false, at + i, d - i), vload_left(g->d_o, false, at + i, d - i), sum);
            g->delta[head * a->capacity + t] = (float)vsum_wide(sum);
        }
}

/* P and dS of keys first .. end - 1 (rows from 0 of s and ds) in place of S and dO V^T. */
static void soften(float *s, float *ds, uint64_t keys, float scale, const float *lse, const float *delta_of)
{
    for (int half = 0; half < 2; half++) {
        vf minus_lse = -vload(lse + half * VW), minus_delta = vload(delta_of + half * VW) * -scale;
        for (uint64_t j = 0; j < keys; j++) {
            float *at = s + j * TILE_COLUMNS + half * VW, *to = ds + j * TILE_COLUMNS + half * VW;
            vf p = vexp_fast(vfma(vload(at), vset1(scale), minus_lse));
            vstore(at, p);
            vstore(to, p * vfma(vload(to), vset1(scale), minus_delta));
        }
    }
}

static void clear_rows(float *panel, uint64_t begin, uint64_t end)
{
    if (begin < end) memset(panel + begin * TILE_COLUMNS, 0, (end - begin) * TILE_COLUMNS * sizeof(float));
}

/* One panel against a block of keys: its P and dS, and its share of dQ. query, block and see count from the document,
 * chunk is the first key of p->k. */
static void panel_step(const lzt_attention *a, const plan *p, uint64_t panel, uint64_t query, uint64_t chunk,
                       uint64_t block, uint64_t block_end, attention_range see)
{
    uint64_t d = a->head_dim, wide = p->wide, keys = see.end - see.begin;
    float *s = p->p + panel * ATTENTION_KEYS * TILE_COLUMNS, *ds = p->ds + panel * ATTENTION_KEYS * TILE_COLUMNS;
    float *seen_s = s + (see.begin - block) * TILE_COLUMNS, *seen_ds = ds + (see.begin - block) * TILE_COLUMNS;
    const float *k = p->k + (see.begin - chunk) * wide, *v = p->v + (see.begin - chunk) * wide;
    clear_rows(s, 0, see.begin - block);
    clear_rows(ds, 0, see.begin - block);
    clear_rows(s, see.end - block, block_end - block);
    clear_rows(ds, see.end - block, block_end - block);
    vtile_product(keys, (vtile_operand){.p = k, .row = wide, .column = 1},
                  (vtile_operand){.p = p->qt + panel * d * TILE_COLUMNS, .row = TILE_COLUMNS}, (vtile_sum){1, d},
                  seen_s, TILE_COLUMNS, VTILE_STORE, NULL);
    vtile_product(keys, (vtile_operand){.p = v, .row = wide, .column = 1},
                  (vtile_operand){.p = p->dot + panel * d * TILE_COLUMNS, .row = TILE_COLUMNS}, (vtile_sum){1, d},
                  seen_ds, TILE_COLUMNS, VTILE_STORE, NULL);
    attention_mask(seen_s, query, see.begin, see.end, a->window, -INFINITY);
    soften(seen_s, seen_ds, keys, a->scale, p->lse + panel * TILE_COLUMNS, p->delta + panel * TILE_COLUMNS);
    for (uint64_t column = 0; column < wide; column += TILE_COLUMNS)
        vtile_product(TILE_COLUMNS, (vtile_operand){.p = seen_ds, .row = 1, .column = TILE_COLUMNS},
                      (vtile_operand){.p = k + column, .row = wide}, (vtile_sum){1, keys},
                      p->dq + panel * TILE_COLUMNS * wide + column, wide, VTILE_ADD, NULL);
}

/* rows[keys, wide] += s^T x over panels first .. end - 1, for keys of the block from row on. */
static void key_product(const plan *p, const float *s, const float *x, uint64_t row, uint64_t keys, uint64_t first,
                        uint64_t end, float *rows)
{
    for (uint64_t column = 0; column < p->wide; column += TILE_COLUMNS)
        vtile_product(keys,
                      (vtile_operand){.p = s + (first * ATTENTION_KEYS + row) * TILE_COLUMNS,
                                      .row = TILE_COLUMNS,
                                      .column = 1,
                                      .segment = ATTENTION_KEYS * TILE_COLUMNS},
                      (vtile_operand){.p = x + first * TILE_COLUMNS * p->wide + column,
                                      .row = p->wide,
                                      .segment = TILE_COLUMNS * p->wide},
                      (vtile_sum){end - first, TILE_COLUMNS}, rows + column, p->wide, VTILE_ADD, NULL);
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

/* Q and dO of a tile of count queries, as rows and transposed, its lse and delta; dQ begins at zero. */
static void load_tile(const lzt_attention_grad *g, const plan *p, uint64_t token, uint64_t count, uint64_t kv_head)
{
    const lzt_attention *a = &g->fwd;
    uint64_t d = a->head_dim, panels = (count + TILE_COLUMNS - 1) / TILE_COLUMNS * p->group;
    for (uint64_t panel = 0; panel < panels; panel++) {
        uint64_t first = panel / p->group * TILE_COLUMNS, head = kv_head * p->group + panel % p->group;
        uint64_t used = attention_left(count, first), rows = panel * TILE_COLUMNS * p->wide;
        attention_panel(a->q, a->bf16, a->ldq, token + first, head * d, used, d, p->q + rows, p->wide,
                        p->qt + panel * d * TILE_COLUMNS);
        attention_panel(g->d_o, a->bf16, a->ldo, token + first, head * d, used, d, p->d_o + rows, p->wide,
                        p->dot + panel * d * TILE_COLUMNS);
        float *lse = p->lse + panel * TILE_COLUMNS, *delta_of = p->delta + panel * TILE_COLUMNS;
        for (uint64_t r = 0; r < TILE_COLUMNS; r++) {
            /* an unused column has P = 1, which meets rows of zeros */
            lse[r] = r < used ? a->lse[head * a->capacity + token + first + r] : 0;
            delta_of[r] = r < used ? g->delta[head * a->capacity + token + first + r] : 0;
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
            if (see.begin < see.end) panel_step(a, p, panel, query, unit->key_begin, block, block_end, see);
        }
        block_keys(a, p, begin, count, unit->key_begin, block, block_end);
    }
}

static void run(const lzt_attention_grad *g, const lzt_attention_unit *unit, bool first, float *scratch)
{
    const lzt_attention *a = &g->fwd;
    uint64_t d = a->head_dim, kv_column = unit->kv_head * d, key_token = unit->document + unit->key_begin;
    plan p = cut_scratch(a->tile, a->q_heads / a->kv_heads, d, scratch);
    assert(unit->count <= ATTENTION_CHUNK && unit->key_count <= ATTENTION_CHUNK);
    attention_gather(a->k, a->bf16, a->ldk, key_token, kv_column, unit->key_count, d, p.k, p.wide);
    attention_gather(a->v, a->bf16, a->ldv, key_token, kv_column, unit->key_count, d, p.v, p.wide);
    memset(p.dk, 0, unit->key_count * p.wide * sizeof(float));
    memset(p.dv, 0, unit->key_count * p.wide * sizeof(float));
    for (uint64_t done = 0; done < unit->count; done += a->tile) {
        uint64_t count = unit->count - done < a->tile ? unit->count - done : a->tile, begin = unit->begin + done;
        load_tile(g, &p, unit->document + begin, count, unit->kv_head);
        tile_step(a, &p, unit, begin, count);
        attention_give_tile(g, p.dq, p.wide, p.group, unit->document + begin, count, unit->kv_head, first);
    }
    attention_give_keys(g, p.dk, p.dv, p.wide, key_token, unit->key_count, kv_column, first);
}

static void round_row(const float *src, uint16_t *dst, uint64_t count)
{
    attention_put_row(dst, true, 0, src, count);
}

const lzt_attention_bwd_code ISA(lzt__attention_bwd_code) = {
    .columns = TILE_COLUMNS,
    .scratch_floats = scratch_floats,
    .run = run,
};

const lzt_attention_row_code ISA(lzt__attention_row_code) = {.delta = delta, .round_row = round_row};
