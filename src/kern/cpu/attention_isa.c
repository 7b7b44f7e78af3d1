/* The tiles of attention forward: see attention.h for the layout.
 *
 * Flash attention (Dao et al. 2022) with the online softmax of Milakov and Gimelshein (2018): for each block of keys
 *
 *     m' = max(m, max S)   p = e^(scale (S - m'))   l' = l e^(scale (m - m')) + sum p   o' = o e^(scale (m - m')) + p V
 *
 * m is kept in units of S, so that S - m' is exact where it matters. Sums start at zero in each block and are then
 * added to the running ones, which also keeps them short. A key that a query does not see has the score -inf and adds
 * an exact zero; which keys of other queries share its panel therefore does not show in its result.
 */
#include "kern/cpu/attention.h"

#include "kern/cpu/attention_tile.h"
#include "base/isa_level.h"

#include <assert.h>

/* Where the pieces of the scratch lie, in floats. */
typedef struct plan {
    uint64_t panels, panel_floats; /* panels of the tile; floats of a Q^T or O^T panel */
    float *qt, *ot;                /* [panels][D][TILE_COLUMNS] */
    float *k, *v;                  /* [ATTENTION_KEYS][D] */
    float *s;                      /* [ATTENTION_KEYS][TILE_COLUMNS] */
    float *rows;                   /* [TILE_COLUMNS][D] */
    attention_running *state;      /* [panels] */
} plan;

static uint64_t scratch_floats(uint64_t tile, uint64_t group, uint64_t head_dim)
{
    uint64_t panels = tile / TILE_COLUMNS * group;
    uint64_t floats = 2 * panels * head_dim * TILE_COLUMNS + 2 * ATTENTION_KEYS * head_dim +
                      ATTENTION_KEYS * TILE_COLUMNS + TILE_COLUMNS * head_dim + panels * 2 * TILE_COLUMNS;
    return lzt__attention_round_up(floats, 16);
}

static plan cut_scratch(uint64_t panels, uint64_t d, float *scratch)
{
    plan p = {.panels = panels, .panel_floats = d * TILE_COLUMNS};
    p.qt = scratch;
    p.ot = p.qt + p.panels * p.panel_floats;
    p.state = (attention_running *)(p.ot + p.panels * p.panel_floats);
    p.s = (float *)(p.state + p.panels);
    p.k = p.s + ATTENTION_KEYS * TILE_COLUMNS;
    p.v = p.k + ATTENTION_KEYS * d;
    p.rows = p.v + ATTENTION_KEYS * d;
    return p;
}

/* The panel's part of a block: e^(scale (S - m)) in place of S, and the factor for what was summed before. */
static void soften(float *s, uint64_t keys, float scale, attention_running *state, vf factor[2])
{
    for (int half = 0; half < 2; half++) {
        float *column = s + half * VW;
        vf old = vload(state->max + half * VW), top = old;
        for (uint64_t j = 0; j < keys; j++) top = vmax_fast(top, vload(column + j * TILE_COLUMNS));
        /* no key seen yet: any finite maximum will do, every p is zero */
        vf shift = vselect(top == -INFINITY, vset1(0), top);
        vf sum = vset1(0);
        for (uint64_t j = 0; j < keys; j++) {
            vf p = vexp_fast((vload(column + j * TILE_COLUMNS) - shift) * scale);
            sum += p;
            vstore(column + j * TILE_COLUMNS, p);
        }
        factor[half] = vexp_fast((old - shift) * scale);
        vstore(state->sum + half * VW, vfma(vload(state->sum + half * VW), factor[half], sum));
        vstore(state->max + half * VW, top);
    }
}

/* One panel against keys first .. end-1 of the block that begins at block_begin. masked: its columns are the queries
 * from query on, which do not all see the same keys. */
static void panel_step(const lzt_attention *a, const plan *p, uint64_t panel, bool masked, uint64_t query,
                       uint64_t block_begin, uint64_t first, uint64_t end)
{
    uint64_t d = a->head_dim, skip = first - block_begin, keys = end - first;
    float *qt = p->qt + panel * p->panel_floats, *ot = p->ot + panel * p->panel_floats;
    vtile_product(keys, (vtile_operand){.p = p->k + skip * d, .row = d, .column = 1},
                  (vtile_operand){.p = qt, .row = TILE_COLUMNS}, (vtile_sum){1, d}, p->s, TILE_COLUMNS, VTILE_STORE,
                  NULL);
    if (masked) attention_mask(p->s, query, first, end, a->window, -INFINITY);
    vf factor[2];
    soften(p->s, keys, a->scale, &p->state[panel], factor);
    vtile_product(d, (vtile_operand){.p = p->v + skip * d, .row = 1, .column = d},
                  (vtile_operand){.p = p->s, .row = TILE_COLUMNS}, (vtile_sum){1, keys}, ot, TILE_COLUMNS,
                  VTILE_SCALE_ADD, factor);
}

static void run(const lzt_attention *a, const lzt_attention_unit *unit, float *scratch)
{
    uint64_t d = a->head_dim, group = a->q_heads / a->kv_heads;
    uint64_t across = (unit->count + TILE_COLUMNS - 1) / TILE_COLUMNS, doc = unit->document;
    plan p = cut_scratch(a->tile / TILE_COLUMNS * group, d, scratch);
    assert(unit->count >= 1 && across * group <= p.panels);
    for (uint64_t panel = 0; panel < across * group; panel++) {
        uint64_t token = panel / group * TILE_COLUMNS, head = unit->kv_head * group + panel % group;
        attention_panel(a->q, a->bf16, a->ldq, doc + unit->begin + token, head * d, attention_left(unit->count, token),
                        d, p.rows, d, p.qt + panel * p.panel_floats);
        memset(p.ot + panel * p.panel_floats, 0, p.panel_floats * sizeof(float));
        attention_begin(&p.state[panel]);
    }
    uint64_t last = unit->begin + unit->count;
    uint64_t block = lzt__attention_first_key(unit->begin, a->window) / ATTENTION_KEYS * ATTENTION_KEYS;
    for (; block < last; block += ATTENTION_KEYS) {
        uint64_t block_end = block + ATTENTION_KEYS < last ? block + ATTENTION_KEYS : last;
        attention_gather(a->k, a->bf16, a->ldk, doc + block, unit->kv_head * d, block_end - block, d, p.k, d);
        attention_gather(a->v, a->bf16, a->ldv, doc + block, unit->kv_head * d, block_end - block, d, p.v, d);
        for (uint64_t panel = 0; panel < across * group; panel++) {
            uint64_t query = unit->begin + panel / group * TILE_COLUMNS;
            attention_range see = attention_seen(query, attention_left(last, query), a->window, block, block_end);
            if (see.begin < see.end) panel_step(a, &p, panel, true, query, block, see.begin, see.end);
        }
    }
    for (uint64_t panel = 0; panel < across * group; panel++) {
        uint64_t token = panel / group * TILE_COLUMNS, head = unit->kv_head * group + panel % group;
        attention_finish(a, p.ot + panel * p.panel_floats, p.rows, &p.state[panel], head, doc + unit->begin + token,
                         attention_left(unit->count, token));
    }
}

/* A panel holds the heads of the group, all of which see the same keys. A lane does what it does in run, where keys
 * that its query does not see add exact zeros; blocks of keys are the same, so the bits are. */
static void run_one(const lzt_attention *a, const lzt_attention_unit *unit, float *scratch)
{
    uint64_t d = a->head_dim, group = a->q_heads / a->kv_heads, last = unit->begin + 1;
    uint64_t panels = lzt__attention_group_panels(group, TILE_COLUMNS);
    uint64_t first = lzt__attention_first_key(unit->begin, a->window);
    plan p = cut_scratch(panels, d, scratch);
    for (uint64_t panel = 0; panel < panels; panel++) {
        uint64_t head = unit->kv_head * group + panel * TILE_COLUMNS;
        attention_panel(a->q, a->bf16, d, 0, unit->document * a->ldq + head * d,
                        attention_left(group, panel * TILE_COLUMNS), d, p.rows, d, p.qt + panel * p.panel_floats);
        memset(p.ot + panel * p.panel_floats, 0, p.panel_floats * sizeof(float));
        attention_begin(&p.state[panel]);
    }
    for (uint64_t block = first / ATTENTION_KEYS * ATTENTION_KEYS; block < last; block += ATTENTION_KEYS) {
        uint64_t end = block + ATTENTION_KEYS < last ? block + ATTENTION_KEYS : last;
        uint64_t begin = first > block ? first : block, skip = (begin - block) * d;
        attention_gather(a->k, a->bf16, a->ldk, begin, unit->kv_head * d, end - begin, d, p.k + skip, d);
        attention_gather(a->v, a->bf16, a->ldv, begin, unit->kv_head * d, end - begin, d, p.v + skip, d);
        for (uint64_t panel = 0; panel < panels; panel++)
            panel_step(a, &p, panel, false, unit->begin, block, begin, end);
    }
    for (uint64_t panel = 0; panel < panels; panel++) {
        uint64_t head = unit->kv_head * group + panel * TILE_COLUMNS;
        attention_normalise(p.ot + panel * p.panel_floats, p.rows, &p.state[panel], d);
        for (uint64_t r = 0; r < attention_left(group, panel * TILE_COLUMNS); r++)
            attention_put_row(a->o, a->bf16, unit->document * a->ldo + (head + r) * d, p.rows + r * d, d);
    }
}

const lzt_attention_code ISA(lzt__attention_code) = {
    .columns = TILE_COLUMNS,
    .scratch_floats = scratch_floats,
    .run = run,
    .run_one = run_one,
};
