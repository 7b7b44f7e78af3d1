/* The tiles of attention forward in BF16, by the BF16 dot product: attention_isa.c with pairs (vpair.h).
 *
 * Scores are F32 sums of exact products. Probabilities are rounded to BF16 for their product with V, which halves the
 * work; their sum, and so lse, is that of the F32 values. Keys are taken two at a time, counted from the document's
 * beginning: a pair that a query sees half of adds an exact zero for the other.
 *
 * Compiled once, for AVX512-BF16; head_dim is even.
 */
#include "kern/cpu/attention.h"

#include "kern/cpu/attention_tile.h"
#include "kern/cpu/vpair.h"

#include <assert.h>

/* Where the pieces of the scratch lie. */
typedef struct plan {
    uint64_t panels, panel_pairs, panel_floats; /* panels of the tile; sizes of a Q^T and an O^T panel */
    uint32_t *qt;                               /* [panels][D / 2][TILE_COLUMNS] */
    float *ot;                                  /* [panels][D][TILE_COLUMNS] */
    uint32_t *k;                                /* [ATTENTION_KEYS][D / 2] */
    uint32_t *v;                                /* [ATTENTION_KEYS / 2][D] */
    float *s;                                   /* [ATTENTION_KEYS][TILE_COLUMNS] */
    uint32_t *p;                                /* [ATTENTION_KEYS / 2][TILE_COLUMNS] */
    float *rows;                                /* [TILE_COLUMNS][D] */
    attention_running *state;                   /* [panels] */
} plan;

static plan cut_scratch(uint64_t tile, uint64_t group, uint64_t d, float *scratch)
{
    plan p = {
        .panels = tile / TILE_COLUMNS * group, .panel_pairs = d / 2 * TILE_COLUMNS, .panel_floats = d * TILE_COLUMNS};
    p.qt = (uint32_t *)scratch;
    p.ot = scratch + p.panels * p.panel_pairs;
    p.state = (attention_running *)(p.ot + p.panels * p.panel_floats);
    p.s = (float *)(p.state + p.panels);
    p.p = (uint32_t *)(p.s + ATTENTION_KEYS * TILE_COLUMNS);
    p.k = p.p + ATTENTION_KEYS / 2 * TILE_COLUMNS;
    p.v = p.k + ATTENTION_KEYS * (d / 2);
    p.rows = (float *)(p.v + ATTENTION_KEYS / 2 * d);
    return p;
}

static uint64_t scratch_floats(uint64_t tile, uint64_t group, uint64_t d)
{
    plan p = cut_scratch(tile, group, d, NULL);
    return lzt__attention_round_up((uintptr_t)(p.rows + TILE_COLUMNS * d) / sizeof(float), 16);
}

/* The panel's part of a block: e^(scale (S - m)) of the keys as pairs, and the factor for what was summed before. */
static void soften(const float *s, uint32_t *pairs, uint64_t keys, float scale, attention_running *state, vf factor[2])
{
    for (int half = 0; half < 2; half++) {
        const float *column = s + half * VW;
        vf old = vload(state->max + half * VW), top = old;
        for (uint64_t j = 0; j < keys; j++) top = vmax_fast(top, vload(column + j * TILE_COLUMNS));
        /* no key seen yet: any finite maximum will do, every p is zero */
        vf shift = vselect(top == -INFINITY, vset1(0), top), sum = vset1(0);
        for (uint64_t j = 0; j < keys; j += 2) {
            vf p0 = vexp_fast((vload(column + j * TILE_COLUMNS) - shift) * scale), p1 = vset1(0);
            if (j + 1 < keys) p1 = vexp_fast((vload(column + (j + 1) * TILE_COLUMNS) - shift) * scale);
            sum += p0 + p1;
            vpair_store(pairs + j / 2 * TILE_COLUMNS + half * VW, vpair_interleave(vpair_round(p0, p1)));
        }
        factor[half] = vexp_fast((old - shift) * scale);
        vstore(state->sum + half * VW, vfma(vload(state->sum + half * VW), factor[half], sum));
        vstore(state->max + half * VW, top);
    }
}

/* One panel against keys first .. end-1 of the block that begins at block_begin; first - block_begin is even. */
static void panel_step(const lzt_attention *a, const plan *p, uint64_t panel, uint64_t query, uint64_t block_begin,
                       uint64_t first, uint64_t end)
{
    uint64_t d = a->head_dim, skip = first - block_begin, keys = end - first;
    vtile_product(keys, (vtile_operand){.p = p->k + skip * (d / 2), .row = d / 2, .column = 1},
                  (vtile_operand){.p = p->qt + panel * p->panel_pairs, .row = TILE_COLUMNS}, (vtile_sum){1, d / 2},
                  p->s, TILE_COLUMNS, VTILE_STORE, NULL);
    attention_mask(p->s, query, first, end, a->window, -INFINITY);
    vf factor[2];
    soften(p->s, p->p, keys, a->scale, &p->state[panel], factor);
    vtile_product(d, (vtile_operand){.p = p->v + skip / 2 * d, .row = 1, .column = d},
                  (vtile_operand){.p = p->p, .row = TILE_COLUMNS}, (vtile_sum){1, (keys + 1) / 2},
                  p->ot + panel * p->panel_floats, TILE_COLUMNS, VTILE_SCALE_ADD, factor);
}

/* Q^T of the unit's panels; outputs and states at their beginnings. */
static void load_panels(const lzt_attention *a, const plan *p, const lzt_attention_unit *unit, uint64_t panels)
{
    uint64_t d = a->head_dim, group = a->q_heads / a->kv_heads;
    for (uint64_t panel = 0; panel < panels; panel++) {
        uint64_t token = panel / group * TILE_COLUMNS, head = unit->kv_head * group + panel % group;
        uint64_t used = attention_left(unit->count, token);
        uint32_t *rows = (uint32_t *)p->rows;
        vpair_gather((const uint16_t *)a->q + (unit->document + unit->begin + token) * a->ldq + head * d, a->ldq, used,
                     d, rows, d / 2);
        memset(rows + used * (d / 2), 0, (TILE_COLUMNS - used) * (d / 2) * sizeof *rows);
        vtile_transpose((const float *)rows, d / 2, (float *)(p->qt + panel * p->panel_pairs), TILE_COLUMNS,
                        TILE_COLUMNS, d / 2);
        memset(p->ot + panel * p->panel_floats, 0, p->panel_floats * sizeof(float));
        attention_begin(&p->state[panel]);
    }
}

static void run(const lzt_attention *a, const lzt_attention_unit *unit, float *scratch)
{
    uint64_t d = a->head_dim, group = a->q_heads / a->kv_heads, doc = unit->document;
    uint64_t panels = (unit->count + TILE_COLUMNS - 1) / TILE_COLUMNS * group;
    plan p = cut_scratch(a->tile, group, d, scratch);
    assert(unit->count >= 1 && panels <= p.panels && d % 2 == 0);
    load_panels(a, &p, unit, panels);
    uint64_t last = unit->begin + unit->count;
    uint64_t block = lzt__attention_first_key(unit->begin, a->window) / ATTENTION_KEYS * ATTENTION_KEYS;
    for (; block < last; block += ATTENTION_KEYS) {
        uint64_t block_end = block + ATTENTION_KEYS < last ? block + ATTENTION_KEYS : last;
        const uint16_t *k = (const uint16_t *)a->k + (doc + block) * a->ldk + unit->kv_head * d;
        const uint16_t *v = (const uint16_t *)a->v + (doc + block) * a->ldv + unit->kv_head * d;
        vpair_gather(k, a->ldk, block_end - block, d, p.k, d / 2);
        vpair_interleave_rows(v, a->ldv, block_end - block, d, p.v, d);
        for (uint64_t panel = 0; panel < panels; panel++) {
            uint64_t query = unit->begin + panel / group * TILE_COLUMNS;
            attention_range see = attention_seen(query, attention_left(last, query), a->window, block, block_end);
            if (see.begin < see.end) panel_step(a, &p, panel, query, block, see.begin & ~UINT64_C(1), see.end);
        }
    }
    for (uint64_t panel = 0; panel < panels; panel++) {
        uint64_t token = panel / group * TILE_COLUMNS, head = unit->kv_head * group + panel % group;
        attention_finish(a, p.ot + panel * p.panel_floats, p.rows, &p.state[panel], head, doc + unit->begin + token,
                         attention_left(unit->count, token));
    }
}

const lzt_attention_code lzt__attention_code_bf16 = {
    .columns = TILE_COLUMNS,
    .scratch_floats = scratch_floats,
    .run = run,
};
