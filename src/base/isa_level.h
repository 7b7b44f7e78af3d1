/* Instruction set levels of this CPU, and the names of code that is compiled once per level.
 *
 * Every file *_isa.c is compiled three times, with LZT_ISA = v2, avx2 and avx512 (x86-64-v2, -v3, -v4). Such a file
 * wraps each external name in ISA(), which appends the level, and exports one constant table of function pointers:
 *
 *     const lzt_norm_code ISA(lzt__norm_code) = {.forward_rows = forward_rows, ...};
 *
 * The plain file beside it declares lzt__norm_code_v2, _avx2 and _avx512 and picks by LZT_ISA_PICK(kern->build, ...).
 * Vector width and arithmetic come from vmath.h, so that one source serves all three. The levels above avx512 run the
 * avx512 build, let oneDNN use the BF16 instructions, and have loops of their own on the BF16 dot product: kern/cpu's
 * files *_bf16.c are compiled once, for it.
 */
#ifndef LZT_BASE_ISA_LEVEL_H
#define LZT_BASE_ISA_LEVEL_H

#include "lazytrain/status.h"

typedef enum lzt_isa {
    LZT_ISA_V2 = 0,
    LZT_ISA_AVX2,
    LZT_ISA_AVX512,
    LZT_ISA_AVX512_BF16,
    LZT_ISA_AMX,
    LZT_ISA_COUNT
} lzt_isa;

typedef enum lzt_isa_build { LZT_BUILD_V2 = 0, LZT_BUILD_AVX2, LZT_BUILD_AVX512, LZT_BUILD_COUNT } lzt_isa_build;

#define LZT_ISA_JOIN2(a, b) a##_##b
#define LZT_ISA_JOIN(a, b)  LZT_ISA_JOIN2(a, b)
#define ISA(name)           LZT_ISA_JOIN(name, LZT_ISA)

/* The address of the build's own copy of table NAME. */
#define LZT_ISA_PICK(build, NAME)                                                                                      \
    ((build) == LZT_BUILD_AVX512 ? &NAME##_avx512 : (build) == LZT_BUILD_AVX2 ? &NAME##_avx2 : &NAME##_v2)

/* "x86-64-v2", "avx2", "avx512", "avx512-bf16", "amx" */
const char *lzt__isa_name(lzt_isa isa);
/* whether CPU and operating system can run it */
int lzt__isa_supported(lzt_isa isa);
/* name NULL or "auto": LZT_CPU_ISA where it is set, else the best supported level. Errors: LZT_ERR_USAGE: an unknown
 * name, or a level that this CPU lacks. */
lzt_status lzt__isa_choose(const char *name, lzt_isa *isa, lzt_error *err);
lzt_isa_build lzt__isa_build(lzt_isa isa);

#endif
