/* SwiGLU.
 *
 * Goal: forward and backward equal float64 on every instruction set, in place too, also where the sigmoid saturates;
 * rows past the last token stay as they are. The float64 gradient is checked against finite differences.
 */
#include "kern/cpu/op_check.h"

static double silu(double g)
{
    return g / (1 + exp(-g));
}

static double silu_slope(double g)
{
    double s = 1 / (1 + exp(-g));
    return s * (1 + g * (1 - s));
}

static void reference_has_the_gradient_of_its_forward(void **state)
{
    (void)state;
    for (double g = -20; g < 20; g += 0.37)
        assert_true(fabs((silu(g + 1e-5) - silu(g - 1e-5)) / 2e-5 - silu_slope(g)) < 1e-9);
}

typedef struct fixture {
    uint64_t n, size;
    check_buf batch, gu, s, ds, dgu;
    double *gu_before;
    const check_buf *gradient;
} fixture;

static void verify_forward(void *arg)
{
    const fixture *f = arg;
    for (uint64_t t = 0; t < f->n; t++)
        for (uint64_t i = 0; i < f->size; i++) {
            const double *gu = f->gu_before + 2 * t * f->size;
            check_close(&f->s, t * f->size + i, silu(gu[i]) * gu[f->size + i], 6e-7, 1e-35);
        }
    check_untouched(&f->s, f->n * f->size, (f->n + 2) * f->size);
}

static void verify_backward(void *arg)
{
    const fixture *f = arg;
    for (uint64_t t = 0; t < f->n; t++)
        for (uint64_t i = 0; i < f->size; i++) {
            const double *gu = f->gu_before + 2 * t * f->size;
            double ds = check_get(&f->ds, t * f->size + i), up = gu[f->size + i];
            check_close(f->gradient, 2 * t * f->size + i, ds * up * silu_slope(gu[i]), 1e-6, 2e-7 * fabs(ds * up));
            check_close(f->gradient, (2 * t + 1) * f->size + i, ds * silu(gu[i]), 6e-7, 1e-35);
        }
    check_untouched(f->gradient, 2 * f->n * f->size, 2 * (f->n + 2) * f->size);
}

static void run_case(const check_kerns *all, uint64_t n, uint64_t size, lzt_dtype dtype)
{
    fixture f = {.n = n, .size = size};
    f.batch = check_batch(n + 2, &n, 1);
    f.gu = check_alloc(dtype, (n + 2) * 2 * size);
    f.dgu = check_alloc(dtype, (n + 2) * 2 * size);
    f.s = check_alloc(dtype, (n + 2) * size);
    f.ds = check_alloc(dtype, (n + 2) * size);
    check_fill(&f.gu, 0, n * 2 * size, 0, 8, 1);
    check_fill(&f.ds, 0, n * size, 0, 1, 2);
    static const double saturated[] = {-200, -104, -90, -88, -87, 0, 20, 88, 89, 104, 200, -1e30, 1e30};
    for (uint64_t i = 0; i < size && i < sizeof saturated / sizeof *saturated; i++) check_set(&f.gu, i, saturated[i]);
    f.gu_before = calloc(n * 2 * size, sizeof(double));
    assert_non_null(f.gu_before);
    for (uint64_t i = 0; i < n * 2 * size; i++) f.gu_before[i] = check_get(&f.gu, i);
    lzt_kern_call call = {.op = LZT_OP_SWIGLU_FWD,
                          .dtype = dtype,
                          .grad_dtype = dtype,
                          .ptr = {f.batch.data, f.gu.data, f.s.data},
                          .dim = {n + 2, size}};
    check_variants(all, &call, (check_buf *[]){&f.s, NULL}, verify_forward, &f);
    call.op = LZT_OP_SWIGLU_BWD;
    call.ptr[2] = f.ds.data;
    call.ptr[3] = f.dgu.data;
    f.gradient = &f.dgu;
    check_variants(all, &call, (check_buf *[]){&f.dgu, NULL}, verify_backward, &f);
    call.ptr[3] = f.gu.data;
    f.gradient = &f.gu;
    check_variants(all, &call, (check_buf *[]){&f.gu, NULL}, verify_backward, &f);
    check_buf *buffers[] = {&f.batch, &f.gu, &f.dgu, &f.s, &f.ds};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) check_free(buffers[i]);
    free(f.gu_before);
}

static void swiglu_equals_float64(void **state)
{
    for (int bf16 = 0; bf16 < 2; bf16++) {
        lzt_dtype dtype = bf16 ? LZT_DTYPE_BF16 : LZT_DTYPE_F32;
        run_case(*state, 1, 1, dtype);
        run_case(*state, 3, 13, dtype);
        run_case(*state, 11, 172, dtype);
        run_case(*state, 40, 64, dtype);
    }
}

static void nan_shows(void **state)
{
    const check_kerns *all = *state;
    const uint64_t n = 1;
    check_buf batch = check_batch(1, &n, 1), gu = check_alloc(LZT_DTYPE_F32, 40), s = check_alloc(LZT_DTYPE_F32, 20);
    check_fill(&gu, 0, 40, 0, 1, 1);
    check_set(&gu, 3, NAN);
    check_set(&gu, 39, NAN);
    lzt_kern_call call = {.op = LZT_OP_SWIGLU_FWD,
                          .dtype = LZT_DTYPE_F32,
                          .grad_dtype = LZT_DTYPE_F32,
                          .ptr = {batch.data, gu.data, s.data},
                          .dim = {1, 20}};
    for (int v = 0; v < all->count; v++) {
        check_run(all->kern[v], &call);
        for (uint64_t i = 0; i < 20; i++) assert_true(isnan(check_get(&s, i)) == (i == 3 || i == 19));
    }
    check_free(&batch);
    check_free(&gu);
    check_free(&s);
}

int main(void)
{
    check_kerns all = check_kerns_create();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_has_the_gradient_of_its_forward),
        cmocka_unit_test_prestate(swiglu_equals_float64, &all),
        cmocka_unit_test_prestate(nan_shows, &all),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    check_kerns_destroy(&all);
    return failed;
}
