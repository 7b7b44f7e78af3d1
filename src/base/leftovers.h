/* For tests: what a function that makes processes leaves behind. */
#ifndef LZT_BASE_LEFTOVERS_H
#define LZT_BASE_LEFTOVERS_H

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <cmocka.h>

static inline int lzt__open_files(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir)) count++;
    closedir(dir);
    return count;
}

/* No child, and the descriptors of before. */
static inline void lzt__expect_nobody(int files)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(lzt__open_files(), files);
}

#endif
