/* Attention over the key-value cache.
 *
 * Goal: a token that attends over the cache gets the bits that it has in its whole document, on every instruction set,
 * thread count and dtype, whatever else is in the batch and in the cache; only its rows are written.
 * Method: documents through ATTENTION_FWD; their keys and values through CACHE_STORE into permuted sequences; then
 * every position of every document through ATTENTION_CACHED, the whole cache standing there, future keys included.
 */
#include "kern/cpu/op_check.h"

enum { DOCUMENTS = 4 };

typedef struct shape {
    uint64_t q, k, d, window, lengths[DOCUMENTS];
} shape;

typedef struct problem {
    const shape *s;
    lzt_dtype dtype;
    uint64_t n, longest, ld, capacity;
    check_buf batch, qkv, o, lse; /* the whole documents */
    check_buf keys, values;       /* [DOCUMENTS + 1, longest + 2, k * d] */
    check_buf one, one_q, one_o;  /* a batch of single tokens */
} problem;

/* Document i lives in sequence DOCUMENTS - i; sequence 0 stays empty. */
static void set_sequences(check_buf *batch, uint64_t capacity, const uint64_t *document, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        lzt_batch_sequence(batch->data, capacity)[i] = (int32_t)(DOCUMENTS - document[i]);
}

static problem problem_create(const shape *s, lzt_dtype dtype)
{
    problem p = {.s = s, .dtype = dtype, .ld = (s->q + 2 * s->k) * s->d};
    static const uint64_t every[DOCUMENTS] = {0, 1, 2, 3};
    for (int i = 0; i < DOCUMENTS; i++) {
        p.n += s->lengths[i];
        if (s->lengths[i] > p.longest) p.longest = s->lengths[i];
    }
    p.capacity = p.n + 3;
    p.batch = check_batch(p.capacity, s->lengths, DOCUMENTS);
    set_sequences(&p.batch, p.capacity, every, DOCUMENTS);
    p.qkv = check_alloc(dtype, p.capacity * p.ld);
    p.o = check_alloc(dtype, p.capacity * s->q * s->d);
    p.lse = check_alloc(LZT_DTYPE_F32, p.capacity * s->q);
    p.keys = check_alloc(dtype, (DOCUMENTS + 1) * (p.longest + 2) * s->k * s->d);
    p.values = check_alloc(dtype, (DOCUMENTS + 1) * (p.longest + 2) * s->k * s->d);
    p.one = check_alloc(LZT_DTYPE_U8, lzt_batch_bytes(DOCUMENTS + 1));
    p.one_q = check_alloc(dtype, (DOCUMENTS + 1) * p.ld);
    p.one_o = check_alloc(dtype, (DOCUMENTS + 1) * s->q * s->d);
    check_fill(&p.qkv, 0, p.n * p.ld, 0, 1, 17);
    return p;
}

static void problem_destroy(problem *p)
{
    check_buf *all[] = {&p->batch, &p->qkv, &p->o, &p->lse, &p->keys, &p->values, &p->one, &p->one_q, &p->one_o};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_free(all[i]);
}

static void *element(const check_buf *b, uint64_t index)
{
    return (char *)b->data + index * lzt_dtype_bytes(b->dtype);
}

static double scale_of(const shape *s)
{
    return 1 / sqrt((double)s->d);
}

static void run_whole(lzt_kern *kern, problem *p)
{
    const shape *s = p->s;
    uint64_t k_at = s->q * s->d, v_at = (s->q + s->k) * s->d;
    lzt_kern_call attention = {
        .op = LZT_OP_ATTENTION_FWD,
        .dtype = p->dtype,
        .grad_dtype = p->dtype,
        .ptr = {p->batch.data, p->qkv.data, element(&p->qkv, k_at), element(&p->qkv, v_at), p->o.data, p->lse.data},
        .dim = {p->capacity, s->q, s->k, s->d, p->ld, p->ld, p->ld, s->window},
        .real = {scale_of(s), 1}};
    lzt_kern_call store = {
        .op = LZT_OP_CACHE_STORE,
        .dtype = p->dtype,
        .grad_dtype = p->dtype,
        .ptr = {p->batch.data, element(&p->qkv, k_at), element(&p->qkv, v_at), p->keys.data, p->values.data},
        .dim = {p->capacity, s->k * s->d, p->ld, p->ld, DOCUMENTS + 1, p->longest + 2}};
    memset(p->keys.data, 0xff, p->keys.bytes);
    memset(p->values.data, 0xff, p->values.bytes);
    check_run(kern, &attention);
    check_run(kern, &store);
    check_untouched(&p->keys, 0, (p->longest + 2) * s->k * s->d);
    check_untouched(&p->values, 0, (p->longest + 2) * s->k * s->d);
}

static lzt_kern_call cached_call(problem *p)
{
    const shape *s = p->s;
    return (lzt_kern_call){.op = LZT_OP_ATTENTION_CACHED,
                           .dtype = p->dtype,
                           .grad_dtype = p->dtype,
                           .ptr = {p->one.data, p->one_q.data, p->keys.data, p->values.data, p->one_o.data},
                           .dim = {DOCUMENTS + 1, s->q, s->k, s->d, p->ld, DOCUMENTS + 1, p->longest + 2, s->window},
                           .real = {scale_of(s)}};
}

/* The tokens at position t of the documents that have one, as a batch; document[] says which. Returns how many. */
static uint64_t take_position(problem *p, uint64_t t, uint64_t document[DOCUMENTS], uint64_t token[DOCUMENTS])
{
    uint64_t count = 0, row = p->ld * lzt_dtype_bytes(p->dtype);
    for (uint64_t i = 0, begin = 0; i < DOCUMENTS; begin += p->s->lengths[i++]) {
        if (t >= p->s->lengths[i]) continue;
        document[count] = i;
        token[count] = begin + t;
        lzt_batch_position(p->one.data)[count] = (int32_t)t;
        memcpy((char *)p->one_q.data + count * row, (char *)p->qkv.data + (begin + t) * row, row);
        count++;
    }
    for (uint64_t i = 0; i <= count; i++) lzt_batch_document(p->one.data, DOCUMENTS + 1)[i] = (int32_t)i;
    *(lzt_batch_header *)p->one.data =
        (lzt_batch_header){.token_count = (uint32_t)count, .document_count = (uint32_t)count};
    set_sequences(&p->one, DOCUMENTS + 1, document, count);
    return count;
}

static void check_shape(const check_kerns *all, const shape *s, lzt_dtype dtype)
{
    problem p = problem_create(s, dtype);
    uint64_t document[DOCUMENTS], token[DOCUMENTS], row = s->q * s->d * lzt_dtype_bytes(dtype);
    for (int v = 0; v < all->count; v++) {
        run_whole(all->kern[v], &p);
        for (uint64_t t = 0; t < p.longest; t++) {
            uint64_t count = take_position(&p, t, document, token);
            lzt_kern_call call = cached_call(&p);
            memset(p.one_o.data, 0xff, p.one_o.bytes);
            check_run(all->kern[v], &call);
            check_untouched(&p.one_o, count * s->q * s->d, (DOCUMENTS + 1) * s->q * s->d);
            for (uint64_t i = 0; i < count; i++)
                if (memcmp((char *)p.one_o.data + i * row, (char *)p.o.data + token[i] * row, row))
                    fail_msg("kern %d, q %d k %d d %d: document %d differs at position %d", v, (int)s->q, (int)s->k,
                             (int)s->d, (int)document[i], (int)t);
        }
    }
    problem_destroy(&p);
}

static const shape shapes[] = {
    {6, 2, 16, 0, {1, 100, 97, 37}}, {4, 4, 8, 0, {96, 193, 2, 20}},  {9, 3, 64, 0, {33, 5, 130, 1}},
    {34, 1, 12, 0, {7, 98, 40, 3}},  {4, 2, 24, 5, {1, 60, 103, 30}}, {2, 1, 20, 100, {250, 99, 101, 10}},
};

static void cached_equals_whole(void **state)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_shape(*state, &shapes[i], LZT_DTYPE_F32);
        check_shape(*state, &shapes[i], LZT_DTYPE_BF16);
    }
}

static void places_outside_the_cache_are_refused(void **state)
{
    const check_kerns *all = *state;
    problem p = problem_create(&shapes[0], LZT_DTYPE_F32);
    uint64_t document[DOCUMENTS], token[DOCUMENTS];
    run_whole(all->kern[0], &p);
    for (int bad = 0; bad < 3; bad++) {
        lzt_error err = {0};
        take_position(&p, 0, document, token);
        if (bad == 0) lzt_batch_sequence(p.one.data, DOCUMENTS + 1)[1] = DOCUMENTS + 1;
        if (bad == 1) lzt_batch_position(p.one.data)[1] = (int32_t)p.longest + 2;
        if (bad == 2) lzt_batch_sequence(p.one.data, DOCUMENTS + 1)[1] = -1;
        lzt_kern_call call = cached_call(&p);
        call.scratch_bytes = lzt_kern_scratch_bytes(all->kern[0], &call);
        check_buf scratch = check_alloc(LZT_DTYPE_U8, call.scratch_bytes);
        call.scratch = scratch.data;
        assert_int_equal(lzt_kern_run(all->kern[0], &call, NULL, &err), LZT_ERR_INTERNAL);
        assert_non_null(strstr(err.message, "no place"));
        check_free(&scratch);
    }
    problem_destroy(&p);
}

int main(void)
{
    check_kerns all = check_kerns_create();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(cached_equals_whole, &all),
        cmocka_unit_test_prestate(places_outside_the_cache_are_refused, &all),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    check_kerns_destroy(&all);
    return failed;
}
