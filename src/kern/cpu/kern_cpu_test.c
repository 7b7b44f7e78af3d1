/* Goal: the CPU backend's operators around matrix products (linear, loss chunk, greedy, cast) keep the contract of
 * kern.h, on every instruction set of this CPU, and bad calls are refused.
 *
 * Method: double references on odd sizes with a batch shorter than its capacity; the rest of every output must stay
 * untouched. The loss chunk is also checked by central differences of its own loss, and chunked against whole. One and
 * two threads must agree to the last bit. Scratch is filled with NaN and followed by guard bytes.
 */
#include "kern/cpu/kern_cpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct array {
    void *data;
    lzt_dtype dtype;
    uint64_t count;
} array;

static uint64_t seed = 7;

static float random_value(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(seed >> 32) / 2147483648.0f;
}

static double get(const array *a, uint64_t i)
{
    assert_true(i < a->count);
    return a->dtype == LZT_DTYPE_F32 ? ((float *)a->data)[i] : lzt_bf16_to_f32(((uint16_t *)a->data)[i]);
}

static void set(array *a, uint64_t i, double value)
{
    if (a->dtype == LZT_DTYPE_F32)
        ((float *)a->data)[i] = (float)value;
    else
        ((uint16_t *)a->data)[i] = lzt_bf16_from_f32((float)value);
}

static array make(uint64_t count, lzt_dtype dtype)
{
    array a = {aligned_alloc(64, (count * lzt_dtype_bytes(dtype) + 64) / 64 * 64), dtype, count};
    for (uint64_t i = 0; i < count; i++) set(&a, i, random_value());
    return a;
}

static array copy_of(const array *a)
{
    array b = make(a->count, a->dtype);
    memcpy(b.data, a->data, a->count * lzt_dtype_bytes(a->dtype));
    return b;
}

static lzt_kern *create(lzt_isa isa, uint32_t threads)
{
    lzt_kern_cpu_options options = LZT_KERN_CPU_OPTIONS_INIT;
    options.isa = lzt__isa_name(isa);
    options.threads = threads;
    options.gemm = "own";
    lzt_kern *kern;
    lzt_error err = {0};
    if (lzt_kern_cpu_create(&options, &kern, &err)) fail_msg("%s: %s", err.where, err.message);
    return kern;
}

static void run(lzt_kern *kern, lzt_kern_call call)
{
    enum { GUARD = 4096 };
    call.scratch_bytes = lzt_kern_scratch_bytes(kern, &call);
    unsigned char *scratch = aligned_alloc(64, (call.scratch_bytes + GUARD + 63) / 64 * 64);
    memset(scratch, 0xff, call.scratch_bytes + GUARD);
    call.scratch = scratch;
    lzt_error err = {0};
    if (lzt_kern_run(kern, &call, NULL, &err)) fail_msg("%s: %s", err.where, err.message);
    for (uint64_t i = 0; i < GUARD; i++) assert_int_equal(scratch[call.scratch_bytes + i], 0xff);
    free(scratch);
}

static lzt_batch_header *make_batch(uint64_t capacity, uint32_t tokens)
{
    lzt_batch_header *batch = calloc(1, lzt_batch_bytes(capacity));
    batch->token_count = tokens;
    batch->document_count = 1;
    lzt_batch_document(batch, capacity)[1] = (int32_t)tokens;
    return batch;
}

static double rounding(lzt_dtype dtype, double value)
{
    return dtype == LZT_DTYPE_BF16 ? fabs(value) * ldexp(1, -8) : fabs(value) * ldexp(1, -23);
}

#define assert_near(got, want, bound)                                                                                  \
    do {                                                                                                               \
        double got_ = (got), want_ = (want), bound_ = (bound);                                                         \
        if (!(fabs(got_ - want_) <= bound_)) fail_msg("%.9g, want %.9g +- %.2g", got_, want_, bound_);                 \
    } while (0)

/* ---- linear ---- */

enum { T = 29, N_TOKENS = 23, K = 37, N = 19 };

typedef struct linear_case {
    lzt_batch_header *batch;
    array x, w, bias, residual, dy, y, dx, dw, dbias;
} linear_case;

static linear_case linear_make(lzt_dtype dtype, lzt_dtype grad)
{
    seed = 11;
    return (linear_case){make_batch(T, N_TOKENS), make(T * K, dtype), make(N * K, dtype), make(N, dtype),
                         make(T * N, dtype),      make(T * N, dtype), make(T * N, dtype), make(T * K, dtype),
                         make(N * K, grad),       make(N, grad)};
}

static void linear_run(lzt_kern *kern, linear_case *c, lzt_dtype dtype, lzt_dtype grad)
{
    lzt_kern_call call = {.dtype = dtype, .grad_dtype = grad, .dim = {T, K, N}};
    call.op = LZT_OP_LINEAR_FWD;
    memcpy(call.ptr, (void *[]){c->batch, c->x.data, c->w.data, c->bias.data, c->residual.data, c->y.data}, 48);
    run(kern, call);
    call.op = LZT_OP_LINEAR_BWD_X;
    memcpy(call.ptr, (void *[]){c->batch, c->dy.data, c->w.data, c->dx.data, NULL, NULL}, 48);
    run(kern, call);
    call.op = LZT_OP_LINEAR_BWD_W;
    memcpy(call.ptr, (void *[]){c->batch, c->dy.data, c->x.data, c->dw.data, c->dbias.data, NULL}, 48);
    run(kern, call);
}

static void linear_check_forward(const linear_case *c)
{
    for (uint64_t t = 0; t < N_TOKENS; t++)
        for (uint64_t j = 0; j < N; j++) {
            double want = get(&c->bias, j) + get(&c->residual, t * N + j);
            for (uint64_t k = 0; k < K; k++) want += get(&c->x, t * K + k) * get(&c->w, j * K + k);
            assert_near(get(&c->y, t * N + j), want, 40 * K * ldexp(1, -24) + rounding(c->y.dtype, want));
        }
}

static void linear_check_backward(const linear_case *c)
{
    for (uint64_t t = 0; t < N_TOKENS; t++)
        for (uint64_t k = 0; k < K; k++) {
            double want = 0;
            for (uint64_t j = 0; j < N; j++) want += get(&c->dy, t * N + j) * get(&c->w, j * K + k);
            assert_near(get(&c->dx, t * K + k), want, 20 * N * ldexp(1, -24) + rounding(c->dx.dtype, want));
        }
    for (uint64_t j = 0; j < N; j++) {
        double bias = 0;
        for (uint64_t t = 0; t < N_TOKENS; t++) bias += get(&c->dy, t * N + j);
        assert_near(get(&c->dbias, j), bias, 20 * T * ldexp(1, -24) + rounding(c->dbias.dtype, bias));
        for (uint64_t k = 0; k < K; k++) {
            double want = 0;
            for (uint64_t t = 0; t < N_TOKENS; t++) want += get(&c->dy, t * N + j) * get(&c->x, t * K + k);
            assert_near(get(&c->dw, j * K + k), want, 20 * T * ldexp(1, -24) + rounding(c->dw.dtype, want));
        }
    }
}

static void linear_free(linear_case *c)
{
    array *all[] = {&c->x, &c->w, &c->bias, &c->residual, &c->dy, &c->y, &c->dx, &c->dw, &c->dbias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->data);
    free(c->batch);
}

static void linear_on(lzt_isa isa, lzt_dtype dtype, lzt_dtype grad)
{
    linear_case c = linear_make(dtype, grad), d = linear_make(dtype, grad);
    array y = copy_of(&c.y), dx = copy_of(&c.dx);
    lzt_kern *one = create(isa, 1), *two = create(isa, 2);
    linear_run(one, &c, dtype, grad);
    linear_run(two, &d, dtype, grad);
    linear_check_forward(&c);
    linear_check_backward(&c);
    for (uint64_t i = N_TOKENS * N; i < T * N; i++) assert_true(get(&c.y, i) == get(&y, i));
    for (uint64_t i = N_TOKENS * K; i < T * K; i++) assert_true(get(&c.dx, i) == get(&dx, i));
    assert_memory_equal(c.y.data, d.y.data, c.y.count * lzt_dtype_bytes(dtype));
    assert_memory_equal(c.dx.data, d.dx.data, c.dx.count * lzt_dtype_bytes(dtype));
    assert_memory_equal(c.dw.data, d.dw.data, c.dw.count * lzt_dtype_bytes(grad));
    assert_memory_equal(c.dbias.data, d.dbias.data, c.dbias.count * lzt_dtype_bytes(grad));
    lzt_kern_destroy(one);
    lzt_kern_destroy(two);
    linear_free(&c);
    linear_free(&d);
    free(y.data);
    free(dx.data);
}

static const lzt_dtype dtypes[][2] = {
    {LZT_DTYPE_F32, LZT_DTYPE_F32}, {LZT_DTYPE_BF16, LZT_DTYPE_F32}, {LZT_DTYPE_BF16, LZT_DTYPE_BF16}};

static void test_linear(void **state)
{
    (void)state;
    for (int isa = 0; isa <= LZT_ISA_AVX512; isa++)
        for (int i = 0; lzt__isa_supported((lzt_isa)isa) && i < 3; i++)
            linear_on((lzt_isa)isa, dtypes[i][0], dtypes[i][1]);
}

/* ---- loss chunk ---- */

enum { CT = 21, CN = 17, H = 13, V = 1103 }; /* the vocabulary crosses a block of exponentials */

typedef struct loss_case {
    lzt_batch_header *batch;
    array h, w, dh, dw;
    double loss;
} loss_case;

/* weight: of every token's loss; 0: each token has another one */
static loss_case loss_make(lzt_dtype dtype, float weight)
{
    seed = 5;
    loss_case c = {make_batch(CT, CN),  make(CT * H, dtype),        make(V * H, dtype),
                   make(CT * H, dtype), make(V * H, LZT_DTYPE_F32), 123};
    for (uint64_t i = 0; i < CT * H; i++) set(&c.h, i, 3 * get(&c.h, i));
    c.batch->loss_scale = 0.125f;
    for (int t = 0; t < CT; t++) lzt_batch_target(c.batch, CT)[t] = t % 3 == 1 ? -1 : (t * 577) % V;
    lzt_batch_target(c.batch, CT)[CN + 1] = V + 5; /* past n: not to be looked at */
    static const float odd[] = {1, 0.5f, 0.1f, 2.75f, 1e-6f, 0.3333f, 40};
    for (int t = 0; t < CT; t++) /* a token without loss has none to weigh: what stands there is not read */
        lzt_batch_weight(c.batch, CT)[t] = t % 3 == 1 ? NAN : weight > 0 ? weight : odd[t % 7];
    return c;
}

static void loss_free(loss_case *c)
{
    free(c->batch), free(c->h.data), free(c->w.data), free(c->dh.data), free(c->dw.data);
}

/* all chunks of count tokens, in order */
static void loss_run(lzt_kern *kern, loss_case *c, uint64_t count, bool backward)
{
    for (uint64_t begin = 0; begin < CT; begin += count) {
        lzt_kern_call call = {.op = LZT_OP_LOSS_CHUNK,
                              .dtype = c->h.dtype,
                              .grad_dtype = LZT_DTYPE_F32,
                              .ptr = {c->batch, c->h.data, c->w.data, &c->loss, backward ? c->dh.data : NULL,
                                      backward ? c->dw.data : NULL},
                              .dim = {CT, H, V, begin, count, begin == 0}};
        run(kern, call);
    }
}

static void softmax_reference(const loss_case *c, uint64_t t, double *p, double *loss)
{
    double max = -INFINITY, sum = 0;
    for (uint64_t v = 0; v < V; v++) {
        p[v] = 0;
        for (uint64_t k = 0; k < H; k++) p[v] += get(&c->h, t * H + k) * get(&c->w, v * H + k);
        max = fmax(max, p[v]);
    }
    int32_t target = lzt_batch_target(c->batch, CT)[t];
    *loss = max - p[target];
    for (uint64_t v = 0; v < V; v++) sum += p[v] = exp(p[v] - max);
    for (uint64_t v = 0; v < V; v++) p[v] /= sum;
    *loss += log(sum);
}

/* worst absolute errors against the double reference */
static void loss_check(const loss_case *c, const array *dh_before)
{
    double *dw = calloc(V * H, sizeof *dw), *p = calloc(V, sizeof *p), total = 0, scale = c->batch->loss_scale;
    double largest = 1; /* weight */
    double step = c->h.dtype == LZT_DTYPE_BF16 ? ldexp(1, -8) : ldexp(1, -20);
    for (uint64_t t = 0; t < CN; t++) {
        int32_t target = lzt_batch_target(c->batch, CT)[t];
        double loss, dh[H] = {0}, weight = (double)lzt_batch_weight(c->batch, CT)[t];
        if (target >= 0) {
            softmax_reference(c, t, p, &loss);
            total += weight * loss;
            p[target] -= 1;
            for (uint64_t v = 0; v < V; v++)
                for (uint64_t k = 0; k < H; k++) {
                    dh[k] += weight * scale * p[v] * get(&c->w, v * H + k);
                    dw[v * H + k] += weight * scale * p[v] * get(&c->h, t * H + k);
                }
        }
        for (uint64_t k = 0; k < H; k++)
            assert_near(get(&c->dh, t * H + k), dh[k], target < 0 ? 0 : weight * scale * 2 * step);
        if (target >= 0) largest = fmax(largest, weight);
    }
    assert_near(c->loss, total, total * 1e-6);
    for (uint64_t i = 0; i < V * H; i++) assert_near(get(&c->dw, i), dw[i], largest * scale * 8 * step);
    for (uint64_t i = CN * H; i < CT * H; i++) assert_true(get(&c->dh, i) == get(dh_before, i));
    free(dw);
    free(p);
}

static void loss_on(lzt_isa isa, lzt_dtype dtype, float weight)
{
    lzt_kern *one = create(isa, 1), *two = create(isa, 2);
    static const uint64_t counts[] = {CT, 5, 1, 64};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        loss_case c = loss_make(dtype, weight), d = loss_make(dtype, weight), e = loss_make(dtype, weight);
        array before = copy_of(&c.dh);
        loss_run(one, &c, counts[i], true);
        loss_check(&c, &before);
        loss_run(two, &d, counts[i], true);
        assert_true(c.loss == d.loss);
        assert_memory_equal(c.dh.data, d.dh.data, CT * H * lzt_dtype_bytes(dtype));
        assert_memory_equal(c.dw.data, d.dw.data, V * H * sizeof(float));
        loss_run(two, &e, counts[i], false);
        assert_true(c.loss == e.loss);
        loss_free(&c), loss_free(&d), loss_free(&e), free(before.data);
    }
    lzt_kern_destroy(one);
    lzt_kern_destroy(two);
}

static void test_loss_chunk(void **state)
{
    (void)state;
    for (int isa = 0; isa <= LZT_ISA_AVX512; isa++) {
        if (!lzt__isa_supported((lzt_isa)isa)) continue;
        for (float weight = 0; weight <= 1; weight++) {
            loss_on((lzt_isa)isa, LZT_DTYPE_F32, weight);
            loss_on((lzt_isa)isa, LZT_DTYPE_BF16, weight);
        }
    }
}

/* Weights times a power of two, and the scale by as much less: the same bits of the gradients, and a loss of that much
 * more. */
static void test_loss_weights_scaled(void **state)
{
    (void)state;
    static const int powers[] = {-20, -1, 3};
    lzt_kern *kern = create(LZT_ISA_V2, 2);
    for (int i = 0; i < 12; i++) {
        lzt_dtype dtype = i % 2 ? LZT_DTYPE_BF16 : LZT_DTYPE_F32;
        loss_case c = loss_make(dtype, i / 2 % 2 ? 1 : 0), d = loss_make(dtype, i / 2 % 2 ? 1 : 0);
        float factor = ldexpf(1, powers[i / 4]);
        for (int t = 0; t < CT; t++) lzt_batch_weight(d.batch, CT)[t] *= factor;
        d.batch->loss_scale /= factor;
        loss_run(kern, &c, 5, true);
        loss_run(kern, &d, 5, true);
        assert_true(d.loss == c.loss * (double)factor);
        assert_memory_equal(c.dh.data, d.dh.data, CT * H * lzt_dtype_bytes(dtype));
        assert_memory_equal(c.dw.data, d.dw.data, V * H * sizeof(float));
        loss_free(&c), loss_free(&d);
    }
    lzt_kern_destroy(kern);
}

static double loss_at(lzt_kern *kern, loss_case *c, float *where, float value)
{
    float keep = *where;
    *where = value;
    loss_run(kern, c, CT, false);
    *where = keep;
    return c->loss * c->batch->loss_scale;
}

static void loss_differences(float weight)
{
    lzt_kern *kern = create(LZT_ISA_V2, 1);
    loss_case c = loss_make(LZT_DTYPE_F32, weight);
    c.batch->loss_scale = weight > 0 ? 0.125f : 1.0f / 256; /* the largest weight is 40 */
    loss_run(kern, &c, CT, true);
    const float step = 1.0f / 128;
    for (int i = 0; i < 40; i++) {
        float *h = (float *)c.h.data + (i * 31) % (CN * H), *w = (float *)c.w.data + (i * 577 % V) * H + i % H;
        double by_h = (loss_at(kern, &c, h, *h + step) - loss_at(kern, &c, h, *h - step)) / (2 * step);
        assert_near(get(&c.dh, (uint64_t)(h - (float *)c.h.data)), by_h, 2e-4);
        double by_w = (loss_at(kern, &c, w, *w + step) - loss_at(kern, &c, w, *w - step)) / (2 * step);
        assert_near(get(&c.dw, (uint64_t)(w - (float *)c.w.data)), by_w, 2e-4);
    }
    loss_free(&c);
    lzt_kern_destroy(kern);
}

static void test_loss_finite_differences(void **state)
{
    (void)state;
    loss_differences(1);
    loss_differences(0);
}

/* No token bears loss: the first chunk still overwrites loss and dw, the next leave them alone. */
static void test_loss_without_targets(void **state)
{
    (void)state;
    lzt_kern *kern = create(LZT_ISA_V2, 2);
    loss_case c = loss_make(LZT_DTYPE_F32, 1);
    for (int t = 0; t < CT; t++) lzt_batch_target(c.batch, CT)[t] = -1;
    loss_run(kern, &c, 8, true);
    assert_true(c.loss == 0);
    for (uint64_t i = 0; i < V * H; i++) assert_true(get(&c.dw, i) == 0);
    for (uint64_t i = 0; i < CN * H; i++) assert_true(get(&c.dh, i) == 0);
    loss_free(&c);
    lzt_kern_destroy(kern);
}

static void test_loss_not_finite(void **state)
{
    (void)state;
    lzt_kern *kern = create(LZT_ISA_V2, 1);
    loss_case c = loss_make(LZT_DTYPE_F32, 1);
    ((float *)c.h.data)[0] = NAN;
    loss_run(kern, &c, CT, true);
    assert_true(isnan(c.loss));
    assert_true(isnan(get(&c.dh, 0)));
    loss_free(&c);
    lzt_kern_destroy(kern);
}

static void test_loss_refuses_target(void **state)
{
    (void)state;
    lzt_kern *kern = create(LZT_ISA_V2, 1);
    loss_case c = loss_make(LZT_DTYPE_F32, 1);
    lzt_batch_target(c.batch, CT)[3] = V;
    lzt_kern_call call = {.op = LZT_OP_LOSS_CHUNK,
                          .dtype = LZT_DTYPE_F32,
                          .grad_dtype = LZT_DTYPE_F32,
                          .ptr = {c.batch, c.h.data, c.w.data, &c.loss},
                          .dim = {CT, H, V, 0, CT, 1}};
    call.scratch_bytes = lzt_kern_scratch_bytes(kern, &call);
    call.scratch = aligned_alloc(64, (call.scratch_bytes + 63) / 64 * 64);
    lzt_error err = {0};
    assert_int_equal(lzt_kern_run(kern, &call, NULL, &err), LZT_ERR_DATA);
    assert_non_null(strstr(err.message, "target"));
    free(call.scratch);
    loss_free(&c);
    lzt_kern_destroy(kern);
}

/* ---- greedy ---- */

static void greedy_on(lzt_isa isa, lzt_dtype dtype, bool with_logits)
{
    enum { GT = 57, GH = 9, GV = 35, DOCUMENTS = 19 };
    lzt_batch_header *batch = make_batch(GT, 3 * DOCUMENTS - 2);
    batch->document_count = DOCUMENTS;
    for (int d = 0; d < DOCUMENTS; d++) lzt_batch_document(batch, GT)[d + 1] = d < DOCUMENTS - 1 ? 3 * (d + 1) : 55;
    array h = make(GT * GH, dtype), w = make(GV * GH, dtype), logits = make(GT * GV, LZT_DTYPE_F32);
    for (uint64_t k = 0; k < GH; k++) set(&w, 4 * GH + k, 4 * get(&w, 4 * GH + k));
    for (uint64_t k = 0; k < GH; k++) set(&w, 30 * GH + k, get(&w, 4 * GH + k)); /* a tie of 4 and 30 */
    for (uint64_t k = 0; k < GH; k++) set(&h, 2 * GH + k, get(&w, 4 * GH + k));
    int32_t id[GT];
    memset(id, 0xee, sizeof id);
    lzt_kern *kern = create(isa, 2);
    run(kern, (lzt_kern_call){.op = LZT_OP_GREEDY,
                              .dtype = dtype,
                              .grad_dtype = LZT_DTYPE_F32,
                              .ptr = {batch, h.data, w.data, id, with_logits ? logits.data : NULL},
                              .dim = {GT, GH, GV}});
    for (uint64_t d = 0; d < DOCUMENTS; d++) {
        uint64_t t = (uint64_t)lzt_batch_document(batch, GT)[d + 1] - 1;
        double logit[GV] = {0}, most = -INFINITY;
        for (uint64_t v = 0; v < GV; v++) {
            for (uint64_t k = 0; k < GH; k++) logit[v] += get(&h, t * GH + k) * get(&w, v * GH + k);
            most = fmax(most, logit[v]);
            if (with_logits) assert_near(get(&logits, d * GV + v), logit[v], 1e-4);
        }
        assert_in_range(id[d], 0, GV - 1);
        assert_near(logit[id[d]], most, 1e-4);
    }
    assert_int_equal(id[0], 4);
    assert_int_equal(id[DOCUMENTS], (int32_t)0xeeeeeeee);
    lzt_kern_destroy(kern);
    free(batch), free(h.data), free(w.data), free(logits.data);
}

static void test_greedy(void **state)
{
    (void)state;
    for (int isa = 0; isa <= LZT_ISA_AVX512; isa++)
        for (int i = 0; lzt__isa_supported((lzt_isa)isa) && i < 4; i++)
            greedy_on((lzt_isa)isa, i & 1 ? LZT_DTYPE_BF16 : LZT_DTYPE_F32, i & 2);
}

/* ---- cast ---- */

static void cast_on(lzt_isa isa)
{
    enum { COUNT = 10007 };
    lzt_kern *kern = create(isa, 2);
    array src = make(COUNT, LZT_DTYPE_F32), f32 = make(COUNT + 1, LZT_DTYPE_F32),
          bf16 = make(COUNT + 1, LZT_DTYPE_BF16);
    ((float *)src.data)[5] = NAN;
    ((float *)src.data)[6] = INFINITY;
    ((float *)f32.data)[COUNT] = 42, ((uint16_t *)bf16.data)[COUNT] = 42;
    run(kern, (lzt_kern_call){.op = LZT_OP_CAST,
                              .dtype = LZT_DTYPE_F32,
                              .grad_dtype = LZT_DTYPE_F32,
                              .ptr = {src.data, f32.data},
                              .dim = {COUNT}});
    run(kern, (lzt_kern_call){.op = LZT_OP_CAST,
                              .dtype = LZT_DTYPE_F32,
                              .grad_dtype = LZT_DTYPE_BF16,
                              .ptr = {src.data, bf16.data},
                              .dim = {COUNT}});
    assert_memory_equal(src.data, f32.data, COUNT * 4);
    for (uint64_t i = 0; i < COUNT; i++)
        assert_int_equal(((uint16_t *)bf16.data)[i], lzt_bf16_from_f32(((float *)src.data)[i]));
    assert_true(((float *)f32.data)[COUNT] == 42 && ((uint16_t *)bf16.data)[COUNT] == 42);
    lzt_kern_destroy(kern);
    free(src.data), free(f32.data), free(bf16.data);
}

static void test_cast(void **state)
{
    (void)state;
    for (int isa = 0; isa <= LZT_ISA_AVX512; isa++)
        if (lzt__isa_supported((lzt_isa)isa)) cast_on((lzt_isa)isa);
}

/* ---- calls and options that must be refused ---- */

static void refused(lzt_kern *kern, const lzt_kern_call *call, const char *text)
{
    lzt_error err = {0};
    assert_int_equal(lzt_kern_run(kern, call, NULL, &err), LZT_ERR_INTERNAL);
    if (!strstr(err.message, text)) fail_msg("\"%s\" does not say \"%s\"", err.message, text);
}

static void test_bad_calls(void **state)
{
    (void)state;
    lzt_kern *kern = create(LZT_ISA_V2, 1);
    linear_case c = linear_make(LZT_DTYPE_F32, LZT_DTYPE_F32);
    lzt_kern_call call = {.op = LZT_OP_LINEAR_BWD_X,
                          .dtype = LZT_DTYPE_F32,
                          .grad_dtype = LZT_DTYPE_F32,
                          .ptr = {c.batch, c.dy.data, c.w.data, c.dx.data},
                          .dim = {T, K, N}};
    call.scratch_bytes = lzt_kern_scratch_bytes(kern, &call);
    char *scratch = aligned_alloc(64, (call.scratch_bytes + 127) / 64 * 64);
    call.scratch = scratch + 4;
    refused(kern, &call, "scratch");
    call.scratch = scratch;
    call.scratch_bytes--;
    refused(kern, &call, "scratch");
    call.scratch_bytes++;
    call.dtype = LZT_DTYPE_F16;
    refused(kern, &call, "F16");
    call.dtype = LZT_DTYPE_F32;
    c.batch->token_count = T + 1;
    refused(kern, &call, "capacity");
    c.batch->token_count = 0;
    refused(kern, &call, "capacity");
    free(scratch);
    linear_free(&c);
    lzt_kern_destroy(kern);
}

static lzt_status create_with(const char *isa, const char *gemm, lzt_error *err)
{
    lzt_kern_cpu_options options = LZT_KERN_CPU_OPTIONS_INIT;
    options.isa = isa;
    options.gemm = gemm;
    lzt_kern *kern = NULL;
    lzt_status status = lzt_kern_cpu_create(&options, &kern, err);
    lzt_kern_destroy(kern);
    return status;
}

static void test_options(void **state)
{
    (void)state;
    lzt_error err = {0};
    unsetenv("LZT_CPU_ISA");
    assert_int_equal(create_with("auto", "auto", &err), LZT_OK);
    assert_int_equal(create_with(NULL, NULL, NULL), LZT_OK);
    assert_int_equal(create_with("sse9", NULL, &err), LZT_ERR_USAGE);
    assert_non_null(strstr(err.hint, "avx512-bf16"));
    assert_int_equal(create_with(NULL, "blas", &err), LZT_ERR_USAGE);
    for (int isa = 0; isa < LZT_ISA_COUNT; isa++)
        assert_int_equal(create_with(lzt__isa_name((lzt_isa)isa), "own", &err),
                         lzt__isa_supported((lzt_isa)isa) ? LZT_OK : LZT_ERR_USAGE);
    setenv("LZT_CPU_ISA", "x86-64-v2", 1);
    lzt_kern *kern;
    assert_int_equal(lzt_kern_cpu_create(NULL, &kern, &err), LZT_OK);
    assert_non_null(strstr(kern->ops->description(kern), "x86-64-v2"));
    lzt_kern_destroy(kern);
    setenv("LZT_CPU_ISA", "x86", 1);
    assert_int_equal(create_with(NULL, "own", &err), LZT_ERR_USAGE);
    assert_string_equal(err.where, "LZT_CPU_ISA");
    unsetenv("LZT_CPU_ISA");
}

/* 12 vectors of at least 4 lanes, a multiply and an add each, on every thread. */
static void test_peak(void **state)
{
    (void)state;
    lzt_kern *one = create(LZT_ISA_V2, 1), *two = create(LZT_ISA_V2, 2);
    assert_true(lzt_kern_cpu_peak(one, LZT_DTYPE_F32, 10) == 10.0 * 12 * 4 * 2);
    assert_true(lzt_kern_cpu_peak(two, LZT_DTYPE_BF16, 10) == 2 * 10.0 * 12 * 4 * 2);
    lzt_kern_destroy(one);
    lzt_kern_destroy(two);
}

static void test_names_and_flops(void **state)
{
    (void)state;
    for (int op = 0; op < LZT_OP_COUNT; op++) assert_non_null(lzt_op_name((lzt_op)op));
    assert_string_equal(lzt_op_name(LZT_OP_LOSS_CHUNK), "loss_chunk");
    assert_string_equal(lzt_op_name((lzt_op)999), "unknown");
    lzt_kern_call call = {.op = LZT_OP_LINEAR_FWD, .dim = {100, 7, 11}};
    assert_true(lzt_op_flops(&call, 50) == 2.0 * 50 * 7 * 11);
    call = (lzt_kern_call){.op = LZT_OP_LOSS_CHUNK, .dim = {100, 7, 11, 40, 20, 0}};
    assert_true(lzt_op_flops(&call, 50) == 2.0 * 10 * 7 * 11);
    assert_true(lzt_op_flops(&call, 40) == 0);
    call.ptr[4] = call.ptr[5] = &call;
    assert_true(lzt_op_flops(&call, 100) == 6.0 * 20 * 7 * 11);
    call = (lzt_kern_call){.op = LZT_OP_ATTENTION_FWD, .dim = {100, 3, 1, 8, 0, 0, 0, 2, 0}};
    assert_true(lzt_op_flops(&call, 4) == 4.0 * 3 * 8 * (1 + 2 + 2 + 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_loss_chunk),
        cmocka_unit_test(test_loss_weights_scaled),
        cmocka_unit_test(test_loss_finite_differences),
        cmocka_unit_test(test_loss_without_targets),
        cmocka_unit_test(test_loss_not_finite),
        cmocka_unit_test(test_loss_refuses_target),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_cast),
        cmocka_unit_test(test_bad_calls),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_peak),
        cmocka_unit_test(test_names_and_flops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
