/* Goal: plan.json holds every field, survives the round trip, and refuses what is not a plan by file and key.
 * Method: a plan with every field set is printed, parsed and compared; then the text is broken in one place at a time
 * and the message must name the place. */
#include "lazytrain/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { LAYERS = 6 };

static void make_problem(lzt_plan *plan)
{
    lzt_problem *p = plan->problem = calloc(1, sizeof *p);
    assert_int_equal(lzt_problem_init(p, LAYERS, NULL), 0);
    p->max_segment = 4;
    p->budget_bytes[LZT_TIER_GPU] = 500;
    p->budget_bytes[LZT_TIER_CPU] = 200;
    p->budget_bytes[LZT_TIER_NVME] = 100;
    p->overlap_aware_pcie = true;
    p->tiebreak_ps = 1000000;
    p->penalty_ps = 10001;
    p->lock_gpu = true;
    for (uint64_t i = 0; i <= LAYERS; i++) p->boundary_bytes[i] = 100;
    for (uint64_t i = 0; i < LAYERS; i++) p->recompute_ps[i] = 14000000001 + i;
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) {
        p->bytes_per_s[pool] = 1000 + (uint64_t)pool;
        for (uint64_t i = 0; i < LAYERS; i++) p->window_bytes[pool][i] = 70 + i;
    }
    for (uint64_t i = 0; i < LAYERS; i++) p->mandatory_bytes[0][i] = 7, p->mandatory_bytes[1][i] = 8;
    p->locked_gpu[0] = p->locked_gpu[LAYERS] = p->locked_gpu[3] = true;
}

static void make(lzt_plan *plan)
{
    assert_int_equal(lzt_plan_init(plan, LAYERS, NULL), 0);
    strcpy(plan->model_name, "a \"quoted\" name");
    plan->model_fingerprint = 0xfedcba9876543210u;
    plan->numerics = (lzt_numerics){1024, 128, 64, 2, LZT_DTYPE_BF16, LZT_DTYPE_F32, 0};
    plan->boundary[1] = LZT_TIER_CPU;
    plan->boundary[2] = LZT_TIER_NVME;
    plan->boundary[4] = plan->boundary[5] = LZT_TIER_RECOMPUTE;
    plan->internals[2] = plan->internals[5] = LZT_TIER_GPU;
    plan->internals[0] = plan->internals[3] = LZT_TIER_CPU;
    plan->internals[4] = LZT_TIER_NVME;
    plan->weights[1] = plan->head_weights = true;
    plan->prefetch_layers = 3;
    plan->gradient_slots = 2;
    plan->internals_stages = 8;
    plan->state = calloc(2, sizeof *plan->state);
    plan->state[0] = (lzt_state_place){LZT_STATE_MASTER, 0, LZT_TIER_NVME};
    plan->state[1] = (lzt_state_place){LZT_STATE_MOMENTS, 4, LZT_TIER_CPU};
    plan->state_count = 2;
    plan->device_bytes = UINT64_C(1) << 40;
    plan->layer_forwards = 12;
    plan->status = LZT_PLAN_FEASIBLE;
    strcpy(plan->solver, "dp");
    plan->objective_ps = 182003520001;
    plan->bound_ps = 182000000000;
    plan->solve_seconds = 0.25;
    plan->source = (lzt_plan_source){.batch_size = 72, .max_seq_len = 1024, .dtype_bytes = 2, .peak_cap_gib = 70.5};
    strcpy(plan->source.optimizer_mode, "hybrid_8bit_adam");
    make_problem(plan);
}

static void test_round_trip(void **unused)
{
    (void)unused;
    lzt_plan plan, copy, back;
    lzt_error err = {0};
    char *text, *again;
    make(&plan);
    assert_int_equal(lzt_plan_copy(&copy, &plan, &err), 0);
    assert_int_equal(lzt_plan_print(&copy, &text, &err), 0);
    if (lzt_plan_parse(text, strlen(text), "memory", &back, &err)) fail_msg("%s: %s", err.where, err.message);
    assert_int_equal(lzt_plan_print(&back, &again, &err), 0);
    assert_string_equal(text, again);
    assert_memory_equal(back.boundary, plan.boundary, (LAYERS + 1) * sizeof *plan.boundary);
    assert_memory_equal(back.internals, plan.internals, LAYERS * sizeof *plan.internals);
    assert_memory_equal(back.weights, plan.weights, LAYERS * sizeof(bool));
    assert_memory_equal(back.problem->recompute_ps, plan.problem->recompute_ps, LAYERS * 8);
    assert_int_equal(back.problem->penalty_ps, plan.problem->penalty_ps);
    assert_int_equal(back.objective_ps, plan.objective_ps);
    assert_int_equal(back.model_fingerprint, plan.model_fingerprint);
    assert_string_equal(back.model_name, plan.model_name);
    assert_int_equal(back.state[1].unit, 4);
    assert_true(back.head_weights);
    assert_int_equal(back.internals_stages, 8);
    free(text);
    free(again);
    lzt_plan_fini(&plan);
    lzt_plan_fini(&copy);
    lzt_plan_fini(&back);
}

static uint64_t violations(const lzt_plan *plan)
{
    lzt_evaluation e;
    assert_int_equal(lzt_plan_check(plan, NULL, NULL, &e, NULL), 0);
    return e.violation_count;
}

/* What may be followed is what keeps the constraints; what a file says of itself must at least be possible. */
static void test_require(void **unused)
{
    (void)unused;
    lzt_plan plan;
    lzt_error err = {0};
    make(&plan);
    assert_int_equal(violations(&plan), 0);
    assert_int_equal(lzt_plan_require(&plan, "x.json", &err), 0);
    plan.bound_ps = plan.objective_ps;
    assert_int_equal(violations(&plan), 0);
    plan.bound_ps++; /* no placement can be better than a bound */
    assert_int_equal(violations(&plan), 1);
    assert_int_equal(lzt_plan_require(&plan, "x.json", &err), 0);
    plan.problem->budget_bytes[LZT_TIER_GPU] = 299;
    assert_int_equal(violations(&plan), 2);
    assert_int_equal(lzt_plan_require(&plan, "x.json", &err), LZT_ERR_USAGE);
    assert_string_equal(err.where, "x.json");
    assert_non_null(strstr(err.message, "gpu holds 300 bytes, its budget is 299"));
    lzt_problem_fini(plan.problem);
    free(plan.problem);
    plan.problem = NULL;
    assert_int_equal(lzt_plan_require(&plan, "x.json", &err), 0);
    plan.boundary[LAYERS] = LZT_TIER_CPU;
    assert_int_equal(lzt_plan_require(&plan, "x.json", &err), LZT_ERR_USAGE);
    assert_non_null(strstr(err.message, "the ends stay on the gpu"));
    lzt_plan_fini(&plan);
}

static void test_files(void **unused)
{
    (void)unused;
    lzt_plan plan, back;
    lzt_error err = {0};
    char path[] = "/tmp/lzt_plan_test_XXXXXX";
    close(mkstemp(path));
    make(&plan);
    assert_int_equal(lzt_plan_write(path, &plan, &err), 0);
    assert_int_equal(lzt_plan_read(path, &back, &err), 0);
    assert_int_equal(back.layer_count, LAYERS);
    lzt_plan_fini(&back);
    assert_int_equal(lzt_plan_write("/nonexistent/plan.json", &plan, &err), LZT_ERR_STORAGE);
    assert_int_equal(lzt_plan_read("/nonexistent/plan.json", &back, &err), LZT_ERR_USAGE);
    assert_string_equal(err.where, "/nonexistent/plan.json");
    lzt_plan_fini(&plan);
    unlink(path);
}

/* Replaces the first `from` by `to`. */
static char *edit(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    char *out = NULL;
    if (!at) fail_msg("\"%s\" is not in the plan", from);
    assert_true(asprintf(&out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) > 0);
    return out;
}

static void test_malformed(void **unused)
{
    (void)unused;
    static const struct {
        const char *from, *to, *where;
    } cases[] = {
        {"\"version\": 1", "\"version\": 2", "version is 2"},
        {"\"version\": 1", "\"version\": 1, \"surprise\": 0", "unknown key \"surprise\""},
        {"\"version\": 1", "\"version\": 1, \"version\": 1", "duplicate"},
        {"lazytrain-plan", "other", "format is \"other\""},
        {"\"layers\": 6", "\"layers\": 0", "model.layers"},
        {"\"layers\": 6", "\"layers\": 7", "boundaries has 7 elements"},
        {"\"layers\": 6", "\"layers\": -6", "model.layers"},
        {"\"layers\": 6", "\"layers\": 6.0", "model.layers is a real number"},
        {"\"fingerprint\": \"fedc", "\"fingerprint\": \"Fedc", "model.fingerprint"},
        {"\"index\": 3", "\"index\": 4", "boundaries[3] is boundary 4; 3 is missing before it"},
        {"\"index\": 3", "\"index\": 1", "boundaries[3] is boundary 1 a second time"},
        {"\"index\": 3", "\"index\": 7", "boundaries[3].index is 7"},
        {"{\"index\": 6", "{\"index\": 5, \"tier\": \"gpu\"}, {\"index\": 6",
         "boundaries[6] is boundary 5 a second time"},
        {"{\"index\": 6, \"tier\": \"gpu\"}", "{\"index\": 6, \"tier\": \"gpu\"}, {\"index\": 6, \"tier\": \"gpu\"}",
         "boundaries[7] is boundary 6 a second time"},
        {"\"tier\": \"cpu\"", "\"tier\": \"ram\"", "boundaries[1].tier is \"ram\""},
        {"\"tier\": \"cpu\"", "\"tier\": 1", "boundaries[1].tier is an integer"},
        {"\"internals\": [2, 5]", "\"internals\": [5, 2]", "internals[1] is layer 2, out of order"},
        {"\"internals\": [2, 5]", "\"internals\": [2, 6]", "internals[1] is 6"},
        {"\"internals_cpu\": [0, 3]", "\"internals_cpu\": [3, 0]", "internals_cpu[1] is layer 0, out of order"},
        {"\"internals_cpu\": [0, 3]", "\"internals_cpu\": [0, 6]", "internals_cpu[1] is 6"},
        {"\"internals_cpu\": [0, 3]", "\"internals_cpu\": [0, 5]", "internals_cpu[1] is layer 5"},
        {"\"internals_cpu\": [0, 3]", "\"internals_cpu\": [0, 0]", "internals_cpu[1] is layer 0 a second time"},
        {"\"internals_cpu\": [0, 3]", "\"internals_cpu\": [0, 3, 0]", "internals_cpu[2] is layer 0 a second time"},
        {"\"internals\": [2, 5]", "\"internals\": [0, 1, 2, 3, 4, 5, 5]", "internals[6] is layer 5 a second time"},
        {"\"weights\": [1]", "\"weights\": [1, 1]", "weights[1] is layer 1 a second time"},
        {"\"weights\": [1]", "\"weights\": [1, 0]", "weights[1] is layer 0, out of order"},
        {"\"internals_nvme\": [4]", "\"internals_nvme\": [3]", "internals_nvme[0] is layer 3"},
        {"\"head_weights\": true", "\"head_weights\": 1", "head_weights is an integer"},
        {"\"prefetch_layers\": 3", "\"prefetch_layers\": 0", "prefetch_layers is 0"},
        {"\"gradient_slots\": 2", "\"gradient_slots\": -2", "gradient_slots is -2"},
        {"\"internals_stages\": 8", "\"internals_stages\": 0", "internals_stages is 0"},
        {"\"internals_stages\": 8", "\"internals_stages\": 65", "internals_stages is 65"},
        {"\"dtype\": \"bf16\"", "\"dtype\": \"f16\"", "numerics.dtype is \"f16\""},
        {"\"micro_batch_tokens\": 1024", "\"micro_batch_tokens\": 0", "numerics.micro_batch_tokens"},
        {"\"layer\": 3, \"tier\": \"cpu\"", "\"layer\": 3, \"tier\": \"gpu\"", "state[1].tier"},
        {"\"layer\": \"embedding\"", "\"layer\": 4", "state[1] is out of order"},
        {"\"state\": [", "\"state\": [{\"object\": \"master\", \"layer\": \"embedding\", \"tier\": \"cpu\"},",
         "state[1] places the same master of the same layer a second time"},
        {"\"device_bytes\": 1099511627776", "\"device_bytes\": 1e12", "planned.device_bytes is a real number"},
        {"\"boundary_bytes\": [\n      100,", "\"boundary_bytes\": [\n      -1,", "problem.boundary_bytes[0] is -1"},
        {"\"max_segment\": 4", "\"max_segment\": 0", "problem.max_segment"},
        {"\"bytes_per_s\": {\"d2h\": 1000", "\"bytes_per_s\": {\"d2h\": 0", "problem.bytes_per_s.d2h is 0"},
        {"\"locked_gpu\": [0,", "\"locked_gpu\": [0, 0,", "problem.locked_gpu[1] is boundary 0 a second time"},
        {"\"status\": \"feasible\"", "\"status\": \"fine\"", "status is \"fine\""},
        {"\"problem\": {", "\"problem\": 1, \"x\": {", "unknown key \"x\""},
        {"{\n", "[\n", "line"},
    };
    lzt_plan plan, back;
    char *text;
    make(&plan);
    assert_int_equal(lzt_plan_print(&plan, &text, NULL), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lzt_error err = {0};
        char *broken = edit(text, cases[i].from, cases[i].to);
        assert_int_equal(lzt_plan_parse(broken, strlen(broken), "my.json", &back, &err), LZT_ERR_USAGE);
        if (!strstr(err.message, cases[i].where) || strcmp(err.where, "my.json"))
            fail_msg("case %zu: \"%s\" does not name \"%s\"", i, err.message, cases[i].where);
        assert_null(back.boundary);
        free(broken);
    }
    for (size_t cut = 0; cut < strlen(text) - 2; cut += 97)
        assert_int_equal(lzt_plan_parse(text, cut, "my.json", &back, NULL), LZT_ERR_USAGE);
    free(text);
    lzt_plan_fini(&plan);
}

static void test_baseline(void **unused)
{
    (void)unused;
    lzt_model_info model = {.layer_count = 10, .fingerprint = 5, .directory = "models/x", .unit_count = 13};
    lzt_numerics numerics = {256, 64, 0, 2, LZT_DTYPE_F32, LZT_DTYPE_F32, 0};
    lzt_plan plan;
    lzt_error err = {0};
    assert_int_equal(lzt_plan_baseline(&model, &numerics, 0, &plan, &err), LZT_ERR_USAGE);
    assert_int_equal(lzt_plan_baseline(&model, &numerics, 4, &plan, &err), 0);
    for (uint64_t i = 0; i <= 10; i++)
        assert_int_equal(plan.boundary[i], i % 4 && i != 10 ? LZT_TIER_RECOMPUTE : LZT_TIER_GPU);
    assert_int_equal(lzt_plan_layer_forwards(&plan), 10 + 7 + 10);
    plan.internals[3] = LZT_TIER_GPU;
    assert_int_equal(lzt_plan_layer_forwards(&plan), 10 + 7 + 9);
    plan.internals[4] = LZT_TIER_CPU;
    assert_int_equal(lzt_plan_layer_forwards(&plan), 10 + 7 + 8);
    assert_int_equal(lzt_plan_match(&plan, &model, &err), 0);
    model.fingerprint = 6;
    assert_int_equal(lzt_plan_match(&plan, &model, &err), LZT_ERR_USAGE);
    assert_non_null(strstr(err.message, "0000000000000005"));
    assert_non_null(strstr(err.message, "0000000000000006"));
    model.fingerprint = 5;
    plan.boundary[10] = LZT_TIER_CPU;
    assert_int_equal(lzt_plan_match(&plan, &model, &err), LZT_ERR_USAGE);
    plan.boundary[10] = LZT_TIER_GPU;
    plan.numerics.loss_chunk = 0;
    assert_int_equal(lzt_plan_match(&plan, &model, &err), LZT_ERR_USAGE);
    lzt_plan_fini(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_require),  cmocka_unit_test(test_files),
        cmocka_unit_test(test_malformed),  cmocka_unit_test(test_baseline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
