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

lzt_status lzt__model_open_file(const char *path, int *fd, uint64_t *bytes, lzt_error *err)
{
    struct stat info;
    const lzt_os *os = lzt__os_posix();
    *fd = os->openat(os, AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0); /* O_NONBLOCK: a pipe must not hold us */
    if (*fd < 0) return lzt_fail_os(err, *fd == -ENOENT ? LZT_ERR_MODEL : LZT_ERR_STORAGE, -*fd, path, "cannot open");
    int code = os->fstat(os, *fd, &info);
    lzt_status status = LZT_OK;
    if (code < 0) status = lzt_fail_os(err, LZT_ERR_STORAGE, -code, path, "cannot stat");
    if (code >= 0 && !S_ISREG(info.st_mode)) status = lzt_fail(err, LZT_ERR_MODEL, path, "not a regular file");
    if (status) os->close(os, *fd);
    *bytes = status ? 0 : (uint64_t)info.st_size;
    return status;
}

lzt_status lzt__model_pread(int fd, const char *path, void *out, uint64_t bytes, uint64_t offset, lzt_error *err)
{
    return lzt__os_read_all(lzt__os_posix(), fd, path, out, bytes, offset, err);
}

void lzt__model_close_file(int fd)
{
    const lzt_os *os = lzt__os_posix();
    os->close(os, fd);
}

lzt_status lzt__model_read_file(const char *path, uint64_t bytes_max, char **text, size_t *bytes, lzt_error *err)
{
    int fd;
    uint64_t length;
    *text = NULL;
    lzt_status status = lzt__model_open_file(path, &fd, &length, err);
    if (status) return status;
    if (length > bytes_max)
        status = lzt_fail(err, LZT_ERR_MODEL, path, "%llu bytes, more than the %llu that such a file may have",
                          (unsigned long long)length, (unsigned long long)bytes_max);
    else if (!(*text = malloc(length + 1)))
        status = lzt_fail(err, LZT_ERR_NO_MEMORY, path, "no memory");
    if (!status) status = lzt__model_pread(fd, path, *text, length, 0, err);
    lzt__model_close_file(fd);
    if (status) {
        free(*text);
        *text = NULL;
        return status;
    }
    (*text)[length] = 0;
    *bytes = length;
    return LZT_OK;
}
