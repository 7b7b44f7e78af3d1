/* Goal: the vector functions are as exact as they claim, special values included.
 *
 * Method: exp against libm's in double over a fine sweep of its whole range, in units of the last place; rounding to
 * BF16 against lzt_bf16_from_f32 over all upper halves. This file is built for x86-64-v2; the wider builds are the same
 * source, and are reached through the operators' tests.
 */
#include "kern/cpu/vmath.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static float exp1(float x)
{
    float lane[VW];
    vstore(lane, vexp(vset1(x)));
    return lane[VW - 1];
}

static void test_exp(void **state)
{
    (void)state;
    double worst = 0;
    for (int i = 0; i <= 4000000; i++) {
        float x = -87.33f + (float)i * (88.72f + 87.33f) / 4000000.0f;
        double want = exp((double)x), got = (double)exp1(x);
        double ulp = ldexp(1, ilogb(want) - 23);
        double error = fabs(got - want) / ulp;
        worst = error > worst ? error : worst;
    }
    print_message("exp: worst error %.2f ulp\n", worst);
    assert_true(worst < 1.5);
}

static void test_exp_special(void **state)
{
    (void)state;
    assert_true(exp1(0) == 1);
    assert_true(exp1(-0.0f) == 1);
    assert_true(exp1(-INFINITY) == 0);
    assert_true(exp1(-1000) == 0);
    assert_true(isinf(exp1(INFINITY)));
    assert_true(isinf(exp1(89)));
    assert_true(isfinite(exp1(88.7f)));
    assert_true(isnan(exp1(NAN)));
}

static void test_bf16(void **state)
{
    (void)state;
    static const uint32_t low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    for (uint32_t high = 0; high < 65536; high++) {
        for (size_t i = 0; i < sizeof low / sizeof *low; i++) {
            uint32_t bits = high << 16 | low[i];
            float value;
            uint16_t got[VW];
            memcpy(&value, &bits, 4);
            float lane[VW];
            for (int j = 0; j < VW; j++) lane[j] = value;
            vstore_bf16(got, vload(lane));
            assert_int_equal(got[0], lzt_bf16_from_f32(value));
        }
    }
}

static void test_parts(void **state)
{
    (void)state;
    float in[VW], out[VW + 1];
    uint16_t half[VW], half_out[VW + 1];
    for (int i = 0; i < VW; i++) in[i] = (float)(i + 1), half[i] = lzt_bf16_from_f32(in[i]);
    for (size_t count = 0; count <= VW; count++) {
        for (int i = 0; i <= VW; i++) out[i] = -1, half_out[i] = 7;
        vstore_part(out, vload_part(in, count), count);
        vstore_bf16_part(half_out, vload_bf16_part(half, count), count);
        for (size_t i = 0; i <= VW; i++) {
            assert_true(out[i] == (i < count ? in[i] : -1));
            assert_int_equal(half_out[i], i < count ? half[i] : 7);
        }
        assert_true(vsum(vload_part(in, count)) == (float)(count * (count + 1) / 2));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp),
        cmocka_unit_test(test_exp_special),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
