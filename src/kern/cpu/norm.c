/* RMSNorm: rows are split over the team; weight gradients are summed per block of rows, then over the blocks. */
#include "kern/cpu/norm.h"

typedef struct job {
    lzt_norm norm;
    const lzt_norm_code *code;
    void *dw;
    lzt_dtype dw_dtype;
} job;

static const lzt_norm_code *pick(const lzt_kern_cpu *kern)
{
    return LZT_ISA_PICK(kern->build, lzt__norm_code);
}

static void forward_part(void *arg, uint32_t part, uint32_t part_count)
{
    const job *j = arg;
    uint64_t begin, end;
    lzt__team_split(j->norm.rows, 4, part, part_count, &begin, &end);
    j->code->forward(&j->norm, begin, end);
}

uint64_t lzt__cpu_rmsnorm_fwd_scratch(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    (void)kern;
    (void)call;
    return 0;
}

lzt_status lzt__cpu_rmsnorm_fwd(lzt_kern_cpu *kern, const lzt_kern_call *call, lzt_error *err)
{
    (void)err;
    job j = {.norm = {.x = call->ptr[1],
                      .w = call->ptr[2],
                      .y = call->ptr[3],
                      .rstd = call->ptr[4],
                      .rows = lzt__batch(call)->token_count,
                      .size = call->dim[1],
                      .eps = call->real[0],
                      .add = (float)call->real[1],
                      .bf16 = call->dtype == LZT_DTYPE_BF16},
             .code = pick(kern)};
    lzt__team_run(kern->team, forward_part, &j);
    return LZT_OK;
}

static void backward_part(void *arg, uint32_t part, uint32_t part_count)
{
    const job *j = arg;
    uint64_t begin, end;
    lzt__team_split(lzt__norm_blocks(j->norm.rows), 1, part, part_count, &begin, &end);
    j->code->backward(&j->norm, begin, end);
}

static void sum_part(void *arg, uint32_t part, uint32_t part_count)
{
    const job *j = arg;
    uint64_t begin, end;
    lzt__team_split(j->norm.size, 64, part, part_count, &begin, &end);
    lzt__norm_sum_blocks(j->norm.partial, j->norm.size, lzt__norm_blocks(j->norm.rows), begin, end, j->dw, j->dw_dtype);
}

void lzt__norm_sum_blocks(const float *partial, uint64_t stride, uint64_t blocks, uint64_t begin, uint64_t end,
                          void *dw, lzt_dtype dtype)
{
    enum { COLUMNS = 64 };
    for (uint64_t i = begin; i < end; i += COLUMNS) {
        double sum[COLUMNS] = {0};
        uint64_t count = end - i < COLUMNS ? end - i : COLUMNS;
        for (uint64_t block = 0; block < blocks; block++)
            for (uint64_t c = 0; c < count; c++) sum[c] += (double)partial[block * stride + i + c];
        for (uint64_t c = 0; c < count; c++)
            if (dtype == LZT_DTYPE_BF16)
                ((uint16_t *)dw)[i + c] = lzt_bf16_from_f32((float)sum[c]);
            else
                ((float *)dw)[i + c] = (float)sum[c];
    }
}

uint64_t lzt__cpu_rmsnorm_bwd_scratch(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    (void)kern;
    return lzt__scratch_align(lzt__norm_blocks(call->dim[0]) * call->dim[1] * sizeof(float));
}

lzt_status lzt__cpu_rmsnorm_bwd(lzt_kern_cpu *kern, const lzt_kern_call *call, lzt_error *err)
{
    (void)err;
    job j = {.norm = {.dy = call->ptr[1],
                      .x = call->ptr[2],
                      .w = call->ptr[3],
                      .rstd = call->ptr[4],
                      .residual = call->ptr[5],
                      .y = call->ptr[6],
                      .partial = call->ptr[7] ? call->scratch : NULL,
                      .rows = lzt__batch(call)->token_count,
                      .size = call->dim[1],
                      .eps = call->real[0],
                      .add = (float)call->real[1],
                      .bf16 = call->dtype == LZT_DTYPE_BF16},
             .code = pick(kern),
             .dw = call->ptr[7],
             .dw_dtype = call->grad_dtype};
    lzt__team_run(kern->team, backward_part, &j);
    if (j.dw) lzt__team_run(kern->team, sum_part, &j);
    return LZT_OK;
}
