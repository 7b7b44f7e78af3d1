/* Goal: no size wraps around silently. Method: the borders of uint64_t on both sides, for each operation. */
#include "base/checked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void add_at_the_border(void **state)
{
    (void)state;
    uint64_t out = 7;
    assert_true(lzt__checked_add(UINT64_MAX - 5, 5, &out));
    assert_int_equal(out, UINT64_MAX);
    out = 7;
    assert_false(lzt__checked_add(UINT64_MAX - 5, 6, &out));
    assert_int_equal(out, 7);
}

static void mul_at_the_border(void **state)
{
    (void)state;
    uint64_t out = 7;
    assert_true(lzt__checked_mul(UINT64_C(1) << 32, (UINT64_C(1) << 32) - 1, &out));
    assert_int_equal(out, UINT64_C(0xffffffff00000000));
    out = 7;
    assert_false(lzt__checked_mul(UINT64_C(1) << 32, UINT64_C(1) << 32, &out));
    assert_int_equal(out, 7);
    assert_true(lzt__checked_mul(UINT64_MAX, 0, &out));
    assert_int_equal(out, 0);
}

static void align_rounds_up(void **state)
{
    (void)state;
    uint64_t out = 7;
    assert_true(lzt__checked_align(0, 4096, &out) && out == 0);
    assert_true(lzt__checked_align(1, 4096, &out) && out == 4096);
    assert_true(lzt__checked_align(4096, 4096, &out) && out == 4096);
    assert_true(lzt__checked_align(10, 3, &out) && out == 12);
    assert_false(lzt__checked_align(UINT64_MAX - 1, 4096, &out));
    assert_int_equal(out, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(add_at_the_border),
        cmocka_unit_test(mul_at_the_border),
        cmocka_unit_test(align_rounds_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
