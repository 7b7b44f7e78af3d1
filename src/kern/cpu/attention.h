/* Attention on the CPU: what the operator (attention.c, attention_bwd.c) and its inner tiles (attention_isa.c,
 * attention_bwd_isa.c; attention_bf16.c, attention_bwd_bf16.c) share.
 *
 * Everything is counted from the beginning of a document, so that a document's results are the same bit for bit
 * whether it stands alone or packed with others, and whichever thread computes it:
 *
 *     document: | key block 0 | key block 1 | ...                of ATTENTION_KEYS keys each
 *               | panel | panel | panel | ...                    of TILE_COLUMNS queries of one head
 *               | tile = several panels of every head of a kv head's group |
 *
 * Scores are computed transposed, a panel of queries side by side in the lanes: S^T[key, query] = K Q^T. Maximum, sum
 * and rescaling of the online softmax then run down the keys without any exchange between lanes, and O^T = V^T P^T
 * reads K and V as they lie. Only Q is transposed, once a tile.
 */
#ifndef LZT_KERN_CPU_ATTENTION_H
#define LZT_KERN_CPU_ATTENTION_H

#include "lazytrain/kern.h"

#include <stdbool.h>

enum {
    ATTENTION_KEYS = 96,      /* keys a block: a multiple of 6, the rows that a tile product holds in registers */
    ATTENTION_TILE_MAX = 256, /* forward: queries a tile */
    ATTENTION_CHUNK = 192     /* backward: queries and keys of a unit */
};

struct lzt_kern_cpu;

/* One call's operands. Strides in elements. */
typedef struct lzt_attention {
    const void *q, *k, *v;
    void *o;                                                /* [n, q_heads * head_dim] */
    float *lse;                                             /* [q_heads, capacity] */
    uint64_t capacity, q_heads, kv_heads, head_dim, window; /* window 0: none */
    uint64_t ldq, ldk, ldv, ldo;
    uint64_t tile; /* queries a tile, a multiple of TILE_COLUMNS */
    float scale;
    bool bf16;
} lzt_attention;

/* The gradients' operands beside those of the forward. */
typedef struct lzt_attention_grad {
    lzt_attention fwd;
    const void *d_o;     /* [n, q_heads * head_dim] */
    float *delta;        /* [q_heads, capacity]: the row sums of do * o */
    float *dq, *dk, *dv; /* sums of the gradients in f32, rows of ld_sum elements */
    uint64_t ld_sum;
} lzt_attention_grad;

/* One piece of work of one kv head; positions count from the document's beginning. */
typedef struct lzt_attention_unit {
    uint64_t document; /* its first token */
    uint64_t kv_head;
    uint64_t begin, count;         /* queries */
    uint64_t key_begin, key_count; /* backward: keys */
} lzt_attention_unit;

/* The inner loops of one instruction set; scratch holds scratch_floats, 64-byte aligned, of one thread. */
typedef struct lzt_attention_code {
    uint64_t columns; /* TILE_COLUMNS */
    uint64_t (*scratch_floats)(uint64_t tile, uint64_t group, uint64_t head_dim);
    /* output and lse of the unit's queries (at most tile of them) over all keys that they see */
    void (*run)(const lzt_attention *a, const lzt_attention_unit *unit, float *scratch);
    /* output of the one query at position begin, in row document of q and o, over a document of keys and values whose
     * rows begin at k and v; the same bits as run's. scratch: that of a tile of `columns` and a group of
     * lzt__attention_group_panels */
    void (*run_one)(const lzt_attention *a, const lzt_attention_unit *unit, float *scratch);
} lzt_attention_code;

typedef struct lzt_attention_bwd_code {
    uint64_t columns;
    uint64_t (*scratch_floats)(uint64_t tile, uint64_t group, uint64_t head_dim);
    /* what the unit's queries and keys (at most ATTENTION_CHUNK each) give to each other's dq, dk and dv; first: that
     * is set, else added to */
    void (*run)(const lzt_attention_grad *g, const lzt_attention_unit *unit, bool first, float *scratch);
} lzt_attention_bwd_code;

typedef struct lzt_attention_row_code {
    /* delta of tokens begin .. end - 1, all query heads */
    void (*delta)(const lzt_attention_grad *g, uint64_t begin, uint64_t end);
    /* dst[i] = src[i] rounded to BF16 */
    void (*round_row)(const float *src, uint16_t *dst, uint64_t count);
} lzt_attention_row_code;

extern const lzt_attention_code lzt__attention_code_v2, lzt__attention_code_avx2, lzt__attention_code_avx512;
extern const lzt_attention_bwd_code lzt__attention_bwd_code_v2, lzt__attention_bwd_code_avx2,
    lzt__attention_bwd_code_avx512;
extern const lzt_attention_row_code lzt__attention_row_code_v2, lzt__attention_row_code_avx2,
    lzt__attention_row_code_avx512;
/* for BF16 and an even head_dim, from LZT_ISA_AVX512_BF16 on */
extern const lzt_attention_code lzt__attention_code_bf16;
extern const lzt_attention_bwd_code lzt__attention_bwd_code_bf16;

/* Whether the tiles of attention_bf16.c and attention_bwd_bf16.c serve this call. */
bool lzt__attention_by_bf16(const struct lzt_kern_cpu *kern, const lzt_kern_call *call);

/* Errors: LZT_ERR_INTERNAL: head counts, scale or documents that attention cannot have. */
lzt_status lzt__attention_check(const lzt_kern_call *call, lzt_error *err);

static inline uint64_t lzt__attention_round_up(uint64_t x, uint64_t grain)
{
    return (x + grain - 1) / grain * grain;
}

/* Queries a tile: what was asked for (0: so many that a tile of the whole group has about target_floats), in whole
 * panels, at most limit. */
static inline uint64_t lzt__attention_tile(uint64_t asked, uint64_t target_floats, uint64_t group, uint64_t head_dim,
                                           uint64_t columns, uint64_t limit)
{
    uint64_t tile = asked ? lzt__attention_round_up(asked < limit ? asked : limit, columns)
                          : target_floats / (group * head_dim) / columns * columns;
    if (tile < columns) return columns;
    return tile < limit ? tile : limit;
}

/* Panels that hold one query of each head of a group. */
static inline uint64_t lzt__attention_group_panels(uint64_t group, uint64_t columns)
{
    return (group + columns - 1) / columns;
}

/* The first key that query t sees. */
static inline uint64_t lzt__attention_first_key(uint64_t t, uint64_t window)
{
    return window && t + 1 > window ? t + 1 - window : 0;
}

#endif
