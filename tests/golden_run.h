/* Shared by the tests that train small models through the engine: a golden case, a device, an engine. */
#ifndef LZT_TESTS_GOLDEN_RUN_H
#define LZT_TESTS_GOLDEN_RUN_H

#include "lazytrain/auto_plan.h"
#include "lazytrain/run.h"
#include "lazytrain/train.h"
#include "base/safetensors.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* A directory with config.json, model.safetensors, golden.json and golden.safetensors. */
typedef struct golden {
    char directory[512];
    json_t *json;
    lzt__st tensors;
    lzt_model *model;
    const lzt_model_info *info;
    lzt_micro_batch batch;
} golden;

/* Rows (equal lengths or not) of ids and labels, as Hugging Face aligns them, as one micro-batch. */
static inline void batch_from_rows(const json_t *ids, const json_t *labels, lzt_micro_batch *batch)
{
    uint64_t tokens = 0, rows = json_array_size(ids), at = 0;
    for (uint64_t r = 0; r < rows; r++) tokens += json_array_size(json_array_get(ids, r));
    *batch = (lzt_micro_batch){.capacity = tokens, .token_count = tokens, .document_count = rows};
    batch->ids = calloc(tokens, 4);
    batch->position = calloc(tokens, 4);
    batch->target = calloc(tokens, 4);
    batch->weight = calloc(tokens, 4);
    batch->document_begin = calloc(rows + 1, 4);
    for (uint64_t r = 0; r < rows; r++) {
        const json_t *row = json_array_get(ids, r), *row_labels = json_array_get(labels, r);
        uint64_t n = json_array_size(row);
        batch->document_begin[r] = (int32_t)at;
        for (uint64_t t = 0; t < n; t++, at++) {
            json_int_t label = t + 1 < n ? json_integer_value(json_array_get(row_labels, t + 1)) : -100;
            batch->ids[at] = (int32_t)json_integer_value(json_array_get(row, t));
            batch->position[at] = (int32_t)t;
            batch->target[at] = label == -100 ? -1 : (int32_t)label;
            batch->weight[at] = label == -100 ? 0 : 1;
            batch->loss_count += label != -100;
        }
    }
    batch->document_begin[rows] = (int32_t)at;
    batch->loss_weight = (double)batch->loss_count;
}

static inline void batch_free(lzt_micro_batch *batch)
{
    free(batch->ids);
    free(batch->position);
    free(batch->target);
    free(batch->weight);
    free(batch->document_begin);
}

static inline void golden_open(golden *g, const char *directory)
{
    lzt_error err = {0};
    char path[600];
    memset(g, 0, sizeof *g);
    snprintf(g->directory, sizeof g->directory, "%s", directory);
    snprintf(path, sizeof path, "%s/golden.json", directory);
    json_error_t json_error;
    g->json = json_load_file(path, 0, &json_error);
    if (!g->json) fail_msg("%s: %s", path, json_error.text);
    snprintf(path, sizeof path, "%s/golden.safetensors", directory);
    if (lzt__st_open(lzt__os_posix(), path, &g->tensors, &err)) fail_msg("%s: %s", err.where, err.message);
    if (lzt_model_open(directory, LZT_MODEL_WANT_WEIGHTS, &g->model, &err)) fail_msg("%s: %s", err.where, err.message);
    g->info = lzt_model_get_info(g->model);
    batch_from_rows(json_object_get(g->json, "input_ids"), json_object_get(g->json, "labels"), &g->batch);
}

static inline void golden_close(golden *g)
{
    batch_free(&g->batch);
    lzt_model_close(g->model);
    lzt__st_close(&g->tensors);
    json_decref(g->json);
}

static inline float *golden_tensor(const golden *g, const char *prefix, const lzt_tensor *tensor)
{
    char name[512];
    lzt_error err = {0};
    snprintf(name, sizeof name, "%s%s", prefix, tensor->name);
    const lzt__st_entry *entry = lzt__st_find(&g->tensors, name);
    if (!entry) fail_msg("no %s", name);
    float *values = malloc(tensor->element_count * 4);
    assert_int_equal(lzt__st_read(&g->tensors, entry, 0, tensor->element_count * 4, values, &err), LZT_OK);
    return values;
}

typedef struct engine_choice {
    lzt_dtype dtype;
    uint64_t capacity, micro_batches, threads;
    const lzt_plan *plan; /* NULL: everything on the device */
    bool checked;
    uint64_t seed;
    int32_t drop_dependency;
    lzt_cache_shape cache;
    bool logits, inference;
} engine_choice;

static inline lzt_engine *engine_for(const lzt_model *model, const engine_choice *choice)
{
    lzt_error err = {0};
    const lzt_model_info *info = lzt_model_get_info(model);
    lzt_dev_cpu_options device = LZT_DEV_CPU_OPTIONS_INIT;
    lzt_kern_cpu_options kernels = LZT_KERN_CPU_OPTIONS_INIT;
    lzt_engine_options options = LZT_ENGINE_OPTIONS_INIT;
    kernels.threads = (uint32_t)(choice->threads ? choice->threads : 2);
    if (lzt_dev_cpu_create(&device, &options.dev, &err)) fail_msg("%s", err.message);
    if (choice->checked) {
        lzt_dev_checked_options checked = LZT_DEV_CHECKED_OPTIONS_INIT;
        checked.seed = choice->seed;
        checked.delay_us_max = 40;
        if (lzt_dev_checked_create(&checked, options.dev, &options.dev, &err)) fail_msg("%s", err.message);
    }
    if (lzt_kern_cpu_create(&kernels, &options.kern, &err)) fail_msg("%s", err.message);
    lzt_numerics numerics;
    lzt_numerics_default(info, choice->dtype, choice->capacity, choice->micro_batches, kernels.threads, &numerics);
    lzt_plan own = {0};
    lzt_auto_options automatic = {.model = info,
                                  .numerics = &numerics,
                                  .kern = options.kern,
                                  .micro_batches = choice->micro_batches,
                                  .training = !choice->inference};
    if (!choice->plan && lzt_auto_plan(&automatic, &own, &err)) fail_msg("%s: %s", err.where, err.message);
    options.model = model;
    options.plan = choice->plan ? choice->plan : &own;
    options.training = !choice->inference;
    options.cache = choice->cache;
    options.logits = choice->logits;
    options.micro_batches = choice->micro_batches;
    options.drop_dependency = choice->drop_dependency;
    lzt_engine *engine;
    if (lzt_engine_create(&options, &engine, &err)) fail_msg("%s: %s", err.where, err.message);
    lzt_plan_fini(&own);
    if (lzt_engine_load(engine, &err)) fail_msg("%s: %s", err.where, err.message);
    return engine;
}

/* Scalars of AdamW step t (from 1) with lr 1e-3, betas 0.9 / 0.95, weight decay 0.1, clip 1: the goldens' settings. */
static inline lzt_step_scalars golden_scalars(uint64_t t)
{
    return (lzt_step_scalars){.lr = 1e-3,
                              .beta1 = 0.9,
                              .beta2 = 0.95,
                              .epsilon = 1e-8,
                              .weight_decay = 0.1,
                              .bias_correction1 = 1 - pow(0.9, (double)t),
                              .bias_correction2 = 1 - pow(0.95, (double)t),
                              .max_grad_norm = 1.0};
}

/* One step on one micro-batch; returns the mean loss. */
static inline double train_step(lzt_engine *engine, const lzt_micro_batch *batch, uint64_t t, lzt_run_result *result)
{
    lzt_error err = {0};
    lzt_step_scalars scalars = golden_scalars(t);
    lzt_engine_set_batch(engine, batch, 1.0f / (float)batch->loss_weight);
    lzt_engine_set_scalars(engine, &scalars);
    if (lzt_engine_run(engine, LZT_VARIANT_SINGLE, result, &err)) fail_msg("%s: %s", err.where, err.message);
    return result->loss_sum / batch->loss_weight;
}

/* Relative L2 difference of a tensor of the state from values, and its parts. */
static inline double difference(const lzt_engine *engine, lzt_state_part part, uint32_t tensor, const float *values,
                                double *square_difference, double *square)
{
    lzt_engine_info info;
    lzt_error err = {0};
    lzt_engine_get_info(engine, &info);
    uint64_t count = info.model->tensor[tensor].element_count;
    float *ours = malloc(count * 4);
    assert_int_equal(lzt_engine_read(engine, part, tensor, ours, &err), LZT_OK);
    double d = 0, s = 0;
    for (uint64_t i = 0; i < count; i++) {
        d += ((double)ours[i] - values[i]) * ((double)ours[i] - values[i]);
        s += (double)values[i] * values[i];
    }
    free(ours);
    *square_difference += d;
    *square += s;
    return sqrt(d / (s > 0 ? s : 1e-60));
}

#endif
