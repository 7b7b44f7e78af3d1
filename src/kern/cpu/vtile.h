/* Products of small matrices that lie in cache, for attention's and the thin product's *_isa.c and *_bf16.c files.
 *
 * vtile_product computes up to TILE_ROWS rows of TILE_COLUMNS columns in registers:
 *
 *     c[i, 0..TILE_COLUMNS) = sum over segments s and k of a[s][i, k] * b[s][k, 0..TILE_COLUMNS)
 *
 * a is read one element at a time and may have any strides, so that neither a row-major nor a column-major a is ever
 * transposed; b's rows are read as two vectors. A product over several panels of queries is one with several segments.
 * The order of the sum is the order of k, whatever the row: a row's result does not depend on its place in the tile.
 *
 * Elements are F32. In *_bf16.c files, which alone are compiled for AVX512-BF16, an element is a pair of BF16
 * neighbours along the sum (vpair.h), and a step adds both products.
 */
#ifndef LZT_KERN_CPU_VTILE_H
#define LZT_KERN_CPU_VTILE_H

#include "kern/cpu/vfast.h"

#define TILE_COLUMNS (2 * VW)
#if VW == 16
#define TILE_ROWS 12 /* 24 sums, two vectors of b and one element of a in 32 registers */
#else
#define TILE_ROWS 6
#endif

#ifdef __AVX512BF16__
typedef uint32_t vtile_element;
typedef vu vtile_vector;
#else
typedef float vtile_element;
typedef vf vtile_vector;
#endif

/* What becomes of a product: stored, added to what is there, or added to what is there times a factor per column. */
typedef enum vtile_mode { VTILE_STORE, VTILE_ADD, VTILE_SCALE_ADD } vtile_mode;

typedef struct vtile_operand {
    const vtile_element *p;
    uint64_t row, column; /* strides in elements; of b the columns are adjacent and only row counts */
    uint64_t segment;     /* from one segment to the next */
} vtile_operand;

typedef struct vtile_sum {
    uint64_t segments, depth;
} vtile_sum;

VINLINE vf vtile_step(vf sum, vtile_vector a, vtile_vector b)
{
#ifdef __AVX512BF16__
    return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#else
    return vfma(a, b, sum);
#endif
}

VINLINE vtile_vector vtile_load(const vtile_element *p)
{
    vtile_vector v;
    memcpy(&v, p, sizeof v);
    return v;
}

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

/* M <= TILE_ROWS is a constant; the sums stay in registers. */
VINLINE void vtile_rows(const int M, const vtile_operand *a, const vtile_operand *b, vtile_sum sum, float *c,
                        uint64_t ldc, vtile_mode mode, const vf *factor)
{
    vf acc[TILE_ROWS][2];
#pragma GCC unroll 12
    for (int i = 0; i < M; i++) acc[i][0] = acc[i][1] = vset1(0);
    for (uint64_t s = 0; s < sum.segments; s++) {
        const vtile_element *pa = a->p + s * a->segment, *pb = b->p + s * b->segment;
        for (uint64_t k = 0; k < sum.depth; k++, pa += a->column, pb += b->row) {
            vtile_vector b0 = vtile_load(pb), b1 = vtile_load(pb + VW);
#pragma GCC unroll 12
            for (int i = 0; i < M; i++) {
                vtile_vector x = pa[(uint64_t)i * a->row] - (vtile_vector){0};
                acc[i][0] = vtile_step(acc[i][0], x, b0);
                acc[i][1] = vtile_step(acc[i][1], x, b1);
            }
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < M; i++) vtile_emit(c + (uint64_t)i * ldc, acc[i][0], acc[i][1], mode, factor);
}

/* Any number of rows: in whole tiles, the last one and a part in two halves, so that no piece is too small to fill the
 * pipeline. */
static __attribute__((noinline, unused)) void vtile_product(uint64_t rows, vtile_operand a, vtile_operand b,
                                                            vtile_sum sum, float *c, uint64_t ldc, vtile_mode mode,
                                                            const vf *factor)
{
#define VTILE_CASE(M)                                                                                                  \
    case M: vtile_rows(M, &a, &b, sum, c, ldc, mode, factor); break
    while (rows) {
        uint64_t take = rows >= 2 * TILE_ROWS ? TILE_ROWS : rows > TILE_ROWS ? rows - rows / 2 : rows;
        switch (take) {
            VTILE_CASE(1);
            VTILE_CASE(2);
            VTILE_CASE(3);
            VTILE_CASE(4);
            VTILE_CASE(5);
#if TILE_ROWS > 6
            VTILE_CASE(6);
            VTILE_CASE(7);
            VTILE_CASE(8);
            VTILE_CASE(9);
            VTILE_CASE(10);
            VTILE_CASE(11);
#endif
        default: vtile_rows(TILE_ROWS, &a, &b, sum, c, ldc, mode, factor); break;
        }
        a.p += take * a.row;
        c += take * ldc;
        rows -= take;
    }
#undef VTILE_CASE
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
