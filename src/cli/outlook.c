/* What a dry run says about a plan of the source's model, and about the drive: see dry_run.h. */
#include "cli/dry_run.h"

#include "cli/forecast.h"
#include "cli/talk.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>

#define GIB           1073741824.0
#define SECONDS_A_DAY 86400.0

enum { STATE_FILE_BYTES = 12, EIGHT_BIT_SAVED = 6 }; /* an element: master and two moments in F32; 8 - 2 of moments */

/* ---- the drive ---- */

/* Free bytes of the filesystem that path is on, or its nearest parent that exists; 0 when the system does not say. */
static uint64_t free_bytes_at(const char *path)
{
    char parent[4096];
    struct statvfs fs;
    snprintf(parent, sizeof parent, "%s", path);
    while (statvfs(parent, &fs)) {
        char *slash = strrchr(parent, '/');
        if (!slash) {
            if (!strcmp(parent, ".")) return 0;
            snprintf(parent, sizeof parent, ".");
        } else {
            slash[slash == parent] = 0;
            if (slash == parent && statvfs(parent, &fs)) return 0;
        }
    }
    return (uint64_t)fs.f_bavail * fs.f_frsize;
}

static uint64_t element_count(const lzt_model_info *model)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < model->tensor_count; i++) count += model->tensor[i].element_count;
    return count;
}

void lzt_outlook_disk(const lzt_session *s, lzt_outlook *o)
{
    const lzt_config *c = s->config;
    uint64_t elements = element_count(s->info), every = lzt_steps_of(c->save_steps, o->steps);
    o->checkpoint_bytes = every ? elements * STATE_FILE_BYTES : 0;
    o->checkpoints_made = every ? o->steps / every : 0;
    o->checkpoints_kept = o->checkpoints_made;
    if (c->save_total_limit && c->save_total_limit + 1 < o->checkpoints_kept)
        o->checkpoints_kept = c->save_total_limit + 1; /* the oldest goes once the newest is complete */
    o->final_bytes = c->save_final ? elements * lzt_dtype_bytes(s->numerics.dtype) : 0;
    o->disk_bytes = o->checkpoints_kept * o->checkpoint_bytes + o->final_bytes + o->nvme_bytes;
    o->disk_free_bytes = free_bytes_at(c->output_dir);
    double a_step = (double)o->spill_bytes_a_step;
    if (o->steps) a_step += (double)o->checkpoints_made * (double)o->checkpoint_bytes / (double)o->steps;
    o->ssd_bytes_a_day = o->step_seconds > 0 ? a_step * SECONDS_A_DAY / o->step_seconds : NAN;
}

/* ---- the source's model ---- */

static uint64_t sum(const uint64_t *value, uint64_t count)
{
    uint64_t total = 0;
    for (uint64_t i = 0; i < count; i++) total += value[i];
    return total;
}

/* Forward once; backward runs each layer again and then costs twice its time; recompute and exposed transfers are the
 * objective. */
static double step_seconds(const lzt_problem *p, const lzt_evaluation *e)
{
    double forward = (double)sum(p->recompute_ps, p->layer_count);
    return (4 * forward + (double)e->objective_ps) * 1e-12;
}

/* Seconds for the drive to write, or to read, all that the plan keeps there; by the profile, else by the problem's
 * rate. */
static double drive_seconds(const lzt_session *s, lzt_pool pool, uint64_t bytes)
{
    double seconds;
    const lzt_problem *p = s->plan.problem;
    uint64_t one = p->boundary_bytes[0];
    if (!bytes) return 0;
    if (!lzt_price_seconds(&s->profile, LZT_MEASURE_RATE, lzt_pool_name(pool), one, &seconds))
        return (double)lzt_pool_ps(p, pool, bytes) * 1e-12;
    return seconds * (double)bytes / (double)one;
}

/* The step compiled with what lies on the drive on the host, and simulated; the drive's own time runs beside forward
 * (writing) and backward (reading), and counts as far as it is longer. The plan is left as it was. */
static lzt_status simulate(lzt_session *s, uint64_t drive_bytes, double *seconds, lzt_error *err)
{
    lzt_forecast f;
    lzt_plan own = s->plan, host;
    lzt_status status = lzt_plan_copy(&host, &s->plan, err);
    if (status) return status;
    for (uint64_t i = 0; i <= host.layer_count; i++)
        if (host.boundary[i] == LZT_TIER_NVME) host.boundary[i] = LZT_TIER_CPU;
    s->plan = host;
    status = lzt_forecast_step(s, &s->profile, s->config->per_device_train_batch_size, NULL, &f, err);
    s->plan = own;
    lzt_plan_fini(&host);
    if (status) return status;
    const lzt_account *a = &f.price.account;
    double times = (double)s->config->gradient_accumulation_steps;
    double write = times * drive_seconds(s, LZT_POOL_NVME_WRITE, drive_bytes) - a->forward_seconds;
    double read = times * drive_seconds(s, LZT_POOL_NVME_READ, drive_bytes) - a->backward_seconds;
    *seconds = f.price.seconds + fmax(0, write) + fmax(0, read);
    return LZT_OK;
}

static void set_step_seconds(lzt_session *s, const lzt_evaluation *e, lzt_outlook *o)
{
    lzt_error why = {0};
    o->step_seconds = step_seconds(s->plan.problem, e) * (double)s->config->gradient_accumulation_steps;
    o->step_from = "the plan's own model and layer times; not measured, without optimizer and input";
    if (!s->has_profile) return;
    lzt_status status = simulate(s, e->used_bytes[LZT_TIER_NVME], &o->step_seconds, &why);
    if (status)
        lzt_talk("note: the profile does not price this step: %s%s%s", why.where, why.where[0] ? ": " : "",
                 why.message);
    else
        o->step_from = "the step simulated on the profile, the drive's time beside it";
}

/* Persistent state by the layout of a run, less what 8-bit moments save; activations; a buffer for each staged one. */
static lzt_status host_bytes(const lzt_session *s, const lzt_evaluation *e, uint64_t *bytes, lzt_error *err)
{
    lzt_state_layout *layout;
    lzt_status status = lzt_state_layout_create(s->info, &s->numerics, true, &layout, err);
    if (status) return status;
    *bytes = layout->bytes + e->used_bytes[LZT_TIER_CPU];
    lzt_state_layout_destroy(layout);
    if (s->config->optimizer.moments == LZT_CONFIG_MOMENTS_HYBRID_8BIT_ADAM)
        *bytes -=
            (uint64_t)(s->config->optimizer.eight_bit_fraction * (double)element_count(s->info)) * EIGHT_BIT_SAVED;
    if (s->plan.source.cpu_staging && e->count[LZT_TIER_NVME]) *bytes += s->plan.problem->boundary_bytes[0];
    return LZT_OK;
}

/* A stated cap is believed; without one the machine's own memory, or its drive's free space, is the limit. */
static lzt_status check_caps(const lzt_session *s, const lzt_outlook *o, lzt_error *err)
{
    const lzt_config *c = s->config;
    struct sysinfo machine = {0};
    uint64_t memory = sysinfo(&machine) ? 0 : (uint64_t)machine.totalram * machine.mem_unit;
    const char *spill = c->memory.lazy_nvme_offload_dir ? c->memory.lazy_nvme_offload_dir : c->output_dir;
    const struct {
        const char *key;
        uint64_t need, cap, else_limit;
        const char *limit_is;
    } caps[] = {{"device_cap", o->device_bytes, c->memory.device_cap, 0, ""},
                {"host_cap", o->host_bytes, c->memory.host_cap, memory, "this machine's memory"},
                {"nvme_cap", o->nvme_bytes, c->memory.nvme_cap, o->nvme_bytes ? free_bytes_at(spill) : 0,
                 "what is free on the drive"}};
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        uint64_t limit = caps[i].cap ? caps[i].cap : caps[i].else_limit;
        if (!limit || caps[i].need <= limit) continue;
        lzt_fail(err, LZT_ERR_NO_PLAN, "memory", "%s: needs at least %llu bytes", caps[i].key,
                 (unsigned long long)caps[i].need);
        if (caps[i].cap) return lzt_hint(err, "memory.%s allows %llu", caps[i].key, (unsigned long long)limit);
        return lzt_hint(err, "%s is %llu bytes; plan for another machine by setting memory.%s", caps[i].limit_is,
                        (unsigned long long)limit, caps[i].key);
    }
    return LZT_OK;
}

lzt_status lzt_outlook_source(lzt_session *s, lzt_outlook *o, lzt_error *err)
{
    lzt_evaluation e;
    const lzt_plan *plan = &s->plan;
    lzt_status status = lzt_plan_require(plan, s->config->memory.plan, err);
    if (!status) status = lzt_problem_check(plan->problem, plan->boundary, NULL, NULL, &e, err);
    if (status) return status;
    uint64_t unused = plan->problem->budget_bytes[LZT_TIER_GPU] - e.used_bytes[LZT_TIER_GPU];
    o->device_bytes = (uint64_t)llround(plan->source.peak_cap_gib * GIB) - unused;
    o->nvme_bytes = o->spill_bytes_a_step = e.used_bytes[LZT_TIER_NVME];
    o->spill_bytes_a_step *= s->config->gradient_accumulation_steps;
    status = host_bytes(s, &e, &o->host_bytes, err);
    if (!status) status = check_caps(s, o, err);
    if (!status) set_step_seconds(s, &e, o);
    return status;
}
