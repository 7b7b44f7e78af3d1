/* Vectors of the build's width, for *_isa.c files only: loads and stores of f32 and BF16, selection, sums, exp.
 *
 * A vf holds VW floats: 4 (x86-64-v2), 8 (AVX2) or 16 (AVX-512). Plain operators work on it (+ - * / and comparisons,
 * which give a vi of 0 or -1 a lane). Sums over lanes have a fixed order. Loops take whole vectors and then the tail
 * with vload_part and vstore_part, which touch count lanes only.
 */
#ifndef LZT_KERN_CPU_VMATH_H
#define LZT_KERN_CPU_VMATH_H

#include "lazytrain/dtype.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#define VW 16
#elif defined(__AVX2__)
#define VW 8
#else
#define VW 4
#endif

typedef float vf __attribute__((vector_size(4 * VW)));
typedef int32_t vi __attribute__((vector_size(4 * VW)));
typedef uint32_t vu __attribute__((vector_size(4 * VW)));
typedef uint16_t vh __attribute__((vector_size(2 * VW))); /* BF16 bits */

#define VINLINE static inline __attribute__((always_inline, unused))

VINLINE vf vset1(float x)
{
    return x - (vf){0};
}

VINLINE vf vload(const float *p)
{
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}

VINLINE void vstore(float *p, vf v)
{
    memcpy(p, &v, sizeof v);
}

/* by hand where compilers take __builtin_convertvector apart */
VINLINE vf vfrom_bf16(vh h)
{
#if VW == 16
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)h), 16);
#else
    return (vf)(__builtin_convertvector(h, vu) << 16);
#endif
}

/* rounds to nearest even; NaN stays NaN */
VINLINE vh vto_bf16(vf v)
{
#if VW == 16
    __m512i bits = (__m512i)v, odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    up = _mm512_mask_or_epi32(up, _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q), bits,
                              _mm512_set1_epi32(0x400000));
    return (vh)_mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16));
#else
    vu u = (vu)v;
    vu rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    vu nan = (vu)(v != v);
    return __builtin_convertvector((rounded & ~nan) | (((u >> 16) | 0x40u) & nan), vh);
#endif
}

VINLINE vf vload_bf16(const uint16_t *p)
{
    vh h;
    memcpy(&h, p, sizeof h);
    return vfrom_bf16(h);
}

VINLINE void vstore_bf16(uint16_t *p, vf v)
{
    vh h = vto_bf16(v);
    memcpy(p, &h, sizeof h);
}

/* The first count (0..VW) lanes; the others are 0. */
VINLINE vf vload_part(const float *p, size_t count)
{
    vf v = {0};
    memcpy(&v, p, 4 * count);
    return v;
}

VINLINE void vstore_part(float *p, vf v, size_t count)
{
    memcpy(p, &v, 4 * count);
}

VINLINE vf vload_bf16_part(const uint16_t *p, size_t count)
{
    vh h = {0};
    memcpy(&h, p, 2 * count);
    return vfrom_bf16(h);
}

VINLINE void vstore_bf16_part(uint16_t *p, vf v, size_t count)
{
    vh h = vto_bf16(v);
    memcpy(p, &h, 2 * count);
}

/* mask ? a : b, a lane of mask being 0 or -1 */
VINLINE vf vselect(vi mask, vf a, vf b)
{
    return (vf)(((vi)a & mask) | ((vi)b & ~mask));
}

/* a where a > b, else b: where a is NaN, b */
VINLINE vf vmax(vf a, vf b)
{
    return vselect(a > b, a, b);
}

/* The sum of the lanes, halves first: (0 + VW/2), ... */
VINLINE float vsum(vf v)
{
    float lane[VW];
    memcpy(lane, &v, sizeof lane);
    for (int width = VW / 2; width; width /= 2)
        for (int i = 0; i < width; i++) lane[i] += lane[i + width];
    return lane[0];
}

VINLINE float vmax_lane(vf v)
{
    float lane[VW];
    memcpy(lane, &v, sizeof lane);
    for (int i = 1; i < VW; i++) lane[0] = lane[0] > lane[i] ? lane[0] : lane[i];
    return lane[0];
}

/* e^x within 1 ulp for -87.3 <= x <= 88.7; 0 below, +inf above, NaN for NaN. x = n ln 2 + r, |r| <= ln 2 / 2 (Cody and
 * Waite, ln 2 in two parts), e^r by the polynomial of degree 7 of Cephes' expf, 2^n in two factors so that the largest
 * results do not overflow early. */
VINLINE vf vexp(vf x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    vi below = x<-87.33654f, above = x> 88.72283f;
    vf clamped = vselect(below | above, vset1(0), x);
    vf shifted = clamped * 1.44269504088896341f + magic;
    vf n = shifted - magic;
    vf r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
    vf p = vset1(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    vf e = (p * r) * r + r + 1.0f;
    vi k = (vi)shifted - (int32_t)0x4b400000;
    vi half = k >> 1;
    e = e * (vf)((half + 127) << 23) * (vf)((k - half + 127) << 23);
    e = vselect(below, vset1(0), e);
    return vselect(above, vset1(__builtin_inff()), e);
}

/* f32 or BF16 by a flag that is constant at compile time after inlining */
VINLINE vf vload_dtype(const void *p, size_t index, int is_bf16)
{
    return is_bf16 ? vload_bf16((const uint16_t *)p + index) : vload((const float *)p + index);
}

VINLINE vf vload_dtype_part(const void *p, size_t index, size_t count, int is_bf16)
{
    return is_bf16 ? vload_bf16_part((const uint16_t *)p + index, count) : vload_part((const float *)p + index, count);
}

VINLINE void vstore_dtype(void *p, size_t index, vf v, int is_bf16)
{
    if (is_bf16)
        vstore_bf16((uint16_t *)p + index, v);
    else
        vstore((float *)p + index, v);
}

VINLINE void vstore_dtype_part(void *p, size_t index, vf v, size_t count, int is_bf16)
{
    if (is_bf16)
        vstore_bf16_part((uint16_t *)p + index, v, count);
    else
        vstore_part((float *)p + index, v, count);
}

#endif
