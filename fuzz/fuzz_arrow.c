/* Arrow IPC files: whatever the bytes, opening ends with rows or an error that says something, and every row is a JSON
 * object or an error. */
#include "data/source/arrow.h"
#include "base/jsontree.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lzt__arrow *a;
    lzt_error err = {0};
    lzt__text json = {0};
    lzt__json_doc doc = {.not_finite = true}; /* as rows are read */
    if (lzt__arrow_open((const char *)data, size, 0, "x", &a, &err)) {
        assert(err.message[0]);
        return 0;
    }
    for (uint64_t i = 0; i < lzt__arrow_rows(a) && i < 64; i++) {
        json.bytes = 0;
        if (lzt__arrow_row(a, i, "x", &json, &err)) continue;
        lzt_status s = lzt__json_parse(&doc, json.at, json.bytes, "x", &err);
        assert(!s && doc.node->type == LZT__JSON_OBJECT);
    }
    lzt__json_free(&doc);
    lzt__text_free(&json);
    lzt__arrow_close(a);
    return 0;
}
