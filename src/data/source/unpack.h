/* Compressed data files: unpacked once into an unlinked temporary file, so that they are mapped like any other.
 *
 * Threads: pure functions over file descriptors.
 */
#ifndef LZT_DATA_UNPACK_H
#define LZT_DATA_UNPACK_H

#include "lazytrain/status.h"

#include <stdbool.h>

/* true for names that end so, in capitals or not */
bool lzt__name_ends_with(const char *path, const char *end);
/* true for names that end in .gz or .zst */
bool lzt__unpack_is_packed(const char *path);
/* *unpacked: a descriptor of the contents; the caller closes it. The file lies in TMPDIR or /var/tmp and is gone with
 * it. Errors: LZT_ERR_DATA (broken or cut), LZT_ERR_STORAGE, LZT_ERR_NO_MEMORY. */
lzt_status lzt__unpack(const char *path, int packed, int *unpacked, lzt_error *err);

#endif
