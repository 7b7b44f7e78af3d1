/* File calls that fail on demand: see os_faulty.h. */
#include "base/os_faulty.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Counts a call; returns 0 when it may go through, else the -errno that it shall return. */
static int gate(const lzt_os *os, lzt_os_call call)
{
    lzt_os_faulty *f = (lzt_os_faulty *)os;
    f->calls_of[call]++;
    if (f->only && !(f->only & UINT32_C(1) << call)) return 0;
    uint64_t number = ++f->calls;
    if (number == f->kill_at) {
        kill(getpid(), SIGKILL);
        for (;;) pause();
    }
    if (f->fail_at == 0) return 0;
    if (number == f->fail_at || (f->fail_on && number > f->fail_at)) return f->fail_errno ? -f->fail_errno : -EIO;
    return 0;
}

static const lzt_os *inner_of(const lzt_os *os)
{
    return ((const lzt_os_faulty *)os)->inner;
}

static int faulty_openat(const lzt_os *os, int dir_fd, const char *path, int flags, unsigned mode)
{
    int rc = gate(os, LZT_OS_OPENAT);
    if (!rc) rc = inner_of(os)->openat(inner_of(os), dir_fd, path, flags, mode);
    if (rc >= 0) ((lzt_os_faulty *)os)->open_fds++;
    return rc;
}

static int faulty_close(const lzt_os *os, int fd)
{
    ((lzt_os_faulty *)os)->open_fds--;
    return inner_of(os)->close(inner_of(os), fd);
}

static int64_t faulty_pread(const lzt_os *os, int fd, void *data, uint64_t bytes, uint64_t offset)
{
    const lzt_os_faulty *f = (const lzt_os_faulty *)os;
    int rc = gate(os, LZT_OS_PREAD);
    if (rc) return rc;
    if (f->short_bytes_max && bytes > f->short_bytes_max) bytes = f->short_bytes_max;
    return f->inner->pread(f->inner, fd, data, bytes, offset);
}

static int64_t faulty_pwrite(const lzt_os *os, int fd, const void *data, uint64_t bytes, uint64_t offset)
{
    lzt_os_faulty *f = (lzt_os_faulty *)os;
    int rc = gate(os, LZT_OS_PWRITE);
    if (rc) return rc;
    if (f->short_bytes_max && bytes > f->short_bytes_max) bytes = f->short_bytes_max;
    if (f->space_bytes) {
        uint64_t used = f->written_bytes;
        if (used >= f->space_bytes) return -ENOSPC;
        if (bytes > f->space_bytes - used) bytes = f->space_bytes - used;
    }
    int64_t n = f->inner->pwrite(f->inner, fd, data, bytes, offset);
    if (n > 0) f->written_bytes += (uint64_t)n;
    return n;
}

static int faulty_fsync(const lzt_os *os, int fd)
{
    int rc = gate(os, LZT_OS_FSYNC);
    return rc ? rc : inner_of(os)->fsync(inner_of(os), fd);
}

static int faulty_fdatasync(const lzt_os *os, int fd)
{
    int rc = gate(os, LZT_OS_FDATASYNC);
    return rc ? rc : inner_of(os)->fdatasync(inner_of(os), fd);
}

static int faulty_ftruncate(const lzt_os *os, int fd, uint64_t bytes)
{
    int rc = gate(os, LZT_OS_FTRUNCATE);
    return rc ? rc : inner_of(os)->ftruncate(inner_of(os), fd, bytes);
}

static int faulty_fallocate(const lzt_os *os, int fd, int mode, uint64_t offset, uint64_t bytes)
{
    int rc = gate(os, LZT_OS_FALLOCATE);
    return rc ? rc : inner_of(os)->fallocate(inner_of(os), fd, mode, offset, bytes);
}

static int faulty_renameat(const lzt_os *os, int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    int rc = gate(os, LZT_OS_RENAMEAT);
    return rc ? rc : inner_of(os)->renameat(inner_of(os), from_fd, from, to_fd, to, flags);
}

static int faulty_unlinkat(const lzt_os *os, int dir_fd, const char *path, int flags)
{
    int rc = gate(os, LZT_OS_UNLINKAT);
    return rc ? rc : inner_of(os)->unlinkat(inner_of(os), dir_fd, path, flags);
}

static int faulty_mkdirat(const lzt_os *os, int dir_fd, const char *path, unsigned mode)
{
    int rc = gate(os, LZT_OS_MKDIRAT);
    return rc ? rc : inner_of(os)->mkdirat(inner_of(os), dir_fd, path, mode);
}

static int faulty_list(const lzt_os *os, int dir_fd, lzt_os_entry_fn *entry, void *arg)
{
    int rc = gate(os, LZT_OS_LIST);
    return rc ? rc : inner_of(os)->list(inner_of(os), dir_fd, entry, arg);
}

static int faulty_fstat(const lzt_os *os, int fd, struct stat *out)
{
    int rc = gate(os, LZT_OS_FSTAT);
    return rc ? rc : inner_of(os)->fstat(inner_of(os), fd, out);
}

static int faulty_fstatat(const lzt_os *os, int dir_fd, const char *path, struct stat *out, int flags)
{
    int rc = gate(os, LZT_OS_FSTATAT);
    return rc ? rc : inner_of(os)->fstatat(inner_of(os), dir_fd, path, out, flags);
}

static int faulty_flock(const lzt_os *os, int fd, int operation)
{
    int rc = gate(os, LZT_OS_FLOCK);
    return rc ? rc : inner_of(os)->flock(inner_of(os), fd, operation);
}

static int faulty_fstatvfs(const lzt_os *os, int fd, struct statvfs *out)
{
    int rc = gate(os, LZT_OS_FSTATVFS);
    return rc ? rc : inner_of(os)->fstatvfs(inner_of(os), fd, out);
}

void lzt__os_faulty_init(lzt_os_faulty *faulty, const lzt_os *inner)
{
    memset(faulty, 0, sizeof *faulty);
    faulty->inner = inner;
    faulty->os = (lzt_os){
        .openat = faulty_openat,
        .close = faulty_close,
        .pread = faulty_pread,
        .pwrite = faulty_pwrite,
        .fsync = faulty_fsync,
        .fdatasync = faulty_fdatasync,
        .ftruncate = faulty_ftruncate,
        .fallocate = faulty_fallocate,
        .renameat = faulty_renameat,
        .unlinkat = faulty_unlinkat,
        .mkdirat = faulty_mkdirat,
        .list = faulty_list,
        .fstat = faulty_fstat,
        .fstatat = faulty_fstatat,
        .flock = faulty_flock,
        .fstatvfs = faulty_fstatvfs,
    };
}
