/* Learning-rate schedules equal transformers' own.
 *
 * The table holds 2e-4 times what the lambdas of transformers 5.24 (optimization.py) return for a warm-up of 5 steps in
 * 100, called directly in Python, with 17 digits. Edges without a counterpart there are checked by hand.
 */
#include "lazytrain/optim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

enum { STEPS = 13 };
static const uint64_t steps[STEPS] = {0, 1, 4, 5, 6, 7, 23, 50, 77, 99, 100, 101, 130};

static const struct {
    lzt_schedule schedule;
    double rate[STEPS];
} table[] = {
    {{.type = LZT_SCHEDULE_CONSTANT}, {2e-4, 2e-4, 2e-4, 2e-4, 2e-4, 2e-4, 2e-4, 2e-4, 2e-4, 2e-4, 2e-4, 2e-4, 2e-4}},
    {{.type = LZT_SCHEDULE_CONSTANT_WITH_WARMUP},
     {0, 4.0000000000000003e-05, 0.00016000000000000001, 0.00020000000000000001, 0.00020000000000000001,
      0.00020000000000000001, 0.00020000000000000001, 0.00020000000000000001, 0.00020000000000000001,
      0.00020000000000000001, 0.00020000000000000001, 0.00020000000000000001, 0.00020000000000000001}},
    {{.type = LZT_SCHEDULE_LINEAR},
     {0, 4.0000000000000003e-05, 0.00016000000000000001, 0.00020000000000000001, 0.00019789473684210526,
      0.00019578947368421054, 0.00016210526315789473, 0.00010526315789473685, 4.8421052631578948e-05,
      2.1052631578947371e-06, 0, 0, 0}},
    {{.type = LZT_SCHEDULE_COSINE},
     {0, 4.0000000000000003e-05, 0.00016000000000000001, 0.00020000000000000001, 0.00019994532573409262,
      0.00019978136272187747, 0.00018280088311480201, 0.00010825793454723325, 2.7557479520891104e-05,
      5.4674265907395108e-08, 0, 5.4674265907395108e-08, 4.5305184187757312e-05}},
    {{.type = LZT_SCHEDULE_COSINE, .num_cycles = 1.5},
     {0, 4.0000000000000003e-05, 0.00016000000000000001, 0.00020000000000000001, 0.00019950829025450114,
      0.00019803799658748094, 7.8670036925625308e-05, 7.5451451285920098e-05, 0.00016525857615241684,
      4.9170974549886945e-07, 0, 4.9170974549885844e-07, 0.00019863613034027227}},
    {{.type = LZT_SCHEDULE_COSINE_WITH_RESTARTS, .num_cycles = 3},
     {0, 4.0000000000000003e-05, 0.00016000000000000001, 0.00020000000000000001, 0.00019950829025450114,
      0.00019803799658748094, 7.8670036925625335e-05, 0.00012454854871407994, 0.0001652585761524169,
      4.9170974549885844e-07, 0, 0, 0}},
    {{.type = LZT_SCHEDULE_COSINE_WITH_MIN_LR, .min_lr = 5e-5},
     {0, 4.0000000000000003e-05, 0.00016000000000000001, 0.00020000000000000001, 0.00019995899430056945,
      0.00019983602204140809, 0.00018710066233610151, 0.00013119345091042495, 7.0668109640668338e-05,
      5.0041005699430556e-05, 5.0000000000000002e-05, 5.0041005699430556e-05, 8.3978888140817984e-05}},
    {{.type = LZT_SCHEDULE_COSINE_WITH_MIN_LR, .min_lr_ratio = 0.1},
     {0, 4.0000000000000003e-05, 0.00016000000000000001, 0.00020000000000000001, 0.00019995079316068335,
      0.00019980322644968973, 0.00018452079480332182, 0.00011743214109250993, 4.4801731568801997e-05,
      2.0049206839316658e-05, 2.0000000000000002e-05, 2.0049206839316658e-05, 6.0774665768981589e-05}},
    {{.type = LZT_SCHEDULE_INVERSE_SQRT},
     {0, 4.0000000000000003e-05, 0.00016000000000000001, 0.00020000000000000001, 0.0001825741858350554,
      0.00016903085094570333, 9.3250480824031378e-05, 6.3245553203367591e-05, 5.0964719143762554e-05,
      4.4946657497549474e-05, 4.4721359549995795e-05, 4.4499415948998479e-05, 3.9223227027636809e-05}},
    {{.type = LZT_SCHEDULE_INVERSE_SQRT, .timescale = 50},
     {0, 4.0000000000000003e-05, 0.00016000000000000001, 0.00020000000000000001, 0.00019802950859533486,
      0.00019611613513818404, 0.00017149858514250882, 0.00014509525002200235, 0.00012803687993289599,
      0.00011785113019775794, 0.0001174440439029407, 0.00011704114719613058, 0.00010690449676496977}},
    {{.type = LZT_SCHEDULE_POLYNOMIAL, .lr_end = 1e-7, .power = 2},
     {0, 4.0000000000000003e-05, 0.00016000000000000001, 0.00020000000000000001, 0.00019581372853185597,
      0.00019167175623268699, 0.00013142488642659279, 5.5473961218836577e-05, 1.1817130193905816e-05,
      1.2214958448753477e-07, 9.9999999999999982e-08, 9.9999999999999982e-08, 9.9999999999999982e-08}},
    {{.type = LZT_SCHEDULE_WARMUP_STABLE_DECAY, .decay_steps = 40},
     {0, 4.0000000000000003e-05, 0.00016000000000000001, 0.00020000000000000001, 0.00020000000000000001,
      0.00020000000000000001, 0.00020000000000000001, 0.00020000000000000001, 0.00012334453638559057,
      3.0826662668720364e-07, 0, 0, 0}},
    {{.type = LZT_SCHEDULE_WARMUP_STABLE_DECAY, .stable_steps = 30, .decay_steps = 50, .min_lr_ratio = 0.25},
     {5.0000000000000002e-05, 8.0000000000000007e-05, 0.00017000000000000004, 0.00020000000000000001,
      0.00020000000000000001, 0.00020000000000000001, 0.00020000000000000001, 0.00016908389392193549,
      5.9276998996710252e-05, 5.0000000000000002e-05, 5.0000000000000002e-05, 5.0000000000000002e-05,
      5.0000000000000002e-05}},
};

static void close_to(double got, double want)
{
    if (!(fabs(got - want) <= 1e-14 * fabs(want) + 1e-19)) fail_msg("got %.17g, want %.17g", got, want);
}

static void rates_equal_transformers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        lzt_schedule s = table[i].schedule;
        s.base_lr = 2e-4;
        s.total_steps = 100;
        s.warmup_steps = 5;
        for (int k = 0; k < STEPS; k++) close_to(lzt_schedule_lr(&s, steps[k]), table[i].rate[k]);
    }
}

static void edges_are_finite(void **state)
{
    (void)state;
    for (int type = 0; type < LZT_SCHEDULE_COUNT; type++)
        for (int shape = 0; shape < 4; shape++) { /* nothing at all, all warm-up, warm-up beyond the end, one step */
            lzt_schedule s = {.type = (lzt_schedule_type)type, .base_lr = 1e-3};
            s.total_steps = shape == 0 ? 0 : shape == 3 ? 1 : 10;
            s.warmup_steps = shape == 1 ? 10 : shape == 2 ? 20 : 0;
            for (uint64_t step = 0; step < 30; step++) {
                double rate = lzt_schedule_lr(&s, step);
                assert_true(isfinite(rate) || (type == LZT_SCHEDULE_POLYNOMIAL && step > s.total_steps));
                assert_true(rate >= 0 && rate <= 1e-3);
            }
        }
    lzt_schedule s = {.type = LZT_SCHEDULE_INVERSE_SQRT, .base_lr = 1};
    close_to(lzt_schedule_lr(&s, 30000), 0.5); /* the time scale without warm-up is 10,000 */
    s = (lzt_schedule){.type = LZT_SCHEDULE_WARMUP_STABLE_DECAY, .base_lr = 1, .total_steps = 100, .stable_steps = 60};
    close_to(lzt_schedule_lr(&s, 59), 1);
    close_to(lzt_schedule_lr(&s, 80), 0.5); /* the decay takes the other 40 */
}

static void names_come_back(void **state)
{
    (void)state;
    lzt_schedule_type type;
    for (int i = 0; i < LZT_SCHEDULE_COUNT; i++) {
        assert_true(lzt_schedule_from_name(lzt_schedule_name((lzt_schedule_type)i), &type));
        assert_int_equal(type, i);
    }
    assert_false(lzt_schedule_from_name("cosines", &type));
    assert_false(lzt_schedule_from_name("", &type));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_equal_transformers),
        cmocka_unit_test(edges_are_finite),
        cmocka_unit_test(names_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
