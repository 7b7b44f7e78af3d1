/* The operating system's file calls as a table, and helpers over it: see os.h. */
#include "base/os.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK_BYTES (UINT64_C(1) << 30) /* Linux moves at most 2 GiB - 4 KiB a call */
#define DEPTH_MAX   64                  /* of a tree to remove: one descriptor a level */

/* ---- the real calls ---- */

static int result(int rc)
{
    return rc < 0 ? -errno : rc;
}

static int posix_openat(const lzt_os *os, int dir_fd, const char *path, int flags, unsigned mode)
{
    (void)os;
    return result(openat(dir_fd, path, flags | O_CLOEXEC, mode));
}

static int posix_close(const lzt_os *os, int fd)
{
    (void)os;
    int rc = result(close(fd));
    return rc == -EINTR ? 0 : rc; /* on Linux the descriptor is gone all the same */
}

static int64_t posix_pread(const lzt_os *os, int fd, void *data, uint64_t bytes, uint64_t offset)
{
    (void)os;
    ssize_t n = pread(fd, data, bytes, (off_t)offset);
    return n < 0 ? -errno : n;
}

static int64_t posix_pwrite(const lzt_os *os, int fd, const void *data, uint64_t bytes, uint64_t offset)
{
    (void)os;
    ssize_t n = pwrite(fd, data, bytes, (off_t)offset);
    return n < 0 ? -errno : n;
}

static int posix_fsync(const lzt_os *os, int fd)
{
    (void)os;
    return result(fsync(fd));
}

static int posix_fdatasync(const lzt_os *os, int fd)
{
    (void)os;
    return result(fdatasync(fd));
}

static int posix_ftruncate(const lzt_os *os, int fd, uint64_t bytes)
{
    (void)os;
    return result(ftruncate(fd, (off_t)bytes));
}

static int posix_fallocate_call(const lzt_os *os, int fd, int mode, uint64_t offset, uint64_t bytes)
{
    (void)os;
    return result(fallocate(fd, mode, (off_t)offset, (off_t)bytes));
}

static int posix_renameat(const lzt_os *os, int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    (void)os;
    return result(renameat2(from_fd, from, to_fd, to, flags));
}

static int posix_unlinkat(const lzt_os *os, int dir_fd, const char *path, int flags)
{
    (void)os;
    return result(unlinkat(dir_fd, path, flags));
}

static int posix_mkdirat(const lzt_os *os, int dir_fd, const char *path, unsigned mode)
{
    (void)os;
    return result(mkdirat(dir_fd, path, mode));
}

static int posix_list(const lzt_os *os, int dir_fd, lzt_os_entry_fn *entry, void *arg)
{
    (void)os;
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* an offset of its own */
    if (fd < 0) return -errno;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    int rc = 0;
    while (rc == 0) {
        errno = 0;
        const struct dirent *e = readdir(dir);
        if (!e) {
            rc = -errno;
            break;
        }
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) rc = entry(arg, e->d_name);
    }
    closedir(dir);
    return rc;
}

static int posix_fstat(const lzt_os *os, int fd, struct stat *out)
{
    (void)os;
    return result(fstat(fd, out));
}

static int posix_fstatat(const lzt_os *os, int dir_fd, const char *path, struct stat *out, int flags)
{
    (void)os;
    return result(fstatat(dir_fd, path, out, flags));
}

static int posix_flock(const lzt_os *os, int fd, int operation)
{
    (void)os;
    return result(flock(fd, operation));
}

static int posix_fstatvfs(const lzt_os *os, int fd, struct statvfs *out)
{
    (void)os;
    return result(fstatvfs(fd, out));
}

const lzt_os *lzt__os_posix(void)
{
    static const lzt_os posix = {
        .openat = posix_openat,
        .close = posix_close,
        .pread = posix_pread,
        .pwrite = posix_pwrite,
        .fsync = posix_fsync,
        .fdatasync = posix_fdatasync,
        .ftruncate = posix_ftruncate,
        .fallocate = posix_fallocate_call,
        .renameat = posix_renameat,
        .unlinkat = posix_unlinkat,
        .mkdirat = posix_mkdirat,
        .list = posix_list,
        .fstat = posix_fstat,
        .fstatat = posix_fstatat,
        .flock = posix_flock,
        .fstatvfs = posix_fstatvfs,
    };
    return &posix;
}

/* ---- whole reads and writes ---- */

lzt_status lzt__os_open(const lzt_os *os, int dir_fd, const char *path, int flags, unsigned mode, int *fd,
                        lzt_error *err)
{
    *fd = -1;
    int rc;
    do rc = os->openat(os, dir_fd, path, flags, mode);
    while (rc == -EINTR);
    if (rc < 0) return lzt_fail_os(err, LZT_ERR_STORAGE, -rc, path, "cannot open");
    *fd = rc;
    return LZT_OK;
}

lzt_status lzt__os_write_all(const lzt_os *os, int fd, const char *path, const void *data, uint64_t bytes,
                             uint64_t offset, lzt_error *err)
{
    const char *at = data;
    uint64_t done = 0;
    while (done < bytes) {
        uint64_t want = bytes - done < CHUNK_BYTES ? bytes - done : CHUNK_BYTES;
        int64_t n = os->pwrite(os, fd, at + done, want, offset + done);
        if (n == -EINTR) continue;
        if (n == 0) n = -EIO; /* no progress and no reason: do not loop for ever */
        if (n < 0)
            return lzt_fail_os(err, LZT_ERR_STORAGE, (int)-n, path, "wrote only %llu of %llu bytes at offset %llu",
                               (unsigned long long)done, (unsigned long long)bytes, (unsigned long long)offset);
        assert((uint64_t)n <= want);
        done += (uint64_t)n;
    }
    return LZT_OK;
}

/* Reads until bytes or the end of the file; *done says how many. */
static int read_some(const lzt_os *os, int fd, char *data, uint64_t bytes, uint64_t offset, uint64_t *done)
{
    *done = 0;
    while (*done < bytes) {
        uint64_t want = bytes - *done < CHUNK_BYTES ? bytes - *done : CHUNK_BYTES;
        int64_t n = os->pread(os, fd, data + *done, want, offset + *done);
        if (n == -EINTR) continue;
        if (n < 0) return (int)n;
        if (n == 0) break;
        assert((uint64_t)n <= want);
        *done += (uint64_t)n;
    }
    return 0;
}

lzt_status lzt__os_read_all(const lzt_os *os, int fd, const char *path, void *data, uint64_t bytes, uint64_t offset,
                            lzt_error *err)
{
    uint64_t done;
    int rc = read_some(os, fd, data, bytes, offset, &done);
    if (rc)
        return lzt_fail_os(err, LZT_ERR_STORAGE, -rc, path, "cannot read %llu bytes at offset %llu",
                           (unsigned long long)bytes, (unsigned long long)offset);
    if (done < bytes)
        return lzt_fail(err, LZT_ERR_STORAGE, path, "the file ends at byte %llu, inside the %llu bytes at offset %llu",
                        (unsigned long long)(offset + done), (unsigned long long)bytes, (unsigned long long)offset);
    return LZT_OK;
}

lzt_status lzt__os_read_file(const lzt_os *os, const char *path, uint64_t bytes_max, char **data, uint64_t *bytes,
                             lzt_error *err)
{
    int fd;
    lzt_status status = lzt__os_open(os, AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0, &fd, err);
    if (status) return status;
    char *text = NULL;
    struct stat st;
    int rc = os->fstat(os, fd, &st);
    if (rc < 0)
        status = lzt_fail_os(err, LZT_ERR_STORAGE, -rc, path, "cannot stat");
    else if (!S_ISREG(st.st_mode))
        status = lzt_fail(err, LZT_ERR_STORAGE, path, "is not a regular file");
    else if ((uint64_t)st.st_size > bytes_max)
        status = lzt_fail(err, LZT_ERR_STORAGE, path, "has %llu bytes; at most %llu are read",
                          (unsigned long long)st.st_size, (unsigned long long)bytes_max);
    else if (!(text = malloc((uint64_t)st.st_size + 1)))
        status = lzt_fail(err, LZT_ERR_NO_MEMORY, path, "no memory for %llu bytes", (unsigned long long)st.st_size);
    else
        status = lzt__os_read_all(os, fd, path, text, (uint64_t)st.st_size, 0, err);
    os->close(os, fd);
    if (status) {
        free(text);
        return status;
    }
    text[st.st_size] = 0;
    *data = text;
    *bytes = (uint64_t)st.st_size;
    return LZT_OK;
}

/* ---- durable names ---- */

lzt_status lzt__os_fsync_dir(const lzt_os *os, const char *path, lzt_error *err)
{
    int fd;
    lzt_status status = lzt__os_open(os, AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0, &fd, err);
    if (status) return status;
    int rc;
    do rc = os->fsync(os, fd);
    while (rc == -EINTR);
    os->close(os, fd);
    return rc < 0 ? lzt_fail_os(err, LZT_ERR_STORAGE, -rc, path, "cannot fsync the directory") : LZT_OK;
}

/* The directory part of path, "." when it has none, into out. */
static bool parent_of(const char *path, char out[4096])
{
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 1;
    if (slash && length == 0) length = 1; /* "/name" */
    if (length >= 4096) return false;
    memcpy(out, slash ? path : ".", length);
    out[length] = 0;
    return true;
}

/* Fills a fresh file: create, write, fsync, close. */
static lzt_status write_new_file(const lzt_os *os, const char *path, const void *data, uint64_t bytes, lzt_error *err)
{
    int fd;
    lzt_status status = lzt__os_open(os, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0666, &fd, err);
    if (status) return status;
    status = lzt__os_write_all(os, fd, path, data, bytes, 0, err);
    int rc = 0;
    if (!status) do
            rc = os->fsync(os, fd);
        while (rc == -EINTR);
    int closed = os->close(os, fd);
    if (!status && (rc < 0 || closed < 0))
        status = lzt_fail_os(err, LZT_ERR_STORAGE, rc < 0 ? -rc : -closed, path, "cannot make the file durable");
    if (status) os->unlinkat(os, AT_FDCWD, path, 0);
    return status;
}

lzt_status lzt__os_check_replaceable(const char *path, lzt_error *err)
{
    struct stat st;
    if (stat(path, &st) || S_ISREG(st.st_mode)) return LZT_OK;
    lzt_fail(err, LZT_ERR_STORAGE, path, "%s, which a file cannot replace",
             S_ISDIR(st.st_mode) ? "a directory" : "not a regular file");
    return lzt_hint(err, "name a file, new or old");
}

lzt_status lzt__os_write_file_atomic(const lzt_os *os, const char *path, const void *data, uint64_t bytes,
                                     lzt_error *err)
{
    char directory[4096], temporary[4096];
    int length = snprintf(temporary, sizeof temporary, "%s.tmp-%ld", path, (long)getpid());
    if (length >= (int)sizeof temporary || !parent_of(path, directory))
        return lzt_fail(err, LZT_ERR_STORAGE, path, "the path is too long");
    lzt_status status = lzt__os_check_replaceable(path, err);
    if (!status) status = write_new_file(os, temporary, data, bytes, err);
    if (status) return status;
    int rc = os->renameat(os, AT_FDCWD, temporary, AT_FDCWD, path, 0);
    if (rc < 0) {
        os->unlinkat(os, AT_FDCWD, temporary, 0);
        return lzt_fail_os(err, LZT_ERR_STORAGE, -rc, path, "cannot rename the finished file into place");
    }
    return lzt__os_fsync_dir(os, directory, err);
}

lzt_status lzt__os_make_dirs(const lzt_os *os, const char *path, lzt_error *err)
{
    char part[4096];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof part) return lzt_fail(err, LZT_ERR_STORAGE, path, "not a usable path");
    for (size_t end = 1; end <= length; end++) {
        if (path[end] != '/' && path[end] != 0) continue;
        memcpy(part, path, end);
        part[end] = 0;
        int rc = os->mkdirat(os, AT_FDCWD, part, 0777);
        if (rc == 0 || rc == -EEXIST) continue;
        return lzt_fail_os(err, LZT_ERR_STORAGE, -rc, part, "cannot make the directory");
    }
    struct stat st;
    int rc = os->fstatat(os, AT_FDCWD, path, &st, 0);
    if (rc < 0) return lzt_fail_os(err, LZT_ERR_STORAGE, -rc, path, "cannot stat");
    if (!S_ISDIR(st.st_mode)) return lzt_fail(err, LZT_ERR_STORAGE, path, "exists and is not a directory");
    return LZT_OK;
}

/* ---- removing a tree ---- */

typedef struct removal {
    const lzt_os *os;
    int dir_fd; /* of the level that is being emptied */
    int depth;
    lzt_status status; /* the first error */
    lzt_error *err;
} removal;

static void note(removal *r, int os_code, const char *name, const char *what)
{
    if (!r->status) r->status = lzt_fail_os(r->err, LZT_ERR_STORAGE, os_code, name, "%s", what);
}

static int remove_entry(void *arg, const char *name)
{
    removal *r = arg;
    const lzt_os *os = r->os;
    int rc = os->unlinkat(os, r->dir_fd, name, 0); /* also a link to a directory: the link goes */
    if (rc == 0 || rc == -ENOENT) return 0;
    if (rc != -EISDIR && rc != -EPERM) { /* EPERM is POSIX's word for a directory */
        note(r, -rc, name, "cannot remove");
        return 0;
    }
    if (r->depth == DEPTH_MAX) {
        note(r, ELOOP, name, "the tree is too deep to remove");
        return 0;
    }
    int fd = os->openat(os, r->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd < 0) {
        note(r, fd == -ENOTDIR ? -rc : -fd, name, "cannot remove"); /* an immutable file is EPERM, too */
        return 0;
    }
    removal below = {os, fd, r->depth + 1, r->status, r->err};
    rc = os->list(os, fd, remove_entry, &below);
    r->status = below.status;
    if (rc < 0) note(r, -rc, name, "cannot list the directory");
    os->close(os, fd);
    rc = os->unlinkat(os, r->dir_fd, name, AT_REMOVEDIR);
    if (rc < 0 && rc != -ENOENT) note(r, -rc, name, "cannot remove the directory");
    return 0;
}

lzt_status lzt__os_remove_tree(const lzt_os *os, int dir_fd, const char *name, lzt_error *err)
{
    assert(*name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0);
    removal r = {os, dir_fd, 0, LZT_OK, err};
    remove_entry(&r, name);
    return r.status;
}
