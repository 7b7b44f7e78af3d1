/* RMSNorm of rows and of heads.
 *
 * Goal: forward and backward equal float64 on every instruction set, the same bits with any team; a weight gradient of
 * many tokens is as exact as one of few; nothing else is written. Method: the float64 gradient is checked against
 * finite differences of the float64 forward, the operators against both.
 */
#include "kern/cpu/op_check.h"

enum { SIZE_MAX_TESTED = 5000 };

/* ---- reference: one row ---- */

static double row_rstd(const double *x, uint64_t size, double eps)
{
    double sum = 0;
    for (uint64_t i = 0; i < size; i++) sum += x[i] * x[i];
    return 1 / sqrt(sum / (double)size + eps);
}

static void row_backward(const double *dy, const double *x, const double *w, uint64_t size, double add, double rstd,
                         double *dx, double *dw)
{
    double mean = 0;
    for (uint64_t i = 0; i < size; i++) mean += dy[i] * (w[i] + add) * x[i] / (double)size;
    for (uint64_t i = 0; i < size; i++) {
        dx[i] = rstd * (dy[i] * (w[i] + add) - x[i] * rstd * rstd * mean);
        dw[i] += dy[i] * x[i] * rstd;
    }
}

static double objective(const double *dy, const double *x, const double *w, uint64_t size, double add, double eps)
{
    double rstd = row_rstd(x, size, eps), sum = 0;
    for (uint64_t i = 0; i < size; i++) sum += dy[i] * x[i] * rstd * (w[i] + add);
    return sum;
}

static void reference_has_the_gradient_of_its_forward(void **state)
{
    (void)state;
    enum { SIZE = 7 };
    double x[SIZE], w[SIZE], dy[SIZE], dx[SIZE], dw[SIZE] = {0}, eps = 1e-2;
    uint64_t seed = 3;
    for (int i = 0; i < SIZE; i++) {
        x[i] = check_uniform(&seed);
        w[i] = check_uniform(&seed);
        dy[i] = check_uniform(&seed);
    }
    row_backward(dy, x, w, SIZE, 1, row_rstd(x, SIZE, eps), dx, dw);
    for (int i = 0; i < 2 * SIZE; i++) {
        double *at = i < SIZE ? &x[i] : &w[i - SIZE], old = *at, expected = i < SIZE ? dx[i] : dw[i - SIZE];
        *at = old + 1e-6;
        double above = objective(dy, x, w, SIZE, 1, eps);
        *at = old - 1e-6;
        double slope = (above - objective(dy, x, w, SIZE, 1, eps)) / 2e-6;
        *at = old;
        assert_true(fabs(slope - expected) < 1e-8);
    }
}

/* ---- rows ---- */

typedef struct rows {
    uint64_t n, size;
    double add, eps;
    bool with_residual;
    check_buf batch, x, w, y, rstd, dy, residual, dx, dw;
    double *dy_before, *residual_before; /* what was there when dx replaces it */
} rows;

static rows rows_create(uint64_t n, uint64_t size, lzt_dtype dtype, lzt_dtype grad_dtype, double add)
{
    uint64_t capacity = n + 5;
    rows r = {.n = n, .size = size, .add = add, .eps = 1e-5};
    r.batch = check_batch(capacity, &n, 1);
    check_buf *all[] = {&r.x, &r.y, &r.dy, &r.residual, &r.dx};
    for (int i = 0; i < 5; i++) *all[i] = check_alloc(dtype, capacity * size);
    r.w = check_alloc(dtype, size);
    r.rstd = check_alloc(LZT_DTYPE_F32, capacity);
    r.dw = check_alloc(grad_dtype, size);
    check_fill(&r.x, 0, n * size, 0.3, 2, 1);
    check_fill(&r.dy, 0, n * size, 0, 1, 2);
    check_fill(&r.residual, 0, n * size, 0, 1, 3);
    check_fill(&r.w, 0, size, 1 - add, 0.5, 4);
    r.dy_before = calloc(n * size, sizeof(double));
    r.residual_before = calloc(n * size, sizeof(double));
    assert_true(r.dy_before && r.residual_before);
    for (uint64_t i = 0; i < n * size; i++) {
        r.dy_before[i] = check_get(&r.dy, i);
        r.residual_before[i] = check_get(&r.residual, i);
    }
    return r;
}

static void rows_destroy(rows *r)
{
    check_buf *all[] = {&r->batch, &r->x, &r->w, &r->y, &r->rstd, &r->dy, &r->residual, &r->dx, &r->dw};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_free(all[i]);
    free(r->dy_before);
    free(r->residual_before);
}

static void row_to_double(const check_buf *b, uint64_t at, uint64_t size, double *row)
{
    for (uint64_t i = 0; i < size; i++) row[i] = check_get(b, at + i);
}

static void verify_forward(void *arg)
{
    const rows *r = arg;
    double x[SIZE_MAX_TESTED], w[SIZE_MAX_TESTED];
    row_to_double(&r->w, 0, r->size, w);
    for (uint64_t t = 0; t < r->n; t++) {
        row_to_double(&r->x, t * r->size, r->size, x);
        double rstd = row_rstd(x, r->size, r->eps);
        check_close(&r->rstd, t, rstd, 1.2e-7, 0);
        for (uint64_t i = 0; i < r->size; i++)
            check_close(&r->y, t * r->size + i, x[i] * rstd * (w[i] + r->add), 4e-7, 0);
    }
    check_untouched(&r->y, r->n * r->size, (r->n + 5) * r->size);
    check_untouched(&r->rstd, r->n, r->n + 5);
}

typedef struct backward_case {
    rows *r;
    const check_buf *dx; /* where the operator leaves it */
} backward_case;

static void verify_backward(void *arg)
{
    const backward_case *c = arg;
    const rows *r = c->r;
    double x[SIZE_MAX_TESTED], w[SIZE_MAX_TESTED], dx[SIZE_MAX_TESTED], dw[SIZE_MAX_TESTED] = {0};
    row_to_double(&r->w, 0, r->size, w);
    for (uint64_t t = 0; t < r->n; t++) {
        row_to_double(&r->x, t * r->size, r->size, x);
        row_backward(r->dy_before + t * r->size, x, w, r->size, r->add, row_rstd(x, r->size, r->eps), dx, dw);
        for (uint64_t i = 0; i < r->size; i++) {
            double residual = r->with_residual ? r->residual_before[t * r->size + i] : 0;
            check_close(c->dx, t * r->size + i, dx[i] + residual, 4e-7, 6e-7);
        }
    }
    check_below(check_relative(&r->dw, 0, dw, r->size), r->dw.dtype == LZT_DTYPE_BF16 ? 2.5e-3 : 3e-7);
    check_untouched(c->dx, r->n * r->size, (r->n + 5) * r->size);
}

/* where: 0 dx on its own, 1 in dy, 2 in residual, 3 on its own without residual and dw */
static void run_backward(const check_kerns *all, rows *r, lzt_dtype dtype, int where)
{
    check_buf *dx[] = {&r->dx, &r->dy, &r->residual, &r->dx};
    r->with_residual = where != 3;
    lzt_kern_call call = {.op = LZT_OP_RMSNORM_BWD,
                          .dtype = dtype,
                          .grad_dtype = r->dw.dtype,
                          .ptr = {r->batch.data, r->dy.data, r->x.data, r->w.data, r->rstd.data,
                                  where == 3 ? NULL : r->residual.data, dx[where]->data,
                                  where == 3 ? NULL : r->dw.data},
                          .dim = {r->n + 5, r->size},
                          .real = {r->eps, r->add}};
    check_buf *outputs[] = {dx[where], where == 3 ? NULL : &r->dw, NULL};
    check_variants(all, &call, outputs, verify_backward, &(backward_case){r, dx[where]});
    for (uint64_t i = 0; i < r->n * r->size; i++) { /* what was replaced, for the next case */
        check_set(&r->dy, i, r->dy_before[i]);
        check_set(&r->residual, i, r->residual_before[i]);
    }
}

static void rmsnorm_equals_float64(void **state)
{
    static const uint64_t shapes[][2] = {{1, 1}, {3, 10}, {33, 64}, {70, 65}, {5, 576}, {2, 4999}, {260, 24}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            lzt_dtype dtype = bf16 ? LZT_DTYPE_BF16 : LZT_DTYPE_F32;
            rows r = rows_create(shapes[i][0], shapes[i][1], dtype, i % 2 ? dtype : LZT_DTYPE_F32, i % 3 == 0);
            lzt_kern_call call = {.op = LZT_OP_RMSNORM_FWD,
                                  .dtype = dtype,
                                  .grad_dtype = dtype,
                                  .ptr = {r.batch.data, r.x.data, r.w.data, r.y.data, r.rstd.data},
                                  .dim = {r.n + 5, r.size},
                                  .real = {r.eps, r.add}};
            check_variants(*state, &call, (check_buf *[]){&r.y, &r.rstd, NULL}, verify_forward, &r);
            for (int where = 0; where < 4; where++) run_backward(*state, &r, dtype, where);
            call.ptr[4] = NULL; /* rstd is not wanted */
            check_run(((check_kerns *)*state)->kern[0], &call);
            rows_destroy(&r);
        }
}

/* The sum over tokens: with all-equal rows dw is n times one row, which a plain F32 sum of 20,000 misses. */
static void weight_gradient_of_many_tokens_is_exact(void **state)
{
    const check_kerns *all = *state;
    rows r = rows_create(20000, 3, LZT_DTYPE_F32, LZT_DTYPE_F32, 0);
    for (uint64_t i = 0; i < r.n * r.size; i++) {
        check_set(&r.x, i, 0.1 * (double)(1 + i % 3));
        check_set(&r.dy, i, 0.7);
    }
    double x[3], dw[3];
    row_to_double(&r.x, 0, 3, x);
    float rstd = (float)row_rstd(x, 3, 1e-5);
    for (uint64_t t = 0; t < r.n; t++) check_set(&r.rstd, t, (double)rstd);
    for (int i = 0; i < 3; i++) dw[i] = 20000 * (double)0.7f * x[i] * (double)rstd;
    lzt_kern_call call = {.op = LZT_OP_RMSNORM_BWD,
                          .dtype = LZT_DTYPE_F32,
                          .grad_dtype = LZT_DTYPE_F32,
                          .ptr = {r.batch.data, r.dy.data, r.x.data, r.w.data, r.rstd.data, NULL, r.dx.data, r.dw.data},
                          .dim = {r.n + 5, 3},
                          .real = {1e-5, 0}};
    for (int i = 0; i < all->count; i++) {
        check_run(all->kern[i], &call);
        check_below(check_relative(&r.dw, 0, dw, 3), 4e-7);
    }
    rows_destroy(&r);
}

/* ---- heads ---- */

typedef struct heads {
    uint64_t n, q, k, d, ld;
    check_buf batch, qkv, wq, wk, qk, dqkv, dwq, dwk;
    double *dqk;
} heads;

static void verify_heads_forward(void *arg)
{
    const heads *h = arg;
    double x[256];
    for (uint64_t t = 0; t < h->n; t++)
        for (uint64_t head = 0; head < h->q + h->k; head++) {
            row_to_double(&h->qkv, t * h->ld + head * h->d, h->d, x);
            double rstd = row_rstd(x, h->d, 1e-6);
            for (uint64_t i = 0; i < h->d; i++)
                check_close(&h->qk, (t * (h->q + h->k) + head) * h->d + i,
                            x[i] * rstd * (check_get(head < h->q ? &h->wq : &h->wk, i) + 1), 4e-7, 0);
        }
    check_untouched(&h->qk, h->n * (h->q + h->k) * h->d, (h->n + 2) * (h->q + h->k) * h->d);
}

static void verify_heads_backward(void *arg)
{
    const heads *h = arg;
    double x[256], w[256], dx[256], dw[2][256] = {{0}};
    uint64_t columns = (h->q + h->k) * h->d;
    for (uint64_t t = 0; t < h->n; t++) {
        for (uint64_t head = 0; head < h->q + h->k; head++) {
            row_to_double(&h->qkv, t * h->ld + head * h->d, h->d, x);
            row_to_double(head < h->q ? &h->wq : &h->wk, 0, h->d, w);
            row_backward(h->dqk + t * columns + head * h->d, x, w, h->d, 1, row_rstd(x, h->d, 1e-6), dx,
                         dw[head >= h->q]);
            for (uint64_t i = 0; i < h->d; i++) check_close(&h->dqkv, t * h->ld + head * h->d + i, dx[i], 4e-7, 6e-7);
        }
        check_untouched(&h->dqkv, t * h->ld + columns, (t + 1) * h->ld);
    }
    check_untouched(&h->dqkv, h->n * h->ld, (h->n + 2) * h->ld);
    check_below(check_relative(&h->dwq, 0, dw[0], h->d), 3e-7);
    check_below(check_relative(&h->dwk, 0, dw[1], h->d), 3e-7);
}

static void run_heads(const check_kerns *all, uint64_t n, uint64_t q, uint64_t k, uint64_t d, lzt_dtype dtype)
{
    uint64_t columns = (q + k) * d, capacity = n + 2;
    heads h = {.n = n, .q = q, .k = k, .d = d, .ld = columns + k * d};
    h.batch = check_batch(capacity, &n, 1);
    h.qkv = check_alloc(dtype, capacity * h.ld);
    h.dqkv = check_alloc(dtype, capacity * h.ld);
    h.qk = check_alloc(dtype, capacity * columns);
    h.wq = check_alloc(dtype, d);
    h.wk = check_alloc(dtype, d);
    h.dwq = check_alloc(LZT_DTYPE_F32, d);
    h.dwk = check_alloc(LZT_DTYPE_F32, d);
    h.dqk = calloc(n * columns, sizeof(double));
    assert_non_null(h.dqk);
    check_fill(&h.wq, 0, d, 0, 0.5, 1);
    check_fill(&h.wk, 0, d, 0, 0.5, 2);
    for (uint64_t t = 0; t < n; t++) {
        check_fill(&h.qkv, t * h.ld, columns, 0.1, 1, 100 + t);
        check_fill(&h.dqkv, t * h.ld, columns, 0, 1, 500 + t);
        row_to_double(&h.dqkv, t * h.ld, columns, h.dqk + t * columns);
    }
    lzt_kern_call call = {.op = LZT_OP_HEAD_NORM_FWD,
                          .dtype = dtype,
                          .grad_dtype = LZT_DTYPE_F32,
                          .ptr = {h.batch.data, h.qkv.data, h.wq.data, h.wk.data, h.qk.data},
                          .dim = {capacity, q, k, d, h.ld},
                          .real = {1e-6, 1}};
    check_variants(all, &call, (check_buf *[]){&h.qk, NULL}, verify_heads_forward, &h);
    call.op = LZT_OP_HEAD_NORM_BWD;
    void *backward[] = {h.batch.data, h.dqkv.data, h.qkv.data, h.wq.data, h.wk.data, h.dwq.data, h.dwk.data};
    memcpy(call.ptr, backward, sizeof backward);
    check_variants(all, &call, (check_buf *[]){&h.dqkv, &h.dwq, &h.dwk, NULL}, verify_heads_backward, &h);
    check_buf *buffers[] = {&h.batch, &h.qkv, &h.dqkv, &h.qk, &h.wq, &h.wk, &h.dwq, &h.dwk};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) check_free(buffers[i]);
    free(h.dqk);
}

static void head_norm_equals_float64(void **state)
{
    for (int bf16 = 0; bf16 < 2; bf16++) {
        lzt_dtype dtype = bf16 ? LZT_DTYPE_BF16 : LZT_DTYPE_F32;
        run_heads(*state, 1, 1, 1, 8, dtype);
        run_heads(*state, 37, 6, 2, 10, dtype);
        run_heads(*state, 100, 4, 2, 128, dtype);
        run_heads(*state, 9, 2, 2, 256, dtype);
    }
}

int main(void)
{
    check_kerns all = check_kerns_create();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_has_the_gradient_of_its_forward),
        cmocka_unit_test_prestate(rmsnorm_equals_float64, &all),
        cmocka_unit_test_prestate(weight_gradient_of_many_tokens_is_exact, &all),
        cmocka_unit_test_prestate(head_norm_equals_float64, &all),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    check_kerns_destroy(&all);
    return failed;
}
