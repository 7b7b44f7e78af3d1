/* A file of rows: mapped, cut into spans; a row as JSON on demand.
 *
 * JSONL, one JSON array of objects, CSV with a header line, or Arrow IPC. Arrow is told from the first bytes, CSV from
 * the name's ending, an array from the first byte that is not blank. Files ending in .gz or .zst are unpacked into an
 * unlinked temporary file first. A byte order mark is skipped, CRLF and blank lines are allowed, the last line needs no
 * newline.
 *
 * Threads: read-only once open.
 */
#ifndef LZT_DATA_ROWFILE_H
#define LZT_DATA_ROWFILE_H

#include "data/source/arrow.h"
#include "lazytrain/status.h"

#include <stdbool.h>

typedef enum lzt__rowfile_kind {
    LZT__ROWFILE_JSONL,
    LZT__ROWFILE_ARRAY,
    LZT__ROWFILE_CSV,
    LZT__ROWFILE_ARROW
} lzt__rowfile_kind;

typedef struct lzt__rowspan {
    uint64_t offset;
    uint32_t size; /* bytes, without the line's end */
    uint32_t line; /* 1-based; stays at 2^32-1 beyond that */
} lzt__rowspan;

typedef struct lzt__rowfile {
    lzt__rowfile_kind kind;
    const char *text; /* the mapping */
    uint64_t size;
    lzt__rowspan *row; /* [row_count]; NULL: Arrow */
    lzt__arrow *arrow; /* NULL: the other kinds */
    uint64_t row_count, row_capacity;
    lzt__rowspan header; /* of CSV */
    uint64_t blank_lines;
    uint64_t
        content[2]; /* hash of the rows' bytes, and of CSV's header; of Arrow of every message up to the last row */
    struct XXH3_state_s *hash; /* NULL once the file is open */
    void *mapping;
    uint64_t mapping_size;
} lzt__rowfile;

/* Errors: LZT_ERR_STORAGE, LZT_ERR_DATA (a row above 4 GiB, an array that is not closed), LZT_ERR_NO_MEMORY. On error
 * nothing is to be closed. max_rows: 0, or how many rows to index at most. */
lzt_status lzt__rowfile_open(const char *path, uint64_t max_rows, lzt__rowfile *file, lzt_error *err);
void lzt__rowfile_close(lzt__rowfile *file);
/* 1-based line of row 0 .. row_count-1; of Arrow its number, from 1. */
uint64_t lzt__rowfile_line(const lzt__rowfile *file, uint64_t row);
/* The row's bytes as JSON: as they stand in the file, or written into scratch. Valid until scratch is written again.
 * Errors: LZT_ERR_DATA with where, LZT_ERR_NO_MEMORY. */
lzt_status lzt__rowfile_json(const lzt__rowfile *file, uint64_t row, const char *where, lzt__text *scratch,
                             const char **text, uint64_t *size, lzt_error *err);

/* A record of a CSV file, appended as the JSON object it means: names from the header, all values strings. */
lzt_status lzt__csv_to_json(const char *header, uint64_t header_size, const char *record, uint64_t record_size,
                            const char *where, lzt__text *json, lzt_error *err);

#endif
