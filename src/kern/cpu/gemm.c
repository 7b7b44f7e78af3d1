/* Matrix products: see gemm.h. */
#include "kern/cpu/gemm.h"

#include "kern/cpu/kern_cpu.h"

#include <assert.h>

static float element(const void *p, uint64_t index, lzt_dtype dtype)
{
    return dtype == LZT_DTYPE_F32 ? ((const float *)p)[index] : lzt_bf16_to_f32(((const uint16_t *)p)[index]);
}

static void part_rows(void *arg, uint32_t part, uint32_t part_count)
{
    const lzt_gemm *g = arg;
    uint64_t begin, end;
    lzt__team_split(g->m, 1, part, part_count, &begin, &end);
    for (uint64_t i = begin; i < end; i++)
        for (uint64_t j = 0; j < g->n; j++) {
            float sum = 0;
            for (uint64_t p = 0; p < g->k; p++)
                sum += element(g->a, g->trans_a ? p * g->lda + i : i * g->lda + p, g->a_dtype) *
                       element(g->b, g->trans_b ? j * g->ldb + p : p * g->ldb + j, g->b_dtype);
            if (g->bias) sum += element(g->bias, j, g->c_dtype);
            if (g->residual) sum += element(g->residual, i * g->ld_residual + j, g->c_dtype);
            if (g->c_dtype == LZT_DTYPE_BF16)
                ((uint16_t *)g->c)[i * g->ldc + j] = lzt_bf16_from_f32(sum);
            else
                ((float *)g->c)[i * g->ldc + j] = sum + (g->accumulate ? ((float *)g->c)[i * g->ldc + j] : 0);
        }
}

uint64_t lzt__gemm_scratch_bytes(const lzt_kern_cpu *kern, const lzt_gemm *g)
{
    (void)kern;
    (void)g;
    return 0;
}

lzt_status lzt__gemm(lzt_kern_cpu *kern, const lzt_gemm *g, void *scratch, uint64_t scratch_bytes, lzt_error *err)
{
    (void)scratch;
    (void)scratch_bytes;
    (void)err;
    lzt_gemm copy = *g;
    lzt__team_run(kern->team, part_rows, &copy);
    return LZT_OK;
}

void lzt__sgemm_tile(lzt_isa_build build, bool trans_a, bool trans_b, uint64_t m, uint64_t n, uint64_t k, float alpha,
                     const float *a, uint64_t lda, const float *b, uint64_t ldb, float beta, float *c, uint64_t ldc,
                     void *pack)
{
    (void)build;
    (void)pack;
    for (uint64_t i = 0; i < m; i++)
        for (uint64_t j = 0; j < n; j++) {
            float sum = 0;
            for (uint64_t p = 0; p < k; p++)
                sum += a[trans_a ? p * lda + i : i * lda + p] * b[trans_b ? j * ldb + p : p * ldb + j];
            c[i * ldc + j] = alpha * sum + (beta != 0 ? beta * c[i * ldc + j] : 0);
        }
}

uint64_t lzt__sgemm_tile_scratch_bytes(uint64_t m, uint64_t n, uint64_t k)
{
    (void)m;
    (void)n;
    (void)k;
    return 64;
}
