/* The thin product: who takes which rows. See gemm_thin.h. */
#include "kern/cpu/gemm_thin.h"

#include "kern/cpu/kern_cpu.h"

#include <assert.h>

typedef struct job {
    const lzt_gemm *g;
    const lzt_thin_code *code;
    char *scratch;
    uint64_t part_bytes;
} job;

const lzt_thin_code *lzt__thin_code(const lzt_kern_cpu *kern, const lzt_gemm *g)
{
    if (!g->thin || g->a_dtype != g->b_dtype) return NULL;
    assert(g->trans_a && !g->trans_b && !g->bias && !g->residual && g->c_dtype == LZT_DTYPE_F32);
    if (g->a_dtype == LZT_DTYPE_F32) return LZT_ISA_PICK(kern->build, lzt__thin_code);
    return kern->isa >= LZT_ISA_AVX512_BF16 ? &lzt__thin_code_bf16 : NULL;
}

static uint64_t part_bytes(const lzt_thin_code *code, const lzt_gemm *g)
{
    return lzt__scratch_align(code->scratch_bytes(g->k, g->n));
}

uint64_t lzt__thin_scratch_bytes(const lzt_kern_cpu *kern, const lzt_thin_code *code, const lzt_gemm *g)
{
    return kern->threads * part_bytes(code, g);
}

static void run_part(void *arg, uint32_t part, uint32_t part_count)
{
    const job *j = arg;
    uint64_t begin, end;
    lzt__team_split(j->g->m, THIN_ROWS, part, part_count, &begin, &end);
    if (begin < end) j->code->run(j->g, begin, end, j->scratch + part * j->part_bytes);
}

void lzt__thin_run(lzt_kern_cpu *kern, const lzt_thin_code *code, const lzt_gemm *g, void *scratch,
                   uint64_t scratch_bytes)
{
    job j = {.g = g, .code = code, .scratch = scratch, .part_bytes = part_bytes(code, g)};
    assert(kern->threads * j.part_bytes <= scratch_bytes);
    lzt__team_run(kern->team, run_part, &j);
}
