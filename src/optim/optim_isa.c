/* The optimizer's inner loops: see optim_code.h.
 *
 * The only arithmetic that a compiler could round in two ways (a fused multiply-add, or not) is in update, which is one
 * function over exactly LANES elements: the tail of a run goes through it in padded buffers. So an element's result
 * does not depend on where it lies in its run. The other loops are exact, or round once.
 */
#include "optim/optim_code.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

enum { LANES = 64 };

#define INLINE static inline __attribute__((always_inline))

/* ---- AdamW */

static __attribute__((noinline)) void update(const lzt_adamw_coef *c, float *restrict w, const float *restrict grad,
                                             float *restrict m, float *restrict v)
{
    const lzt_adamw_coef k = *c;
    for (int i = 0; i < LANES; i++) {
        float g = grad[i] * k.clip;
        float m1 = m[i] + (g - m[i]) * k.take1;
        float v1 = v[i] * k.keep2 + g * g * k.take2;
        float root = sqrtf(v1) / k.root_c2 + k.eps;
        w[i] = w[i] * k.keep - k.rate * m1 / root;
        m[i] = m1;
        v[i] = v1;
    }
}

INLINE uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

INLINE float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}

INLINE void widen(const uint16_t *from, float *to, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) to[i] = float_of((uint32_t)from[i] << 16);
}

INLINE void join_halves(const uint16_t *high, const int16_t *low, float *weight, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) weight[i] = float_of(((uint32_t)high[i] << 16) + (uint32_t)(int32_t)low[i]);
}

INLINE void split_halves(const float *weight, uint16_t *high, int16_t *low, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits = bits_of(weight[i]);
        high[i] = (uint16_t)((bits + 0x8000u) >> 16);
        low[i] = (int16_t)(uint16_t)bits;
    }
}

/* Rounds to nearest even; NaN stays NaN: lzt_bf16_from_f32 without a branch. */
INLINE uint16_t narrow(float x)
{
    uint32_t u = bits_of(x), is_nan = (u & 0x7fffffffu) > 0x7f800000u;
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, quiet = (u >> 16) | 0x40u;
    return (uint16_t)(is_nan ? quiet : rounded);
}

INLINE void load_weight(const lzt_optim_run *run, uint64_t at, float *w, uint64_t count)
{
    if (run->master == LZT_MASTER_SPLIT)
        join_halves((const uint16_t *)run->weight + at, run->low + at, w, count);
    else
        memcpy(w, (const float *)run->weight + at, 4 * count);
}

INLINE void store_weight(const lzt_optim_run *run, uint64_t at, const float *w, uint64_t count)
{
    if (run->master == LZT_MASTER_SPLIT) {
        split_halves(w, (uint16_t *)run->weight + at, run->low + at, count);
        return;
    }
    memcpy((float *)run->weight + at, w, 4 * count);
    if (run->bf16_copy)
        for (uint64_t i = 0; i < count; i++) run->bf16_copy[at + i] = narrow(w[i]);
}

INLINE void load_grad(const lzt_optim_run *run, uint64_t at, float *g, uint64_t count)
{
    if (run->grad_dtype == LZT_DTYPE_BF16)
        widen((const uint16_t *)run->grad + at, g, count);
    else
        memcpy(g, (const float *)run->grad + at, 4 * count);
}

static void adamw(const lzt_optim_run *run, const lzt_adamw_coef *coef, uint64_t begin, uint64_t end)
{
    float w[LANES] __attribute__((aligned(64))), g[LANES] __attribute__((aligned(64)));
    uint64_t i = begin;
    for (; i + LANES <= end; i += LANES) {
        load_weight(run, i, w, LANES);
        load_grad(run, i, g, LANES);
        update(coef, w, g, run->m + i, run->v + i);
        store_weight(run, i, w, LANES);
    }
    if (i == end) return;
    uint64_t left = end - i;
    float m[LANES] = {0}, v[LANES] = {0};
    memset(w, 0, sizeof w);
    memset(g, 0, sizeof g);
    load_weight(run, i, w, left);
    load_grad(run, i, g, left);
    memcpy(m, run->m + i, 4 * left);
    memcpy(v, run->v + i, 4 * left);
    update(coef, w, g, m, v);
    store_weight(run, i, w, left);
    memcpy(run->m + i, m, 4 * left);
    memcpy(run->v + i, v, 4 * left);
}

/* ---- sums: squares of F32 are exact in double, so each lane's sum rounds the same with or without FMA */

enum { QUADS = 4, SUM_LANES = 4 * QUADS };

typedef double quad __attribute__((vector_size(32))); /* on every instruction set, so that lanes add up the same */

/* *lane += the squares of four values. By hand: compilers turn __builtin_convertvector here into three times as many
 * instructions. */
INLINE void add_quad(quad *lane, __m128 x)
{
#ifdef __AVX__
    quad wide = (quad)_mm256_cvtps_pd(x);
#else
    __m128d low = _mm_cvtps_pd(x), high = _mm_cvtps_pd(_mm_movehl_ps(x, x));
    quad wide = {low[0], low[1], high[0], high[1]};
#endif
    *lane += wide * wide;
}

/* The same of SUM_LANES values, four a lane. */
INLINE void add_f32_squares(quad *lane, const float *values)
{
    for (int q = 0; q < QUADS; q++) add_quad(&lane[q], _mm_loadu_ps(values + 4 * q));
}

INLINE void add_bf16_squares(quad *lane, const uint16_t *values)
{
    for (int q = 0; q < QUADS; q += 2) {
        __m128i pair = _mm_loadu_si128((const __m128i *)(const void *)(values + 4 * q)), zero = _mm_setzero_si128();
        add_quad(&lane[q], _mm_castsi128_ps(_mm_unpacklo_epi16(zero, pair)));
        add_quad(&lane[q + 1], _mm_castsi128_ps(_mm_unpackhi_epi16(zero, pair)));
    }
}

INLINE double sum_lanes(const quad *lane)
{
    double sum = 0;
    for (int i = 0; i < SUM_LANES; i++) sum += lane[i / 4][i % 4];
    return sum;
}

static double sqnorm_f32(const float *values, uint64_t count)
{
    quad lane[QUADS] = {{0}};
    float rest[SUM_LANES] = {0};
    uint64_t whole = count / SUM_LANES * SUM_LANES;
    for (uint64_t i = 0; i < whole; i += SUM_LANES) add_f32_squares(lane, values + i);
    memcpy(rest, values + whole, 4 * (count - whole));
    add_f32_squares(lane, rest);
    return sum_lanes(lane);
}

static double sqnorm_bf16(const uint16_t *values, uint64_t count)
{
    quad lane[QUADS] = {{0}};
    uint16_t rest[SUM_LANES] = {0};
    uint64_t whole = count / SUM_LANES * SUM_LANES;
    for (uint64_t i = 0; i < whole; i += SUM_LANES) add_bf16_squares(lane, values + i);
    memcpy(rest, values + whole, 2 * (count - whole));
    add_bf16_squares(lane, rest);
    return sum_lanes(lane);
}

/* ---- element by element */

static void add_f32(float *restrict target, const float *restrict source, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) target[i] += source[i];
}

static void add_f32_bf16(float *restrict target, const uint16_t *restrict source, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) target[i] += float_of((uint32_t)source[i] << 16);
}

static void add_bf16(uint16_t *restrict target, const uint16_t *restrict source, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        target[i] = narrow(float_of((uint32_t)target[i] << 16) + float_of((uint32_t)source[i] << 16));
}

static void split(const float *restrict weight, uint16_t *restrict high, int16_t *restrict low, uint64_t count)
{
    split_halves(weight, high, low, count);
}

static void join(const uint16_t *restrict high, const int16_t *restrict low, float *restrict weight, uint64_t count)
{
    join_halves(high, low, weight, count);
}

const lzt_optim_code ISA(lzt__optim_code) = {
    .adamw = adamw,
    .sqnorm_f32 = sqnorm_f32,
    .sqnorm_bf16 = sqnorm_bf16,
    .add_f32 = add_f32,
    .add_f32_bf16 = add_f32_bf16,
    .add_bf16 = add_bf16,
    .split = split,
    .join = join,
};
