/* Goal: with equal numerics the weights after k steps are bit-identical under every placement, prefetch distance and
 * timing, on the plain and on the checked device; and the checked device proves every access ordered and declared.
 *
 * Method: 30 random plans x 3 seeds of delays on a small model, weights after five steps against the all-on-device
 * plan. Then each irreducible dependency is dropped in turn: the checked device must report an unordered pair.
 * Accumulation over two micro-batches is compared among plans the same way.
 */
#include "base/rng.h"
#include "golden_run.h"

/* Sanitizers slow every task; there the same checks run on fewer plans. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { STEPS = 2, PLANS = 6, SEEDS = 2 };
#else
enum { STEPS = 5, PLANS = 30, SEEDS = 4 };
#endif

static golden g;

static uint64_t weights_hash(const lzt_engine *engine)
{
    uint64_t hash = 1469598103934665603u;
    lzt_error err = {0};
    for (uint32_t i = 0; i < g.info->tensor_count; i++) {
        uint64_t count = g.info->tensor[i].element_count;
        float *values = malloc(count * 4);
        assert_int_equal(lzt_engine_read(engine, LZT_STATE_PART_MASTER, i, values, &err), LZT_OK);
        const unsigned char *bytes = (const unsigned char *)values;
        for (uint64_t k = 0; k < count * 4; k++) hash = (hash ^ bytes[k]) * 1099511628211u;
        free(values);
    }
    return hash;
}

static void report_findings(lzt_engine *engine, const char *what)
{
    lzt_dev *dev = lzt_engine_dev(engine);
    uint64_t count = lzt_dev_finding_count(dev);
    if (!count) return;
    lzt_finding f;
    lzt_dev_finding(dev, 0, &f);
    fail_msg("%s: %d findings, the first: %s and %s, kind %d at %d", what, (int)count, f.first, f.second, (int)f.kind,
             (int)f.offset);
}

/* micro_batches 2: the same rows twice, halves of a global batch. */
static void run_steps(lzt_engine *engine, uint64_t micro_batches, uint64_t steps)
{
    lzt_error err = {0};
    lzt_run_result result;
    for (uint64_t step = 0; step < steps; step++) {
        if (micro_batches == 1) {
            train_step(engine, &g.batch, step + 1, &result);
            continue;
        }
        lzt_step_scalars scalars = golden_scalars(step + 1);
        lzt_engine_set_scalars(engine, &scalars);
        for (uint64_t m = 0; m < micro_batches; m++) {
            lzt_variant v = m == 0 ? LZT_VARIANT_FIRST : m + 1 == micro_batches ? LZT_VARIANT_LAST : LZT_VARIANT_MIDDLE;
            lzt_engine_set_batch(engine, &g.batch, 1.0f / (float)(g.batch.loss_weight * (double)micro_batches));
            if (lzt_engine_run(engine, v, &result, &err)) fail_msg("%s: %s", err.where, err.message);
        }
    }
    if (lzt_engine_drain(engine, NULL, &err)) fail_msg("%s", err.message);
}

static uint64_t weights_after(const engine_choice *choice, const char *what)
{
    lzt_engine *engine = engine_for(g.model, choice);
    run_steps(engine, choice->micro_batches, STEPS);
    report_findings(engine, what);
    uint64_t hash = weights_hash(engine);
    lzt_dev_info device;
    lzt_engine_info info;
    lzt_dev_get_info(lzt_engine_dev(engine), &device);
    lzt_engine_get_info(engine, &info);
    assert_true(device.peak_bytes[LZT_SPACE_DEVICE] <= info.planned_bytes[LZT_SPACE_DEVICE]);
    lzt_engine_destroy(engine);
    return hash;
}

static void random_plan(uint64_t seed, const engine_choice *choice, lzt_plan *plan)
{
    lzt_error err = {0};
    lzt_numerics numerics;
    lzt_numerics_default(g.info, choice->dtype, choice->capacity, choice->micro_batches, 2, &numerics);
    assert_int_equal(lzt_plan_baseline(g.info, &numerics, 1, plan, &err), LZT_OK);
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

static void check_plans(lzt_dtype dtype, uint64_t micro_batches, uint64_t plans, uint64_t seeds, uint64_t first_seed)
{
    engine_choice choice = {
        .dtype = dtype, .capacity = g.batch.token_count, .micro_batches = micro_batches, .drop_dependency = -1};
    uint64_t expected = weights_after(&choice, "everything on the device");
    for (uint64_t p = 0; p < plans; p++) {
        lzt_plan plan;
        random_plan(first_seed + p, &choice, &plan);
        for (uint64_t seed = 0; seed < seeds; seed++) {
            char what[64];
            snprintf(what, sizeof what, "plan %d seed %d", (int)p, (int)seed);
            engine_choice checked = choice;
            checked.plan = &plan;
            checked.checked = seed > 0; /* seed 0: the plain device */
            checked.seed = 1000 * p + seed;
            if (weights_after(&checked, what) != expected) fail_msg("%s: other weights", what);
        }
        lzt_plan_fini(&plan);
    }
}

static void every_placement_gives_the_same_bits(void **state)
{
    (void)state;
    check_plans(LZT_DTYPE_BF16, 1, PLANS, SEEDS, 0); /* seed 0 is the plain device, 1 to 3 are delays */
}

static void also_in_f32_and_with_accumulation(void **state)
{
    (void)state;
    check_plans(LZT_DTYPE_F32, 1, 6, 2, 100);
    check_plans(LZT_DTYPE_BF16, 3, 6, 2, 200);
}

/* Tokens of different weights; and all of them halved, which is the same to the bit. */
static void also_with_weights(void **state)
{
    (void)state;
    engine_choice choice = {
        .dtype = LZT_DTYPE_BF16, .capacity = g.batch.token_count, .micro_batches = 2, .drop_dependency = -1};
    uint64_t plain = weights_after(&choice, "without weights");
    for (uint64_t t = 0; t < g.batch.token_count; t++) g.batch.weight[t] *= 0.1f + (float)(t % 7);
    check_plans(LZT_DTYPE_F32, 1, 4, 2, 300);
    check_plans(LZT_DTYPE_BF16, 2, 4, 2, 400);
    uint64_t weighted = weights_after(&choice, "with weights");
    assert_true(weighted != plain);
    double tokens = g.batch.loss_weight;
    for (uint64_t t = 0; t < g.batch.token_count; t++) g.batch.weight[t] *= 0.5f;
    g.batch.loss_weight = 0.5 * tokens;
    assert_true(weights_after(&choice, "with half of them") == weighted);
    for (uint64_t t = 0; t < g.batch.token_count; t++) g.batch.weight[t] = g.batch.target[t] < 0 ? 0 : 1;
    g.batch.loss_weight = tokens;
}

static void a_dropped_dependency_is_reported(void **state)
{
    (void)state;
    engine_choice choice = {.dtype = LZT_DTYPE_BF16,
                            .capacity = g.batch.token_count,
                            .micro_batches = 1,
                            .checked = true,
                            .drop_dependency = -1};
    lzt_plan plan;
    random_plan(7, &choice, &plan);
    choice.plan = &plan;
    lzt_engine *engine = engine_for(g.model, &choice);
    const lzt_program_info *p = lzt_program_get_info(lzt_engine_program(engine, LZT_VARIANT_SINGLE, false));
    uint32_t dependencies = p->dependency_count;
    lzt_engine_destroy(engine);
    assert_true(dependencies > 30);
    for (uint32_t d = 0; d < dependencies; d += STEPS == 5 ? 1 : 9) {
        lzt_run_result result;
        lzt_error err = {0};
        lzt_step_scalars scalars = golden_scalars(1);
        choice.drop_dependency = (int32_t)d;
        engine = engine_for(g.model, &choice);
        lzt_engine_set_batch(engine, &g.batch, 1.0f / (float)g.batch.loss_weight);
        lzt_engine_set_scalars(engine, &scalars);
        lzt_engine_run(engine, LZT_VARIANT_SINGLE, &result, &err); /* may fail: the race is real */
        if (lzt_dev_finding_count(lzt_engine_dev(engine)) == 0)
            fail_msg("dependency %d dropped, nothing reported", (int)d);
        lzt_finding f;
        assert_true(lzt_dev_finding(lzt_engine_dev(engine), 0, &f));
        assert_int_equal(f.kind, LZT_FINDING_UNORDERED);
        assert_true(f.first[0] && f.second[0]);
        lzt_engine_destroy(engine);
    }
    lzt_plan_fini(&plan);
}

int main(void)
{
    golden_open(&g, "tests/golden/qwen3");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_placement_gives_the_same_bits),
        cmocka_unit_test(also_in_f32_and_with_accumulation),
        cmocka_unit_test(also_with_weights),
        cmocka_unit_test(a_dropped_dependency_is_reported),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    golden_close(&g);
    return failed;
}
