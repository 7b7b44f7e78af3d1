/* CSV records as JSON objects, so that every format is read by the same code. */
#include "data/source/rowfile.h"

#include <string.h>

/* Appends one field as a JSON string and moves *at behind its comma; false when a quote is out of place. */
static bool field(lzt__text *json, const char *text, uint64_t size, uint64_t *at, bool *last)
{
    uint64_t i = *at;
    bool quoted = i < size && text[i] == '"', closed = !quoted;
    lzt__text_add_bytes(json, "\"", 1);
    for (i += quoted; i < size && !(closed && (quoted || text[i] == ','));) {
        const char *end = memchr(text + i, quoted ? '"' : ',', size - i);
        uint64_t stop = end ? (uint64_t)(end - text) : size;
        lzt__text_add_json_part(json, text + i, stop - i);
        i = stop;
        if (!quoted || !end) continue;
        bool doubled = i + 1 < size && text[i + 1] == '"';
        if (doubled) lzt__text_add_json_part(json, "\"", 1);
        closed = !doubled;
        i += doubled ? 2 : 1;
    }
    lzt__text_add_bytes(json, "\"", 1);
    *last = i >= size;
    if (!*last && text[i] != ',') return false;
    *at = i + 1;
    return closed;
}

lzt_status lzt__csv_to_json(const char *header, uint64_t header_size, const char *record, uint64_t record_size,
                            const char *where, lzt__text *json, lzt_error *err)
{
    uint64_t name = 0, value = 0;
    bool last_name = false, last_value = false, ok = true;
    if (header_size && header[header_size - 1] == '\r') header_size--;
    if (record_size && record[record_size - 1] == '\r') record_size--;
    lzt__text_add_bytes(json, "{", 1);
    for (uint32_t i = 0; ok && !last_name && !last_value; i++) {
        if (i) lzt__text_add_bytes(json, ",", 1);
        ok = field(json, header, header_size, &name, &last_name);
        lzt__text_add_bytes(json, ":", 1);
        ok = ok && field(json, record, record_size, &value, &last_value);
    }
    lzt__text_add_bytes(json, "}", 1);
    if (json->failed) return lzt_fail(err, LZT_ERR_NO_MEMORY, where, "no memory for a record");
    if (!ok) return lzt_fail(err, LZT_ERR_DATA, where, "the record's quotes are out of place");
    if (last_name != last_value)
        return lzt_fail(err, LZT_ERR_DATA, where, "the record has another number of fields than the header");
    return LZT_OK;
}
