/* Candidates of the real step's planner: a list that depends on the model of the step alone, not on any cap.
 *
 *     ladder   STEPS budgets between what nothing kept needs and what everything kept does, for three shares of the
 *              boundaries that the host may hold: the surrogate's best placement of each, by bound and by rank
 *     hosted   the same with every boundary and three shares of all internals: layers may send theirs to the host
 *     family   as lzt_auto_plan's: internals of the last k layers, then boundaries, then weights, one by one; and with
 *              those of other layers on the host, as many as do not make a window longer, and some fewer
 *     floor    nothing kept; boundaries on the host every k layers, and made again between
 *
 * Each in a few depths of prefetching, and with the layers that keep something last, or evenly spread. */
#include "solve/step_search.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS = 32, HOST_SHARES = 3, THIN = 64, TRAFFIC_SHARE = 50 };

/* How deep uploads and gradient downloads run ahead, and under how many stages internals move: {prefetch_layers,
 * gradient_slots, internals_stages}. The second list is for shapes with internals on the host alone. */
static const uint32_t depths[][3] = {{4, 2, 1}, {2, 2, 1}, {1, 1, 1}}, moving[][3] = {{4, 2, 4}, {4, 2, 8}, {4, 2, 16}};

typedef struct maker {
    const lzt_step_model *model;
    const lzt__step_classes *classes;
    lzt__step_candidate *list;
    uint32_t count, room;
    lzt_plan scratch; /* for the sums of a candidate */
    lzt_status status;
    lzt_error *err;
} maker;

/* ---- a candidate as a placement ---- */

/* Of the `size` layers of a class, whether the index-th keeps, when `kept` do. */
static bool keeps(lzt__step_order order, uint32_t index, uint32_t kept, uint32_t size)
{
    if (order == LZT__STEP_LATE) return index >= size - kept;
    return (uint64_t)(index + 1) * kept / size > (uint64_t)index * kept / size;
}

/* Of `left` layers whether the index-th sends its internals to the host, when `hosted` do: evenly, each the first
 * of its share: the links have the others for its copies, and its device bytes are free again before the head. */
static bool leaves(uint32_t index, uint32_t hosted, uint32_t left)
{
    uint64_t here = (uint64_t)index * hosted + left - 1;
    return (here + hosted) / left > here / left;
}

static void place_boundaries(const lzt__step_shape *s, lzt_plan *plan)
{
    uint64_t inner = plan->layer_count - 1, kept = 0;
    plan->boundary[0] = s->first_on_device ? LZT_TIER_GPU : LZT_TIER_RECOMPUTE;
    plan->boundary[plan->layer_count] = LZT_TIER_GPU;
    for (uint64_t i = 1; i <= inner; i++) {
        /* those made again lie evenly; of the others the first leave, since they come back last */
        bool again = i * s->recomputed / inner > (i - 1) * s->recomputed / inner;
        plan->boundary[i] = again ? LZT_TIER_RECOMPUTE : kept++ < s->on_host ? LZT_TIER_CPU : LZT_TIER_GPU;
    }
}

void lzt__step_place(const lzt_step_model *m, const lzt__step_classes *classes, const lzt__step_candidate *c,
                     lzt_plan *plan)
{
    uint32_t seen[LZT__STEP_CLASSES] = {0}, others[LZT__STEP_CLASSES] = {0};
    bool all = true;
    for (uint64_t l = 0; l < m->layer_count; l++) {
        uint32_t k = classes->of[l], index = seen[k]++;
        plan->internals[l] = LZT_TIER_GPU;
        if (!keeps(c->order, index, c->shape.internals[k], classes->size[k])) {
            uint32_t left = classes->size[k] - c->shape.internals[k];
            bool away = leaves(others[k]++, c->shape.hosted[k], left);
            plan->internals[l] = away ? LZT_TIER_CPU : LZT_TIER_RECOMPUTE;
        }
        plan->weights[l] = keeps(c->order, index, c->shape.weights[k], classes->size[k]);
        all &= plan->weights[l];
    }
    place_boundaries(&c->shape, plan);
    plan->head_weights = all && m->micro_batches > 1;
    plan->prefetch_layers = c->prefetch;
    plan->gradient_slots = c->slots;
    plan->internals_stages = c->stages;
}

/* ---- the list ---- */

static bool same_shape(const lzt__step_shape *a, const lzt__step_shape *b)
{
    return !memcmp(a->internals, b->internals, sizeof a->internals) &&
           !memcmp(a->weights, b->weights, sizeof a->weights) && !memcmp(a->hosted, b->hosted, sizeof a->hosted) &&
           a->on_device == b->on_device && a->on_host == b->on_host && a->recomputed == b->recomputed &&
           a->first_on_device == b->first_on_device;
}

/* What of a class is kept in part, so that it matters which layers do. */
static bool has_order(const maker *m, const lzt__step_shape *s)
{
    for (uint32_t k = 0; k < m->classes->count; k++)
        if ((s->internals[k] && s->internals[k] < m->classes->size[k]) ||
            (s->weights[k] && s->weights[k] < m->classes->size[k]))
            return true;
    return false;
}

static bool has_hosted(const maker *m, const lzt__step_shape *s)
{
    uint32_t hosted = 0;
    for (uint32_t k = 0; k < m->classes->count; k++) hosted += s->hosted[k];
    return hosted > 0;
}

static void add(maker *m, lzt__step_candidate c)
{
    if (m->count == m->room) {
        uint32_t room = m->room ? 2 * m->room : 256;
        lzt__step_candidate *grown = realloc(m->list, room * sizeof *grown);
        if (!grown) {
            m->status = lzt_fail(m->err, LZT_ERR_NO_MEMORY, NULL, "no memory for candidates");
            return;
        }
        m->list = grown;
        m->room = room;
    }
    lzt_step_sum sum;
    lzt__step_place(m->model, m->classes, &c, &m->scratch);
    lzt_step_model_sum(m->model, m->scratch.boundary, m->scratch.internals, m->scratch.weights, &sum);
    c.bound_ps = sum.bound_ps;
    c.rank_ps = sum.windows_ps + (sum.lane_ps[LZT_STEP_H2D] + sum.lane_ps[LZT_STEP_D2H]) / TRAFFIC_SHARE;
    memcpy(c.least_bytes, sum.least_bytes, sizeof c.least_bytes);
    m->list[m->count++] = c;
}

static void add_shape(maker *m, const lzt__step_shape *shape)
{
    for (uint32_t i = 0; i < m->count; i++)
        if (same_shape(&m->list[i].shape, shape)) return;
    for (size_t d = 0; d < sizeof depths / sizeof *depths && !m->status; d++) {
        lzt__step_candidate c = {
            .shape = *shape, .prefetch = depths[d][0], .slots = depths[d][1], .stages = depths[d][2]};
        add(m, c);
        c.order = LZT__STEP_SPREAD;
        if (d == 1 && has_order(m, shape)) add(m, c);
    }
    for (size_t d = 0; d < sizeof moving / sizeof *moving && !m->status && has_hosted(m, shape); d++)
        add(m, (lzt__step_candidate){
                   .shape = *shape, .prefetch = moving[d][0], .slots = moving[d][1], .stages = moving[d][2]});
}

static void add_ladder(maker *m, const lzt__step_surrogate *surrogate)
{
    const uint64_t boundary = m->model->boundary_bytes, inner = m->model->layer_count - 1;
    const uint64_t low = m->model->floor_bytes[LZT_STEP_DEVICE], high = lzt__step_everything(m->model);
    for (uint64_t share = 0; share < HOST_SHARES && !m->status; share++)
        for (uint64_t k = 0; k <= STEPS && !m->status; k++) {
            uint64_t host = m->model->floor_bytes[LZT_STEP_RAM] +
                            boundary * (inner * (HOST_SHARES - 1 - share) / (HOST_SHARES - 1));
            const uint64_t cap[LZT_STEP_MEMORY_COUNT] = {low + (high - low) / STEPS * k + (k == STEPS ? STEPS : 0),
                                                         host};
            lzt__step_shape shape;
            for (int goal = 0; goal < 2; goal++)
                if (lzt__step_minimum(surrogate, cap, (lzt__step_goal)goal, false, THIN, &shape) != UINT64_MAX)
                    add_shape(m, &shape);
        }
}

static void add_hosted(maker *m, const lzt__step_surrogate *surrogate)
{
    const lzt_step_model *model = m->model;
    const uint64_t low = model->floor_bytes[LZT_STEP_DEVICE], high = lzt__step_everything(model);
    uint64_t host = model->floor_bytes[LZT_STEP_RAM] + model->boundary_bytes * (model->layer_count - 1), all = 0;
    for (uint64_t l = 0; l < model->layer_count; l++) all += model->layer[l].internals_bytes;
    for (uint64_t share = 1; share <= 4 && !m->status; share *= 2)
        for (uint64_t k = 0; k <= STEPS && !m->status; k++) {
            const uint64_t cap[LZT_STEP_MEMORY_COUNT] = {low + (high - low) / STEPS * k, host + all / share};
            lzt__step_shape shape;
            for (int goal = 0; goal < 2; goal++)
                if (lzt__step_minimum(surrogate, cap, (lzt__step_goal)goal, true, THIN, &shape) != UINT64_MAX)
                    add_shape(m, &shape);
        }
}

/* All of a class but its first `spare` layers in model order, of all classes together. */
static void keep_last(const maker *m, uint64_t kept, uint16_t count[LZT__STEP_CLASSES])
{
    memset(count, 0, LZT__STEP_CLASSES * sizeof *count);
    for (uint64_t l = m->model->layer_count - kept; l < m->model->layer_count; l++) count[m->classes->of[l]]++;
}

static void add_family(maker *m, const lzt__step_surrogate *surrogate)
{
    const uint32_t n = (uint32_t)m->model->layer_count;
    uint32_t stride = n / 65 + 1; /* deep models in larger steps */
    for (uint32_t k = 0; k <= 3 * n && !m->status; k += stride) {
        uint32_t internals = k < n ? k : n, boundaries = k < n ? 0 : k - n, weights = k < 2 * n ? 0 : k - 2 * n;
        if (boundaries > n - 1) boundaries = n - 1;
        lzt__step_shape shape = {.on_device = boundaries, .on_host = n - 1 - boundaries, .first_on_device = k >= n};
        keep_last(m, internals, shape.internals);
        keep_last(m, weights, shape.weights);
        add_shape(m, &shape);
        for (uint32_t quarters = 4; quarters >= 2 && internals < n; quarters--) {
            lzt__step_host(surrogate, quarters, &shape);
            add_shape(m, &shape);
        }
    }
    lzt__step_shape all = {.on_device = n - 1, .first_on_device = true};
    keep_last(m, n, all.internals);
    keep_last(m, n, all.weights);
    add_shape(m, &all);
}

static void add_floor(maker *m)
{
    const uint32_t inner = (uint32_t)m->model->layer_count - 1;
    for (uint32_t every = 1; every <= 2 * (inner + 1) && !m->status; every *= 2)
        for (int on_device = 0; on_device < 2; on_device++) {
            uint32_t kept = inner / every;
            lzt__step_shape shape = {.recomputed = inner - kept};
            *(on_device ? &shape.on_device : &shape.on_host) = kept;
            add_shape(m, &shape);
        }
}

static int by_rank(const void *a, const void *b)
{
    const lzt__step_candidate *x = a, *y = b;
    if (x->rank_ps != y->rank_ps) return x->rank_ps < y->rank_ps ? -1 : 1;
    if (x->least_bytes[0] != y->least_bytes[0]) return x->least_bytes[0] < y->least_bytes[0] ? -1 : 1;
    if (x->prefetch != y->prefetch) return x->prefetch > y->prefetch ? -1 : 1;
    if (x->stages != y->stages) return x->stages < y->stages ? -1 : 1;
    if (x->order != y->order) return x->order < y->order ? -1 : 1;
    return memcmp(&x->shape, &y->shape, sizeof x->shape);
}

lzt_status lzt__step_candidates(const lzt_step_model *model, const lzt__step_classes *classes,
                                const lzt__step_surrogate *surrogate, lzt__step_candidate **list, uint32_t *count,
                                lzt_error *err)
{
    maker m = {.model = model, .classes = classes, .err = err};
    m.status = lzt_plan_init(&m.scratch, model->layer_count, err);
    if (!m.status) add_ladder(&m, surrogate);
    if (!m.status) add_hosted(&m, surrogate);
    if (!m.status) add_family(&m, surrogate);
    if (!m.status) add_floor(&m);
    lzt_plan_fini(&m.scratch);
    if (m.status) {
        free(m.list);
        return m.status;
    }
    qsort(m.list, m.count, sizeof *m.list, by_rank);
    *list = m.list;
    *count = m.count;
    return LZT_OK;
}
