/* Goal: a program priced from a hand-made profile has exactly the durations that the profile says, and a profile that
 * lacks something is refused with the entry's name and the command that measures it.
 *
 * Method: the golden Llama of tests/golden; every entry of its programs gets a value that is a function of its name, so
 * that the expected seconds of each task follow without the code under test.
 */
#include "lazytrain/auto_plan.h"
#include "lazytrain/price.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void assert_near(double value, double want, double tolerance)
{
    if (!(fabs(value - want) <= tolerance)) fail_msg("%.17g is not %.17g", value, want);
}

enum { TOKENS = 96, DOCUMENTS = 3 };

typedef struct fixture {
    lzt_model *model;
    lzt_kern *kern;
    lzt_plan plan;
    lzt_numerics numerics;
    lzt_state_layout *layout;
    lzt_step_options step;
    lzt_profile profile;
    lzt_price_options price;
} fixture;

static void check(lzt_status status, const lzt_error *err)
{
    if (status) fail_msg("%s: %s", err->where, err->message);
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    lzt_error err = {0};
    lzt_kern_cpu_options options = LZT_KERN_CPU_OPTIONS_INIT;
    options.threads = 2;
    check(lzt_model_open("tests/golden/llama3", LZT_MODEL_CONFIG_ONLY, &f->model, &err), &err);
    check(lzt_kern_cpu_create(&options, &f->kern, &err), &err);
    const lzt_model_info *info = lzt_model_get_info(f->model);
    lzt_numerics_default(info, LZT_DTYPE_BF16, TOKENS, 2, 2, &f->numerics);
    f->numerics.loss_chunk = 40; /* 40, 40, 16 */
    check(lzt_plan_baseline(info, &f->numerics, 1, &f->plan, &err), &err);
    f->plan.boundary[1] = LZT_TIER_CPU;
    check(lzt_state_layout_create(info, &f->numerics, true, &f->layout, &err), &err);
    f->step = (lzt_step_options){.model = info,
                                 .plan = &f->plan,
                                 .layout = f->layout,
                                 .kern = f->kern,
                                 .variant = LZT_VARIANT_SINGLE,
                                 .update = true,
                                 .micro_batches = 2};
    f->price = (lzt_price_options){.struct_bytes = sizeof f->price,
                                   .profile = &f->profile,
                                   .tokens = TOKENS,
                                   .documents = DOCUMENTS,
                                   .model_directory = "models/tiny"};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    lzt_profile_fini(&f->profile);
    lzt_state_layout_destroy(f->layout);
    lzt_plan_fini(&f->plan);
    lzt_kern_destroy(f->kern);
    lzt_model_close(f->model);
    free(f);
    return 0;
}

static lzt_program *compile(fixture *f, lzt_variant variant, bool update)
{
    lzt_program *program;
    lzt_error err = {0};
    f->step.variant = variant;
    f->step.update = update;
    check(lzt_step_compile(&f->step, &program, &err), &err);
    return program;
}

static void put(lzt_profile *profile, lzt_measure kind, const char *name, uint64_t size, double value)
{
    lzt_measurement m = {.kind = kind, .size = size, .median = value, .min = value, .max = value, .count = 3};
    lzt_error err = {0};
    snprintf(m.name, sizeof m.name, "%s", name);
    check(lzt_profile_add(profile, &m, &err), &err);
}

/* The hand-made value of an entry: seconds, or bytes per second. */
static double value_of(const char *name, lzt_measure kind)
{
    double sum = 0;
    for (const char *c = name; *c; c++) sum += *c;
    return kind == LZT_MEASURE_TIME ? sum * 1e-6 : sum * 1e6;
}

static void fill(fixture *f, const lzt_program *program)
{
    const lzt_program_info *p = lzt_program_get_info(program);
    for (uint32_t i = 0; i < p->task_count; i++) {
        lzt_measurement m;
        if (lzt_price_entry(p, &p->task[i], &f->price, &m))
            put(&f->profile, m.kind, m.name, m.size, value_of(m.name, m.kind));
    }
}

static double seconds_of(const lzt_program *program, const double *seconds, const char *task)
{
    const lzt_program_info *p = lzt_program_get_info(program);
    for (uint32_t i = 0; i < p->task_count; i++)
        if (!strcmp(p->task[i].name, task)) return seconds[i];
    fail_msg("no task %s", task);
    return 0;
}

/* Names and sizes are what the header says; llama3: hidden 64, 4 heads of 16, 2 kv heads, see its config.json. */
static void test_exact(void **state)
{
    fixture *f = *state;
    lzt_error err = {0};
    const lzt_model_info *m = f->step.model;
    lzt_program *program = compile(f, LZT_VARIANT_SINGLE, true);
    const lzt_program_info *p = lzt_program_get_info(program);
    double *seconds = calloc(p->task_count, sizeof *seconds);
    char name[64];
    fill(f, program);
    check(lzt_price_tasks(program, &f->price, seconds, &err), &err);

    snprintf(name, sizeof name, "linear_fwd.bf16.%ux%u", (unsigned)m->hidden,
             (unsigned)((m->query_heads + 2 * m->kv_heads) * m->head_dim));
    assert_near(seconds_of(program, seconds, "fwd.qkv.L0"), value_of(name, LZT_MEASURE_TIME), 1e-15);
    snprintf(name, sizeof name, "linear_bwd_w.bf16.%ux%u.to_f32", (unsigned)m->intermediate, (unsigned)m->hidden);
    assert_near(seconds_of(program, seconds, "bwd.down_dw.L1"), value_of(name, LZT_MEASURE_TIME), 1e-15);
    snprintf(name, sizeof name, "attention_fwd.bf16.%ux%ux%u.doc%d", (unsigned)m->query_heads, (unsigned)m->kv_heads,
             (unsigned)m->head_dim, TOKENS / DOCUMENTS);
    assert_near(seconds_of(program, seconds, "fwd.attention.L0"), value_of(name, LZT_MEASURE_TIME), 1e-15);
    snprintf(name, sizeof name, "loss_chunk.bf16.%ux%u.first", (unsigned)m->hidden, (unsigned)m->vocabulary);
    assert_near(seconds_of(program, seconds, "loss.0"), value_of(name, LZT_MEASURE_TIME), 1e-15);
    snprintf(name, sizeof name, "loss_chunk.bf16.%ux%u", (unsigned)m->hidden, (unsigned)m->vocabulary);
    assert_near(seconds_of(program, seconds, "loss.2"), value_of(name, LZT_MEASURE_TIME), 1e-15);

    double bytes = (double)m->unit[1].element_count;
    assert_near(seconds_of(program, seconds, "up.weights.U1"), 2 * bytes / value_of("h2d", LZT_MEASURE_RATE), 1e-15);
    assert_near(seconds_of(program, seconds, "down.boundary.1"),
                2.0 * TOKENS * (double)m->hidden / value_of("d2h", LZT_MEASURE_RATE), 1e-15);
    /* F32 gradient, both halves of the weight, two moments, and the scalars */
    assert_near(seconds_of(program, seconds, "adamw.U1"),
                (bytes * (4 + 2 + 2 + 4 + 4) + sizeof(lzt_step_scalars)) / value_of("adamw.bf16.f32", LZT_MEASURE_RATE),
                1e-15);
    assert_near(seconds_of(program, seconds, "gather"),
                2.0 * TOKENS * (double)m->hidden / value_of("gather", LZT_MEASURE_RATE), 1e-15);
    assert_near(seconds_of(program, seconds, "clip"), 0, 0);
    free(seconds);
    lzt_program_destroy(program);
}

static void test_between_sizes(void **state)
{
    fixture *f = *state;
    double s;
    put(&f->profile, LZT_MEASURE_RATE, "h2d", 1000, 1e6);   /* 1 ms */
    put(&f->profile, LZT_MEASURE_RATE, "h2d", 101000, 1e8); /* 1.01 ms */
    put(&f->profile, LZT_MEASURE_TIME, "work", 100, 0.1);
    put(&f->profile, LZT_MEASURE_TIME, "work", 200, 0.3);
    assert_true(lzt_price_seconds(&f->profile, LZT_MEASURE_RATE, "h2d", 10, &s));
    assert_near(s, 1e-3, 1e-15);
    assert_true(lzt_price_seconds(&f->profile, LZT_MEASURE_RATE, "h2d", 51000, &s));
    assert_near(s, 1.005e-3, 1e-15);
    assert_true(lzt_price_seconds(&f->profile, LZT_MEASURE_RATE, "h2d", 1010000, &s));
    assert_near(s, 1.01e-2, 1e-15);
    assert_true(lzt_price_seconds(&f->profile, LZT_MEASURE_TIME, "work", 150, &s));
    assert_near(s, 0.2, 1e-15);
    assert_true(lzt_price_seconds(&f->profile, LZT_MEASURE_TIME, "work", 400, &s));
    assert_near(s, 0.6, 1e-15);
    assert_true(lzt_price_seconds(&f->profile, LZT_MEASURE_TIME, "work", 50, &s));
    assert_near(s, 0.05, 1e-15);
    assert_false(lzt_price_seconds(&f->profile, LZT_MEASURE_TIME, "work", 401, &s));
    assert_false(lzt_price_seconds(&f->profile, LZT_MEASURE_TIME, "work", 49, &s));
    assert_false(lzt_price_seconds(&f->profile, LZT_MEASURE_TIME, "h2d", 1000, &s));
}

static void test_lacking(void **state)
{
    fixture *f = *state;
    lzt_error err = {0};
    lzt_program *program = compile(f, LZT_VARIANT_SINGLE, true);
    double *seconds = calloc(lzt_program_get_info(program)->task_count, sizeof *seconds);
    fill(f, program);
    f->price.tokens = 0;
    uint64_t kept = 0;
    for (uint64_t i = 0; i < f->profile.measurement_count; i++)
        if (strncmp(f->profile.measurement[i].name, "swiglu_bwd", 10))
            f->profile.measurement[kept++] = f->profile.measurement[i];
    assert_true(kept < f->profile.measurement_count);
    f->profile.measurement_count = kept;
    assert_int_equal(lzt_price_tasks(program, &f->price, seconds, &err), LZT_ERR_USAGE);
    assert_non_null(strstr(err.message, "has no time \"swiglu_bwd.bf16."));
    assert_non_null(strstr(err.message, "near 96"));
    assert_string_equal(err.hint,
                        "lazytrain probe --model models/tiny --batch 3 --seq 32 --dtype bf16 --out profile.json");
    free(seconds);
    lzt_program_destroy(program);
}

static void test_not_believed(void **state)
{
    fixture *f = *state;
    lzt_error err = {0};
    lzt_program *program = compile(f, LZT_VARIANT_SINGLE, true);
    double *seconds = calloc(lzt_program_get_info(program)->task_count, sizeof *seconds);
    fill(f, program);
    check(lzt_price_tasks(program, &f->price, seconds, &err), &err);
    for (uint64_t i = 0; i < f->profile.measurement_count; i++) {
        lzt_measurement *m = &f->profile.measurement[i], before = *m;
        double beyond = m->kind == LZT_MEASURE_TIME ? 1e15 : 1e-15;
        m->min = m->median = m->max = beyond;
        assert_int_equal(lzt_price_tasks(program, &f->price, seconds, &err), LZT_ERR_USAGE);
        assert_non_null(strstr(err.message, m->name));
        assert_non_null(strstr(err.message, "not believed"));
        *m = before;
    }
    lzt_contention c;
    put(&f->profile, LZT_MEASURE_TIME, "overlap.compute", 0, 1e-9);
    put(&f->profile, LZT_MEASURE_TIME, "overlap.compute.h2d", 0, 1e-3);
    assert_int_equal(lzt_price_contention(&f->profile, &c, &err), LZT_ERR_USAGE);
    assert_non_null(strstr(err.message, "overlap.compute.h2d is 1e+06 times"));
    free(seconds);
    lzt_program_destroy(program);
}

/* Packed documents of a length that was not measured: the nearest measured one's time, by the pairs of tokens that
 * attend to each other, (n + 1) / 2 a token. */
static void test_documents(void **state)
{
    fixture *f = *state;
    lzt_error err = {0};
    lzt_program *program = compile(f, LZT_VARIANT_SINGLE, true);
    const lzt_program_info *p = lzt_program_get_info(program);
    double *equal = calloc(p->task_count, sizeof *equal), *packed = calloc(p->task_count, sizeof *packed);
    uint64_t attention = 0;
    fill(f, program);
    check(lzt_price_tasks(program, &f->price, equal, &err), &err);
    f->price.document_tokens = TOKENS / DOCUMENTS;
    check(lzt_price_tasks(program, &f->price, packed, &err), &err);
    assert_memory_equal(equal, packed, p->task_count * sizeof *equal);
    f->price.document_tokens = 7;
    check(lzt_price_tasks(program, &f->price, packed, &err), &err);
    for (uint32_t i = 0; i < p->task_count; i++) {
        bool looks = p->task[i].op == LZT_OP_ATTENTION_FWD || p->task[i].op == LZT_OP_ATTENTION_BWD;
        double share = looks ? (7 + 1) / (TOKENS / DOCUMENTS + 1.0) : 1;
        assert_near(packed[i], equal[i] * share, 1e-12);
        attention += looks;
    }
    assert_true(attention > 0);
    /* a length that is nearer, and one that was measured */
    f->price.document_tokens = 8;
    fill(f, program);
    check(lzt_price_tasks(program, &f->price, equal, &err), &err);
    f->price.document_tokens = 7;
    check(lzt_price_tasks(program, &f->price, packed, &err), &err);
    for (uint32_t i = 0; i < p->task_count; i++)
        if (p->task[i].op == LZT_OP_ATTENTION_FWD) assert_near(packed[i], equal[i] * 8 / 9, 1e-12);
    free(equal);
    free(packed);
    lzt_program_destroy(program);
}

static void test_contention(void **state)
{
    fixture *f = *state;
    lzt_error err = {0};
    lzt_contention c;
    put(&f->profile, LZT_MEASURE_TIME, "handover", 0, 2e-5);
    put(&f->profile, LZT_MEASURE_TIME, "overlap.compute", 0, 0.2);
    put(&f->profile, LZT_MEASURE_TIME, "overlap.compute.h2d", 0, 0.25);
    put(&f->profile, LZT_MEASURE_TIME, "overlap.compute.d2h", 0, 0.19); /* noise: never faster than alone */
    check(lzt_price_contention(&f->profile, &c, &err), &err);
    assert_near(c.handover_seconds, 2e-5, 0);
    assert_near(c.slowdown[LZT_LANE_COMPUTE][LZT_LANE_H2D], 1.25, 1e-15);
    assert_near(c.slowdown[LZT_LANE_COMPUTE][LZT_LANE_D2H], 1, 0);
    assert_near(c.slowdown[LZT_LANE_H2D][LZT_LANE_COMPUTE], 1, 0);
    put(&f->profile, LZT_MEASURE_TIME, "overlap.h2d.compute", 0, 0.25);
    assert_int_equal(lzt_price_contention(&f->profile, &c, &err), LZT_ERR_USAGE);
    assert_non_null(strstr(err.message, "\"overlap.h2d\""));
}

/* A step of several micro-batches is its programs one after the other, and its parts add up to the whole. */
static void test_step(void **state)
{
    fixture *f = *state;
    lzt_error err = {0};
    static const struct {
        lzt_variant variant;
        bool update;
    } parts[] = {
        {LZT_VARIANT_FIRST, true}, {LZT_VARIANT_MIDDLE, false}, {LZT_VARIANT_MIDDLE, false}, {LZT_VARIANT_LAST, false}};
    f->step.micro_batches = 4;
    double sum = 0, part;
    for (int i = 0; i < 4; i++) {
        lzt_program *program = compile(f, parts[i].variant, parts[i].update);
        fill(f, program);
        check(lzt_price_program(program, &f->price, NULL, NULL, NULL, &part, &err), &err);
        sum += part;
        lzt_program_destroy(program);
    }
    lzt_step_price price;
    check(lzt_price_step(&f->step, &f->price, &price, &err), &err);
    assert_near(price.seconds, sum, 1e-12);
    double parts_sum = price.account.busy_seconds[LZT_LANE_COMPUTE];
    for (int i = 0; i < LZT_IDLE_COUNT; i++) parts_sum += price.account.exposed_seconds[i];
    assert_near(parts_sum, price.seconds, 1e-6);
    assert_int_equal(price.account.programs, 4);
    assert_true(price.account.bytes[LZT_LANE_H2D] > 0 && price.account.layer_forwards > 0);
}

/* A layer without kernels: its operations at the rate of the linear products, 2 x 10 x 20 x 30 in 1 us and
 * 2 x 10 x 40 x 60 in 3 us. */
static void test_flops(void **state)
{
    fixture *f = *state;
    assert_near(lzt_price_flops_per_s(&f->profile, LZT_DTYPE_F32), 0, 0);
    put(&f->profile, LZT_MEASURE_TIME, "linear_fwd.f32.20x30", 10, 1e-6);
    put(&f->profile, LZT_MEASURE_TIME, "linear_fwd.f32.40x60", 10, 3e-6);
    put(&f->profile, LZT_MEASURE_TIME, "linear_fwd.bf16.40x60", 10, 1e-9);
    assert_near(lzt_price_flops_per_s(&f->profile, LZT_DTYPE_F32), 60000 / 4e-6, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_exact, set_up, tear_down),
                                       cmocka_unit_test_setup_teardown(test_between_sizes, set_up, tear_down),
                                       cmocka_unit_test_setup_teardown(test_lacking, set_up, tear_down),
                                       cmocka_unit_test_setup_teardown(test_not_believed, set_up, tear_down),
                                       cmocka_unit_test_setup_teardown(test_documents, set_up, tear_down),
                                       cmocka_unit_test_setup_teardown(test_contention, set_up, tear_down),
                                       cmocka_unit_test_setup_teardown(test_step, set_up, tear_down),
                                       cmocka_unit_test_setup_teardown(test_flops, set_up, tear_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
