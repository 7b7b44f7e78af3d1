/* Goal: the time limit of a solution by HiGHS holds whatever HiGHS does, its answer is honest, and a HiGHS that crashes
 * is an error that says so; nothing is left of it in any case.
 *
 * Method: a library in HiGHS's place (fake_highs.c) that never returns, crashes, leaves, or answers late. */
#include "lazytrain/solve.h"
#include "solve/random_problem.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <cmocka.h>

#define LIMIT_S 0.5

/* Fifty layers of equal boundaries, of which there are plans. */
static void make_problem(lzt_problem *p)
{
    for (uint64_t seed = 0;; seed++) {
        lzt__dice dice = {seed, 3};
        lzt_solve_options options = LZT_SOLVE_OPTIONS_INIT;
        lzt_solve_result result;
        lzt_tier boundary[64];
        lzt__random_problem(&dice, 50, false, p);
        options.solver = LZT_SOLVER_DP;
        assert_int_equal(lzt_solve(p, &options, boundary, &result, NULL), LZT_OK);
        if (result.status == LZT_PLAN_OPTIMAL) return;
        lzt_problem_fini(p);
    }
}

static int open_files(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir)) count++;
    closedir(dir);
    return count;
}

/* Solves with the library in that mood; afterwards there are no children, and no more descriptors. */
static lzt_status solve(const char *mood, bool cold, double limit_s, lzt_solve_result *r, lzt_error *err)
{
    lzt_solve_options options = LZT_SOLVE_OPTIONS_INIT;
    lzt_problem p;
    lzt_tier boundary[64];
    int files = open_files();
    make_problem(&p);
    options.solver = LZT_SOLVER_HIGHS;
    options.time_limit_s = limit_s;
    options.highs_library = LZT_FAKE_HIGHS_LIBRARY;
    options.cold_start = cold;
    *err = (lzt_error){0};
    assert_int_equal(setenv("LZT_FAKE_HIGHS", mood, 1), 0);
    lzt_status status = lzt_solve(&p, &options, boundary, r, err);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(open_files(), files);
    lzt_problem_fini(&p);
    return status;
}

/* Neither a model that is never taken in nor a solution that never ends keeps us. */
static void the_limit_holds(void **state)
{
    (void)state;
    static const char *const moods[] = {"pass", "run"};
    for (int k = 0; k < 2; k++) {
        lzt_solve_result r;
        lzt_error err;
        assert_int_equal(solve(moods[k], true, LIMIT_S, &r, &err), LZT_OK);
        print_message("%s: limit %.1f s and %.1f s of grace, ended after %.3f s\n", moods[k], LIMIT_S,
                      LZT_SOLVE_GRACE_S, r.solve_seconds);
        assert_int_equal(r.status, LZT_PLAN_LIMIT);
        assert_string_equal(r.solver, "highs");
        assert_true(r.solve_seconds >= LIMIT_S);
        assert_int_equal(solve(moods[k], false, LIMIT_S, &r, &err), LZT_OK); /* what it began from is the answer */
        assert_true(r.status == LZT_PLAN_FEASIBLE || r.status == LZT_PLAN_OPTIMAL);
        assert_true(r.bound_ps <= r.objective_ps);
        assert_true((r.status == LZT_PLAN_OPTIMAL) == (r.bound_ps == r.objective_ps));
    }
}

static void a_late_answer_is_no_plan(void **state)
{
    (void)state;
    lzt_solve_result r;
    lzt_error err;
    assert_int_equal(solve("late", true, 60, &r, &err), LZT_OK);
    assert_int_equal(r.status, LZT_PLAN_LIMIT);
    assert_int_equal(solve("late", true, 0, &r, &err), LZT_OK);
    assert_int_equal(r.status, LZT_PLAN_LIMIT);
}

static void an_end_is_an_error(void **state)
{
    (void)state;
    static const struct {
        const char *mood;
        lzt_status status;
        const char *says;
    } cases[] = {{"crash", LZT_ERR_INTERNAL, "crashed with signal 6"},
                 {"leave", LZT_ERR_INTERNAL, "ended without an answer"},
                 {"killed", LZT_ERR_NO_MEMORY, "was killed"},
                 {"refuse", LZT_ERR_INTERNAL, "HiGHS refuses the model"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int limit = 0; limit < 2; limit++) {
            lzt_solve_result r;
            lzt_error err;
            assert_int_equal(solve(cases[i].mood, false, limit ? 60 : 0, &r, &err), cases[i].status);
            assert_non_null(strstr(err.message, cases[i].says));
            assert_non_null(strstr(err.hint, "--solver dp"));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_limit_holds),
        cmocka_unit_test(a_late_answer_is_no_plan),
        cmocka_unit_test(an_end_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
