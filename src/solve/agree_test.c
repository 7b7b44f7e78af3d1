/* Goal: two solvers that know nothing of each other agree. Method: random instances, every switch, lock, odd length and
 * zero budget among them; HiGHS starts cold. Equal sizes: dp and HiGHS must say the same status and, recomputed by the
 * checker, the same objective within 1e-6 ms. Unequal: bound <= optimum <= objective, and optimal means equal. Of up to
 * ten layers both must find what trying every placement finds.
 * LZT_AGREE_COUNT sets the number of instances (default 150; the acceptance script asks for 10,000), LZT_AGREE_FIRST
 * how many it begins after. */
#include "lazytrain/solve.h"
#include "solve/random_problem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define TOLERANCE_PS 1000 /* 1e-6 ms */

enum { BRUTE_LAYERS = 10 };

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static uint64_t instance_count(void)
{
    return setting("LZT_AGREE_COUNT", 150);
}

static void run_solver(const lzt_problem *p, lzt_solver solver, lzt_tier *boundary, lzt_solve_result *result)
{
    lzt_solve_options options = LZT_SOLVE_OPTIONS_INIT;
    lzt_error err = {0};
    options.solver = solver;
    options.cold_start = true;
    options.time_limit_s = 600;
    options.label_limit = UINT64_C(1) << 18; /* so that the result does not depend on the machine's speed */
    if (lzt_solve(p, &options, boundary, result, &err)) fail_msg("%s: %s", err.where, err.message);
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* The random times are microseconds; in milliseconds the tolerance is theirs too, since they are scaled up here. */
static void scale_times(lzt_problem *p)
{
    for (uint64_t l = 0; l < p->layer_count; l++) p->recompute_ps[l] *= 1000;
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) p->bytes_per_s[pool] = 1 + p->bytes_per_s[pool] / 1000;
    p->tiebreak_ps *= 10;
    p->penalty_ps *= 10;
}

/* Of unequal sizes the dp proves what its limit allows; its claims must hold in any case. */
static bool agrees(const lzt_solve_result *dp, const lzt_solve_result *highs, bool unequal)
{
    bool same = dp->status == highs->status && distance(dp->objective_ps, highs->objective_ps) <= TOLERANCE_PS;
    if (same || !unequal || highs->status != LZT_PLAN_OPTIMAL) return same;
    if (dp->status != LZT_PLAN_FEASIBLE && dp->status != LZT_PLAN_LIMIT) return false;
    bool above = dp->status == LZT_PLAN_LIMIT || highs->objective_ps <= dp->objective_ps + TOLERANCE_PS;
    return above && dp->bound_ps <= highs->objective_ps + TOLERANCE_PS;
}

/* What a solver claims is what every placement, tried, allows. */
static void equals_brute_force(const lzt_solve_result *r, bool found, uint64_t best_ps, uint64_t seed)
{
    bool right = r->status == LZT_PLAN_INFEASIBLE ? !found
                 : r->status == LZT_PLAN_OPTIMAL  ? found && distance(r->objective_ps, best_ps) <= TOLERANCE_PS
                                                  : !found || r->bound_ps <= best_ps + TOLERANCE_PS;
    if (!right)
        fail_msg("seed %llu: %s says %s %llu, the best of all placements is %llu", (unsigned long long)seed, r->solver,
                 lzt_plan_status_name(r->status), (unsigned long long)r->objective_ps,
                 (unsigned long long)(found ? best_ps : 0));
}

static void compare(uint64_t seed, bool unequal, uint64_t *feasible, uint64_t *proven, uint64_t *tried)
{
    lzt__dice dice = {seed, 1};
    lzt_problem p;
    lzt_solve_result dp, highs;
    lzt_tier boundary[64];
    lzt__random_problem(&dice, 1 + lzt__roll(&dice, unequal ? 12 : 40), unequal, &p);
    scale_times(&p);
    run_solver(&p, LZT_SOLVER_DP, boundary, &dp);
    run_solver(&p, LZT_SOLVER_HIGHS, boundary, &highs);
    if (!agrees(&dp, &highs, unequal))
        fail_msg("seed %llu: dp %s %llu, highs %s %llu", (unsigned long long)seed, lzt_plan_status_name(dp.status),
                 (unsigned long long)dp.objective_ps, lzt_plan_status_name(highs.status),
                 (unsigned long long)highs.objective_ps);
    if (p.layer_count <= BRUTE_LAYERS) {
        uint64_t best_ps = 0;
        bool found = lzt__brute_force(&p, &best_ps);
        equals_brute_force(&dp, found, best_ps, seed);
        equals_brute_force(&highs, found, best_ps, seed);
        ++*tried;
    }
    *feasible += highs.status == LZT_PLAN_OPTIMAL;
    *proven += dp.status == highs.status;
    lzt_problem_fini(&p);
}

static void run(bool unequal, uint64_t first, uint64_t count)
{
    uint64_t feasible = 0, proven = 0, tried = 0;
    for (uint64_t seed = first; seed < first + count; seed++) compare(seed, unequal, &feasible, &proven, &tried);
    print_message("%llu instances agree, %llu of them feasible, %llu proven by both, %llu equal to brute force\n",
                  (unsigned long long)count, (unsigned long long)feasible, (unsigned long long)proven,
                  (unsigned long long)tried);
    assert_true(proven * 20 >= count * 19);
    assert_true(count < 100 || (feasible * 4 > count && feasible < count)); /* both outcomes are exercised */
}

static void test_equal_sizes(void **unused)
{
    (void)unused;
    run(false, 100000 + setting("LZT_AGREE_FIRST", 0), instance_count());
}

static void test_unequal_sizes(void **unused)
{
    (void)unused;
    run(true, 900000 + setting("LZT_AGREE_FIRST", 0) / 3, instance_count() / 3);
}

/* More boundaries of unequal sizes than the dp can prove: it ends at its label limit, and HiGHS's optimum lies between
 * its bound and its objective. */
static void test_unequal_limited(void **unused)
{
    (void)unused;
    uint64_t limited = 0;
    for (uint64_t seed = 0; seed < 10; seed++) {
        lzt__dice dice = {seed, 7};
        lzt_solve_options options = LZT_SOLVE_OPTIONS_INIT;
        lzt_problem p;
        lzt_solve_result dp, highs;
        lzt_tier boundary[64];
        lzt__random_problem(&dice, 20 + seed, true, &p);
        scale_times(&p);
        options.solver = LZT_SOLVER_DP;
        options.time_limit_s = 0;
        options.label_limit = 80000;
        assert_int_equal(lzt_solve(&p, &options, boundary, &dp, NULL), 0);
        run_solver(&p, LZT_SOLVER_HIGHS, boundary, &highs);
        if (highs.status == LZT_PLAN_OPTIMAL) {
            assert_true(dp.bound_ps <= highs.objective_ps + TOLERANCE_PS);
            assert_true(dp.status == LZT_PLAN_LIMIT || highs.objective_ps <= dp.objective_ps + TOLERANCE_PS);
        }
        if (highs.status == LZT_PLAN_INFEASIBLE) assert_true(dp.status == highs.status || dp.status == LZT_PLAN_LIMIT);
        limited += dp.status == LZT_PLAN_FEASIBLE;
        lzt_problem_fini(&p);
    }
    print_message("%llu of 10 ended at the limit\n", (unsigned long long)limited);
    assert_true(limited >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_sizes),
        cmocka_unit_test(test_unequal_sizes),
        cmocka_unit_test(test_unequal_limited),
    };
    if (!lzt_solve_has_highs(NULL, NULL)) {
        fprintf(stderr, "SKIPPED: HiGHS is not on this machine (tools/install-highs fetches it)\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
