/* The thin product: F32 C[M,N] = or += A^T B with few rows K, as the loss's table gradient is summed chunk by chunk.
 *
 * C is far larger than A and B together and comes from memory and goes back each time, so it is walked once, row by row
 * in long strips, each fetched while the one before is summed:
 *
 *     for THIN_ROWS rows of C: pack their columns of A
 *         for TILE_COLUMNS columns: c += a^T b, tile by tile            B: packed once by each thread
 *
 * K is summed in one piece in the order of its rows, so that neither threads nor blocks show in a result.
 */
#ifndef LZT_KERN_CPU_GEMM_THIN_H
#define LZT_KERN_CPU_GEMM_THIN_H

#include "kern/cpu/gemm.h"

enum { THIN_ROWS = 96 }; /* whole cache lines of A's rows */

typedef struct lzt_thin_code {
    /* bytes of one thread's scratch */
    uint64_t (*scratch_bytes)(uint64_t k, uint64_t n);
    /* rows begin .. end - 1 of C; scratch is 64-byte aligned */
    void (*run)(const lzt_gemm *g, uint64_t begin, uint64_t end, void *scratch);
} lzt_thin_code;

extern const lzt_thin_code lzt__thin_code_v2, lzt__thin_code_avx2, lzt__thin_code_avx512;
/* A and B in BF16, from LZT_ISA_AVX512_BF16 on */
extern const lzt_thin_code lzt__thin_code_bf16;

/* The loops that serve the product; NULL where it is not to be thin, or of dtypes that there are none for. */
const lzt_thin_code *lzt__thin_code(const struct lzt_kern_cpu *kern, const lzt_gemm *g);
uint64_t lzt__thin_scratch_bytes(const struct lzt_kern_cpu *kern, const lzt_thin_code *code, const lzt_gemm *g);
/* blocks: yes, on the team */
void lzt__thin_run(struct lzt_kern_cpu *kern, const lzt_thin_code *code, const lzt_gemm *g, void *scratch,
                   uint64_t scratch_bytes);

#endif
