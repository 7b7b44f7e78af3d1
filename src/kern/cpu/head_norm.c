/* RMSNorm of query and key heads: as norm.c, with a row for each head and weights shared by all heads of a kind. */
#include "kern/cpu/norm.h"

typedef struct job {
    lzt_head_norm norm;
    const lzt_head_norm_code *code;
} job;

static const lzt_head_norm_code *pick(const lzt_kern_cpu *kern)
{
    return LZT_ISA_PICK(kern->build, lzt__head_norm_code);
}

static lzt_head_norm common(const lzt_kern_call *call)
{
    return (lzt_head_norm){.rows = lzt__batch(call)->token_count,
                           .q_heads = call->dim[1],
                           .k_heads = call->dim[2],
                           .size = call->dim[3],
                           .ldx = call->dim[4],
                           .eps = call->real[0],
                           .add = (float)call->real[1],
                           .bf16 = call->dtype == LZT_DTYPE_BF16};
}

static void forward_part(void *arg, uint32_t part, uint32_t part_count)
{
    const job *j = arg;
    uint64_t begin, end;
    lzt__team_split(j->norm.rows, 4, part, part_count, &begin, &end);
    j->code->forward(&j->norm, begin, end);
}

uint64_t lzt__cpu_head_norm_fwd_scratch(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    (void)kern;
    (void)call;
    return 0;
}

lzt_status lzt__cpu_head_norm_fwd(lzt_kern_cpu *kern, const lzt_kern_call *call, lzt_error *err)
{
    (void)err;
    job j = {common(call), pick(kern)};
    j.norm.x = call->ptr[1];
    j.norm.wq = call->ptr[2];
    j.norm.wk = call->ptr[3];
    j.norm.y = call->ptr[4];
    j.norm.ldy = (call->dim[1] + call->dim[2]) * call->dim[3];
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

uint64_t lzt__cpu_head_norm_bwd_scratch(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    (void)kern;
    return lzt__scratch_align(lzt__norm_blocks(call->dim[0]) * 4 * call->dim[3] * sizeof(float));
}

lzt_status lzt__cpu_head_norm_bwd(lzt_kern_cpu *kern, const lzt_kern_call *call, lzt_error *err)
{
    (void)err;
    job j = {common(call), pick(kern)};
    j.norm.y = call->ptr[1];
    j.norm.x = call->ptr[2];
    j.norm.wq = call->ptr[3];
    j.norm.wk = call->ptr[4];
    j.norm.ldy = call->dim[4];
    j.norm.partial = call->scratch;
    lzt__team_run(kern->team, backward_part, &j);
    uint64_t d = j.norm.size, blocks = lzt__norm_blocks(j.norm.rows);
    lzt__norm_sum_blocks(j.norm.partial, 4 * d, blocks, 0, d, call->ptr[5], call->grad_dtype);
    lzt__norm_sum_blocks(j.norm.partial + d, 4 * d, blocks, 0, d, call->ptr[6], call->grad_dtype);
    return LZT_OK;
}
