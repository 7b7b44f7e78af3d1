/* Rows sorted by length, batches shuffled: see grouper.h. */
#include "data/batch/grouper.h"
#include "base/rng.h"

#include <assert.h>
#include <stdlib.h>

typedef struct item_length {
    uint32_t length, index;
} item_length;

/* Longest first; equal lengths as they were drawn. */
static int longest_first(const void *a, const void *b)
{
    const item_length *x = a, *y = b;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

lzt_status lzt__group(const uint32_t *length, uint64_t n, uint64_t batch, const uint64_t name[3], uint32_t *item,
                      lzt_error *err)
{
    assert(batch && n <= UINT32_MAX);
    uint64_t batches = n / batch, whole = batches * batch, permutation = lzt__rng_u64(name[0], name[1], name[2]);
    item_length *sorted = malloc((whole + 1) * sizeof *sorted);
    if (!sorted) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to group a window of rows");
    for (uint64_t i = 0; i < whole; i++) sorted[i] = (item_length){length[i], (uint32_t)i};
    qsort(sorted, whole, sizeof *sorted, longest_first);
    for (uint64_t b = 0; b < batches; b++) {
        uint64_t from = lzt__rng_permute(permutation, name[1], batches, b) * batch;
        for (uint64_t k = 0; k < batch; k++) item[b * batch + k] = sorted[from + k].index;
    }
    for (uint64_t i = whole; i < n; i++) item[i] = (uint32_t)i;
    free(sorted);
    return LZT_OK;
}
