/* Reading FlatBuffers that nobody has vouched for: every access is checked against the buffer.
 *
 *     lzt__flat flat = {bytes, size, false};
 *     lzt__flat_table message;
 *     lzt__flat_root(&flat, &message);
 *     int64_t version = lzt__flat_number(&flat, &message, 0, 2, 0);
 *     if (flat.broken) the buffer does not hold what it says
 *
 * A table begins with the distance to its vtable, which says where in the table each field lies; a field that is absent
 * has its default. An access beyond the buffer, or beyond a table's own size, sets broken; it is never cleared, and
 * what such an access returns is 0 or an empty table. Numbers are little-endian; nothing needs to be aligned.
 *
 * Threads: one at a time per lzt__flat.
 */
#ifndef LZT_DATA_FLATBUF_H
#define LZT_DATA_FLATBUF_H

#include <stdbool.h>
#include <stdint.h>

typedef struct lzt__flat {
    const uint8_t *at;
    uint64_t size;
    bool broken;
} lzt__flat;

typedef struct lzt__flat_table {
    uint64_t begin, size;          /* of the table; size 0: an empty one, all fields absent */
    uint64_t vtable, vtable_bytes; /* where its vtable begins */
} lzt__flat_table;

typedef struct lzt__flat_vector {
    uint64_t begin; /* of its first element */
    uint32_t count;
} lzt__flat_vector;

/* A little-endian integer of 1, 2, 4 or 8 bytes, its sign extended. */
int64_t lzt__flat_integer(lzt__flat *flat, uint64_t at, unsigned bytes);
void lzt__flat_root(lzt__flat *flat, lzt__flat_table *table);
/* Field number id of a table; otherwise where it is absent. */
int64_t lzt__flat_number(lzt__flat *flat, const lzt__flat_table *table, unsigned id, unsigned bytes, int64_t otherwise);
/* false: absent. */
bool lzt__flat_child(lzt__flat *flat, const lzt__flat_table *table, unsigned id, lzt__flat_table *child);
bool lzt__flat_elements(lzt__flat *flat, const lzt__flat_table *table, unsigned id, unsigned element_bytes,
                        lzt__flat_vector *vector);
/* Element index of a vector of tables (element_bytes 4). */
void lzt__flat_element(lzt__flat *flat, const lzt__flat_vector *vector, uint32_t index, lzt__flat_table *table);

#endif
