/* Linear layers on a batch: y = x w^T (+ bias) (+ residual) and its two gradients, each one matrix product. */
#include "kern/cpu/convert_isa.h"
#include "kern/cpu/gemm.h"
#include "kern/cpu/kern_cpu.h"

static lzt_gemm forward(const lzt_kern_call *call, uint64_t tokens)
{
    uint64_t k = call->dim[1], n = call->dim[2];
    return (lzt_gemm){.m = tokens,
                      .n = n,
                      .k = k,
                      .a = call->ptr[1],
                      .b = call->ptr[2],
                      .c = call->ptr[5],
                      .lda = k,
                      .ldb = k,
                      .ldc = n,
                      .ld_residual = n,
                      .a_dtype = call->dtype,
                      .b_dtype = call->dtype,
                      .c_dtype = call->dtype,
                      .trans_b = true,
                      .rows_apart = call->real[0] > 0,
                      .bias = call->ptr[3],
                      .residual = call->ptr[4]};
}

uint64_t lzt__cpu_linear_fwd_scratch(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    lzt_gemm g = forward(call, call->dim[0]);
    return lzt__gemm_scratch_bytes(kern, &g);
}

lzt_status lzt__cpu_linear_fwd(lzt_kern_cpu *kern, const lzt_kern_call *call, lzt_error *err)
{
    lzt_gemm g = forward(call, lzt__batch(call)->token_count);
    return lzt__gemm(kern, &g, call->scratch, call->scratch_bytes, err);
}

static lzt_gemm backward_x(const lzt_kern_call *call, uint64_t tokens)
{
    uint64_t k = call->dim[1], n = call->dim[2];
    return (lzt_gemm){.m = tokens,
                      .n = k,
                      .k = n,
                      .a = call->ptr[1],
                      .b = call->ptr[2],
                      .c = call->ptr[3],
                      .lda = n,
                      .ldb = k,
                      .ldc = k,
                      .a_dtype = call->dtype,
                      .b_dtype = call->dtype,
                      .c_dtype = call->dtype};
}

uint64_t lzt__cpu_linear_bwd_x_scratch(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    lzt_gemm g = backward_x(call, call->dim[0]);
    return lzt__gemm_scratch_bytes(kern, &g);
}

lzt_status lzt__cpu_linear_bwd_x(lzt_kern_cpu *kern, const lzt_kern_call *call, lzt_error *err)
{
    lzt_gemm g = backward_x(call, lzt__batch(call)->token_count);
    return lzt__gemm(kern, &g, call->scratch, call->scratch_bytes, err);
}

static lzt_gemm backward_w(const lzt_kern_call *call, uint64_t tokens)
{
    uint64_t k = call->dim[1], n = call->dim[2];
    return (lzt_gemm){.m = n,
                      .n = k,
                      .k = tokens,
                      .a = call->ptr[1],
                      .b = call->ptr[2],
                      .c = call->ptr[3],
                      .lda = n,
                      .ldb = k,
                      .ldc = k,
                      .a_dtype = call->dtype,
                      .b_dtype = call->dtype,
                      .c_dtype = call->grad_dtype,
                      .trans_a = true};
}

uint64_t lzt__cpu_linear_bwd_w_scratch(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    lzt_gemm g = backward_w(call, call->dim[0]);
    return lzt__gemm_scratch_bytes(kern, &g);
}

/* Column sums of dy[tokens, columns], tokens in order; the parts of the team take columns. */
typedef struct column_sums {
    const void *dy;
    void *sums;
    uint64_t tokens, columns;
    lzt_dtype dtype, sum_dtype;
    const lzt_convert_code *code;
} column_sums;

enum { COLUMN_GRAIN = 64 };

static void sum_columns(void *arg, uint32_t part, uint32_t part_count)
{
    const column_sums *s = arg;
    uint64_t begin, end, size = lzt_dtype_bytes(s->dtype);
    lzt__team_split(s->columns, COLUMN_GRAIN, part, part_count, &begin, &end);
    for (uint64_t column = begin; column < end; column += COLUMN_GRAIN) {
        float sum[COLUMN_GRAIN] = {0};
        uint64_t count = end - column < COLUMN_GRAIN ? end - column : COLUMN_GRAIN;
        for (uint64_t t = 0; t < s->tokens; t++)
            s->code->add(sum, (const char *)s->dy + (t * s->columns + column) * size, count,
                         s->dtype == LZT_DTYPE_BF16);
        for (uint64_t i = 0; i < count; i++) {
            if (s->sum_dtype == LZT_DTYPE_F32)
                ((float *)s->sums)[column + i] = sum[i];
            else
                ((uint16_t *)s->sums)[column + i] = lzt_bf16_from_f32(sum[i]);
        }
    }
}

lzt_status lzt__cpu_linear_bwd_w(lzt_kern_cpu *kern, const lzt_kern_call *call, lzt_error *err)
{
    uint64_t tokens = lzt__batch(call)->token_count;
    if (call->ptr[4]) {
        column_sums s = {call->ptr[1],
                         call->ptr[4],
                         tokens,
                         call->dim[2],
                         call->dtype,
                         call->grad_dtype,
                         LZT_ISA_PICK(kern->build, lzt__convert_code)};
        lzt__team_run(kern->team, sum_columns, &s);
    }
    lzt_gemm g = backward_w(call, tokens);
    return lzt__gemm(kern, &g, call->scratch, call->scratch_bytes, err);
}
