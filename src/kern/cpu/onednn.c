/* Matrix products by oneDNN: see onednn.h. */
#include "kern/cpu/onednn.h"

#include "base/affinity.h"

#include <assert.h>

#if defined(__has_include) && !defined(LZT_NO_ONEDNN)
#if __has_include(<oneapi/dnnl/dnnl.h>)
#include <oneapi/dnnl/dnnl.h>
#endif
#endif

/* ThreadSanitizer sees neither how OpenMP hands work to its threads nor what the library itself does: it would call the
 * same memory in two products a race, where a thread lives from one to the next. */
#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN
#endif
#endif

#if defined(DNNL_VERSION_MAJOR) && DNNL_VERSION_MAJOR == 2 && !defined(UNDER_TSAN)

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The library's functions that are used, by their own declarations. */
#define FUNCTIONS(F)                                                                                                   \
    F(dnnl_version)                                                                                                    \
    F(dnnl_set_max_cpu_isa)                                                                                            \
    F(dnnl_get_effective_cpu_isa)                                                                                      \
    F(dnnl_engine_create)                                                                                              \
    F(dnnl_engine_destroy)                                                                                             \
    F(dnnl_stream_create)                                                                                              \
    F(dnnl_stream_destroy)                                                                                             \
    F(dnnl_stream_wait)                                                                                                \
    F(dnnl_memory_desc_init_by_strides)                                                                                \
    F(dnnl_memory_desc_get_size)                                                                                       \
    F(dnnl_matmul_desc_init)                                                                                           \
    F(dnnl_primitive_attr_create)                                                                                      \
    F(dnnl_primitive_attr_destroy)                                                                                     \
    F(dnnl_primitive_attr_set_scratchpad_mode)                                                                         \
    F(dnnl_primitive_attr_set_post_ops)                                                                                \
    F(dnnl_post_ops_create)                                                                                            \
    F(dnnl_post_ops_destroy)                                                                                           \
    F(dnnl_post_ops_append_sum)                                                                                        \
    F(dnnl_primitive_desc_create)                                                                                      \
    F(dnnl_primitive_desc_destroy)                                                                                     \
    F(dnnl_primitive_desc_query_md)                                                                                    \
    F(dnnl_primitive_create)                                                                                           \
    F(dnnl_primitive_destroy)                                                                                          \
    F(dnnl_primitive_execute)                                                                                          \
    F(dnnl_memory_create)                                                                                              \
    F(dnnl_memory_destroy)                                                                                             \
    F(dnnl_memory_set_data_handle)

typedef struct functions {
#define MEMBER(name) __typeof__(name) *name;
    FUNCTIONS(MEMBER)
    void (*omp_set_num_threads)(int count);
    int (*omp_get_thread_num)(void);
    void (*GOMP_parallel)(void (*body)(void *), void *arg, unsigned threads, unsigned flags);
} functions;

/* What a primitive is compiled for. Compared as bytes: made by key_of alone, which zeroes the padding. */
typedef struct key {
    uint64_t m, n, k, lda, ldb, ldc;
    int32_t a, b, c;
    bool trans_a, trans_b, sum, bias;
} key;

enum { SRC, WEIGHTS, BIAS, DST, SCRATCHPAD, ARGUMENTS };

static const int argument_ids[ARGUMENTS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST,
                                            DNNL_ARG_SCRATCHPAD};

typedef struct entry {
    key key;
    uint64_t used; /* clock of the last use; 0: free */
    uint64_t scratch_bytes;
    dnnl_primitive_t primitive; /* NULL: oneDNN has none for the key */
    dnnl_memory_t memory[ARGUMENTS];
} entry;

struct lzt_onednn {
    functions api;
    void *library;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    int threads;
    pthread_mutex_t lock;
    uint64_t clock;         /* lock */
    lzt_onednn_stats stats; /* lock */
    entry entries[LZT_ONEDNN_PRIMITIVES];
};

/* ---- loading ---- */

static lzt_status refuse(lzt_error *err, const char *message, const char *hint)
{
    lzt_fail(err, LZT_ERR_USAGE, "oneDNN", "%s", message);
    lzt_hint(err, "%s", hint);
    return LZT_ERR_USAGE;
}

static bool environment_is(const char *name, const char *value)
{
    const char *now = getenv(name);
    return now && !strcmp(now, value);
}

/* OpenMP reads its environment once, when it is loaded. */
static lzt_status make_openmp_passive(lzt_error *err)
{
    bool passive = environment_is("OMP_WAIT_POLICY", "passive") && environment_is("GOMP_SPINCOUNT", "0");
    void *loaded = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (loaded) dlclose(loaded);
    if (loaded && !passive)
        return refuse(err, "an OpenMP runtime that may spin between products is loaded already",
                      "set OMP_WAIT_POLICY=passive and GOMP_SPINCOUNT=0, or choose the own product");
    if (!passive && (setenv("OMP_WAIT_POLICY", "passive", 1) || setenv("GOMP_SPINCOUNT", "0", 1)))
        return lzt_fail(err, LZT_ERR_NO_MEMORY, "oneDNN", "no memory for the environment");
    return LZT_OK;
}

static lzt_status load(lzt_onednn *dnn, lzt_error *err)
{
    lzt_status status = make_openmp_passive(err);
    if (status) return status;
    dnn->library = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!dnn->library) return refuse(err, "libdnnl.so.2 cannot be loaded", "apt-get install libdnnl2");
#define RESOLVE(name)                                                                                                  \
    *(void **)&dnn->api.name = dlsym(dnn->library, #name);                                                             \
    if (!dnn->api.name) return refuse(err, "libdnnl.so.2 lacks " #name, "version 2.6 or a later 2.x is needed");
    FUNCTIONS(RESOLVE)
    RESOLVE(omp_set_num_threads) /* of the OpenMP runtime that it depends on */
    RESOLVE(omp_get_thread_num)
    RESOLVE(GOMP_parallel) /* what the compiler makes of "omp parallel" */
    return LZT_OK;
}

/* The limit is per process and can be set only before the library's first use. */
static lzt_status limit_isa(lzt_onednn *dnn, lzt_isa isa, lzt_error *err)
{
    static const dnnl_cpu_isa_t limits[LZT_ISA_COUNT] = {
        [LZT_ISA_V2] = dnnl_cpu_isa_sse41,
        [LZT_ISA_AVX2] = dnnl_cpu_isa_avx2,
        [LZT_ISA_AVX512] = dnnl_cpu_isa_avx512_core,
        [LZT_ISA_AVX512_BF16] = dnnl_cpu_isa_avx512_core_bf16,
        [LZT_ISA_AMX] = dnnl_cpu_isa_all,
    };
    if (dnn->api.dnnl_set_max_cpu_isa(limits[isa]) == dnnl_success) return LZT_OK;
    if (isa == LZT_ISA_AMX || !((unsigned)dnn->api.dnnl_get_effective_cpu_isa() & ~(unsigned)limits[isa]))
        return LZT_OK;
    return refuse(err, "this process uses it with a wider instruction set already", "choose the own product");
}

lzt_status lzt__onednn_open(lzt_isa isa, uint32_t threads, lzt_onednn **out, lzt_error *err)
{
    lzt_onednn *dnn = calloc(1, sizeof *dnn);
    if (!dnn) return lzt_fail(err, LZT_ERR_NO_MEMORY, "oneDNN", "no memory for its primitives");
    pthread_mutex_init(&dnn->lock, NULL);
    dnn->threads = (int)threads;
    lzt_status status = load(dnn, err);
    if (!status) status = limit_isa(dnn, isa, err);
    if (!status && (dnn->api.dnnl_engine_create(&dnn->engine, dnnl_cpu, 0) ||
                    dnn->api.dnnl_stream_create(&dnn->stream, dnn->engine, dnnl_stream_default_flags)))
        status = lzt_fail(err, LZT_ERR_NO_MEMORY, "oneDNN", "it cannot create its engine");
    if (status) {
        lzt__onednn_close(dnn);
        return status;
    }
    *out = dnn;
    return LZT_OK;
}

static void entry_clear(lzt_onednn *dnn, entry *e)
{
    for (int i = 0; i < ARGUMENTS; i++)
        if (e->memory[i]) dnn->api.dnnl_memory_destroy(e->memory[i]);
    if (e->primitive) dnn->api.dnnl_primitive_destroy(e->primitive);
    memset(e, 0, sizeof *e);
}

void lzt__onednn_close(lzt_onednn *dnn)
{
    if (!dnn) return;
    for (int i = 0; i < LZT_ONEDNN_PRIMITIVES; i++) entry_clear(dnn, &dnn->entries[i]);
    if (dnn->stream) dnn->api.dnnl_stream_destroy(dnn->stream);
    if (dnn->engine) dnn->api.dnnl_engine_destroy(dnn->engine);
    pthread_mutex_destroy(&dnn->lock);
    free(dnn);
}

/* ---- primitives ---- */

static dnnl_data_type_t type_of(int32_t dtype)
{
    return dtype == LZT_DTYPE_BF16 ? dnnl_bf16 : dnnl_f32;
}

/* The residual is brought into C first and then summed as C += does, in F32 before the one rounding. */
static key key_of(const lzt_gemm *g)
{
    key k;
    memset(&k, 0, sizeof k);
    k.m = g->m, k.n = g->n, k.k = g->k;
    k.lda = g->lda, k.ldb = g->ldb, k.ldc = g->ldc;
    k.a = (int32_t)g->a_dtype, k.b = (int32_t)g->b_dtype, k.c = (int32_t)g->c_dtype;
    k.trans_a = g->trans_a, k.trans_b = g->trans_b;
    k.sum = g->accumulate || g->residual;
    k.bias = g->bias != NULL;
    return k;
}

static int init_matrix(const lzt_onednn *dnn, dnnl_memory_desc_t *md, uint64_t rows, uint64_t columns, int32_t dtype,
                       uint64_t row_step, uint64_t column_step)
{
    dnnl_dims_t dims = {(dnnl_dim_t)rows, (dnnl_dim_t)columns};
    dnnl_dims_t strides = {(dnnl_dim_t)row_step, (dnnl_dim_t)column_step};
    return dnn->api.dnnl_memory_desc_init_by_strides(md, 2, dims, type_of(dtype), strides);
}

static int init_matrices(const lzt_onednn *dnn, const key *k, dnnl_memory_desc_t md[ARGUMENTS])
{
    int bad = init_matrix(dnn, &md[SRC], k->m, k->k, k->a, k->trans_a ? 1 : k->lda, k->trans_a ? k->lda : 1);
    bad |= init_matrix(dnn, &md[WEIGHTS], k->k, k->n, k->b, k->trans_b ? 1 : k->ldb, k->trans_b ? k->ldb : 1);
    bad |= init_matrix(dnn, &md[BIAS], 1, k->n, k->c, k->n, 1);
    return bad | init_matrix(dnn, &md[DST], k->m, k->n, k->c, k->ldc, 1);
}

/* User scratchpad, and C += where asked. NULL on failure. */
static dnnl_primitive_attr_t make_attributes(const lzt_onednn *dnn, bool sum)
{
    const functions *api = &dnn->api;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t post = NULL;
    int bad = api->dnnl_primitive_attr_create(&attr);
    if (!bad) bad = api->dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (!bad && sum) {
        bad = api->dnnl_post_ops_create(&post);
        if (!bad) bad = api->dnnl_post_ops_append_sum(post, 1.0f);
        if (!bad) bad = api->dnnl_primitive_attr_set_post_ops(attr, post);
        if (post) api->dnnl_post_ops_destroy(post);
    }
    if (bad && attr) api->dnnl_primitive_attr_destroy(attr);
    return bad ? NULL : attr;
}

/* Fills e for its key; leaves primitive NULL where oneDNN declines. */
static void entry_build(lzt_onednn *dnn, entry *e)
{
    const functions *api = &dnn->api;
    dnnl_memory_desc_t md[ARGUMENTS];
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_attr_t attr = make_attributes(dnn, e->key.sum);
    if (!attr) return;
    int bad = init_matrices(dnn, &e->key, md);
    if (!bad) bad = api->dnnl_matmul_desc_init(&desc, &md[SRC], &md[WEIGHTS], e->key.bias ? &md[BIAS] : NULL, &md[DST]);
    if (!bad) bad = api->dnnl_primitive_desc_create(&pd, &desc, attr, dnn->engine, NULL);
    if (!bad) {
        md[SCRATCHPAD] = *api->dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
        e->scratch_bytes = api->dnnl_memory_desc_get_size(&md[SCRATCHPAD]);
        for (int i = 0; i < ARGUMENTS && !bad; i++)
            bad = api->dnnl_memory_create(&e->memory[i], &md[i], dnn->engine, DNNL_MEMORY_NONE);
    }
    if (!bad) bad = api->dnnl_primitive_create(&e->primitive, pd);
    if (bad) e->primitive = NULL;
    if (pd) api->dnnl_primitive_desc_destroy(pd);
    api->dnnl_primitive_attr_destroy(attr);
}

/* The entry of g, made or found; its age is renewed. Call with the lock held. */
static entry *entry_get(lzt_onednn *dnn, const lzt_gemm *g)
{
    key k = key_of(g);
    entry *oldest = &dnn->entries[0];
    for (int i = 0; i < LZT_ONEDNN_PRIMITIVES; i++) {
        entry *e = &dnn->entries[i];
        if (e->used && !memcmp(&e->key, &k, sizeof k)) {
            e->used = ++dnn->clock;
            return e;
        }
        if (e->used < oldest->used) oldest = e;
    }
    if (oldest->used) dnn->stats.evicted++;
    entry_clear(dnn, oldest);
    oldest->key = k;
    oldest->used = ++dnn->clock;
    dnn->api.omp_set_num_threads(dnn->threads); /* a setting of the calling thread; primitives are planned for it */
    entry_build(dnn, oldest);
    dnn->stats.created++;
    return oldest;
}

uint64_t lzt__onednn_scratch_bytes(lzt_onednn *dnn, const lzt_gemm *g)
{
    if (!g->m || !g->n || !g->k) return 0;
    pthread_mutex_lock(&dnn->lock);
    const entry *e = entry_get(dnn, g);
    /* a smaller M may be blocked otherwise and ask for somewhat more */
    uint64_t bytes = e->primitive ? 2 * e->scratch_bytes + (1 << 20) : 0;
    pthread_mutex_unlock(&dnn->lock);
    return bytes;
}

static void bring_residual(const lzt_gemm *g)
{
    if (!g->residual || g->residual == g->c) return;
    uint64_t size = lzt_dtype_bytes(g->c_dtype);
    for (uint64_t i = 0; i < g->m; i++)
        memcpy((char *)g->c + i * g->ldc * size, (const char *)g->residual + i * g->ld_residual * size, g->n * size);
}

static void place_worker(void *arg)
{
    const lzt_onednn *dnn = arg;
    lzt__affinity_thread((uint32_t)dnn->api.omp_get_thread_num(), (uint32_t)dnn->threads);
}

/* OpenMP makes each calling thread workers of its own, and keeps them. */
static void place_workers(lzt_onednn *dnn)
{
    static _Thread_local uint32_t seen;
    uint32_t now = lzt__affinity_turn();
    if (now != seen && dnn->threads > 1) dnn->api.GOMP_parallel(place_worker, dnn, (unsigned)dnn->threads, 0);
    seen = now;
}

lzt_status lzt__onednn_gemm(lzt_onednn *dnn, const lzt_gemm *g, void *scratch, uint64_t scratch_bytes, bool *done,
                            lzt_error *err)
{
    const functions *api = &dnn->api;
    *done = false;
    if (!g->m || !g->n || !g->k) return LZT_OK;
    pthread_mutex_lock(&dnn->lock);
    entry *e = entry_get(dnn, g);
    if (!e->primitive || e->scratch_bytes > scratch_bytes) {
        dnn->stats.refused++;
        pthread_mutex_unlock(&dnn->lock);
        return LZT_OK;
    }
    void *data[ARGUMENTS] = {(void *)(uintptr_t)g->a, (void *)(uintptr_t)g->b, (void *)(uintptr_t)g->bias, g->c,
                             scratch};
    dnnl_exec_arg_t arguments[ARGUMENTS];
    int count = 0, bad = 0;
    for (int i = 0; i < ARGUMENTS && !bad; i++) {
        if (i == BIAS && !g->bias) continue;
        bad = api->dnnl_memory_set_data_handle(e->memory[i], data[i]);
        arguments[count++] = (dnnl_exec_arg_t){argument_ids[i], e->memory[i]};
    }
    bring_residual(g);
    api->omp_set_num_threads(dnn->threads);
    place_workers(dnn);
    if (!bad) bad = api->dnnl_primitive_execute(e->primitive, dnn->stream, count, arguments);
    if (!bad) bad = api->dnnl_stream_wait(dnn->stream);
    dnn->stats.runs++;
    *done = !bad;
    pthread_mutex_unlock(&dnn->lock);
    if (!bad) return LZT_OK;
    return lzt_fail(err, LZT_ERR_INTERNAL, "oneDNN", "product of %llu x %llu x %llu failed with status %d",
                    (unsigned long long)g->m, (unsigned long long)g->n, (unsigned long long)g->k, bad);
}

lzt_onednn_stats lzt__onednn_stats(lzt_onednn *dnn)
{
    pthread_mutex_lock(&dnn->lock);
    lzt_onednn_stats stats = dnn->stats;
    pthread_mutex_unlock(&dnn->lock);
    return stats;
}

#else /* without the header, or under ThreadSanitizer: the interface stays, and opening is refused */

lzt_status lzt__onednn_open(lzt_isa isa, uint32_t threads, lzt_onednn **dnn, lzt_error *err)
{
    (void)isa;
    (void)threads;
    (void)dnn;
    lzt_fail(err, LZT_ERR_USAGE, "oneDNN", "this program was built without it");
    lzt_hint(err, "apt-get install libdnnl-dev, build again without ThreadSanitizer; or choose the own product");
    return LZT_ERR_USAGE;
}

void lzt__onednn_close(lzt_onednn *dnn)
{
    assert(!dnn);
}

uint64_t lzt__onednn_scratch_bytes(lzt_onednn *dnn, const lzt_gemm *g)
{
    (void)dnn;
    (void)g;
    return 0;
}

lzt_status lzt__onednn_gemm(lzt_onednn *dnn, const lzt_gemm *g, void *scratch, uint64_t scratch_bytes, bool *done,
                            lzt_error *err)
{
    (void)dnn;
    (void)g;
    (void)scratch;
    (void)scratch_bytes;
    (void)err;
    *done = false;
    return LZT_OK;
}

lzt_onednn_stats lzt__onednn_stats(lzt_onednn *dnn)
{
    (void)dnn;
    return (lzt_onednn_stats){0};
}

#endif
