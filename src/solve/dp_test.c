/* Goal: the dynamic programmes find the true optimum, say infeasible exactly when nothing fits, and name the bytes that
 * are missing. Method: brute force over every placement of small random instances, evaluated by the checker; for an
 * infeasible one, the named budget raised by the missing bytes must become feasible, by one byte less must not. */
#include "lazytrain/solve.h"
#include "solve/random_problem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

static lzt_plan_status solve(const lzt_problem *p, lzt_tier *boundary, lzt_solve_result *result)
{
    lzt_solve_options options = LZT_SOLVE_OPTIONS_INIT;
    lzt_error err = {0};
    options.solver = LZT_SOLVER_DP;
    if (lzt_solve(p, &options, boundary, result, &err)) fail_msg("%s: %s", err.where, err.message);
    return result->status;
}

/* The missing bytes are exact: that many more fit, one less does not. Under a GPU lock two budgets can be short, one
 * after the other. */
static void check_missing(lzt_problem *p, const lzt_solve_result *why)
{
    lzt_tier boundary[16];
    lzt_solve_result again;
    if (!why->missing_bytes) return;
    p->budget_bytes[why->resource] += why->missing_bytes;
    if (solve(p, boundary, &again) == LZT_PLAN_INFEASIBLE && p->lock_gpu && why->resource == LZT_TIER_GPU) {
        assert_int_not_equal(again.resource, LZT_TIER_GPU);
        assert_non_null(strstr(why->way_out, "besides")); /* and it said so at once */
        check_missing(p, &again);
        return;
    }
    assert_int_equal(again.status, LZT_PLAN_OPTIMAL);
    p->budget_bytes[why->resource] -= 1;
    assert_int_equal(solve(p, boundary, &again), LZT_PLAN_INFEASIBLE);
    assert_int_equal(again.missing_bytes, 1);
}

static void compare(uint64_t seed, uint64_t n, bool unequal, uint64_t *feasible)
{
    lzt__dice dice = {seed, 0};
    lzt_problem p;
    lzt_solve_result result;
    lzt_tier boundary[16];
    uint64_t best = 0;
    lzt__random_problem(&dice, n, unequal, &p);
    bool found = lzt__brute_force(&p, &best);
    solve(&p, boundary, &result);
    if (found && (result.status != LZT_PLAN_OPTIMAL || result.objective_ps != best))
        fail_msg("seed %llu: %s %llu, brute force %llu", (unsigned long long)seed, lzt_plan_status_name(result.status),
                 (unsigned long long)result.objective_ps, (unsigned long long)best);
    if (!found) assert_int_equal(result.status, LZT_PLAN_INFEASIBLE);
    if (!found) assert_true(result.reason[0]);
    if (!found && !unequal) check_missing(&p, &result);
    *feasible += found;
    lzt_problem_fini(&p);
}

static void test_equal_sizes(void **unused)
{
    (void)unused;
    uint64_t feasible = 0;
    for (uint64_t seed = 0; seed < 4000; seed++) compare(seed, 1 + seed % 7, false, &feasible);
    for (uint64_t seed = 4000; seed < 4040; seed++) compare(seed, 8 + seed % 2, false, &feasible);
    compare(5000, 10, false, &feasible);
    print_message("%llu of 4041 feasible\n", (unsigned long long)feasible);
    assert_in_range(feasible, 1500, 3900); /* both outcomes are exercised */
}

static void test_unequal_sizes(void **unused)
{
    (void)unused;
    uint64_t feasible = 0;
    for (uint64_t seed = 10000; seed < 12000; seed++) compare(seed, 1 + seed % 7, true, &feasible);
    assert_in_range(feasible, 500, 1950);
}

/* A label limit ends the search with what is known: a plan that the checker accepts and a bound under the optimum. */
static void test_limits(void **unused)
{
    (void)unused;
    uint64_t limited = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        lzt__dice dice = {seed, 0};
        lzt_solve_options options = LZT_SOLVE_OPTIONS_INIT;
        lzt_problem p;
        lzt_solve_result exact, result;
        lzt_tier boundary[32];
        lzt__random_problem(&dice, 24, false, &p);
        options.label_limit = 1 + seed % 20;
        assert_int_equal(lzt_solve(&p, &options, boundary, &result, NULL), 0);
        if (solve(&p, boundary, &exact) == LZT_PLAN_OPTIMAL) {
            limited += result.status == LZT_PLAN_FEASIBLE;
            assert_true(result.bound_ps <= exact.objective_ps && exact.objective_ps <= result.objective_ps);
        }
        lzt_problem_fini(&p);
    }
    assert_true(limited > 20);
}

/* A budget of exactly k activations gives k, one byte less gives k - 1. */
static void test_exact_budget(void **unused)
{
    (void)unused;
    lzt_problem p;
    lzt_solve_result result;
    lzt_evaluation e;
    lzt_tier boundary[16];
    assert_int_equal(lzt_problem_init(&p, 12, NULL), 0);
    p.max_segment = 12;
    for (uint64_t i = 0; i <= 12; i++) p.boundary_bytes[i] = 1000;
    for (uint64_t i = 0; i < 12; i++) p.recompute_ps[i] = 1000000;
    for (uint64_t k = 2; k <= 13; k++) {
        p.budget_bytes[LZT_TIER_GPU] = k * 1000;
        assert_int_equal(solve(&p, boundary, &result), LZT_PLAN_OPTIMAL);
        assert_int_equal(lzt_problem_check(&p, boundary, NULL, NULL, &e, NULL), 0);
        assert_int_equal(e.count[LZT_TIER_GPU], k);
        p.budget_bytes[LZT_TIER_GPU] -= 1;
        if (solve(&p, boundary, &result) == LZT_PLAN_INFEASIBLE) {
            assert_int_equal(k, 2);
            assert_int_equal(result.resource, LZT_TIER_GPU);
            assert_int_equal(result.missing_bytes, 1);
            continue;
        }
        assert_int_equal(lzt_problem_check(&p, boundary, NULL, NULL, &e, NULL), 0);
        assert_int_equal(e.count[LZT_TIER_GPU], k - 1);
    }
    lzt_problem_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_sizes),
        cmocka_unit_test(test_unequal_sizes),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_exact_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
