/* Test helper: a small model on a machine by hand, what a step's planner needs of both, and plans of it. */
#ifndef LZT_SOLVE_STEP_FIXTURE_H
#define LZT_SOLVE_STEP_FIXTURE_H

#include "base/rng.h"
#include "solve/hand_profile.h"
#include "solve/step_search.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

/* Sanitizers slow every compilation of a plan; there the same is asked of fewer plans. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { WHOLE_LISTS = 0 };
#else
enum { WHOLE_LISTS = 1 };
#endif

typedef struct fixture {
    lzt_model *model;
    lzt_kern *kern;
    lzt_profile profile;
    lzt_step_plan_options options;
} fixture;

static const hand_machine fast_link = {2e10, 4e9, 5e9, 8e9}, slow_link = {2e10, 4e9, 2e7, 8e9},
                          slow_host = {2e10, 4e9, 5e9, 5e7}, card = {4e14, 2e12, 12e9, 80e9};

/* gemm: NULL, or the kernel option: products differ in their scratch, and programs with it. */
static inline void open_fixture_of(const char *gemm, fixture *f, const char *path, lzt_dtype dtype, uint64_t tokens,
                                   uint64_t micro_batches, const hand_machine *machine)
{
    lzt_error err = {0};
    memset(f, 0, sizeof *f);
    if (lzt_model_open(path, LZT_MODEL_CONFIG_ONLY, &f->model, &err)) fail_msg("%s: %s", err.where, err.message);
    lzt_kern_cpu_options kern = LZT_KERN_CPU_OPTIONS_INIT;
    kern.threads = 2;
    kern.gemm = gemm;
    assert_int_equal(lzt_kern_cpu_create(&kern, &f->kern, &err), LZT_OK);
    lzt_step_plan_options *o = &f->options;
    *o = (lzt_step_plan_options){.struct_bytes = sizeof *o,
                                 .model = lzt_model_get_info(f->model),
                                 .kern = f->kern,
                                 .micro_batches = micro_batches,
                                 .price = {.struct_bytes = sizeof o->price, .profile = &f->profile, .documents = 2}};
    lzt_numerics_default(o->model, dtype, tokens, micro_batches, 2, &o->numerics);
    if (hand_profile(o, machine, &f->profile, &err)) fail_msg("%s: %s", err.where, err.message);
}

static inline void open_fixture(fixture *f, const char *path, lzt_dtype dtype, uint64_t tokens, uint64_t micro_batches,
                                const hand_machine *machine)
{
    open_fixture_of(NULL, f, path, dtype, tokens, micro_batches, machine);
}

static inline void close_fixture(fixture *f)
{
    lzt_profile_fini(&f->profile);
    lzt_kern_destroy(f->kern);
    lzt_model_close(f->model);
}

static inline void random_plan(const fixture *f, uint64_t seed, lzt_plan *plan)
{
    static const lzt_tier tiers[] = {LZT_TIER_GPU, LZT_TIER_CPU, LZT_TIER_RECOMPUTE};
    lzt_error err = {0};
    assert_int_equal(lzt_plan_baseline(f->options.model, &f->options.numerics, 1, plan, &err), LZT_OK);
    for (uint64_t i = 0; i < plan->layer_count; i++) {
        plan->boundary[i] = tiers[i ? lzt__rng_below(seed, 1, i, 3) : 2 * lzt__rng_below(seed, 1, 0, 2)];
        plan->internals[i] = tiers[lzt__rng_below(seed, 2, i, 3)];
        plan->weights[i] = lzt__rng_below(seed, 3, i, 3) == 0;
    }
    plan->head_weights = f->options.micro_batches > 1;
    plan->prefetch_layers = 1 + lzt__rng_below(seed, 5, 0, 4);
    plan->gradient_slots = 1 + lzt__rng_below(seed, 6, 0, 2);
    plan->internals_stages = 1 + lzt__rng_below(seed, 7, 0, 9);
}

/* The 27B example's config with three layers: linear, full, linear attention. */
static inline void write_short_hybrid(const char *path)
{
    json_t *config = json_load_file("examples/qwen3.6-27b-metamathqa/model/config.json", 0, NULL);
    assert_non_null(config);
    json_t *text = json_object_get(config, "text_config");
    json_object_set_new(text, "num_hidden_layers", json_integer(3));
    json_object_set_new(text, "layer_types",
                        json_pack("[s, s, s]", "linear_attention", "full_attention", "linear_attention"));
    assert_int_equal(json_dump_file(config, path, JSON_INDENT(1)), 0);
    json_decref(config);
}

#endif
