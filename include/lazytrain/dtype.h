/* Element types of tensors and of device memory.
 *
 * The names are those of safetensors. Training computes in F32 or BF16 (accumulating in F32); the others are read from
 * model files. All functions here are pure.
 */
#ifndef LAZYTRAIN_DTYPE_H
#define LAZYTRAIN_DTYPE_H

#include "lazytrain/export.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lzt_dtype {
    LZT_DTYPE_NONE = 0,
    LZT_DTYPE_F32,
    LZT_DTYPE_BF16,
    LZT_DTYPE_F16,
    LZT_DTYPE_F64,
    LZT_DTYPE_U8,
    LZT_DTYPE_I8,
    LZT_DTYPE_I16,
    LZT_DTYPE_U16,
    LZT_DTYPE_I32,
    LZT_DTYPE_U32,
    LZT_DTYPE_I64,
    LZT_DTYPE_U64,
    LZT_DTYPE_BOOL,
    LZT_DTYPE_F8_E4M3,
    LZT_DTYPE_F8_E5M2,
    LZT_DTYPE_F8_E8M0,
    LZT_DTYPE_F8_E4M3FNUZ,
    LZT_DTYPE_F8_E5M2FNUZ,
    LZT_DTYPE_F6_E2M3,
    LZT_DTYPE_F6_E3M2,
    LZT_DTYPE_F4,
    LZT_DTYPE_C64,
    LZT_DTYPE_COUNT
} lzt_dtype;

/* Bits of one element; 0 for NONE. */
LZT_EXPORT uint32_t lzt_dtype_bits(lzt_dtype dtype);
/* Bytes of one element; asserts that the type has whole bytes. */
LZT_EXPORT uint64_t lzt_dtype_bytes(lzt_dtype dtype);
/* The safetensors name, such as "BF16"; "NONE" for NONE. Never NULL. */
LZT_EXPORT const char *lzt_dtype_name(lzt_dtype dtype);
/* The type of a safetensors name of length bytes, or LZT_DTYPE_NONE when it is unknown. */
LZT_EXPORT lzt_dtype lzt_dtype_from_name(const char *name, uint64_t length);

/* The master's halves (spec, decision 5): hi = (bits + 0x8000) >> 16 is the BF16 weight, rounded to nearest with ties
 * away from zero in magnitude; lo is the signed rest, so that bits = (hi << 16) + lo exactly. */
static inline uint16_t lzt_bf16_hi(uint32_t bits)
{
    return (uint16_t)((bits + 0x8000u) >> 16);
}

/* F32 to BF16, round to nearest even; NaN stays NaN. The rounding of every value that an operator stores. */
static inline uint16_t lzt_bf16_from_f32(float value)
{
    union {
        float f;
        uint32_t u;
    } v = {value};
    if ((v.u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((v.u >> 16) | 0x40u);
    return (uint16_t)((v.u + 0x7fffu + ((v.u >> 16) & 1u)) >> 16);
}

static inline float lzt_bf16_to_f32(uint16_t value)
{
    union {
        uint32_t u;
        float f;
    } v = {(uint32_t)value << 16};
    return v.f;
}

#ifdef __cplusplus
}
#endif
#endif
