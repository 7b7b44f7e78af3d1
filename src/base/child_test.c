/* Goal: a function in a child answers as it would here, ends at the deadline, and whatever becomes of it, neither a
 * process nor a descriptor is left.
 *
 * Method: bodies that answer, sleep for good, crash, leave, and are killed; after each, the process has no children and
 * the descriptors of before. */
#include "base/child.h"
#include "base/clock.h"
#include "base/leftovers.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { LARGE = 1 << 20 }; /* more than a pipe holds */

typedef struct task {
    enum { ANSWER, SLEEP, CRASH, LEAVE, KILLED } what;
    size_t bytes;
} task;

static void body(void *context, void *answer)
{
    const task *t = context;
    char *heap = malloc(1000); /* allocating is allowed */
    if (!heap) _exit(2);
    if (t->what == SLEEP)
        for (;;) pause();
    if (t->what == CRASH) abort();
    if (t->what == LEAVE) _exit(0);
    if (t->what == KILLED) raise(SIGKILL);
    for (size_t i = 0; i < t->bytes; i++) ((unsigned char *)answer)[i] = (unsigned char)(7 * i + 1);
    free(heap);
}

/* A deadline that no answer meets late, however slow the machine is. */
#define FAR_MS UINT64_C(3600000)

static uint64_t in_ms(uint64_t ms)
{
    return lzt__clock_ns() + ms * 1000000;
}

static void expect_answer(size_t bytes, uint64_t deadline_ns)
{
    task t = {ANSWER, bytes};
    bool late = true;
    lzt_error err = {0};
    unsigned char *answer = calloc(bytes, 1);
    assert_non_null(answer);
    assert_int_equal(lzt__child_run("work", body, &t, answer, bytes, deadline_ns, &late, &err), LZT_OK);
    assert_false(late);
    for (size_t i = 0; i < bytes; i++) assert_int_equal(answer[i], (unsigned char)(7 * i + 1));
    free(answer);
}

static void the_answer_comes_back(void **state)
{
    (void)state;
    int files = lzt__open_files();
    expect_answer(1, 0);
    expect_answer(LARGE, 0);
    expect_answer(LARGE, in_ms(FAR_MS));
    lzt__expect_nobody(files);
}

static void the_deadline_holds(void **state)
{
    (void)state;
    int files = lzt__open_files();
    for (uint64_t ms = 0; ms <= 200; ms += 100) { /* 0: it has passed already */
        task t = {SLEEP, 1};
        bool late = false;
        char answer;
        lzt_error err = {0};
        uint64_t begin = lzt__clock_ns();
        assert_int_equal(lzt__child_run("work", body, &t, &answer, 1, in_ms(ms), &late, &err), LZT_OK);
        assert_true(late);
        assert_true(lzt__clock_ns() - begin >= ms * 1000000);
        lzt__expect_nobody(files);
    }
}

static void an_end_without_an_answer_is_an_error(void **state)
{
    (void)state;
    static const struct {
        int what;
        lzt_status status;
        const char *says;
    } cases[] = {{CRASH, LZT_ERR_INTERNAL, "crashed with signal 6 (Aborted)"},
                 {LEAVE, LZT_ERR_INTERNAL, "ended without an answer"},
                 {KILLED, LZT_ERR_NO_MEMORY, "was killed before it answered"}};
    int files = lzt__open_files();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint64_t limit = 0; limit < 2; limit++) {
            task t = {0};
            bool late = true;
            char answer;
            lzt_error err = {0};
            t.what = cases[i].what;
            uint64_t deadline_ns = limit ? in_ms(FAR_MS) : 0;
            assert_int_equal(lzt__child_run("work", body, &t, &answer, 1, deadline_ns, &late, &err), cases[i].status);
            assert_false(late);
            assert_string_equal(err.where, "work");
            assert_non_null(strstr(err.message, cases[i].says));
            lzt__expect_nobody(files);
        }
}

/* The handler of a caller that goes on after SIGTERM is not the child's. */
static void go_on(int number)
{
    (void)number;
}

static void terminate_itself(void *context, void *answer)
{
    (void)context;
    (void)answer;
    raise(SIGTERM);
    for (;;) pause();
}

static void signals_end_the_child(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = go_on}, before;
    sigset_t blocked, mask;
    bool late;
    char answer;
    lzt_error err = {0};
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    assert_int_equal(sigaction(SIGTERM, &action, &before), 0);
    assert_int_equal(sigprocmask(SIG_BLOCK, &blocked, &mask), 0);
    lzt_status status = lzt__child_run("work", terminate_itself, NULL, &answer, 1, 0, &late, &err);
    assert_int_equal(sigprocmask(SIG_SETMASK, &mask, NULL), 0);
    assert_int_equal(sigaction(SIGTERM, &before, NULL), 0);
    assert_int_equal(status, LZT_ERR_INTERRUPTED);
    assert_non_null(strstr(err.message, "was ended by signal 15 (Terminated)"));
}

static void raise_it(void *context, void *answer)
{
    struct rlimit none = {0};
    (void)answer;
    setrlimit(RLIMIT_CORE, &none);
    signal(*(const int *)context, SIG_DFL); /* whoever runs the tests may ignore it */
    raise(*(const int *)context);
    for (;;) pause();
}

/* What its own fault ended is a crash; what somebody sent is none. */
static void each_signal_is_told_apart(void **state)
{
    (void)state;
    static const struct {
        int number;
        lzt_status status;
        const char *says;
    } cases[] = {{SIGSEGV, LZT_ERR_INTERNAL, "crashed with signal 11 (Segmentation fault)"},
                 {SIGBUS, LZT_ERR_INTERNAL, "crashed with signal 7"},
                 {SIGFPE, LZT_ERR_INTERNAL, "crashed with signal 8"},
                 {SIGILL, LZT_ERR_INTERNAL, "crashed with signal 4"},
                 {SIGINT, LZT_ERR_INTERRUPTED, "was ended by signal 2 (Interrupt), which somebody sent"},
                 {SIGTERM, LZT_ERR_INTERRUPTED, "was ended by signal 15 (Terminated), which somebody sent"},
                 {SIGHUP, LZT_ERR_INTERRUPTED, "was ended by signal 1"},
                 {SIGUSR1, LZT_ERR_INTERRUPTED, "was ended by signal 10"},
                 {SIGXCPU, LZT_ERR_NO_MEMORY, "used up its limit of CPU time"},
                 {SIGKILL, LZT_ERR_NO_MEMORY, "was killed before it answered"}};
    int files = lzt__open_files();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int number = cases[i].number;
        bool late;
        char answer;
        lzt_error err = {0};
        assert_int_equal(lzt__child_run("work", raise_it, &number, &answer, 1, 0, &late, &err), cases[i].status);
        if (!strstr(err.message, cases[i].says)) fail_msg("signal %d: \"%s\"", number, err.message);
        if (cases[i].status == LZT_ERR_INTERRUPTED) assert_null(strstr(err.message, "crash"));
        lzt__expect_nobody(files);
    }
}

static void hang_up_and_answer(void *context, void *answer)
{
    (void)context;
    raise(SIGHUP);
    *(char *)answer = 'a';
}

/* nohup: a terminal that goes away takes neither of the two along. */
static void what_is_ignored_stays_so(void **state)
{
    (void)state;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    bool late;
    char answer = 0;
    lzt_error err = {0};
    assert_int_equal(sigaction(SIGHUP, &ignore, &before), 0);
    lzt_status status = lzt__child_run("work", hang_up_and_answer, NULL, &answer, 1, 0, &late, &err);
    assert_int_equal(sigaction(SIGHUP, &before, NULL), 0);
    assert_int_equal(status, LZT_OK);
    assert_int_equal(answer, 'a');
}

/* The system reaps children by itself where the caller ignores their end. */
static void ignored_children_answer(void **state)
{
    (void)state;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    task t = {LEAVE, 1};
    bool late;
    char answer;
    lzt_error err = {0};
    int files = lzt__open_files();
    assert_int_equal(sigaction(SIGCHLD, &ignore, &before), 0);
    expect_answer(100, 0);
    lzt_status status = lzt__child_run("work", body, &t, &answer, 1, 0, &late, &err);
    assert_int_equal(sigaction(SIGCHLD, &before, NULL), 0);
    assert_int_equal(status, LZT_ERR_INTERNAL);
    lzt__expect_nobody(files);
}

/* Children of several threads inherit each other's pipes: neither an answer nor a death is missed for it. */
static void *one_of_many(void *argument)
{
    const task *t = argument;
    for (int i = 0; i < 20; i++) {
        bool late;
        char answer[64];
        uint64_t deadline_ns = t->what == SLEEP ? in_ms(20) : 0;
        lzt_status status = lzt__child_run("work", body, argument, answer, t->bytes, deadline_ns, &late, NULL);
        if (status != (t->what == LEAVE ? LZT_ERR_INTERNAL : LZT_OK) || late != (t->what == SLEEP)) return argument;
    }
    return NULL;
}

static void threads_do_not_disturb_each_other(void **state)
{
    (void)state;
    task tasks[] = {{ANSWER, 64}, {LEAVE, 64}, {SLEEP, 64}, {ANSWER, 1}};
    pthread_t thread[4];
    int files = lzt__open_files();
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, one_of_many, &tasks[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        assert_int_equal(pthread_join(thread[i], &wrong), 0);
        assert_null(wrong);
    }
    lzt__expect_nobody(files);
}

static void no_descriptors_is_an_error(void **state)
{
    (void)state;
    struct rlimit before, none;
    task t = {ANSWER, 1};
    bool late;
    char answer;
    lzt_error err = {0};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    lzt_status status = lzt__child_run("work", body, &t, &answer, 1, 0, &late, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, LZT_ERR_NO_MEMORY);
    assert_non_null(strstr(err.message, "has no pipe"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_answer_comes_back),
        cmocka_unit_test(the_deadline_holds),
        cmocka_unit_test(an_end_without_an_answer_is_an_error),
        cmocka_unit_test(signals_end_the_child),
        cmocka_unit_test(each_signal_is_told_apart),
        cmocka_unit_test(what_is_ignored_stays_so),
        cmocka_unit_test(ignored_children_answer),
        cmocka_unit_test(threads_do_not_disturb_each_other),
        cmocka_unit_test(no_descriptors_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
