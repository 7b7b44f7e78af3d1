/* The inner parts of the matrix product, once per instruction set: packing and the block kernel.
 *
 * Packed operands are f32 panels: panel p of op(A) holds rows p*mr .. p*mr+mr-1 as [k][mr], panel p of op(B) holds
 * columns p*nr .. as [k][nr]; what lies past the edge is zero. A block kernel multiplies packed A by packed B, a tile
 * of mr x nr at a time held in registers over the whole k of the block, and stores each tile as lzt_gemm_store says.
 */
#ifndef LZT_KERN_CPU_GEMM_ISA_H
#define LZT_KERN_CPU_GEMM_ISA_H

#include <stdbool.h>
#include <stdint.h>

/* Where the tiles of one block go. With acc the product of this block of K:
 *
 *     v = acc (+ sum, unless first) (+ bias) (+ residual);    last ? c = round(v) : sum = v
 *
 * bias and residual are given in the first block only. All pointers are to the block's first element. */
typedef struct lzt_gemm_store {
    float *sum; /* f32 partial sums; c itself where c is f32 */
    void *c;
    const void *bias, *residual;
    uint64_t ld_sum, ldc, ld_residual;
    bool add_sum;   /* sum is read */
    bool to_c_bf16; /* the result goes to c, in BF16; else to sum */
    bool bf16;      /* bias and residual are BF16 */
} lzt_gemm_store;

typedef struct lzt_gemm_code {
    uint64_t mr, nr;
    /* Packs `lines` rows of op(A) (or columns of op(B)) into panels of `width` (mr or nr). k_contiguous: src is
     * [lines][k] with row stride ld, else [k][lines]. */
    void (*pack)(const void *src, bool bf16, uint64_t ld, bool k_contiguous, uint64_t lines, uint64_t k, uint64_t width,
                 float *dst);
    void (*block)(uint64_t m, uint64_t n, uint64_t k, const float *a, const float *b, const lzt_gemm_store *store);
} lzt_gemm_code;

extern const lzt_gemm_code lzt__gemm_code_v2, lzt__gemm_code_avx2, lzt__gemm_code_avx512;

#endif
