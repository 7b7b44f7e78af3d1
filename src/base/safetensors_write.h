/* Writing one safetensors file as a stream: the header first, then each tensor's data in the order of the header.
 *
 * The header is padded with spaces so that the data area begins at a multiple of 4096 bytes (legal: see safetensors.h),
 * which direct I/O can then read in place. The order is the caller's; lzt__st_order sorts as the reference writer does
 * (wider types first, so that every tensor is aligned to its elements), whole pages before the rest, then by name.
 */
#ifndef LZT_SAFETENSORS_WRITE_H
#define LZT_SAFETENSORS_WRITE_H

#include "base/staging.h"
#include "lazytrain/dtype.h"

#define LZT__ST_DATA_ALIGNMENT UINT64_C(4096)

typedef struct lzt__st_member {
    const char *name;
    lzt_dtype dtype;
    uint32_t rank;
    const uint64_t *shape;
    uint64_t bytes;
    uint64_t key; /* the caller's own: which tensor this is */
} lzt__st_member;

/* Sorts members into the order in which they are to be stored. */
void lzt__st_order(lzt__st_member *member, uint32_t count);

/* Writes the header of a file with these members. */
lzt_status lzt__st_write_header(lzt__staging_file *file, const lzt__st_member *member, uint32_t count, lzt_error *err);

/* Narrows count values (F32) to dtype and writes them in pieces; dtype F32, BF16 or F16 (rounded to nearest even).
 * Errors: LZT_ERR_MODEL when a finite value is too large for F16. */
lzt_status lzt__st_write_values(lzt__staging_file *file, const char *name, lzt_dtype dtype, const float *values,
                                uint64_t count, lzt_error *err);

#endif
