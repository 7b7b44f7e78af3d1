/* Rows of the embedding by id: gathered for the forward, their gradients added on the way back. See lazytrain/optim.h.
 */
#include "lazytrain/optim.h"

#include <string.h>

void lzt_optim_gather_rows(const int32_t *ids, uint64_t count, const void *table, uint64_t row_bytes, void *out)
{
    for (uint64_t i = 0; i < count; i++)
        memcpy((char *)out + i * row_bytes, (const char *)table + (uint64_t)ids[i] * row_bytes, row_bytes);
}

/* In place, no memory: keys are id << 32 | position, so the order within an id is that of the tokens. */
static void heap_sort(uint64_t *key, uint64_t count)
{
    for (uint64_t end = count, root = count / 2; end > 1;) {
        if (root) {
            root--;
        } else {
            uint64_t top = key[0];
            key[0] = key[--end];
            key[end] = top;
        }
        uint64_t at = root, value = key[at];
        for (uint64_t child; (child = 2 * at + 1) < end; at = child) {
            if (child + 1 < end && key[child + 1] > key[child]) child++;
            if (key[child] <= value) break;
            key[at] = key[child];
        }
        key[at] = value;
    }
}

static void add_row(float *sum, const void *row, uint64_t count, lzt_dtype dtype)
{
    if (dtype == LZT_DTYPE_F32)
        for (uint64_t i = 0; i < count; i++) sum[i] += ((const float *)row)[i];
    else
        for (uint64_t i = 0; i < count; i++) sum[i] += lzt_bf16_to_f32(((const uint16_t *)row)[i]);
}

static void store_row(void *gradient, const float *sum, uint64_t count, lzt_dtype dtype)
{
    if (dtype == LZT_DTYPE_F32)
        for (uint64_t i = 0; i < count; i++) ((float *)gradient)[i] += sum[i];
    else
        for (uint64_t i = 0; i < count; i++) {
            uint16_t *g = &((uint16_t *)gradient)[i];
            *g = lzt_bf16_from_f32(lzt_bf16_to_f32(*g) + sum[i]);
        }
}

uint64_t lzt_optim_scatter_scratch_bytes(uint64_t count, uint64_t columns)
{
    return 8 * count + 4 * columns;
}

void lzt_optim_scatter_rows(const int32_t *ids, uint64_t count, int64_t skip_id, lzt_dtype dtype, const void *rows,
                            lzt_dtype grad_dtype, void *gradient, uint64_t columns, void *scratch)
{
    uint64_t *key = scratch, in_bytes = columns * lzt_dtype_bytes(dtype);
    uint64_t out_bytes = columns * lzt_dtype_bytes(grad_dtype);
    float *sum = (float *)(key + count);
    for (uint64_t i = 0; i < count; i++) key[i] = (uint64_t)ids[i] << 32 | i;
    heap_sort(key, count);
    for (uint64_t i = 0; i < count;) {
        uint64_t id = key[i] >> 32;
        bool skip = skip_id >= 0 && id == (uint64_t)skip_id;
        memset(sum, 0, columns * sizeof *sum);
        for (; i < count && key[i] >> 32 == id; i++)
            add_row(sum, (const char *)rows + (key[i] & 0xffffffff) * in_bytes, columns, dtype);
        if (!skip) store_row((char *)gradient + id * out_bytes, sum, columns, grad_dtype);
    }
}
