/* Reading one safetensors file, strictly.
 *
 * A file is an 8-byte little-endian header length N <= 100,000,000, a JSON header of N bytes that begins with '{' and
 * may end in white space, and the data area, which the tensors tile exactly: no holes, no overlap, no tail. What the
 * reference reader leaves open is refused here: duplicate keys, unknown keys of a tensor, names with NUL.
 *
 * Cost is linear in the header (n log n for sorting), without recursion, whatever the header holds. The file is closed
 * between calls; nothing is mapped, so that a file cut by someone else is an error and not a SIGBUS.
 */
#ifndef LZT_SAFETENSORS_H
#define LZT_SAFETENSORS_H

#include "base/os.h"
#include "lazytrain/dtype.h"

#include <stdbool.h>
#include <stddef.h>

#define LZT__ST_HEADER_MAX UINT64_C(100000000)
#define LZT__ST_RANK_MAX   UINT32_C(16)

typedef struct lzt__st_entry {
    const char *name;    /* UTF-8, unescaped, ends in NUL */
    uint64_t begin, end; /* bytes in the data area */
    uint64_t element_count;
    uint64_t shape_index; /* into shapes */
    uint32_t rank;
    lzt_dtype dtype;
} lzt__st_entry;

typedef struct lzt__st {
    const lzt_os *os;
    char *path;
    char *header;         /* holds the names */
    uint64_t data_offset; /* of the data area in the file */
    uint64_t data_bytes;
    lzt__st_entry *entry; /* in the order of the header */
    uint64_t *shapes;
    uint32_t *by_name; /* entry indices in the order of their names' hashes */
    uint64_t *hash;    /* hash[i]: that of by_name[i] */
    uint32_t count;
} lzt__st;

/* Opens path, checks it whole, closes it. Errors: LZT_ERR_MODEL with the path and the tensor or byte; LZT_ERR_STORAGE
 * when it cannot be read. */
lzt_status lzt__st_open(const lzt_os *os, const char *path, lzt__st *st, lzt_error *err);
void lzt__st_close(lzt__st *st);

/* Parses a header of `bytes` bytes that describes data_bytes of data. Takes header (malloc'ed, bytes + 1 long) over. */
lzt_status lzt__st_parse(char *header, uint64_t bytes, uint64_t data_bytes, const char *where, lzt__st *st,
                         lzt_error *err);

/* The tensor of that name, or NULL. */
const lzt__st_entry *lzt__st_find(const lzt__st *st, const char *name);

static inline const uint64_t *lzt__st_shape(const lzt__st *st, const lzt__st_entry *entry)
{
    return st->shapes + entry->shape_index;
}

/* Reads bytes [offset, offset + bytes) of the entry. Errors: LZT_ERR_MODEL when the file changed since it was opened,
 * LZT_ERR_STORAGE. */
lzt_status lzt__st_read(const lzt__st *st, const lzt__st_entry *entry, uint64_t offset, uint64_t bytes, void *out,
                        lzt_error *err);

/* Widens count elements at src to F32; dtype F32, BF16 or F16. src and out may not overlap, except that src may be the
 * tail of out's own bytes (converted upwards from the first element). */
void lzt__st_to_f32(lzt_dtype dtype, const void *src, uint64_t count, float *out);

#endif
