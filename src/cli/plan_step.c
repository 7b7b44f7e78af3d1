/* plan --objective step: see plan_step.h. */
#include "cli/plan_step.h"

#include "cli/plan_report.h"
#include "cli/talk.h"
#include "lazytrain/auto_plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 1000, THREADS_MAX = 1024 };

typedef struct step_job {
    lzt_step_plan_options options;
    lzt_step_caps caps;
    lzt_profile profile;
    lzt_step_search *search;
    lzt_step_advice advice;
    lzt_numerics_proposal proposal;
    bool json, advised;
} step_job;

static uint64_t gib_bytes(double gib)
{
    return gib > 0 ? (uint64_t)llround(gib * 1073741824.0) : 0;
}

/* The option where it was given, else what the profile says the machine has. */
static uint64_t cap_of(const lzt_args *a, const char *name, uint64_t machine_bytes)
{
    return lzt_args_given(a, name) ? gib_bytes(lzt_args_real(a, name)) : machine_bytes;
}

/* Work is counted unless the clock was asked for. */
static void read_limits(const lzt_args *a, lzt_step_caps *caps)
{
    bool time = lzt_args_given(a, "time-limit-sec");
    if (time) caps->time_limit_s = lzt_args_real(a, "time-limit-sec");
    if (lzt_args_given(a, "work-limit"))
        caps->work_limit = lzt_args_uint(a, "work-limit");
    else if (!time)
        caps->work_limit = LZT_STEP_WORK_LIMIT;
}

static lzt_status read_job(const lzt_args *a, const lzt_model_info *model, step_job *job, lzt_error *err)
{
    uint64_t rows = lzt_args_uint(a, "batch-size"), tokens = rows * lzt_args_uint(a, "max-seq-len");
    uint64_t element = lzt_args_uint(a, "dtype-bytes"), accumulation = lzt_args_uint(a, "gradient-accumulation-steps");
    if (!lzt_args_given(a, "profile")) {
        lzt_fail(err, LZT_ERR_USAGE, "--profile", "is missing: the real step is planned from measured times");
        return lzt_hint(err, "lazytrain probe --model MODEL --batch N --seq N --out profile.json measures them");
    }
    if (element != 2 && element != 4)
        return lzt_fail(err, LZT_ERR_USAGE, "--dtype-bytes", "is %" PRIu64 ", must be 2 (bf16) or 4 (f32)", element);
    if (!tokens || !accumulation || tokens / rows != lzt_args_uint(a, "max-seq-len"))
        return lzt_fail(err, LZT_ERR_USAGE, "plan",
                        "--batch-size, --max-seq-len and --gradient-accumulation-steps are at least 1");
    lzt_status status = lzt_profile_read(lzt_args_text(a, "profile"), &job->profile, err);
    if (status) return status;
    lzt_kern_cpu_options kern = LZT_KERN_CPU_OPTIONS_INIT;
    lzt_step_plan_options *o = &job->options;
    uint64_t threads = lzt_args_given(a, "threads") ? lzt_args_uint(a, "threads") : 0;
    if (threads > THREADS_MAX) return lzt_fail(err, LZT_ERR_USAGE, "--threads", "is more than %d", THREADS_MAX);
    kern.threads = (uint32_t)threads;
    *o = (lzt_step_plan_options){.struct_bytes = sizeof *o, .model = model, .micro_batches = accumulation};
    status = lzt_kern_cpu_create(&kern, (lzt_kern **)(uintptr_t)&o->kern, err);
    if (status) return status;
    lzt_numerics_default(model, element == 2 ? LZT_DTYPE_BF16 : LZT_DTYPE_F32, tokens, accumulation, kern.threads,
                         &o->numerics);
    if (lzt_args_given(a, "loss-chunk")) o->numerics.loss_chunk = lzt_args_uint(a, "loss-chunk");
    if (o->numerics.loss_chunk > tokens) o->numerics.loss_chunk = tokens;
    if (lzt_args_given(a, "layer-splits")) o->numerics.layer_splits = lzt_args_uint(a, "layer-splits");
    o->price = (lzt_price_options){.struct_bytes = sizeof o->price,
                                   .profile = &job->profile,
                                   .tokens = tokens,
                                   .documents = rows,
                                   .model_directory = lzt_args_text(a, "model")};
    job->caps.device_bytes = cap_of(a, "peak-cap-gb", job->profile.device_bytes);
    job->caps.host_bytes = cap_of(a, "host-cap-gb", job->profile.host_bytes);
    read_limits(a, &job->caps);
    job->json = lzt_args_flag(a, "json");
    return LZT_OK;
}

static void free_job(step_job *job)
{
    lzt_step_search_destroy(job->search);
    lzt_kern_destroy((lzt_kern *)(uintptr_t)job->options.kern);
    lzt_profile_fini(&job->profile);
}

/* ---- what is printed ---- */

/* ", +1 GiB device memory: 12.3 ms less" as JSON, and the proposal, as the last key of the plan. */
static json_t *advice_json(const step_job *job, const lzt_plan *plan)
{
    const lzt_step_advice *a = &job->advice;
    const lzt_numerics_proposal *p = &job->proposal;
    json_t *more = json_array();
    for (int r = 0; r < LZT_RESOURCE_COUNT; r++)
        json_array_append_new(
            more, json_pack("{s:s, s:s, s:b, s:f, s:f}", "resource", lzt_resource_name((lzt_resource)r), "unit",
                            lzt_resource_unit((lzt_resource)r), "capped", a->capped[r], "step_ms",
                            lzt_ms(a->more_ps[r]), "saves_ms", lzt_ms(plan->objective_ps) - lzt_ms(a->more_ps[r])));
    json_t *out = json_pack("{s:s, s:o, s:f, s:f, s:f, s:f}", "binds", lzt_resource_name(a->binds), "one_more", more,
                            "internals_to_host_ms", a->internals_trip_ms, "internals_again_ms", a->internals_again_ms,
                            "internals_to_nvme_ms", a->internals_drive_ms, "boundary_to_nvme_ms", a->boundary_drive_ms);
    if (!p->objective_ps) {
        json_object_set_new(out, "proposed_numerics", json_null());
        return out;
    }
    json_object_set_new(out, "proposed_numerics",
                        json_pack("{s:I, s:I, s:I, s:I, s:f, s:I}", "micro_batch_tokens",
                                  (json_int_t)p->numerics.micro_batch_tokens, "micro_batches",
                                  (json_int_t)p->micro_batches, "loss_chunk", (json_int_t)p->numerics.loss_chunk,
                                  "layer_splits", (json_int_t)(p->numerics.layer_splits ? p->numerics.layer_splits : 1),
                                  "step_ms", lzt_ms(p->objective_ps), "device_bytes", (json_int_t)p->device_bytes));
    return out;
}

/* plan.json with one more key, which readers of plans leave aside. */
static lzt_status print_json(const step_job *job, const lzt_plan *plan, lzt_error *err)
{
    char *text;
    lzt_status status = lzt_plan_print(plan, &text, err);
    if (status) return status;
    json_t *advice = job->advised ? advice_json(job, plan) : NULL;
    char *extra = advice ? json_dumps(advice, JSON_REAL_PRECISION(12)) : NULL;
    size_t length = strlen(text);
    if (extra && length > 3 && !strcmp(text + length - 3, "\n}\n"))
        printf("%.*s,\n  \"advice\": %s\n}\n", (int)(length - 3), text, extra);
    else
        fputs(text, stdout);
    free(extra);
    json_decref(advice);
    free(text);
    return LZT_OK;
}

static void print_advice(const step_job *job, const lzt_plan *plan)
{
    const lzt_step_advice *a = &job->advice;
    const lzt_numerics_proposal *p = &job->proposal;
    printf("\nWhat binds: %s. One more of each, the plan found anew:\n", lzt_resource_name(a->binds));
    for (int r = 0; r < LZT_RESOURCE_COUNT; r++) {
        double saves = lzt_ms(plan->objective_ps) - lzt_ms(a->more_ps[r]);
        printf("  +1 %-6s %-22s", lzt_resource_unit((lzt_resource)r), lzt_resource_name((lzt_resource)r));
        if (a->capped[r])
            printf(" %12.3f ms, %.3f ms less\n", lzt_ms(a->more_ps[r]), saves);
        else
            printf(" has no cap\n");
    }
    printf("\nA layer's internals take %.3f ms of copies to the host and back; made again, %.3f ms of compute.\n",
           a->internals_trip_ms, a->internals_again_ms);
    if (a->boundary_drive_ms > 0)
        printf("Not executed yet, so no plan has it: the drive. There and back %.3f ms a layer's internals, %.3f ms a "
               "boundary (to the host and back %.3f).\n",
               a->internals_drive_ms, a->boundary_drive_ms,
               lzt_ms(plan->step->boundary_down_ps + plan->step->boundary_up_ps));
    if (!p->objective_ps) {
        printf("\nNumerics: no others that were tried are faster.\n");
        return;
    }
    printf("\nProposed numerics (they change the bits of the result; train takes them with numerics.auto: true):\n"
           "  micro_batch_tokens %" PRIu64 " in %" PRIu64 " micro-batch%s, loss_chunk %" PRIu64
           ", layer_splits %" PRIu64 ": %.3f ms, %.3f ms less\n",
           p->numerics.micro_batch_tokens, p->micro_batches, p->micro_batches > 1 ? "es" : "", p->numerics.loss_chunk,
           p->numerics.layer_splits ? p->numerics.layer_splits : 1, lzt_ms(p->objective_ps),
           lzt_ms(plan->objective_ps) - lzt_ms(p->objective_ps));
}

static lzt_status no_plan(const step_job *job, const lzt_step_plan_result *r, lzt_error *err)
{
    static const char *const names[LZT_STEP_MEMORY_COUNT] = {"device", "host"}, *const options[] = {"peak-cap-gb",
                                                                                                    "host-cap-gb"};
    const uint64_t cap[LZT_STEP_MEMORY_COUNT] = {job->caps.device_bytes, job->caps.host_bytes};
    int k = cap[0] && r->least_bytes[0] > cap[0] ? 0 : 1;
    bool limit = r->status == LZT_PLAN_LIMIT, both = !cap[k] || r->least_bytes[k] <= cap[k];
    uint64_t missing = both || limit ? 0 : r->least_bytes[k] - cap[k];
    if (job->json) {
        json_t *out =
            json_pack("{s:s, s:s, s:s, s:I, s:f}", "status", lzt_plan_status_name(r->status), "solver", "step",
                      "resource", names[k], "missing_bytes", (json_int_t)missing, "solve_seconds", r->solve_seconds);
        lzt_status status = lzt_talk_json(out, err);
        if (status) return status;
    }
    if (limit) {
        lzt_fail(err, LZT_ERR_NO_PLAN, "plan", "the limit was reached after %.1f s without a plan", r->solve_seconds);
        return lzt_hint(err, "raise --work-limit or --time-limit-sec; 0: no limit");
    }
    if (both)
        lzt_fail(err, LZT_ERR_NO_PLAN, "plan", "no placement fits the device and the host together");
    else
        lzt_fail(err, LZT_ERR_NO_PLAN, "plan", "the %s needs at least %" PRIu64 " bytes, %" PRIu64 " more than its cap",
                 names[k], r->least_bytes[k], missing);
    return lzt_hint(err, "raise --%s, lower --loss-chunk, or shorten the micro-batch", options[k]);
}

/* ---- once ---- */

static lzt_status advise(const lzt_args *args, step_job *job, const lzt_plan *plan, lzt_error *err)
{
    if (lzt_args_flag(args, "no-advice")) return LZT_OK;
    lzt_status status = lzt_step_advise(job->search, &job->caps, plan, &job->advice, err);
    if (!status)
        status = lzt_step_propose(&job->options, &job->caps, LZT_PROPOSE_ALL, plan->objective_ps, &job->proposal, err);
    job->advised = !status;
    return status;
}

static lzt_status plan_once(const lzt_args *args, step_job *job, lzt_error *err)
{
    const char *output = lzt_args_text(args, "output");
    lzt_step_plan_result result;
    lzt_plan plan;
    char *text = NULL;
    lzt_status status = lzt_step_search_solve(job->search, &job->caps, &plan, &result, err);
    if (status) return status;
    if (!plan.boundary) return no_plan(job, &result, err);
    snprintf(plan.model_name, sizeof plan.model_name, "%s", lzt_args_text(args, "model"));
    if (output) status = lzt_plan_write(output, &plan, err);
    if (!status && lzt_args_given(args, "html")) status = lzt_plan_report(&plan, lzt_args_text(args, "html"), err);
    if (!status) status = advise(args, job, &plan, err);
    if (!status && job->json) status = print_json(job, &plan, err);
    if (!status && !job->json) status = lzt_plan_explain(&plan, &text, err);
    if (!status && text) {
        printf("%s\nAttention is priced for %" PRIu64 " rows of %" PRIu64
               " tokens, a document each: shorter or packed ones "
               "take less. Every tensor is trained.\n",
               text, job->options.price.documents, job->options.price.tokens / job->options.price.documents);
        printf("%" PRIu64 " of %" PRIu64 " candidates compiled and simulated: %.3g million tasks\n", result.simulated,
               result.candidates, (double)result.work * 1e-6);
        if (job->advised) print_advice(job, &plan);
    }
    free(text);
    lzt_plan_fini(&plan);
    return status;
}

/* ---- a sweep ---- */

typedef struct sweep_row {
    double gib;
    lzt_step_plan_result result;
    uint64_t device_bytes, host_bytes, internals[LZT_TIER_COUNT], weights, tier[LZT_TIER_COUNT];
} sweep_row;

static lzt_status solve_row(step_job *job, const lzt_sweep *sweep, sweep_row *row, lzt_error *err)
{
    lzt_step_caps caps = job->caps;
    lzt_plan plan;
    *(strcmp(sweep->tier, "gpu") ? &caps.host_bytes : &caps.device_bytes) = gib_bytes(row->gib);
    lzt_status status = lzt_step_search_solve(job->search, &caps, &plan, &row->result, err);
    if (status || !plan.boundary) return status;
    row->device_bytes = plan.device_bytes;
    row->host_bytes = plan.host_bytes;
    for (uint64_t i = 0; i <= plan.layer_count; i++) row->tier[plan.boundary[i]]++;
    for (uint64_t i = 0; i < plan.layer_count; i++) {
        row->internals[plan.internals[i]]++;
        row->weights += plan.weights[i];
    }
    lzt_plan_fini(&plan);
    return LZT_OK;
}

static json_t *row_json(const sweep_row *r)
{
    return json_pack("{s:f, s:s, s:f, s:f, s:I, s:I, s:f, s:{s:I, s:I, s:I, s:I, s:I, s:I}}", "budget_gib", r->gib,
                     "status", lzt_plan_status_name(r->result.status), "objective_ms", lzt_ms(r->result.objective_ps),
                     "bound_ms", lzt_ms(r->result.bound_ps), "device_bytes", (json_int_t)r->device_bytes, "host_bytes",
                     (json_int_t)r->host_bytes, "solve_seconds", r->result.solve_seconds, "counts", "gpu",
                     (json_int_t)r->tier[LZT_TIER_GPU], "cpu", (json_int_t)r->tier[LZT_TIER_CPU], "recomputed",
                     (json_int_t)r->tier[LZT_TIER_RECOMPUTE], "internals", (json_int_t)r->internals[LZT_TIER_GPU],
                     "internals_cpu", (json_int_t)r->internals[LZT_TIER_CPU], "weights", (json_int_t)r->weights);
}

static void print_rows(const lzt_sweep *sweep, const sweep_row *rows, int count)
{
    printf("%s GiB      Step ms     Bound ms   Device MiB     Host MiB   GPU   CPU Again Internals  Hosted Weights  "
           "Status\n",
           sweep->tier);
    for (int i = 0; i < count; i++) {
        const sweep_row *r = &rows[i];
        printf("%-9.6g %10.3f %12.3f %12.1f %12.1f %5" PRIu64 " %5" PRIu64 " %5" PRIu64 " %9" PRIu64 " %7" PRIu64
               " %7" PRIu64 "  %s\n",
               r->gib, lzt_ms(r->result.objective_ps), r->device_bytes ? lzt_ms(r->result.bound_ps) : 0,
               (double)r->device_bytes / 1048576.0, (double)r->host_bytes / 1048576.0, r->tier[LZT_TIER_GPU],
               r->tier[LZT_TIER_CPU], r->tier[LZT_TIER_RECOMPUTE], r->internals[LZT_TIER_GPU],
               r->internals[LZT_TIER_CPU], r->weights, lzt_plan_status_name(r->result.status));
    }
}

static lzt_status plan_sweep(step_job *job, const lzt_sweep *sweep, lzt_error *err)
{
    int count = (int)floor((sweep->to - sweep->from) / sweep->step + 1e-9) + 1;
    if (!strcmp(sweep->tier, "nvme")) {
        lzt_fail(err, LZT_ERR_USAGE, "--sweep", "nvme: the step program cannot execute that tier yet");
        return lzt_hint(err, "sweep gpu (the device's cap) or cpu (the host's)");
    }
    sweep_row *rows = calloc((size_t)count, sizeof *rows);
    lzt_status status = rows ? LZT_OK : lzt_fail(err, LZT_ERR_NO_MEMORY, "--sweep", "no memory for %d rows", count);
    for (int i = 0; !status && i < count; i++) {
        rows[i].gib = sweep->from + i * sweep->step;
        status = solve_row(job, sweep, &rows[i], err);
    }
    if (!status && job->json) {
        json_t *list = json_array();
        for (int i = 0; i < count; i++) json_array_append_new(list, row_json(&rows[i]));
        status = lzt_talk_json(json_pack("{s:s, s:o}", "tier", sweep->tier, "rows", list), err);
    } else if (!status) {
        print_rows(sweep, rows, count);
    }
    free(rows);
    return status;
}

lzt_status lzt_plan_step(const lzt_args *args, const lzt_model_info *model, const lzt_sweep *sweep, lzt_error *err)
{
    step_job job = {0};
    lzt_status status = read_job(args, model, &job, err);
    if (!status) status = lzt_step_search_create(&job.options, &job.search, err);
    if (!status) status = sweep ? plan_sweep(&job, sweep, err) : plan_once(args, &job, err);
    free_job(&job);
    return status;
}
