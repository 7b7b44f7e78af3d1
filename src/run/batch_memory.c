/* The host arrays of one micro-batch: see batch_memory.h. */
#include "run/batch_memory.h"

#include <stdlib.h>

lzt_status lzt__batch_create(uint64_t capacity, lzt_micro_batch *batch, lzt_error *err)
{
    void *memory = calloc(1, lzt_micro_batch_bytes(capacity));
    if (!memory) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a micro-batch");
    *batch = lzt_micro_batch_over(memory, capacity);
    return LZT_OK;
}

void lzt__batch_destroy(lzt_micro_batch *batch)
{
    free(batch->ids);
    *batch = (lzt_micro_batch){0};
}
