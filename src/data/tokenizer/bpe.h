/* Byte-pair encoding: the vocabulary, the merges, and the loop that applies them.
 *
 * A piece starts as symbols (bytes, or characters of a vocabulary with byte fallback); the adjacent pair of the lowest
 * rank, leftmost first, is merged until none is left. Short pieces scan for the minimum, long ones keep a heap.
 *
 * Threads: a vocabulary is read-only once built; scratch belongs to its caller.
 */
#ifndef LZT_DATA_BPE_H
#define LZT_DATA_BPE_H

#include "lazytrain/status.h"

#include <stdbool.h>

#define LZT__BPE_NONE UINT32_MAX
/* Ids lie below this: tables are as long as the largest id, which a broken file could set anywhere. */
#define LZT__ID_LIMIT (1 << 24)

/* Strings by id and ids by string. Bytes of an id lie at text + offset[id]; absent ids have size LZT__BPE_NONE. */
typedef struct lzt__vocab {
    char *text;
    uint64_t text_size, text_capacity;
    uint32_t *offset, *size; /* [id_count] */
    uint32_t id_count, id_capacity;
    uint32_t *slot; /* [slot_count] ids, a power of two; open addressing */
    uint32_t slot_count, used;
} lzt__vocab;

typedef struct lzt__merge {
    uint64_t pair;  /* left << 32 | right; UINT64_MAX: free */
    uint64_t value; /* rank << 32 | id of the whole */
} lzt__merge;

typedef struct lzt__bpe {
    lzt__merge *merge; /* [merge_mask + 1] open addressing */
    uint64_t merge_mask, merge_count;
    uint32_t shift;
} lzt__bpe;

typedef struct lzt__symbol {
    uint32_t id, begin; /* begin: byte of the piece */
} lzt__symbol;

/* Reused between pieces. */
typedef struct lzt__bpe_scratch {
    lzt__symbol *symbol; /* [capacity] */
    uint64_t *pair;      /* [capacity] merge value of the pair that begins here, UINT64_MAX: none */
    uint32_t *next, *previous;
    uint64_t *heap;
    uint64_t heap_capacity, capacity;
} lzt__bpe_scratch;

lzt_status lzt__vocab_reserve(lzt__vocab *v, uint32_t strings, uint64_t bytes, lzt_error *err);
/* Enters a string; one that is there already, or an id that is taken, is left as it was and *fresh is false. */
lzt_status lzt__vocab_add(lzt__vocab *v, const char *text, uint32_t size, uint32_t id, bool *fresh, lzt_error *err);
uint32_t lzt__vocab_find(const lzt__vocab *v, const char *text, uint64_t size); /* LZT__BPE_NONE: absent */
void lzt__vocab_free(lzt__vocab *v);

lzt_status lzt__bpe_init(lzt__bpe *b, uint64_t merges, lzt_error *err);
/* A pair that is there already gets the new rank. At most as many as init was told. */
void lzt__bpe_add(lzt__bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t whole);
void lzt__bpe_free(lzt__bpe *b);

/* Room for n symbols. */
lzt_status lzt__bpe_scratch_reserve(lzt__bpe_scratch *s, uint64_t n, lzt_error *err);
void lzt__bpe_scratch_free(lzt__bpe_scratch *s);
/* Merges scratch->symbol[0..n) in place; returns how many are left. n: below 2^32 - 1 and within the reserve. */
uint32_t lzt__bpe_merge(const lzt__bpe *b, lzt__bpe_scratch *s, uint32_t n);

#endif
