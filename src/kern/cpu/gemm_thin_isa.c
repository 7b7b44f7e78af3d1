/* The thin product in F32: see gemm_thin.h. Compiled once per instruction set. */
#include "base/isa_level.h"
#include "kern/cpu/gemm_thin_tile.h"

static void pack_b(const lzt_gemm *g, const thin_packed *p)
{
    for (uint64_t tile = 0; tile < p->tiles; tile++) {
        uint64_t left = g->n - tile * TILE_COLUMNS, columns = left < TILE_COLUMNS ? left : TILE_COLUMNS;
        vtile_gather((const float *)g->b + tile * TILE_COLUMNS, false, g->ldb, p->b + tile * p->depth * TILE_COLUMNS,
                     TILE_COLUMNS, g->k, columns);
    }
}

static void run(const lzt_gemm *g, uint64_t begin, uint64_t end, void *scratch)
{
    thin_packed p = thin_cut(g->k, g->n, scratch);
    pack_b(g, &p);
    for (uint64_t row = begin; row < end; row += THIN_ROWS) {
        uint64_t rows = end - row < THIN_ROWS ? end - row : THIN_ROWS;
        vtile_gather((const float *)g->a + row, false, g->lda, p.a, THIN_ROWS, g->k, rows);
        thin_strip(g, &p, row, rows, end);
    }
}

const lzt_thin_code ISA(lzt__thin_code) = {.scratch_bytes = thin_bytes, .run = run};
