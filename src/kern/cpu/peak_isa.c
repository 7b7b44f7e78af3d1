/* Peak loops: see peak_isa.h. Compiled once per instruction set. */
#include "kern/cpu/peak_isa.h"

#include "base/isa_level.h"
#include "kern/cpu/vmath.h"

#define CHAINS 12 /* independent sums: two a cycle with a latency of up to six */

/* The empty asm hides the sums from the optimiser, each in a register. */
#if VW == 4
#define KEEP(v) __asm__ volatile("" : "+x"(v))
#else
#define KEEP(v) __asm__ volatile("" : "+v"(v))
#endif

static double f32(uint64_t rounds)
{
    vf sum[CHAINS], factor = vset1(0.5f), term = vset1(1);
    for (int i = 0; i < CHAINS; i++) sum[i] = vset1((float)i);
    KEEP(factor);
    KEEP(term);
    for (uint64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) sum[i] = sum[i] * factor + term;
    }
    for (int i = 0; i < CHAINS; i++) KEEP(sum[i]);
    return (double)rounds * CHAINS * VW * 2;
}

#if VW == 16
static double bf16(uint64_t rounds)
{
    vf sum[CHAINS] = {0}, factor = {0};
    for (uint64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) __asm__ volatile("vdpbf16ps %1, %1, %0" : "+v"(sum[i]) : "v"(factor));
    }
    return (double)rounds * CHAINS * VW * 4;
}
#define BF16 bf16
#else
#define BF16 NULL
#endif

const lzt_peak_code ISA(lzt__peak_code) = {f32, BF16};
