/* Rotary position embedding: the table of cosines and sines, and the rotation in place. */
#include "kern/cpu/rope.h"

#include <math.h>

static void table_part(void *arg, uint32_t part, uint32_t part_count)
{
    const lzt_kern_call *call = arg;
    const int32_t *position = lzt_batch_position(call->ptr[0]);
    const float *inv_freq = call->ptr[1];
    float *table = call->ptr[2];
    uint64_t half = call->dim[1] / 2, begin, end;
    lzt__team_split(lzt__batch(call)->token_count, 4, part, part_count, &begin, &end);
    for (uint64_t t = begin; t < end; t++)
        for (uint64_t i = 0; i < half; i++) {
            double angle = (double)position[t] * (double)inv_freq[i];
            table[(t * half + i) * 2] = (float)(cos(angle) * call->real[0]);
            table[(t * half + i) * 2 + 1] = (float)(sin(angle) * call->real[0]);
        }
}

uint64_t lzt__cpu_rope_table_scratch(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    (void)kern;
    (void)call;
    return 0;
}

lzt_status lzt__cpu_rope_table(lzt_kern_cpu *kern, const lzt_kern_call *call, lzt_error *err)
{
    (void)err;
    lzt_kern_call copy = *call;
    lzt__team_run(kern->team, table_part, &copy);
    return LZT_OK;
}

typedef struct job {
    lzt_rope rope;
    const lzt_rope_code *code;
} job;

static void rotate_part(void *arg, uint32_t part, uint32_t part_count)
{
    const job *j = arg;
    uint64_t begin, end;
    lzt__team_split(j->rope.rows, 4, part, part_count, &begin, &end);
    j->code->rotate(&j->rope, begin, end);
}

uint64_t lzt__cpu_rope_scratch(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    (void)kern;
    (void)call;
    return 0;
}

lzt_status lzt__cpu_rope(lzt_kern_cpu *kern, const lzt_kern_call *call, lzt_error *err)
{
    const uint64_t *dim = call->dim;
    if (dim[3] > dim[2] || dim[3] % 2)
        return lzt_fail(err, LZT_ERR_INTERNAL, lzt_op_name(call->op), "%llu of %llu columns are rotated",
                        (unsigned long long)dim[3], (unsigned long long)dim[2]);
    job j = {.rope = {.table = call->ptr[1],
                      .x = call->ptr[2],
                      .rows = lzt__batch(call)->token_count,
                      .heads = dim[1],
                      .head_dim = dim[2],
                      .rotated = dim[3],
                      .ld = dim[4],
                      .sign = (float)call->real[0],
                      .bf16 = call->dtype == LZT_DTYPE_BF16},
             .code = LZT_ISA_PICK(kern->build, lzt__rope_code)};
    lzt__team_run(kern->team, rotate_part, &j);
    return LZT_OK;
}
