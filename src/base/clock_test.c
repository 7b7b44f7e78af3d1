/* Goal: the clock never runs backwards and a sleep never ends early. Method: read twice; sleep to a near deadline, with
 * a timer signal arriving all the while. How late a sleep ends is not asserted: that is the scheduler's affair. */
#include "base/clock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/time.h>
#include <cmocka.h>

static void on_alarm(int signal_number)
{
    (void)signal_number;
}

static void never_backwards(void **state)
{
    (void)state;
    uint64_t last = lzt__clock_ns();
    for (int i = 0; i < 1000; i++) {
        uint64_t now = lzt__clock_ns();
        assert_true(now >= last);
        last = now;
    }
}

static void sleep_is_never_short(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval every_ms = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &every_ms, NULL);
    uint64_t deadline = lzt__clock_ns() + 20 * 1000 * 1000;
    lzt__clock_sleep_until(deadline);
    uint64_t now = lzt__clock_ns();
    setitimer(ITIMER_REAL, &off, NULL);
    assert_true(now >= deadline);
    lzt__clock_sleep_until(0); /* long past: returns */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_backwards),
        cmocka_unit_test(sleep_is_never_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
