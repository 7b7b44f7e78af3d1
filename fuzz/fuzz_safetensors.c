/* A safetensors header: 8 bytes say how long the data area is, the rest is the header. Whatever it holds, parse ends
 * with an error that has a text or with tensors that tile the data exactly and are found by their names.
 */
#include "base/safetensors.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lzt__st st;
    lzt_error err = {0};
    uint64_t data_bytes, sum = 0;
    if (size < 8) return 0;
    memcpy(&data_bytes, data, 8);
    char *header = malloc(size - 8 + 1);
    assert(header);
    memcpy(header, data + 8, size - 8);
    lzt_status status = lzt__st_parse(header, size - 8, data_bytes, "fuzz", &st, &err);
    if (status) {
        assert(status == LZT_ERR_MODEL && err.message[0]);
        return 0;
    }
    for (uint32_t i = 0; i < st.count; i++) {
        const lzt__st_entry *entry = &st.entry[i];
        assert(entry->begin <= entry->end && entry->end <= data_bytes);
        assert(lzt__st_find(&st, entry->name) == entry);
        sum += entry->end - entry->begin;
    }
    assert(sum == data_bytes);
    lzt__st_close(&st);
    return 0;
}
