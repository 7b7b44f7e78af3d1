/* Goal: the source's model to its last digit. Method: the golden rows of the planner's spec, on a synthetic model table
 * with the shape of Qwen3.6-27B (64 layers, every fourth with full attention); the reference schedule is written here
 * as the source's JSON. Objectives are compared in picoseconds. */
#include "lazytrain/solve.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static lzt_layer layers[4096];

static lzt_model_info qwen27b(uint64_t layer_count)
{
    for (uint64_t l = 0; l < layer_count; l++)
        layers[l].kind = l % 4 == 3 ? LZT_LAYER_FULL_ATTENTION : LZT_LAYER_LINEAR_ATTENTION;
    return (lzt_model_info){.arch = LZT_ARCH_QWEN3_5,
                            .architecture = "Qwen3_5ForConditionalGeneration",
                            .directory = "Qwen3.6-27B",
                            .layer_count = layer_count,
                            .hidden = 5120,
                            .intermediate = 17408,
                            .query_heads = 24,
                            .kv_heads = 4,
                            .head_dim = 256,
                            .fingerprint = 27,
                            .layer = layers};
}

static lzt_source_options source_command(double cpu_gib)
{
    lzt_source_options o = LZT_SOURCE_OPTIONS_INIT;
    o.cpu_activation_budget_gib = cpu_gib;
    o.nvme_activation_budget_gib = 32;
    o.enable_nvme_offload = o.enable_overlap_aware_offload = o.enable_overlap_aware_nvme = true;
    o.include_param_grad_pcie = true;
    return o;
}

static lzt_evaluation plan_case(const lzt_source_options *o, lzt_solver solver, lzt_plan *plan)
{
    lzt_model_info model = qwen27b(64);
    lzt_solve_options solve = LZT_SOLVE_OPTIONS_INIT;
    lzt_solve_result result;
    lzt_evaluation e;
    lzt_error err = {0};
    solve.solver = solver;
    solve.cold_start = true;
    if (lzt_source_plan(&model, o, &solve, plan, &result, &err)) fail_msg("%s: %s", err.where, err.message);
    assert_int_equal(result.status, LZT_PLAN_OPTIMAL);
    assert_int_equal(lzt_plan_check(plan, NULL, NULL, &e, &err), 0);
    assert_int_equal(e.violation_count, 0);
    assert_int_equal(e.objective_ps, plan->objective_ps);
    return e;
}

static void assert_counts(const lzt_evaluation *e, uint64_t gpu, uint64_t cpu, uint64_t nvme, uint64_t recomputed)
{
    assert_int_equal(e->count[LZT_TIER_GPU], gpu);
    assert_int_equal(e->count[LZT_TIER_CPU], cpu);
    assert_int_equal(e->count[LZT_TIER_NVME], nvme);
    assert_int_equal(e->count[LZT_TIER_RECOMPUTE], recomputed);
    assert_int_equal(e->block_count, 64 - recomputed);
}

static const struct golden {
    double cpu_gib;
    uint64_t cpu, nvme, objective_ps;
} golden[] = {
    {14, 19, 3, 182003520000}, {15, 21, 1, 182001520000}, {12, 17, 5, 182005520000},
    {10, 14, 8, 182008520000}, {8, 11, 11, 182011520000},
};

static void check_golden(lzt_solver solver)
{
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        lzt_source_options o = source_command(golden[i].cpu_gib);
        lzt_plan plan;
        lzt_evaluation e = plan_case(&o, solver, &plan);
        assert_counts(&e, 30, golden[i].cpu, golden[i].nvme, 13);
        assert_int_equal(e.objective_ps, golden[i].objective_ps);
        assert_int_equal(e.recompute_ps, 182000000000);
        for (int pool = 0; pool < LZT_POOL_COUNT; pool++) assert_int_equal(e.exposed_ps[pool], 0);
        for (uint64_t b = 1; b < 64; b++) /* no full-attention layer is run again */
            assert_true(plan.boundary[b] != LZT_TIER_RECOMPUTE || (b - 1) % 4 != 3);
        lzt_plan_fini(&plan);
        o.hidden_nvme_offload_tiebreak_ms = 0;
        e = plan_case(&o, solver, &plan);
        assert_int_equal(e.objective_ps, 182000520000);
        assert_int_equal(e.count[LZT_TIER_GPU], 30);
        lzt_plan_fini(&plan);
    }
}

static void test_golden_dp(void **unused)
{
    (void)unused;
    check_golden(LZT_SOLVER_DP);
}

static void test_golden_highs(void **unused)
{
    (void)unused;
    if (!lzt_solve_has_highs(NULL, NULL)) {
        print_message("SKIPPED: HiGHS is not on this machine (tools/install-highs fetches it)\n");
        skip();
    }
    check_golden(LZT_SOLVER_HIGHS);
}

static uint64_t sum(const uint64_t *value, uint64_t count)
{
    uint64_t total = 0;
    for (uint64_t i = 0; i < count; i++) total += value[i];
    return total;
}

static void test_derived_inputs(void **unused)
{
    (void)unused;
    lzt_model_info model = qwen27b(64);
    lzt_source_options o = source_command(14);
    lzt_problem p;
    assert_int_equal(lzt_source_problem(&model, &o, &p, NULL), 0);
    assert_int_equal(p.boundary_bytes[0], 754974720);            /* 0.703125 GiB */
    assert_int_equal(p.budget_bytes[LZT_TIER_GPU], 23142491750); /* 21.553125 GiB */
    assert_int_equal(p.budget_bytes[LZT_TIER_GPU] / 754974720, 30);
    assert_int_equal(p.budget_bytes[LZT_TIER_CPU] / 754974720, 19);
    assert_int_equal(p.budget_bytes[LZT_TIER_NVME] / 754974720, 45);
    assert_int_equal(p.recompute_ps[0], 14000000000);
    assert_int_equal(p.recompute_ps[3], 20000000000);
    assert_int_equal(sum(p.recompute_ps, 64), 992000000000);
    assert_int_equal(sum(p.window_bytes[LZT_POOL_D2H], 64), 59520000000);    /* 55.43 GiB */
    assert_int_equal(sum(p.mandatory_bytes[LZT_POOL_H2D], 64), 42279895040); /* 39.376 GiB */
    assert_int_equal((lzt_pool_ps(&p, LZT_POOL_D2H, 754974720) + 50000000) / 100000000, 629);
    assert_int_equal((lzt_pool_ps(&p, LZT_POOL_NVME_WRITE, 754974720) + 50000000) / 100000000, 2254);
    assert_int_equal((lzt_pool_ps(&p, LZT_POOL_NVME_READ, 754974720) + 50000000) / 100000000, 2668);
    lzt_problem_fini(&p);
    o.peak_cap_gib = 10; /* less than the baseline leaves: no budget, not a wrapped one */
    assert_int_equal(lzt_source_problem(&model, &o, &p, NULL), 0);
    assert_int_equal(p.budget_bytes[LZT_TIER_GPU], 0);
    lzt_problem_fini(&p);
}

static const int recomputed[] = {6, 17, 18, 19, 25, 37, 45, 46, 47, 53, 54, 55, 61};
static const char gpu_set[] = "[0, 27, 28, 29, 30, 32, 33, 34, 35, 36, 38, 39, 40, 41, 42, 43, 44, 48, 49, 50, 51, 52, "
                              "56, 57, 58, 59, 60, 62, 63, 64]";

/* The source's reference path as its JSON; returns the file's name in path. */
static void write_reference(char *path, const char *gpu, int last)
{
    FILE *out = fdopen(mkstemp(path), "w");
    int from = 0;
    size_t next = 0;
    assert_non_null(out);
    fprintf(out, "{\"note\": \"reference\", \"num_layers\": 64, \"selected_edges\": [");
    for (int b = 1; b <= last; b++) {
        if (next < sizeof recomputed / sizeof *recomputed && recomputed[next] == b) {
            next++;
            continue;
        }
        fprintf(out, "%s[%d, %d]", from ? ", " : "", from, b);
        from = b;
    }
    fprintf(out, "], \"gpu_checkpoints\": %s}\n", gpu);
    fclose(out);
}

static void test_reference_locks(void **unused)
{
    (void)unused;
    char path[] = "/tmp/lzt_reference_XXXXXX";
    write_reference(path, gpu_set, 64);
    for (size_t i = 0; i < 3; i++) { /* CPU 14, 15, 12 */
        lzt_source_options o = source_command(golden[i].cpu_gib);
        lzt_plan plan;
        o.reference_schedule = path;
        o.lock_reference_edges = o.lock_reference_gpu_checkpoints = true;
        lzt_evaluation e = plan_case(&o, LZT_SOLVER_DP, &plan);
        assert_counts(&e, 30, golden[i].cpu, golden[i].nvme, 13);
        assert_int_equal(e.objective_ps, golden[i].objective_ps);
        for (size_t k = 0; k < 13; k++) assert_int_equal(plan.boundary[recomputed[k]], LZT_TIER_RECOMPUTE);
        o.lock_reference_gpu_checkpoints = false; /* the path alone */
        lzt_plan_fini(&plan);
        e = plan_case(&o, LZT_SOLVER_DP, &plan);
        assert_int_equal(e.objective_ps, golden[i].objective_ps);
        lzt_plan_fini(&plan);
        o.lock_reference_gpu_checkpoints = true; /* the GPU set alone */
        o.lock_reference_edges = false;
        e = plan_case(&o, LZT_SOLVER_DP, &plan);
        assert_int_equal(e.objective_ps, golden[i].objective_ps);
        lzt_plan_fini(&plan);
    }
    unlink(path);
}

/* Our own plan is a reference as well. */
static void test_own_reference(void **unused)
{
    (void)unused;
    char path[] = "/tmp/lzt_reference_XXXXXX";
    lzt_source_options o = source_command(14);
    lzt_plan plan, locked;
    close(mkstemp(path));
    plan_case(&o, LZT_SOLVER_DP, &plan);
    assert_int_equal(lzt_plan_write(path, &plan, NULL), 0);
    o.reference_schedule = path;
    o.lock_reference_edges = o.lock_reference_gpu_checkpoints = true;
    o.cpu_activation_budget_gib = 15;
    lzt_evaluation e = plan_case(&o, LZT_SOLVER_DP, &locked);
    assert_counts(&e, 30, 21, 1, 13);
    for (uint64_t i = 0; i <= 64; i++)
        assert_int_equal(locked.boundary[i] == LZT_TIER_RECOMPUTE, plan.boundary[i] == LZT_TIER_RECOMPUTE);
    lzt_plan_fini(&plan);
    lzt_plan_fini(&locked);
    unlink(path);
}

static void test_bad_reference(void **unused)
{
    (void)unused;
    static const struct {
        const char *gpu;
        int last;
        const char *message;
    } cases[] = {{"[0, 65]", 64, "gpu_checkpoints[1]"},
                 {"[0, 64]", 60, "selected_edges ends at boundary 60"},
                 {"[0, 17, 64]", 64, "boundary 17 is locked to the GPU"},
                 {"7", 64, "gpu_checkpoints is an integer"}};
    lzt_model_info model = qwen27b(64);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[] = "/tmp/lzt_reference_XXXXXX";
        lzt_error err = {0};
        lzt_problem p;
        lzt_source_options o = source_command(14);
        write_reference(path, cases[i].gpu, cases[i].last);
        o.reference_schedule = path;
        o.lock_reference_edges = o.lock_reference_gpu_checkpoints = true;
        assert_int_equal(lzt_source_problem(&model, &o, &p, &err), LZT_ERR_USAGE);
        if (!strstr(err.message, cases[i].message)) fail_msg("\"%s\" lacks \"%s\"", err.message, cases[i].message);
        unlink(path);
    }
    lzt_error err = {0};
    lzt_problem p;
    lzt_source_options o = source_command(14);
    o.lock_reference_edges = true;
    assert_int_equal(lzt_source_problem(&model, &o, &p, &err), LZT_ERR_USAGE);
    assert_string_equal(err.where, "--lock-reference-edges");
}

/* With the switches off every transfer is charged whole. */
static void test_not_overlap_aware(void **unused)
{
    (void)unused;
    lzt_source_options o = source_command(14);
    lzt_plan plan;
    o.enable_overlap_aware_offload = o.enable_overlap_aware_nvme = false;
    lzt_evaluation e = plan_case(&o, LZT_SOLVER_DP, &plan);
    /* moving an activation twice takes 125.8 ms, more than any layer: nothing leaves the GPU but what the path needs */
    assert_int_equal(e.count[LZT_TIER_CPU] + e.count[LZT_TIER_NVME], 0);
    assert_int_equal(e.count[LZT_TIER_GPU], 30);
    lzt_plan_fini(&plan);
}

static void test_infeasible(void **unused)
{
    (void)unused;
    lzt_model_info model = qwen27b(64);
    lzt_solve_options solve = LZT_SOLVE_OPTIONS_INIT;
    lzt_source_options o = source_command(0);
    lzt_solve_result result;
    lzt_plan plan;
    o.nvme_activation_budget_gib = 0;
    o.peak_cap_gib = 50; /* 1.553 GiB left: 2 slots, 17 are needed */
    assert_int_equal(lzt_source_plan(&model, &o, &solve, &plan, &result, NULL), 0);
    assert_int_equal(result.status, LZT_PLAN_INFEASIBLE);
    assert_int_equal(result.resource, LZT_TIER_GPU);
    assert_int_equal(result.missing_bytes, 17 * UINT64_C(754974720) - UINT64_C(1667655270));
    assert_null(plan.boundary);
}

/* A baseline whose own peak leaves less than nothing: what is missing is counted from there, to the byte. */
static void test_overdrawn(void **unused)
{
    (void)unused;
    lzt_model_info model = qwen27b(64);
    lzt_solve_options solve = LZT_SOLVE_OPTIONS_INIT;
    lzt_source_options o = source_command(14);
    lzt_solve_result result;
    lzt_plan plan;
    o.peak_cap_gib = 40;
    assert_int_equal(lzt_source_plan(&model, &o, &solve, &plan, &result, NULL), 0);
    assert_int_equal(result.status, LZT_PLAN_INFEASIBLE);
    assert_int_equal(result.resource, LZT_TIER_GPU);
    /* 60.4 GiB - 40 GiB - 17 boundaries below zero, and both ends */
    assert_int_equal(result.missing_bytes, UINT64_C(64854006170) - (UINT64_C(40) << 30) - 15 * UINT64_C(754974720));
    if (!strstr(result.reason, "bytes below zero")) fail_msg("\"%s\"", result.reason);
    double cap = o.peak_cap_gib;
    for (uint64_t less = 0; less < 2; less++) {
        o.peak_cap_gib = cap + (double)(result.missing_bytes - less) / 1073741824.0;
        lzt_solve_result again;
        assert_int_equal(lzt_source_plan(&model, &o, &solve, &plan, &again, NULL), 0);
        assert_int_equal(again.status, less ? LZT_PLAN_INFEASIBLE : LZT_PLAN_OPTIMAL);
        if (less) assert_int_equal(again.missing_bytes, 1);
        lzt_plan_fini(&plan);
    }
}

/* Options that are taken give a plan that can be read again; those beyond are refused by name. */
static void test_extremes(void **unused)
{
    (void)unused;
    static const struct {
        uint64_t dtype_bytes;
        double layer_ms, ratio;
        const char *refused;
    } cases[] = {{8, 20, 0.7, NULL},
                 {9, 20, 0.7, "--dtype-bytes"},
                 {2, 1e6, 1, NULL},
                 {2, 20, 5e4, NULL},
                 {2, 20, 5.1e4, "--linear-recompute-ratio"}};
    lzt_model_info model = qwen27b(64);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[] = "/tmp/lzt_extremes_XXXXXX";
        lzt_solve_options solve = LZT_SOLVE_OPTIONS_INIT;
        lzt_source_options o = source_command(400);
        lzt_solve_result result;
        lzt_error err = {0};
        lzt_plan plan, again;
        o.dtype_bytes = cases[i].dtype_bytes;
        o.layer_recompute_ms = cases[i].layer_ms;
        o.linear_recompute_ratio = cases[i].ratio;
        lzt_status status = lzt_source_plan(&model, &o, &solve, &plan, &result, &err);
        assert_int_equal(status, cases[i].refused ? LZT_ERR_USAGE : LZT_OK);
        if (cases[i].refused) assert_string_equal(err.where, cases[i].refused);
        if (status) continue;
        assert_int_equal(result.status, LZT_PLAN_OPTIMAL);
        close(mkstemp(path));
        assert_int_equal(lzt_plan_write(path, &plan, NULL), 0);
        if (lzt_plan_read(path, &again, &err)) fail_msg("%s: %s", err.where, err.message);
        assert_int_equal(again.objective_ps, plan.objective_ps);
        unlink(path);
        lzt_plan_fini(&again);
        lzt_plan_fini(&plan);
    }
}

static void test_speed_shapes(void **unused)
{
    (void)unused;
    static const uint64_t counts[] = {128, 1000};
    for (size_t i = 0; i < 2; i++) {
        lzt_model_info model = qwen27b(counts[i]);
        lzt_solve_options solve = LZT_SOLVE_OPTIONS_INIT;
        lzt_source_options o = source_command(14.0 * (double)counts[i] / 64);
        lzt_solve_result result;
        lzt_plan plan;
        o.nvme_activation_budget_gib = 32.0 * (double)counts[i] / 64;
        o.peak_cap_gib = 60.4 + 9.6 * (double)counts[i] / 64;
        assert_int_equal(lzt_source_plan(&model, &o, &solve, &plan, &result, NULL), 0);
        assert_int_equal(result.status, LZT_PLAN_OPTIMAL);
        print_message("%llu layers: %.3f ms, objective %.5f\n", (unsigned long long)counts[i],
                      result.solve_seconds * 1e3, lzt_ms(result.objective_ps));
        lzt_plan_fini(&plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_dp),         cmocka_unit_test(test_golden_highs),
        cmocka_unit_test(test_derived_inputs),    cmocka_unit_test(test_reference_locks),
        cmocka_unit_test(test_own_reference),     cmocka_unit_test(test_bad_reference),
        cmocka_unit_test(test_not_overlap_aware), cmocka_unit_test(test_infeasible),
        cmocka_unit_test(test_overdrawn),         cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_speed_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
