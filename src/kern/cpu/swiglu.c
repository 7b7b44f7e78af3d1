/* SwiGLU: rows are split over the team. */
#include "kern/cpu/swiglu.h"

typedef struct job {
    lzt_swiglu swiglu;
    void (*rows)(const lzt_swiglu *s, uint64_t begin, uint64_t end);
} job;

static const lzt_swiglu_code *pick(const lzt_kern_cpu *kern)
{
    return LZT_ISA_PICK(kern->build, lzt__swiglu_code);
}

static void run_part(void *arg, uint32_t part, uint32_t part_count)
{
    const job *j = arg;
    uint64_t begin, end;
    lzt__team_split(j->swiglu.rows, 1, part, part_count, &begin, &end);
    j->rows(&j->swiglu, begin, end);
}

uint64_t lzt__cpu_swiglu_fwd_scratch(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    (void)kern;
    (void)call;
    return 0;
}

lzt_status lzt__cpu_swiglu_fwd(lzt_kern_cpu *kern, const lzt_kern_call *call, lzt_error *err)
{
    (void)err;
    job j = {.swiglu = {.gu = call->ptr[1],
                        .out = call->ptr[2],
                        .rows = lzt__batch(call)->token_count,
                        .size = call->dim[1],
                        .bf16 = call->dtype == LZT_DTYPE_BF16},
             .rows = pick(kern)->forward};
    lzt__team_run(kern->team, run_part, &j);
    return LZT_OK;
}

uint64_t lzt__cpu_swiglu_bwd_scratch(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    (void)kern;
    (void)call;
    return 0;
}

lzt_status lzt__cpu_swiglu_bwd(lzt_kern_cpu *kern, const lzt_kern_call *call, lzt_error *err)
{
    (void)err;
    job j = {.swiglu = {.gu = call->ptr[1],
                        .ds = call->ptr[2],
                        .out = call->ptr[3],
                        .rows = lzt__batch(call)->token_count,
                        .size = call->dim[1],
                        .bf16 = call->dtype == LZT_DTYPE_BF16},
             .rows = pick(kern)->backward};
    lzt__team_run(kern->team, run_part, &j);
    return LZT_OK;
}
