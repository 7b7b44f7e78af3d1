/* The surrogate of the real step, solved exactly. See lazytrain/step_plan.h for what it is.
 *
 * Layers alike form a class: only how many of a class keep their internals, or their weights, shows in the sums. What
 * internals save is compute time, what weights save is uploads, and both hold device bytes. So each is a knapsack of
 * its own, of which the Pareto set (fewest bytes for what they save) is made class by class; a minimum under caps takes
 * one label of each. What is left of the device goes to boundaries, which cost nothing there; of the others, r are made
 * again, the cheapest first, and the rest goes to the host. The value is convex in r: the compute that r adds is a
 * convex sum (costs in rising order), the traffic it removes is linear, and a maximum of convex functions is convex. */
#include "solve/step_search.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Of every unit of traffic, this share counts in a rank: among equals, less runs. */
enum { TRAFFIC_SHARE = 50, LABELS_MAX = 1 << 20 };

typedef struct label {
    uint64_t bytes, saved_ps;
    uint16_t kept[LZT__STEP_CLASSES];
} label;

typedef struct pareto {
    label *label; /* by rising bytes, and rising savings */
    uint32_t count;
} pareto;

struct lzt__step_surrogate {
    const lzt_step_model *model;
    pareto internals, weights;
    uint64_t *recompute_ps; /* [layer_count] what the cheapest r inner boundaries cost, for r = 0 .. layer_count - 1 */
    lzt_step_sum nothing;   /* kept: boundary 0 on the device, the others nowhere */
};

/* ---- classes ---- */

static bool alike(const lzt_step_layer *a, const lzt_step_layer *b)
{
    return a->internals_bytes == b->internals_bytes && a->weight_bytes == b->weight_bytes &&
           a->again_ps == b->again_ps && a->upload_ps == b->upload_ps && a->recompute_ps == b->recompute_ps;
}

/* The last layer is never recomputed for a boundary behind it; that makes no class of its own. */
static bool joins(const lzt_step_model *m, uint64_t l, uint64_t first)
{
    lzt_step_layer a = m->layer[l];
    if (l + 1 == m->layer_count) a.recompute_ps = m->layer[first].recompute_ps;
    return alike(&a, &m->layer[first]);
}

lzt_status lzt__step_classes_create(const lzt_step_model *m, lzt__step_classes *c, lzt_error *err)
{
    uint64_t first[LZT__STEP_CLASSES];
    *c = (lzt__step_classes){.of = calloc(m->layer_count, sizeof *c->of)};
    if (!c->of) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the kinds of layers");
    for (uint64_t l = 0; l < m->layer_count; l++) {
        uint32_t k = 0;
        while (k < c->count && !joins(m, l, first[k])) k++;
        if (k == LZT__STEP_CLASSES) k--; /* more kinds than we tell apart: the last class holds the rest */
        if (k == c->count) first[c->count++] = l;
        c->of[l] = (uint8_t)k;
        c->size[k]++;
    }
    return LZT_OK;
}

void lzt__step_classes_fini(lzt__step_classes *c)
{
    free(c->of);
    *c = (lzt__step_classes){0};
}

/* ---- Pareto sets ---- */

static int by_bytes(const void *a, const void *b)
{
    const label *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return x->saved_ps > y->saved_ps ? -1 : x->saved_ps < y->saved_ps;
}

static void drop_dominated(pareto *p)
{
    uint32_t kept = 0;
    qsort(p->label, p->count, sizeof *p->label, by_bytes);
    for (uint32_t i = 0; i < p->count; i++)
        if (!kept || p->label[i].saved_ps > p->label[kept - 1].saved_ps) p->label[kept++] = p->label[i];
    p->count = kept;
}

/* Adds a class of `size` layers, each of which saves saved_ps for bytes. */
static lzt_status add_class(pareto *p, uint32_t class, uint32_t size, uint64_t bytes, uint64_t saved_ps, lzt_error *err)
{
    uint64_t count = (uint64_t)p->count * (size + 1);
    label *grown = count <= LABELS_MAX ? malloc(count * sizeof *grown) : NULL;
    if (!grown) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for %llu labels", (unsigned long long)count);
    for (uint32_t i = 0, at = 0; i < p->count; i++)
        for (uint32_t k = 0; k <= size; k++, at++) {
            grown[at] = p->label[i];
            grown[at].bytes += k * bytes;
            grown[at].saved_ps += k * saved_ps;
            grown[at].kept[class] = (uint16_t)k;
        }
    free(p->label);
    p->label = grown;
    p->count = (uint32_t)count;
    drop_dominated(p);
    return LZT_OK;
}

/* The most that any layer of a class saves for the fewest bytes: their own, where all are alike; else a bound. */
static lzt_step_layer best_of(const lzt_step_model *m, const lzt__step_classes *c, uint32_t class)
{
    lzt_step_layer best = {.internals_bytes = UINT64_MAX, .weight_bytes = UINT64_MAX};
    for (uint64_t l = 0; l < m->layer_count; l++) {
        const lzt_step_layer *x = &m->layer[l];
        if (c->of[l] != class) continue;
        if (x->again_ps > best.again_ps) best.again_ps = x->again_ps;
        if (x->upload_ps > best.upload_ps) best.upload_ps = x->upload_ps;
        if (x->internals_bytes < best.internals_bytes) best.internals_bytes = x->internals_bytes;
        if (x->weight_bytes < best.weight_bytes) best.weight_bytes = x->weight_bytes;
    }
    return best;
}

static lzt_status make_pareto(const lzt_step_model *m, const lzt__step_classes *c, bool weights, pareto *p,
                              lzt_error *err)
{
    lzt_status status = LZT_OK;
    p->label = calloc(1, sizeof *p->label);
    if (!p->label) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a label");
    p->count = 1;
    for (uint32_t k = 0; k < c->count && !status; k++) {
        lzt_step_layer x = best_of(m, c, k);
        /* not kept: two uploads a micro-batch; kept: one a step */
        uint64_t saved = weights ? (2 * m->micro_batches - 1) * x.upload_ps : m->micro_batches * x.again_ps;
        status = add_class(p, k, c->size[k], weights ? x.weight_bytes : x.internals_bytes, saved, err);
    }
    return status;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static lzt_status make_recompute(lzt__step_surrogate *s, lzt_error *err)
{
    const lzt_step_model *m = s->model;
    s->recompute_ps = calloc(m->layer_count, sizeof *s->recompute_ps);
    if (!s->recompute_ps) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the boundaries' costs");
    for (uint64_t i = 1; i < m->layer_count; i++) s->recompute_ps[i] = m->micro_batches * m->layer[i - 1].recompute_ps;
    qsort(s->recompute_ps + 1, m->layer_count - 1, sizeof *s->recompute_ps, by_value);
    for (uint64_t i = 1; i < m->layer_count; i++) s->recompute_ps[i] += s->recompute_ps[i - 1];
    return LZT_OK;
}

/* The sums of a step that keeps nothing; boundaries are added by the shape. */
static lzt_status sum_nothing(lzt__step_surrogate *s, lzt_error *err)
{
    uint64_t n = s->model->layer_count;
    lzt_tier *boundary = calloc(n + 1, sizeof *boundary);
    lzt_tier *again = calloc(n, sizeof *again);
    bool *none = calloc(n, sizeof *none);
    bool made = boundary && again && none;
    for (uint64_t l = 0; made && l < n; l++) again[l] = LZT_TIER_RECOMPUTE;
    if (made) {
        lzt_step_model_sum(s->model, boundary, again, none, &s->nothing);
        s->nothing.least_bytes[LZT_STEP_DEVICE] -= n * s->model->boundary_bytes;
    }
    free(boundary);
    free(again);
    free(none);
    return made ? LZT_OK : lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for an empty placement");
}

lzt_status lzt__step_surrogate_create(const lzt_step_model *m, const lzt__step_classes *classes,
                                      lzt__step_surrogate **out, lzt_error *err)
{
    lzt__step_surrogate *s = calloc(1, sizeof *s);
    if (!s) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a surrogate");
    s->model = m;
    lzt_status status = make_pareto(m, classes, false, &s->internals, err);
    if (!status) status = make_pareto(m, classes, true, &s->weights, err);
    if (!status) status = make_recompute(s, err);
    if (!status) status = sum_nothing(s, err);
    if (status)
        lzt__step_surrogate_destroy(s);
    else
        *out = s;
    return status;
}

void lzt__step_surrogate_destroy(lzt__step_surrogate *s)
{
    if (!s) return;
    free(s->internals.label);
    free(s->weights.label);
    free(s->recompute_ps);
    free(s);
}

/* ---- minima ---- */

/* A choice of labels, with what is left for boundaries. */
typedef struct choice {
    const lzt__step_surrogate *s;
    const label *internals, *weights;
    uint64_t on_device, rest; /* inner boundaries that stay, and that do not */
    bool first_on_device;
} choice;

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The value when r of the rest are made again, and the others go to the host. */
static uint64_t value_of(const choice *c, uint64_t r, lzt__step_goal goal)
{
    const lzt__step_surrogate *s = c->s;
    const lzt_step_model *m = s->model;
    const uint64_t moved = (c->rest - r) * m->micro_batches, first = c->first_on_device ? 0 : m->micro_batches;
    const uint64_t *f = s->nothing.window_ps[LZT_STEP_FORWARD], *b = s->nothing.window_ps[LZT_STEP_BACKWARD];
    /* of several micro-batches, the uploads that kept weights save in forward are not told apart: no less is saved */
    uint64_t f_h2d = f[LZT_STEP_H2D], b_h2d = b[LZT_STEP_H2D] + (moved + first) * m->boundary_up_ps;
    uint64_t saved = c->weights->saved_ps, in_backward = saved < b_h2d ? saved : b_h2d;
    if (m->micro_batches > 1) in_backward = saved / (2 * m->micro_batches - 1) * m->micro_batches;
    f_h2d -= saved - in_backward;
    b_h2d -= in_backward;
    const uint64_t compute[2] = {f[LZT_STEP_COMPUTE],
                                 b[LZT_STEP_COMPUTE] - c->internals->saved_ps + s->recompute_ps[r]};
    const uint64_t d2h[2] = {f[LZT_STEP_D2H] + moved * m->boundary_down_ps, b[LZT_STEP_D2H]};
    if (goal == LZT__STEP_BOUND) {
        uint64_t before = most(compute[0] + m->edge_ps[LZT_STEP_FORWARD], most(f_h2d, f[LZT_STEP_HOST]));
        uint64_t after = most(compute[1] + m->edge_ps[LZT_STEP_BACKWARD], most(d2h[1], b[LZT_STEP_HOST]));
        uint64_t lanes = most(most(compute[0] + compute[1], f_h2d + b_h2d),
                              most(d2h[0] + d2h[1], f[LZT_STEP_HOST] + b[LZT_STEP_HOST]));
        return most(before + after, lanes);
    }
    uint64_t forward = most(most(compute[0], f_h2d), most(d2h[0], f[LZT_STEP_HOST]));
    uint64_t backward = most(most(compute[1], b_h2d), most(d2h[1], b[LZT_STEP_HOST]));
    return forward + backward + (f_h2d + b_h2d + d2h[0] + d2h[1]) / TRAFFIC_SHARE;
}

/* The least over r in least .. rest, a convex function; *r gets the smallest such. */
static uint64_t best_r(const choice *c, uint64_t least, lzt__step_goal goal, uint64_t *r)
{
    uint64_t low = least, high = c->rest;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (value_of(c, middle, goal) <= value_of(c, middle + 1, goal))
            high = middle;
        else
            low = middle + 1;
    }
    *r = low;
    return value_of(c, low, goal);
}

static void write_shape(const choice *c, uint64_t r, lzt__step_shape *shape)
{
    *shape = (lzt__step_shape){.on_device = (uint32_t)c->on_device,
                               .on_host = (uint32_t)(c->rest - r),
                               .recomputed = (uint32_t)r,
                               .first_on_device = c->first_on_device};
    memcpy(shape->internals, c->internals->kept, sizeof shape->internals);
    memcpy(shape->weights, c->weights->kept, sizeof shape->weights);
}

/* Boundaries under what the labels leave of the device. False: the head's moment does not fit. */
static bool settle(const uint64_t cap_bytes[LZT_STEP_MEMORY_COUNT], bool first_on_device, choice *c, uint64_t *least_r)
{
    const lzt_step_model *m = c->s->model;
    uint64_t inner = m->layer_count - 1, used = c->s->nothing.least_bytes[LZT_STEP_DEVICE];
    used += c->internals->bytes + c->weights->bytes + (first_on_device ? m->boundary_bytes : 0);
    uint64_t host = c->s->nothing.least_bytes[LZT_STEP_RAM];
    if (used > cap_bytes[LZT_STEP_DEVICE] || host > cap_bytes[LZT_STEP_RAM]) return false;
    uint64_t slots = m->boundary_bytes ? (cap_bytes[LZT_STEP_DEVICE] - used) / m->boundary_bytes : inner;
    uint64_t host_slots = m->boundary_bytes ? (cap_bytes[LZT_STEP_RAM] - host) / m->boundary_bytes : inner;
    c->first_on_device = first_on_device;
    c->on_device = slots < inner ? slots : inner;
    c->rest = inner - c->on_device;
    *least_r = host_slots < c->rest ? c->rest - host_slots : 0;
    return true;
}

uint64_t lzt__step_minimum(const lzt__step_surrogate *s, const uint64_t cap_bytes[LZT_STEP_MEMORY_COUNT],
                           lzt__step_goal goal, uint32_t thin, lzt__step_shape *shape)
{
    uint64_t best = UINT64_MAX, best_bytes = UINT64_MAX, r, least_r;
    uint32_t by_i = thin > 1 ? (s->internals.count + thin - 1) / thin : 1;
    uint32_t by_w = thin > 1 ? (s->weights.count + thin / 4 - 1) / (thin / 4) : 1;
    for (uint32_t i = 0; i < s->internals.count; i += by_i)
        for (uint32_t w = 0; w < s->weights.count; w += by_w)
            for (int first = 0; first < 2; first++) {
                choice c = {.s = s, .internals = &s->internals.label[i], .weights = &s->weights.label[w]};
                if (!settle(cap_bytes, first, &c, &least_r)) continue;
                uint64_t value = best_r(&c, least_r, goal, &r);
                uint64_t bytes =
                    c.internals->bytes + c.weights->bytes + (c.on_device + (uint64_t)first) * s->model->boundary_bytes;
                if (value > best || (value == best && bytes >= best_bytes)) continue;
                best = value;
                best_bytes = bytes;
                if (shape) write_shape(&c, r, shape);
            }
    return best;
}

uint64_t lzt__step_everything(const lzt_step_model *m)
{
    uint64_t bytes = m->floor_bytes[LZT_STEP_DEVICE] + m->layer_count * m->boundary_bytes;
    for (uint64_t l = 0; l < m->layer_count; l++) bytes += m->layer[l].internals_bytes + m->layer[l].weight_bytes;
    return bytes;
}

uint64_t lzt_step_surrogate(const lzt_step_model *model, const uint64_t cap_bytes[LZT_STEP_MEMORY_COUNT])
{
    lzt__step_classes classes;
    lzt__step_surrogate *s = NULL;
    lzt_error ignored;
    uint64_t value = 0;
    const uint64_t cap[LZT_STEP_MEMORY_COUNT] = {cap_bytes[0] ? cap_bytes[0] : UINT64_MAX / 2,
                                                 cap_bytes[1] ? cap_bytes[1] : UINT64_MAX / 2};
    if (lzt__step_classes_create(model, &classes, &ignored)) return 0; /* 0 is a bound, if a poor one */
    if (!lzt__step_surrogate_create(model, &classes, &s, &ignored))
        value = lzt__step_minimum(s, cap, LZT__STEP_BOUND, 1, NULL);
    lzt__step_surrogate_destroy(s);
    lzt__step_classes_fini(&classes);
    return value;
}
