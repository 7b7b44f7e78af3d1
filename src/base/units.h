/* Sizes as people write them. Inside, a size is a uint64_t of bytes; only here do units exist.
 *
 *     "4096", "512K", "200MiB", "1.5 GiB"   powers of 1024: K M G T P and KiB MiB GiB TiB PiB
 *     "5GB", "2.5TB"                        powers of 1000: KB MB GB TB PB
 *     "0", "12B"                            bytes
 *
 * Letters of either case. A fraction is taken exactly, in integers, and a part of a byte is dropped: a cap must not
 * grow by rounding. Threads: pure.
 */
#ifndef LZT_BASE_UNITS_H
#define LZT_BASE_UNITS_H

#include "lazytrain/status.h"

#define LZT_KIB (UINT64_C(1) << 10)
#define LZT_MIB (UINT64_C(1) << 20)
#define LZT_GIB (UINT64_C(1) << 30)
#define LZT_TIB (UINT64_C(1) << 40)
#define LZT_GB  UINT64_C(1000000000)

/* where names the option, or file and line, in the error; may be NULL. Errors: LZT_ERR_USAGE for anything that is not a
 * number with a unit of the list above (negative, empty, trailing text) and for sizes of 2^64 bytes or more. */
lzt_status lzt__units_parse_bytes(const char *text, const char *where, uint64_t *bytes, lzt_error *err);

/* A size for a table: "0 B", "1023 B", "200 MiB", "1.46 GiB"; at most three digits after the point, none that are zero.
 * Rounded to nearest: for eyes, not for parsing back. Returns out. */
#define LZT_UNITS_TEXT 24
const char *lzt__units_format_bytes(uint64_t bytes, char out[LZT_UNITS_TEXT]);

/* A size that parse reads back as the same number: in the largest binary unit that divides it ("200MiB", "1000"). */
const char *lzt__units_format_exact(uint64_t bytes, char out[LZT_UNITS_TEXT]);

/* A rate or total in powers of ten: "12 GB/s" is format_decimal(12e9, "B/s", out). Three significant digits. */
const char *lzt__units_format_decimal(double value, const char *unit, char out[LZT_UNITS_TEXT]);

#endif
