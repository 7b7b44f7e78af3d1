/* Element types: see lazytrain/dtype.h. */
#include "lazytrain/dtype.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t bits;
} table[LZT_DTYPE_COUNT] = {
    [LZT_DTYPE_NONE] = {"NONE", 0},
    [LZT_DTYPE_F32] = {"F32", 32},
    [LZT_DTYPE_BF16] = {"BF16", 16},
    [LZT_DTYPE_F16] = {"F16", 16},
    [LZT_DTYPE_F64] = {"F64", 64},
    [LZT_DTYPE_U8] = {"U8", 8},
    [LZT_DTYPE_I8] = {"I8", 8},
    [LZT_DTYPE_I16] = {"I16", 16},
    [LZT_DTYPE_U16] = {"U16", 16},
    [LZT_DTYPE_I32] = {"I32", 32},
    [LZT_DTYPE_U32] = {"U32", 32},
    [LZT_DTYPE_I64] = {"I64", 64},
    [LZT_DTYPE_U64] = {"U64", 64},
    [LZT_DTYPE_BOOL] = {"BOOL", 8},
    [LZT_DTYPE_F8_E4M3] = {"F8_E4M3", 8},
    [LZT_DTYPE_F8_E5M2] = {"F8_E5M2", 8},
    [LZT_DTYPE_F8_E8M0] = {"F8_E8M0", 8},
    [LZT_DTYPE_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8},
    [LZT_DTYPE_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8},
    [LZT_DTYPE_F6_E2M3] = {"F6_E2M3", 6},
    [LZT_DTYPE_F6_E3M2] = {"F6_E3M2", 6},
    [LZT_DTYPE_F4] = {"F4", 4},
    [LZT_DTYPE_C64] = {"C64", 64},
};

uint32_t lzt_dtype_bits(lzt_dtype dtype)
{
    assert(dtype >= 0 && dtype < LZT_DTYPE_COUNT);
    return table[dtype].bits;
}

uint64_t lzt_dtype_bytes(lzt_dtype dtype)
{
    uint32_t bits = lzt_dtype_bits(dtype);
    assert(bits % 8 == 0);
    return bits / 8;
}

const char *lzt_dtype_name(lzt_dtype dtype)
{
    assert(dtype >= 0 && dtype < LZT_DTYPE_COUNT);
    return table[dtype].name;
}

lzt_dtype lzt_dtype_from_name(const char *name, uint64_t length)
{
    for (int i = 1; i < LZT_DTYPE_COUNT; i++)
        if (strlen(table[i].name) == length && !memcmp(table[i].name, name, length)) return (lzt_dtype)i;
    return LZT_DTYPE_NONE;
}
