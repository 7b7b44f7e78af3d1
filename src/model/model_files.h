/* Small file helpers of the model module, over base/os.h. */
#ifndef LZT_MODEL_FILES_H
#define LZT_MODEL_FILES_H

#include "lazytrain/status.h"

#include <stdbool.h>

/* "directory/name", to be freed; NULL without memory. */
char *lzt__model_path(const char *directory, const char *name);
bool lzt__model_has_file(const char *directory, const char *name); /* a regular file or a link to one */
/* Reads a whole regular file of at most bytes_max bytes; *text is to be freed and ends in NUL. Errors:
 * LZT_ERR_MODEL when there is no such file, LZT_ERR_STORAGE. */
lzt_status lzt__model_read_file(const char *path, uint64_t bytes_max, char **text, size_t *bytes, lzt_error *err);

#endif
