/* The engine: compiles, reserves, submits and waits. See lazytrain/run.h. */
#include "run/engine.h"

#include "base/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- creation ---- */

static lzt_status compile(lzt_engine *engine, const lzt_engine_options *options, lzt_variant variant, bool update,
                          lzt_program **program, lzt_error *err)
{
    lzt_step_options step = {.model = engine->info,
                             .plan = &engine->plan,
                             .layout = engine->layout,
                             .kern = engine->kern,
                             .variant = variant,
                             .update = update,
                             .logits = options->logits,
                             .cache = options->cache,
                             .micro_batches = options->micro_batches,
                             .frozen = engine->frozen};
    lzt_status status = lzt_step_compile(&step, program, err);
    if (status) return status;
    const lzt_program_info *info = lzt_program_get_info(*program);
    for (int space = 0; space < LZT_SPACE_COUNT; space++)
        if (info->peak_bytes[space] > engine->planned_bytes[space])
            engine->planned_bytes[space] = info->peak_bytes[space];
    return LZT_OK;
}

static bool wanted(const lzt_engine_options *options, lzt_variant variant, bool update)
{
    bool many = options->micro_batches > 1;
    switch (variant) {
    case LZT_VARIANT_SINGLE: return options->training;
    case LZT_VARIANT_FIRST:
    case LZT_VARIANT_MIDDLE:
    case LZT_VARIANT_LAST: return options->training && many && !(update && variant != LZT_VARIANT_FIRST);
    case LZT_VARIANT_DRAIN: return options->training && update;
    case LZT_VARIANT_EVALUATE: return !update;
    case LZT_VARIANT_PREFILL:
    case LZT_VARIANT_DECODE: return options->cache.sequences && !update;
    case LZT_VARIANT_COUNT: break;
    }
    return false;
}

static lzt_status reserve(lzt_engine *engine, lzt_error *err)
{
    lzt_dev_info info;
    lzt_dev_get_info(engine->dev, &info);
    static const char *const keys[LZT_SPACE_COUNT] = {"device_cap", "host_cap"};
    for (int space = 0; space < LZT_SPACE_COUNT; space++) {
        uint64_t need = engine->planned_bytes[space], cap = info.cap_bytes[space];
        if (cap && need > cap)
            return lzt_fail(err, LZT_ERR_NO_PLAN, "memory", "%s: needs at least %llu bytes, %llu are allowed",
                            keys[space], (unsigned long long)need, (unsigned long long)cap);
        lzt_status status = lzt_dev_reserve(engine->dev, (lzt_space)space, need, err);
        if (status) return status;
    }
    return LZT_OK;
}

static lzt_status make_streams(lzt_engine *engine, lzt_error *err)
{
    static const lzt_lane lanes[] = {LZT_LANE_COMPUTE, LZT_LANE_H2D, LZT_LANE_D2H, LZT_LANE_CPU_OPTIMIZER,
                                     LZT_LANE_DATA};
    lzt_status status = LZT_OK;
    for (size_t i = 0; i < sizeof lanes / sizeof *lanes && !status; i++)
        status = lzt_dev_stream_create(engine->dev, lanes[i], &engine->stream[lanes[i]], err);
    return status;
}

static lzt_status compile_all(lzt_engine *engine, const lzt_engine_options *options,
                              lzt_program *programs[LZT_VARIANT_COUNT][2], lzt_error *err)
{
    lzt_status status = LZT_OK;
    for (int v = 0; v < LZT_VARIANT_COUNT && !status; v++)
        for (int update = 0; update < 2 && !status; update++)
            if (wanted(options, (lzt_variant)v, update))
                status = compile(engine, options, (lzt_variant)v, update, &programs[v][update], err);
    return status;
}

static lzt_status bind_all(lzt_engine *engine, const lzt_engine_options *options,
                           lzt_program *programs[LZT_VARIANT_COUNT][2], lzt_error *err)
{
    lzt_status status = LZT_OK;
    for (int v = 0; v < LZT_VARIANT_COUNT && !status; v++)
        for (int update = 0; update < 2 && !status; update++) {
            if (!programs[v][update]) continue;
            int32_t drop = v == LZT_VARIANT_SINGLE && !update ? options->drop_dependency : -1;
            status = lzt__bind(engine, programs[v][update], drop, &engine->bound[v][update], err);
            if (!status) programs[v][update] = NULL; /* the bound program owns it */
        }
    return status;
}

static lzt_status copy_frozen(lzt_engine *engine, const lzt_engine_options *options, lzt_error *err)
{
    engine->frozen = calloc(engine->info->tensor_count, sizeof *engine->frozen);
    if (!engine->frozen) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the list of frozen tensors");
    for (uint32_t i = 0; i < engine->info->tensor_count; i++) engine->frozen[i] = options->frozen && options->frozen[i];
    return LZT_OK;
}

lzt_status lzt_engine_create(const lzt_engine_options *options, lzt_engine **out, lzt_error *err)
{
    assert(options->struct_bytes == sizeof *options && options->micro_batches > 0);
    lzt_program *programs[LZT_VARIANT_COUNT][2] = {{NULL}};
    lzt_engine *engine = calloc(1, sizeof *engine);
    if (!engine) {
        lzt_dev_destroy(options->dev);
        lzt_kern_destroy(options->kern);
        return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for an engine");
    }
    engine->model = options->model;
    engine->info = lzt_model_get_info(options->model);
    engine->dev = options->dev;
    engine->kern = options->kern;
    engine->training = options->training;
    engine->cache = options->cache;
    lzt_status status = lzt_plan_copy(&engine->plan, options->plan, err);
    const lzt_numerics *numerics = &engine->plan.numerics;
    if (!status) status = copy_frozen(engine, options, err);
    lzt_optim_options optim = LZT_OPTIM_OPTIONS_INIT;
    optim.threads = (uint32_t)numerics->threads;
    if (!status) status = lzt_optim_create(&optim, &engine->optim, err);
    if (!status) status = lzt_state_layout_create(engine->info, numerics, options->training, &engine->layout, err);
    if (!status) engine->planned_bytes[LZT_SPACE_HOST] = engine->layout->bytes;
    if (!status) status = compile_all(engine, options, programs, err);
    if (!status) status = reserve(engine, err);
    if (!status) status = make_streams(engine, err);
    if (!status) status = bind_all(engine, options, programs, err);
    for (int v = 0; v < LZT_VARIANT_COUNT; v++)
        for (int update = 0; update < 2; update++) lzt_program_destroy(programs[v][update]);
    if (status) {
        lzt_engine_destroy(engine);
        return status;
    }
    memcpy(lzt__host(engine, engine->layout->inv_freq_offset), engine->info->inv_freq,
           engine->info->rotary_dim / 2 * sizeof(float));
    memset(lzt__host(engine, engine->layout->partials_offset), 0, sizeof(double) * engine->layout->unit_count);
    *out = engine;
    return LZT_OK;
}

void lzt_engine_destroy(lzt_engine *engine)
{
    if (!engine) return;
    lzt_dev_destroy(engine->dev); /* first: works may still be running */
    for (int v = 0; v < LZT_VARIANT_COUNT; v++)
        for (int update = 0; update < 2; update++) lzt__bound_destroy(engine->bound[v][update]);
    lzt_kern_destroy(engine->kern);
    lzt_optim_destroy(engine->optim);
    lzt_state_layout_destroy(engine->layout);
    free(engine->frozen);
    lzt_plan_fini(&engine->plan);
    free(engine);
}

/* ---- what changes from step to step ---- */

/* The descriptor and the ids of a program that holds T tokens. by_document: what stands in the targets' place. */
static void write_batch(lzt_engine *engine, uint64_t T, const lzt_micro_batch *batch, float loss_scale,
                        const int32_t *by_document)
{
    uint64_t n = batch->token_count, d = batch->document_count;
    assert(n >= 1 && n <= T && d >= 1 && d <= n);
    char *descriptor = lzt__host(engine, engine->layout->descriptor_offset);
    *(lzt_batch_header *)descriptor = (lzt_batch_header){.token_count = (uint32_t)n,
                                                         .document_count = (uint32_t)d,
                                                         .loss_token_count = (uint32_t)batch->loss_count,
                                                         .loss_scale = loss_scale};
    memcpy(lzt_batch_position(descriptor), batch->position, n * sizeof(int32_t));
    if (by_document)
        memcpy(lzt_batch_sequence(descriptor, T), by_document, d * sizeof(int32_t));
    else {
        memcpy(lzt_batch_target(descriptor, T), batch->target, n * sizeof(int32_t));
        memcpy(lzt_batch_weight(descriptor, T), batch->weight, n * sizeof(float));
    }
    memcpy(lzt_batch_document(descriptor, T), batch->document_begin, (d + 1) * sizeof(int32_t));
    int32_t *ids = lzt__host(engine, engine->layout->ids_offset);
    ids[0] = (int32_t)n;
    memcpy(ids + 1, batch->ids, n * sizeof(int32_t));
}

void lzt_engine_set_batch(lzt_engine *engine, const lzt_micro_batch *batch, float loss_scale)
{
    write_batch(engine, engine->plan.numerics.micro_batch_tokens, batch, loss_scale, NULL);
}

void lzt_engine_set_sequences(lzt_engine *engine, lzt_variant variant, const lzt_micro_batch *batch,
                              const int32_t *sequence)
{
    bool decode = variant == LZT_VARIANT_DECODE;
    assert(decode || variant == LZT_VARIANT_PREFILL);
    write_batch(engine, decode ? engine->cache.sequences : engine->cache.prompt_tokens, batch, 0.0f, sequence);
}

static lzt_step_scalars *scalars(const lzt_engine *engine, uint64_t offset)
{
    return lzt__host(engine, offset);
}

/* What CLIP wrote for the pending step moves, once, to where ADAMW reads it. */
static void move_pending_scalars(lzt_engine *engine)
{
    if (!engine->pending || engine->pending_moved) return;
    *scalars(engine, engine->layout->pending_offset) = *scalars(engine, engine->layout->current_offset);
    engine->pending_moved = true;
}

void lzt_engine_set_scalars(lzt_engine *engine, const lzt_step_scalars *values)
{
    move_pending_scalars(engine);
    *scalars(engine, engine->layout->current_offset) = *values;
}

/* ---- running ---- */

static lzt_status submit_all(lzt_engine *engine, lzt_bound *bound, lzt_error *err)
{
    const lzt_program_info *p = lzt_program_get_info(bound->program);
    for (uint32_t i = 0; i < p->task_count; i++) {
        const lzt_task *t = &p->task[i];
        lzt_work *work = &bound->work[i];
        lzt_wait *wait = &bound->wait[t->first_dependency];
        /* A dropped dependency leaves fewer waits than dependencies: match them by stream. */
        for (uint32_t k = 0, w = 0; k < t->dependency_count && w < work->wait_count; k++) {
            uint32_t d = p->dependency[t->first_dependency + k];
            if (wait[w].stream == engine->stream[p->task[d].lane]) wait[w++].sequence = bound->sequence[d];
        }
        lzt_status status = lzt_dev_submit(engine->dev, engine->stream[t->lane], work, &bound->sequence[i], err);
        if (status) return status;
        engine->submitted[t->lane] = bound->sequence[i];
    }
    return LZT_OK;
}

static lzt_status run_bound(lzt_engine *engine, lzt_bound *bound, lzt_account *account, lzt_error *err)
{
    bound->begin_ns = lzt__clock_ns();
    lzt_status status = submit_all(engine, bound, err);
    for (int lane = 0; lane < LZT_LANE_COUNT; lane++)
        if (engine->submitted[lane]) {
            lzt_error ignored;
            lzt_status waited =
                lzt_dev_wait(engine->dev, engine->stream[lane], engine->submitted[lane], status ? &ignored : err);
            if (!status) status = waited;
        }
    bound->end_ns = lzt__clock_ns();
    if (!status && account) /* the sequences are not needed any more: their place is scratch */
        lzt_program_account(bound->program, bound->work, bound->begin_ns, bound->end_ns, (uint32_t *)bound->sequence,
                            account);
    return status;
}

lzt_status lzt_engine_run(lzt_engine *engine, lzt_variant variant, lzt_run_result *result, lzt_error *err)
{
    bool begins = variant == LZT_VARIANT_SINGLE || variant == LZT_VARIANT_FIRST;
    bool ends = variant == LZT_VARIANT_SINGLE || variant == LZT_VARIANT_LAST;
    bool generates = variant == LZT_VARIANT_PREFILL || variant == LZT_VARIANT_DECODE;
    assert(!((generates || variant == LZT_VARIANT_EVALUATE) && engine->pending)); /* drain first */
    assert(variant != LZT_VARIANT_DECODE || engine->cache_stands);
    engine->cache_stands = generates;
    lzt_bound *bound = engine->bound[variant][begins && engine->pending];
    assert(bound);
    memset(result, 0, sizeof *result);
    lzt_status status = run_bound(engine, bound, &result->account, err);
    if (status) return status;
    if (begins) engine->pending = false;
    const char *out = lzt__host(engine, engine->layout->result_offset);
    memcpy(&result->loss_sum, out, sizeof result->loss_sum);
    if (generates) {
        result->ids = (const int32_t *)(out + 64);
        result->logits = lzt__host(engine, engine->layout->logits_offset);
    }
    if (ends) {
        const lzt_step_scalars *s = scalars(engine, engine->layout->current_offset);
        result->grad_norm = s->grad_norm;
        result->finite = !s->skip;
        engine->pending = true;
        engine->pending_moved = false;
    }
    return LZT_OK;
}

lzt_status lzt_engine_drain(lzt_engine *engine, lzt_account *account, lzt_error *err)
{
    if (account) memset(account, 0, sizeof *account);
    if (!engine->pending) return LZT_OK;
    move_pending_scalars(engine);
    lzt_status status = run_bound(engine, engine->bound[LZT_VARIANT_DRAIN][1], account, err);
    if (!status) engine->pending = false;
    return status;
}

bool lzt_engine_pending(const lzt_engine *engine)
{
    return engine->pending;
}

void lzt_engine_abandon(lzt_engine *engine)
{
    engine->pending = false;
}

/* ---- queries ---- */

void lzt_engine_get_info(const lzt_engine *engine, lzt_engine_info *info)
{
    *info = (lzt_engine_info){.plan = &engine->plan,
                              .model = engine->info,
                              .state_bytes = engine->layout->state_bytes,
                              .frozen = engine->frozen,
                              .cache = engine->cache};
    memcpy(info->planned_bytes, engine->planned_bytes, sizeof info->planned_bytes);
}

lzt_dev *lzt_engine_dev(const lzt_engine *engine)
{
    return engine->dev;
}

const lzt_program *lzt_engine_program(const lzt_engine *engine, lzt_variant variant, bool update)
{
    const lzt_bound *bound = engine->bound[variant][update];
    return bound ? bound->program : NULL;
}

bool lzt_engine_has_run(const lzt_engine *engine, lzt_variant variant, bool update)
{
    const lzt_bound *bound = engine->bound[variant][update];
    return bound && bound->end_ns > 0;
}

void lzt_engine_times(const lzt_engine *engine, lzt_variant variant, bool update, double *start, double *end)
{
    const lzt_bound *bound = engine->bound[variant][update];
    const lzt_program_info *p = lzt_program_get_info(bound->program);
    for (uint32_t i = 0; i < p->task_count; i++) {
        if (start) start[i] = (double)(bound->work[i].start_ns - bound->begin_ns) * 1e-9;
        if (end) end[i] = (double)(bound->work[i].end_ns - bound->begin_ns) * 1e-9;
    }
}
