/* The team: every part runs once a region, on its own thread; its threads ask for short slices, and where the parts are
 * as many as the CPUs each has one to itself; nothing else of their scheduling changes. A kernel that knows no slices
 * reports 0. */
#include "base/team.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PARTS = 4 };

/* as sched_getattr(2) gives it */
typedef struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice_ns, deadline_ns, period_ns;
} scheduling;

typedef struct seen {
    int runs[PARTS];
    pthread_t thread[PARTS];
    scheduling scheduling[PARTS];
} seen;

static scheduling of_this_thread(void)
{
    scheduling s = {.size = sizeof s};
    if (syscall(SYS_sched_getattr, 0, &s, sizeof s, 0)) memset(&s, 0, sizeof s);
    return s;
}

static void look(void *arg, uint32_t part, uint32_t part_count)
{
    seen *s = arg;
    if (part_count != PARTS) return;
    s->runs[part]++;
    s->thread[part] = pthread_self();
    s->scheduling[part] = of_this_thread();
}

static void each_part_runs_once(void **state)
{
    (void)state;
    lzt_team *team;
    assert_int_equal(lzt__team_create(PARTS, &team, NULL), LZT_OK);
    seen s;
    memset(&s, 0, sizeof s);
    for (int region = 1; region <= 3; region++) {
        lzt__team_run(team, look, &s);
        for (int i = 0; i < PARTS; i++) {
            assert_int_equal(s.runs[i], region);
            for (int j = 0; j < i; j++) assert_false(pthread_equal(s.thread[i], s.thread[j]));
        }
    }
    assert_true(pthread_equal(s.thread[0], pthread_self()));
    lzt__team_destroy(team);
}

static void slices_are_short_and_nothing_else_changes(void **state)
{
    (void)state;
    lzt_team *team;
    scheduling own = of_this_thread();
    assert_int_equal(lzt__team_create(PARTS, &team, NULL), LZT_OK);
    seen s;
    memset(&s, 0, sizeof s);
    lzt__team_run(team, look, &s);
    for (int i = 1; i < PARTS; i++) {
        if (own.slice_ns) assert_true(s.scheduling[i].slice_ns <= own.slice_ns);
        assert_int_equal(s.scheduling[i].policy, own.policy);
        assert_int_equal(s.scheduling[i].nice, own.nice);
        assert_int_equal(s.scheduling[i].priority, own.priority);
    }
    if (own.slice_ns && own.policy == 0) assert_int_equal(s.scheduling[1].slice_ns, 100000);
    lzt__team_destroy(team);
}

enum { CPUS_MAX = 1024 };

typedef struct places {
    uint32_t parts;
    cpu_set_t cpus[CPUS_MAX];
} places;

static void look_at_place(void *arg, uint32_t part, uint32_t part_count)
{
    places *p = arg;
    (void)part_count;
    if (sched_getaffinity(0, sizeof p->cpus[part], &p->cpus[part])) CPU_ZERO(&p->cpus[part]);
}

/* Runs a region on a team of p->parts, from a thread of its own. */
static void *run_region(void *arg)
{
    places *p = arg;
    lzt_team *team;
    if (lzt__team_create(p->parts, &team, NULL)) return NULL;
    lzt__team_run(team, look_at_place, p);
    lzt__team_destroy(team);
    return arg;
}

static void look_from_a_thread(places *p)
{
    pthread_t thread;
    void *done;
    assert_int_equal(pthread_create(&thread, NULL, run_region, p), 0);
    assert_int_equal(pthread_join(thread, &done), 0);
    assert_non_null(done);
}

static void as_many_parts_as_cpus_have_one_each(void **state)
{
    (void)state;
    static places p;
    cpu_set_t all, seen_cpus;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    p.parts = (uint32_t)CPU_COUNT(&all);
    if (p.parts < 2 || p.parts >= CPUS_MAX) skip();
    look_from_a_thread(&p);
    CPU_ZERO(&seen_cpus);
    for (uint32_t i = 0; i < p.parts; i++) {
        assert_int_equal(CPU_COUNT(&p.cpus[i]), 1);
        CPU_OR(&seen_cpus, &seen_cpus, &p.cpus[i]);
    }
    assert_true(CPU_EQUAL(&seen_cpus, &all));
    p.parts++; /* more than CPUs: the scheduler's business */
    look_from_a_thread(&p);
    for (uint32_t i = 0; i < p.parts; i++) assert_true(CPU_EQUAL(&p.cpus[i], &all));
}

static void the_main_thread_is_not_bound(void **state)
{
    (void)state;
    static places p;
    cpu_set_t all, now;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    p.parts = (uint32_t)CPU_COUNT(&all);
    if (p.parts > CPUS_MAX) skip();
    assert_non_null(run_region(&p));
    assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
    assert_true(CPU_EQUAL(&now, &all));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_part_runs_once),
        cmocka_unit_test(slices_are_short_and_nothing_else_changes),
        cmocka_unit_test(as_many_parts_as_cpus_have_one_each),
        cmocka_unit_test(the_main_thread_is_not_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
