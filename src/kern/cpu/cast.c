/* f32 to the gradient dtype, element by element. */
#include "kern/cpu/convert_isa.h"
#include "kern/cpu/kern_cpu.h"

#include <string.h>

uint64_t lzt__cpu_cast_scratch(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    (void)kern;
    (void)call;
    return 0;
}

typedef struct cast {
    const lzt_kern_call *call;
    const lzt_convert_code *code;
} cast;

static void cast_part(void *arg, uint32_t part, uint32_t part_count)
{
    const cast *c = arg;
    const lzt_kern_call *call = c->call;
    const float *src = call->ptr[0];
    uint64_t begin, end;
    lzt__team_split(call->dim[0], 4096, part, part_count, &begin, &end);
    if (call->grad_dtype == LZT_DTYPE_BF16)
        c->code->to_bf16(src + begin, (uint16_t *)call->ptr[1] + begin, end - begin);
    else
        memcpy((float *)call->ptr[1] + begin, src + begin, (end - begin) * sizeof(float));
}

lzt_status lzt__cpu_cast(lzt_kern_cpu *kern, const lzt_kern_call *call, lzt_error *err)
{
    (void)err;
    cast c = {call, LZT_ISA_PICK(kern->build, lzt__convert_code)};
    lzt__team_run(kern->team, cast_part, &c);
    return LZT_OK;
}
