/* Goal: files are whole or absent, whatever the system does. Method: each helper on a fresh directory, then with every
 * one of its calls failing in turn, with short counts, with interrupted calls, with a full disk, and killed at every
 * call; afterwards the old or the new contents stand there and nothing else. */
#include "base/os.h"
#include "base/os_faulty.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char root[64];

static const char *at(const char *name)
{
    static char path[4][512];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", root, name);
    return p;
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/lzt_os_test.XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    return lzt__os_remove_tree(lzt__os_posix(), AT_FDCWD, root, NULL);
}

static int count_entry(void *arg, const char *name)
{
    (void)name;
    ++*(int *)arg;
    return 0;
}

static int entries(const char *directory)
{
    const lzt_os *os = lzt__os_posix();
    int fd, count = 0;
    assert_int_equal(lzt__os_open(os, AT_FDCWD, directory, O_RDONLY | O_DIRECTORY, 0, &fd, NULL), LZT_OK);
    assert_int_equal(os->list(os, fd, count_entry, &count), 0);
    os->close(os, fd);
    return count;
}

static void expect_file(const char *path, const char *contents)
{
    char *data;
    uint64_t bytes;
    lzt_error err = {0};
    if (lzt__os_read_file(lzt__os_posix(), path, 1 << 20, &data, &bytes, &err)) fail_msg("%s: %s", path, err.message);
    assert_int_equal(bytes, strlen(contents));
    assert_string_equal(data, contents);
    free(data);
}

static void put(const lzt_os *os, const char *path, const char *contents)
{
    assert_int_equal(lzt__os_write_file_atomic(os, path, contents, strlen(contents), NULL), LZT_OK);
}

static void atomic_write_and_read_back(void **state)
{
    (void)state;
    put(lzt__os_posix(), at("f"), "one");
    expect_file(at("f"), "one");
    put(lzt__os_posix(), at("f"), "");
    expect_file(at("f"), "");
    assert_int_equal(entries(root), 1);
}

static void atomic_write_fails_anywhere(void **state)
{
    (void)state;
    lzt_os_faulty faulty;
    lzt__os_faulty_init(&faulty, lzt__os_posix());
    put(&faulty.os, at("f"), "old");
    uint64_t calls = faulty.calls;
    assert_in_range(calls, 5, 20);
    for (uint64_t n = 1; n <= calls; n++) {
        put(lzt__os_posix(), at("f"), "old");
        lzt__os_faulty_init(&faulty, lzt__os_posix());
        faulty.fail_at = n;
        faulty.fail_errno = EIO;
        lzt_error err = {0};
        assert_int_equal(lzt__os_write_file_atomic(&faulty.os, at("f"), "new", 3, &err), LZT_ERR_STORAGE);
        assert_int_equal(err.os_code, EIO);
        assert_int_equal(faulty.open_fds, 0);
        assert_int_equal(entries(root), 1);
        /* once renamed, the new name stands, even if the directory could not be synced */
        expect_file(at("f"), faulty.calls_of[LZT_OS_RENAMEAT] && n > 4 ? "new" : "old");
    }
}

/* A rename would take a device or a pipe away: the place stays what it is. */
static void only_files_are_replaced(void **state)
{
    (void)state;
    lzt_error err = {0};
    struct stat st;
    assert_int_equal(mkfifo(at("pipe"), 0600), 0);
    assert_int_equal(lzt__os_write_file_atomic(lzt__os_posix(), at("pipe"), "new", 3, &err), LZT_ERR_STORAGE);
    assert_non_null(strstr(err.message, "not a regular file"));
    assert_int_equal(stat(at("pipe"), &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    assert_int_equal(symlink("pipe", at("link")), 0);
    assert_int_equal(lzt__os_write_file_atomic(lzt__os_posix(), at("link"), "new", 3, &err), LZT_ERR_STORAGE);
    assert_int_equal(lstat(at("link"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(lzt__os_write_file_atomic(lzt__os_posix(), root, "new", 3, &err), LZT_ERR_STORAGE);
    assert_non_null(strstr(err.message, "a directory"));
    assert_int_equal(lzt__os_write_file_atomic(lzt__os_posix(), at("fresh"), "new", 3, &err), LZT_OK);
}

static void atomic_write_killed_anywhere(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 7; n++) {
        put(lzt__os_posix(), at("f"), "old");
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            lzt_os_faulty faulty;
            lzt__os_faulty_init(&faulty, lzt__os_posix());
            faulty.kill_at = n;
            _exit(lzt__os_write_file_atomic(&faulty.os, at("f"), "new", 3, NULL) ? 1 : 0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
        char *data;
        uint64_t bytes;
        assert_int_equal(lzt__os_read_file(lzt__os_posix(), at("f"), 100, &data, &bytes, NULL), LZT_OK);
        assert_true(bytes == 3 && (!strcmp(data, "old") || !strcmp(data, "new")));
        free(data);
    }
}

static void short_and_interrupted_calls(void **state)
{
    (void)state;
    lzt_os_faulty faulty;
    lzt__os_faulty_init(&faulty, lzt__os_posix());
    faulty.short_bytes_max = 3;
    faulty.only = LZT_OS_BIT(PWRITE) | LZT_OS_BIT(PREAD) | LZT_OS_BIT(FSYNC) | LZT_OS_BIT(OPENAT);
    faulty.fail_errno = EINTR;
    for (faulty.fail_at = 1; faulty.fail_at <= 8; faulty.fail_at++) {
        faulty.calls = 0;
        put(&faulty.os, at("f"), "twenty bytes of text");
        char *data;
        uint64_t bytes;
        assert_int_equal(lzt__os_read_file(&faulty.os, at("f"), 100, &data, &bytes, NULL), LZT_OK);
        assert_string_equal(data, "twenty bytes of text");
        free(data);
    }
}

static void full_disk_is_an_error(void **state)
{
    (void)state;
    lzt_os_faulty faulty;
    lzt__os_faulty_init(&faulty, lzt__os_posix());
    faulty.space_bytes = 10;
    lzt_error err = {0};
    assert_int_equal(lzt__os_write_file_atomic(&faulty.os, at("big"), "twenty bytes of text", 20, &err),
                     LZT_ERR_STORAGE);
    assert_int_equal(err.os_code, ENOSPC);
    assert_non_null(strstr(err.message, "10 of 20 bytes"));
    assert_int_equal(access(at("big"), F_OK), -1);
}

static void reading_refuses(void **state)
{
    (void)state;
    const lzt_os *os = lzt__os_posix();
    put(os, at("f"), "0123456789");
    char *data = NULL, buffer[16];
    uint64_t bytes;
    lzt_error err = {0};
    assert_int_equal(lzt__os_read_file(os, at("f"), 9, &data, &bytes, &err), LZT_ERR_STORAGE);
    assert_non_null(strstr(err.message, "10 bytes"));
    assert_int_equal(lzt__os_read_file(os, root, 9, &data, &bytes, &err), LZT_ERR_STORAGE);
    assert_int_equal(lzt__os_read_file(os, at("none"), 9, &data, &bytes, &err), LZT_ERR_STORAGE);
    assert_int_equal(err.os_code, ENOENT);
    assert_string_equal(err.where, at("none"));
    assert_null(data);
    int fd;
    assert_int_equal(lzt__os_open(os, AT_FDCWD, at("f"), O_RDONLY, 0, &fd, NULL), LZT_OK);
    assert_int_equal(lzt__os_read_all(os, fd, at("f"), buffer, 4, 6, NULL), LZT_OK);
    assert_memory_equal(buffer, "6789", 4);
    assert_int_equal(lzt__os_read_all(os, fd, at("f"), buffer, 5, 6, &err), LZT_ERR_STORAGE);
    assert_non_null(strstr(err.message, "ends at byte 10"));
    os->close(os, fd);
}

static void make_dirs_makes_parents(void **state)
{
    (void)state;
    const lzt_os *os = lzt__os_posix();
    assert_int_equal(lzt__os_make_dirs(os, at("a/b/c/"), NULL), LZT_OK);
    assert_int_equal(lzt__os_make_dirs(os, at("a/b/c"), NULL), LZT_OK);
    put(os, at("a/file"), "x");
    lzt_error err = {0};
    assert_int_equal(lzt__os_make_dirs(os, at("a/file"), &err), LZT_ERR_STORAGE);
    assert_int_equal(lzt__os_make_dirs(os, at("a/file/d"), &err), LZT_ERR_STORAGE);
    assert_int_equal(lzt__os_make_dirs(os, "", &err), LZT_ERR_STORAGE);
}

static void remove_tree_stays_inside(void **state)
{
    (void)state;
    const lzt_os *os = lzt__os_posix();
    assert_int_equal(lzt__os_make_dirs(os, at("tree/x/y"), NULL), LZT_OK);
    assert_int_equal(lzt__os_make_dirs(os, at("outside"), NULL), LZT_OK);
    put(os, at("outside/precious"), "x");
    put(os, at("tree/x/y/f"), "x");
    assert_int_equal(symlink(at("outside"), at("tree/x/link")), 0);
    assert_int_equal(symlink("/nowhere", at("tree/dangling")), 0);
    assert_int_equal(lzt__os_remove_tree(os, AT_FDCWD, at("tree"), NULL), LZT_OK);
    assert_int_equal(access(at("tree"), F_OK), -1);
    expect_file(at("outside/precious"), "x");
    assert_int_equal(symlink(at("outside"), at("link")), 0);
    assert_int_equal(lzt__os_remove_tree(os, AT_FDCWD, at("link"), NULL), LZT_OK); /* the link itself */
    expect_file(at("outside/precious"), "x");
    assert_int_equal(lzt__os_remove_tree(os, AT_FDCWD, at("none"), NULL), LZT_OK);
}

static void remove_tree_reports_and_goes_on(void **state)
{
    (void)state;
    lzt_os_faulty faulty;
    for (uint64_t n = 1; n < 20; n++) {
        const lzt_os *os = lzt__os_posix();
        assert_int_equal(lzt__os_make_dirs(os, at("tree/x"), NULL), LZT_OK);
        put(os, at("tree/x/f"), "x");
        put(os, at("tree/g"), "x");
        lzt__os_faulty_init(&faulty, os);
        faulty.fail_at = n;
        faulty.fail_errno = EACCES;
        lzt_error err = {0};
        lzt_status status = lzt__os_remove_tree(&faulty.os, AT_FDCWD, at("tree"), &err);
        assert_int_equal(faulty.open_fds, 0);
        if (faulty.calls < n) {
            assert_int_equal(status, LZT_OK);
            return;
        }
        assert_int_equal(status, LZT_ERR_STORAGE);
        assert_int_equal(err.os_code, EACCES);
    }
    fail_msg("the tree never went");
}

static void rename_noreplace_keeps_the_old(void **state)
{
    (void)state;
    const lzt_os *os = lzt__os_posix();
    put(os, at("p"), "p");
    put(os, at("q"), "q");
    assert_int_equal(os->renameat(os, AT_FDCWD, at("p"), AT_FDCWD, at("q"), RENAME_NOREPLACE), -EEXIST);
    expect_file(at("q"), "q");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_root, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(only_files_are_replaced),
        TEST(atomic_write_and_read_back),
        TEST(atomic_write_fails_anywhere),
        TEST(atomic_write_killed_anywhere),
        TEST(short_and_interrupted_calls),
        TEST(full_disk_is_an_error),
        TEST(reading_refuses),
        TEST(make_dirs_makes_parents),
        TEST(remove_tree_stays_inside),
        TEST(remove_tree_reports_and_goes_on),
        TEST(rename_noreplace_keeps_the_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
