/* The loop over tiles of the thin product, for gemm_thin_isa.c (F32) and gemm_thin_bf16.c (pairs). */
#ifndef LZT_KERN_CPU_GEMM_THIN_TILE_H
#define LZT_KERN_CPU_GEMM_THIN_TILE_H

#include "kern/cpu/gemm_thin.h"
#include "kern/cpu/vtile.h"

/* Of a product in scratch: depth is K in elements of a tile (BF16: pairs). */
typedef struct thin_packed {
    uint64_t depth, tiles; /* tiles of TILE_COLUMNS columns */
    vtile_element *b;      /* [tiles][depth][TILE_COLUMNS], zero past N */
    vtile_element *a;      /* [depth][THIN_ROWS] */
    float *edge;           /* [THIN_ROWS][TILE_COLUMNS]: where a tile of C has fewer columns */
} thin_packed;

VINLINE thin_packed thin_cut(uint64_t depth, uint64_t n, void *scratch)
{
    thin_packed p = {.depth = depth, .tiles = (n + TILE_COLUMNS - 1) / TILE_COLUMNS, .b = scratch};
    p.a = p.b + p.tiles * depth * TILE_COLUMNS;
    p.edge = (float *)(p.a + depth * THIN_ROWS);
    return p;
}

VINLINE uint64_t thin_bytes(uint64_t depth, uint64_t n)
{
    return (uintptr_t)(thin_cut(depth, n, NULL).edge + THIN_ROWS * TILE_COLUMNS);
}

/* The lines of a tile of C that is wanted next. */
VINLINE void thin_fetch(const float *c, uint64_t ldc, uint64_t rows)
{
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < TILE_COLUMNS; j += 16) __builtin_prefetch(c + i * ldc + j, 1);
}

/* rows x columns of C at (row, first column of tile) from packed A and B. next: the tile of as many rows to fetch. */
VINLINE void thin_tile(const lzt_gemm *g, const thin_packed *p, uint64_t row, uint64_t rows, uint64_t tile,
                       const float *next)
{
    uint64_t columns = g->n - tile * TILE_COLUMNS;
    float *c = (float *)g->c + row * g->ldc + tile * TILE_COLUMNS;
    bool whole = columns >= TILE_COLUMNS;
    vtile_mode mode = g->accumulate && whole ? VTILE_ADD : VTILE_STORE;
    for (uint64_t i = 0; i < rows; i += TILE_ROWS) {
        uint64_t count = rows - i < TILE_ROWS ? rows - i : TILE_ROWS;
        thin_fetch(next + i * g->ldc, g->ldc, count);
        vtile_product(count, (vtile_operand){.p = p->a + i, .row = 1, .column = THIN_ROWS},
                      (vtile_operand){.p = p->b + tile * p->depth * TILE_COLUMNS, .row = TILE_COLUMNS},
                      (vtile_sum){1, p->depth}, whole ? c + i * g->ldc : p->edge + i * TILE_COLUMNS,
                      whole ? g->ldc : TILE_COLUMNS, mode, NULL);
    }
    if (whole) return;
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < columns; j++)
            c[i * g->ldc + j] =
                g->accumulate ? c[i * g->ldc + j] + p->edge[i * TILE_COLUMNS + j] : p->edge[i * TILE_COLUMNS + j];
}

/* All tiles of rows row .. row + rows - 1, whose columns of A are packed; end: the rows that this thread has. */
VINLINE void thin_strip(const lzt_gemm *g, const thin_packed *p, uint64_t row, uint64_t rows, uint64_t end)
{
    const float *c = (const float *)g->c + row * g->ldc;
    for (uint64_t tile = 0; tile < p->tiles; tile++) {
        const float *next = c + (tile + 1) * TILE_COLUMNS;
        if (tile + 1 == p->tiles) next = row + 2 * rows <= end ? c + rows * g->ldc : c;
        thin_tile(g, p, row, rows, tile, next);
    }
}

#endif
