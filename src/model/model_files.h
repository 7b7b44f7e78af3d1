/* Small file helpers of the model module, over base/os.h. */
#ifndef LZT_MODEL_FILES_H
#define LZT_MODEL_FILES_H

#include "lazytrain/status.h"

#include <stdbool.h>

/* "directory/name", to be freed; NULL without memory. */
char *lzt__model_path(const char *directory, const char *name);
bool lzt__model_has_file(const char *directory, const char *name); /* a regular file or a link to one */
/* Opens a regular file for reading and says how long it is. Errors: LZT_ERR_MODEL when there is no such file. */
lzt_status lzt__model_open_file(const char *path, int *fd, uint64_t *bytes, lzt_error *err);
/* Reads exactly bytes. Errors: LZT_ERR_STORAGE. */
lzt_status lzt__model_pread(int fd, const char *path, void *out, uint64_t bytes, uint64_t offset, lzt_error *err);
void lzt__model_close_file(int fd);
/* Reads a whole regular file of at most bytes_max bytes; *text is to be freed and ends in NUL. */
lzt_status lzt__model_read_file(const char *path, uint64_t bytes_max, char **text, size_t *bytes, lzt_error *err);

#endif
