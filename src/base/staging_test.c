/* Goal: the target of a staging is the old directory or the new one, whole, and nothing else stays behind.
 *
 * Method: a directory with one file is replaced by one with two, with every file call failing in turn and with a kill
 * at every call; afterwards the target's files are read, and the leftovers of the killed are cleaned by the next run.
 */
#include "base/os_faulty.h"
#include "base/staging.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64], target[128];

static lzt_status fill(const lzt_os *os, const char *content, bool replace, lzt_error *err)
{
    lzt__staging s;
    lzt_status status = lzt__staging_open(os, target, &s, err);
    if (status) return status;
    status = lzt__staging_put(&s, "a", content, strlen(content), err);
    if (!status) status = lzt__staging_put(&s, "b", content, strlen(content), err);
    if (!status) status = lzt__staging_publish(&s, replace, err);
    lzt__staging_close(&s);
    return status;
}

/* The content of the target, which must be the same in both files. */
static void expect_target(const char *one, const char *other)
{
    char path[160], *a, *b;
    uint64_t bytes;
    snprintf(path, sizeof path, "%s/a", target);
    assert_int_equal(lzt__os_read_file(lzt__os_posix(), path, 100, &a, &bytes, NULL), LZT_OK);
    snprintf(path, sizeof path, "%s/b", target);
    assert_int_equal(lzt__os_read_file(lzt__os_posix(), path, 100, &b, &bytes, NULL), LZT_OK);
    assert_string_equal(a, b);
    if (strcmp(a, one) && strcmp(a, other)) fail_msg("the target holds \"%s\"", a);
    free(a);
    free(b);
}

static int count_entry(void *arg, const char *name)
{
    (void)name;
    ++*(int *)arg;
    return 0;
}

static int entries_of_root(void)
{
    const lzt_os *os = lzt__os_posix();
    int count = 0, fd = open(root, O_RDONLY | O_DIRECTORY);
    os->list(os, fd, count_entry, &count);
    close(fd);
    return count;
}

static void publish_and_replace(void **state)
{
    (void)state;
    lzt_error err = {0};
    assert_int_equal(fill(lzt__os_posix(), "one", false, &err), LZT_OK);
    expect_target("one", "one");
    assert_int_equal(fill(lzt__os_posix(), "two", false, &err), LZT_ERR_STORAGE);
    expect_target("one", "one");
    assert_int_equal(fill(lzt__os_posix(), "two", true, &err), LZT_OK);
    expect_target("two", "two");
    assert_int_equal(entries_of_root(), 1);
}

static void every_call_fails(void **state)
{
    (void)state;
    lzt_os_faulty faulty;
    lzt__os_faulty_init(&faulty, lzt__os_posix());
    assert_int_equal(fill(lzt__os_posix(), "old", true, NULL), LZT_OK);
    assert_int_equal(fill(&faulty.os, "old", true, NULL), LZT_OK);
    uint64_t calls = faulty.calls;
    assert_true(calls > 10);
    for (uint64_t i = 1; i <= calls; i++) {
        assert_int_equal(fill(lzt__os_posix(), "old", true, NULL), LZT_OK);
        lzt__os_faulty_init(&faulty, lzt__os_posix());
        faulty.fail_at = i;
        faulty.fail_errno = ENOSPC;
        lzt_error err = {0};
        lzt_status status = fill(&faulty.os, "new", true, &err);
        if (!status)
            expect_target("new", "new"); /* a failed clean-up of the old one is no error */
        else
            expect_target("old", "new");
        assert_int_equal(faulty.open_fds, 0);
        uint32_t removed;
        assert_int_equal(lzt__staging_clean(lzt__os_posix(), root, "", &removed, NULL), LZT_OK);
        assert_int_equal(entries_of_root(), 1);
    }
}

static void killed_at_every_call(void **state)
{
    (void)state;
    lzt_os_faulty faulty;
    lzt__os_faulty_init(&faulty, lzt__os_posix());
    assert_int_equal(fill(&faulty.os, "old", true, NULL), LZT_OK);
    uint64_t calls = faulty.calls, leftovers = 0;
    for (uint64_t i = 1; i <= calls + 3; i++) {
        assert_int_equal(fill(lzt__os_posix(), "old", true, NULL), LZT_OK);
        pid_t pid = fork();
        if (!pid) {
            lzt__os_faulty_init(&faulty, lzt__os_posix());
            faulty.kill_at = i;
            fill(&faulty.os, "new", true, NULL);
            _exit(0);
        }
        waitpid(pid, NULL, 0);
        expect_target("old", "new");
        uint32_t removed;
        assert_int_equal(lzt__staging_clean(lzt__os_posix(), root, "target", &removed, NULL), LZT_OK);
        leftovers += removed;
        assert_int_equal(entries_of_root(), 1);
    }
    assert_true(leftovers > 5);
}

static void a_living_one_stays(void **state)
{
    (void)state;
    lzt__staging s;
    uint32_t removed;
    assert_int_equal(lzt__staging_open(lzt__os_posix(), target, &s, NULL), LZT_OK);
    assert_int_equal(lzt__staging_clean(lzt__os_posix(), root, "", &removed, NULL), LZT_OK);
    assert_int_equal(removed, 0);
    assert_int_equal(entries_of_root(), 2);
    lzt__staging_close(&s);
    assert_int_equal(entries_of_root(), 1);
    assert_int_equal(lzt__staging_open(lzt__os_posix(), "/", &s, NULL), LZT_ERR_STORAGE);
    assert_int_equal(lzt__staging_open(lzt__os_posix(), "/dev/null/x", &s, NULL), LZT_ERR_STORAGE);
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/lzt_staging.XXXXXX");
    if (!mkdtemp(root)) return -1;
    snprintf(target, sizeof target, "%s/target", root);
    return 0;
}

static int remove_root(void **state)
{
    (void)state;
    return lzt__os_remove_tree(lzt__os_posix(), AT_FDCWD, root, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(publish_and_replace), cmocka_unit_test(every_call_fails),
                                       cmocka_unit_test(killed_at_every_call), cmocka_unit_test(a_living_one_stays)};
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
