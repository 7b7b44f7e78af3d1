/* The operator contract: the instruction set of the compute lane.
 *
 * An operator is called with pointers into one device's memory and sizes; it knows nothing of layers, plans or streams.
 * lzt_kern_call is the whole instruction: the step compiler fills dim and real when it emits a task, the runtime fills
 * ptr and scratch when it binds the program to a device. Calls do not change from step to step: what changes (how many
 * tokens, where documents begin, what is trained) is read from the micro-batch descriptor, operand 0 of most operators.
 *
 * Numerics, the same on every backend: inputs and outputs are dtype (F32 or BF16), sums are F32 or wider in a fixed
 * order, each output is rounded once, where it is stored (round to nearest even). Weight gradients are stored in
 * grad_dtype. Results do not depend on placement or timing; they may depend on the backend, its ISA and thread count.
 *
 * Shapes are row-major. T: token capacity; only the first n = token_count rows are read or written. H hidden, V
 * vocabulary.
 */
#ifndef LAZYTRAIN_KERN_H
#define LAZYTRAIN_KERN_H

#include "lazytrain/dtype.h"
#include "lazytrain/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The micro-batch descriptor in device memory, for capacity T:
 *
 *     0                lzt_batch_header
 *     64               int32 position[T]          of each token in its document
 *     64 + 4T          int32 target[T]            the id that position t predicts, or -1: bears no loss
 *     64 + 8T          float weight[T]            of the target's loss: above 0; not read where target is -1
 *     64 + 12T         int32 document_begin[T+1]  document d is tokens document_begin[d] .. document_begin[d+1]-1
 *
 * Documents do not attend to each other. In generation nothing bears loss, and target[d] is the sequence of the
 * key-value cache that document d belongs to: its tokens are those at position[..] of that sequence. */
typedef struct lzt_batch_header {
    uint32_t token_count;      /* n, 1..T */
    uint32_t document_count;   /* 1..n */
    uint32_t loss_token_count; /* targets that are not -1 */
    float loss_scale;          /* 1 / sum of weights over the global batch; multiplies every logit gradient */
    uint32_t reserved[12];
} lzt_batch_header;

static inline uint64_t lzt_batch_bytes(uint64_t capacity)
{
    return 64 + 4 * (4 * capacity + 1);
}
/* The capacity that so many bytes hold. */
static inline uint64_t lzt_batch_capacity(uint64_t bytes)
{
    return (bytes - 68) / 16;
}
static inline int32_t *lzt_batch_position(const void *batch)
{
    return (int32_t *)((char *)(uintptr_t)batch + 64);
}
static inline int32_t *lzt_batch_target(const void *batch, uint64_t capacity)
{
    return (int32_t *)((char *)(uintptr_t)batch + 64 + 4 * capacity);
}
/* Generation: the sequence of document d. */
static inline int32_t *lzt_batch_sequence(const void *batch, uint64_t capacity)
{
    return lzt_batch_target(batch, capacity);
}
static inline float *lzt_batch_weight(const void *batch, uint64_t capacity)
{
    return (float *)((char *)(uintptr_t)batch + 64 + 8 * capacity);
}
static inline int32_t *lzt_batch_document(const void *batch, uint64_t capacity)
{
    return (int32_t *)((char *)(uintptr_t)batch + 64 + 12 * capacity);
}

#define LZT_KERN_PTRS  12
#define LZT_KERN_DIMS  10
#define LZT_KERN_REALS 4

/* Operands in the order of ptr[], sizes in the order of dim[] after dim[0] = T. "?": may be NULL. "(ld X)": row stride
 * X in elements. Unless said otherwise activations are [T, columns] of dtype and outputs must not overlap inputs. */
typedef enum lzt_op {
    LZT_OP_NONE = 0,

    /* table[T, R/2, 2] f32 (cos, sin of position * inv_freq, times real[0]).  ptr: batch, inv_freq f32[R/2], table.
     * dim: T, R. The angle is computed in double. */
    LZT_OP_ROPE_TABLE,

    /* y = x * rstd * (w + real[1]), rstd = 1/sqrt(mean(x^2) + real[0]).  ptr: batch, x, w[H], y, rstd f32[T]?.
     * dim: T, H */
    LZT_OP_RMSNORM_FWD,

    /* dx = (residual?) + the norm's gradient; dw[H] = sum over tokens.  ptr: batch, dy, x, w, rstd f32[T], residual?,
     * dx, dw[H] (grad_dtype)?.  dim: T, H. real as above. dx may be dy or residual. */
    LZT_OP_RMSNORM_BWD,

    /* y = x w^T + bias + residual, rounded once.  ptr: batch, x[T,K], w[N,K], bias[N]?, residual[T,N]?, y[T,N].
     * dim: T, K, N.  y may be residual. real[0] 1: the bits of a row depend on that row alone and not on how many
     * there are, so that a token gets the same ones in a prompt and by itself. */
    LZT_OP_LINEAR_FWD,

    /* dx = dy w.  ptr: batch, dy[T,N], w[N,K], dx[T,K].  dim: T, K, N */
    LZT_OP_LINEAR_BWD_X,

    /* dw = dy^T x, dbias = column sums of dy.  ptr: batch, dy[T,N], x[T,K], dw[N,K], dbias[N]? (both grad_dtype).
     * dim: T, K, N */
    LZT_OP_LINEAR_BWD_W,

    /* RMSNorm of each query and key head over head_dim.  ptr: batch, qkv (ld L), wq[D], wk[D], qk[T, (Q+K)*D].
     * dim: T, Q heads, K heads, D, L. The first Q*D columns of qkv are the queries, the next K*D the keys.
     * real[0] eps, real[1] added to w. No rstd is kept: backward takes it from qkv again. */
    LZT_OP_HEAD_NORM_FWD,

    /* ptr: batch, dqk (ld L: the first (Q+K)*D columns of dqkv, replaced by the gradient of the raw queries and keys),
     * qkv (ld L), wq, wk, dwq[D], dwk[D] (grad_dtype).  dim and real as above */
    LZT_OP_HEAD_NORM_BWD,

    /* Rotates the first R of each head's D columns in place, half-split pairs (i, i + R/2); real[0] = +1 forward, -1
     * backward (the transpose, the table's factor included).  ptr: batch, table f32[T,R/2,2], x (ld L).  dim: T, heads,
     * D, R (even, at most D), L */
    LZT_OP_ROPE,

    /* Causal attention within documents, grouped queries (query head h reads kv head h / (Q/K)).  ptr: batch, q (ld
     * Lq), k (ld Lk), v (ld Lv), o[T, Q*D], lse f32[Q, T].  dim: T, Q, K, D, Lq, Lk, Lv, window (0: none; else a token
     * sees itself and the window-1 before it), tile (query rows a block; 0: the kernel's own).  real[0]: scale > 0.
     * real[1] 1 (forward): the bits of ATTENTION_CACHED, whatever the dtype.
     * lse is the natural logarithm of the sum of e^(scale q.k). Nothing is counted from anywhere but a document's
     * beginning: its rows of o, lse, dq, dk and dv are the same bits alone and packed, at any T; a NaN stays in its
     * document. On the CPU the tile shows in the bits of backward, not of forward. With BF16 operands the probabilities
     * and the gradients of the scores may be rounded to BF16 for their products; lse and all sums are F32. */
    LZT_OP_ATTENTION_FWD,

    /* ptr: batch, q, k, v, o, lse, do[T, Q*D], dq (ld Lq'), dk (ld Lk'), dv (ld Lv').  dim: T, Q, K, D, L of q and k
     * (the same buffer's row stride), L of v, L of dq, dk and dv (one buffer), window, tile.  real[0]: scale */
    LZT_OP_ATTENTION_BWD,

    /* s = silu(gate) * up.  ptr: batch, gu[T, 2F] (gate, then up), s[T, F].  dim: T, F */
    LZT_OP_SWIGLU_FWD,

    /* ptr: batch, gu[T,2F], ds[T,F], dgu[T,2F] (may be gu).  dim: T, F */
    LZT_OP_SWIGLU_BWD,

    /* One chunk of lm_head + cross-entropy, forward and backward at once, over token rows begin .. begin+count-1 (cut
     * at n; a chunk wholly past n only zeroes what it must). loss[0] += sum of -log p (not scaled), f64; dh rows =
     * gradient; dw (f32[V,H]) = or += gradient.  ptr: batch, h[T,H], w[V,H], loss f64[1], dh[T,H]?, dw f32[V,H]?.
     * dim: T, H, V, begin, count, first (1: loss and dw are overwritten instead of added to).
     * The logits of one chunk live in scratch. dh NULL: forward only. dh may be h. */
    LZT_OP_LOSS_CHUNK,

    /* dst[i] = src[i], f32 to grad_dtype.  ptr: src, dst.  dim: count */
    LZT_OP_CAST,

    /* For each document the id with the largest logit at its last token (the lowest id on a tie), and the logits.
     * ptr: batch, h[T,H], w[V,H], id int32[T], logits f32[T, V]? (row d: document d).  dim: T, H, V. Bits by row. */
    LZT_OP_GREEDY,

    /* A whole decoder layer whose operators do not exist yet: sized, placed, priced and simulated, never run; a backend
     * refuses them. real[0] is its operations a token, real[1] those of a pair of query and key.  dim: T (the tokens of
     * this call), the layer's kind (lzt_layer_kind), window.  LAYER_BWD may be preceded by a LAYER_FWD that writes its
     * internals anew and no output. */
    LZT_OP_LAYER_FWD,
    LZT_OP_LAYER_BWD,

    /* Keys and values of every token to their places in the cache.  ptr: batch, k (ld Lk), v (ld Lv), keys[B, S, C],
     * values[B, S, C].  dim: T, C columns, Lk, Lv, B sequences, S positions of each */
    LZT_OP_CACHE_STORE,

    /* Attention of one new token a document (document_count = token_count) over its sequence's cache, itself included:
     * the bits that ATTENTION_FWD gives the token in its whole document.  ptr: batch, q (ld Lq), keys[B, S, K*D],
     * values[B, S, K*D], o[T, Q*D].  dim: T, Q, K, D, Lq, B, S, window.  real[0]: scale > 0 */
    LZT_OP_ATTENTION_CACHED,

    LZT_OP_COUNT
} lzt_op;

/* "rmsnorm_fwd", ... Never NULL. */
LZT_EXPORT const char *lzt_op_name(lzt_op op);

typedef struct lzt_kern_call {
    lzt_op op;
    lzt_dtype dtype, grad_dtype;
    void *ptr[LZT_KERN_PTRS];
    uint64_t dim[LZT_KERN_DIMS];
    double real[LZT_KERN_REALS];
    void *scratch; /* device memory, lzt_kern_scratch_bytes of it, 64-byte aligned; contents are not kept */
    uint64_t scratch_bytes;
} lzt_kern_call;

typedef struct lzt_kern lzt_kern;

typedef struct lzt_kern_ops {
    void (*destroy)(lzt_kern *kern);
    /* pure: a function of op, dtypes, dim and real alone (and of the backend's thread count and ISA); enough for every
     * token_count up to T and whichever optional operands are given */
    uint64_t (*scratch_bytes)(const lzt_kern *kern, const lzt_kern_call *call);
    lzt_status (*run)(lzt_kern *kern, const lzt_kern_call *call, void *native_stream, lzt_error *err);
    const char *(*description)(const lzt_kern *kern); /* "cpu avx2 own-gemm 2 threads" */
} lzt_kern_ops;

struct lzt_kern {
    const lzt_kern_ops *ops;
};

typedef struct lzt_kern_cpu_options {
    uint64_t struct_bytes;
    uint32_t threads; /* 0: the cores of this process's affinity mask */
    const char *isa;  /* NULL or "auto": the best of this CPU, or LZT_CPU_ISA; else "x86-64-v2", "avx2", "avx512",
                         "avx512-bf16", "amx" */
    const char *gemm; /* NULL or "auto"; "own" (the portable GEMM); "onednn" */
} lzt_kern_cpu_options;

#define LZT_KERN_CPU_OPTIONS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(lzt_kern_cpu_options), 0, NULL, NULL                                                                    \
    }

/* Errors: LZT_ERR_USAGE: an ISA that this CPU lacks, or onednn where the library is missing. */
LZT_EXPORT lzt_status lzt_kern_cpu_create(const lzt_kern_cpu_options *options, lzt_kern **kern, lzt_error *err);
/* For benchmarks, the multiply-add peak: runs a loop of independent vector instructions in registers `rounds` times on
 * every thread of a CPU kern and returns the floating-point operations of all; the caller takes the time. BF16 uses the
 * BF16 dot product where the kern's instruction set has it, else F32; there is no loop for AMX tiles. blocks: yes */
LZT_EXPORT double lzt_kern_cpu_peak(lzt_kern *kern, lzt_dtype dtype, uint64_t rounds);
LZT_EXPORT void lzt_kern_destroy(lzt_kern *kern); /* NULL is allowed */
/* allocates nothing of ours; one call at a time per kern. blocks: yes (CPU), no (CUDA) */
LZT_EXPORT lzt_status lzt_kern_run(lzt_kern *kern, const lzt_kern_call *call, void *native_stream, lzt_error *err);
LZT_EXPORT uint64_t lzt_kern_scratch_bytes(const lzt_kern *kern, const lzt_kern_call *call);
/* Floating-point operations of a call when n tokens run (multiply and add count as two); 0 for copies and the like.
 * Of ptr it reads only whether LOSS_CHUNK's dh and dw are NULL; attention counts one document of n tokens, LOSS_CHUNK
 * every row as bearing loss. */
LZT_EXPORT double lzt_op_flops(const lzt_kern_call *call, uint64_t token_count);

#ifdef __cplusplus
}
#endif
#endif
