/* Products of small f32 matrices that lie in cache, for attention's *_isa.c files.
 *
 * vtile_product computes M <= 6 rows of TILE_COLUMNS columns in registers:
 *
 *     c[i, 0..TILE_COLUMNS) = sum over segments s and k of a[s][i, k] * b[s][k, 0..TILE_COLUMNS)
 *
 * a is read one element at a time and may have any strides, so that neither a row-major nor a column-major a is ever
 * transposed; b's rows are read as two vectors. A product over several panels of queries is one with several segments.
 * The order of the sum is the order of k, whatever the row: a row's result does not depend on its place in the tile.
 */
#ifndef LZT_KERN_CPU_VTILE_H
#define LZT_KERN_CPU_VTILE_H

#include "kern/cpu/vfast.h"

#define TILE_COLUMNS (2 * VW)

/* What becomes of a product: stored, added to what is there, or added to what is there times a factor per column. */
typedef enum vtile_mode { VTILE_STORE, VTILE_ADD, VTILE_SCALE_ADD } vtile_mode;

typedef struct vtile_operand {
    const float *p;
    uint64_t row, column; /* strides in elements; of b the columns are adjacent and only row counts */
    uint64_t segment;     /* from one segment to the next */
} vtile_operand;

typedef struct vtile_sum {
    uint64_t segments, depth;
} vtile_sum;

VINLINE void vtile_emit(float *c, vf x0, vf x1, vtile_mode mode, const vf *factor)
{
    if (mode == VTILE_ADD) {
        x0 += vload(c);
        x1 += vload(c + VW);
    } else if (mode == VTILE_SCALE_ADD) {
        x0 = vfma(vload(c), factor[0], x0);
        x1 = vfma(vload(c + VW), factor[1], x1);
    }
    vstore(c, x0);
    vstore(c + VW, x1);
}

#define VTILE_STEP(i)                                                                                                  \
    if (M > i) {                                                                                                       \
        vf x = vset1(pa[i * a.row]);                                                                                   \
        c##i##0 = vfma(x, b0, c##i##0);                                                                                \
        c##i##1 = vfma(x, b1, c##i##1);                                                                                \
    }
#define VTILE_EMIT(i)                                                                                                  \
    if (M > i) vtile_emit(c + i * ldc, c##i##0, c##i##1, mode, factor);

/* M is a constant; the accumulators stay in registers. */
VINLINE void vtile_rows(const int M, vtile_operand a, vtile_operand b, vtile_sum sum, float *c, uint64_t ldc,
                        vtile_mode mode, const vf *factor)
{
    vf c00 = {0}, c01 = {0}, c10 = {0}, c11 = {0}, c20 = {0}, c21 = {0};
    vf c30 = {0}, c31 = {0}, c40 = {0}, c41 = {0}, c50 = {0}, c51 = {0};
    for (uint64_t s = 0; s < sum.segments; s++) {
        const float *pa = a.p + s * a.segment, *pb = b.p + s * b.segment;
        for (uint64_t k = 0; k < sum.depth; k++) {
            vf b0 = vload(pb), b1 = vload(pb + VW);
            VTILE_STEP(0) VTILE_STEP(1) VTILE_STEP(2) VTILE_STEP(3) VTILE_STEP(4) VTILE_STEP(5) pa += a.column;
            pb += b.row;
        }
    }
    VTILE_EMIT(0) VTILE_EMIT(1) VTILE_EMIT(2) VTILE_EMIT(3) VTILE_EMIT(4) VTILE_EMIT(5)
}

/* Any number of rows: in sixes, the last 7 to 11 in two halves, so that no piece is too small to fill the pipeline. */
VINLINE void vtile_product(uint64_t rows, vtile_operand a, vtile_operand b, vtile_sum sum, float *c, uint64_t ldc,
                           vtile_mode mode, const vf *factor)
{
    while (rows) {
        uint64_t take = rows >= 12 ? 6 : rows > 6 ? rows - rows / 2 : rows;
        switch (take) {
        case 6: vtile_rows(6, a, b, sum, c, ldc, mode, factor); break;
        case 5: vtile_rows(5, a, b, sum, c, ldc, mode, factor); break;
        case 4: vtile_rows(4, a, b, sum, c, ldc, mode, factor); break;
        case 3: vtile_rows(3, a, b, sum, c, ldc, mode, factor); break;
        case 2: vtile_rows(2, a, b, sum, c, ldc, mode, factor); break;
        default: vtile_rows(1, a, b, sum, c, ldc, mode, factor); break;
        }
        a.p += take * a.row;
        c += take * ldc;
        rows -= take;
    }
}

typedef float vtile_f4 __attribute__((vector_size(16)));

VINLINE vtile_f4 vtile_load4(const float *p)
{
    vtile_f4 v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* dst[j, i] = src[i, j] for 4 x 4 elements */
VINLINE void vtile_transpose4(const float *src, uint64_t lds, float *dst, uint64_t ldd)
{
    vtile_f4 a = vtile_load4(src), b = vtile_load4(src + lds), c = vtile_load4(src + 2 * lds),
             d = vtile_load4(src + 3 * lds);
    vtile_f4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    vtile_f4 cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    a = __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5);
    b = __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7);
    c = __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5);
    d = __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7);
    memcpy(dst, &a, sizeof a);
    memcpy(dst + ldd, &b, sizeof b);
    memcpy(dst + 2 * ldd, &c, sizeof c);
    memcpy(dst + 3 * ldd, &d, sizeof d);
}

/* dst[columns, rows] = src[rows, columns] transposed; rows is a multiple of 4. */
static inline __attribute__((unused)) void vtile_transpose(const float *src, uint64_t lds, float *dst, uint64_t ldd,
                                                           uint64_t rows, uint64_t columns)
{
    for (uint64_t i = 0; i < rows; i += 4) {
        uint64_t j = 0;
        for (; j + 4 <= columns; j += 4) vtile_transpose4(src + i * lds + j, lds, dst + j * ldd + i, ldd);
        for (; j < columns; j++)
            for (uint64_t r = 0; r < 4; r++) dst[j * ldd + i + r] = src[(i + r) * lds + j];
    }
}

/* dst[rows, ldd] in f32 = src[rows, columns] of f32 or BF16; the columns up to ldd are zeroed. */
static inline __attribute__((unused)) void vtile_gather(const void *src, bool bf16, uint64_t lds, float *dst,
                                                        uint64_t ldd, uint64_t rows, uint64_t columns)
{
    for (uint64_t i = 0; i < rows; i++) {
        float *to = dst + i * ldd;
        uint64_t j = 0;
        for (; j + VW <= columns; j += VW)
            vstore(to + j, bf16 ? vload_dtype(src, i * lds + j, 1) : vload_dtype(src, i * lds + j, 0));
        if (j < columns) {
            vf tail = bf16 ? vload_dtype_part(src, i * lds + j, columns - j, 1)
                           : vload_dtype_part(src, i * lds + j, columns - j, 0);
            vstore_part(to + j, tail, columns - j);
        }
        for (j = columns; j < ldd; j++) to[j] = 0;
    }
}

#endif
