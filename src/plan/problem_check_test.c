/* Goal: the checker's arithmetic is right and every constraint is noticed. Method: a five-boundary problem whose costs
 * are worked out by hand in the comments, one broken constraint at a time, and on random placements the two ways to
 * fill windows (latest first, as the checker does; earliest first, as explain shows) must expose the same bytes. */
#include "lazytrain/plan.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MS UINT64_C(1000000000)

enum { N = 4 };

/* Boundaries of 100 bytes, layers of 1, 2, 4, 8 ms, links of 10 bytes a ms, windows of 40 bytes with 10 mandatory. */
static void make(lzt_problem *p)
{
    assert_int_equal(lzt_problem_init(p, N, NULL), 0);
    p->max_segment = 3;
    p->budget_bytes[LZT_TIER_GPU] = 300;
    p->budget_bytes[LZT_TIER_CPU] = 200;
    p->budget_bytes[LZT_TIER_NVME] = 100;
    p->overlap_aware_pcie = p->overlap_aware_nvme = true;
    p->tiebreak_ps = 7;
    p->penalty_ps = 1000;
    for (int i = 0; i <= N; i++) p->boundary_bytes[i] = 100;
    for (int l = 0; l < N; l++) p->recompute_ps[l] = MS << l;
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) {
        p->bytes_per_s[pool] = 10000;
        for (int l = 0; l < N; l++) p->window_bytes[pool][l] = 40;
    }
    for (int pool = 0; pool < 2; pool++)
        for (int l = 0; l < N; l++) p->mandatory_bytes[pool][l] = 10;
}

static void keep_line(void *arg, const char *line)
{
    char *all = arg;
    size_t used = strlen(all);
    snprintf(all + used, 4096 - used, "%s\n", line);
}

static const lzt_tier G = LZT_TIER_GPU, C = LZT_TIER_CPU, V = LZT_TIER_NVME, R = LZT_TIER_RECOMPUTE;

static lzt_evaluation check(const lzt_problem *p, const lzt_tier *boundary, char lines[4096])
{
    lzt_evaluation e;
    lines[0] = 0;
    assert_int_equal(lzt_problem_check(p, boundary, keep_line, lines, &e, NULL), 0);
    return e;
}

static void test_costs(void **unused)
{
    (void)unused;
    lzt_problem p;
    char lines[4096];
    make(&p);
    /* Boundary 2 is rebuilt by layer 1 (2 ms). Boundary 1 goes to the CPU: 100 bytes against 3 free windows of 30, so
     * 10 bytes = 1 ms are exposed each way. Boundary 3 is on the GPU. */
    lzt_evaluation e = check(&p, (const lzt_tier[]){G, C, R, G, G}, lines);
    assert_int_equal(e.violation_count, 0);
    assert_int_equal(e.recompute_ps, 2 * MS);
    assert_int_equal(e.exposed_bytes[LZT_POOL_D2H], 10);
    assert_int_equal(e.exposed_ps[LZT_POOL_H2D], MS);
    assert_int_equal(e.exposed_ps[LZT_POOL_NVME_READ], 0);
    assert_int_equal(e.objective_ps, 4 * MS + 4 * 1000);
    assert_int_equal(e.block_count, 3);
    /* Boundary 3 on NVMe: 100 bytes, one window: 70 exposed on PCIe, 60 on the drive, both ways. */
    e = check(&p, (const lzt_tier[]){G, G, R, V, G}, lines);
    assert_int_equal(e.violation_count, 0);
    assert_int_equal(e.objective_ps, 2 * MS + 7 * MS + 7 * MS + 6 * MS + 6 * MS + 4 * 1000 + 7);
    /* 1 and 3 away: suffix of 3 has 100 - 30, suffix of 1 has 200 - 90 = 110 exposed */
    e = check(&p, (const lzt_tier[]){G, C, R, C, G}, lines);
    assert_int_equal(e.exposed_bytes[LZT_POOL_D2H], 110);
    p.overlap_aware_pcie = false; /* whole, and no mandatory traffic */
    e = check(&p, (const lzt_tier[]){G, C, R, C, G}, lines);
    assert_int_equal(e.exposed_bytes[LZT_POOL_D2H], 200);
    p.overlap_aware_pcie = true; /* mandatory traffic beyond its window is exposed, and frees nothing */
    p.mandatory_bytes[LZT_POOL_D2H][2] = 55;
    e = check(&p, (const lzt_tier[]){G, G, R, G, G}, lines);
    assert_int_equal(e.exposed_bytes[LZT_POOL_D2H], 15);
    e = check(&p, (const lzt_tier[]){G, C, R, G, G}, lines);
    assert_int_equal(e.exposed_bytes[LZT_POOL_D2H], 15 + 40);
    lzt_problem_fini(&p);
}

static void test_violations(void **unused)
{
    (void)unused;
    static const struct {
        lzt_tier boundary[N + 1];
        const char *line;
    } cases[] = {
        {{0, 3, 3, 3, 0}, "block 0..4 has 4 layers, max_segment is 3"},
        {{1, 3, 0, 0, 0}, "boundary 0 is cpu"},
        {{0, 3, 0, 0, 3}, "boundary 4 is recompute"},
        {{0, 0, 0, 3, 0}, "gpu holds 400 bytes, its budget is 300 (100 too many)"},
        {{0, 1, 1, 1, 0}, "cpu holds 300 bytes, its budget is 200 (100 too many)"},
        {{0, 2, 2, 3, 0}, "nvme holds 200 bytes, its budget is 100 (100 too many)"},
    };
    lzt_problem p;
    char lines[4096];
    make(&p);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lzt_evaluation e = check(&p, cases[i].boundary, lines);
        assert_true(e.violation_count >= 1);
        if (!strstr(lines, cases[i].line)) fail_msg("case %zu: \"%s\" not in \"%s\"", i, cases[i].line, lines);
    }
    p.lock_edges = p.lock_gpu = true;
    p.locked_checkpoint[0] = p.locked_checkpoint[2] = p.locked_checkpoint[N] = true;
    p.locked_gpu[0] = p.locked_gpu[N] = true;
    assert_int_equal(check(&p, (const lzt_tier[]){G, R, C, R, G}, lines).violation_count, 0);
    check(&p, (const lzt_tier[]){G, R, G, R, G}, lines);
    assert_non_null(strstr(lines, "boundary 2 is gpu, but the reference has it off the gpu"));
    check(&p, (const lzt_tier[]){G, C, C, R, G}, lines);
    assert_non_null(strstr(lines, "boundary 1 is cpu, but the reference edges skip it"));
    check(&p, (const lzt_tier[]){G, R, R, R, G}, lines);
    assert_non_null(strstr(lines, "boundary 2 is recompute, but the reference edges need it"));
    lzt_problem_fini(&p);
}

static void test_ranges(void **unused)
{
    (void)unused;
    lzt_evaluation e;
    lzt_error err = {0};
    const lzt_tier boundary[N + 1] = {0};
    lzt_problem p;
    make(&p);
    p.bytes_per_s[LZT_POOL_D2H] = 0;
    assert_int_equal(lzt_problem_check(&p, boundary, NULL, NULL, &e, &err), LZT_ERR_USAGE);
    p.bytes_per_s[LZT_POOL_D2H] = 10000;
    p.boundary_bytes[1] = UINT64_MAX / 2;
    assert_int_equal(lzt_problem_check(&p, boundary, NULL, NULL, &e, &err), LZT_ERR_USAGE);
    p.boundary_bytes[1] = 100;
    p.recompute_ps[0] = p.recompute_ps[1] = UINT64_MAX / 2;
    assert_int_equal(lzt_problem_check(&p, boundary, NULL, NULL, &e, &err), LZT_ERR_USAGE);
    p.recompute_ps[0] = p.recompute_ps[1] = 1;
    p.bytes_per_s[LZT_POOL_NVME_READ] = 1; /* 500 bytes at one a second: fine; 2^58 ps is three days */
    assert_int_equal(lzt_problem_check(&p, boundary, NULL, NULL, &e, &err), 0);
    p.boundary_bytes[2] = 400000;
    assert_int_equal(lzt_problem_check(&p, boundary, NULL, NULL, &e, &err), LZT_ERR_USAGE);
    assert_non_null(strstr(err.message, "nvme_read"));
    lzt_problem_fini(&p);
}

static void test_windows_agree(void **unused)
{
    (void)unused;
    lzt_problem p;
    lzt_window window[N];
    char lines[4096];
    make(&p);
    for (uint64_t seed = 0; seed < 2000; seed++) {
        lzt_tier boundary[N + 1] = {0};
        for (uint64_t i = 1; i < N; i++) boundary[i] = (lzt_tier)lzt__rng_below(seed, 0, i, 4);
        for (uint64_t i = 0; i <= N; i++) p.boundary_bytes[i] = lzt__rng_below(seed, 1, i, 200);
        for (int pool = 0; pool < LZT_POOL_COUNT; pool++)
            for (uint64_t w = 0; w < N; w++) {
                p.window_bytes[pool][w] = lzt__rng_below(seed, 2 + (uint64_t)pool, w, 100);
                if (pool < 2) p.mandatory_bytes[pool][w] = lzt__rng_below(seed, 8 + (uint64_t)pool, w, 60);
            }
        lzt_evaluation e = check(&p, boundary, lines);
        for (int pool = 0; pool < LZT_POOL_COUNT; pool++) {
            uint64_t exposed = 0;
            lzt_problem_windows(&p, boundary, (lzt_pool)pool, window);
            for (int w = 0; w < N; w++) exposed += window[w].exposed_bytes;
            assert_int_equal(exposed, e.exposed_bytes[pool]);
        }
    }
    lzt_problem_fini(&p);
}

/* A plan without a problem is held to what remains. */
static void test_bare_plan(void **unused)
{
    (void)unused;
    lzt_plan plan;
    lzt_evaluation e;
    char *text = NULL, lines[4096] = "";
    assert_int_equal(lzt_plan_init(&plan, N, NULL), 0);
    plan.boundary[2] = LZT_TIER_RECOMPUTE;
    assert_int_equal(lzt_plan_check(&plan, keep_line, lines, &e, NULL), 0);
    assert_int_equal(e.violation_count, 0);
    assert_int_equal(e.block_count, 3);
    plan.boundary[N] = LZT_TIER_CPU;
    assert_int_equal(lzt_plan_check(&plan, keep_line, lines, &e, NULL), 0);
    assert_int_equal(e.violation_count, 1);
    assert_non_null(strstr(lines, "boundary 4 is cpu"));
    assert_int_equal(lzt_plan_explain(&plan, &text, NULL), 0);
    assert_non_null(strstr(text, "Recompute boundaries                   [2]"));
    free(text);
    lzt_plan_fini(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_costs),         cmocka_unit_test(test_violations), cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_windows_agree), cmocka_unit_test(test_bare_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
