/* What more of a resource would buy, and which other numerics would be faster: the plan found anew, each time with one
 * thing changed. */
#include "solve/step_search.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)

static const struct {
    const char *name, *unit;
} resources[LZT_RESOURCE_COUNT] = {{"device memory", "GiB"},         {"host memory", "GiB"},
                                   {"link to the device", "GB/s"},   {"link back", "GB/s"},
                                   {"host operators' rate", "GB/s"}, {"compute", "10 %"}};

const char *lzt_resource_name(lzt_resource resource)
{
    assert(resource >= 0 && resource < LZT_RESOURCE_COUNT);
    return resources[resource].name;
}

const char *lzt_resource_unit(lzt_resource resource)
{
    assert(resource >= 0 && resource < LZT_RESOURCE_COUNT);
    return resources[resource].unit;
}

/* ---- a nudged profile ---- */

static bool is_copy(const lzt_measurement *m, const char *lane)
{
    return m->kind == LZT_MEASURE_RATE && !strcmp(m->name, lane);
}

static bool is_kernel(const lzt_measurement *m)
{
    return m->kind == LZT_MEASURE_TIME && strncmp(m->name, "overlap.", 8) && strcmp(m->name, "handover");
}

static bool is_host_operator(const lzt_measurement *m)
{
    bool elsewhere =
        is_copy(m, "h2d") || is_copy(m, "d2h") || !strncmp(m->name, "nvme", 4) || !strcmp(m->name, "host_memory");
    return m->kind == LZT_MEASURE_RATE && !elsewhere;
}

/* Raises the measurements of a resource; returns how many. */
static uint64_t raise(lzt_profile *profile, lzt_resource resource)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < profile->measurement_count; i++) {
        lzt_measurement *m = &profile->measurement[i];
        bool rate = (resource == LZT_RESOURCE_H2D && is_copy(m, "h2d")) ||
                    (resource == LZT_RESOURCE_D2H && is_copy(m, "d2h")) ||
                    (resource == LZT_RESOURCE_HOST_MEMORY && is_host_operator(m));
        bool time = resource == LZT_RESOURCE_COMPUTE && is_kernel(m);
        double *value[] = {&m->median, &m->min, &m->max};
        for (int k = 0; k < 3; k++) {
            if (rate) *value[k] += 1e9;
            if (time) *value[k] /= 1.1;
        }
        count += rate || time;
    }
    return count;
}

static lzt_status copy_profile(const lzt_profile *from, lzt_profile *to, lzt_error *err)
{
    *to = *from;
    to->measurement = malloc((from->measurement_count + 1) * sizeof *to->measurement);
    if (!to->measurement) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to copy a profile");
    if (from->measurement_count)
        memcpy(to->measurement, from->measurement, from->measurement_count * sizeof *to->measurement);
    return LZT_OK;
}

/* ---- solving again ---- */

/* The objective and the device's peak under other options; 0 when nothing fits, or the profile has no such sizes. */
static lzt_status solve_again(const lzt_step_plan_options *options, const lzt_step_caps *caps, uint64_t *ps,
                              uint64_t *device_bytes, lzt_error *err)
{
    lzt_step_search *search;
    lzt_step_plan_result result;
    lzt_plan plan;
    *ps = 0;
    lzt_status status = lzt_step_search_create(options, &search, err);
    if (status == LZT_ERR_USAGE) return LZT_OK;
    if (status) return status;
    status = lzt_step_search_solve(search, caps, &plan, &result, err);
    if (!status) {
        *ps = result.objective_ps;
        *device_bytes = plan.device_bytes;
        lzt_plan_fini(&plan);
    }
    lzt_step_search_destroy(search);
    return status;
}

/* There and back on the profile's drive; 0: it has none. */
static double drive_trip_ms(const lzt_profile *profile, uint64_t bytes)
{
    const lzt_measurement *down = lzt_profile_find(profile, LZT_MEASURE_RATE, "nvme_write", bytes);
    const lzt_measurement *up = lzt_profile_find(profile, LZT_MEASURE_RATE, "nvme_read", bytes);
    if (!down || !up || !(down->median > 0) || !(up->median > 0)) return 0;
    return 1e3 * (double)bytes * (1 / down->median + 1 / up->median);
}

static lzt_status with_more_memory(lzt_step_search *search, const lzt_step_caps *caps, lzt_resource resource,
                                   uint64_t *ps, bool *capped, lzt_error *err)
{
    lzt_step_caps more = *caps;
    lzt_step_plan_result result;
    lzt_plan plan;
    uint64_t *cap = resource == LZT_RESOURCE_DEVICE ? &more.device_bytes : &more.host_bytes;
    *capped = *cap > 0;
    if (!*capped) return LZT_OK;
    *cap += GIB;
    lzt_status status = lzt_step_search_solve(search, &more, &plan, &result, err);
    if (status) return status;
    if (result.objective_ps) *ps = result.objective_ps;
    lzt_plan_fini(&plan);
    return LZT_OK;
}

static lzt_status with_more_speed(const lzt_step_plan_options *options, const lzt_step_caps *caps,
                                  lzt_resource resource, uint64_t *ps, bool *capped, lzt_error *err)
{
    lzt_profile profile;
    lzt_step_plan_options nudged = *options;
    uint64_t found = 0, bytes;
    lzt_status status = copy_profile(options->price.profile, &profile, err);
    if (status) return status;
    *capped = raise(&profile, resource) > 0;
    nudged.price.profile = &profile;
    if (*capped) status = solve_again(&nudged, caps, &found, &bytes, err);
    if (found) *ps = found;
    free(profile.measurement);
    return status;
}

lzt_status lzt_step_advise(lzt_step_search *search, const lzt_step_caps *caps, const lzt_plan *plan, lzt_step_advice *a,
                           lzt_error *err)
{
    const lzt_step_plan_options *options = lzt__step_search_options(search);
    const lzt_step_model *m = lzt_step_search_get_model(search);
    uint64_t saved = 0;
    lzt_status status = LZT_OK;
    *a = (lzt_step_advice){.binds = LZT_RESOURCE_COMPUTE};
    for (int r = 0; r < LZT_RESOURCE_COUNT && !status; r++) {
        a->more_ps[r] = plan->objective_ps;
        if (r <= LZT_RESOURCE_HOST)
            status = with_more_memory(search, caps, (lzt_resource)r, &a->more_ps[r], &a->capped[r], err);
        else
            status = with_more_speed(options, caps, (lzt_resource)r, &a->more_ps[r], &a->capped[r], err);
        if (a->more_ps[r] >= plan->objective_ps || plan->objective_ps - a->more_ps[r] <= saved) continue;
        saved = plan->objective_ps - a->more_ps[r];
        a->binds = (lzt_resource)r;
    }
    a->boundary_drive_ms = drive_trip_ms(options->price.profile, m->boundary_bytes);
    for (uint64_t l = 0; l < m->layer_count; l++) {
        a->internals_trip_ms +=
            lzt_ms(m->layer[l].internals_down_ps + m->layer[l].internals_up_ps) / (double)m->layer_count;
        a->internals_again_ms += lzt_ms(m->layer[l].again_ps) / (double)m->layer_count;
        a->internals_drive_ms +=
            drive_trip_ms(options->price.profile, m->layer[l].internals_bytes) / (double)m->layer_count;
    }
    return status;
}

/* ---- other numerics ---- */

static lzt_status try_numerics(const lzt_step_plan_options *options, const lzt_step_caps *caps,
                               lzt_numerics_proposal *best, lzt_error *err)
{
    uint64_t ps, device_bytes = 0;
    lzt_status status = solve_again(options, caps, &ps, &device_bytes, err);
    if (status || !ps || ps >= best->objective_ps) return status;
    *best = (lzt_numerics_proposal){.numerics = options->numerics,
                                    .micro_batches = options->micro_batches,
                                    .documents = options->price.documents,
                                    .objective_ps = ps,
                                    .device_bytes = device_bytes};
    return LZT_OK;
}

static lzt_step_plan_options options_of(const lzt_step_plan_options *base, const lzt_numerics_proposal *p)
{
    lzt_step_plan_options o = *base;
    o.numerics = p->numerics;
    o.micro_batches = p->micro_batches;
    o.price.documents = p->documents;
    o.price.tokens = base->price.tokens ? p->numerics.micro_batch_tokens : 0;
    return o;
}

static lzt_status try_chunks(const lzt_step_plan_options *base, const lzt_step_caps *caps, lzt_numerics_proposal *best,
                             lzt_error *err)
{
    lzt_status status = LZT_OK;
    for (uint64_t chunk = 32; chunk <= 8192 && !status; chunk *= 4) {
        lzt_step_plan_options o = options_of(base, best);
        if (chunk >= o.numerics.micro_batch_tokens || chunk == base->numerics.loss_chunk) continue;
        o.numerics.loss_chunk = chunk;
        status = try_numerics(&o, caps, best, err);
    }
    return status;
}

static lzt_status try_splits(const lzt_step_plan_options *base, const lzt_step_caps *caps, lzt_numerics_proposal *best,
                             lzt_error *err)
{
    lzt_status status = LZT_OK;
    if (base->model->trainable_arch) return LZT_OK; /* our kernels take a layer whole */
    for (uint64_t splits = 1; splits <= 8 && !status; splits *= 2) {
        lzt_step_plan_options o = options_of(base, best);
        if (splits == (o.numerics.layer_splits ? o.numerics.layer_splits : 1)) continue;
        o.numerics.layer_splits = splits;
        status = try_numerics(&o, caps, best, err);
    }
    return status;
}

/* Fewer rows at a time, and as many times more often: gradients are then added, in F32. */
static lzt_status try_micro_batches(const lzt_step_plan_options *base, const lzt_step_caps *caps,
                                    lzt_numerics_proposal *best, lzt_error *err)
{
    lzt_status status = LZT_OK;
    for (uint64_t parts = 2; parts <= 4 && !status; parts *= 2) {
        lzt_step_plan_options o = options_of(base, best);
        if (base->price.documents % parts || base->numerics.micro_batch_tokens % parts) continue;
        o.micro_batches = parts * (base->micro_batches ? base->micro_batches : 1);
        o.price.documents = base->price.documents / parts;
        o.numerics.micro_batch_tokens = base->numerics.micro_batch_tokens / parts;
        if (o.numerics.loss_chunk > o.numerics.micro_batch_tokens)
            o.numerics.loss_chunk = o.numerics.micro_batch_tokens;
        o.numerics.grad_dtype = LZT_DTYPE_F32;
        if (o.price.tokens) o.price.tokens = o.numerics.micro_batch_tokens;
        status = try_numerics(&o, caps, best, err);
    }
    return status;
}

lzt_status lzt_step_propose(const lzt_step_plan_options *options, const lzt_step_caps *caps, int what,
                            uint64_t objective_ps, lzt_numerics_proposal *proposal, lzt_error *err)
{
    uint64_t target = objective_ps - objective_ps / 1000;
    lzt_status status = LZT_OK;
    *proposal = (lzt_numerics_proposal){.numerics = options->numerics,
                                        .micro_batches = options->micro_batches,
                                        .documents = options->price.documents,
                                        .objective_ps = objective_ps ? target : UINT64_MAX};
    if (what & LZT_PROPOSE_LOSS_CHUNK) status = try_chunks(options, caps, proposal, err);
    if (!status && what & LZT_PROPOSE_LAYER_SPLITS) status = try_splits(options, caps, proposal, err);
    if (!status && what & LZT_PROPOSE_MICRO_BATCHES) status = try_micro_batches(options, caps, proposal, err);
    if (!proposal->device_bytes) proposal->objective_ps = 0;
    return status;
}
