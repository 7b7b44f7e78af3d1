/* Goal: a plan's page shows that plan: a mark for each boundary in its tier's lane, a bar for each window with what it
 * carries and exposes, a dot for each budget; it is whole, balanced, and loads nothing from anywhere. Method: a small
 * problem with exposure, the page parsed tag by tag, its marks counted against the plan. */
#include "lazytrain/plan_html.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { LAYERS = 6 };

static char path[] = "/tmp/lzt-plan-html-XXXXXX", *page;

static void make_plan(lzt_plan *plan)
{
    static const lzt_tier tiers[LAYERS + 1] = {LZT_TIER_GPU,       LZT_TIER_CPU, LZT_TIER_NVME, LZT_TIER_RECOMPUTE,
                                               LZT_TIER_RECOMPUTE, LZT_TIER_GPU, LZT_TIER_GPU};
    lzt_error err = {0};
    assert_int_equal(lzt_plan_init(plan, LAYERS, &err), LZT_OK);
    memcpy(plan->boundary, tiers, sizeof tiers);
    snprintf(plan->model_name, sizeof plan->model_name, "a<b>&\"c\"");
    snprintf(plan->solver, sizeof plan->solver, "dp");
    plan->status = LZT_PLAN_OPTIMAL;
    plan->numerics.micro_batch_tokens = plan->numerics.loss_chunk = 8;
    lzt_problem *p = plan->problem = calloc(1, sizeof *p);
    assert_int_equal(lzt_problem_init(p, LAYERS, &err), LZT_OK);
    p->max_segment = 4;
    p->overlap_aware_pcie = p->overlap_aware_nvme = true;
    for (int t = 0; t < 3; t++) p->budget_bytes[t] = 4000;
    for (int i = 0; i <= LAYERS; i++) p->boundary_bytes[i] = 1000;
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) p->bytes_per_s[pool] = 1000000;
    for (int l = 0; l < LAYERS; l++) {
        p->recompute_ps[l] = 1000000000;
        for (int pool = 0; pool < LZT_POOL_COUNT; pool++) p->window_bytes[pool][l] = 300;
        p->mandatory_bytes[LZT_POOL_H2D][l] = 250;
    }
    plan->source = (lzt_plan_source){.batch_size = 1, .max_seq_len = 8, .dtype_bytes = 2, .nvme_enabled = true};
}

static void write_page(const lzt_plan *plan, const lzt_plan_sweep *sweep, uint64_t count)
{
    lzt_error err = {0};
    if (lzt_plan_write_html(plan, sweep, count, path, &err)) fail_msg("%s: %s", err.where, err.message);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    free(page);
    page = calloc(1, 1 << 20);
    assert_true(fread(page, 1, (1 << 20) - 1, file) > 1000);
    fclose(file);
}

static int count(const char *text)
{
    int found = 0;
    for (const char *at = page; (at = strstr(at, text)); at += strlen(text)) found++;
    return found;
}

/* Every tag that opens is closed, in order; void and self-closed ones aside. */
static void is_balanced(void)
{
    static const char *const empty[] = {"meta", "!DOCTYPE", "br"};
    char stack[64][16];
    int depth = 0;
    for (const char *at = page; (at = strchr(at, '<')); at++) {
        const char *end = strchr(at, '>');
        char name[16] = "";
        assert_non_null(end);
        sscanf(at + (at[1] == '/' ? 2 : 1), "%15[A-Za-z0-9!]", name);
        if (end[-1] == '/' || !strcmp(name, empty[0]) || !strcmp(name, empty[1]) || !strcmp(name, empty[2])) continue;
        if (at[1] != '/') {
            assert_true(depth < 64);
            strcpy(stack[depth++], name);
        } else if (!depth || strcmp(stack[--depth], name)) {
            fail_msg("</%s> closes <%s>", name, depth >= 0 ? stack[depth] : "");
        }
    }
    assert_int_equal(depth, 0);
}

static void loads_nothing(void)
{
    static const char *const words[] = {"http:", "https:", " src=", " href=", "@import", "url(", "<script", "<link"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (count(words[i])) fail_msg("the page has %s", words[i]);
    assert_int_equal(count("prefers-color-scheme:dark"), 1);
}

static void boundaries_windows_and_budgets(void **state)
{
    (void)state;
    lzt_plan plan;
    lzt_evaluation e;
    make_plan(&plan);
    assert_int_equal(lzt_plan_check(&plan, NULL, NULL, &e, NULL), LZT_OK);
    assert_int_equal(e.violation_count, 0);
    lzt_sweep_point points[3] = {{.budget_bytes = 0}, {2000, true, e}, {4000, true, e}};
    const lzt_plan_sweep sweep = {LZT_TIER_CPU, points, 3};
    write_page(&plan, &sweep, 1);
    is_balanced();
    loads_nothing();
    assert_int_equal(count("<title>boundary "), LAYERS + 1);
    assert_int_equal(count("<title>boundary 2: NVMe"), 1);
    assert_int_equal(count("<title>boundary 3: recompute"), 1);
    assert_int_equal(count("<title>layers 2 to 3 run again in backward, from boundary 2"), 1);
    assert_int_equal(count("class=\"block\""), 1);
    assert_int_equal(count("<title>window "), LZT_POOL_COUNT * LAYERS);
    int exposed = 0;
    lzt_window window[LAYERS];
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) {
        lzt_problem_windows(plan.problem, plan.boundary, (lzt_pool)pool, window);
        for (int w = 0; w < LAYERS; w++) exposed += window[w].exposed_bytes > 0;
    }
    assert_true(exposed > 0);
    assert_int_equal(count("<rect class=\"exposed\""), exposed);
    assert_int_equal(count("class=\"dot\""), 2);
    assert_int_equal(count("nothing fits"), 1);
    assert_int_equal(count("a<b>"), 0);
    assert_true(count("a&lt;b&gt;&amp;&quot;c&quot;") >= 2);
    assert_int_equal(count("This plan breaks"), 0);
    lzt_plan_fini(&plan);
}

static void a_broken_plan_says_so(void **state)
{
    (void)state;
    lzt_plan plan;
    make_plan(&plan);
    plan.problem->budget_bytes[LZT_TIER_NVME] = 0;
    write_page(&plan, NULL, 0);
    is_balanced();
    assert_int_equal(count("This plan breaks 1 constraints"), 1);
    assert_int_equal(count("What other budgets"), 0);
    lzt_plan_fini(&plan);
}

/* A compiled plan has a map of what stays, and no pools. */
static void a_step_plan(void **state)
{
    (void)state;
    lzt_plan plan;
    make_plan(&plan);
    lzt_problem_fini(plan.problem);
    free(plan.problem);
    plan.problem = NULL;
    plan.status = LZT_PLAN_NOT_SOLVED;
    plan.internals[4] = LZT_TIER_GPU;
    plan.internals[3] = LZT_TIER_CPU;
    write_page(&plan, NULL, 0);
    is_balanced();
    loads_nothing();
    assert_int_equal(count("<title>boundary "), LAYERS + 1);
    assert_int_equal(count("<title>layer 4: internals stay<"), 1);
    assert_int_equal(count("<title>layer 3: internals go to the host and come back<"), 1);
    assert_int_equal(count(": internals do not stay<"), LAYERS - 2);
    assert_int_equal(count("<title>window "), 0);
    lzt_plan_fini(&plan);
}

/* A plan of the real step: its time by part, lanes in each window, a pair of marks a layer; all figures the plan's. */
static void a_plan_of_the_real_step(void **state)
{
    (void)state;
    lzt_plan plan;
    lzt_error err = {0};
    make_plan(&plan);
    lzt_problem_fini(plan.problem);
    free(plan.problem);
    plan.problem = NULL;
    plan.boundary[2] = LZT_TIER_CPU;
    plan.step = calloc(1, sizeof *plan.step);
    assert_int_equal(lzt_step_model_init(plan.step, LAYERS, &err), LZT_OK);
    for (int l = 0; l < LAYERS; l++)
        plan.step->layer[l] =
            (lzt_step_layer){.forward_ps = 2000000000, .backward_ps = 5000000000, .upload_ps = 3000000000};
    plan.step->micro_batches = 1;
    plan.step->cap_bytes[LZT_STEP_DEVICE] = 4096;
    plan.step->waits_ps[LZT_STEP_COMPUTE] = 40000000000;
    plan.step->waits_ps[LZT_STEP_H2D] = 2000000000;
    plan.objective_ps = 43000000000;
    plan.device_bytes = 2048;
    write_page(&plan, NULL, 0);
    is_balanced();
    loads_nothing();
    assert_int_equal(count("<title>compute at work: 40.000 ms<"), 1);
    assert_int_equal(count("<title>waiting for uploads: 2.000 ms<"), 1);
    assert_int_equal(count("<title>other: 1.000 ms<"), 1);
    assert_int_equal(count("2 KiB of 4 KiB"), 1);
    assert_int_equal(count(": compute 2.000 ms, up 3.000, down 0.000<"), LAYERS); /* forward */
    assert_int_equal(count("class=\"up\""), 2 * LAYERS);
    assert_int_equal(count("43.000</b><span>predicted step, ms"), 1);
    lzt_plan_fini(&plan);
}

static void no_place_is_an_error(void **state)
{
    (void)state;
    lzt_plan plan;
    lzt_error err = {0};
    make_plan(&plan);
    assert_int_equal(lzt_plan_write_html(&plan, NULL, 0, "/nowhere/plan.html", &err), LZT_ERR_STORAGE);
    lzt_plan_fini(&plan);
}

static int set_up(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    free(page);
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boundaries_windows_and_budgets),
        cmocka_unit_test(a_broken_plan_says_so),
        cmocka_unit_test(a_step_plan),
        cmocka_unit_test(a_plan_of_the_real_step),
        cmocka_unit_test(no_place_is_an_error),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
