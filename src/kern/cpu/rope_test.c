/* The rotary embedding.
 *
 * Goal: table and rotation equal float64 on every instruction set; backward is the transpose of forward; the columns
 * that are not rotated, other heads' gaps and rows past the last token stay as they are.
 */
#include "kern/cpu/op_check.h"

typedef struct fixture {
    uint64_t n, heads, d, rotated, ld;
    double sign;
    check_buf batch, inv_freq, table, x;
    double *before;
} fixture;

static void verify_table(void *arg)
{
    const fixture *f = arg;
    const int32_t *position = lzt_batch_position(f->batch.data);
    for (uint64_t t = 0; t < f->n; t++)
        for (uint64_t i = 0; i < f->rotated / 2; i++) {
            double angle = position[t] * check_get(&f->inv_freq, i);
            check_close(&f->table, t * f->rotated + 2 * i, 1.25 * cos(angle), 6e-8, 1e-12);
            check_close(&f->table, t * f->rotated + 2 * i + 1, 1.25 * sin(angle), 6e-8, 1e-12);
        }
    check_untouched(&f->table, f->n * f->rotated, (f->n + 3) * f->rotated);
}

static void verify_rotation(void *arg)
{
    const fixture *f = arg;
    uint64_t half = f->rotated / 2;
    for (uint64_t t = 0; t < f->n; t++)
        for (uint64_t c = 0; c < f->ld; c++) {
            uint64_t i = c % f->d, pair = i % (half ? half : 1);
            double x = f->before[t * f->ld + c];
            if (c >= f->heads * f->d || i >= f->rotated) {
                assert_true(check_get(&f->x, t * f->ld + c) == x);
                continue;
            }
            double cosine = check_get(&f->table, t * f->rotated + 2 * pair);
            double sine = f->sign * check_get(&f->table, t * f->rotated + 2 * pair + 1);
            double other = f->before[t * f->ld + (i < half ? c + half : c - half)];
            check_close(&f->x, t * f->ld + c, i < half ? x * cosine - other * sine : x * cosine + other * sine, 1e-7,
                        1.5e-7);
        }
    check_untouched(&f->x, f->n * f->ld, (f->n + 3) * f->ld);
}

static void run_case(const check_kerns *all, uint64_t heads, uint64_t d, uint64_t rotated, uint64_t gap,
                     lzt_dtype dtype)
{
    const uint64_t lengths[] = {13, 1, 9};
    fixture f = {.n = 23, .heads = heads, .d = d, .rotated = rotated, .ld = heads * d + gap};
    f.batch = check_batch(f.n + 3, lengths, 3);
    lzt_batch_position(f.batch.data)[5] = 1000003; /* far out: the angle needs double */
    f.inv_freq = check_alloc(LZT_DTYPE_F32, rotated / 2);
    f.table = check_alloc(LZT_DTYPE_F32, (f.n + 3) * rotated);
    f.x = check_alloc(dtype, (f.n + 3) * f.ld);
    check_fill(&f.inv_freq, 0, rotated / 2, 0.5, 0.5, 1);
    check_fill(&f.x, 0, f.n * f.ld, 0, 1, 2);
    f.before = calloc(f.n * f.ld, sizeof(double));
    assert_non_null(f.before);
    for (uint64_t i = 0; i < f.n * f.ld; i++) f.before[i] = check_get(&f.x, i);
    lzt_kern_call table = {.op = LZT_OP_ROPE_TABLE,
                           .dtype = dtype,
                           .grad_dtype = dtype,
                           .ptr = {f.batch.data, f.inv_freq.data, f.table.data},
                           .dim = {f.n + 3, rotated},
                           .real = {1.25}};
    check_variants(all, &table, (check_buf *[]){&f.table, NULL}, verify_table, &f);
    for (f.sign = 1; f.sign >= -1; f.sign -= 2) {
        lzt_kern_call rotate = {.op = LZT_OP_ROPE,
                                .dtype = dtype,
                                .grad_dtype = dtype,
                                .ptr = {f.batch.data, f.table.data, f.x.data},
                                .dim = {f.n + 3, heads, d, rotated, f.ld},
                                .real = {f.sign}};
        check_variants(all, &rotate, (check_buf *[]){&f.x, NULL}, verify_rotation, &f);
        for (uint64_t i = 0; i < f.n * f.ld; i++) check_set(&f.x, i, f.before[i]);
    }
    check_free(&f.batch);
    check_free(&f.inv_freq);
    check_free(&f.table);
    check_free(&f.x);
    free(f.before);
}

static void rope_equals_float64(void **state)
{
    for (int bf16 = 0; bf16 < 2; bf16++) {
        lzt_dtype dtype = bf16 ? LZT_DTYPE_BF16 : LZT_DTYPE_F32;
        run_case(*state, 8, 64, 64, 0, dtype);
        run_case(*state, 3, 10, 6, 5, dtype);
        run_case(*state, 2, 8, 8, 16, dtype);
        run_case(*state, 1, 2, 2, 0, dtype);
        run_case(*state, 2, 128, 32, 128, dtype);
        run_case(*state, 1, 512, 400, 0, dtype);
    }
}

static void an_odd_rotation_is_refused(void **state)
{
    const check_kerns *all = *state;
    const uint64_t length = 2;
    check_buf batch = check_batch(2, &length, 1), x = check_alloc(LZT_DTYPE_F32, 2 * 8);
    for (uint64_t rotated = 5; rotated < 11; rotated += 5) {
        lzt_error err = {.status = LZT_OK};
        lzt_kern_call call = {.op = LZT_OP_ROPE,
                              .dtype = LZT_DTYPE_F32,
                              .grad_dtype = LZT_DTYPE_F32,
                              .ptr = {batch.data, x.data, x.data},
                              .dim = {2, 1, 8, rotated, 8},
                              .real = {1}};
        assert_int_equal(lzt_kern_run(all->kern[0], &call, NULL, &err), LZT_ERR_INTERNAL);
        check_untouched(&x, 0, 16);
    }
    check_free(&batch);
    check_free(&x);
}

int main(void)
{
    check_kerns all = check_kerns_create();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(rope_equals_float64, &all),
        cmocka_unit_test_prestate(an_odd_rotation_is_refused, &all),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    check_kerns_destroy(&all);
    return failed;
}
