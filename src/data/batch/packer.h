/* Packing: documents into packs of a fixed capacity, best fit, longest first.
 *
 * An epoch's rows, in its order, are cut into windows of LZT__PACK_WINDOW; each is packed on its own, and its packs are
 * then shuffled, so that long documents do not all come first. What comes out depends on (seed, epoch, window) and the
 * lengths alone.
 *
 * Threads: pure functions over the caller's memory.
 */
#ifndef LZT_DATA_PACKER_H
#define LZT_DATA_PACKER_H

#include "lazytrain/status.h"

#include <stdbool.h>

#define LZT__PACK_WINDOW 4096

typedef struct lzt__packs {
    uint32_t count;
    uint32_t begin[LZT__PACK_WINDOW + 1]; /* pack p holds item[begin[p] .. begin[p+1]) */
    uint32_t item[LZT__PACK_WINDOW];      /* index into the lengths */
} lzt__packs;

/* Packs n items (at most a window) of length[i] tokens; those of 0 tokens are left out, none may exceed capacity.
 * Errors: LZT_ERR_NO_MEMORY. */
lzt_status lzt__pack(const uint32_t *length, uint32_t n, uint64_t capacity, lzt__packs *packs, lzt_error *err);
/* Changes the packs' order to the one that (seed, epoch, window) names. */
lzt_status lzt__packs_shuffle(lzt__packs *packs, uint64_t seed, uint64_t epoch, uint64_t window, lzt_error *err);

#endif
