/* The host arrays of one micro-batch, made once and reused by every step. */
#ifndef LZT_RUN_BATCH_MEMORY_H
#define LZT_RUN_BATCH_MEMORY_H

#include "lazytrain/data.h"

/* Arrays for capacity tokens. Errors: LZT_ERR_NO_MEMORY. */
lzt_status lzt__batch_create(uint64_t capacity, lzt_micro_batch *batch, lzt_error *err);
void lzt__batch_destroy(lzt_micro_batch *batch); /* a zeroed one is allowed */

#endif
