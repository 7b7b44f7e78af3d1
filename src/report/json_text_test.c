/* Goal: what is written is strict JSON, or marked as overflowed. Method: hostile strings and numbers, read by jansson;
 * every buffer size from nothing to enough. */
#include "report/json_text.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void write_document(lzt_json_text *json)
{
    lzt__jsontext_begin(json, NULL, '{');
    lzt__jsontext_string(json, "a\"b\n", "q\\ \x01 \xff \xed\xa0\x80 \xf0\x9f\x98\x80 \xc3\xa9 \xf8");
    lzt__jsontext_real(json, "nan", NAN);
    lzt__jsontext_real(json, "inf", -INFINITY);
    lzt__jsontext_real(json, "third", 1.0 / 3);
    lzt__jsontext_uint(json, "max", INT64_MAX);
    lzt__jsontext_begin(json, "list", '[');
    lzt__jsontext_bool(json, NULL, true);
    lzt__jsontext_begin(json, NULL, '{');
    lzt__jsontext_end(json, '}');
    lzt__jsontext_end(json, ']');
    lzt__jsontext_end(json, '}');
}

static void strict_json(void **state)
{
    (void)state;
    char buffer[512];
    lzt_json_text json = {.text = buffer, .size = sizeof buffer};
    write_document(&json);
    assert_false(json.overflow);
    json_t *object = json_loads(buffer, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(object);
    assert_string_equal(
        json_string_value(json_object_get(object, "a\"b\n")),
        "q\\ \x01 \xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd \xf0\x9f\x98\x80 \xc3\xa9 \xef\xbf\xbd");
    assert_true(json_is_null(json_object_get(object, "nan")) && json_is_null(json_object_get(object, "inf")));
    assert_true(json_real_value(json_object_get(object, "third")) == 1.0 / 3);
    assert_true(json_integer_value(json_object_get(object, "max")) == INT64_MAX);
    assert_int_equal(json_array_size(json_object_get(object, "list")), 2);
    json_decref(object);
}

static void small_buffers_overflow(void **state)
{
    (void)state;
    char buffer[512];
    lzt_json_text whole = {.text = buffer, .size = sizeof buffer};
    write_document(&whole);
    for (size_t size = 1; size <= whole.used; size++) {
        lzt_json_text json = {.text = buffer, .size = size};
        write_document(&json);
        assert_true(json.overflow);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(strict_json), cmocka_unit_test(small_buffers_overflow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
