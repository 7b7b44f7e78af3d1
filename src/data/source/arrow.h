/* Arrow IPC files of rows: what Hugging Face `datasets` writes into its cache (a stream), and the file format around
 * it.
 *
 *     stream    message ... message end         message   FF FF FF FF, length, FlatBuffer, body
 *     file      "ARROW1", 2 bytes, stream, footer, its length, "ARROW1"
 *
 * Columns of text (utf8, large_utf8), integers, floats, booleans and nulls, lists (also large) and structs of these, as
 * deep as LZT__ARROW_DEPTH_MAX. Other types, dictionaries and compressed buffers are refused by name. A stream has to
 * end with its end mark, so that a cut file is never a shorter one. Only the messages' places are held; values are
 * looked up in the mapping, each within its buffer.
 *
 * Threads: read-only once open. The mapping must outlive it.
 */
#ifndef LZT_DATA_ARROW_H
#define LZT_DATA_ARROW_H

#include "base/text.h"
#include "lazytrain/status.h"

#define LZT__ARROW_DEPTH_MAX 8

typedef struct lzt__arrow lzt__arrow;

/* true when the bytes begin as a stream or a file does */
bool lzt__arrow_begins(const char *bytes, uint64_t size);
/* max_rows: 0, or where to stop. Errors: LZT_ERR_DATA naming the message's offset or the column, LZT_ERR_NO_MEMORY. */
lzt_status lzt__arrow_open(const char *bytes, uint64_t size, uint64_t max_rows, const char *path, lzt__arrow **arrow,
                           lzt_error *err);
void lzt__arrow_close(lzt__arrow *arrow); /* NULL is allowed */
uint64_t lzt__arrow_rows(const lzt__arrow *arrow);
/* From the file's begin to the end of the last batch that was read. */
uint64_t lzt__arrow_bytes(const lzt__arrow *arrow);
/* Appends a row as a JSON object, in the schema's order. A float that is not finite is the word NaN, Infinity or
 * -Infinity (jsontree.h). Errors: LZT_ERR_DATA (the offsets of a column leave its data), LZT_ERR_NO_MEMORY. */
lzt_status lzt__arrow_row(const lzt__arrow *arrow, uint64_t row, const char *where, lzt__text *json, lzt_error *err);

#endif
