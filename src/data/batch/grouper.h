/* Length groups: the rows of a window in an order that puts rows of similar length into one batch.
 *
 * The alternative to packing. An epoch's rows, in its order, are cut into windows of whole batches; within one, rows
 * are sorted by length and cut into batches, which are then shuffled, so that lengths do not run from long to short.
 * What comes out depends on (seed, epoch, window) and the lengths alone. Rows beyond the window's last whole batch (the
 * end of an epoch) stay behind it, as they were drawn: which rows are left out by drop_last has nothing to do with
 * length.
 *
 * Threads: a pure function over the caller's memory.
 */
#ifndef LZT_DATA_GROUPER_H
#define LZT_DATA_GROUPER_H

#include "lazytrain/status.h"

/* item[0..n-1] receives the order of the rows 0..n-1 of length[i] tokens. batch: rows of a batch, n below 2^32. name:
 * of the shuffle, (seed, epoch, window). Errors: LZT_ERR_NO_MEMORY. */
lzt_status lzt__group(const uint32_t *length, uint64_t n, uint64_t batch, const uint64_t name[3], uint32_t *item,
                      lzt_error *err);

#endif
