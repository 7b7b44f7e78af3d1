/* Goal: a topology is read strictly, its pools are shared equally, and ranks that share a pool plan like one rank at
 * its share of the rate, with either solver. Method: a table of wrong files with the place that the error must name;
 * exact shares of a small node; the source's 27B case under rates where transfers hide, compete and are exposed, once
 * through the topology and once with the rate written out; the program with --topology on files. */
#include "program_run.h"

#include "lazytrain/solve.h"

static lzt_status parse(const char *pools, uint32_t world, lzt_topology *t, lzt_error *err)
{
    char text[2048];
    snprintf(text, sizeof text, "{\"pools\": [%s]}", pools);
    return lzt_topology_parse(text, strlen(text), "node.json", world, t, err);
}

/* ---- reading ---- */

#define LINK(name, ranks)                                                                                              \
    "{\"name\":\"" name "\",\"kind\":\"gpu_link\",\"bytes_per_second\":12e9,\"bytes\":0,\"ranks\":[" ranks "]}"

static void wrong_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *pools, *message;
    } cases[] = {
        {"", "pools has 0 elements"},
        {LINK("a", ""), "pools[0].ranks has 0 elements"},
        {LINK("", "0"), "pools[0].name is empty"},
        {LINK("a", "0") "," LINK("a", "1"), "pools[1].name is \"a\", as pools[0] is"},
        {LINK("a", "0,1") "," LINK("b", "1"), "pools[1].ranks overlap: rank 1 is in pools[0] (a, gpu_link) already"},
        {LINK("a", "0,0"), "pools[0].ranks[1] is rank 0 a second time"},
        {LINK("a", "0,2"), "pools[0].ranks[1] is rank 2, but there are 2 ranks: 0 to 1"},
        {LINK("a", "-1"), "pools[0].ranks[0] is -1"},
        {LINK("a", "1.0"), "pools[0].ranks[0] is a real number, must be an integer"},
        {LINK("a", "\"0\""), "pools[0].ranks[0] is a string"},
        {"{\"name\":\"a\",\"kind\":\"pcie\",\"bytes_per_second\":1,\"bytes\":0,\"ranks\":[0]}",
         "pools[0].kind is \"pcie\", must be one of gpu_link,"},
        {"{\"name\":\"a\",\"kind\":\"nvme\",\"bytes_per_second\":0,\"bytes\":0,\"ranks\":[0]}",
         "pools[0].bytes_per_second is 0"},
        {"{\"name\":\"a\",\"kind\":\"nvme\",\"bytes_per_second\":-3e9,\"bytes\":0,\"ranks\":[0]}",
         "pools[0].bytes_per_second is -3000000000"},
        {"{\"name\":\"a\",\"kind\":\"nvme\",\"bytes_per_second\":1e9,\"bytes\":-1,\"ranks\":[0]}",
         "pools[0].bytes is -1"},
        {"{\"name\":\"a\",\"kind\":\"nvme\",\"bytes\":1,\"ranks\":[0]}", "pools[0] lacks the key \"bytes_per_second\""},
        {"{\"name\":\"a\",\"kind\":\"nvme\",\"bytes_per_second\":1,\"gbps\":1,\"ranks\":[0]}",
         "pools[0] has the unknown key \"gbps\""},
        {"{\"name\":\"a\",\"kind\":\"nvme\",\"bytes_per_second\":1,\"bytes_per_second\":2,\"ranks\":[0]}", "duplicate"},
        {"{\"name\":\"a\",\"kind\":\"nvme\",\"bytes_per_second\":1e9,\"bytes\":0,\"ranks\":[0]},"
         "{\"name\":\"b\",\"kind\":\"nvme_read\",\"bytes_per_second\":1e9,\"bytes\":0,\"ranks\":[0]}",
         "pools[1].ranks overlap: rank 0 is in pools[0] (a, nvme) already"},
        {"3", "pools[0] is an integer"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lzt_topology t;
        lzt_error err = {0};
        if (parse(cases[i].pools, 2, &t, &err) != LZT_ERR_USAGE) fail_msg("accepted: %s", cases[i].pools);
        assert_string_equal(err.where, "node.json");
        if (!strstr(err.message, cases[i].message)) fail_msg("%s\ninstead of %s", err.message, cases[i].message);
        assert_null(t.pool);
        assert_int_equal(t.pool_count, 0);
    }
}

/* Directions apart, NVLink meshes, ranks in any order: allowed. */
static void what_does_not_overlap_is_allowed(void **state)
{
    (void)state;
    lzt_topology t;
    lzt_error err = {0};
    const char *pools = "{\"name\":\"u\",\"kind\":\"gpu_link_up\",\"bytes_per_second\":9,\"ranks\":[1,0]},"
                        "{\"name\":\"d\",\"kind\":\"gpu_link_down\",\"bytes_per_second\":8.9,\"ranks\":[0]},"
                        "{\"name\":\"x\",\"kind\":\"nvlink\",\"bytes_per_second\":1,\"ranks\":[0,1]},"
                        "{\"name\":\"y\",\"kind\":\"nvlink\",\"bytes_per_second\":1,\"ranks\":[1,0]}";
    if (parse(pools, 2, &t, &err)) fail_msg("%s", err.message);
    assert_int_equal(t.pool_count, 4);
    assert_int_equal(t.pool[0].rank[0], 0);
    assert_int_equal(t.pool[0].rank[1], 1);
    assert_int_equal(t.pool[1].bytes_per_s, 8);
    lzt_topology_fini(&t);
}

/* ---- sharing ---- */

static void the_least_share_on_the_way_counts(void **state)
{
    (void)state;
    lzt_topology t;
    lzt_rank_share s;
    lzt_error err = {0};
    const char *pools =
        "{\"name\":\"g0\",\"kind\":\"gpu_link\",\"bytes_per_second\":25e9,\"bytes\":80,\"ranks\":[0]},"
        "{\"name\":\"g1\",\"kind\":\"gpu_link\",\"bytes_per_second\":5e9,\"bytes\":80,\"ranks\":[1]},"
        "{\"name\":\"root\",\"kind\":\"root_complex\",\"bytes_per_second\":32e9,\"ranks\":[0,1]},"
        "{\"name\":\"node\",\"kind\":\"socket\",\"bytes_per_second\":90e9,\"bytes\":100,\"ranks\":[0,1,2]},"
        "{\"name\":\"disk\",\"kind\":\"nvme\",\"bytes_per_second\":3e9,\"bytes\":1000,\"ranks\":[2,0]},"
        "{\"name\":\"nv\",\"kind\":\"nvlink\",\"bytes_per_second\":1,\"bytes\":1,\"ranks\":[0,1]}";
    if (parse(pools, 4, &t, &err)) fail_msg("%s", err.message);
    static const struct {
        uint64_t pcie, drive, bytes[3];
        int32_t pcie_pool, drive_pool;
    } want[] = {{16000000000, 1500000000, {80, 33, 500}, 2, 4},
                {5000000000, 0, {80, 33, 0}, 1, -1},
                {30000000000, 1500000000, {0, 33, 500}, 3, 4},
                {0, 0, {0, 0, 0}, -1, -1}};
    for (uint32_t rank = 0; rank < 4; rank++) {
        lzt_topology_share_of(&t, rank, &s);
        for (int way = 0; way < LZT_WAY_COUNT; way++) {
            bool drive = way >= LZT_WAY_WRITE;
            assert_int_equal(s.bytes_per_s[way], drive ? want[rank].drive : want[rank].pcie);
            assert_int_equal(s.narrowest[way], drive ? want[rank].drive_pool : want[rank].pcie_pool);
        }
        for (int store = 0; store < LZT_STORE_COUNT; store++) assert_int_equal(s.bytes[store], want[rank].bytes[store]);
    }
    lzt_topology_fini(&t);
}

/* ---- planning ---- */

static lzt_source_options source_case(void)
{
    lzt_source_options o = LZT_SOURCE_OPTIONS_INIT;
    o.cpu_activation_budget_gib = 14;
    o.enable_nvme_offload = true;
    o.nvme_activation_budget_gib = 32;
    o.enable_overlap_aware_offload = o.enable_overlap_aware_nvme = true;
    o.include_param_grad_pcie = true;
    return o;
}

static void solve(const lzt_model_info *model, const lzt_source_options *o, lzt_solver solver, lzt_plan *plan)
{
    lzt_solve_options options = LZT_SOLVE_OPTIONS_INIT;
    lzt_solve_result result;
    lzt_error err = {0};
    options.solver = solver;
    if (lzt_source_plan(model, o, &options, plan, &result, &err)) fail_msg("%s", err.message);
    assert_int_equal(result.status, LZT_PLAN_OPTIMAL);
}

static void same_plan(const lzt_plan *a, const lzt_plan *b)
{
    assert_int_equal(a->objective_ps, b->objective_ps);
    for (uint64_t i = 0; i <= a->layer_count; i++) assert_int_equal(a->boundary[i], b->boundary[i]);
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++)
        assert_memory_equal(a->problem->window_bytes[pool], b->problem->window_bytes[pool],
                            a->layer_count * sizeof(uint64_t));
}

/* Two ranks on one pool of each kind, and one rank with half of everything written out as options. */
static uint64_t two_ranks_are_one_at_half_rate(const lzt_model_info *model, lzt_solver solver, double pcie,
                                               double drive)
{
    char pools[1024];
    lzt_topology t;
    lzt_rank_share share;
    lzt_error err = {0};
    lzt_plan half, rank[2];
    const lzt_source_stated none = {{false}, true, true};
    lzt_source_options base = source_case(), alone = base, o;
    snprintf(pools, sizeof pools,
             "{\"name\":\"root\",\"kind\":\"root_complex\",\"bytes_per_second\":%.0f,\"ranks\":[0,1]},"
             "{\"name\":\"disk\",\"kind\":\"nvme\",\"bytes_per_second\":%.0f,\"bytes\":%.0f,\"ranks\":[0,1]}",
             pcie * 1e9, drive * 1e9, 24.0 * 1073741824);
    if (parse(pools, 2, &t, &err)) fail_msg("%s", err.message);
    alone.activation_d2h_bandwidth_gbps = alone.activation_h2d_bandwidth_gbps = pcie / 2;
    alone.nvme_read_bandwidth_gbps = alone.nvme_write_bandwidth_gbps = drive / 2;
    alone.nvme_activation_budget_gib = 12;
    solve(model, &alone, solver, &half);
    for (uint32_t r = 0; r < 2; r++) {
        lzt_topology_share_of(&t, r, &share);
        lzt_source_for_rank(&base, &none, &share, &o);
        solve(model, &o, solver, &rank[r]);
        same_plan(&rank[r], &half);
        lzt_plan_fini(&rank[r]);
    }
    uint64_t objective_ps = half.objective_ps;
    lzt_plan_fini(&half);
    lzt_topology_fini(&t);
    return objective_ps;
}

static void shared_pools(void **state)
{
    (void)state;
    static const double rates[][2] = {{24, 6}, {12, 3}, {12, 1}, {9, 2}, {4, 3}, {30, 12}};
    lzt_model *model;
    lzt_error err = {0};
    uint64_t different = 0, last = 0;
    bool highs = lzt_solve_has_highs(NULL, NULL);
    if (lzt_model_open("examples/qwen3.6-27b-metamathqa/model", LZT_MODEL_CONFIG_ONLY, &model, &err))
        fail_msg("%s", err.message);
    const lzt_model_info *info = lzt_model_get_info(model);
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        uint64_t dp = two_ranks_are_one_at_half_rate(info, LZT_SOLVER_DP, rates[i][0], rates[i][1]);
        if (highs)
            assert_int_equal(two_ranks_are_one_at_half_rate(info, LZT_SOLVER_HIGHS, rates[i][0], rates[i][1]), dp);
        different += dp != last;
        last = dp;
    }
    assert_true(different >= 4); /* the rates matter: this is no comparison of one plan with itself */
    print_message("%zu rates, solvers: dp%s\n", sizeof rates / sizeof *rates, highs ? ", highs" : " (HiGHS is absent)");
    lzt_model_close(model);
}

/* A stated option bounds the share; a share bounds an option that was not stated. */
static void options_bound_shares(void **state)
{
    (void)state;
    const lzt_rank_share share = {
        {20000000000, 20000000000, 0, 0}, {0, 0, -1, -1}, {0, UINT64_C(8) << 30, 0}, {-1, 0, -1}};
    lzt_source_options base = source_case(), o;
    const lzt_source_stated all = {{true, true, true, true}, true, true}, none = {{false}, false, false};
    lzt_source_for_rank(&base, &all, &share, &o);
    assert_float_equal(o.activation_d2h_bandwidth_gbps, 12, 0);
    assert_float_equal(o.cpu_activation_budget_gib, 8, 0);
    base.cpu_activation_budget_gib = 6;
    lzt_source_for_rank(&base, &all, &share, &o);
    assert_float_equal(o.cpu_activation_budget_gib, 6, 0);
    lzt_source_for_rank(&base, &none, &share, &o);
    assert_float_equal(o.activation_d2h_bandwidth_gbps, 20, 0);
    assert_float_equal(o.cpu_activation_budget_gib, 8, 0);
    assert_float_equal(o.nvme_write_bandwidth_gbps, 3.35, 0);
}

/* ---- the program ---- */

static int plan(const char *more)
{
    char model[4096];
    assert_non_null(realpath("examples/qwen3.6-27b-metamathqa/model", model));
    return run("plan --model %.1000s --topology node.json --enable-overlap-aware-offload --include-param-grad-pcie %s",
               model, more);
}

static void one_plan_a_rank(void **state)
{
    (void)state;
    put_text("node.json",
             "{\"pools\": [" LINK("a", "0,1") ", {\"name\":\"n\",\"kind\":\"socket\",\"bytes_per_second\":9e10,"
                                              "\"bytes\":30064771072,\"ranks\":[0,1]}]}");
    assert_int_equal(plan("--world-size 2 --output p.json"), 0);
    assert_non_null(strstr(run_out, "gpu_link"));
    assert_true(exists("p.rank0.json") && exists("p.rank1.json") && !exists("p.json"));
    assert_int_equal(run("check p.rank1.json"), 0);
    assert_int_equal(run("explain p.rank1.json"), 0);
    assert_non_null(strstr(run_out, "1 of 2, its share of the pools of node.json"));
    assert_non_null(strstr(run_out, "6 GB/s up / 6 GB/s down"));
    assert_non_null(strstr(run_out, "14.000 GiB"));
    assert_int_equal(plan("--world-size 2 --json"), 0);
    char *text = get_bytes("stdout", NULL);
    json_t *all = json_loads(text, JSON_REJECT_DUPLICATES, NULL), *ranks = json_object_get(all, "ranks");
    assert_int_equal(json_array_size(ranks), 2);
    json_t *first = json_array_get(ranks, 0), *second = json_array_get(ranks, 1);
    assert_true(json_equal(json_object_get(first, "boundaries"), json_object_get(second, "boundaries")));
    assert_string_equal(json_string_value(json_object_get(first, "status")), "optimal");
    json_decref(all);
    free(text);
}

static void errors_name_file_and_place(void **state)
{
    (void)state;
    assert_int_equal(plan("--world-size 1"), 2);
    assert_non_null(strstr(run_err, "node.json: pools[0].ranks[1] is rank 1, but there are 1 ranks"));
    assert_int_equal(plan(""), 2);
    assert_int_equal(plan("--world-size 2 --sweep cpu=8:15"), 2);
    assert_int_equal(plan("--world-size 0"), 2);
    put_text("node.json", "{\"pools\": [" LINK("a", "0,1") "]}");
    assert_int_equal(plan("--world-size 2"), 2);
    assert_non_null(
        strstr(run_err, "--cpu-activation-budget-gb: is missing, and no socket of the topology states rank 0"));
    assert_int_equal(plan("--world-size 2 --cpu-activation-budget-gb 0 --peak-cap-gb 50 --output q.json"), 3);
    assert_non_null(strstr(run_err, "rank 0: "));
    assert_false(exists("q.rank0.json"));
    put_text("node.json",
             "{\"pools\": [{\"name\":\"a\",\"kind\":\"gpu_link\",\"bytes_per_second\":1,\"bytes\":0,\"ranks\":[0]}]}");
    assert_int_equal(plan("--world-size 1 --cpu-activation-budget-gb 0"), 2);
    assert_non_null(strstr(run_err, "rank 0's rates and budgets are its shares of the pools in node.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(what_does_not_overlap_is_allowed),
        cmocka_unit_test(the_least_share_on_the_way_counts),
        cmocka_unit_test(options_bound_shares),
        cmocka_unit_test(shared_pools),
        cmocka_unit_test(one_plan_a_rank),
        cmocka_unit_test(errors_name_file_and_place),
    };
    return cmocka_run_group_tests(tests, run_set_up, run_tear_down);
}
