/* The team: every part runs once a region, on its own thread; its threads ask for short slices and change nothing else
 * of their scheduling. A kernel that knows no slices reports 0. */
#include "base/team.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_part_runs_once),
        cmocka_unit_test(slices_are_short_and_nothing_else_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
