/* The CPU backend's inside: its handle, and one run and one scratch function for each operator.
 *
 * The operator functions are called by kern_cpu.c alone, which has checked op, dtypes, the scratch (size and alignment)
 * and, for operators on a batch, that 1 <= token_count <= T.
 */
#ifndef LZT_KERN_CPU_H
#define LZT_KERN_CPU_H

#include "lazytrain/kern.h"

#include "base/team.h"
#include "base/isa_level.h"

#include <stdbool.h>

struct lzt_onednn;

typedef struct lzt_kern_cpu {
    lzt_kern base;
    lzt_team *team;
    uint32_t threads;
    lzt_isa isa;
    lzt_isa_build build;       /* which build of the *_isa.c files */
    struct lzt_onednn *onednn; /* NULL: own products only */
    bool onednn_f32;           /* oneDNN for f32 products too */
    bool onednn_bf16;
    char description[96];
} lzt_kern_cpu;

/* OP(enum suffix, function suffix) */
#define LZT_KERN_CPU_OPS(OP)                                                                                           \
    OP(ROPE_TABLE, rope_table)                                                                                         \
    OP(RMSNORM_FWD, rmsnorm_fwd)                                                                                       \
    OP(RMSNORM_BWD, rmsnorm_bwd)                                                                                       \
    OP(LINEAR_FWD, linear_fwd)                                                                                         \
    OP(LINEAR_BWD_X, linear_bwd_x)                                                                                     \
    OP(LINEAR_BWD_W, linear_bwd_w)                                                                                     \
    OP(HEAD_NORM_FWD, head_norm_fwd)                                                                                   \
    OP(HEAD_NORM_BWD, head_norm_bwd)                                                                                   \
    OP(ROPE, rope)                                                                                                     \
    OP(ATTENTION_FWD, attention_fwd)                                                                                   \
    OP(ATTENTION_BWD, attention_bwd)                                                                                   \
    OP(SWIGLU_FWD, swiglu_fwd)                                                                                         \
    OP(SWIGLU_BWD, swiglu_bwd)                                                                                         \
    OP(LOSS_CHUNK, loss_chunk)                                                                                         \
    OP(CAST, cast)                                                                                                     \
    OP(GREEDY, greedy)                                                                                                 \
    OP(CACHE_STORE, cache_store)                                                                                       \
    OP(ATTENTION_CACHED, attention_cached)

#define LZT_KERN_CPU_DECLARE(upper, lower)                                                                             \
    lzt_status lzt__cpu_##lower(lzt_kern_cpu *kern, const lzt_kern_call *call, lzt_error *err);                        \
    uint64_t lzt__cpu_##lower##_scratch(const lzt_kern_cpu *kern, const lzt_kern_call *call);
LZT_KERN_CPU_OPS(LZT_KERN_CPU_DECLARE)

static inline const lzt_batch_header *lzt__batch(const lzt_kern_call *call)
{
    return call->ptr[0];
}

/* bytes rounded up to the 64-byte pieces in which operators cut their scratch */
static inline uint64_t lzt__scratch_align(uint64_t bytes)
{
    return (bytes + 63) & ~UINT64_C(63);
}

#endif
