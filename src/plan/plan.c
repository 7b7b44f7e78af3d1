/* The plan as data: lifecycle, names, the baseline plan, the match against a model. Contract: lazytrain/plan.h. */
#include "lazytrain/plan.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *lzt_state_name(lzt_state_object object)
{
    static const char *const name[LZT_STATE_COUNT] = {"weights", "gradients", "master", "moments"};
    assert(object >= 0 && object < LZT_STATE_COUNT);
    return name[object];
}

const char *lzt_plan_status_name(lzt_plan_status status)
{
    static const char *const name[] = {"not solved", "optimal", "feasible", "infeasible", "limit"};
    assert(status >= LZT_PLAN_NOT_SOLVED && status <= LZT_PLAN_LIMIT);
    return name[status];
}

lzt_status lzt_plan_init(lzt_plan *plan, uint64_t layer_count, lzt_error *err)
{
    memset(plan, 0, sizeof *plan);
    if (layer_count < 1 || layer_count > LZT_PLAN_LAYERS_MAX)
        return lzt_fail(err, LZT_ERR_USAGE, "layers", "a plan has 1 to %" PRIu64 " layers, not %" PRIu64,
                        (uint64_t)LZT_PLAN_LAYERS_MAX, layer_count);
    plan->layer_count = layer_count;
    plan->numerics.dtype = plan->numerics.grad_dtype = LZT_DTYPE_F32;
    plan->prefetch_layers = plan->gradient_slots = plan->internals_stages = 1;
    plan->boundary = calloc(layer_count + 1, sizeof *plan->boundary);
    plan->internals = calloc(layer_count, sizeof *plan->internals);
    plan->weights = calloc(layer_count, sizeof *plan->weights);
    if (!plan->boundary || !plan->internals || !plan->weights) {
        lzt_plan_fini(plan);
        return lzt_fail(err, LZT_ERR_NO_MEMORY, "plan", "no memory for a plan of %" PRIu64 " layers", layer_count);
    }
    for (uint64_t l = 0; l < layer_count; l++) plan->internals[l] = LZT_TIER_RECOMPUTE;
    return LZT_OK;
}

void lzt_plan_fini(lzt_plan *plan)
{
    free(plan->boundary);
    free(plan->internals);
    free(plan->weights);
    free(plan->state);
    if (plan->problem) lzt_problem_fini(plan->problem);
    if (plan->step) lzt_step_model_fini(plan->step);
    free(plan->problem);
    free(plan->step);
    memset(plan, 0, sizeof *plan);
}

static lzt_status copy_problem(lzt_plan *to, const lzt_plan *from, lzt_error *err)
{
    if (!from->problem) return LZT_OK;
    to->problem = calloc(1, sizeof *to->problem);
    if (!to->problem) return lzt_fail(err, LZT_ERR_NO_MEMORY, "plan", "no memory to copy a plan");
    return lzt_problem_copy(to->problem, from->problem, err);
}

static lzt_status copy_step(lzt_plan *to, const lzt_plan *from, lzt_error *err)
{
    if (!from->step) return LZT_OK;
    to->step = calloc(1, sizeof *to->step);
    if (!to->step) return lzt_fail(err, LZT_ERR_NO_MEMORY, "plan", "no memory to copy a plan");
    return lzt_step_model_copy(to->step, from->step, err);
}

static lzt_status copy_state(lzt_plan *to, const lzt_plan *from, lzt_error *err)
{
    if (!from->state_count) return LZT_OK;
    to->state = malloc(from->state_count * sizeof *to->state);
    if (!to->state) return lzt_fail(err, LZT_ERR_NO_MEMORY, "plan", "no memory to copy a plan");
    memcpy(to->state, from->state, from->state_count * sizeof *to->state);
    to->state_count = from->state_count;
    return LZT_OK;
}

lzt_status lzt_plan_copy(lzt_plan *to, const lzt_plan *from, lzt_error *err)
{
    lzt_plan fresh;
    lzt_status status = lzt_plan_init(&fresh, from->layer_count, err);
    if (status) return status;
    memcpy(fresh.boundary, from->boundary, (from->layer_count + 1) * sizeof *fresh.boundary);
    memcpy(fresh.internals, from->internals, from->layer_count * sizeof *fresh.internals);
    memcpy(fresh.weights, from->weights, from->layer_count * sizeof *fresh.weights);
    *to = *from; /* every plain field; the owned ones follow */
    to->boundary = fresh.boundary;
    to->internals = fresh.internals;
    to->weights = fresh.weights;
    to->state = NULL;
    to->state_count = 0;
    to->problem = NULL;
    to->step = NULL;
    status = copy_state(to, from, err);
    if (!status) status = copy_problem(to, from, err);
    if (!status) status = copy_step(to, from, err);
    if (status) lzt_plan_fini(to);
    return status;
}

lzt_status lzt_plan_baseline(const lzt_model_info *model, const lzt_numerics *numerics, uint64_t checkpoint_interval,
                             lzt_plan *plan, lzt_error *err)
{
    memset(plan, 0, sizeof *plan);
    if (!checkpoint_interval)
        return lzt_fail(err, LZT_ERR_USAGE, "checkpoint_interval", "the interval between checkpoints is at least 1");
    lzt_status status = lzt_plan_init(plan, model->layer_count, err);
    if (status) return status;
    plan->model_fingerprint = model->fingerprint;
    plan->numerics = *numerics;
    const char *name = model->directory ? model->directory : model->architecture;
    size_t length = name ? strnlen(name, sizeof plan->model_name - 1) : 0;
    if (length) memcpy(plan->model_name, name, length);
    for (uint64_t i = 1; i < plan->layer_count; i++)
        plan->boundary[i] = i % checkpoint_interval ? LZT_TIER_RECOMPUTE : LZT_TIER_GPU;
    return LZT_OK;
}

uint64_t lzt_plan_layer_forwards(const lzt_plan *plan)
{
    uint64_t count = plan->layer_count;
    for (uint64_t i = 1; i <= plan->layer_count; i++) count += plan->boundary[i] == LZT_TIER_RECOMPUTE;
    for (uint64_t i = 0; i < plan->layer_count; i++) count += plan->internals[i] == LZT_TIER_RECOMPUTE;
    return count;
}

static bool is_compute_dtype(lzt_dtype dtype)
{
    return dtype == LZT_DTYPE_F32 || dtype == LZT_DTYPE_BF16;
}

static lzt_status match_numerics(const lzt_numerics *n, lzt_error *err)
{
    if (!n->micro_batch_tokens)
        return lzt_fail(err, LZT_ERR_USAGE, "numerics.micro_batch_tokens", "is 0, must be at least 1");
    if (!n->loss_chunk) return lzt_fail(err, LZT_ERR_USAGE, "numerics.loss_chunk", "is 0, must be at least 1");
    if (!is_compute_dtype(n->dtype))
        return lzt_fail(err, LZT_ERR_USAGE, "numerics.dtype", "is %s, must be F32 or BF16", lzt_dtype_name(n->dtype));
    if (!is_compute_dtype(n->grad_dtype))
        return lzt_fail(err, LZT_ERR_USAGE, "numerics.grad_dtype", "is %s, must be F32 or BF16",
                        lzt_dtype_name(n->grad_dtype));
    return LZT_OK;
}

static lzt_status match_state(const lzt_plan *plan, const lzt_model_info *model, lzt_error *err)
{
    for (uint64_t i = 0; i < plan->state_count; i++)
        if (plan->state[i].unit >= model->unit_count)
            return lzt_fail(err, LZT_ERR_USAGE, "state", "places %s of unit %" PRIu64 ", but the model has %u units",
                            lzt_state_name(plan->state[i].object), plan->state[i].unit, model->unit_count);
    return LZT_OK;
}

lzt_status lzt_plan_match(const lzt_plan *plan, const lzt_model_info *model, lzt_error *err)
{
    assert(plan->boundary && model);
    if (plan->layer_count != model->layer_count)
        return lzt_fail(err, LZT_ERR_USAGE, "model.layers", "the plan has %" PRIu64 " layers, the model %" PRIu64,
                        plan->layer_count, model->layer_count);
    if (plan->model_fingerprint != model->fingerprint) {
        lzt_fail(err, LZT_ERR_USAGE, "model.fingerprint",
                 "the plan was made for a model with fingerprint %016" PRIx64 " (%s), this one has %016" PRIx64,
                 plan->model_fingerprint, plan->model_name, model->fingerprint);
        lzt_hint(err, "plan this model anew; a plan belongs to one architecture and its shapes");
        return LZT_ERR_USAGE;
    }
    for (uint64_t i = 0; i <= plan->layer_count; i += plan->layer_count)
        if (plan->boundary[i] != LZT_TIER_GPU && (i || plan->boundary[i] != LZT_TIER_RECOMPUTE))
            return lzt_fail(err, LZT_ERR_USAGE, "boundaries",
                            "boundary %" PRIu64 " is %s; the last stays on the device, the first there or is recompute",
                            i, lzt_tier_name(plan->boundary[i]));
    if (!plan->prefetch_layers) return lzt_fail(err, LZT_ERR_USAGE, "prefetch_layers", "is 0, must be at least 1");
    if (!plan->gradient_slots) return lzt_fail(err, LZT_ERR_USAGE, "gradient_slots", "is 0, must be at least 1");
    lzt_status status = match_numerics(&plan->numerics, err);
    return status ? status : match_state(plan, model, err);
}
