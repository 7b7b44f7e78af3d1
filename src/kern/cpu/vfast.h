/* What the tile and row kernels need beyond vmath.h: fused multiply-add, maximum in one instruction, a fast e^x, and
 * loads and stores that take the number of elements left in the row. For *_isa.c files only.
 */
#ifndef LZT_KERN_CPU_VFAST_H
#define LZT_KERN_CPU_VFAST_H

#include "kern/cpu/vmath.h"

#include <immintrin.h>
#include <math.h>
#include <stdbool.h>

/* a * b + c: rounded once where the instruction set has it, twice on x86-64-v2. */
VINLINE vf vfma(vf a, vf b, vf c)
{
#if VW == 16
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif VW == 8
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

/* The larger lane by lane; b where either is NaN. */
VINLINE vf vmax_fast(vf a, vf b)
{
#if VW == 16
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif VW == 8
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return (vf)_mm_max_ps((__m128)a, (__m128)b);
#endif
}

/* The smaller lane by lane; b where either is NaN. */
VINLINE vf vmin_fast(vf a, vf b)
{
#if VW == 16
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif VW == 8
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#else
    return (vf)_mm_min_ps((__m128)a, (__m128)b);
#endif
}

/* e^x within 2 ulp for -87.3 <= x <= 88.3; 0 below -87.7 (no denormals but the last), +inf above 88.4, NaN for NaN.
 * x = n ln 2 + r, |r| <= ln 2 / 2 (Cody and Waite, ln 2 in two parts): adding 1.5 * 2^23 + 127 leaves n + 127, the
 * exponent of 2^n, in the low bits; e^r = 1 + r + r^2 q(r) with q by Chebyshev interpolation (relative error 1.1e-8
 * before rounding). Half the work of vexp, for loops whose arguments stay away from overflow or may saturate early. */
VINLINE vf vexp_fast(vf x)
{
    const float magic = 12582912.0f + 127.0f;
    x = vmax_fast(vset1(-88.0f), vmin_fast(vset1(89.0f), x));
    vf shifted = vfma(x, vset1(1.44269504088896341f), vset1(magic));
    vf n = shifted - magic;
    vf r = vfma(n, vset1(2.12194440e-4f), vfma(n, vset1(-0.693359375f), x));
    vf scale = (vf)((vu)shifted << 23);
    vf q = vset1(1.3926213141530752e-3f);
    q = vfma(q, r, vset1(8.363203145563602e-3f));
    q = vfma(q, r, vset1(4.1666556149721146e-2f));
    q = vfma(q, r, vset1(1.6666576266288757e-1f));
    q = vfma(q, r, vset1(0.5f));
    return (vfma(q * r, r, r) + 1.0f) * scale;
}

/* 1 / (1 + e^-x) */
VINLINE vf vsigmoid(vf x)
{
    return 1.0f / (1.0f + vexp_fast(-x));
}

/* Elements index .. of an array of f32 or BF16 (a constant after inlining), left >= 1 of them; lanes past them are 0.
 */
VINLINE vf vload_left(const void *array, bool bf16, uint64_t index, uint64_t left)
{
    return left >= VW ? vload_dtype(array, index, bf16) : vload_dtype_part(array, index, left, bf16);
}

VINLINE void vstore_left(void *array, bool bf16, uint64_t index, uint64_t left, vf v)
{
    if (left >= VW)
        vstore_dtype(array, index, v, bf16);
    else
        vstore_dtype_part(array, index, v, left, bf16);
}

/* The sum of the lanes in double, in their order. */
VINLINE double vsum_wide(vf v)
{
    double sum = 0;
    for (int i = 0; i < VW; i++) sum += (double)v[i];
    return sum;
}

#endif
