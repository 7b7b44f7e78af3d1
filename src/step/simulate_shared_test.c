/* Goal: the shared clock gives the times that the rates of its lanes imply, worked out by hand on programs of a few
 * tasks; without contention it is lzt_program_simulate.
 */
#include "step/builder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void assert_near(double value, double want, double tolerance)
{
    if (!(fabs(value - want) <= tolerance)) fail_msg("%.17g is not %.17g", value, want);
}

#define NEAR 1e-12

/* compute: a, c    h2d: b    d2h: d (waits for a and b) */
static lzt_task task[4] = {{.name = "a", .lane = LZT_LANE_COMPUTE},
                           {.name = "b", .lane = LZT_LANE_H2D},
                           {.name = "c", .lane = LZT_LANE_COMPUTE},
                           {.name = "d", .lane = LZT_LANE_D2H, .dependency_count = 2, .flow_count = 2}};
static uint32_t dependency[] = {0, 1};

static void make(lzt_program *p)
{
    memset(p, 0, sizeof *p);
    p->info.task = p->tasks = task;
    p->info.dependency = p->info.flow = dependency;
    p->info.task_count = 4;
    p->info.dependency_count = p->info.flow_count = 2;
}

static void ones(lzt_contention *c)
{
    *c = (lzt_contention){0};
    for (int a = 0; a < LZT_LANE_COUNT; a++)
        for (int b = 0; b < LZT_LANE_COUNT; b++) c->slowdown[a][b] = 1;
}

static void assert_times(const double *start, const double *end, const double *want)
{
    for (int i = 0; i < 4; i++) {
        assert_near(start[i], want[2 * i], NEAR);
        assert_near(end[i], want[2 * i + 1], NEAR);
    }
}

static void test_without_contention(void **unused)
{
    (void)unused;
    lzt_program p;
    lzt_contention c;
    const double seconds[] = {1, 2, 3, 0.5}, want[] = {0, 1, 0, 2, 1, 4, 2, 2.5};
    double start[4], end[4];
    make(&p);
    ones(&c);
    assert_near(lzt_program_simulate(&p, seconds, false, start, end), 4, NEAR);
    assert_times(start, end, want);
    assert_near(lzt_program_simulate_shared(&p, seconds, NULL, start, end), 4, NEAR);
    assert_times(start, end, want);
    assert_near(lzt_program_simulate_shared(&p, seconds, &c, NULL, NULL), 4, NEAR);
}

/* While b runs, compute takes twice as long: at 2 a has done its 1 second. Then d runs beside c, which takes 1.5 times
 * as long: d's half second lets 1/3 of a second of c pass, and 3 - 1/3 are left at 2.5. */
static void test_slowdown(void **unused)
{
    (void)unused;
    lzt_program p;
    lzt_contention c;
    const double seconds[] = {1, 2, 3, 0.5}, want[] = {0, 2, 0, 2, 2, 2.5 + 8.0 / 3, 2, 2.5};
    double start[4], end[4];
    make(&p);
    ones(&c);
    c.slowdown[LZT_LANE_COMPUTE][LZT_LANE_H2D] = 2;
    c.slowdown[LZT_LANE_COMPUTE][LZT_LANE_D2H] = 1.5;
    assert_near(lzt_program_simulate_shared(&p, seconds, &c, start, end), 2.5 + 8.0 / 3, NEAR);
    assert_times(start, end, want);
}

/* Two lanes beside a third: what each adds, adds up. */
static void test_adds_up(void **unused)
{
    (void)unused;
    static lzt_task three[3] = {{.lane = LZT_LANE_COMPUTE}, {.lane = LZT_LANE_H2D}, {.lane = LZT_LANE_D2H}};
    lzt_program p = {.tasks = three, .info = {.task = three, .task_count = 3}};
    lzt_contention c;
    const double seconds[] = {1, 9, 9};
    double end[3];
    ones(&c);
    c.slowdown[LZT_LANE_COMPUTE][LZT_LANE_H2D] = 1.5;
    c.slowdown[LZT_LANE_COMPUTE][LZT_LANE_D2H] = 1.25;
    lzt_program_simulate_shared(&p, seconds, &c, NULL, end);
    assert_near(end[0], 1.75, NEAR);
}

/* d waits for b, whose end it sees 0.25 later; c follows a on its own lane and does not wait. */
static void test_handover(void **unused)
{
    (void)unused;
    lzt_program p;
    lzt_contention c;
    const double seconds[] = {1, 2, 3, 0.5}, want[] = {0, 1, 0, 2, 1, 4, 2.25, 2.75};
    double start[4], end[4];
    make(&p);
    ones(&c);
    c.handover_seconds = 0.25;
    assert_near(lzt_program_simulate_shared(&p, seconds, &c, start, end), 4, NEAR);
    assert_times(start, end, want);
}

/* Busy and exposed times of those: compute waits for nothing until 4, and the step ends with it. */
static void test_account(void **unused)
{
    (void)unused;
    lzt_program p;
    lzt_account account;
    lzt_work work[4] = {{.start_ns = 0, .end_ns = 1000000000},
                        {.start_ns = 0, .end_ns = 2000000000},
                        {.start_ns = 2000000000, .end_ns = 3000000000},
                        {.start_ns = 2000000000, .end_ns = 3500000000}};
    uint32_t scratch[4];
    lzt_task again[4];
    uint32_t waits[] = {1, 0, 1}; /* c waits for b, d for a and b */
    make(&p);
    memcpy(again, task, sizeof again);
    again[2].dependency_count = 1;
    again[3].first_dependency = 1;
    p.info.task = again;
    p.info.dependency = waits;
    lzt_program_account(&p, work, 0, 3500000000, scratch, &account);
    assert_near(account.seconds, 3.5, NEAR);
    assert_near(account.busy_seconds[LZT_LANE_COMPUTE], 2, NEAR);
    assert_near(account.exposed_seconds[LZT_LANE_H2D], 1, NEAR);
    assert_near(account.exposed_seconds[LZT_LANE_D2H], 0.5, NEAR);
    assert_near(account.exposed_seconds[LZT_IDLE_OTHER], 0, NEAR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_without_contention), cmocka_unit_test(test_slowdown),
                                       cmocka_unit_test(test_adds_up), cmocka_unit_test(test_handover),
                                       cmocka_unit_test(test_account)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
