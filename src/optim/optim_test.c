/* The optimizer against float64 and against itself.
 *
 * Method: AdamW is compared with the textbook formula in double over 20 steps; every other loop with its definition.
 * Each result must be the same bit for bit for 1 to 4 threads, for any cut of an array into runs, and for unaligned
 * buffers; the instruction sets of this CPU agree within rounding (sums: exactly).
 */
#include "lazytrain/optim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 1;

static uint32_t random_bits(void)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 32);
}

/* roughly normal */
static float random_value(float scale)
{
    float sum = 0;
    for (int i = 0; i < 4; i++) sum += (float)(int32_t)random_bits() / 2147483648.0f;
    return sum * scale;
}

static lzt_optim *make(uint32_t threads, const char *isa)
{
    lzt_optim_options options = LZT_OPTIM_OPTIONS_INIT;
    lzt_optim *optim;
    lzt_error err;
    options.threads = threads;
    options.isa = isa;
    lzt_status status = lzt_optim_create(&options, &optim, &err);
    if (status && isa) return NULL; /* this CPU lacks it */
    assert_int_equal(status, LZT_OK);
    return optim;
}

/* The state of n elements, in both master forms. */
typedef struct tensors {
    uint64_t n;
    float *w, *m, *v, *grad;
    uint16_t *hi, *grad16, *copy;
    int16_t *lo;
} tensors;

static void *pick(void *pool, uint64_t *used, uint64_t bytes)
{
    void *at = (char *)pool + *used;
    *used += bytes;
    return at;
}

/* skew: elements by which every buffer is off a 64-byte line */
static tensors alloc(uint64_t n, uint64_t skew, void **pool)
{
    uint64_t used = 0, bytes = (n + skew + 64) * 4;
    *pool = calloc(8, bytes);
    assert_non_null(*pool);
    tensors t = {.n = n};
    t.w = (float *)pick(*pool, &used, bytes) + skew;
    t.m = (float *)pick(*pool, &used, bytes) + skew;
    t.v = (float *)pick(*pool, &used, bytes) + skew;
    t.grad = (float *)pick(*pool, &used, bytes) + skew;
    t.hi = (uint16_t *)pick(*pool, &used, bytes) + skew;
    t.grad16 = (uint16_t *)pick(*pool, &used, bytes) + skew;
    t.copy = (uint16_t *)pick(*pool, &used, bytes) + skew;
    t.lo = (int16_t *)pick(*pool, &used, bytes) + skew;
    return t;
}

static void fill(tensors *t)
{
    for (uint64_t i = 0; i < t->n; i++) {
        t->w[i] = random_value(0.05f);
        t->m[i] = random_value(1e-4f);
        t->v[i] = fabsf(random_value(1e-7f));
        t->grad[i] = i % 50 == 0 ? 0 : random_value(1e-3f);
        t->grad16[i] = lzt_bf16_from_f32(t->grad[i]);
        uint32_t bits;
        memcpy(&bits, &t->w[i], 4);
        t->hi[i] = lzt_bf16_hi(bits);
        t->lo[i] = (int16_t)(bits - ((uint32_t)t->hi[i] << 16));
    }
}

static lzt_optim_run run_of(const tensors *t, uint64_t begin, uint64_t end, lzt_master master, lzt_dtype grad)
{
    lzt_optim_run run = {.master = master,
                         .grad_dtype = grad,
                         .count = end - begin,
                         .m = t->m + begin,
                         .v = t->v + begin,
                         .weight_decay = 0.1};
    run.weight = master == LZT_MASTER_SPLIT ? (void *)(t->hi + begin) : (void *)(t->w + begin);
    run.low = master == LZT_MASTER_SPLIT ? t->lo + begin : NULL;
    run.bf16_copy = master == LZT_MASTER_F32 ? t->copy + begin : NULL;
    run.grad = grad == LZT_DTYPE_F32 ? (void *)(t->grad + begin) : (void *)(t->grad16 + begin);
    return run;
}

/* ---- AdamW against the textbook in double */

static void adamw_follows_the_formula(void **state)
{
    (void)state;
    enum { N = 300, STEPS = 20 };
    const double lr = 1e-3, b1 = 0.9, b2 = 0.999, eps = 1e-8, decay = 0.1, clip = 0.37;
    for (int form = 0; form < 4; form++) {
        lzt_master master = form & 1 ? LZT_MASTER_F32 : LZT_MASTER_SPLIT;
        lzt_dtype grad = form & 2 ? LZT_DTYPE_F32 : LZT_DTYPE_BF16;
        void *pool;
        tensors t = alloc(N, 0, &pool);
        double w[N], m[N] = {0}, v[N] = {0};
        fill(&t);
        memset(t.m, 0, sizeof(float) * N);
        memset(t.v, 0, sizeof(float) * N);
        for (int i = 0; i < N; i++) w[i] = t.w[i];
        lzt_optim *optim = make(1, NULL);
        for (int k = 1; k <= STEPS; k++) {
            lzt_optim_step step;
            lzt_optim_step_init(&step, lr, b1, b2, eps, (uint64_t)k);
            step.clip_factor = clip;
            for (int i = 0; i < N; i++) {
                t.grad16[i] = lzt_bf16_from_f32(random_value(1e-3f));
                t.grad[i] = grad == LZT_DTYPE_F32 ? random_value(1e-3f) : lzt_bf16_to_f32(t.grad16[i]);
                double g = t.grad[i] * clip;
                m[i] = b1 * m[i] + (1 - b1) * g;
                v[i] = b2 * v[i] + (1 - b2) * g * g;
                w[i] -= lr * decay * w[i];
                w[i] -= lr * (m[i] / (1 - pow(b1, k))) / (sqrt(v[i] / (1 - pow(b2, k))) + eps);
            }
            lzt_optim_run run = run_of(&t, 0, N, master, grad);
            run.weight_decay = decay;
            lzt_optim_adamw(optim, &run, &step);
        }
        if (master == LZT_MASTER_SPLIT) lzt_optim_join(optim, t.hi, t.lo, t.w, N);
        for (int i = 0; i < N; i++) {
            /* per step: two roundings and a rounded coefficient of 1 - lr decay, 6e-8 each */
            assert_true(fabs(t.w[i] - w[i]) <= 2e-6 * (fabs(w[i]) + lr * STEPS));
            assert_true(fabs(t.m[i] - m[i]) <= 1e-6 * 1e-3);
            assert_true(fabs(t.v[i] - v[i]) <= 2e-6 * v[i]);
            if (master == LZT_MASTER_F32) assert_int_equal(t.copy[i], lzt_bf16_from_f32(t.w[i]));
        }
        lzt_optim_destroy(optim);
        free(pool);
    }
}

static void a_skipped_step_changes_nothing(void **state)
{
    (void)state;
    void *pool[2];
    tensors t = alloc(1000, 0, &pool[0]), same = alloc(1000, 0, &pool[1]);
    random_state = 5;
    fill(&t);
    random_state = 5;
    fill(&same);
    lzt_optim *optim = make(2, NULL);
    lzt_optim_step step;
    lzt_optim_step_init(&step, 1, 0.9, 0.999, 1e-8, 1);
    step.skip = 1;
    step.clip_factor = NAN;
    lzt_optim_run run = run_of(&t, 0, 1000, LZT_MASTER_SPLIT, LZT_DTYPE_F32);
    lzt_optim_adamw(optim, &run, &step);
    assert_memory_equal(pool[0], pool[1], 8 * (1000 + 64) * 4);
    step.skip = 0;
    run.count = 0;
    lzt_optim_adamw(optim, &run, &step); /* nothing to do */
    assert_memory_equal(pool[0], pool[1], 8 * (1000 + 64) * 4);
    lzt_optim_destroy(optim);
    free(pool[0]);
    free(pool[1]);
}

/* Three steps over n elements cut at random places, on the given team; the resulting bytes. */
static void *three_steps(uint64_t n, uint32_t threads, bool cut, uint64_t skew, lzt_master master, lzt_dtype grad,
                         tensors *out)
{
    void *pool;
    tensors t = alloc(n, skew, &pool);
    random_state = 99;
    fill(&t);
    random_state = threads * 1000 + skew + 7;
    lzt_optim *optim = make(threads, NULL);
    for (uint64_t k = 1; k <= 3; k++) {
        lzt_optim_step step;
        lzt_optim_step_init(&step, 1e-3, 0.9, 0.95, 1e-8, k);
        step.clip_factor = 0.9;
        for (uint64_t begin = 0, end; begin < n; begin = end) {
            end = cut ? begin + 1 + random_bits() % (n / 3) : n;
            if (end > n) end = n;
            lzt_optim_run run = run_of(&t, begin, end, master, grad);
            lzt_optim_adamw(optim, &run, &step);
        }
    }
    lzt_optim_destroy(optim);
    *out = t;
    return pool;
}

static void cuts_and_threads_change_no_bit(void **state)
{
    (void)state;
    const uint64_t sizes[] = {1, 63, 64, 65, 1000, 40001, 100000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (int form = 0; form < 4; form++) {
            uint64_t n = sizes[s];
            lzt_master master = form & 1 ? LZT_MASTER_F32 : LZT_MASTER_SPLIT;
            lzt_dtype grad = form & 2 ? LZT_DTYPE_F32 : LZT_DTYPE_BF16;
            tensors want, got;
            void *pool = three_steps(n, 1, false, 0, master, grad, &want);
            for (uint32_t threads = 1; threads <= 4; threads++) {
                void *other = three_steps(n, threads, n > 3, threads * 3, master, grad, &got);
                assert_memory_equal(want.w, got.w, n * 4);
                assert_memory_equal(want.m, got.m, n * 4);
                assert_memory_equal(want.v, got.v, n * 4);
                assert_memory_equal(want.hi, got.hi, n * 2);
                assert_memory_equal(want.lo, got.lo, n * 2);
                assert_memory_equal(want.copy, got.copy, n * 2);
                free(other);
            }
            free(pool);
        }
    }
}

/* ---- sums and additions */

static void sqnorm_is_exact_enough_and_fixed(void **state)
{
    (void)state;
    const uint64_t sizes[] = {0, 1, 15, 16, 17, 4096, 4097, 50000, 5000000};
    static const char *const isas[] = {"x86-64-v2", "avx2", "avx512"};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint64_t n = sizes[s];
        float *x = malloc(n * 4 + 4);
        uint16_t *x16 = malloc(n * 2 + 2);
        long double sum = 0, sum16 = 0;
        for (uint64_t i = 0; i < n; i++) {
            x[i] = random_value(i % 1000 == 0 ? 1e4f : 1e-2f);
            x16[i] = lzt_bf16_from_f32(x[i]);
            sum += (long double)x[i] * x[i];
            sum16 += (long double)lzt_bf16_to_f32(x16[i]) * lzt_bf16_to_f32(x16[i]);
        }
        double want = -1, want16 = -1;
        for (uint32_t threads = 1; threads <= 4; threads += 2)
            for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
                lzt_optim *optim = make(threads, isas[i]);
                if (!optim) continue;
                double got = lzt_optim_sqnorm(optim, LZT_DTYPE_F32, x, n);
                double got16 = lzt_optim_sqnorm(optim, LZT_DTYPE_BF16, x16, n);
                if (want < 0) want = got, want16 = got16;
                assert_true(got == want && got16 == want16);
                lzt_optim_destroy(optim);
            }
        assert_true(fabsl(want - sum) <= 1e-12L * sum);
        assert_true(fabsl(want16 - sum16) <= 1e-12L * sum16);
        free(x);
        free(x16);
    }
}

static void sqnorm_sees_every_non_finite_value(void **state)
{
    (void)state;
    enum { N = 40000 };
    static float x[N];
    lzt_optim *optim = make(2, NULL);
    for (int i = 0; i < N; i++) x[i] = 3.4e38f; /* large is not infinite */
    assert_true(isfinite(lzt_optim_sqnorm(optim, LZT_DTYPE_F32, x, N)));
    const int places[] = {0, 17, 4095, 4096, 30001, N - 1};
    const float bad[] = {INFINITY, -INFINITY, NAN};
    for (int p = 0; p < 6; p++)
        for (int b = 0; b < 3; b++) {
            x[places[p]] = bad[b];
            assert_false(isfinite(lzt_optim_sqnorm(optim, LZT_DTYPE_F32, x, N)));
            x[places[p]] = 1;
        }
    lzt_optim_destroy(optim);
}

static void add_rounds_once(void **state)
{
    (void)state;
    enum { N = 70001 };
    float *a = malloc(4 * N), *b = malloc(4 * N), *sum = malloc(4 * N);
    uint16_t *a16 = malloc(2 * N), *b16 = malloc(2 * N), *sum16 = malloc(2 * N);
    for (int i = 0; i < N; i++) {
        a[i] = random_value(1), b[i] = random_value(i % 2 ? 1e-3f : 2);
        if (i == 5) a[i] = INFINITY, b[i] = -INFINITY;
        if (i == 6) a[i] = 3.3e38f, b[i] = 3.3e38f;
        a16[i] = lzt_bf16_from_f32(a[i]), b16[i] = lzt_bf16_from_f32(b[i]);
    }
    for (uint32_t threads = 1; threads <= 4; threads++) {
        lzt_optim *optim = make(threads, NULL);
        memcpy(sum, a, 4 * N);
        lzt_optim_add(optim, LZT_DTYPE_F32, sum, LZT_DTYPE_F32, b, N);
        for (int i = 0; i < N; i++) assert_true(sum[i] == a[i] + b[i] || isnan(a[i] + b[i]));
        memcpy(sum, a, 4 * N);
        lzt_optim_add(optim, LZT_DTYPE_F32, sum, LZT_DTYPE_BF16, b16, N);
        for (int i = 0; i < N; i++) assert_true(sum[i] == a[i] + lzt_bf16_to_f32(b16[i]) || i == 5);
        memcpy(sum16, a16, 2 * N);
        lzt_optim_add(optim, LZT_DTYPE_BF16, sum16, LZT_DTYPE_BF16, b16, N);
        for (int i = 0; i < N; i++) {
            float exact = lzt_bf16_to_f32(a16[i]) + lzt_bf16_to_f32(b16[i]);
            if (isnan(exact))
                assert_true(isnan(lzt_bf16_to_f32(sum16[i])));
            else
                assert_int_equal(sum16[i], lzt_bf16_from_f32(exact));
        }
        lzt_optim_destroy(optim);
    }
    free(a), free(b), free(sum), free(a16), free(b16), free(sum16);
}

/* ---- master halves */

static void halves_hold_every_bit(void **state)
{
    (void)state;
    enum { N = 100000 };
    float *w = malloc(4 * N), *back = malloc(4 * N);
    uint16_t *hi = malloc(2 * N);
    int16_t *lo = malloc(2 * N);
    const uint32_t special[] = {0,           0x80000000u, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0x7f800001u,
                                0xffffffffu, 0x00008000u, 0x00007fffu, 0x3f808000u, 0x3f807fffu, 0xffff8000u};
    enum { SPECIAL = sizeof special / sizeof *special };
    for (int i = 0; i < N; i++) {
        uint32_t bits = i < SPECIAL ? special[i] : random_bits();
        memcpy(&w[i], &bits, 4);
    }
    for (uint32_t threads = 1; threads <= 3; threads++) {
        lzt_optim *optim = make(threads, NULL);
        memset(back, 0xaa, 4 * N);
        lzt_optim_split(optim, w, hi, lo, N);
        lzt_optim_join(optim, hi, lo, back, N);
        assert_memory_equal(w, back, 4 * N);
        for (int i = 0; i < N; i++) {
            uint32_t bits;
            memcpy(&bits, &w[i], 4);
            assert_int_equal(hi[i], lzt_bf16_hi(bits));
        }
        lzt_optim_destroy(optim);
    }
    free(w), free(back), free(hi), free(lo);
}

/* ---- scalars and refusals */

static void clip_factor_is_torchs(void **state)
{
    (void)state;
    assert_true(lzt_optim_clip_factor(0.5, 1.0) == 1);
    assert_true(lzt_optim_clip_factor(4.0, 1.0) == 1.0 / (4.0 + 1e-6));
    assert_true(lzt_optim_clip_factor(1.0, 1.0) == 1.0 / (1.0 + 1e-6));
    assert_true(lzt_optim_clip_factor(1e9, 0) == 1);
}

static void options_are_checked(void **state)
{
    (void)state;
    lzt_optim_options options = LZT_OPTIM_OPTIONS_INIT;
    lzt_optim *optim;
    lzt_error err;
    options.isa = "mmx";
    assert_int_equal(lzt_optim_create(&options, &optim, &err), LZT_ERR_USAGE);
    options.isa = NULL;
    options.threads = 5000;
    assert_int_equal(lzt_optim_create(&options, &optim, &err), LZT_ERR_USAGE);
    options.threads = 0;
    options.struct_bytes = 2;
    assert_int_equal(lzt_optim_create(&options, &optim, &err), LZT_ERR_USAGE);
    optim = make(3, "x86-64-v2");
    assert_string_equal(lzt_optim_description(optim), "x86-64-v2 3 threads");
    lzt_optim_destroy(optim);
    lzt_optim_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adamw_follows_the_formula),
        cmocka_unit_test(a_skipped_step_changes_nothing),
        cmocka_unit_test(cuts_and_threads_change_no_bit),
        cmocka_unit_test(sqnorm_is_exact_enough_and_fixed),
        cmocka_unit_test(sqnorm_sees_every_non_finite_value),
        cmocka_unit_test(add_rounds_once),
        cmocka_unit_test(halves_hold_every_bit),
        cmocka_unit_test(clip_factor_is_torchs),
        cmocka_unit_test(options_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
