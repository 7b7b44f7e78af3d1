/* Goal: a compiled program is right whatever the plan: operands inside live objects, live objects apart, every conflict
 * ordered, counts as the plan states them; and each dependency that is left is needed.
 *
 * Method: random plans of the four small families, every variant, checked by lzt_program_verify (which shares no code
 * with the compiler's placement and derivation). Then, dependency by dependency, one is dropped and verify must object.
 */
#include "base/rng.h"
#include "lazytrain/auto_plan.h"
#include "lazytrain/step.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const char *const families[] = {"qwen3", "qwen2.5", "llama3", "mistral"};

typedef struct fixture {
    lzt_model *model;
    const lzt_model_info *info;
    lzt_kern *kern;
    lzt_numerics numerics;
} fixture;

static void open_path(fixture *f, const char *path, lzt_dtype dtype)
{
    lzt_error err = {0};
    if (lzt_model_open(path, LZT_MODEL_CONFIG_ONLY, &f->model, &err)) fail_msg("%s: %s", err.where, err.message);
    f->info = lzt_model_get_info(f->model);
    lzt_kern_cpu_options options = LZT_KERN_CPU_OPTIONS_INIT;
    options.threads = 2;
    assert_int_equal(lzt_kern_cpu_create(&options, &f->kern, &err), LZT_OK);
    lzt_numerics_default(f->info, dtype, 96, 1, 2, &f->numerics);
}

static void open_family(fixture *f, const char *family, lzt_dtype dtype)
{
    char path[256];
    snprintf(path, sizeof path, "tests/golden/%s", family);
    open_path(f, path, dtype);
}

static void close_family(fixture *f)
{
    lzt_kern_destroy(f->kern);
    lzt_model_close(f->model);
}

static void random_plan(const fixture *f, uint64_t seed, lzt_plan *plan)
{
    lzt_error err = {0};
    assert_int_equal(lzt_plan_baseline(f->info, &f->numerics, 1, plan, &err), LZT_OK);
    for (uint64_t i = 0; i < plan->layer_count; i++) {
        static const lzt_tier tiers[] = {LZT_TIER_GPU, LZT_TIER_CPU, LZT_TIER_RECOMPUTE};
        plan->boundary[i] = tiers[i ? lzt__rng_below(seed, 1, i, 3) : 2 * lzt__rng_below(seed, 1, 0, 2)];
        plan->internals[i] = tiers[lzt__rng_below(seed, 2, i, 3)];
        plan->weights[i] = lzt__rng_below(seed, 3, i, 3) == 0;
    }
    plan->head_weights = lzt__rng_below(seed, 4, 0, 2);
    plan->prefetch_layers = 1 + lzt__rng_below(seed, 5, 0, 4);
    plan->gradient_slots = 1 + lzt__rng_below(seed, 6, 0, 3);
    plan->internals_stages = 1 + lzt__rng_below(seed, 7, 0, 5);
}

static lzt_program *compile(const fixture *f, const lzt_plan *plan, lzt_variant variant, bool update,
                            uint64_t micro_batches)
{
    lzt_error err = {0};
    lzt_state_layout *layout;
    lzt_program *program;
    assert_int_equal(lzt_state_layout_create(f->info, &plan->numerics, true, &layout, &err), LZT_OK);
    lzt_step_options options = {.model = f->info,
                                .plan = plan,
                                .layout = layout,
                                .kern = f->kern,
                                .variant = variant,
                                .update = update,
                                .micro_batches = micro_batches,
                                .cache = {5, 40, 30, update}};
    if (lzt_step_compile(&options, &program, &err)) fail_msg("%s: %s", err.where, err.message);
    lzt_state_layout_destroy(layout);
    return program;
}

static void random_plans_verify(void **state)
{
    (void)state;
    for (size_t k = 0; k < 4; k++) {
        fixture f;
        open_family(&f, families[k], k % 2 ? LZT_DTYPE_BF16 : LZT_DTYPE_F32);
        for (uint64_t seed = 0; seed < 12; seed++) {
            lzt_plan plan;
            random_plan(&f, seed + 100 * k, &plan);
            for (int variant = 0; variant < LZT_VARIANT_COUNT; variant++) {
                lzt_program *p = compile(&f, &plan, (lzt_variant)variant, seed % 2, 1 + seed % 3);
                lzt_error err = {0};
                if (lzt_program_verify(p, &err))
                    fail_msg("%s seed %d variant %d: %s: %s", families[k], (int)seed, variant, err.where, err.message);
                lzt_program_destroy(p);
            }
            lzt_plan_fini(&plan);
        }
        close_family(&f);
    }
}

/* Counts that the plan implies: layer forwards, and the decoder layers' uploads: one if kept, else two. */
static void counts_follow_the_plan(void **state)
{
    (void)state;
    fixture f;
    open_family(&f, "llama3", LZT_DTYPE_F32);
    for (uint64_t seed = 0; seed < 50; seed++) {
        lzt_plan plan;
        random_plan(&f, seed, &plan);
        lzt_program *p = compile(&f, &plan, LZT_VARIANT_SINGLE, false, 1);
        const lzt_program_info *info = lzt_program_get_info(p);
        uint64_t forwards = 0, uploads = 0, expected_uploads = 0;
        for (uint32_t i = 0; i < info->task_count; i++) {
            forwards += info->task[i].layer_forward;
            uploads += info->task[i].weight_upload;
        }
        for (uint64_t i = 0; i < plan.layer_count; i++) expected_uploads += plan.weights[i] ? 1 : 2;
        assert_int_equal(forwards, lzt_plan_layer_forwards(&plan));
        assert_int_equal(forwards, info->layer_forwards);
        assert_int_equal(uploads, expected_uploads);
        lzt_program_destroy(p);
        lzt_plan_fini(&plan);
    }
    close_family(&f);
}

/* Internals on the host cost no forward: the same bytes go down and come up, once a micro-batch, and lie in the host
 * arena, not in the device's. */
static void internals_on_the_host_are_moved(void **state)
{
    (void)state;
    static const lzt_tier tiers[] = {LZT_TIER_RECOMPUTE, LZT_TIER_GPU, LZT_TIER_CPU};
    for (size_t k = 0; k < 4; k++) {
        fixture f;
        uint64_t peak[3][LZT_SPACE_COUNT], down[3], up[3], forwards[3], bytes = 0;
        open_family(&f, families[k], k % 2 ? LZT_DTYPE_BF16 : LZT_DTYPE_F32);
        for (int t = 0; t < 3; t++) {
            lzt_plan plan;
            random_plan(&f, 40 + k, &plan);
            plan.prefetch_layers = plan.gradient_slots = 1;
            for (uint64_t l = 0; l < plan.layer_count; l++) plan.internals[l] = tiers[t];
            lzt_program *p = compile(&f, &plan, LZT_VARIANT_SINGLE, true, 1);
            const lzt_program_info *info = lzt_program_get_info(p);
            for (int space = 0; space < LZT_SPACE_COUNT; space++) peak[t][space] = info->peak_bytes[space];
            down[t] = info->link_bytes[LZT_LANE_D2H];
            up[t] = info->link_bytes[LZT_LANE_H2D];
            forwards[t] = info->layer_forwards;
            lzt_program_destroy(p);
            lzt_plan_fini(&plan);
        }
        for (uint32_t l = 0; l < f.info->layer_count; l++) {
            lzt_layer_size size;
            lzt_layer_get_size(f.info, l, f.numerics.dtype, &size);
            bytes += (uint64_t)(size.internals_bytes * (double)f.numerics.micro_batch_tokens);
        }
        assert_true(bytes > 0);
        assert_int_equal(down[2], down[1] + bytes);
        assert_int_equal(up[2], up[1] + bytes);
        assert_int_equal(forwards[2], forwards[1]);
        assert_int_equal(forwards[2], forwards[0] - f.info->layer_count);
        assert_true(peak[2][LZT_SPACE_HOST] >= peak[1][LZT_SPACE_HOST] + bytes);
        assert_true(peak[2][LZT_SPACE_DEVICE] < peak[1][LZT_SPACE_DEVICE]);
        close_family(&f);
    }
}

/* The one object of a layer without kernels moves as a whole, whatever the parts that it is made and used in. */
static void layers_without_kernels_are_moved(void **state)
{
    (void)state;
    fixture f;
    open_path(&f, "examples/qwen3.6-27b-metamathqa/model/config.json", LZT_DTYPE_BF16);
    for (uint64_t splits = 1; splits <= 3; splits++) {
        lzt_error err = {0};
        lzt_plan plan;
        uint64_t bytes = 0, moved = 0;
        random_plan(&f, splits, &plan);
        plan.numerics.layer_splits = splits;
        lzt_program *p = compile(&f, &plan, LZT_VARIANT_SINGLE, true, 1);
        const lzt_program_info *info = lzt_program_get_info(p);
        if (lzt_program_verify(p, &err)) fail_msg("%s: %s", err.where, err.message);
        assert_int_equal(info->layer_forwards, lzt_plan_layer_forwards(&plan));
        for (uint32_t i = 0; i < info->task_count; i++)
            if (!strncmp(info->task[i].name, "up.internals.", 13))
                moved += info->operand[info->task[i].first_operand].bytes;
        for (uint32_t l = 0; l < f.info->layer_count; l++) {
            lzt_layer_size size;
            lzt_layer_get_size(f.info, l, LZT_DTYPE_BF16, &size);
            if (plan.internals[l] == LZT_TIER_CPU)
                bytes += (uint64_t)ceil(size.internals_bytes) * f.numerics.micro_batch_tokens;
        }
        assert_true(bytes > 0);
        assert_int_equal(moved, bytes);
        lzt_program_destroy(p);
        lzt_plan_fini(&plan);
    }
    close_family(&f);
}

/* Pieces of internals leave and return under as many stages as the plan says: the same copies, in other places; the
 * others' go between them. All have left before anything returns. */
static void internals_move_in_pieces(void **state)
{
    (void)state;
    fixture f;
    uint32_t tasks[2], stretches[2];
    open_path(&f, "examples/qwen3.6-27b-metamathqa/model/config.json", LZT_DTYPE_BF16);
    f.numerics.micro_batch_tokens = 4096;
    for (int k = 0; k < 2; k++) {
        lzt_plan plan;
        lzt_error err = {0};
        random_plan(&f, 3, &plan);
        plan.internals_stages = k ? 6 : 1;
        for (uint64_t l = 0; l < plan.layer_count; l++) {
            plan.internals[l] = l % 9 == 4 ? LZT_TIER_CPU : LZT_TIER_RECOMPUTE;
            if (l) plan.boundary[l] = LZT_TIER_CPU;
        }
        lzt_program *p = compile(&f, &plan, LZT_VARIANT_SINGLE, true, 1);
        const lzt_program_info *info = lzt_program_get_info(p);
        uint32_t last_down = 0, first_up = UINT32_MAX;
        bool inside = false;
        if (lzt_program_verify(p, &err)) fail_msg("%s: %s", err.where, err.message);
        tasks[k] = stretches[k] = 0;
        for (uint32_t i = 0; i < info->task_count; i++) {
            const char *name = info->task[i].name;
            bool down = !strncmp(name, "down.internals.", 15), up = !strncmp(name, "up.internals.", 13);
            tasks[k] += down + up;
            if (down) last_down = i;
            if ((up || !strncmp(name, "up.boundary.", 12)) && first_up == UINT32_MAX) first_up = i;
            if (info->task[i].lane != LZT_LANE_D2H) continue;
            stretches[k] += down && !inside;
            inside = down;
        }
        assert_true(last_down < first_up);
        lzt_program_destroy(p);
        lzt_plan_fini(&plan);
    }
    assert_int_equal(tasks[0], tasks[1]);
    assert_true(tasks[0] >= 2 * 7 * 16);
    assert_int_equal(stretches[0], 7);
    assert_in_range(stretches[1], 7 * 5, 7 * 6);
    close_family(&f);
}

static void internals_on_nvme_are_refused(void **state)
{
    (void)state;
    fixture f;
    lzt_plan plan;
    lzt_error err = {0};
    lzt_state_layout *layout;
    lzt_program *program = NULL;
    open_family(&f, "llama3", LZT_DTYPE_F32);
    random_plan(&f, 1, &plan);
    plan.internals[1] = LZT_TIER_NVME;
    assert_int_equal(lzt_state_layout_create(f.info, &plan.numerics, true, &layout, &err), LZT_OK);
    lzt_step_options options = {.model = f.info, .plan = &plan, .layout = layout, .kern = f.kern, .micro_batches = 1};
    assert_int_equal(lzt_step_compile(&options, &program, &err), LZT_ERR_USAGE);
    assert_non_null(strstr(err.message, "internals of layer 1 lie on nvme"));
    assert_null(program);
    lzt_state_layout_destroy(layout);
    lzt_plan_fini(&plan);
    close_family(&f);
}

/* Every dependency that is left is irreducible: without it verify finds an unordered pair. */
static void each_dependency_is_needed(void **state)
{
    (void)state;
    fixture f;
    open_family(&f, "qwen3", LZT_DTYPE_BF16);
    lzt_plan plan;
    random_plan(&f, 7, &plan);
    lzt_program *p = compile(&f, &plan, LZT_VARIANT_SINGLE, true, 1);
    lzt_program_info *info = (lzt_program_info *)(uintptr_t)lzt_program_get_info(p);
    uint32_t *dependency = (uint32_t *)(uintptr_t)info->dependency;
    assert_true(info->dependency_count > 40);
    for (uint32_t i = 0; i < info->task_count; i++) {
        lzt_task *t = (lzt_task *)(uintptr_t)&info->task[i];
        for (uint32_t k = 0; k < t->dependency_count; k++) {
            uint32_t last = t->first_dependency + t->dependency_count - 1, at = t->first_dependency + k;
            uint32_t dropped = dependency[at];
            lzt_error err = {0};
            dependency[at] = dependency[last];
            t->dependency_count--;
            if (!lzt_program_verify(p, &err)) fail_msg("%s does not need %s", t->name, info->task[dropped].name);
            t->dependency_count++;
            dependency[at] = dropped;
        }
    }
    lzt_error err = {0};
    assert_int_equal(lzt_program_verify(p, &err), LZT_OK);
    lzt_program_destroy(p);
    lzt_plan_fini(&plan);
    close_family(&f);
}

/* A clock with equal durations: nothing is earlier than its dependencies, and unlimited buffers are never slower. */
static void simulation_respects_dependencies(void **state)
{
    (void)state;
    fixture f;
    open_family(&f, "mistral", LZT_DTYPE_F32);
    lzt_plan plan;
    random_plan(&f, 3, &plan);
    lzt_program *p = compile(&f, &plan, LZT_VARIANT_SINGLE, true, 1);
    const lzt_program_info *info = lzt_program_get_info(p);
    double seconds[4096], start[4096], end[4096];
    assert_true(info->task_count < 4096);
    for (uint32_t i = 0; i < info->task_count; i++) seconds[i] = 1.0 + (double)(i % 3);
    double limited = lzt_program_simulate(p, seconds, false, start, end);
    for (uint32_t i = 0; i < info->task_count; i++)
        for (uint32_t k = 0; k < info->task[i].dependency_count; k++)
            assert_true(start[i] >= end[info->dependency[info->task[i].first_dependency + k]]);
    double unlimited = lzt_program_simulate(p, seconds, true, NULL, NULL);
    assert_true(unlimited > 0 && unlimited <= limited);
    lzt_program_destroy(p);
    lzt_plan_fini(&plan);
    close_family(&f);
}

/* The plan that comes back for any cap fits it; N in the message is exactly the least cap. */
static void auto_plan_fits_every_cap(void **state)
{
    (void)state;
    fixture f;
    open_family(&f, "llama3", LZT_DTYPE_BF16);
    lzt_auto_options options = {.model = f.info,
                                .numerics = &f.numerics,
                                .kern = f.kern,
                                .micro_batches = 1,
                                .device_cap_bytes = 1,
                                .training = true};
    lzt_plan plan;
    lzt_error err = {0};
    assert_int_equal(lzt_auto_plan(&options, &plan, &err), LZT_ERR_NO_PLAN);
    unsigned long long least = 0;
    assert_int_equal(sscanf(err.message, "device_cap: needs at least %llu bytes", &least), 1);
    options.device_cap_bytes = least - 1;
    assert_int_equal(lzt_auto_plan(&options, &plan, &err), LZT_ERR_NO_PLAN);
    uint64_t before = UINT64_MAX;
    for (uint64_t cap = least; cap < 8 * least; cap += least / 3) {
        options.device_cap_bytes = cap;
        if (lzt_auto_plan(&options, &plan, &err)) fail_msg("%s: %s", err.where, err.message);
        assert_true(plan.device_bytes <= cap);
        uint64_t forwards = lzt_plan_layer_forwards(&plan);
        assert_true(forwards <= before);
        before = forwards;
        lzt_plan_fini(&plan);
    }
    assert_int_equal(before, f.info->layer_count);
    close_family(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_plans_verify),
        cmocka_unit_test(counts_follow_the_plan),
        cmocka_unit_test(internals_on_the_host_are_moved),
        cmocka_unit_test(layers_without_kernels_are_moved),
        cmocka_unit_test(internals_move_in_pieces),
        cmocka_unit_test(internals_on_nvme_are_refused),
        cmocka_unit_test(each_dependency_is_needed),
        cmocka_unit_test(simulation_respects_dependencies),
        cmocka_unit_test(auto_plan_fits_every_cap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
