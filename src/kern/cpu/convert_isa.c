/* Conversion and addition of plain arrays: see convert_isa.h. Compiled once per instruction set. */
#include "kern/cpu/convert_isa.h"

#include "base/isa_level.h"
#include "kern/cpu/vmath.h"

static void to_bf16(const float *src, uint16_t *dst, uint64_t count)
{
    uint64_t i = 0;
    for (; i + VW <= count; i += VW) vstore_bf16(dst + i, vload(src + i));
    if (i < count) vstore_bf16_part(dst + i, vload_part(src + i, count - i), count - i);
}

VINLINE void add_as(float *sum, const void *row, uint64_t count, bool bf16)
{
    uint64_t i = 0;
    for (; i + VW <= count; i += VW) vstore(sum + i, vload(sum + i) + vload_dtype(row, i, bf16));
    for (; i < count; i++) sum[i] += bf16 ? lzt_bf16_to_f32(((const uint16_t *)row)[i]) : ((const float *)row)[i];
}

static void add(float *sum, const void *row, uint64_t count, bool bf16)
{
    bf16 ? add_as(sum, row, count, true) : add_as(sum, row, count, false);
}

const lzt_convert_code ISA(lzt__convert_code) = {to_bf16, add};
