/* Goal: a profile keeps its measurements in order, finds the nearest size, survives the file, and refuses what is no
 * profile by file and key. Method: round trip, then one planted fault at a time. */
#include "lazytrain/profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void make(lzt_profile *p)
{
    const lzt_measurement list[] = {
        {LZT_MEASURE_TIME, "forward.full_attention.bf16", 73728, 0.11, 0.1, 0.12, 7},
        {LZT_MEASURE_RATE, "h2d", 1 << 20, 9e9, 8e9, 9.5e9, 5},
        {LZT_MEASURE_RATE, "d2h", 1 << 26, 12.5e9, 12e9, 13e9, 5},
        {LZT_MEASURE_RATE, "h2d", 1 << 26, 12e9, 11e9, 12.1e9, 5},
        {LZT_MEASURE_RATE, "h2d", 1 << 20, 8.5e9, 8e9, 9e9, 6}, /* replaces the first */
    };
    memset(p, 0, sizeof *p);
    snprintf(p->machine, sizeof p->machine, "EPYC \"x\"");
    snprintf(p->device, sizeof p->device, "cpu");
    snprintf(p->drive, sizeof p->drive, "uring, direct");
    p->device_bytes = UINT64_C(70) << 30;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) assert_int_equal(lzt_profile_add(p, &list[i], NULL), 0);
}

static void test_order_and_find(void **unused)
{
    (void)unused;
    lzt_profile p;
    make(&p);
    assert_int_equal(p.measurement_count, 4);
    assert_string_equal(p.measurement[0].name, "d2h");
    assert_int_equal(p.measurement[1].count, 6);
    assert_int_equal(lzt_profile_find(&p, LZT_MEASURE_RATE, "h2d", 4 << 20)->size, 1 << 20);
    assert_int_equal(lzt_profile_find(&p, LZT_MEASURE_RATE, "h2d", 32 << 20)->size, 1 << 26);
    assert_null(lzt_profile_find(&p, LZT_MEASURE_TIME, "h2d", 1));
    assert_null(lzt_profile_find(&p, LZT_MEASURE_RATE, "nvme_read", 1));
    const lzt_measurement bad[] = {{LZT_MEASURE_RATE, "", 1, 1, 1, 1, 1},
                                   {LZT_MEASURE_RATE, "x", 1, 1, 2, 3, 1},
                                   {LZT_MEASURE_RATE, "x", 1, -1, -2, 3, 1},
                                   {LZT_MEASURE_RATE, "x", 1, 1, 1, 1, 0}};
    for (size_t i = 0; i < 4; i++) assert_int_equal(lzt_profile_add(&p, &bad[i], NULL), LZT_ERR_USAGE);
    lzt_profile_fini(&p);
}

static void test_file(void **unused)
{
    (void)unused;
    lzt_profile p, back;
    lzt_error err = {0};
    char path[] = "/tmp/lzt_profile_XXXXXX", *text, *again;
    close(mkstemp(path));
    make(&p);
    assert_int_equal(lzt_profile_write(path, &p, &err), 0);
    if (lzt_profile_read(path, &back, &err)) fail_msg("%s: %s", err.where, err.message);
    assert_int_equal(lzt_profile_print(&p, &text, &err), 0);
    assert_int_equal(lzt_profile_print(&back, &again, &err), 0);
    assert_string_equal(text, again);
    assert_string_equal(back.machine, p.machine);
    assert_string_equal(back.drive, p.drive);
    free(text);
    free(again);
    lzt_profile_fini(&p);
    lzt_profile_fini(&back);
    unlink(path);
    assert_int_equal(lzt_profile_read(path, &back, &err), LZT_ERR_USAGE);
}

static void test_malformed(void **unused)
{
    (void)unused;
    static const struct {
        const char *from, *to, *where;
    } cases[] = {
        {"lazytrain-profile", "lazytrain-plan", "format is"},
        {"\"version\": 1", "\"version\": 1, \"more\": 2", "unknown key \"more\""},
        {"\"d2h\"", "\"z2h\"", "rates[1] is out of order"},
        {"\"block_bytes\": 67108864", "\"block_bytes\": -1", "rates[0].block_bytes is -1"},
        {"\"min\": 12000000000.0", "\"min\": 12600000000.0", "rates[0].min"},
        {"\"tokens\": 73728", "\"bytes\": 73728", "times[0]"},
        {"\"count\": 7", "\"count\": 0", "times[0].count is 0"},
    };
    lzt_profile p, back;
    char *text;
    make(&p);
    assert_int_equal(lzt_profile_print(&p, &text, NULL), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lzt_error err = {0};
        char *at = strstr(text, cases[i].from), *broken = NULL;
        if (!at) fail_msg("\"%s\" is not in the profile", cases[i].from);
        assert_true(asprintf(&broken, "%.*s%s%s", (int)(at - text), text, cases[i].to, at + strlen(cases[i].from)) > 0);
        assert_int_equal(lzt_profile_parse(broken, strlen(broken), "p.json", &back, &err), LZT_ERR_USAGE);
        if (!strstr(err.message, cases[i].where)) fail_msg("\"%s\" lacks \"%s\"", err.message, cases[i].where);
        assert_null(back.measurement);
        free(broken);
    }
    free(text);
    lzt_profile_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_find),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
