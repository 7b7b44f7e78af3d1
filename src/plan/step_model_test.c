/* Goal: a placement adds up as the header says, in whole picoseconds and bytes; the checker finds a plan that claims
 * less than it holds or takes; numbers out of range are refused.
 *
 * Method: a step of three layers whose sums are worked out by hand. */
#include "lazytrain/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void make(lzt_step_model *m)
{
    assert_int_equal(lzt_step_model_init(m, 3, NULL), LZT_OK);
    m->micro_batches = 2;
    for (uint64_t l = 0; l < 3; l++)
        m->layer[l] = (lzt_step_layer){.forward_ps = 100,
                                       .again_ps = 80,
                                       .recompute_ps = l < 2 ? 100 : 0,
                                       .backward_ps = 200,
                                       .upload_ps = 30,
                                       .gradient_ps = 40,
                                       .internals_bytes = 1000 + l,
                                       .internals_down_ps = 41,
                                       .internals_up_ps = 43,
                                       .weight_bytes = 500};
    m->boundary_bytes = 10;
    m->boundary_down_ps = 5;
    m->boundary_up_ps = 6;
    m->edge_ps[LZT_STEP_FORWARD] = 3;
    m->edge_ps[LZT_STEP_BACKWARD] = 4;
    m->floor_bytes[LZT_STEP_DEVICE] = 2000;
    m->floor_bytes[LZT_STEP_RAM] = 9000;
    m->fixed_ps[LZT_STEP_FORWARD][LZT_STEP_HOST] = 1000;
    m->fixed_ps[LZT_STEP_BACKWARD][LZT_STEP_COMPUTE] = 50;
}

static void sums_by_hand(void **state)
{
    (void)state;
    lzt_step_model m;
    lzt_step_sum s;
    make(&m);
    const lzt_tier boundary[] = {LZT_TIER_RECOMPUTE, LZT_TIER_CPU, LZT_TIER_RECOMPUTE, LZT_TIER_GPU};
    const lzt_tier internals[] = {LZT_TIER_RECOMPUTE, LZT_TIER_GPU, LZT_TIER_RECOMPUTE};
    const bool weights[] = {false, false, true};
    lzt_step_model_sum(&m, boundary, internals, weights, &s);
    assert_int_equal(s.window_ps[LZT_STEP_FORWARD][LZT_STEP_COMPUTE], 600);
    assert_int_equal(s.window_ps[LZT_STEP_BACKWARD][LZT_STEP_COMPUTE], 50 + 2 * (3 * 200 + 2 * 80 + 100));
    assert_int_equal(s.window_ps[LZT_STEP_FORWARD][LZT_STEP_H2D], 2 * 60 + 30);
    assert_int_equal(s.window_ps[LZT_STEP_BACKWARD][LZT_STEP_H2D], 2 * 60 + 2 * (6 + 6));
    assert_int_equal(s.window_ps[LZT_STEP_FORWARD][LZT_STEP_D2H], 2 * 5);
    assert_int_equal(s.window_ps[LZT_STEP_BACKWARD][LZT_STEP_D2H], 2 * 120);
    assert_int_equal(s.lane_ps[LZT_STEP_HOST], 1000);
    assert_int_equal(s.bound_ps, 1000 + 1770 + 4); /* the optimizer is longer than forward */
    assert_int_equal(s.windows_ps, 1000 + 1770 + 7);
    assert_int_equal(s.least_bytes[LZT_STEP_DEVICE], 2000 + 1001 + 500);
    assert_int_equal(s.least_bytes[LZT_STEP_RAM], 9010);
    /* the same on the host: compute as before, copies beside it */
    const lzt_tier moved[] = {LZT_TIER_RECOMPUTE, LZT_TIER_CPU, LZT_TIER_RECOMPUTE};
    lzt_step_sum h;
    lzt_step_model_sum(&m, boundary, moved, weights, &h);
    assert_int_equal(h.lane_ps[LZT_STEP_COMPUTE], s.lane_ps[LZT_STEP_COMPUTE]);
    assert_int_equal(h.window_ps[LZT_STEP_FORWARD][LZT_STEP_D2H], 2 * (5 + 41));
    assert_int_equal(h.window_ps[LZT_STEP_BACKWARD][LZT_STEP_H2D], 2 * 60 + 2 * (6 + 6 + 43));
    assert_int_equal(h.least_bytes[LZT_STEP_DEVICE], 2000 + 500);
    assert_int_equal(h.least_bytes[LZT_STEP_RAM], 9010 + 1001);
    lzt_step_model_fini(&m);
}

static void count(void *arg, const char *line)
{
    assert_true(strlen(line) > 20);
    ++*(int *)arg;
}

static void expect_violations(lzt_plan *plan, int want)
{
    lzt_evaluation e;
    lzt_error err = {0};
    int noted = 0;
    assert_int_equal(lzt_plan_check(plan, count, &noted, &e, &err), LZT_OK);
    assert_int_equal(noted, want);
    assert_int_equal(e.violation_count, want);
}

static void the_checker_knows_them(void **state)
{
    (void)state;
    lzt_plan plan;
    lzt_step_model m;
    lzt_error err = {0};
    assert_int_equal(lzt_plan_init(&plan, 3, &err), LZT_OK);
    make(&m);
    plan.step = &m; /* lent; the copy owns one */
    plan.device_bytes = 2030;
    plan.host_bytes = 9000;
    plan.status = LZT_PLAN_OPTIMAL;
    plan.objective_ps = 1000 + 50 + 2 * (600 + 240) + 4;
    lzt_plan copy;
    assert_int_equal(lzt_plan_copy(&copy, &plan, &err), LZT_OK);
    plan.step = NULL;
    lzt_step_model_fini(&m);
    lzt_plan_fini(&plan);
    expect_violations(&copy, 0);
    copy.step->cap_bytes[LZT_STEP_DEVICE] = 2030;
    expect_violations(&copy, 0);
    copy.step->cap_bytes[LZT_STEP_DEVICE] = 2029;
    expect_violations(&copy, 1);
    copy.step->cap_bytes[LZT_STEP_DEVICE] = 0;
    copy.objective_ps--;
    expect_violations(&copy, 1);
    copy.internals[2] = LZT_TIER_GPU; /* edited: holds more than the peak that is stated, and computes less */
    expect_violations(&copy, 1);
    copy.device_bytes += 1002;
    expect_violations(&copy, 0);
    lzt_plan_fini(&copy);
}

static void ranges_are_checked(void **state)
{
    (void)state;
    lzt_step_model m;
    lzt_error err = {0};
    assert_int_equal(lzt_step_model_init(&m, 0, &err), LZT_ERR_USAGE);
    make(&m);
    assert_int_equal(lzt_step_model_validate(&m, &err), LZT_OK);
    m.layer[1].upload_ps = UINT64_C(1) << 60;
    assert_int_equal(lzt_step_model_validate(&m, &err), LZT_ERR_USAGE);
    assert_non_null(strstr(err.where, "layers"));
    m.layer[1].upload_ps = 0;
    m.floor_bytes[1] = UINT64_MAX;
    assert_int_equal(lzt_step_model_validate(&m, &err), LZT_ERR_USAGE);
    m.floor_bytes[1] = 0;
    m.micro_batches = 0;
    assert_int_equal(lzt_step_model_validate(&m, &err), LZT_ERR_USAGE);
    lzt_step_model_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_by_hand), cmocka_unit_test(the_checker_knows_them),
                                       cmocka_unit_test(ranges_are_checked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
