/* Matrix products of the CPU backend.
 *
 *     C[M,N] = op(A) op(B) (+ bias) (+ residual), or C += op(A) op(B)
 *
 * op(A) is [M,K], op(B) is [K,N]; matrices are row-major with a leading dimension (row stride in elements). A and B are
 * F32 or BF16, each for itself; sums are F32 in an order that depends on K and the ISA alone (K is never split over
 * threads), bias and residual are added in F32, and the result is rounded once.
 *
 * The three products of a linear layer y[T,N] = x[T,K] w[N,K]^T:
 *
 *     forward   y  = x w^T      trans_b         M = T, N = N, K = K
 *     backward  dx = dy w                       M = T, N = K, K = N
 *     backward  dw = dy^T x     trans_a         M = N, N = K, K = T
 */
#ifndef LZT_KERN_CPU_GEMM_H
#define LZT_KERN_CPU_GEMM_H

#include "lazytrain/dtype.h"
#include "lazytrain/status.h"

#include "base/isa_level.h"

#include <stdbool.h>

struct lzt_kern_cpu;

/* Up to this K a product may be thin: a tile's columns of B stay in the first cache, all of B in the second. */
enum { LZT_GEMM_THIN_K = 256 };

typedef struct lzt_gemm {
    uint64_t m, n, k; /* any; k == 0 gives bias + residual */
    const void *a;    /* [M,K], or [K,M] with trans_a */
    const void *b;    /* [K,N], or [N,K] with trans_b */
    void *c;          /* [M,N] */
    uint64_t lda, ldb, ldc, ld_residual;
    lzt_dtype a_dtype, b_dtype, c_dtype; /* F32 or BF16 */
    bool trans_a, trans_b;
    bool rows_apart;      /* the bits of a row of C depend on no other row, nor on M: never oneDNN */
    bool accumulate;      /* C += ...: F32 C only, without bias and residual */
    bool thin;            /* K is small (LZT_GEMM_THIN_K), C large: see gemm_thin.h; trans_a alone, F32 C */
    const void *bias;     /* [N] of c_dtype, or NULL */
    const void *residual; /* [M,N] of c_dtype, or NULL; may be c with the same leading dimension */
} lzt_gemm;

/* Scratch for the product at these sizes and for any smaller M, N and K with the same dtypes and flags. Pure; does not
 * read the pointers. */
uint64_t lzt__gemm_scratch_bytes(const struct lzt_kern_cpu *kern, const lzt_gemm *g);

/* scratch: 64-byte aligned, scratch_bytes of it. Errors: LZT_ERR_INTERNAL: oneDNN refused. blocks: yes, on the team;
 * not to be called from within a team region */
lzt_status lzt__gemm(struct lzt_kern_cpu *kern, const lzt_gemm *g, void *scratch, uint64_t scratch_bytes,
                     lzt_error *err);

#endif
