/* The portable matrix product: blocking, the split over the team, and the choice of oneDNN or the
 * thin product. See gemm.h.
 *
 * C is cut into a grid of rectangles, one per thread; a thread cuts its rectangle into macro blocks of at most
 * BLOCK_N columns, sums each over blocks of K, and packs what it needs itself, so that no thread waits for another:
 *
 *     for macro block (all rows x BLOCK_N of C; fewer rows where C is BF16 and partial sums are kept in scratch)
 *         for k block (at most BLOCK_K)
 *             pack B (k x BLOCK_N: third cache)
 *             for row block (BLOCK_M)
 *                 pack A (BLOCK_M x k: second cache), multiply, store
 *
 * The blocks of K depend on K alone and are summed in order: neither grid nor macro blocks change a result.
 */
#include "kern/cpu/gemm.h"

#include "kern/cpu/gemm_isa.h"
#include "kern/cpu/gemm_thin.h"
#include "kern/cpu/kern_cpu.h"
#include "kern/cpu/onednn.h"

#include <assert.h>

enum {
    BLOCK_K = 640, /* a panel of B (16 columns) and one of A about fill the first cache */
    BLOCK_M = 96,
    BLOCK_N = 1024,
    PACK_COST = 10,
    SUM_ELEMENTS = 1 << 19 /* partial sums of a macro block, where there are any */
};

static const lzt_gemm_code *code_of(lzt_isa_build build)
{
    return LZT_ISA_PICK(build, lzt__gemm_code);
}

static uint64_t round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* count cut into equal blocks of at most `most`, multiples of grain */
static uint64_t equal_block(uint64_t count, uint64_t most, uint64_t grain)
{
    uint64_t blocks = (count + most - 1) / most;
    return blocks ? round_up((count + blocks - 1) / blocks, grain) : grain;
}

static uint64_t k_block(uint64_t k)
{
    return equal_block(k, BLOCK_K, 8);
}

static bool has_sums(const lzt_gemm *g)
{
    return g->c_dtype == LZT_DTYPE_BF16 && g->k > BLOCK_K;
}

/* A thread's scratch: packed A, packed B, partial sums. */
typedef struct layout {
    uint64_t b, sum, total; /* offsets in bytes; A at 0 */
    uint64_t ld_sum;
} layout;

/* The rows of partial sums only set how often B is packed again: a thread's share of C and a quarter more, within
 * bounds, so that many threads do not hold much. */
static layout scratch_layout(const lzt_gemm_code *code, const lzt_gemm *g, uint32_t threads)
{
    uint64_t k = smaller(g->k, BLOCK_K), n = round_up(smaller(g->n, BLOCK_N), code->nr);
    uint64_t m = smaller(round_up(g->m, code->mr), BLOCK_M), share = (g->m * g->n / threads * 5 / 4) / n;
    uint64_t rows = share < BLOCK_M ? m : smaller(share, SUM_ELEMENTS / n) / BLOCK_M * BLOCK_M;
    layout at = {.ld_sum = n};
    at.b = lzt__scratch_align(4 * k * m);
    at.sum = at.b + lzt__scratch_align(4 * k * n);
    at.total = at.sum + (has_sums(g) ? lzt__scratch_align(4 * rows * n) : 0);
    return at;
}

/* The least that a thread needs: at least BLOCK_M rows of partial sums. Never more than layout.total of a product with
 * larger M, N and K. */
static uint64_t least_bytes(const lzt_gemm_code *code, const lzt_gemm *g, const layout *at)
{
    return at->sum + (has_sums(g) ? 4 * smaller(round_up(g->m, code->mr), BLOCK_M) * at->ld_sum : 0);
}

/* Rows of a macro block: what the scratch that the caller gave holds, which may be that of a larger product. */
static uint64_t macro_rows(const lzt_gemm *g, const layout *at, uint64_t thread_bytes)
{
    if (!has_sums(g)) return round_up(g->m ? g->m : 1, BLOCK_M);
    uint64_t rows = (thread_bytes - at->sum) / (4 * at->ld_sum);
    return rows >= BLOCK_M ? rows / BLOCK_M * BLOCK_M : rows;
}

/* The whole product as the team sees it. */
typedef struct job {
    const lzt_gemm *g;
    const lzt_gemm_code *code;
    char *scratch;
    layout at;
    uint64_t thread_bytes, macro_rows;
    uint32_t rows; /* of the grid; columns = parts / rows */
} job;

static const void *at_element(const void *base, uint64_t row, uint64_t column, uint64_t ld, lzt_dtype dtype)
{
    return (const char *)base + (row * ld + column) * (dtype == LZT_DTYPE_BF16 ? 2 : 4);
}

/* What a macro block at (i, j) does with the sums of K block p. */
static lzt_gemm_store store_rule(const lzt_gemm *g, float *sums, uint64_t ld_sum, uint64_t i, uint64_t j, uint64_t p)
{
    bool bf16 = g->c_dtype == LZT_DTYPE_BF16, first = p == 0, last = p + k_block(g->k) >= g->k;
    lzt_gemm_store s = {.bf16 = bf16, .ldc = g->ldc, .ld_residual = g->ld_residual};
    s.c = (void *)(uintptr_t)at_element(g->c, i, j, g->ldc, g->c_dtype);
    s.sum = bf16 ? sums : s.c;
    s.ld_sum = bf16 ? ld_sum : g->ldc;
    s.add_sum = !first || g->accumulate;
    s.to_c_bf16 = bf16 && last;
    if (first && g->bias) s.bias = at_element(g->bias, 0, j, 0, g->c_dtype);
    if (first && g->residual) s.residual = at_element(g->residual, i, j, g->ld_residual, g->c_dtype);
    return s;
}

static lzt_gemm_store store_below(lzt_gemm_store s, uint64_t rows)
{
    s.c = (char *)s.c + rows * s.ldc * (s.bf16 ? 2 : 4);
    if (s.sum) s.sum += rows * s.ld_sum;
    if (s.residual) s.residual = (const char *)s.residual + rows * s.ld_residual * (s.bf16 ? 2 : 4);
    return s;
}

/* C[i .. i+m, j .. j+n], all of K */
static void macro_block(const job *w, char *scratch, uint64_t i, uint64_t m, uint64_t j, uint64_t n)
{
    const lzt_gemm *g = w->g;
    const lzt_gemm_code *code = w->code;
    float *a = (float *)scratch, *b = (float *)(scratch + w->at.b), *sums = (float *)(scratch + w->at.sum);
    uint64_t kb = k_block(g->k);
    for (uint64_t p = 0; p < g->k || p == 0; p += kb) {
        uint64_t k = smaller(kb, g->k - p);
        lzt_gemm_store store = store_rule(g, sums, w->at.ld_sum, i, j, p);
        code->pack(at_element(g->b, g->trans_b ? j : p, g->trans_b ? p : j, g->ldb, g->b_dtype),
                   g->b_dtype == LZT_DTYPE_BF16, g->ldb, g->trans_b, n, k, code->nr, b);
        for (uint64_t row = 0; row < m; row += BLOCK_M) {
            uint64_t rows = smaller(BLOCK_M, m - row), at = i + row;
            code->pack(at_element(g->a, g->trans_a ? p : at, g->trans_a ? at : p, g->lda, g->a_dtype),
                       g->a_dtype == LZT_DTYPE_BF16, g->lda, !g->trans_a, rows, k, code->mr, a);
            lzt_gemm_store below = store_below(store, row);
            code->block(rows, n, k, a, b, &below);
        }
    }
}

static void part_rectangle(void *arg, uint32_t part, uint32_t part_count)
{
    const job *w = arg;
    uint32_t columns = part_count / w->rows;
    if (part >= w->rows * columns) return;
    uint64_t i0, i1, j0, j1;
    lzt__team_split(w->g->m, w->code->mr, part / columns, w->rows, &i0, &i1);
    lzt__team_split(w->g->n, w->code->nr, part % columns, columns, &j0, &j1);
    char *scratch = w->scratch + part * w->thread_bytes;
    uint64_t rows = equal_block(i1 - i0, w->macro_rows, BLOCK_M), width = equal_block(j1 - j0, BLOCK_N, w->code->nr);
    for (uint64_t i = i0; i < i1; i += rows)
        for (uint64_t j = j0; j < j1; j += width)
            macro_block(w, scratch, i, smaller(rows, i1 - i), j, smaller(width, j1 - j));
}

/* Rows of the grid of threads with the least work for the busiest: multiplications, plus packing, an element of which
 * costs about as much as PACK_COST. */
static uint32_t grid_rows(const lzt_gemm *g, const lzt_gemm_code *code, uint32_t threads)
{
    uint32_t best = 1;
    double best_cost = 0;
    for (uint32_t rows = 1; rows <= threads; rows++) {
        uint32_t columns = threads / rows;
        if (rows * columns != threads && rows != threads) continue;
        uint64_t m = smaller(round_up((g->m + rows - 1) / rows, code->mr), g->m);
        uint64_t n = smaller(round_up((g->n + columns - 1) / columns, code->nr), g->n);
        double packed = (double)m * (double)((n + BLOCK_N - 1) / BLOCK_N) + (double)n;
        double cost = (double)m * (double)n + PACK_COST * packed;
        if (rows > 1 && cost >= best_cost) continue;
        best = rows;
        best_cost = cost;
    }
    return best;
}

static bool by_onednn(const lzt_kern_cpu *kern, const lzt_gemm *g)
{
    if (!kern->onednn || g->rows_apart || g->a_dtype != g->b_dtype) return false;
    return g->a_dtype == LZT_DTYPE_BF16 ? kern->onednn_bf16 : kern->onednn_f32 && g->c_dtype == LZT_DTYPE_F32;
}

uint64_t lzt__gemm_scratch_bytes(const lzt_kern_cpu *kern, const lzt_gemm *g)
{
    const lzt_thin_code *thin = lzt__thin_code(kern, g);
    if (thin) return lzt__thin_scratch_bytes(kern, thin, g);
    uint64_t own = kern->threads * scratch_layout(code_of(kern->build), g, kern->threads).total;
    uint64_t onednn = by_onednn(kern, g) ? lzt__scratch_align(lzt__onednn_scratch_bytes(kern->onednn, g)) : 0;
    return own > onednn ? own : onednn;
}

static bool valid_dtype(lzt_dtype dtype)
{
    return dtype == LZT_DTYPE_F32 || dtype == LZT_DTYPE_BF16;
}

lzt_status lzt__gemm(lzt_kern_cpu *kern, const lzt_gemm *g, void *scratch, uint64_t scratch_bytes, lzt_error *err)
{
    assert(valid_dtype(g->a_dtype) && valid_dtype(g->b_dtype) && valid_dtype(g->c_dtype));
    assert(!g->accumulate || (g->c_dtype == LZT_DTYPE_F32 && !g->bias && !g->residual));
    if (!g->m || !g->n) return LZT_OK;
    const lzt_thin_code *thin = lzt__thin_code(kern, g);
    if (thin) {
        lzt__thin_run(kern, thin, g, scratch, scratch_bytes);
        return LZT_OK;
    }
    bool done = false;
    lzt_status status = LZT_OK;
    if (by_onednn(kern, g)) status = lzt__onednn_gemm(kern->onednn, g, scratch, scratch_bytes, &done, err);
    if (status || done) return status;
    const lzt_gemm_code *code = code_of(kern->build);
    job w = {.g = g, .code = code, .scratch = scratch, .at = scratch_layout(code, g, kern->threads)};
    w.thread_bytes = scratch_bytes / kern->threads / 64 * 64;
    assert(w.thread_bytes >= least_bytes(code, g, &w.at));
    w.macro_rows = macro_rows(g, &w.at, w.thread_bytes);
    w.rows = grid_rows(g, code, kern->threads);
    lzt__team_run(kern->team, part_rectangle, &w);
    return LZT_OK;
}
