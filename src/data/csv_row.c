/* CSV records as JSON objects, so that every format is read by the same code. */
#include "data/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct writing {
    char *text;
    uint64_t size, capacity;
    bool failed;
} writing;

static void put(writing *w, const char *bytes, uint64_t n)
{
    if (!w->failed && w->capacity - w->size < n + 8) {
        uint64_t capacity = 2 * w->capacity + n + 256;
        char *grown = realloc(w->text, capacity);
        if (!grown)
            w->failed = true;
        else {
            w->text = grown;
            w->capacity = capacity;
        }
    }
    if (w->failed) return;
    memcpy(w->text + w->size, bytes, n);
    w->size += n;
}

static void put_character(writing *w, char c)
{
    char text[8];
    if (c == '"' || c == '\\') {
        put(w, "\\", 1);
        put(w, &c, 1);
    } else if ((unsigned char)c < 32) {
        put(w, text, (uint64_t)snprintf(text, sizeof text, "\\u%04x", (unsigned)(unsigned char)c));
    } else {
        put(w, &c, 1);
    }
}

/* Writes one field as a JSON string and moves *at behind its comma; false when a quote is out of place. */
static bool field(writing *w, const char *text, uint64_t size, uint64_t *at, bool *last)
{
    put(w, "\"", 1);
    uint64_t i = *at;
    bool quoted = i < size && text[i] == '"', closed = !quoted;
    for (i += quoted; i < size && !(closed && (text[i] == ',' || (quoted && text[i] != '"'))); i++) {
        if (quoted && text[i] == '"') {
            if (i + 1 < size && text[i + 1] == '"')
                i++;
            else {
                closed = true;
                continue;
            }
        } else if (quoted && closed) {
            return false;
        }
        put_character(w, text[i]);
    }
    put(w, "\"", 1);
    *last = i >= size;
    if (!*last && text[i] != ',') return false;
    *at = i + 1;
    return closed;
}

lzt_status lzt__csv_to_json(const char *header, uint64_t header_size, const char *record, uint64_t record_size,
                            const char *where, char **json, uint64_t *json_size, uint64_t *json_capacity,
                            lzt_error *err)
{
    writing w = {*json, 0, *json_capacity, false};
    uint64_t name = 0, value = 0;
    bool last_name = false, last_value = false, ok = true;
    if (header_size && header[header_size - 1] == '\r') header_size--;
    if (record_size && record[record_size - 1] == '\r') record_size--;
    put(&w, "{", 1);
    for (uint32_t i = 0; ok && !last_name && !last_value; i++) {
        if (i) put(&w, ",", 1);
        ok = field(&w, header, header_size, &name, &last_name);
        put(&w, ":", 1);
        ok = ok && field(&w, record, record_size, &value, &last_value);
    }
    put(&w, "}", 1);
    *json = w.text;
    *json_size = w.size;
    *json_capacity = w.capacity;
    if (w.failed) return lzt_fail(err, LZT_ERR_NO_MEMORY, where, "no memory for a record");
    if (!ok) return lzt_fail(err, LZT_ERR_DATA, where, "the record's quotes are out of place");
    if (last_name != last_value)
        return lzt_fail(err, LZT_ERR_DATA, where, "the record has another number of fields than the header");
    return LZT_OK;
}
