/* From the source's options to a problem and a plan: "How the source derives its inputs" of the planner's spec. */
#include "lazytrain/solve.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB          1073741824.0
#define BYTES_MAX    (UINT64_C(1) << 60)
#define COUNT_MAX    (UINT64_C(1) << 40)
#define DTYPE_MAX    UINT64_C(8) /* what a plan.json holds; as MS_MAX is of a layer */
#define GIB_MAX      1e9
#define MS_MAX       1e6
#define GBPS_MAX     1e6
#define FACTOR_MAX   1e6
#define HYBRID_ADAM  "hybrid_8bit_adam"
#define OUT_OF_RANGE "is %g, must be %g to %g"

static lzt_status check_real(const char *name, double value, double min, double max, lzt_error *err)
{
    if (value >= min && value <= max) return LZT_OK;
    return lzt_fail(err, LZT_ERR_USAGE, name, OUT_OF_RANGE, value, min, max);
}

static lzt_status check_count(const char *name, uint64_t value, uint64_t max, lzt_error *err)
{
    if (value >= 1 && value <= max) return LZT_OK;
    return lzt_fail(err, LZT_ERR_USAGE, name, "is %" PRIu64 ", must be 1 to %" PRIu64, value, max);
}

static lzt_status check_options(const lzt_source_options *o, lzt_error *err)
{
    const struct {
        const char *name;
        double value, min, max;
    } reals[] = {
        {"--peak-cap-gb", o->peak_cap_gib, 0, GIB_MAX},
        {"--baseline-peak-gb", o->baseline_peak_gib, 0, GIB_MAX},
        {"--cpu-activation-budget-gb", o->cpu_activation_budget_gib, 0, GIB_MAX},
        {"--nvme-activation-budget-gb", o->nvme_activation_budget_gib, 0, GIB_MAX},
        {"--layer-recompute-ms", o->layer_recompute_ms, 0, MS_MAX},
        {"--linear-recompute-ratio", o->linear_recompute_ratio, 0, FACTOR_MAX},
        {"--activation-comm-capacity-fraction", o->activation_comm_capacity_fraction, 0, FACTOR_MAX},
        {"--activation-comm-window-ms-scale", o->activation_comm_window_ms_scale, 0, FACTOR_MAX},
        {"--nvme-comm-capacity-fraction", o->nvme_comm_capacity_fraction, 0, FACTOR_MAX},
        {"--nvme-comm-window-ms-scale", o->nvme_comm_window_ms_scale, 0, FACTOR_MAX},
        {"--activation-h2d-bandwidth-gbps", o->activation_h2d_bandwidth_gbps, 1e-6, GBPS_MAX},
        {"--activation-d2h-bandwidth-gbps", o->activation_d2h_bandwidth_gbps, 1e-6, GBPS_MAX},
        {"--nvme-read-bandwidth-gbps", o->nvme_read_bandwidth_gbps, 1e-6, GBPS_MAX},
        {"--nvme-write-bandwidth-gbps", o->nvme_write_bandwidth_gbps, 1e-6, GBPS_MAX},
        {"--optimizer-max-8bit-fraction", o->optimizer_max_8bit_fraction, 0, 1},
        {"--optimizer-alpha-step-sec", o->optimizer_alpha_step_sec, 0, MS_MAX},
        {"--optimizer-fast-grad-clip-saving-sec", o->optimizer_fast_grad_clip_saving_sec, 0, MS_MAX},
        {"--optimizer-full-8bit-extra-step-sec", o->optimizer_full_8bit_extra_step_sec, 0, MS_MAX},
        {"--hidden-nvme-offload-tiebreak-ms", o->hidden_nvme_offload_tiebreak_ms, 0, MS_MAX},
        {"--checkpoint-penalty", o->checkpoint_penalty, 0, MS_MAX},
    };
    lzt_status status = LZT_OK;
    for (size_t i = 0; !status && i < sizeof reals / sizeof *reals; i++)
        status = check_real(reals[i].name, reals[i].value, reals[i].min, reals[i].max, err);
    double linear_ms = o->layer_recompute_ms * o->linear_recompute_ratio;
    if (!status && linear_ms > MS_MAX)
        status = lzt_fail(err, LZT_ERR_USAGE, "--linear-recompute-ratio",
                          "is %g, which makes a linear-attention layer take %g ms, must be at most %g",
                          o->linear_recompute_ratio, linear_ms, MS_MAX);
    if (!status) status = check_count("--batch-size", o->batch_size, COUNT_MAX, err);
    if (!status) status = check_count("--max-seq-len", o->max_seq_len, COUNT_MAX, err);
    if (!status) status = check_count("--dtype-bytes", o->dtype_bytes, DTYPE_MAX, err);
    if (!status)
        status = check_count("--baseline-checkpoint-interval", o->baseline_checkpoint_interval, COUNT_MAX, err);
    if (!status) status = check_count("--max-segment-layers", o->max_segment_layers, COUNT_MAX, err);
    return status;
}

/* Nearest byte: GiB values of a few digits become the bytes that were meant. */
static uint64_t gib(double value)
{
    return (uint64_t)llround(value * GIB);
}

static uint64_t ps_of(double ms)
{
    return (uint64_t)llround(ms * 1e9);
}

/* a * b, saturating at BYTES_MAX + 1. */
static uint64_t product(uint64_t a, uint64_t b)
{
    uint64_t out;
    return __builtin_mul_overflow(a, b, &out) || out > BYTES_MAX ? BYTES_MAX + 1 : out;
}

static lzt_status set_boundaries(const lzt_model_info *model, const lzt_source_options *o, lzt_problem *p,
                                 lzt_error *err)
{
    uint64_t tokens = product(o->batch_size, o->max_seq_len);
    uint64_t bytes = product(product(tokens, model->hidden), o->dtype_bytes);
    if (product(bytes, p->layer_count + 1) > BYTES_MAX)
        return lzt_fail(err, LZT_ERR_USAGE, "--batch-size", "the activations of all boundaries exceed 2^60 bytes");
    for (uint64_t i = 0; i <= p->layer_count; i++) p->boundary_bytes[i] = bytes;
    /* what the baseline's own checkpoints occupy is free for ours */
    uint64_t baseline = (p->layer_count / o->baseline_checkpoint_interval + 1) * bytes;
    uint64_t have = gib(o->peak_cap_gib) + baseline, taken = gib(o->baseline_peak_gib);
    p->budget_bytes[LZT_TIER_GPU] = have > taken ? have - taken : 0;
    p->overdrawn_bytes = taken > have ? taken - have : 0;
    p->budget_bytes[LZT_TIER_CPU] = gib(o->cpu_activation_budget_gib);
    p->budget_bytes[LZT_TIER_NVME] = o->enable_nvme_offload ? gib(o->nvme_activation_budget_gib) : 0;
    return LZT_OK;
}

static uint64_t window_of(uint64_t recompute_ps, double scale, double fraction, uint64_t bytes_per_s)
{
    long double s = (long double)recompute_ps * 1e-12L * (long double)scale * (long double)fraction;
    long double bytes = s * (long double)bytes_per_s;
    return bytes > (long double)BYTES_MAX ? BYTES_MAX : (uint64_t)llroundl(bytes);
}

static void set_windows(const lzt_model_info *model, const lzt_source_options *o, lzt_problem *p)
{
    const double gbps[LZT_POOL_COUNT] = {o->activation_d2h_bandwidth_gbps, o->activation_h2d_bandwidth_gbps,
                                         o->nvme_write_bandwidth_gbps, o->nvme_read_bandwidth_gbps};
    for (uint64_t l = 0; l < p->layer_count; l++) {
        bool linear = model->layer[l].kind == LZT_LAYER_LINEAR_ATTENTION;
        p->recompute_ps[l] = ps_of(o->layer_recompute_ms * (linear ? o->linear_recompute_ratio : 1.0));
    }
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) {
        bool pcie = pool <= LZT_POOL_H2D;
        double scale = pcie ? o->activation_comm_window_ms_scale : o->nvme_comm_window_ms_scale;
        double fraction = pcie ? o->activation_comm_capacity_fraction : o->nvme_comm_capacity_fraction;
        p->bytes_per_s[pool] = (uint64_t)llround(gbps[pool] * 1e9);
        for (uint64_t l = 0; l < p->layer_count; l++)
            p->window_bytes[pool][l] = window_of(p->recompute_ps[l], scale, fraction, p->bytes_per_s[pool]);
    }
}

/* The source's estimate of one layer's parameters, the same for every kind of layer. */
static void set_mandatory(const lzt_model_info *model, const lzt_source_options *o, lzt_problem *p)
{
    if (!o->include_param_grad_pcie) return;
    const uint64_t h = model->hidden, kv = model->kv_heads * model->head_dim;
    uint64_t parameters = product(2 * h, h) + product(2 * h, kv) + product(3 * h, model->intermediate) + 2 * h;
    for (uint64_t l = 0; l < p->layer_count; l++)
        p->mandatory_bytes[LZT_POOL_D2H][l] = p->mandatory_bytes[LZT_POOL_H2D][l] = product(parameters, o->dtype_bytes);
}

static lzt_status set_locks(const lzt_source_options *o, lzt_problem *p, lzt_error *err)
{
    bool locks = o->lock_reference_edges || o->lock_reference_gpu_checkpoints;
    if (o->reference_schedule)
        return lzt_source_reference(o->reference_schedule, o->lock_reference_edges, o->lock_reference_gpu_checkpoints,
                                    p, err);
    if (!locks) return LZT_OK;
    lzt_fail(err, LZT_ERR_USAGE,
             o->lock_reference_edges ? "--lock-reference-edges" : "--lock-reference-gpu-checkpoints",
             "there is no reference schedule to lock to");
    return lzt_hint(err, "name one with --reference-schedule");
}

lzt_status lzt_source_problem(const lzt_model_info *model, const lzt_source_options *o, lzt_problem *problem,
                              lzt_error *err)
{
    assert(o->struct_bytes == sizeof *o);
    memset(problem, 0, sizeof *problem);
    lzt_status status = check_options(o, err);
    if (!status) status = lzt_problem_init(problem, model->layer_count, err);
    if (status) return status;
    problem->max_segment = o->max_segment_layers;
    problem->overlap_aware_pcie = o->enable_overlap_aware_offload;
    problem->overlap_aware_nvme = o->enable_overlap_aware_nvme;
    problem->tiebreak_ps = ps_of(o->hidden_nvme_offload_tiebreak_ms);
    problem->penalty_ps = ps_of(o->checkpoint_penalty);
    status = set_boundaries(model, o, problem, err);
    if (!status) {
        set_windows(model, o, problem);
        set_mandatory(model, o, problem);
        status = set_locks(o, problem, err);
    }
    if (!status) status = lzt_problem_validate(problem, err);
    if (status) lzt_problem_fini(problem);
    return status;
}

/* Predicted step of the source's optimizer note; it does not enter the objective. */
static double optimizer_step_s(const lzt_source_options *o)
{
    if (!o->optimizer_state_mode || strcmp(o->optimizer_state_mode, HYBRID_ADAM)) return o->optimizer_alpha_step_sec;
    return o->optimizer_alpha_step_sec - o->optimizer_fast_grad_clip_saving_sec +
           o->optimizer_max_8bit_fraction * o->optimizer_full_8bit_extra_step_sec;
}

static void describe(const lzt_model_info *model, const lzt_source_options *o, lzt_plan *plan)
{
    lzt_plan_source *s = &plan->source;
    const char *name = model->directory && model->directory[0] ? model->directory : model->architecture;
    snprintf(plan->model_name, sizeof plan->model_name, "%s", name ? name : "");
    plan->model_fingerprint = model->fingerprint;
    plan->numerics.micro_batch_tokens = o->batch_size * o->max_seq_len;
    plan->numerics.loss_chunk = plan->numerics.micro_batch_tokens < 1024 ? plan->numerics.micro_batch_tokens : 1024;
    plan->numerics.dtype = o->dtype_bytes == 2 ? LZT_DTYPE_BF16 : LZT_DTYPE_F32;
    plan->numerics.grad_dtype = plan->numerics.dtype;
    *s = (lzt_plan_source){.batch_size = o->batch_size,
                           .max_seq_len = o->max_seq_len,
                           .dtype_bytes = o->dtype_bytes,
                           .peak_cap_gib = o->peak_cap_gib,
                           .nvme_enabled = o->enable_nvme_offload,
                           .cpu_staging = o->cpu_staging,
                           .optimizer_8bit_fraction = o->optimizer_max_8bit_fraction,
                           .optimizer_step_s = optimizer_step_s(o)};
    snprintf(s->optimizer_mode, sizeof s->optimizer_mode, "%s", o->optimizer_state_mode ? o->optimizer_state_mode : "");
    snprintf(s->reference, sizeof s->reference, "%s", o->reference_schedule ? o->reference_schedule : "");
}

/* Moves the problem into a fresh plan that holds the solution. */
static lzt_status make_plan(lzt_problem *problem, lzt_plan *plan, const lzt_tier *boundary,
                            const lzt_solve_result *result, lzt_error *err)
{
    lzt_status status = lzt_plan_init(plan, problem->layer_count, err);
    if (status) return status;
    plan->problem = malloc(sizeof *plan->problem);
    if (!plan->problem) {
        lzt_plan_fini(plan);
        return lzt_fail(err, LZT_ERR_NO_MEMORY, "plan", "no memory for a plan");
    }
    *plan->problem = *problem;
    memset(problem, 0, sizeof *problem);
    memcpy(plan->boundary, boundary, (plan->layer_count + 1) * sizeof *boundary);
    plan->status = result->status;
    plan->objective_ps = result->objective_ps;
    plan->bound_ps = result->bound_ps;
    plan->solve_seconds = result->solve_seconds;
    snprintf(plan->solver, sizeof plan->solver, "%s", result->solver);
    return LZT_OK;
}

lzt_status lzt_source_plan(const lzt_model_info *model, const lzt_source_options *options,
                           const lzt_solve_options *solve, lzt_plan *plan, lzt_solve_result *result, lzt_error *err)
{
    lzt_problem problem;
    lzt_tier *boundary = NULL;
    memset(plan, 0, sizeof *plan);
    memset(result, 0, sizeof *result);
    lzt_status status = lzt_source_problem(model, options, &problem, err);
    if (status) return status;
    boundary = calloc(problem.layer_count + 1, sizeof *boundary);
    if (!boundary) status = lzt_fail(err, LZT_ERR_NO_MEMORY, "plan", "no memory for a plan");
    if (!status) status = lzt_solve(&problem, solve, boundary, result, err);
    if (!status && (result->status == LZT_PLAN_OPTIMAL || result->status == LZT_PLAN_FEASIBLE)) {
        status = make_plan(&problem, plan, boundary, result, err);
        if (!status) describe(model, options, plan);
    }
    free(boundary);
    lzt_problem_fini(&problem);
    return status;
}
