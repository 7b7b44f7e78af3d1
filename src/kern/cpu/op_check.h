/* For the tests of operators: guarded buffers, batches, typed access, one call on every backend variant of this CPU.
 *
 * A buffer ends and begins with guard bytes that must survive; its content starts as NaN, so that what an operator
 * should not read shows in the result, and what it should not write is seen to be untouched (check_untouched).
 */
#ifndef LZT_KERN_CPU_OP_CHECK_H
#define LZT_KERN_CPU_OP_CHECK_H

#include "lazytrain/kern.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define CHECK_INLINE static inline __attribute__((unused))

enum { CHECK_GUARD = 256, CHECK_GUARD_BYTE = 0xa7 };

typedef struct check_buf {
    unsigned char *base;
    void *data; /* 64-byte aligned */
    uint64_t bytes;
    lzt_dtype dtype;
} check_buf;

/* count elements, every byte 0xff: NaN in F32, F64 and BF16 */
CHECK_INLINE check_buf check_alloc(lzt_dtype dtype, uint64_t count)
{
    check_buf b = {.bytes = count * lzt_dtype_bytes(dtype), .dtype = dtype};
    uint64_t whole = (b.bytes + 2 * CHECK_GUARD + 63) / 64 * 64;
    b.base = aligned_alloc(64, whole);
    assert_non_null(b.base);
    memset(b.base, CHECK_GUARD_BYTE, whole);
    b.data = b.base + CHECK_GUARD;
    memset(b.data, 0xff, b.bytes);
    return b;
}

CHECK_INLINE void check_guards(const check_buf *b)
{
    for (int i = 0; i < CHECK_GUARD; i++) {
        assert_int_equal(b->base[i], CHECK_GUARD_BYTE);
        assert_int_equal(b->base[CHECK_GUARD + b->bytes + (uint64_t)i], CHECK_GUARD_BYTE);
    }
}

CHECK_INLINE void check_free(check_buf *b)
{
    check_guards(b);
    free(b->base);
    b->base = NULL;
}

CHECK_INLINE double check_get(const check_buf *b, uint64_t i)
{
    switch (b->dtype) {
    case LZT_DTYPE_F32: return (double)((float *)b->data)[i];
    case LZT_DTYPE_F64: return ((double *)b->data)[i];
    default: return (double)lzt_bf16_to_f32(((uint16_t *)b->data)[i]);
    }
}

CHECK_INLINE void check_set(check_buf *b, uint64_t i, double x)
{
    switch (b->dtype) {
    case LZT_DTYPE_F32: ((float *)b->data)[i] = (float)x; break;
    case LZT_DTYPE_F64: ((double *)b->data)[i] = x; break;
    default: ((uint16_t *)b->data)[i] = lzt_bf16_from_f32((float)x);
    }
}

/* splitmix64; uniform in (-1, 1) */
CHECK_INLINE double check_uniform(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (double)(int64_t)z / 9223372036854775808.0;
}

/* count elements from first on, uniform in (mean - spread, mean + spread) */
CHECK_INLINE void check_fill(check_buf *b, uint64_t first, uint64_t count, double mean, double spread, uint64_t seed)
{
    for (uint64_t i = 0; i < count; i++) check_set(b, first + i, mean + spread * check_uniform(&seed));
}

/* whether elements begin .. end - 1 still are what check_alloc left */
CHECK_INLINE void check_untouched(const check_buf *b, uint64_t begin, uint64_t end)
{
    uint64_t size = lzt_dtype_bytes(b->dtype);
    for (uint64_t i = begin * size; i < end * size; i++) assert_int_equal(((unsigned char *)b->data)[i], 0xff);
}

/* The element type is any 4-byte one; the header's document offsets come from lengths (documents of them). */
CHECK_INLINE check_buf check_batch(uint64_t capacity, const uint64_t *lengths, uint64_t documents)
{
    check_buf b = check_alloc(LZT_DTYPE_U8, lzt_batch_bytes(capacity));
    lzt_batch_header *header = b.data;
    int32_t *begin = lzt_batch_document(b.data, capacity), *position = lzt_batch_position(b.data), at = 0;
    for (uint64_t d = 0; d < documents; d++) {
        begin[d] = at;
        for (uint64_t i = 0; i < lengths[d]; i++) position[at++] = (int32_t)i;
    }
    begin[documents] = at;
    assert_true(at >= 1 && (uint64_t)at <= capacity);
    *header = (lzt_batch_header){.token_count = (uint32_t)at, .document_count = (uint32_t)documents, .loss_scale = 1};
    return b;
}

/* |a - b| / |b| over count elements (L2), b in double */
CHECK_INLINE double check_relative(const check_buf *a, uint64_t first, const double *b, uint64_t count)
{
    double difference = 0, norm = 0;
    for (uint64_t i = 0; i < count; i++) {
        double d = check_get(a, first + i) - b[i];
        difference += d * d;
        norm += b[i] * b[i];
    }
    return norm > 0 ? sqrt(difference / norm) : sqrt(difference);
}

#define check_below(x, bound)                                                                                          \
    do {                                                                                                               \
        double value_ = (x), bound_ = (bound);                                                                         \
        if (!(value_ <= bound_)) fail_msg("%s is %.3g, over %.3g", #x, value_, bound_);                                \
    } while (0)

enum { CHECK_KERNS_MAX = 16 };

/* Every instruction set of this CPU with 1, 2 and 3 threads; variants of one instruction set stand together. */
typedef struct check_kerns {
    lzt_kern *kern[CHECK_KERNS_MAX];
    int isa[CHECK_KERNS_MAX], count;
} check_kerns;

CHECK_INLINE check_kerns check_kerns_create(void)
{
    static const char *const isas[] = {"x86-64-v2", "avx2", "avx512", "avx512-bf16"};
    check_kerns all = {.count = 0};
    for (int isa = 0; isa < 4; isa++)
        for (uint32_t threads = 1; threads <= 3; threads++) {
            lzt_kern_cpu_options options = LZT_KERN_CPU_OPTIONS_INIT;
            options.threads = threads;
            options.isa = isas[isa];
            options.gemm = "own";
            if (lzt_kern_cpu_create(&options, &all.kern[all.count], NULL)) continue; /* this CPU lacks it */
            all.isa[all.count++] = isa;
        }
    assert_true(all.count >= 3);
    return all;
}

CHECK_INLINE void check_kerns_destroy(check_kerns *all)
{
    for (int i = 0; i < all->count; i++) lzt_kern_destroy(all->kern[i]);
}

/* Runs the call with guarded scratch of exactly the size that the operator asks for, full of NaN. */
CHECK_INLINE void check_run(lzt_kern *kern, const lzt_kern_call *given)
{
    lzt_kern_call call = *given;
    lzt_error err = {.status = LZT_OK};
    call.scratch_bytes = lzt_kern_scratch_bytes(kern, &call);
    check_buf scratch = check_alloc(LZT_DTYPE_U8, call.scratch_bytes);
    call.scratch = scratch.data;
    if (lzt_kern_run(kern, &call, NULL, &err)) fail_msg("%s: %s", err.where, err.message);
    check_free(&scratch);
}

enum { CHECK_OUTPUTS_MAX = 4 };

typedef void check_verify(void *arg);

/* Runs the call on every variant, the outputs (NULL-terminated) having their present content before each run. The
 * first of each instruction set is verified; the others must give the same bits. */
CHECK_INLINE void check_variants(const check_kerns *all, const lzt_kern_call *call, check_buf **outputs,
                                 check_verify *verify, void *arg)
{
    unsigned char *start[CHECK_OUTPUTS_MAX] = {NULL}, *first[CHECK_OUTPUTS_MAX] = {NULL};
    for (int i = 0; outputs[i]; i++) {
        assert_true(i < CHECK_OUTPUTS_MAX);
        start[i] = malloc(outputs[i]->bytes);
        first[i] = malloc(outputs[i]->bytes);
        assert_true(start[i] && first[i]);
        memcpy(start[i], outputs[i]->data, outputs[i]->bytes);
    }
    for (int v = 0; v < all->count; v++) {
        bool again = v && all->isa[v] == all->isa[v - 1];
        for (int i = 0; outputs[i]; i++) memcpy(outputs[i]->data, start[i], outputs[i]->bytes);
        check_run(all->kern[v], call);
        if (!again) verify(arg);
        for (int i = 0; outputs[i]; i++) {
            if (again) assert_memory_equal(first[i], outputs[i]->data, outputs[i]->bytes);
            memcpy(first[i], outputs[i]->data, outputs[i]->bytes);
        }
    }
    for (int i = 0; outputs[i]; i++) {
        free(start[i]);
        free(first[i]);
    }
}

/* |x - reference| <= relative |reference| + absolute, for BF16 with its rounding (2^-9) on top */
CHECK_INLINE void check_close(const check_buf *b, uint64_t i, double reference, double relative, double absolute)
{
    double x = check_get(b, i), bound = relative * fabs(reference) + absolute;
    if (b->dtype == LZT_DTYPE_BF16) bound += fabs(reference) / 256;
    if (!(fabs(x - reference) <= bound))
        fail_msg("element %llu is %.9g, not %.9g", (unsigned long long)i, x, reference);
}

#endif
