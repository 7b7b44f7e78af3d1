/* Goal: printed reals are short and read back exactly. Method: chosen values, then random bit patterns. */
#include "base/real_text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void short_texts(void **state)
{
    (void)state;
    char text[LZT_REAL_TEXT];
    assert_string_equal(lzt__real_text(0.1, text), "0.1");
    assert_string_equal(lzt__real_text(3, text), "3");
    assert_string_equal(lzt__real_text(2e-5, text), "2e-05");
    assert_string_equal(lzt__real_text(-1.0 / 3, text), "-0.3333333333333333");
    assert_string_equal(lzt__real_text(0, text), "0");
}

static void random_bits_read_back(void **state)
{
    (void)state;
    uint64_t bits = 1;
    for (int i = 0; i < 20000; i++) {
        double value;
        char text[LZT_REAL_TEXT];
        bits = bits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        assert_true(strtod(lzt__real_text(value, text), NULL) == value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(short_texts), cmocka_unit_test(random_bits_read_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
