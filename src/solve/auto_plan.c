/* The automatic plan: see lazytrain/auto_plan.h. */
#include "lazytrain/auto_plan.h"

#include <assert.h>
#include <string.h>

/* Of one loss chunk: F32. More makes the table's products a little faster, and the smallest device larger. */
enum { LOGITS_BYTES = 19 << 20, CHUNK_GRAIN = 16, CHUNK_MAX = 1024 };

void lzt_numerics_default(const lzt_model_info *model, lzt_dtype dtype, uint64_t capacity, uint64_t accumulation,
                          uint64_t threads, lzt_numerics *numerics)
{
    uint64_t chunk = LOGITS_BYTES / (4 * model->vocabulary) / CHUNK_GRAIN * CHUNK_GRAIN;
    if (chunk < CHUNK_GRAIN) chunk = CHUNK_GRAIN;
    if (chunk > CHUNK_MAX) chunk = CHUNK_MAX;
    bool half = dtype == LZT_DTYPE_BF16 && accumulation <= 1;
    *numerics = (lzt_numerics){.micro_batch_tokens = capacity,
                               .loss_chunk = chunk < capacity ? chunk : capacity,
                               .attention_tile = 0,
                               .threads = threads,
                               .dtype = dtype,
                               .grad_dtype = half ? LZT_DTYPE_BF16 : LZT_DTYPE_F32};
}

/* ---- measuring a candidate ---- */

static lzt_status measure_variant(const lzt_auto_options *o, lzt_plan *plan, const lzt_state_layout *layout,
                                  lzt_variant variant, bool update, uint64_t peak_bytes[LZT_SPACE_COUNT],
                                  lzt_error *err)
{
    lzt_step_options step = {.model = o->model,
                             .plan = plan,
                             .layout = layout,
                             .kern = o->kern,
                             .variant = variant,
                             .update = update,
                             .micro_batches = o->micro_batches,
                             .frozen = o->frozen};
    lzt_program *program;
    lzt_status status = lzt_step_compile(&step, &program, err);
    if (status) return status;
    const lzt_program_info *info = lzt_program_get_info(program);
    if (o->work) *o->work += info->task_count;
    for (int s = 0; s < LZT_SPACE_COUNT; s++)
        if (info->peak_bytes[s] > peak_bytes[s]) peak_bytes[s] = info->peak_bytes[s];
    if (variant == LZT_VARIANT_SINGLE && !update) {
        plan->layer_forwards = info->layer_forwards;
        plan->weight_uploads = info->weight_uploads;
    }
    lzt_program_destroy(program);
    return LZT_OK;
}

lzt_status lzt_plan_measure(const lzt_auto_options *o, lzt_plan *plan, uint64_t peak_bytes[LZT_SPACE_COUNT],
                            lzt_error *err)
{
    static const struct {
        lzt_variant variant;
        bool update, many;
    } variants[] = {{LZT_VARIANT_EVALUATE, false, false}, {LZT_VARIANT_SINGLE, false, false},
                    {LZT_VARIANT_SINGLE, true, false},    {LZT_VARIANT_FIRST, false, true},
                    {LZT_VARIANT_FIRST, true, true},      {LZT_VARIANT_MIDDLE, false, true},
                    {LZT_VARIANT_LAST, false, true}};
    lzt_state_layout *layout;
    lzt_status status = lzt_state_layout_create(o->model, &plan->numerics, o->training, &layout, err);
    if (status) return status;
    memset(peak_bytes, 0, LZT_SPACE_COUNT * sizeof *peak_bytes);
    peak_bytes[LZT_SPACE_HOST] = layout->bytes;
    for (size_t i = 0; i < sizeof variants / sizeof *variants && !status; i++) {
        if (!o->training && variants[i].variant != LZT_VARIANT_EVALUATE) continue;
        if (variants[i].many && o->micro_batches < 2) continue;
        status = measure_variant(o, plan, layout, variants[i].variant, variants[i].update, peak_bytes, err);
    }
    lzt_state_layout_destroy(layout);
    plan->device_bytes = peak_bytes[LZT_SPACE_DEVICE];
    plan->host_bytes = peak_bytes[LZT_SPACE_HOST];
    return status;
}

/* ---- the family ---- */

enum { PREFETCH_MAX = 4 };

/* A member: how many of the last layers keep internals, boundaries, weights. */
typedef struct member {
    uint64_t internals, boundaries, weights, interval; /* interval 0: boundaries not on the device go to the host */
    uint64_t prefetch, slots;
    bool first_again; /* boundary 0 is gathered again from the ids */
} member;

typedef struct search {
    const lzt_auto_options *options;
    lzt_plan *plan;
    uint64_t least_bytes[LZT_SPACE_COUNT]; /* over the members tried */
    bool fits;                             /* the last one measured */
} search;

static void shape(lzt_plan *plan, const member *m)
{
    uint64_t n = plan->layer_count;
    for (uint64_t i = 0; i < n; i++) {
        plan->internals[i] = i >= n - m->internals ? LZT_TIER_GPU : LZT_TIER_RECOMPUTE;
        plan->weights[i] = i >= n - m->weights;
        bool stays = i == 0 || i > n - 1 - (m->boundaries < n ? m->boundaries : n - 1);
        lzt_tier away = !m->interval || i % m->interval == 0 ? LZT_TIER_CPU : LZT_TIER_RECOMPUTE;
        plan->boundary[i] = stays ? LZT_TIER_GPU : away;
    }
    if (m->first_again) plan->boundary[0] = LZT_TIER_RECOMPUTE;
    plan->boundary[n] = LZT_TIER_GPU;
    plan->head_weights = m->weights == n;
    plan->prefetch_layers = m->prefetch;
    plan->gradient_slots = m->slots;
}

static lzt_status try_member(search *s, const member *m, lzt_error *err)
{
    uint64_t peak[LZT_SPACE_COUNT];
    shape(s->plan, m);
    lzt_status status = lzt_plan_measure(s->options, s->plan, peak, err);
    if (status) return status;
    const uint64_t cap[LZT_SPACE_COUNT] = {s->options->device_cap_bytes, s->options->host_cap_bytes};
    s->fits = true;
    for (int space = 0; space < LZT_SPACE_COUNT; space++) {
        if (peak[space] < s->least_bytes[space]) s->least_bytes[space] = peak[space];
        if (cap[space] && peak[space] > cap[space]) s->fits = false;
    }
    return LZT_OK;
}

/* The largest value of *field in 0..most at which the member fits, by bisection; it fits at 0. */
static lzt_status enlarge(search *s, member *m, uint64_t *field, uint64_t most, lzt_error *err)
{
    uint64_t low = 0, high = most;
    *field = most;
    lzt_status status = try_member(s, m, err);
    if (status) return status;
    if (s->fits) return LZT_OK;
    while (high - low > 1) {
        *field = (low + high) / 2;
        status = try_member(s, m, err);
        if (status) return status;
        *(s->fits ? &low : &high) = *field;
    }
    *field = low;
    return LZT_OK;
}

static lzt_status no_plan(const search *s, lzt_error *err)
{
    static const char *const keys[LZT_SPACE_COUNT] = {"device_cap", "host_cap"};
    const uint64_t cap[LZT_SPACE_COUNT] = {s->options->device_cap_bytes, s->options->host_cap_bytes};
    for (int space = 0; space < LZT_SPACE_COUNT; space++)
        if (cap[space] && s->least_bytes[space] > cap[space]) {
            lzt_fail(err, LZT_ERR_NO_PLAN, "memory", "%s: needs at least %llu bytes", keys[space],
                     (unsigned long long)s->least_bytes[space]);
            return lzt_hint(err, "%llu are allowed; raise memory.%s, or shorten the micro-batch",
                            (unsigned long long)cap[space], keys[space]);
        }
    lzt_fail(err, LZT_ERR_NO_PLAN, "memory", "no placement fits device_cap and host_cap together");
    return lzt_hint(err, "the least on the device is %llu bytes, the least on the host %llu",
                    (unsigned long long)s->least_bytes[LZT_SPACE_DEVICE],
                    (unsigned long long)s->least_bytes[LZT_SPACE_HOST]);
}

/* A member of the least that fits, with boundaries on the host or, where the host is short, partly recomputed; boundary
 * 0 on the device, or else gathered again. */
static lzt_status find_floor(search *s, member *m, lzt_error *err)
{
    uint64_t n = s->plan->layer_count;
    for (int again = 0; again < 2; again++)
        for (uint64_t interval = 0; interval <= n; interval = interval ? 2 * interval : 2) {
            *m = (member){.interval = interval, .prefetch = 1, .slots = 1, .first_again = again};
            lzt_status status = try_member(s, m, err);
            if (status || s->fits) return status;
            if (s->plan->host_bytes <= s->options->host_cap_bytes || !s->options->host_cap_bytes) break;
        }
    return no_plan(s, err);
}

/* As much prefetching as still fits, and leaves the plan in that shape. */
static lzt_status deepen(search *s, member *m, lzt_error *err)
{
    for (uint64_t depth = PREFETCH_MAX; depth >= 1; depth--) {
        m->prefetch = depth;
        m->slots = depth > 1 ? 2 : 1;
        lzt_status status = try_member(s, m, err);
        if (status || s->fits) return status;
    }
    return no_plan(s, err);
}

lzt_status lzt_auto_plan(const lzt_auto_options *options, lzt_plan *plan, lzt_error *err)
{
    uint64_t n = options->model->layer_count;
    lzt_status status = lzt_plan_baseline(options->model, options->numerics, 1, plan, err);
    if (status) return status;
    search s = {.options = options, .plan = plan, .least_bytes = {UINT64_MAX, UINT64_MAX}};
    member best = {.internals = n, .boundaries = n, .weights = n, .prefetch = PREFETCH_MAX, .slots = 2};
    status = try_member(&s, &best, err);
    if (!status && !s.fits) {
        status = find_floor(&s, &best, err);
        if (!status) status = enlarge(&s, &best, &best.internals, n, err);
        if (!status) status = enlarge(&s, &best, &best.boundaries, n, err);
        if (!status) status = enlarge(&s, &best, &best.weights, n, err);
        if (!status) status = deepen(&s, &best, err);
    }
    if (status) lzt_plan_fini(plan);
    return status;
}
