/* Goal: the trace is strict JSON with one thread per lane and exact times. Method: two processes written, read back by
 * jansson. */
#include "lazytrain/report.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void two_processes(void **state)
{
    (void)state;
    static const char *const lanes[] = {"compute", "h2d"};
    const lzt_trace_event actual[] = {{0, "layer 0 \"f\"", 1000001, 2000000}, {1, "up", 1000000, 1000001}};
    const lzt_trace_event planned[] = {{0, "layer 0", 0, 5}};
    const lzt_trace_process processes[] = {{"actual", lanes, actual, 2, 2}, {"planned", lanes, planned, 1, 2}};
    char path[] = "/tmp/lzt-trace-XXXXXX";
    close(mkstemp(path));
    lzt_error err;
    assert_int_equal(lzt_trace_write(path, processes, 2, &err), LZT_OK);
    json_t *trace = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(trace);
    const json_t *events = json_object_get(trace, "traceEvents");
    assert_int_equal(json_array_size(events), 2 * (1 + 2 * 2) + 3);
    const json_t *first = json_array_get(events, 5);
    assert_string_equal(json_string_value(json_object_get(first, "name")), "layer 0 \"f\"");
    assert_true(json_number_value(json_object_get(first, "ts")) == 0.001);
    assert_true(json_number_value(json_object_get(first, "dur")) == 999.999);
    assert_int_equal(json_integer_value(json_object_get(first, "tid")), 1);
    const json_t *second = json_array_get(events, 6);
    assert_true(json_number_value(json_object_get(second, "ts")) == 0);
    assert_int_equal(json_integer_value(json_object_get(second, "tid")), 2);
    json_decref(trace);
    unlink(path);
    assert_int_equal(lzt_trace_write("/nonexistent/t.json", processes, 2, &err), LZT_ERR_STORAGE);
}

static void nothing_is_a_trace_too(void **state)
{
    (void)state;
    char path[] = "/tmp/lzt-trace-XXXXXX";
    close(mkstemp(path));
    assert_int_equal(lzt_trace_write(path, NULL, 0, NULL), LZT_OK);
    json_t *trace = json_load_file(path, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(trace, "traceEvents")), 0);
    json_decref(trace);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_processes), cmocka_unit_test(nothing_is_a_trace_too)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
