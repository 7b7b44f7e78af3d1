/* Goal: what is asked for arrives once, what is not costs nothing, long lines are cut and say so. */
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

typedef struct kept {
    int count;
    lzt_log_level level;
    char line[2048];
} kept;

static void keep(void *arg, lzt_log_level level, const char *line)
{
    kept *k = arg;
    k->count++;
    k->level = level;
    snprintf(k->line, sizeof k->line, "%s", line);
}

static void levels_filter(void **state)
{
    (void)state;
    kept k = {0};
    lzt_log log = {LZT_LOG_WARN, keep, &k};
    lzt__log(&log, LZT_LOG_INFO, "no");
    assert_int_equal(k.count, 0);
    lzt__log(&log, LZT_LOG_WARN, "dropped %d rows", 3);
    assert_int_equal(k.count, 1);
    assert_int_equal(k.level, LZT_LOG_WARN);
    assert_string_equal(k.line, "dropped 3 rows");
    assert_string_equal(lzt__log_level_name(LZT_LOG_WARN), "warning");
}

static void no_sink_is_allowed(void **state)
{
    (void)state;
    lzt_log empty = {LZT_LOG_DEBUG, NULL, NULL};
    lzt__log(NULL, LZT_LOG_ERROR, "x");
    lzt__log(&empty, LZT_LOG_ERROR, "x");
    assert_false(lzt__log_wants(NULL, LZT_LOG_ERROR));
}

static void long_lines_are_cut(void **state)
{
    (void)state;
    kept k = {0};
    lzt_log log = {LZT_LOG_INFO, keep, &k};
    char text[1500];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    lzt__log(&log, LZT_LOG_INFO, "%s", text);
    assert_int_equal(strlen(k.line), 1023);
    assert_string_equal(k.line + 1020, "...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_filter),
        cmocka_unit_test(no_sink_is_allowed),
        cmocka_unit_test(long_lines_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
