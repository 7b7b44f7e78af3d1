/* The surrogate of the real step, and bounds of it. See lazytrain/step_plan.h for what it is.
 *
 * Layers alike form a class: only how many of a class keep their internals, or their weights, shows in the sums. What
 * internals save is compute time, what weights save is uploads, and both hold device bytes. So each is a knapsack of
 * its own, of which the Pareto set (fewest bytes for what they save) is made class by class; a minimum under caps takes
 * one label of each. What is left of the device goes to boundaries, which cost nothing there; of the others, r are made
 * again, the cheapest first, and the rest goes to the host. The value is convex in r: the compute that r adds is a
 * convex sum (costs in rising order), the traffic it removes is linear, and a maximum of convex functions is convex.
 *
 * Of the layers whose internals do not stay, some may send them to the host: that saves the same compute, holds host
 * bytes, and adds to both links. Adding up whole layers beside r is no longer convex, so the bound relaxes it: compute
 * saved is a real number, and each link and the host's memory is charged the least that any layers cost it for that
 * much. These charges are convex, so the relaxation is solved exactly. It is below every placement: by less than a
 * layer's forward where kept layers are told apart, and by nothing where the host has no room for internals.
 *
 * What leaves in forward must have left by the loss, but for what device memory holds then; see crossed(). */
#include "solve/step_search.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of every unit of traffic, this share counts in a rank: among equals, less runs. */
enum { TRAFFIC_SHARE = 50, LABELS_MAX = 1 << 20 };

/* Up to so many combinations of kept layers are told apart for a bound; and a bound looks at the loss's moment for so
 * many. */
enum { TOLD_APART_MAX = 4096, MOMENTS_MAX = 8192 };

/* What internals on the host cost: time on each link, and the host's bytes. */
enum { BY_UP, BY_DOWN, BY_BYTES, COSTS };

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
    pareto told_apart; /* internals, none dropped; none at all: too many */
    uint32_t class_count, size[LZT__STEP_CLASSES];
    uint64_t saved_ps[LZT__STEP_CLASSES];        /* of a layer: the forward that its internals save */
    uint64_t weight_saved_ps[LZT__STEP_CLASSES]; /* and the uploads that kept weights save */
    uint64_t cost[COSTS][LZT__STEP_CLASSES];     /* of a layer: what they take on the host */
    uint8_t order[COSTS][LZT__STEP_CLASSES];     /* classes, those first that save most for each cost */
    uint64_t *recompute_ps; /* [layer_count] what the cheapest r inner boundaries cost, for r = 0 .. layer_count - 1 */
    lzt_step_sum nothing;   /* kept: boundary 0 on the device, the others nowhere */
};

/* ---- classes ---- */

static bool alike(const lzt_step_layer *a, const lzt_step_layer *b)
{
    return a->internals_bytes == b->internals_bytes && a->weight_bytes == b->weight_bytes &&
           a->again_ps == b->again_ps && a->upload_ps == b->upload_ps && a->recompute_ps == b->recompute_ps &&
           a->internals_down_ps == b->internals_down_ps && a->internals_up_ps == b->internals_up_ps;
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
static lzt_status add_class(pareto *p, uint32_t class, uint32_t size, uint64_t bytes, uint64_t saved_ps, bool drop,
                            lzt_error *err)
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
    if (drop) drop_dominated(p);
    return LZT_OK;
}

/* The most that any layer of a class saves for the fewest bytes: their own, where all are alike; else a bound. */
static lzt_step_layer best_of(const lzt_step_model *m, const lzt__step_classes *c, uint32_t class)
{
    lzt_step_layer best = {.internals_bytes = UINT64_MAX,
                           .weight_bytes = UINT64_MAX,
                           .internals_down_ps = UINT64_MAX,
                           .internals_up_ps = UINT64_MAX};
    for (uint64_t l = 0; l < m->layer_count; l++) {
        const lzt_step_layer *x = &m->layer[l];
        if (c->of[l] != class) continue;
        if (x->again_ps > best.again_ps) best.again_ps = x->again_ps;
        if (x->upload_ps > best.upload_ps) best.upload_ps = x->upload_ps;
        if (x->internals_bytes < best.internals_bytes) best.internals_bytes = x->internals_bytes;
        if (x->weight_bytes < best.weight_bytes) best.weight_bytes = x->weight_bytes;
        if (x->internals_down_ps < best.internals_down_ps) best.internals_down_ps = x->internals_down_ps;
        if (x->internals_up_ps < best.internals_up_ps) best.internals_up_ps = x->internals_up_ps;
    }
    return best;
}

/* Not kept: two uploads a micro-batch; kept: one a step. */
static uint64_t weights_save(const lzt_step_model *m, const lzt_step_layer *x)
{
    return (2 * m->micro_batches - 1) * x->upload_ps;
}

static lzt_status make_pareto(const lzt_step_model *m, const lzt__step_classes *c, bool weights, bool drop, pareto *p,
                              lzt_error *err)
{
    lzt_status status = LZT_OK;
    p->label = calloc(1, sizeof *p->label);
    if (!p->label) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a label");
    p->count = 1;
    for (uint32_t k = 0; k < c->count && !status; k++) {
        lzt_step_layer x = best_of(m, c, k);
        uint64_t saved = weights ? weights_save(m, &x) : m->micro_batches * x.again_ps;
        status = add_class(p, k, c->size[k], weights ? x.weight_bytes : x.internals_bytes, saved, drop, err);
    }
    return status;
}

static bool are_few(const lzt__step_classes *c)
{
    uint64_t combinations = 1;
    for (uint32_t k = 0; k < c->count && combinations <= TOLD_APART_MAX; k++) combinations *= c->size[k] + 1;
    return combinations <= TOLD_APART_MAX;
}

/* Classes in the order of what they save for each cost; an insertion sort. */
static void order_classes(lzt__step_surrogate *s)
{
    for (int by = 0; by < COSTS; by++)
        for (uint32_t k = 0; k < s->class_count; k++) {
            uint32_t at = k;
            for (; at; at--) {
                uint32_t before = s->order[by][at - 1];
                double a = (double)s->cost[by][before] * (double)s->saved_ps[k];
                double b = (double)s->cost[by][k] * (double)s->saved_ps[before];
                if (a <= b) break;
                s->order[by][at] = (uint8_t)before;
            }
            s->order[by][at] = (uint8_t)k;
        }
}

static void make_hosted(const lzt__step_classes *c, lzt__step_surrogate *s)
{
    const uint64_t times = s->model->micro_batches;
    s->class_count = c->count;
    for (uint32_t k = 0; k < c->count; k++) {
        lzt_step_layer x = best_of(s->model, c, k);
        s->size[k] = c->size[k];
        s->saved_ps[k] = times * x.again_ps;
        s->weight_saved_ps[k] = weights_save(s->model, &x);
        s->cost[BY_UP][k] = times * x.internals_up_ps;
        s->cost[BY_DOWN][k] = times * x.internals_down_ps;
        s->cost[BY_BYTES][k] = x.internals_bytes;
    }
    order_classes(s);
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
    make_hosted(classes, s);
    lzt_status status = make_pareto(m, classes, false, true, &s->internals, err);
    if (!status) status = make_pareto(m, classes, true, true, &s->weights, err);
    if (!status && are_few(classes)) status = make_pareto(m, classes, false, false, &s->told_apart, err);
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
    free(s->told_apart.label);
    free(s->recompute_ps);
    free(s);
}

/* ---- a choice of labels ---- */

/* A choice of labels, with what is left for boundaries. */
typedef struct choice {
    const lzt__step_surrogate *s;
    const label *internals, *weights;
    uint64_t on_device, rest;      /* inner boundaries that stay, and that do not */
    uint64_t least_r;              /* of the rest are made again at least, the host holds no more */
    uint64_t device_cap, host_cap; /* in bytes */
    bool first_on_device;
    bool stands_for_others; /* its label of internals, for what holds no less and saves no more */
} choice;

typedef struct windows {
    uint64_t ps[LZT_STEP_WINDOW_COUNT][LZT_STEP_LANE_COUNT];
} windows;

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Each lane's work when r of the rest are made again, and the others go to the host; no internals do. */
static windows work_of(const choice *c, uint64_t r)
{
    const lzt__step_surrogate *s = c->s;
    const lzt_step_model *m = s->model;
    const uint64_t moved = (c->rest - r) * m->micro_batches, first = c->first_on_device ? 0 : m->micro_batches;
    windows w;
    memcpy(w.ps, s->nothing.window_ps, sizeof w.ps);
    uint64_t *f = w.ps[LZT_STEP_FORWARD], *b = w.ps[LZT_STEP_BACKWARD];
    f[LZT_STEP_D2H] += moved * m->boundary_down_ps;
    b[LZT_STEP_H2D] += (moved + first) * m->boundary_up_ps;
    b[LZT_STEP_COMPUTE] += s->recompute_ps[r];
    b[LZT_STEP_COMPUTE] -= c->internals->saved_ps;
    /* of several micro-batches, the uploads that kept weights save in forward are not told apart: no less is saved */
    uint64_t saved = c->weights->saved_ps, in_backward = saved < b[LZT_STEP_H2D] ? saved : b[LZT_STEP_H2D];
    if (m->micro_batches > 1) in_backward = saved / (2 * m->micro_batches - 1) * m->micro_batches;
    f[LZT_STEP_H2D] -= saved - in_backward;
    b[LZT_STEP_H2D] -= in_backward;
    return w;
}

/* What bounds a step, apart: what compute adds up to (hosted internals take from it), what the links do (hosted
 * internals add to it), and the rest. */
typedef struct bounds {
    uint64_t compute, h2d, d2h, rest;
} bounds;

static bounds bounds_of(const lzt_step_model *m, const windows *w)
{
    const uint64_t *f = w->ps[LZT_STEP_FORWARD], *b = w->ps[LZT_STEP_BACKWARD];
    uint64_t before = most(f[LZT_STEP_COMPUTE] + m->edge_ps[LZT_STEP_FORWARD], most(f[LZT_STEP_H2D], f[LZT_STEP_HOST]));
    return (bounds){.compute = most(before + m->edge_ps[LZT_STEP_BACKWARD], f[LZT_STEP_COMPUTE]) + b[LZT_STEP_COMPUTE],
                    .h2d = f[LZT_STEP_H2D] + b[LZT_STEP_H2D],
                    .d2h = f[LZT_STEP_D2H] + b[LZT_STEP_D2H],
                    .rest =
                        most(before + most(b[LZT_STEP_D2H], b[LZT_STEP_HOST]), f[LZT_STEP_HOST] + b[LZT_STEP_HOST])};
}

static uint64_t value_of(const lzt_step_model *m, const windows *w, lzt__step_goal goal)
{
    const uint64_t *f = w->ps[LZT_STEP_FORWARD], *b = w->ps[LZT_STEP_BACKWARD];
    if (goal == LZT__STEP_BOUND) {
        bounds x = bounds_of(m, w);
        return most(most(x.compute, x.rest), most(x.h2d, x.d2h));
    }
    uint64_t longest[LZT_STEP_WINDOW_COUNT] = {0};
    for (int lane = 0; lane < LZT_STEP_LANE_COUNT; lane++) {
        longest[0] = most(longest[0], f[lane]);
        longest[1] = most(longest[1], b[lane]);
    }
    uint64_t traffic = f[LZT_STEP_H2D] + b[LZT_STEP_H2D] + f[LZT_STEP_D2H] + b[LZT_STEP_D2H];
    return longest[0] + longest[1] + traffic / TRAFFIC_SHARE;
}

/* ---- internals on the host ---- */

static uint32_t left_of(const choice *c, uint32_t k)
{
    return c->s->size[k] - c->internals->kept[k];
}

/* Takes `count` of the layers whose internals do not stay to the host, those that save most a byte first. w and taken
 * may be NULL. */
static void move_internals(const choice *c, uint64_t count, windows *w, uint16_t taken[LZT__STEP_CLASSES])
{
    const lzt__step_surrogate *s = c->s;
    for (uint32_t at = 0; at < s->class_count && count; at++) {
        uint32_t k = s->order[BY_BYTES][at];
        uint64_t of = left_of(c, k) < count ? left_of(c, k) : count;
        if (w) {
            w->ps[LZT_STEP_FORWARD][LZT_STEP_D2H] += of * s->cost[BY_DOWN][k];
            w->ps[LZT_STEP_BACKWARD][LZT_STEP_H2D] += of * s->cost[BY_UP][k];
            w->ps[LZT_STEP_BACKWARD][LZT_STEP_COMPUTE] -= of * s->saved_ps[k];
        }
        if (taken) taken[k] = (uint16_t)of;
        count -= of;
    }
}

/* How many of them the host holds beside r boundaries made again, and the others on it. */
static uint64_t most_moved(const choice *c, uint64_t r)
{
    const lzt__step_surrogate *s = c->s;
    uint64_t room = c->host_cap - s->nothing.least_bytes[LZT_STEP_RAM] - (c->rest - r) * s->model->boundary_bytes;
    uint64_t count = 0;
    for (uint32_t at = 0; at < s->class_count; at++) {
        uint32_t k = s->order[BY_BYTES][at];
        uint64_t bytes = s->cost[BY_BYTES][k], of = left_of(c, k);
        if (!s->saved_ps[k]) continue;
        if (bytes && room / bytes < of) return count + room / bytes;
        count += of;
        room -= of * bytes;
    }
    return count;
}

/* For a bound, how many layers of a class may be there. A label that stands for others, too, which may keep other
 * layers: then all. */
static double some_of(const choice *c, uint32_t k)
{
    return c->stands_for_others ? c->s->size[k] : left_of(c, k);
}

/* Whether the host could hold the internals of one layer, with nothing else there. */
static bool has_room(const choice *c)
{
    const lzt__step_surrogate *s = c->s;
    uint64_t room = c->host_cap - s->nothing.least_bytes[LZT_STEP_RAM];
    for (uint32_t k = 0; k < s->class_count; k++)
        if (s->saved_ps[k] && s->cost[BY_BYTES][k] <= room) return true;
    return false;
}

/* The most compute that internals on the host can save within so many bytes of it; a part of a layer counts too. */
static double most_saved(const choice *c, double room)
{
    const lzt__step_surrogate *s = c->s;
    double saved = 0, all = 0;
    for (uint32_t at = 0; at < s->class_count; at++) {
        uint32_t k = s->order[BY_BYTES][at];
        double bytes = some_of(c, k) * (double)s->cost[BY_BYTES][k], ps = some_of(c, k) * (double)s->saved_ps[k];
        all += (double)s->size[k] * (double)s->saved_ps[k];
        if (!(ps > 0)) continue;
        double share = bytes > room ? fmax(room, 0) / bytes : 1;
        saved += ps * share;
        room -= bytes * share;
    }
    all -= (double)c->internals->saved_ps;
    return saved < all ? saved : all;
}

/* Internals go to the host, those first that save most for this link's time, until compute is no longer than the link;
 * a part of a layer counts too. How long the longer of the two then is. */
static double meet(const choice *c, int link, double compute, double copies)
{
    const lzt__step_surrogate *s = c->s;
    for (uint32_t at = 0; at < s->class_count && compute > copies; at++) {
        uint32_t k = s->order[link][at];
        double saved = some_of(c, k) * (double)s->saved_ps[k], cost = some_of(c, k) * (double)s->cost[link][k];
        double gap = compute - copies;
        if (!(saved > 0)) continue;
        if (gap <= saved + cost) return compute - gap * saved / (saved + cost);
        compute -= saved;
        copies += cost;
    }
    return compute > copies ? compute : copies;
}

/* Below the bound of every placement with these labels and r: each link, and the host's memory, gets the cheapest
 * internals for it alone, and parts of a layer. Convex in r, as a least value of a jointly convex function. */
static double relaxed(const choice *c, uint64_t r)
{
    const lzt__step_surrogate *s = c->s;
    windows w = work_of(c, r);
    bounds x = bounds_of(s->model, &w);
    uint64_t held = s->nothing.least_bytes[LZT_STEP_RAM] + (c->rest - r) * s->model->boundary_bytes;
    double saved = has_room(c) ? most_saved(c, (double)(c->host_cap - held)) : 0;
    double least = (double)x.compute - saved;
    double by_up = meet(c, BY_UP, (double)x.compute, (double)x.h2d);
    double by_down = meet(c, BY_DOWN, (double)x.compute, (double)x.d2h);
    if (by_up > least) least = by_up;
    if (by_down > least) least = by_down;
    return (double)x.rest > least ? (double)x.rest : least;
}

/* ---- the loss's moment ---- */

/* The least time on a link for so much saved compute. */
static double least_cost(const choice *c, int link, double saved)
{
    const lzt__step_surrogate *s = c->s;
    double cost = 0;
    for (uint32_t at = 0; at < s->class_count && saved > 0; at++) {
        uint32_t k = s->order[link][at];
        double all = some_of(c, k) * (double)s->saved_ps[k];
        if (!(all > 0)) continue;
        double share = all > saved ? saved / all : 1;
        cost += share * some_of(c, k) * (double)s->cost[link][k];
        saved -= share * all;
    }
    return cost;
}

/* What lies before the loss and after it, and the copies that may cross it while device memory holds their bytes. */
typedef struct moment {
    double before, after;   /* what nothing moves */
    double leaving, coming; /* copies of either window */
    double down, up;        /* their picoseconds a byte */
    double bytes;           /* of the device, for copies that cross, in all micro-batches */
} moment;

/* The least over q in 0 .. bytes, the share of those that still leave: convex and linear in pieces, so at an end of
 * one. */
static double least_split(const moment *m)
{
    const double tries[] = {0, m->bytes, m->down > 0 ? (m->leaving - m->before) / m->down : 0,
                            m->bytes - (m->up > 0 ? (m->coming - m->after) / m->up : 0)};
    double least = INFINITY;
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        double q = fmin(fmax(tries[i], 0), m->bytes);
        double value = fmax(m->before, m->leaving - m->down * q) + fmax(m->after, m->coming - m->up * (m->bytes - q));
        if (value < least) least = value;
    }
    return least;
}

/* Below every placement with this label of internals, r boundaries made again, and so much compute saved by internals
 * on the host, whatever else it keeps.
 *
 * At the loss a byte of the device holds one thing. A boundary or internals that have not left then hold theirs, and so
 * does what has come back for backward; with the floor and what stays they fit the cap. So of the copies that leave,
 * all but those of q bytes are done before the loss, and of those that return, all but q' bytes' come after it,
 * q + q' <= the device's bytes that are left. Boundaries, boundary 0 and weights that stay are counted as if they left
 * and returned: each takes its bytes from what is left, and those bytes would let copies cross for as long as its own
 * takes, the pace being that of the slowest kind. So no more is charged than they take. */
static double crossed(const choice *c, uint64_t r, double saved)
{
    const lzt__step_surrogate *s = c->s;
    const lzt_step_model *m = s->model;
    const uint64_t *f = s->nothing.window_ps[LZT_STEP_FORWARD], *b = s->nothing.window_ps[LZT_STEP_BACKWARD];
    const double times = (double)m->micro_batches, moved = times * (double)(m->layer_count - 1 - r);
    const double gib = 1073741824.0, left = (double)(c->device_cap - s->nothing.least_bytes[LZT_STEP_DEVICE]);
    double compute = (double)(b[LZT_STEP_COMPUTE] + s->recompute_ps[r] - c->internals->saved_ps) - saved;
    double before = (double)most(f[LZT_STEP_COMPUTE] + m->edge_ps[LZT_STEP_FORWARD], f[LZT_STEP_HOST]);
    if (m->micro_batches == 1) before = fmax(before, (double)f[LZT_STEP_H2D]); /* else kept weights make it less */
    moment x = {
        .before = before,
        .after = fmax(compute + (double)m->edge_ps[LZT_STEP_BACKWARD], (double)most(b[LZT_STEP_D2H], b[LZT_STEP_HOST])),
        .leaving = (double)f[LZT_STEP_D2H] + moved * (double)m->boundary_down_ps,
        .coming = (double)b[LZT_STEP_H2D] + (moved + times) * (double)m->boundary_up_ps,
        .down = (double)m->hold[LZT_STEP_FORWARD].ps_per_gib / gib,
        .up = (double)m->hold[LZT_STEP_BACKWARD].ps_per_gib / gib,
        .bytes = times * (left - (double)c->internals->bytes)};
    x.leaving += least_cost(c, BY_DOWN, saved) - (double)m->hold[LZT_STEP_FORWARD].slack_ps;
    x.coming += least_cost(c, BY_UP, saved) - (double)m->hold[LZT_STEP_BACKWARD].slack_ps;
    return least_split(&x);
}

/* How fast that changes with what is saved, at most. */
static double steepest(const lzt__step_surrogate *s)
{
    double most_down = 0, most_up = 0;
    for (uint32_t k = 0; k < s->class_count; k++) {
        if (!s->saved_ps[k]) continue;
        most_down = fmax(most_down, (double)s->cost[BY_DOWN][k] / (double)s->saved_ps[k]);
        most_up = fmax(most_up, (double)s->cost[BY_UP][k] / (double)s->saved_ps[k]);
    }
    return 1 + most_down + most_up;
}

/* The least over what internals on the host save, a convex function, and no more than it: what the last interval may
 * hide is taken off. */
static double least_crossed(const choice *c, uint64_t r)
{
    const lzt__step_surrogate *s = c->s;
    uint64_t inner = s->model->layer_count - 1, there = c->rest > r ? c->rest - r : 0;
    uint64_t room = c->host_cap - s->nothing.least_bytes[LZT_STEP_RAM] - there * s->model->boundary_bytes;
    double low = 0, high = has_room(c) ? fmax(most_saved(c, (double)room), 0) : 0;
    for (int i = 0; i < 60 && high > low; i++) {
        double third = (high - low) / 3;
        if (crossed(c, r, low + third) <= crossed(c, r, high - third))
            high -= third;
        else
            low += third;
    }
    double hidden = (double)(inner + 2) * steepest(s) * (high - low); /* for each r that the search over r compares */
    return fmin(crossed(c, r, low), crossed(c, r, high)) - hidden;
}

/* ---- minima ---- */

/* The least over r in least_r .. high of a convex function. */
static double least_over_r(const choice *c, uint64_t high, double (*value)(const choice *c, uint64_t r))
{
    uint64_t low = c->least_r;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (value(c, middle) <= value(c, middle + 1))
            high = middle;
        else
            low = middle + 1;
    }
    return value(c, low);
}

/* A placement in whole layers: r boundaries made again, t layers' internals on the host. */
static uint64_t value_at(const choice *c, uint64_t r, uint64_t t, lzt__step_goal goal)
{
    windows w = work_of(c, r);
    move_internals(c, t, &w, NULL);
    return value_of(c->s->model, &w, goal);
}

/* The least value over one of r and t from low to high, a convex function, the other as it is; *at gets the smallest
 * such. */
static uint64_t least_over(const choice *c, bool over_t, uint64_t low, uint64_t high, uint64_t other,
                           lzt__step_goal goal, uint64_t *at)
{
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        uint64_t here = over_t ? value_at(c, other, middle, goal) : value_at(c, middle, other, goal);
        uint64_t next = over_t ? value_at(c, other, middle + 1, goal) : value_at(c, middle + 1, other, goal);
        if (here <= next)
            high = middle;
        else
            low = middle + 1;
    }
    *at = low;
    return over_t ? value_at(c, other, low, goal) : value_at(c, low, other, goal);
}

static void write_shape(const choice *c, uint64_t r, uint64_t t, lzt__step_shape *shape)
{
    *shape = (lzt__step_shape){.on_device = (uint32_t)c->on_device,
                               .on_host = (uint32_t)(c->rest - r),
                               .recomputed = (uint32_t)r,
                               .first_on_device = c->first_on_device};
    memcpy(shape->internals, c->internals->kept, sizeof shape->internals);
    memcpy(shape->weights, c->weights->kept, sizeof shape->weights);
    move_internals(c, t, NULL, shape->hosted);
}

/* Boundaries under what the labels leave of the device. False: the head's moment does not fit. */
static bool settle(const uint64_t cap_bytes[LZT_STEP_MEMORY_COUNT], bool first_on_device, choice *c)
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
    c->least_r = host_slots < c->rest ? c->rest - host_slots : 0;
    c->device_cap = cap_bytes[LZT_STEP_DEVICE];
    c->host_cap = cap_bytes[LZT_STEP_RAM];
    return true;
}

/* What is left of a double that may be off by its last digits, in whole picoseconds that no placement is below. */
static uint64_t whole_ps(double ps)
{
    double surely = ps * (1 - 1e-12) - 1e-6;
    return surely > 0 ? (uint64_t)ceil(surely) : 0;
}

/* Below every placement with this label of internals by the loss's moment alone; 0 where that says nothing, INFINITY
 * where nothing fits. The label of no weights, and boundary 0 made again, stand for all: they leave most room. */
static double bound_at_the_loss(const lzt__step_surrogate *s, const uint64_t cap_bytes[LZT_STEP_MEMORY_COUNT], choice c)
{
    const lzt_step_hold *hold = s->model->hold;
    c.weights = &s->weights.label[0];
    if (!settle(cap_bytes, false, &c)) return INFINITY;
    if (!hold[LZT_STEP_FORWARD].ps_per_gib || !hold[LZT_STEP_BACKWARD].ps_per_gib) return 0;
    return least_over_r(&c, s->model->layer_count - 1, least_crossed);
}

/* Below every placement with this label of internals, if it is less than `enough`. */
static double bound_of_label(const lzt__step_surrogate *s, const uint64_t cap_bytes[LZT_STEP_MEMORY_COUNT], choice c,
                             bool looks_at_the_loss, double enough)
{
    double best = INFINITY, at_the_loss = looks_at_the_loss ? bound_at_the_loss(s, cap_bytes, c) : 0;
    for (uint32_t w = 0; w < s->weights.count && at_the_loss < enough; w++)
        for (int first = 0; first < 2; first++) {
            c.weights = &s->weights.label[w];
            if (!settle(cap_bytes, first, &c)) continue;
            best = fmin(best, least_over_r(&c, c.rest, relaxed));
        }
    return fmax(best, at_the_loss);
}

uint64_t lzt__step_bound(const lzt__step_surrogate *s, const uint64_t cap_bytes[LZT_STEP_MEMORY_COUNT])
{
    const pareto *p = s->told_apart.count ? &s->told_apart : &s->internals;
    double best = INFINITY;
    for (uint32_t i = 0; i < p->count; i++) {
        choice c = {.s = s, .internals = &p->label[i]};
        c.stands_for_others = s->class_count > 1 && !s->told_apart.count;
        best = fmin(best, bound_of_label(s, cap_bytes, c, p->count <= MOMENTS_MAX, best));
    }
    return isinf(best) ? UINT64_MAX : whole_ps(best);
}

uint64_t lzt__step_minimum(const lzt__step_surrogate *s, const uint64_t cap_bytes[LZT_STEP_MEMORY_COUNT],
                           lzt__step_goal goal, bool hosting, uint32_t thin, lzt__step_shape *shape)
{
    assert(thin >= 4);
    uint64_t best = UINT64_MAX, best_bytes = UINT64_MAX;
    uint32_t by_i = (s->internals.count + thin - 1) / thin, by_w = (s->weights.count + thin / 4 - 1) / (thin / 4);
    for (uint32_t i = 0; i < s->internals.count; i += by_i)
        for (uint32_t w = 0; w < s->weights.count; w += by_w)
            for (int first = 0; first < 2; first++) {
                choice c = {.s = s, .internals = &s->internals.label[i], .weights = &s->weights.label[w]};
                if (!settle(cap_bytes, first, &c)) continue;
                uint64_t r = 0, t = 0, value;
                if (hosting) /* a boundary's copies cost less than internals, for as much: none is made again beside */
                    value = least_over(&c, true, 0, most_moved(&c, c.least_r), r = c.least_r, goal, &t);
                else
                    value = least_over(&c, false, c.least_r, c.rest, 0, goal, &r);
                uint64_t bytes =
                    c.internals->bytes + c.weights->bytes + (c.on_device + (uint64_t)first) * s->model->boundary_bytes;
                if (value > best || (value == best && bytes >= best_bytes)) continue;
                best = value;
                best_bytes = bytes;
                write_shape(&c, r, t, shape);
            }
    return best;
}

void lzt__step_host(const lzt__step_surrogate *s, uint32_t quarters, lzt__step_shape *shape)
{
    label internals = {0}, weights = {0};
    choice c = {.s = s,
                .internals = &internals,
                .weights = &weights,
                .on_device = shape->on_device,
                .rest = shape->on_host + shape->recomputed,
                .host_cap = UINT64_MAX / 2,
                .first_on_device = shape->first_on_device};
    uint64_t t;
    for (uint32_t k = 0; k < s->class_count; k++) {
        internals.kept[k] = shape->internals[k];
        internals.saved_ps += shape->internals[k] * s->saved_ps[k];
        weights.saved_ps += shape->weights[k] * s->weight_saved_ps[k];
    }
    least_over(&c, true, 0, most_moved(&c, shape->recomputed), shape->recomputed, LZT__STEP_RANK, &t);
    memset(shape->hosted, 0, sizeof shape->hosted);
    move_internals(&c, t * quarters / 4, NULL, shape->hosted);
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
    if (!lzt__step_surrogate_create(model, &classes, &s, &ignored)) value = lzt__step_bound(s, cap);
    lzt__step_surrogate_destroy(s);
    lzt__step_classes_fini(&classes);
    return value;
}
