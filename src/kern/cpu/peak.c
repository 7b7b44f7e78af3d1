/* The multiply-add peak of this CPU: see lazytrain/kern.h. */
#include "kern/cpu/kern_cpu.h"
#include "kern/cpu/peak_isa.h"

typedef struct request {
    double (*loop)(uint64_t rounds);
    uint64_t rounds;
} request;

static void part(void *arg, uint32_t index, uint32_t count)
{
    const request *r = arg;
    (void)index;
    (void)count;
    r->loop(r->rounds);
}

double lzt_kern_cpu_peak(lzt_kern *base, lzt_dtype dtype, uint64_t rounds)
{
    lzt_kern_cpu *kern = (lzt_kern_cpu *)base;
    const lzt_peak_code *code = LZT_ISA_PICK(kern->build, lzt__peak_code);
    bool dot = dtype == LZT_DTYPE_BF16 && kern->isa >= LZT_ISA_AVX512_BF16 && code->bf16;
    request r = {dot ? code->bf16 : code->f32, rounds};
    lzt__team_run(kern->team, part, &r);
    return r.loop(1) * (double)rounds * kern->threads;
}
