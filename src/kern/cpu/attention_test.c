/* Attention, forward and backward.
 *
 * Goal: the operators equal a plain float64 attention on every instruction set of this CPU, bit for bit the same with
 * 1, 2 and 3 threads and for a document packed with others or alone; nothing else is written; nothing is NaN.
 * Method: the reference (whole score matrix, softmax by definition) is itself checked against finite differences; then
 * shapes that cross every edge of panels, blocks and chunks.
 */
#include "kern/cpu/op_check.h"

enum { DOCUMENTS_MAX = 8 };

typedef struct shape {
    uint64_t q, k, d, window, tile, capacity;
    uint64_t lengths[DOCUMENTS_MAX]; /* ends with 0 */
    double spread;                   /* of q and k; 0: 1 */
} shape;

static uint64_t documents_of(const shape *s)
{
    uint64_t count = 0;
    while (count < DOCUMENTS_MAX && s->lengths[count]) count++;
    return count;
}

static uint64_t tokens_of(const shape *s)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < documents_of(s); i++) n += s->lengths[i];
    return n;
}

static double scale_of(const shape *s)
{
    return 1 / sqrt((double)s->d);
}

/* ---- the reference: qkv [n, (Q+2K) D], o and do [n, Q D], dqkv as qkv, one row of scores at a time ---- */

typedef struct reference {
    double *qkv, *o, *lse, *d_o, *dqkv;
    uint64_t n, ld;
} reference;

static double dot(const double *a, const double *b, uint64_t count)
{
    double sum = 0;
    for (uint64_t i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

/* p[j] for keys first .. t of document-relative query t; returns the lse */
static double softmax_row(const shape *s, const reference *r, uint64_t token, uint64_t document, uint64_t head,
                          uint64_t *first, double *p)
{
    uint64_t kv_column = (s->q + head / (s->q / s->k)) * s->d, t = token - document;
    *first = document + (s->window && t + 1 > s->window ? t + 1 - s->window : 0);
    double max = -INFINITY, sum = 0;
    for (uint64_t j = *first; j <= token; j++) {
        p[j - *first] = scale_of(s) * dot(r->qkv + token * r->ld + head * s->d, r->qkv + j * r->ld + kv_column, s->d);
        if (p[j - *first] > max) max = p[j - *first];
    }
    for (uint64_t j = *first; j <= token; j++) sum += p[j - *first] = exp(p[j - *first] - max);
    for (uint64_t j = *first; j <= token; j++) p[j - *first] /= sum;
    return max + log(sum);
}

static void row_forward(const shape *s, reference *r, uint64_t token, uint64_t document, uint64_t head, double *p)
{
    uint64_t first, v_column = (s->q + s->k + head / (s->q / s->k)) * s->d;
    r->lse[head * r->n + token] = softmax_row(s, r, token, document, head, &first, p);
    double *o = r->o + token * s->q * s->d + head * s->d;
    for (uint64_t i = 0; i < s->d; i++) {
        o[i] = 0;
        for (uint64_t j = first; j <= token; j++) o[i] += p[j - first] * r->qkv[j * r->ld + v_column + i];
    }
}

static void row_backward(const shape *s, reference *r, uint64_t token, uint64_t document, uint64_t head, double *p)
{
    uint64_t first, kv = head / (s->q / s->k), k_column = (s->q + kv) * s->d, v_column = (s->q + s->k + kv) * s->d;
    softmax_row(s, r, token, document, head, &first, p);
    const double *d_o = r->d_o + token * s->q * s->d + head * s->d, *o = r->o + token * s->q * s->d + head * s->d;
    double delta = dot(d_o, o, s->d), *dq = r->dqkv + token * r->ld + head * s->d;
    for (uint64_t j = first; j <= token; j++) {
        double *dk = r->dqkv + j * r->ld + k_column, *dv = r->dqkv + j * r->ld + v_column;
        double ds = p[j - first] * (dot(d_o, r->qkv + j * r->ld + v_column, s->d) - delta) * scale_of(s);
        for (uint64_t i = 0; i < s->d; i++) {
            dv[i] += p[j - first] * d_o[i];
            dq[i] += ds * r->qkv[j * r->ld + k_column + i];
            dk[i] += ds * r->qkv[token * r->ld + head * s->d + i];
        }
    }
}

typedef void row_fn(const shape *s, reference *r, uint64_t token, uint64_t document, uint64_t head, double *p);

static void each_row(const shape *s, reference *r, row_fn *fn)
{
    double *p = calloc(r->n, sizeof *p);
    assert_non_null(p);
    for (uint64_t i = 0, document = 0; i < documents_of(s); document += s->lengths[i++])
        for (uint64_t t = 0; t < s->lengths[i]; t++)
            for (uint64_t head = 0; head < s->q; head++) fn(s, r, document + t, document, head, p);
    free(p);
}

static double *doubles(uint64_t count)
{
    double *p = calloc(count + 1, sizeof *p);
    assert_non_null(p);
    return p;
}

static reference reference_create(const shape *s)
{
    reference r = {.n = tokens_of(s), .ld = (s->q + 2 * s->k) * s->d};
    r.qkv = doubles(r.n * r.ld);
    r.dqkv = doubles(r.n * r.ld);
    r.o = doubles(r.n * s->q * s->d);
    r.d_o = doubles(r.n * s->q * s->d);
    r.lse = doubles(r.n * s->q);
    return r;
}

static void reference_destroy(reference *r)
{
    free(r->qkv);
    free(r->dqkv);
    free(r->o);
    free(r->d_o);
    free(r->lse);
}

static double objective(const shape *s, reference *r)
{
    each_row(s, r, row_forward);
    return dot(r->o, r->d_o, r->n * s->q * s->d);
}

static void reference_has_the_gradient_of_its_forward(void **state)
{
    (void)state;
    const shape shapes[] = {{.q = 6, .k = 2, .d = 3, .lengths = {5, 1, 4}},
                            {.q = 2, .k = 1, .d = 4, .window = 3, .lengths = {7, 3}}};
    for (size_t c = 0; c < 2; c++) {
        const shape *s = &shapes[c];
        reference r = reference_create(s);
        uint64_t seed = 5;
        for (uint64_t i = 0; i < r.n * r.ld; i++) r.qkv[i] = check_uniform(&seed);
        for (uint64_t i = 0; i < r.n * s->q * s->d; i++) r.d_o[i] = check_uniform(&seed);
        objective(s, &r);
        each_row(s, &r, row_backward);
        for (uint64_t i = 0; i < r.n * r.ld; i++) {
            const double step = 1e-6, x = r.qkv[i];
            r.qkv[i] = x + step;
            double above = objective(s, &r);
            r.qkv[i] = x - step;
            double slope = (above - objective(s, &r)) / (2 * step);
            r.qkv[i] = x;
            assert_true(fabs(slope - r.dqkv[i]) < 1e-8);
        }
        reference_destroy(&r);
    }
}

/* ---- the operators ---- */

/* Buffers of one problem. q and k lie in qk, v in qkv at its usual place (as after head norm), or all three in qkv. */
typedef struct problem {
    shape s;
    lzt_dtype dtype;
    uint64_t n, documents, ld, ld_grad;
    bool split;
    check_buf batch, qkv, qk, o, lse, d_o, dqkv;
} problem;

enum { GAP = 3 }; /* columns between rows of dqkv that nobody may touch */

static problem problem_create(const shape *s, lzt_dtype dtype, bool split, uint64_t seed)
{
    problem p = {.s = *s, .dtype = dtype, .n = tokens_of(s), .documents = documents_of(s), .split = split};
    if (!p.s.capacity) p.s.capacity = p.n;
    p.ld = (s->q + 2 * s->k) * s->d;
    p.ld_grad = p.ld + GAP;
    uint64_t qk_columns = (s->q + s->k) * s->d, o_columns = s->q * s->d;
    double spread = s->spread > 0 ? s->spread : 1;
    p.batch = check_batch(p.s.capacity, s->lengths, p.documents);
    p.qkv = check_alloc(dtype, p.s.capacity * p.ld);
    p.qk = check_alloc(dtype, p.s.capacity * qk_columns);
    p.o = check_alloc(dtype, p.s.capacity * o_columns);
    p.lse = check_alloc(LZT_DTYPE_F32, p.s.capacity * s->q);
    p.d_o = check_alloc(dtype, p.s.capacity * o_columns);
    p.dqkv = check_alloc(dtype, p.s.capacity * p.ld_grad);
    for (uint64_t t = 0; t < p.n; t++) {
        check_fill(&p.d_o, t * o_columns, o_columns, 0, 1, seed + 3 * t);
        check_fill(&p.qkv, t * p.ld + qk_columns, s->k * s->d, 0, 1, seed + 3 * t + 1);
        check_fill(split ? &p.qk : &p.qkv, t * (split ? qk_columns : p.ld), qk_columns, 0, spread, seed + 3 * t + 2);
    }
    return p;
}

static void problem_destroy(problem *p)
{
    check_buf *all[] = {&p->batch, &p->qkv, &p->qk, &p->o, &p->lse, &p->d_o, &p->dqkv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_free(all[i]);
}

static void *element(const check_buf *b, uint64_t index)
{
    return (char *)b->data + index * lzt_dtype_bytes(b->dtype);
}

static uint64_t size_of(const check_buf *b, uint64_t count)
{
    return count * lzt_dtype_bytes(b->dtype);
}

static lzt_kern_call forward_call(problem *p)
{
    const shape *s = &p->s;
    const check_buf *qk = p->split ? &p->qk : &p->qkv;
    uint64_t ld_qk = p->split ? (s->q + s->k) * s->d : p->ld;
    return (lzt_kern_call){.op = LZT_OP_ATTENTION_FWD,
                           .dtype = p->dtype,
                           .grad_dtype = p->dtype,
                           .ptr = {p->batch.data, qk->data, element(qk, s->q * s->d),
                                   element(&p->qkv, (s->q + s->k) * s->d), p->o.data, p->lse.data},
                           .dim = {s->capacity, s->q, s->k, s->d, ld_qk, ld_qk, p->ld, s->window, s->tile},
                           .real = {scale_of(s)}};
}

static lzt_kern_call backward_call(problem *p)
{
    const shape *s = &p->s;
    lzt_kern_call call = forward_call(p);
    call.op = LZT_OP_ATTENTION_BWD;
    call.ptr[6] = p->d_o.data;
    call.ptr[7] = p->dqkv.data;
    call.ptr[8] = element(&p->dqkv, s->q * s->d);
    call.ptr[9] = element(&p->dqkv, (s->q + s->k) * s->d);
    call.dim[5] = p->ld;
    call.dim[6] = p->ld_grad;
    return call;
}

static void run_both(lzt_kern *kern, problem *p)
{
    lzt_kern_call forward = forward_call(p), backward = backward_call(p);
    memset(p->o.data, 0xff, p->o.bytes);
    memset(p->lse.data, 0xff, p->lse.bytes);
    memset(p->dqkv.data, 0xff, p->dqkv.bytes);
    check_run(kern, &forward);
    check_run(kern, &backward);
}

static void only_its_rows_are_written(const problem *p)
{
    const shape *s = &p->s;
    check_untouched(&p->o, p->n * s->q * s->d, s->capacity * s->q * s->d);
    for (uint64_t head = 0; head < s->q; head++)
        check_untouched(&p->lse, head * s->capacity + p->n, (head + 1) * s->capacity);
    for (uint64_t t = 0; t < s->capacity; t++)
        check_untouched(&p->dqkv, t * p->ld_grad + (t < p->n ? p->ld : 0), (t + 1) * p->ld_grad);
}

static reference reference_of(const problem *p)
{
    const shape *s = &p->s;
    reference r = reference_create(s);
    uint64_t qk_columns = (s->q + s->k) * s->d;
    for (uint64_t t = 0; t < p->n; t++) {
        for (uint64_t c = 0; c < p->ld; c++)
            r.qkv[t * p->ld + c] =
                p->split && c < qk_columns ? check_get(&p->qk, t * qk_columns + c) : check_get(&p->qkv, t * p->ld + c);
        for (uint64_t c = 0; c < s->q * s->d; c++) r.d_o[t * s->q * s->d + c] = check_get(&p->d_o, t * s->q * s->d + c);
    }
    objective(s, &r);
    each_row(s, &r, row_backward);
    return r;
}

/* relative L2 of columns begin .. end - 1 of dqkv */
static double gradient_error(const problem *p, const reference *r, uint64_t begin, uint64_t end)
{
    double difference = 0, norm = 0;
    for (uint64_t t = 0; t < p->n; t++)
        for (uint64_t c = begin; c < end; c++) {
            double d = check_get(&p->dqkv, t * p->ld_grad + c) - r->dqkv[t * r->ld + c];
            difference += d * d;
            norm += r->dqkv[t * r->ld + c] * r->dqkv[t * r->ld + c];
        }
    /* where a token sees itself alone dq = dk = 0: measured against a tenth of do */
    return sqrt(difference / (norm + 1e-2 * (double)(p->n * (end - begin))));
}

static void equals_reference(const problem *p, const reference *r)
{
    const shape *s = &p->s;
    bool bf16 = p->dtype == LZT_DTYPE_BF16;
    uint64_t q = s->q * s->d, k = s->k * s->d;
    check_below(check_relative(&p->o, 0, r->o, p->n * q), bf16 ? 2.5e-3 : 5e-7);
    for (uint64_t head = 0; head < s->q; head++)
        for (uint64_t t = 0; t < p->n; t++) {
            double lse = r->lse[head * p->n + t];
            check_below(fabs(check_get(&p->lse, head * s->capacity + t) - lse), 1e-6 * (1 + fabs(lse)));
        }
    check_below(gradient_error(p, r, 0, q), bf16 ? 8e-3 : 1e-6);
    check_below(gradient_error(p, r, q, q + k), bf16 ? 8e-3 : 1e-6);
    check_below(gradient_error(p, r, q + k, q + 2 * k), bf16 ? 3e-3 : 1e-6);
}

static void run_shape(const check_kerns *all, const shape *s, lzt_dtype dtype, bool split)
{
    problem p = problem_create(s, dtype, split, 11), before = problem_create(s, dtype, split, 11);
    reference r = reference_of(&p);
    for (int i = 0; i < all->count; i++) {
        run_both(all->kern[i], &p);
        only_its_rows_are_written(&p);
        if (i && all->isa[i] == all->isa[i - 1]) {
            assert_memory_equal(p.o.data, before.o.data, p.o.bytes);
            assert_memory_equal(p.lse.data, before.lse.data, p.lse.bytes);
            assert_memory_equal(p.dqkv.data, before.dqkv.data, p.dqkv.bytes);
            continue;
        }
        equals_reference(&p, &r);
        memcpy(before.o.data, p.o.data, p.o.bytes);
        memcpy(before.lse.data, p.lse.data, p.lse.bytes);
        memcpy(before.dqkv.data, p.dqkv.data, p.dqkv.bytes);
    }
    reference_destroy(&r);
    problem_destroy(&p);
    problem_destroy(&before);
}

static const shape shapes[] = {
    {.q = 1, .k = 1, .d = 8, .lengths = {1}},
    {.q = 6, .k = 2, .d = 10, .lengths = {37, 1, 2, 61}, .capacity = 109},
    {.q = 6, .k = 2, .d = 10, .lengths = {15, 16, 17, 32, 33}, .window = 12, .tile = 16},
    {.q = 4, .k = 4, .d = 8, .lengths = {95, 96, 97, 1, 1}, .capacity = 300},
    {.q = 9, .k = 3, .d = 64, .lengths = {193, 100}},
    {.q = 3, .k = 1, .d = 64, .lengths = {400}, .window = 150, .tile = 40},
    {.q = 4, .k = 2, .d = 64, .lengths = {191, 1, 200}, .window = 1},
    {.q = 2, .k = 1, .d = 128, .lengths = {130, 3}, .tile = 1000},
    {.q = 2, .k = 2, .d = 256, .lengths = {101}},
    {.q = 2, .k = 1, .d = 12, .lengths = {577}, .window = 200},
    {.q = 2, .k = 1, .d = 1, .lengths = {5, 6}},
};

static void operators_equal_float64_f32(void **state)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) run_shape(*state, &shapes[i], LZT_DTYPE_F32, i % 2);
}

static void operators_equal_float64_bf16(void **state)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) run_shape(*state, &shapes[i], LZT_DTYPE_BF16, !(i % 2));
}

/* A document's rows do not depend on what it is packed with. */
static void packed_equals_alone(void **state)
{
    const check_kerns *all = *state;
    const shape packed = {.q = 6, .k = 2, .d = 16, .lengths = {50, 1, 203, 18}, .window = 0, .capacity = 280};
    for (int i = 0; i < all->count; i++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            lzt_dtype dtype = bf16 ? LZT_DTYPE_BF16 : LZT_DTYPE_F32;
            problem p = problem_create(&packed, dtype, false, 7);
            run_both(all->kern[i], &p);
            for (uint64_t d = 0, at = 0; d < 4; at += packed.lengths[d++]) {
                shape single = packed;
                memset(single.lengths, 0, sizeof single.lengths);
                single.lengths[0] = packed.lengths[d];
                single.capacity = packed.capacity - 20 * d; /* the capacity does not show either */
                problem alone = problem_create(&single, dtype, false, 7);
                memcpy(alone.qkv.data, element(&p.qkv, at * p.ld), size_of(&alone.qkv, alone.n * p.ld));
                memcpy(alone.d_o.data, element(&p.d_o, at * 96), size_of(&alone.d_o, alone.n * 96));
                run_both(all->kern[i], &alone);
                assert_memory_equal(alone.o.data, element(&p.o, at * 96), size_of(&alone.o, alone.n * 96));
                assert_memory_equal(alone.dqkv.data, element(&p.dqkv, at * p.ld_grad),
                                    size_of(&alone.dqkv, alone.n * p.ld_grad));
                problem_destroy(&alone);
            }
            problem_destroy(&p);
        }
}

/* The tile changes what is computed together, not what the forward gives. */
static void forward_does_not_depend_on_the_tile(void **state)
{
    const check_kerns *all = *state;
    shape s = {.q = 4, .k = 2, .d = 24, .lengths = {140, 77}, .window = 60};
    for (int i = 0; i < all->count; i++) {
        problem p = problem_create(&s, LZT_DTYPE_F32, false, 3), other = problem_create(&s, LZT_DTYPE_F32, false, 3);
        run_both(all->kern[i], &p);
        for (other.s.tile = 1; other.s.tile < 200; other.s.tile += 45) {
            run_both(all->kern[i], &other);
            assert_memory_equal(p.o.data, other.o.data, p.o.bytes);
            assert_memory_equal(p.lse.data, other.lse.data, p.lse.bytes);
        }
        problem_destroy(&p);
        problem_destroy(&other);
    }
}

/* Scores of +-1e5: forward exact to f32's resolution of the scores, everything finite, probabilities at most 1. */
static void large_scores_stay_finite(void **state)
{
    const check_kerns *all = *state;
    for (int i = 0; i < all->count; i++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            const shape s = {.q = 2, .k = 1, .d = 64, .lengths = {1, 130, 250, 1}, .spread = 200};
            problem p = problem_create(&s, bf16 ? LZT_DTYPE_BF16 : LZT_DTYPE_F32, false, 9);
            for (uint64_t t = 0; t < p.n; t++) /* all signs agree or all differ */
                for (uint64_t c = 0; c < 3 * s.d; c++)
                    check_set(&p.qkv, t * p.ld + c,
                              fabs(check_get(&p.qkv, t * p.ld + c)) * (c >= 2 * s.d && t % 3 == 0 ? -1 : 1));
            reference r = reference_of(&p);
            run_both(all->kern[i], &p);
            for (uint64_t j = 0; j < p.n * 2 * s.d; j++) assert_true(fabs(check_get(&p.o, j)) <= 1.0);
            for (uint64_t j = 0; j < p.n * 2; j++) assert_true(isfinite(check_get(&p.lse, j)));
            for (uint64_t j = 0; j < p.n; j++)
                for (uint64_t c = 0; c < p.ld; c++) assert_true(isfinite(check_get(&p.dqkv, j * p.ld_grad + c)));
            check_below(check_relative(&p.o, 0, r.o, p.n * 2 * s.d), bf16 ? 1e-2 : 1e-2);
            reference_destroy(&r);
            problem_destroy(&p);
        }
}

/* A NaN in one document's input shows in that document and in no other. */
static void nan_stays_in_its_document(void **state)
{
    const check_kerns *all = *state;
    const shape s = {.q = 2, .k = 1, .d = 16, .lengths = {40, 40, 40}};
    for (int i = 0; i < all->count; i++) {
        problem p = problem_create(&s, LZT_DTYPE_F32, false, 4);
        check_set(&p.qkv, 60 * p.ld + 5, NAN);
        run_both(all->kern[i], &p);
        for (uint64_t t = 0; t < p.n; t++) {
            bool other = t < 40 || t >= 80;
            assert_true(!other || isfinite(check_get(&p.o, t * 32)));
            assert_true(!other || isfinite(check_get(&p.dqkv, t * p.ld_grad)));
        }
        assert_true(isnan(check_get(&p.o, 60 * 32)));
        assert_true(isnan(check_get(&p.dqkv, 60 * p.ld_grad)));
        problem_destroy(&p);
    }
}

static void bad_calls_are_refused(void **state)
{
    const check_kerns *all = *state;
    const shape s = {.q = 6, .k = 2, .d = 8, .lengths = {5, 4}};
    problem p = problem_create(&s, LZT_DTYPE_F32, false, 4);
    check_buf scratch = check_alloc(LZT_DTYPE_U8, 1 << 22);
    for (int wrong = 0; wrong < 4; wrong++) {
        lzt_error err = {.status = LZT_OK};
        lzt_kern_call call = forward_call(&p);
        call.scratch = scratch.data;
        call.scratch_bytes = scratch.bytes;
        if (wrong == 0) call.dim[2] = 4;
        if (wrong == 1) call.real[0] = 0;
        if (wrong == 2) lzt_batch_document(p.batch.data, p.s.capacity)[1] = 9;
        if (wrong == 3) lzt_batch_document(p.batch.data, p.s.capacity)[2] = 8;
        assert_int_equal(lzt_kern_run(all->kern[0], &call, NULL, &err), LZT_ERR_INTERNAL);
        assert_string_equal(err.where, "attention_fwd");
        check_untouched(&p.o, 0, p.n * 48);
    }
    check_free(&scratch);
    problem_destroy(&p);
}

int main(void)
{
    check_kerns all = check_kerns_create();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_has_the_gradient_of_its_forward),
        cmocka_unit_test_prestate(operators_equal_float64_f32, &all),
        cmocka_unit_test_prestate(operators_equal_float64_bf16, &all),
        cmocka_unit_test_prestate(packed_equals_alone, &all),
        cmocka_unit_test_prestate(forward_does_not_depend_on_the_tile, &all),
        cmocka_unit_test_prestate(large_scores_stay_finite, &all),
        cmocka_unit_test_prestate(nan_stays_in_its_document, &all),
        cmocka_unit_test_prestate(bad_calls_are_refused, &all),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    check_kerns_destroy(&all);
    return failed;
}
