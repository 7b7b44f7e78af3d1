/* Inside a dataset: how a span of the file becomes ids and labels. Shared by the producers, one per family of formats.
 *
 * A producer appends to the dataset's row buffer and says nothing of truncation or dropping; dataset.c does that for
 * all of them alike.
 */
#ifndef LZT_DATA_DATASET_H
#define LZT_DATA_DATASET_H

#include "data/jsontree.h"
#include "data/rowfile.h"
#include "lazytrain/data.h"

typedef struct lzt__rowbuf {
    int32_t *ids, *labels; /* [count] */
    uint64_t count, capacity;
    bool control_text; /* content spelled a control token */
} lzt__rowbuf;

/* Makes room for more tokens. */
lzt_status lzt__rowbuf_reserve(lzt__rowbuf *buf, uint64_t more, lzt_error *err);

/* input_ids and, if there, labels of a row. where: "file:line". */
lzt_status lzt__row_pretokenised(const lzt__json *row, uint64_t vocabulary, const char *where, lzt__rowbuf *buf,
                                 lzt_error *err);

#endif
