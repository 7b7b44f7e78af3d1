/* Every file call of the core goes through one table, so that tests can make any of them fail.
 *
 * lzt_os is a table of the operating system's file calls; lzt__os_posix returns the real one, os_faulty.h wraps it for
 * tests. Each entry returns a value >= 0, or -errno: errno itself is not read by anybody. Below the table stand the
 * helpers that the rest of the code uses; they deal with short counts and interrupted calls, and fill an lzt_error.
 *
 *     const lzt_os *os = lzt__os_posix();
 *     lzt__os_write_file_atomic(os, "out/plan.json", text, length, &err);
 *
 * Helpers return LZT_ERR_STORAGE for what the operating system refuses, with the path in err->where.
 * Threads: the table is immutable; its calls are as thread-safe as the system's. blocks: on disk.
 */
#ifndef LZT_BASE_OS_H
#define LZT_BASE_OS_H

#include "lazytrain/status.h"

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

typedef struct lzt_os lzt_os;

/* Called for each entry of a directory but "." and ".."; a value other than 0 ends the listing and is returned by it.
 */
typedef int lzt_os_entry_fn(void *arg, const char *name);

/* dir_fd: an open directory, or AT_FDCWD. flags and modes are the system's own; openat adds O_CLOEXEC. */
struct lzt_os {
    int (*openat)(const lzt_os *os, int dir_fd, const char *path, int flags, unsigned mode);
    int (*close)(const lzt_os *os, int fd);
    int64_t (*pread)(const lzt_os *os, int fd, void *data, uint64_t bytes, uint64_t offset);
    int64_t (*pwrite)(const lzt_os *os, int fd, const void *data, uint64_t bytes, uint64_t offset);
    int (*fsync)(const lzt_os *os, int fd);
    int (*fdatasync)(const lzt_os *os, int fd);
    int (*ftruncate)(const lzt_os *os, int fd, uint64_t bytes);
    int (*fallocate)(const lzt_os *os, int fd, int mode, uint64_t offset, uint64_t bytes);
    /* flags: 0, RENAME_NOREPLACE or RENAME_EXCHANGE (renameat2) */
    int (*renameat)(const lzt_os *os, int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
    int (*unlinkat)(const lzt_os *os, int dir_fd, const char *path, int flags); /* AT_REMOVEDIR: a directory */
    int (*mkdirat)(const lzt_os *os, int dir_fd, const char *path, unsigned mode);
    int (*list)(const lzt_os *os, int dir_fd, lzt_os_entry_fn *entry, void *arg); /* an open directory; any order */
    int (*fstat)(const lzt_os *os, int fd, struct stat *out);
    int (*fstatat)(const lzt_os *os, int dir_fd, const char *path, struct stat *out, int flags);
    int (*flock)(const lzt_os *os, int fd, int operation);
    int (*fstatvfs)(const lzt_os *os, int fd, struct statvfs *out);
};

/* The real calls. Borrowed, lives for ever. */
const lzt_os *lzt__os_posix(void);

/* Opens path relative to dir_fd; the caller closes *fd through os->close; -1 on error. */
lzt_status lzt__os_open(const lzt_os *os, int dir_fd, const char *path, int flags, unsigned mode, int *fd,
                        lzt_error *err);

/* All of data at offset, however many calls that takes. path is for the message only. A full disk is an error that
 * says how many bytes were written. */
lzt_status lzt__os_write_all(const lzt_os *os, int fd, const char *path, const void *data, uint64_t bytes,
                             uint64_t offset, lzt_error *err);

/* Exactly bytes from offset; a file that ends before is an error that says where. */
lzt_status lzt__os_read_all(const lzt_os *os, int fd, const char *path, void *data, uint64_t bytes, uint64_t offset,
                            lzt_error *err);

/* A whole regular file of at most bytes_max into fresh memory, with a NUL behind it that *bytes does not count. The
 * caller frees *data. */
lzt_status lzt__os_read_file(const lzt_os *os, const char *path, uint64_t bytes_max, char **data, uint64_t *bytes,
                             lzt_error *err);

/* Makes the names in a directory durable. */
lzt_status lzt__os_fsync_dir(const lzt_os *os, const char *path, lzt_error *err);

/* Whether a finished file may take the place of path: nothing is there, or a regular file. What else is there (a
 * device, a pipe, /dev/stdout, a directory) a rename would put out of the world. */
lzt_status lzt__os_check_replaceable(const char *path, lzt_error *err);

/* path holds either what it held before, or all of data, whenever the power fails: a temporary file in the same
 * directory, fsync, rename, fsync of the directory. No temporary file is left behind by an error
 * (a kill leaves path.tmp-PID, which the next writer of that process id truncates). One writer a path at a time. */
lzt_status lzt__os_write_file_atomic(const lzt_os *os, const char *path, const void *data, uint64_t bytes,
                                     lzt_error *err);

/* The directory and its parents; those that exist are left alone. */
lzt_status lzt__os_make_dirs(const lzt_os *os, const char *path, lzt_error *err);

/* Removes name, relative to dir_fd, with everything in it. Symbolic links are removed, never followed; a name that is
 * not there is good. Goes on after an entry that cannot be removed, and returns the first error. */
lzt_status lzt__os_remove_tree(const lzt_os *os, int dir_fd, const char *name, lzt_error *err);

#endif
