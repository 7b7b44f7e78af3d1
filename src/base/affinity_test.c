/* Where a team's threads run: what is read, what is decided, and which CPUs follow. */
#include "base/affinity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

static const char stat_text[] = "cpu  900 0 300 5000 70 0 5 0 0 0\n"
                                "cpu0 100 0 100 1000 20 0 5 0 0 0\n"
                                "cpu1 200 0 100 1500 50 0 0 0 0 0\n"
                                "cpu10 600 0 100 2500 0 0 0 0 0 0\n"
                                "intr 12345 0 9\n";

static cpu_set_t set_of(int a, int b)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(a, &set);
    CPU_SET(b, &set);
    return set;
}

static void idle_time_is_that_of_the_own_cpus(void **state)
{
    (void)state;
    double seconds;
    cpu_set_t set = set_of(0, 1);
    assert_true(lzt__affinity_idle(stat_text, &set, 100, &seconds));
    assert_true(seconds == 25.7);
    set = set_of(1, 10);
    assert_true(lzt__affinity_idle(stat_text, &set, 100, &seconds));
    assert_true(seconds == 40.5);
    set = set_of(1, 2);
    assert_false(lzt__affinity_idle(stat_text, &set, 100, &seconds));
    assert_false(lzt__affinity_idle("", &set, 100, &seconds));
    assert_false(lzt__affinity_idle("cpu1 1 2\ncpu2 x\n", &set, 100, &seconds));
}

static void bound_alone_and_free_in_company(void **state)
{
    (void)state;
    assert_true(lzt__affinity_alone(false, 0.07, 1));
    assert_false(lzt__affinity_alone(false, 0.09, 1));
    assert_true(lzt__affinity_alone(true, 0.14, 1));
    assert_false(lzt__affinity_alone(true, 0.16, 1));
    assert_true(lzt__affinity_alone(false, -0.01, 0.5)); /* ticks are coarse */
    assert_false(lzt__affinity_alone(true, 1, 0.5));
}

static void each_part_has_its_cpu(void **state)
{
    (void)state;
    cpu_set_t all = set_of(3, 8), mask;
    assert_true(lzt__affinity_mask(true, &all, 0, 2, &mask));
    assert_int_equal(CPU_COUNT(&mask), 1);
    assert_true(CPU_ISSET(3, &mask));
    assert_true(lzt__affinity_mask(true, &all, 1, 2, &mask));
    assert_int_equal(CPU_COUNT(&mask), 1);
    assert_true(CPU_ISSET(8, &mask));
    assert_true(lzt__affinity_mask(false, &all, 1, 2, &mask));
    assert_true(CPU_EQUAL(&mask, &all));
    assert_false(lzt__affinity_mask(true, &all, 0, 1, &mask)); /* fewer or more parts: the scheduler's business */
    assert_false(lzt__affinity_mask(false, &all, 0, 3, &mask));
}

static void *place_and_look(void *arg)
{
    cpu_set_t *seen = arg;
    lzt__affinity_thread(1, (uint32_t)CPU_COUNT(&seen[0]));
    sched_getaffinity(0, sizeof seen[1], &seen[1]);
    return NULL;
}

static void a_thread_follows_the_turn(void **state)
{
    (void)state;
    cpu_set_t seen[2];
    pthread_t thread;
    assert_int_equal(sched_getaffinity(0, sizeof seen[0], &seen[0]), 0);
    lzt__affinity_look();
    uint32_t turn = lzt__affinity_turn();
    assert_int_equal(turn, 0); /* one look alone tells nothing */
    assert_int_equal(pthread_create(&thread, NULL, place_and_look, seen), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(CPU_EQUAL(&seen[0], &seen[1]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_time_is_that_of_the_own_cpus),
        cmocka_unit_test(bound_alone_and_free_in_company),
        cmocka_unit_test(each_part_has_its_cpu),
        cmocka_unit_test(a_thread_follows_the_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
