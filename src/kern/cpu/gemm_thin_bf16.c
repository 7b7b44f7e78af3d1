/* The thin product of BF16 matrices, by the BF16 dot product: see gemm_thin.h. Two rows of A and of B are summed at a
 * time. Compiled once, for AVX512-BF16. */
#include "kern/cpu/gemm_thin_tile.h"
#include "kern/cpu/vpair.h"

static uint64_t scratch_bytes(uint64_t k, uint64_t n)
{
    return thin_bytes((k + 1) / 2, n);
}

static void pack_b(const lzt_gemm *g, const thin_packed *p)
{
    for (uint64_t tile = 0; tile < p->tiles; tile++) {
        uint64_t left = g->n - tile * TILE_COLUMNS, columns = left < TILE_COLUMNS ? left : TILE_COLUMNS;
        vpair_interleave_rows((const uint16_t *)g->b + tile * TILE_COLUMNS, g->ldb, g->k, columns,
                              p->b + tile * p->depth * TILE_COLUMNS, TILE_COLUMNS);
    }
}

static void run(const lzt_gemm *g, uint64_t begin, uint64_t end, void *scratch)
{
    thin_packed p = thin_cut((g->k + 1) / 2, g->n, scratch);
    pack_b(g, &p);
    for (uint64_t row = begin; row < end; row += THIN_ROWS) {
        uint64_t rows = end - row < THIN_ROWS ? end - row : THIN_ROWS;
        vpair_interleave_rows((const uint16_t *)g->a + row, g->lda, g->k, rows, p.a, THIN_ROWS);
        thin_strip(g, &p, row, rows, end);
    }
}

const lzt_thin_code lzt__thin_code_bf16 = {.scratch_bytes = scratch_bytes, .run = run};
