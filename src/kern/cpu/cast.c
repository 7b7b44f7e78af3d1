/* f32 to the gradient dtype, element by element. */
#include "kern/cpu/kern_cpu.h"

#include <string.h>

uint64_t lzt__cpu_cast_scratch(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    (void)kern;
    (void)call;
    return 0;
}

static void to_bf16(const float *src, uint16_t *dst, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) dst[i] = lzt_bf16_from_f32(src[i]);
}

static void cast_part(void *arg, uint32_t part, uint32_t part_count)
{
    const lzt_kern_call *call = arg;
    const float *src = call->ptr[0];
    uint64_t begin, end;
    lzt__team_split(call->dim[0], 4096, part, part_count, &begin, &end);
    if (call->grad_dtype == LZT_DTYPE_BF16)
        to_bf16(src + begin, (uint16_t *)call->ptr[1] + begin, end - begin);
    else
        memcpy((float *)call->ptr[1] + begin, src + begin, (end - begin) * sizeof(float));
}

lzt_status lzt__cpu_cast(lzt_kern_cpu *kern, const lzt_kern_call *call, lzt_error *err)
{
    (void)err;
    lzt_kern_call copy = *call;
    lzt__team_run(kern->team, cast_part, &copy);
    return LZT_OK;
}
