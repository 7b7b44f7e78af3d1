/* Goal: TensorBoard's records are byte for byte what the format says. Method: the published check value of CRC-32C, and
 * one record compared with bytes worked out by hand from event.proto. */
#include "report/event_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void check_value(void **state)
{
    (void)state;
    assert_int_equal(lzt__crc32c("123456789", 9), 0xe3069283u);
    assert_int_equal(lzt__crc32c("", 0), 0);
}

static void one_scalar_byte_for_byte(void **state)
{
    (void)state;
    static const uint8_t payload[] = {
        0x09, 0,    0,    0,    0,   0,    0, 0xf0, 0x3f,       /* 1: double 1.0 */
        0x10, 0xac, 0x02,                                       /* 2: 300 */
        0x2a, 0x0c, 0x0a, 0x0a,                                 /* 5: summary of 12 bytes, 1: value of 10 bytes */
        0x0a, 3,    't',  '/',  'l', 0x15, 0, 0,    0x20, 0x40, /* 1: "t/l", 2: float 2.5 */
    };
    uint8_t out[128];
    lzt_event_scalar scalar = {"t/l", 2.5};
    size_t bytes = lzt__event_scalars(1.0, 300, &scalar, 1, out, sizeof out);
    assert_int_equal(bytes, 8 + 4 + sizeof payload + 4);
    assert_int_equal(out[0], sizeof payload);
    assert_memory_equal(out + 12, payload, sizeof payload);
}

static void a_small_buffer_is_refused(void **state)
{
    (void)state;
    uint8_t out[128];
    lzt_event_scalar scalar = {"t/l", 2.5};
    size_t bytes = lzt__event_scalars(1.0, 300, &scalar, 1, out, sizeof out);
    for (size_t size = 0; size < bytes; size++)
        assert_int_equal(lzt__event_scalars(1.0, 300, &scalar, 1, out, size), 0);
    assert_int_equal(lzt__event_scalars(1.0, 300, &scalar, 1, out, bytes), bytes);
    assert_true(lzt__event_version(1.0, out, sizeof out) > 0);
    assert_true(lzt__event_restart(1.0, 5, out, sizeof out) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(check_value), cmocka_unit_test(one_scalar_byte_for_byte),
                                       cmocka_unit_test(a_small_buffer_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
