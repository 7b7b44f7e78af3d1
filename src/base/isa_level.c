/* Instruction set levels: see isa_level.h. */
#include "base/isa_level.h"

#include <assert.h>
#include <cpuid.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[LZT_ISA_COUNT] = {"x86-64-v2", "avx2", "avx512", "avx512-bf16", "amx"};

const char *lzt__isa_name(lzt_isa isa)
{
    assert(isa < LZT_ISA_COUNT);
    return names[isa];
}

/* What x86-64-v3 has besides AVX2, FMA and BMI: F16C and MOVBE (leaf 1), LZCNT (leaf 0x80000001). */
static int has_v3_rest(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 29)) || !(c & (1u << 22))) return 0;
    return __get_cpuid(0x80000001u, &a, &b, &c, &d) && (c & (1u << 5));
}

/* AMX tiles and their BF16 product, with the tile state (bits 17 and 18 of XCR0) enabled by the operating system. */
static int has_amx(void)
{
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 27))) return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & (3u << 17)) != (3u << 17)) return 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & (1u << 24)) && (d & (1u << 22));
}

int lzt__isa_supported(lzt_isa isa)
{
    __builtin_cpu_init();
    switch (isa) {
    case LZT_ISA_V2: return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
    case LZT_ISA_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
               __builtin_cpu_supports("bmi2") && has_v3_rest();
    case LZT_ISA_AVX512:
        return lzt__isa_supported(LZT_ISA_AVX2) && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case LZT_ISA_AVX512_BF16: return lzt__isa_supported(LZT_ISA_AVX512) && __builtin_cpu_supports("avx512bf16");
    case LZT_ISA_AMX: return lzt__isa_supported(LZT_ISA_AVX512_BF16) && has_amx();
    case LZT_ISA_COUNT: break;
    }
    return 0;
}

static lzt_isa best(void)
{
    lzt_isa isa = LZT_ISA_V2;
    for (int i = LZT_ISA_V2; i < LZT_ISA_COUNT; i++)
        if (lzt__isa_supported((lzt_isa)i)) isa = (lzt_isa)i;
    return isa;
}

lzt_status lzt__isa_choose(const char *name, lzt_isa *isa, lzt_error *err)
{
    const char *where = "kernel option isa";
    if (!name || !strcmp(name, "auto")) {
        name = getenv("LZT_CPU_ISA");
        where = "LZT_CPU_ISA";
    }
    if (!name || !*name || !strcmp(name, "auto")) {
        *isa = best();
        return LZT_OK;
    }
    for (int i = 0; i < LZT_ISA_COUNT; i++) {
        if (strcmp(name, names[i])) continue;
        *isa = (lzt_isa)i;
        if (lzt__isa_supported(*isa)) return LZT_OK;
        lzt_fail(err, LZT_ERR_USAGE, where, "this CPU lacks %s", name);
        lzt_hint(err, "its best level is %s", names[best()]);
        return LZT_ERR_USAGE;
    }
    lzt_fail(err, LZT_ERR_USAGE, where, "unknown instruction set \"%s\"", name);
    lzt_hint(err, "known are x86-64-v2, avx2, avx512, avx512-bf16, amx and auto");
    return LZT_ERR_USAGE;
}

lzt_isa_build lzt__isa_build(lzt_isa isa)
{
    return isa >= LZT_ISA_AVX512 ? LZT_BUILD_AVX512 : isa == LZT_ISA_AVX2 ? LZT_BUILD_AVX2 : LZT_BUILD_V2;
}
