/* The optimizer's inner loops: see optim_code.h.
 *
 * The only arithmetic that a compiler could round in two ways (a fused multiply-add, or not) is in update, which is one
 * function over exactly LANES elements: the tail of a run goes through it in padded buffers. So an element's result
 * does not depend on where it lies in its run. The other loops are exact, or round once.
 */
#include "optim/optim_code.h"

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

enum { SUM_LANES = 16 };

INLINE double sum_lanes(const double *lane)
{
    double sum = 0;
    for (int i = 0; i < SUM_LANES; i++) sum += lane[i];
    return sum;
}

INLINE double sqnorm(const void *values, uint64_t count, bool is_bf16)
{
    double lane[SUM_LANES] = {0};
    float x[SUM_LANES];
    for (uint64_t i = 0; i < count; i += SUM_LANES) {
        uint64_t left = count - i < SUM_LANES ? count - i : SUM_LANES;
        if (left < SUM_LANES) memset(x, 0, sizeof x);
        if (is_bf16)
            widen((const uint16_t *)values + i, x, left < SUM_LANES ? left : SUM_LANES);
        else
            memcpy(x, (const float *)values + i, 4 * left);
        for (int k = 0; k < SUM_LANES; k++) lane[k] += (double)x[k] * (double)x[k];
    }
    return sum_lanes(lane);
}

static double sqnorm_f32(const float *values, uint64_t count)
{
    return sqnorm(values, count, false);
}

static double sqnorm_bf16(const uint16_t *values, uint64_t count)
{
    return sqnorm(values, count, true);
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
