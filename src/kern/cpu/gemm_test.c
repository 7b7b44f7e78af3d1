/* Goal: the matrix product is right at every edge, and its bits depend on nothing but its operands and the ISA.
 *
 * Method: products of odd shapes, all transpositions, dtypes, epilogues and leading dimensions are compared with a
 * double reference. The tolerance is that of an F32 sum of K terms in any order, K * 2^-24 * sum |a b|, and of one
 * rounding to the stored type. One and three threads must agree to the last bit; scratch and the gaps between the rows
 * of C are guarded. Every instruction set of this CPU is tried, and oneDNN where the library is there.
 */
#include "kern/cpu/gemm.h"
#include "kern/cpu/kern_cpu.h"
#include "kern/cpu/onednn.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct operand {
    void *data;
    lzt_dtype dtype;
    uint64_t count;
} operand;

static uint64_t seed = 1;

static float random_value(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(seed >> 32) / 2147483648.0f;
}

static double get(const operand *o, uint64_t i)
{
    assert_true(i < o->count);
    return o->dtype == LZT_DTYPE_F32 ? ((float *)o->data)[i] : lzt_bf16_to_f32(((uint16_t *)o->data)[i]);
}

static operand make(uint64_t count, lzt_dtype dtype)
{
    operand o = {aligned_alloc(64, (count * lzt_dtype_bytes(dtype) + 64) / 64 * 64), dtype, count};
    for (uint64_t i = 0; i < count; i++) {
        if (dtype == LZT_DTYPE_F32)
            ((float *)o.data)[i] = random_value();
        else
            ((uint16_t *)o.data)[i] = lzt_bf16_from_f32(random_value());
    }
    return o;
}

static lzt_kern_cpu *create(lzt_isa isa, uint32_t threads, const char *gemm)
{
    lzt_kern_cpu_options options = LZT_KERN_CPU_OPTIONS_INIT;
    options.isa = lzt__isa_name(isa);
    options.threads = threads;
    options.gemm = gemm;
    lzt_kern *kern;
    lzt_error err = {0};
    if (lzt_kern_cpu_create(&options, &kern, &err)) fail_msg("%s: %s", err.where, err.message);
    return (lzt_kern_cpu *)kern;
}

/* with the scratch that capacity asks for */
static void run_guarded(lzt_kern_cpu *kern, const lzt_gemm *g, const lzt_gemm *capacity)
{
    enum { GUARD = 4096 };
    uint64_t bytes = lzt__gemm_scratch_bytes(kern, capacity);
    unsigned char *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64 + GUARD);
    memset(scratch, 0xff, bytes + GUARD); /* NaN: nothing may be read before it is written */
    lzt_error err = {0};
    if (lzt__gemm(kern, g, scratch, bytes, &err)) fail_msg("%s", err.message);
    for (int i = 0; i < GUARD; i++) assert_int_equal(scratch[bytes + (uint64_t)i], 0xff);
    free(scratch);
}

/* count rows of k values each; across: a row of the operand holds a value of each of them. The caller frees it. */
static double *rows_of(const operand *o, uint64_t count, uint64_t k, uint64_t ld, bool across)
{
    double *rows = calloc(count * k + 1, sizeof *rows);
    assert_non_null(rows);
    for (uint64_t i = 0; i < count; i++)
        for (uint64_t p = 0; p < k; p++) rows[i * k + p] = get(o, across ? p * ld + i : i * ld + p);
    return rows;
}

/* Sum and sum of magnitudes of an element. Most of the test's time is spent here, on what no other thread knows. */
__attribute__((no_sanitize("thread"))) static double reference(const double *a, const double *b, uint64_t k,
                                                               double *size)
{
    double sum = 0, magnitudes = 0;
    for (uint64_t p = 0; p < k; p++) {
        double term = a[p] * b[p];
        sum += term;
        magnitudes += fabs(term);
    }
    *size = magnitudes;
    return sum;
}

typedef struct variant {
    bool trans_a, trans_b, accumulate, bias, residual, alias, thin;
    lzt_dtype a, b, c;
    uint64_t gap; /* leading dimensions exceed the rows by it */
} variant;

static void check(const lzt_gemm *g, const operand *a, const operand *b, const operand *bias, const operand *residual,
                  const operand *before, const operand *c)
{
    double *x = rows_of(a, g->m, g->k, g->lda, g->trans_a), *y = rows_of(b, g->n, g->k, g->ldb, !g->trans_b);
    for (uint64_t i = 0; i < g->m; i++) {
        for (uint64_t j = 0; j < g->n; j++) {
            double size, want = reference(x + i * g->k, y + j * g->k, g->k, &size);
            if (g->bias) want += get(bias, j);
            if (g->residual) want += get(residual, i * g->ld_residual + j);
            if (g->accumulate) want += get(before, i * g->ldc + j);
            double got = get(c, i * g->ldc + j);
            double bound = (size + 2) * (double)(g->k + 4) * ldexp(1, -24);
            if (g->c_dtype == LZT_DTYPE_BF16) bound += fabs(want) * ldexp(1, -8);
            if (!(fabs(got - want) <= bound))
                fail_msg("m %lu n %lu k %lu, (%lu, %lu): %.9g, want %.9g +- %.2g", g->m, g->n, g->k, i, j, got, want,
                         bound);
        }
        for (uint64_t j = g->n; j < g->ldc; j++)
            if (i * g->ldc + j < c->count) assert_true(get(c, i * g->ldc + j) == get(before, i * g->ldc + j));
    }
    free(x);
    free(y);
}

static void try_shape(lzt_kern_cpu *one, lzt_kern_cpu *three, uint64_t m, uint64_t n, uint64_t k, const variant *v)
{
    uint64_t lda = (v->trans_a ? m : k) + v->gap, ldb = (v->trans_b ? k : n) + v->gap, ldc = n + v->gap;
    operand a = make((v->trans_a ? k : m) * lda + 1, v->a), b = make((v->trans_b ? n : k) * ldb + 1, v->b);
    operand c = make(m * ldc, v->c), before = make(m * ldc, v->c), again = make(m * ldc, v->c);
    operand bias = make(n, v->c), residual = make(m * ldc, v->c);
    uint64_t c_bytes = m * ldc * lzt_dtype_bytes(v->c);
    memcpy(c.data, before.data, c_bytes);
    memcpy(again.data, before.data, c_bytes);
    if (v->alias) memcpy(residual.data, before.data, c_bytes);
    lzt_gemm g = {.m = m,
                  .n = n,
                  .k = k,
                  .a = a.data,
                  .b = b.data,
                  .c = c.data,
                  .lda = lda,
                  .ldb = ldb,
                  .ldc = ldc,
                  .ld_residual = ldc,
                  .a_dtype = v->a,
                  .b_dtype = v->b,
                  .c_dtype = v->c,
                  .trans_a = v->trans_a,
                  .trans_b = v->trans_b,
                  .accumulate = v->accumulate,
                  .thin = v->thin};
    if (v->bias) g.bias = bias.data;
    if (v->residual) g.residual = v->alias ? c.data : residual.data;
    run_guarded(one, &g, &g);
    check(&g, &a, &b, &bias, &residual, &before, &c);
    g.c = again.data;
    if (v->alias) g.residual = again.data;
    if (three) {
        run_guarded(three, &g, &g);
        assert_memory_equal(c.data, again.data, c_bytes);
    }
    operand *all[] = {&a, &b, &c, &before, &again, &bias, &residual};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->data);
}

static const uint64_t shapes[][3] = {
    {1, 1, 1},    {1, 17, 5},    {7, 1, 3},     {5, 33, 64},   {6, 16, 8},    {12, 32, 31},     {13, 47, 129},
    {97, 65, 66}, {40, 50, 520}, {391, 15, 37}, {250, 70, 95}, {3, 530, 511}, {100, 100, 1030}, {2, 9, 0},
};

static const variant variants[] = {
    {.trans_b = true, .a = LZT_DTYPE_F32, .b = LZT_DTYPE_F32, .c = LZT_DTYPE_F32},
    {.a = LZT_DTYPE_F32, .b = LZT_DTYPE_F32, .c = LZT_DTYPE_F32, .accumulate = true, .gap = 3},
    {.trans_a = true, .a = LZT_DTYPE_F32, .b = LZT_DTYPE_F32, .c = LZT_DTYPE_BF16, .gap = 1},
    {.trans_a = true, .trans_b = true, .a = LZT_DTYPE_F32, .b = LZT_DTYPE_BF16, .c = LZT_DTYPE_F32, .gap = 5},
    {.trans_b = true, .a = LZT_DTYPE_BF16, .b = LZT_DTYPE_BF16, .c = LZT_DTYPE_BF16, .bias = true, .residual = true},
    {.trans_b = true, .a = LZT_DTYPE_BF16, .b = LZT_DTYPE_BF16, .c = LZT_DTYPE_BF16, .residual = true, .alias = true},
    {.trans_b = true,
     .a = LZT_DTYPE_F32,
     .b = LZT_DTYPE_F32,
     .c = LZT_DTYPE_F32,
     .bias = true,
     .residual = true,
     .alias = true,
     .gap = 2},
    {.a = LZT_DTYPE_BF16, .b = LZT_DTYPE_BF16, .c = LZT_DTYPE_BF16, .gap = 7},
    {.trans_a = true, .a = LZT_DTYPE_BF16, .b = LZT_DTYPE_BF16, .c = LZT_DTYPE_F32, .accumulate = true},
    {.trans_a = true, .a = LZT_DTYPE_BF16, .b = LZT_DTYPE_F32, .c = LZT_DTYPE_F32, .bias = true},
    {.trans_a = true,
     .a = LZT_DTYPE_F32,
     .b = LZT_DTYPE_F32,
     .c = LZT_DTYPE_F32,
     .accumulate = true,
     .thin = true,
     .gap = 3},
    {.trans_a = true, .a = LZT_DTYPE_F32, .b = LZT_DTYPE_F32, .c = LZT_DTYPE_F32, .thin = true},
    {.trans_a = true,
     .a = LZT_DTYPE_BF16,
     .b = LZT_DTYPE_BF16,
     .c = LZT_DTYPE_F32,
     .accumulate = true,
     .thin = true,
     .gap = 1},
    {.trans_a = true, .a = LZT_DTYPE_BF16, .b = LZT_DTYPE_BF16, .c = LZT_DTYPE_F32, .thin = true},
};

static void all_shapes(lzt_isa isa, const char *gemm, bool compare)
{
    lzt_kern_cpu *one = create(isa, 1, gemm), *three = create(isa, 3, gemm);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t v = 0; v < sizeof variants / sizeof *variants; v++)
            try_shape(one, compare ? three : NULL, shapes[s][0], shapes[s][1], shapes[s][2], &variants[v]);
    lzt_kern_destroy(&one->base);
    lzt_kern_destroy(&three->base);
}

static void test_own(void **state)
{
    (void)state;
    for (int isa = 0; isa <= LZT_ISA_AVX512_BF16; isa++) {
        if (!lzt__isa_supported((lzt_isa)isa))
            print_message("%s: not on this CPU\n", lzt__isa_name((lzt_isa)isa));
        else
            all_shapes((lzt_isa)isa, "own", true);
    }
}

/* oneDNN against the same reference. It takes all of these products, keeps a bounded number of primitives, and has
 * made each shape's once however often it is used. */
static void test_onednn(void **state)
{
    (void)state;
    lzt_isa isa;
    lzt_onednn *dnn;
    lzt_error err = {0};
    assert_int_equal(lzt__isa_choose("auto", &isa, &err), LZT_OK);
    if (lzt__onednn_open(isa, 1, &dnn, &err)) {
        print_message("skipped: %s: %s\n", err.where, err.message);
        skip();
    }
    lzt__onednn_close(dnn);
    all_shapes(isa, "onednn", false);
    lzt_kern_cpu *kern = create(isa, 2, "onednn");
    for (int round = 0; round < 2; round++)
        for (uint64_t m = 1; m <= 40; m++) try_shape(kern, NULL, m, 24, 16, &variants[0]);
    lzt_onednn_stats stats = lzt__onednn_stats(kern->onednn);
    assert_int_equal(stats.runs, 80);
    assert_int_equal(stats.created, 40);
    assert_int_equal(stats.evicted + stats.refused, 0);
    for (uint64_t m = 1; m <= LZT_ONEDNN_PRIMITIVES; m++) try_shape(kern, NULL, m, 8, 8, &variants[0]);
    assert_int_equal(lzt__onednn_stats(kern->onednn).evicted, 40);
    lzt_kern_destroy(&kern->base);
}

/* Whether every other thread of this process sleeps, at this moment. */
static bool all_others_sleep(void)
{
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    bool asleep = true;
    for (struct dirent *e; (e = readdir(tasks));) {
        char path[300], line[512], state = 'S';
        if (e->d_name[0] == '.' || atoi(e->d_name) == getpid()) continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", e->d_name);
        FILE *f = fopen(path, "r"); /* NULL: it has ended */
        if (f && fgets(line, sizeof line, f) && strrchr(line, ')')) state = strrchr(line, ')')[2];
        if (f) fclose(f);
        asleep &= state == 'S';
    }
    closedir(tasks);
    return asleep;
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* After a product no thread may spin: they all fall asleep, and this costs less than a thread that spins would use.
 * However busy the machine is, it is the process's own time that counts, of which waiting here takes little. */
static void idle_between(const char *gemm)
{
    lzt_isa isa;
    lzt_kern_cpu_options options = LZT_KERN_CPU_OPTIONS_INIT;
    options.threads = 4;
    options.gemm = gemm;
    lzt_kern *kern;
    lzt_error err = {0};
    assert_int_equal(lzt__isa_choose("auto", &isa, &err), LZT_OK);
    if (lzt_kern_cpu_create(&options, &kern, &err)) {
        print_message("%s not tried: %s\n", gemm, err.message);
        return;
    }
    try_shape((lzt_kern_cpu *)kern, NULL, 128, 64, 64, &variants[0]);
    double begin = cpu_seconds();
    while (!all_others_sleep()) {
        if (cpu_seconds() - begin > 2) fail_msg("%s: a thread spins between products", gemm);
        usleep(10000);
    }
    lzt_kern_destroy(kern);
}

static void test_idle_between_products(void **state)
{
    (void)state;
    idle_between("own");
    idle_between("onednn");
}

/* The scratch of a capacity serves every smaller product, with the same bits as its own. */
static void test_scratch_of_capacity(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 5; threads += 2) {
        lzt_kern_cpu *kern = create(LZT_ISA_V2, threads, "own");
        lzt_gemm capacity = {.m = 300,
                             .n = 2100,
                             .k = 1400,
                             .a_dtype = LZT_DTYPE_BF16,
                             .b_dtype = LZT_DTYPE_BF16,
                             .c_dtype = LZT_DTYPE_BF16};
        for (int i = 0; i < 12; i++) {
            lzt_gemm g = capacity;
            g.m = (uint64_t)(random_value() * 150 + 150);
            g.n = i % 3 ? (uint64_t)(random_value() * 300 + 300) : (uint64_t)(random_value() * 40 + 2060);
            g.k = i % 2 ? 1400 : (uint64_t)(random_value() * 700 + 700);
            operand a = make(g.m * g.k, g.a_dtype), b = make(g.k * g.n, g.b_dtype);
            operand c = make(g.m * g.n, g.c_dtype), d = make(g.m * g.n, g.c_dtype);
            g.a = a.data, g.b = b.data, g.lda = g.k, g.ldb = g.n, g.ldc = g.n;
            g.c = c.data;
            run_guarded(kern, &g, &capacity);
            g.c = d.data;
            run_guarded(kern, &g, &g);
            assert_memory_equal(c.data, d.data, c.count * 2);
            free(a.data), free(b.data), free(c.data), free(d.data);
        }
        lzt_kern_destroy(&kern->base);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own),
        cmocka_unit_test(test_onednn),
        cmocka_unit_test(test_idle_between_products),
        cmocka_unit_test(test_scratch_of_capacity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
