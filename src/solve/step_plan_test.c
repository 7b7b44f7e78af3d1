/* Goal: the real step's planner finds the best plan, and never gets worse with more memory.
 *
 * Method: small models and machines by hand. The answer against random plans that fit, over a ladder of budgets and of
 * limits of work. */
#include "solve/step_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BUDGETS = WHOLE_LISTS ? 12 : 4, WORK_LIMITS = WHOLE_LISTS ? 12 : 4, OTHERS = WHOLE_LISTS ? 25 : 8 };

/* Objective and peak over budgets, from a search of its own each time and from one that remembers. */
static void more_memory_is_never_worse(void **state)
{
    (void)state;
    const hand_machine *machines[] = {&fast_link, &slow_link, &slow_host};
    for (int k = 0; k < 3; k++) {
        fixture f;
        lzt_error err = {0};
        lzt_step_search *search;
        open_fixture(&f, k ? "tests/golden/qwen3" : "tests/golden/llama3", LZT_DTYPE_BF16, 96, 1 + (uint64_t)k % 2,
                     machines[k]);
        assert_int_equal(lzt_step_search_create(&f.options, &search, &err), LZT_OK);
        uint64_t low = lzt_step_search_get_model(search)->floor_bytes[LZT_STEP_DEVICE];
        uint64_t high = 2 * lzt__step_everything(lzt_step_search_get_model(search)), best = UINT64_MAX, peak = 0,
                 found = 0;
        for (uint64_t step = 0; step <= BUDGETS; step++) {
            lzt_step_caps caps = {.device_bytes = low + (high - low) * step / BUDGETS};
            lzt_step_plan_result result, alone;
            lzt_step_search *fresh;
            lzt_plan plan, again;
            assert_int_equal(lzt_step_search_solve(search, &caps, &plan, &result, &err), LZT_OK);
            if (!plan.boundary) {
                assert_int_equal(result.status, LZT_PLAN_INFEASIBLE);
                assert_true(result.least_bytes[LZT_STEP_DEVICE] > caps.device_bytes && !found);
                continue;
            }
            assert_int_equal(result.status, LZT_PLAN_OPTIMAL);
            assert_true(plan.device_bytes <= caps.device_bytes);
            assert_true(result.objective_ps <= best && plan.device_bytes >= peak);
            assert_true(result.bound_ps <= result.objective_ps);
            best = result.objective_ps;
            peak = plan.device_bytes;
            found++;
            assert_int_equal(lzt_step_search_create(&f.options, &fresh, &err), LZT_OK);
            assert_int_equal(lzt_step_search_solve(fresh, &caps, &again, &alone, &err), LZT_OK);
            assert_int_equal(alone.objective_ps, result.objective_ps);
            assert_memory_equal(again.boundary, plan.boundary, (plan.layer_count + 1) * sizeof *plan.boundary);
            assert_memory_equal(again.internals, plan.internals, plan.layer_count * sizeof *plan.internals);
            lzt_step_search_destroy(fresh);
            lzt_plan_fini(&again);
            lzt_plan_fini(&plan);
        }
        assert_true(found > BUDGETS / 2);
        lzt_step_search_destroy(search);
        close_fixture(&f);
    }
}

static void solve_within(lzt_step_search *search, uint64_t work_limit, lzt_plan *plan, lzt_step_plan_result *r)
{
    lzt_error err = {0};
    lzt_step_caps caps = {.device_bytes = lzt__step_everything(lzt_step_search_get_model(search)) * 2,
                          .work_limit = work_limit};
    assert_int_equal(lzt_step_search_solve(search, &caps, plan, r, &err), LZT_OK);
}

/* The same limit of work ends the search at the same candidate, whatever was solved before; more of it never makes the
 * plan worse; what the whole list takes is no limit. */
static void a_limit_of_work_is_exact(void **state)
{
    (void)state;
    enum { STEPS = WORK_LIMITS };
    fixture f;
    lzt_error err = {0};
    lzt_step_search *search, *fresh;
    lzt_step_plan_result whole, r, again;
    lzt_plan plan, other;
    uint64_t best = UINT64_MAX, slower = 0;
    open_fixture(&f, "tests/golden/llama3", LZT_DTYPE_BF16, 96, 2, &slow_host);
    assert_int_equal(lzt_step_search_create(&f.options, &search, &err), LZT_OK);
    solve_within(search, 0, &plan, &whole);
    lzt_plan_fini(&plan);
    assert_int_equal(whole.status, LZT_PLAN_OPTIMAL);
    assert_int_equal(whole.cut, LZT_PLAN_CUT_NONE);
    for (uint64_t step = 0; step <= STEPS; step++) {
        uint64_t limit = step ? whole.work * step / STEPS : 1;
        solve_within(search, limit, &plan, &r);
        assert_int_equal(lzt_step_search_create(&f.options, &fresh, &err), LZT_OK);
        solve_within(fresh, limit, &other, &again);
        assert_int_equal(r.work, again.work);
        assert_true(r.work >= limit || step == STEPS);
        assert_true(again.simulated <= whole.simulated);
        assert_int_equal(r.status, step == STEPS ? LZT_PLAN_OPTIMAL : LZT_PLAN_FEASIBLE);
        assert_int_equal(plan.cut, step == STEPS ? LZT_PLAN_CUT_NONE : LZT_PLAN_CUT_WORK);
        assert_int_equal(r.bound_ps, whole.bound_ps);
        assert_true(r.objective_ps <= best && r.objective_ps >= whole.objective_ps);
        best = r.objective_ps;
        slower += best > whole.objective_ps;
        assert_int_equal(again.objective_ps, r.objective_ps);
        assert_int_equal(other.device_bytes, plan.device_bytes);
        assert_memory_equal(other.boundary, plan.boundary, (plan.layer_count + 1) * sizeof *plan.boundary);
        assert_memory_equal(other.internals, plan.internals, plan.layer_count * sizeof *plan.internals);
        assert_memory_equal(other.weights, plan.weights, plan.layer_count * sizeof *plan.weights);
        lzt_step_search_destroy(fresh);
        lzt_plan_fini(&other);
        lzt_plan_fini(&plan);
    }
    assert_int_equal(best, whole.objective_ps);
    assert_true(slower);
    print_message("%llu tasks for the whole list; %llu of %d smaller limits gave a slower plan\n",
                  (unsigned long long)whole.work, (unsigned long long)slower, STEPS);
    lzt_step_search_destroy(search);
    close_fixture(&f);
}

/* Limits that come before any plan: by the clock, and by work in the search for the least that would fit. */
static void a_limit_without_a_plan_says_which(void **state)
{
    (void)state;
    fixture f;
    lzt_error err = {0};
    lzt_step_search *search;
    lzt_step_plan_result r;
    lzt_plan plan;
    lzt_step_caps soon = {.time_limit_s = 1e-9}, little = {.device_bytes = 1, .work_limit = 1};
    open_fixture(&f, "tests/golden/llama3", LZT_DTYPE_BF16, 96, 1, &fast_link);
    assert_int_equal(lzt_step_search_create(&f.options, &search, &err), LZT_OK);
    assert_int_equal(lzt_step_search_solve(search, &soon, &plan, &r, &err), LZT_OK);
    assert_int_equal(r.status, LZT_PLAN_LIMIT);
    assert_int_equal(r.cut, LZT_PLAN_CUT_CLOCK);
    assert_int_equal(r.work, 0);
    assert_null(plan.boundary);
    assert_int_equal(lzt_step_search_solve(search, &little, &plan, &r, &err), LZT_OK);
    assert_int_equal(r.status, LZT_PLAN_LIMIT);
    assert_int_equal(r.cut, LZT_PLAN_CUT_WORK);
    assert_null(plan.boundary);
    lzt_step_search_destroy(search);
    close_fixture(&f);
}

/* No random plan that fits is simulated to take 3 % less; and the automatic plan, which knows no times, is not faster.
 */
static void no_other_plan_is_faster(void **state)
{
    (void)state;
    const hand_machine *machines[] = {&fast_link, &slow_link, &slow_host};
    for (int k = 0; k < 3; k++) {
        fixture f;
        lzt_error err = {0};
        lzt_step_search *search;
        open_fixture(&f, "tests/golden/llama3", LZT_DTYPE_BF16, 96, 1, machines[k]);
        assert_int_equal(lzt_step_search_create(&f.options, &search, &err), LZT_OK);
        uint64_t everything = lzt__step_everything(lzt_step_search_get_model(search));
        for (uint64_t share = 60; share <= 100; share += 20) {
            lzt_step_caps caps = {.device_bytes = everything * share / 100};
            lzt_auto_options automatic = {.model = f.options.model,
                                          .numerics = &f.options.numerics,
                                          .kern = f.kern,
                                          .micro_batches = 1,
                                          .device_cap_bytes = caps.device_bytes,
                                          .training = true};
            lzt_step_plan_result result;
            lzt_plan plan, other;
            assert_int_equal(lzt_step_search_solve(search, &caps, &plan, &result, &err), LZT_OK);
            if (!plan.boundary) continue;
            for (uint64_t seed = 0; seed < OTHERS; seed++) {
                random_plan(&f, 500 + seed, &other);
                assert_int_equal(lzt_step_search_measure(search, &caps, &other, &err), LZT_OK);
                if (other.device_bytes <= caps.device_bytes)
                    assert_true((double)other.objective_ps * 1.03 >= (double)result.objective_ps);
                lzt_plan_fini(&other);
            }
            assert_int_equal(lzt_auto_plan(&automatic, &other, &err), LZT_OK);
            assert_int_equal(lzt_step_search_measure(search, &caps, &other, &err), LZT_OK);
            assert_true((double)other.objective_ps * 1.001 >= (double)result.objective_ps);
            lzt_plan_fini(&other);
            lzt_plan_fini(&plan);
        }
        lzt_step_search_destroy(search);
        close_fixture(&f);
    }
}

/* Where compute is slow and the link is not, layers that cannot keep their internals send them to the host: faster than
 * to make them again. Where the host has no room, or the link is slow, none does. */
static void internals_go_where_links_are_idle(void **state)
{
    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        fixture f;
        lzt_error err = {0};
        lzt_step_search *search;
        lzt_step_plan_result result, without;
        lzt_plan plan, less;
        uint64_t hosted = 0;
        open_fixture(&f, "tests/golden/llama3", LZT_DTYPE_BF16, 96, 1, slow ? &slow_link : &fast_link);
        assert_int_equal(lzt_step_search_create(&f.options, &search, &err), LZT_OK);
        lzt_step_caps caps = {.device_bytes = 1};
        assert_int_equal(lzt_step_search_solve(search, &caps, &plan, &result, &err), LZT_OK);
        caps.device_bytes = result.least_bytes[LZT_STEP_DEVICE] * 11 / 10;
        assert_int_equal(lzt_step_search_solve(search, &caps, &plan, &result, &err), LZT_OK);
        assert_non_null(plan.boundary);
        for (uint64_t l = 0; l < plan.layer_count; l++) hosted += plan.internals[l] == LZT_TIER_CPU;
        assert_true(slow ? !hosted : hosted > 0);
        if (!slow) {
            caps.host_bytes = plan.host_bytes - hosted * plan.step->layer[0].internals_bytes;
            assert_int_equal(lzt_step_search_solve(search, &caps, &less, &without, &err), LZT_OK);
            assert_non_null(less.boundary);
            for (uint64_t l = 0; l < less.layer_count; l++) assert_int_not_equal(less.internals[l], LZT_TIER_CPU);
            assert_true(without.objective_ps > result.objective_ps && without.bound_ps >= result.bound_ps);
            lzt_plan_fini(&less);
        }
        lzt_plan_fini(&plan);
        lzt_step_search_destroy(search);
        close_fixture(&f);
    }
}

/* N bytes as named fit, N - 1 do not. */
static void the_least_is_exact(void **state)
{
    (void)state;
    fixture f;
    lzt_error err = {0};
    lzt_step_search *search;
    lzt_step_plan_result result;
    lzt_plan plan;
    open_fixture(&f, "tests/golden/qwen2.5", LZT_DTYPE_F32, 96, 1, &fast_link);
    assert_int_equal(lzt_step_search_create(&f.options, &search, &err), LZT_OK);
    lzt_step_caps caps = {.device_bytes = 1};
    assert_int_equal(lzt_step_search_solve(search, &caps, &plan, &result, &err), LZT_OK);
    assert_int_equal(result.status, LZT_PLAN_INFEASIBLE);
    assert_null(plan.boundary);
    uint64_t least = result.least_bytes[LZT_STEP_DEVICE];
    caps.device_bytes = least - 1;
    assert_int_equal(lzt_step_search_solve(search, &caps, &plan, &result, &err), LZT_OK);
    assert_int_equal(result.status, LZT_PLAN_INFEASIBLE);
    assert_int_equal(result.least_bytes[LZT_STEP_DEVICE], least);
    caps.device_bytes = least;
    assert_int_equal(lzt_step_search_solve(search, &caps, &plan, &result, &err), LZT_OK);
    assert_int_equal(plan.device_bytes, least);
    lzt_plan_fini(&plan);
    lzt_step_search_destroy(search);
    close_fixture(&f);
}

/* What tensors alone say of a layer's internals is what our own layers keep. */
static void sizes_are_the_compiled_ones(void **state)
{
    (void)state;
    static const char *const paths[] = {"tests/golden/llama3", "tests/golden/qwen3", "tests/golden/qwen2.5"};
    for (int k = 0; k < 3; k++) {
        fixture f;
        lzt_error err = {0};
        lzt_step_search *search;
        open_fixture(&f, paths[k], k ? LZT_DTYPE_BF16 : LZT_DTYPE_F32, 96, 1, &fast_link);
        assert_int_equal(lzt_step_search_create(&f.options, &search, &err), LZT_OK);
        const lzt_step_model *m = lzt_step_search_get_model(search);
        for (uint32_t l = 0; l < m->layer_count; l++) {
            lzt_layer_size size;
            lzt_layer_get_size(f.options.model, l, f.options.numerics.dtype, &size);
            assert_int_equal(m->layer[l].internals_bytes, (uint64_t)(size.internals_bytes * 96));
        }
        lzt_step_search_destroy(search);
        close_fixture(&f);
    }
}

/* A model without kernels plans, and splitting its layers makes the peak smaller. Under sanitizers a short one. */
static void layers_without_kernels_plan(void **state)
{
    (void)state;
    fixture f;
    lzt_error err = {0};
    uint64_t peak[2];
    char short_one[] = "/tmp/lzt-hybrid-XXXXXX";
    const char *config = WHOLE_LISTS ? "examples/qwen3.6-27b-metamathqa/model/config.json" : short_one;
    int fd = mkstemp(short_one);
    assert_true(fd >= 0);
    close(fd);
    write_short_hybrid(short_one);
    for (int splits = 1; splits <= 2; splits++) {
        lzt_step_search *search;
        lzt_step_plan_result result;
        lzt_step_caps caps = {.device_bytes = UINT64_C(60) << 30};
        lzt_plan plan;
        open_fixture(&f, config, LZT_DTYPE_BF16, 65536, 1, &card);
        f.options.numerics.layer_splits = splits == 2 ? 4 : 1;
        f.options.numerics.loss_chunk = 1024;
        if (hand_profile(&f.options, &card, &f.profile, &err)) fail_msg("%s: %s", err.where, err.message);
        if (lzt_step_search_create(&f.options, &search, &err)) fail_msg("%s: %s", err.where, err.message);
        if (WHOLE_LISTS) {
            assert_int_equal(lzt_step_search_solve(search, &caps, &plan, &result, &err), LZT_OK);
            assert_int_equal(result.status, LZT_PLAN_OPTIMAL);
            lzt_plan_fini(&plan);
        }
        caps.device_bytes = 1;
        assert_int_equal(lzt_step_search_solve(search, &caps, &plan, &result, &err), LZT_OK);
        peak[splits - 1] = result.least_bytes[LZT_STEP_DEVICE];
        lzt_step_search_destroy(search);
        close_fixture(&f);
    }
    unlink(short_one);
    assert_true(peak[1] < peak[0]);
}

/* More of what binds shortens the step; what has no cap is said to have none. */
static void advice_names_what_binds(void **state)
{
    (void)state;
    static const struct {
        const hand_machine *machine;
        lzt_resource binds;
    } cases[] = {{&fast_link, LZT_RESOURCE_COMPUTE}, {&slow_host, LZT_RESOURCE_HOST_MEMORY}};
    for (size_t k = 0; k < 2; k++) {
        fixture f;
        lzt_error err = {0};
        lzt_step_search *search;
        lzt_step_plan_result result;
        lzt_step_advice advice;
        lzt_step_caps caps = {0};
        lzt_plan plan;
        open_fixture(&f, "tests/golden/llama3", LZT_DTYPE_BF16, 96, 1, cases[k].machine);
        assert_int_equal(lzt_step_search_create(&f.options, &search, &err), LZT_OK);
        assert_int_equal(lzt_step_search_solve(search, &caps, &plan, &result, &err), LZT_OK);
        assert_int_equal(lzt_step_advise(search, &caps, &plan, &advice, &err), LZT_OK);
        assert_int_equal(advice.binds, cases[k].binds);
        assert_true(advice.more_ps[cases[k].binds] < plan.objective_ps);
        assert_false(advice.capped[LZT_RESOURCE_DEVICE]);
        assert_true(advice.capped[LZT_RESOURCE_H2D]);
        for (int r = 0; r < LZT_RESOURCE_COUNT; r++) assert_true(advice.more_ps[r] <= plan.objective_ps);
        lzt_plan_fini(&plan);
        lzt_step_search_destroy(search);
        close_fixture(&f);
    }
}

/* The answer is a plan like any other: written, read, checked; an edit that breaks it is found. */
static void the_plan_is_checked(void **state)
{
    (void)state;
    fixture f;
    lzt_error err = {0};
    lzt_step_search *search;
    lzt_step_plan_result result;
    lzt_step_caps caps = {0};
    lzt_plan plan, read;
    lzt_evaluation e;
    char *text, *again;
    open_fixture(&f, "tests/golden/llama3", LZT_DTYPE_F32, 96, 2, &fast_link);
    assert_int_equal(lzt_step_search_create(&f.options, &search, &err), LZT_OK);
    caps.device_bytes = lzt__step_everything(lzt_step_search_get_model(search)) * 8 / 10;
    assert_int_equal(lzt_step_search_solve(search, &caps, &plan, &result, &err), LZT_OK);
    assert_non_null(plan.boundary);
    assert_int_equal(lzt_plan_print(&plan, &text, &err), LZT_OK);
    if (lzt_plan_parse(text, strlen(text), "text", &read, &err)) fail_msg("%s: %s", err.where, err.message);
    assert_int_equal(lzt_plan_print(&read, &again, &err), LZT_OK);
    assert_string_equal(text, again);
    assert_int_equal(read.objective_ps, result.objective_ps);
    assert_int_equal(read.cut, LZT_PLAN_CUT_NONE);
    for (int cut = LZT_PLAN_CUT_WORK; cut <= LZT_PLAN_CUT_CLOCK; cut++) {
        char *limited;
        lzt_plan back;
        plan.cut = (lzt_plan_cut)cut;
        assert_int_equal(lzt_plan_print(&plan, &limited, &err), LZT_OK);
        assert_int_equal(lzt_plan_parse(limited, strlen(limited), "text", &back, &err), LZT_OK);
        assert_int_equal(back.cut, cut);
        *strstr(limited, cut == LZT_PLAN_CUT_WORK ? "work" : "clock") = 'x';
        lzt_plan_fini(&back);
        assert_int_equal(lzt_plan_parse(limited, strlen(limited), "text", &back, &err), LZT_ERR_USAGE);
        free(limited);
    }
    plan.cut = LZT_PLAN_CUT_NONE;
    assert_int_equal(lzt_plan_check(&read, NULL, NULL, &e, &err), LZT_OK);
    assert_int_equal(e.violation_count, 0);
    for (uint64_t l = 0; l < read.layer_count; l++) read.internals[l] = LZT_TIER_GPU, read.weights[l] = true;
    for (uint64_t l = 0; l < read.layer_count; l++) read.boundary[l] = LZT_TIER_GPU;
    read.step->cap_bytes[LZT_STEP_DEVICE] /= 2;
    assert_int_equal(lzt_plan_check(&read, NULL, NULL, &e, &err), LZT_OK);
    assert_true(e.violation_count >= 1);
    free(text);
    free(again);
    lzt_plan_fini(&read);
    lzt_plan_fini(&plan);
    lzt_step_search_destroy(search);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_memory_is_never_worse),        cmocka_unit_test(a_limit_of_work_is_exact),
        cmocka_unit_test(a_limit_without_a_plan_says_which), cmocka_unit_test(no_other_plan_is_faster),
        cmocka_unit_test(internals_go_where_links_are_idle), cmocka_unit_test(the_least_is_exact),
        cmocka_unit_test(layers_without_kernels_plan),       cmocka_unit_test(sizes_are_the_compiled_ones),
        cmocka_unit_test(advice_names_what_binds),           cmocka_unit_test(the_plan_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
