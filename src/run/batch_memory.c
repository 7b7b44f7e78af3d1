/* The host arrays of one micro-batch: see batch_memory.h. */
#include "run/batch_memory.h"

#include <stdlib.h>

lzt_status lzt__batch_create(uint64_t capacity, lzt_micro_batch *batch, lzt_error *err)
{
    int32_t *memory = calloc(4 * capacity + 1, sizeof *memory);
    if (!memory) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a micro-batch");
    *batch = (lzt_micro_batch){.capacity = capacity,
                               .ids = memory,
                               .position = memory + capacity,
                               .target = memory + 2 * capacity,
                               .document_begin = memory + 3 * capacity};
    return LZT_OK;
}

void lzt__batch_destroy(lzt_micro_batch *batch)
{
    free(batch->ids);
    *batch = (lzt_micro_batch){0};
}
