/* Small file helpers of the model module: see model_files.h. */
#include "model_files.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

char *lzt__model_path(const char *directory, const char *name)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s", directory, name) < 0 ? NULL : path;
}

bool lzt__model_has_file(const char *directory, const char *name)
{
    struct stat info;
    const lzt_os *os = lzt__os_posix();
    char *path = lzt__model_path(directory, name);
    bool found = path && os->fstatat(os, AT_FDCWD, path, &info, 0) >= 0 && S_ISREG(info.st_mode);
    free(path);
    return found;
}

lzt_status lzt__model_read_file(const char *path, uint64_t bytes_max, char **text, size_t *bytes, lzt_error *err)
{
    struct stat info;
    const lzt_os *os = lzt__os_posix();
    uint64_t length = 0;
    *text = NULL;
    if (os->fstatat(os, AT_FDCWD, path, &info, 0) == -ENOENT)
        return lzt_fail_os(err, LZT_ERR_MODEL, ENOENT, path, "cannot open");
    lzt_status status = lzt__os_read_file(os, path, bytes_max, text, &length, err);
    *bytes = length;
    return status;
}
