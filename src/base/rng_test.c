/* Goal: numbers depend on their three names alone, look uniform, and permute is a bijection whatever the count.
 * Method: fixed values (so that an order, once trained on, never changes), bit balance, bijection by marking every
 * image, and for count 5 the frequency of all 120 permutations over seeds. */
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

static void same_names_same_number(void **state)
{
    (void)state;
    assert_int_equal(lzt__rng_u64(1, 2, 3), lzt__rng_u64(1, 2, 3));
    assert_true(lzt__rng_u64(1, 2, 3) != lzt__rng_u64(1, 3, 2));
    assert_true(lzt__rng_u64(1, 2, 3) != lzt__rng_u64(2, 1, 3));
    assert_true(lzt__rng_u64(0, 0, 0) != lzt__rng_u64(0, 0, 1));
}

static void values_are_frozen(void **state)
{
    (void)state;
    assert_true(lzt__rng_u64(0, 0, 0) == UINT64_C(0xc4adcb372d915a98));
    assert_true(lzt__rng_u64(42, 7, 1000) == UINT64_C(0xd785b3c947ba3530));
    static const uint64_t expected[10] = {3, 2, 6, 0, 5, 1, 4, 9, 8, 7};
    for (uint64_t i = 0; i < 10; i++) assert_int_equal(lzt__rng_permute(42, 0, 10, i), expected[i]);
}

static void bits_are_balanced(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    for (int bit = 0; bit < 64; bit++) {
        int ones = 0, repeats = 0;
        for (uint64_t i = 0; i < COUNT; i++) {
            int now = lzt__rng_u64(5, 6, i) >> bit & 1, next = lzt__rng_u64(5, 6, i + 1) >> bit & 1;
            ones += now;
            repeats += now == next;
        }
        /* six standard deviations: sqrt(20000) / 2 = 70.7 */
        assert_true(abs(ones - COUNT / 2) < 425);
        assert_true(abs(repeats - COUNT / 2) < 425);
    }
}

static void bounds_hold(void **state)
{
    (void)state;
    int hits[7] = {0};
    for (uint64_t i = 0; i < 7000; i++) {
        hits[lzt__rng_below(1, 1, i, 7)]++;
        double u = lzt__rng_unit(1, 2, i);
        assert_true(u >= 0.0 && u < 1.0);
    }
    for (int i = 0; i < 7; i++) assert_in_range(hits[i], 800, 1200);
    assert_int_equal(lzt__rng_below(1, 1, 99, 1), 0);
}

static void permute_is_a_bijection(void **state)
{
    (void)state;
    static const uint64_t counts[] = {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 100, 255, 256, 257, 7473, 65537};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            uint8_t *seen = calloc(1, counts[c]);
            assert_non_null(seen);
            for (uint64_t i = 0; i < counts[c]; i++) {
                uint64_t place = lzt__rng_permute(9, epoch, counts[c], i);
                assert_true(place < counts[c]);
                assert_false(seen[place]++);
            }
            free(seen);
        }
}

static void permute_large_counts(void **state)
{
    (void)state;
    uint64_t count = UINT64_C(1) << 62;
    assert_true(lzt__rng_permute(1, 1, count, count - 1) < count);
    assert_true(lzt__rng_permute(1, 1, count, 0) != lzt__rng_permute(1, 2, count, 0));
    assert_true(lzt__rng_permute(1, 1, count, 0) != lzt__rng_permute(2, 1, count, 0));
}

static void all_permutations_are_likely(void **state)
{
    (void)state;
    enum { SEEDS = 120000, KINDS = 120, CODES = 1 << 15 };
    int *hits = calloc(CODES, sizeof *hits), kinds = 0;
    assert_non_null(hits);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        unsigned name = 0;
        for (uint64_t i = 0; i < 5; i++) name = name << 3 | (unsigned)lzt__rng_permute(seed, 0, 5, i);
        hits[name]++;
    }
    double chi2 = 0, mean = (double)SEEDS / KINDS;
    for (int i = 0; i < CODES; i++) {
        if (!hits[i]) continue;
        kinds++;
        chi2 += (hits[i] - mean) * (hits[i] - mean) / mean;
    }
    free(hits);
    assert_int_equal(kinds, KINDS);
    assert_true(chi2 < 220.0); /* 119 degrees of freedom: exceeded by chance once in 10^7 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_names_same_number),      cmocka_unit_test(values_are_frozen),
        cmocka_unit_test(bits_are_balanced),           cmocka_unit_test(bounds_hold),
        cmocka_unit_test(permute_is_a_bijection),      cmocka_unit_test(permute_large_counts),
        cmocka_unit_test(all_permutations_are_likely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
