/* Inside an Arrow file: its schema as a flat list of fields, its batches as places in the mapping. Shared by arrow.c,
 * which finds them, and arrow_row.c, which reads values. */
#ifndef LZT_DATA_ARROW_PARTS_H
#define LZT_DATA_ARROW_PARTS_H

#include "data/source/arrow.h"

#include <stdbool.h>

/* Types by their number in the format's Schema.fbs. */
enum {
    LZT__ARROW_NULL = 1,
    LZT__ARROW_INT = 2,
    LZT__ARROW_FLOAT = 3,
    LZT__ARROW_UTF8 = 5,
    LZT__ARROW_BOOL = 6,
    LZT__ARROW_LIST = 12,
    LZT__ARROW_STRUCT = 13,
    LZT__ARROW_LARGE_UTF8 = 20,
    LZT__ARROW_LARGE_LIST = 21,
    LZT__ARROW_TYPE_COUNT = 27
};

/* Fields lie in reading order: a field's first child is the one after it, its next sibling skip fields further. */
typedef struct lzt__arrow_field {
    char *name;
    uint8_t type;
    uint8_t bytes; /* of a number; of an offset */
    bool is_signed;
    uint32_t children, skip;
} lzt__arrow_field;

/* A buffer of one field in one batch. */
typedef struct lzt__arrow_buffer {
    const uint8_t *at;
    uint64_t size; /* bytes */
} lzt__arrow_buffer;

typedef struct lzt__arrow_column {
    uint64_t length;                           /* values */
    lzt__arrow_buffer validity, offsets, data; /* validity empty: no value is null */
} lzt__arrow_column;

typedef struct lzt__arrow_batch {
    uint64_t first; /* row */
    uint64_t rows;
} lzt__arrow_batch;

struct lzt__arrow {
    lzt__arrow_field *field; /* [field_count] */
    uint32_t field_count, field_capacity;
    uint32_t columns;          /* fields that are not children */
    lzt__arrow_batch *batch;   /* [batch_count] */
    lzt__arrow_column *column; /* [batch_count * field_count] */
    uint64_t batch_count, batch_capacity, rows, bytes;
};

#endif
