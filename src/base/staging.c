/* A directory that appears whole or not at all: see staging.h. */
#include "base/staging.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE  2
#endif

#define MARK ".tmp-" /* .NAME.tmp-PID */

/* Splits "a/b/" into "a" and "b"; "b" into "." and "b". */
static lzt_status split(const char *target, lzt__staging *s, lzt_error *err)
{
    size_t end = strlen(target);
    while (end > 1 && target[end - 1] == '/') end--;
    size_t start = end;
    while (start && target[start - 1] != '/') start--;
    size_t parent = start;
    while (parent > 1 && target[parent - 1] == '/') parent--;
    s->name = strndup(target + start, end - start);
    s->parent = start ? strndup(target, parent) : strdup(".");
    if (!s->name || !s->parent) return lzt_fail(err, LZT_ERR_NO_MEMORY, target, "no memory");
    if (!*s->name || !strcmp(s->name, ".") || !strcmp(s->name, "..") || strlen(s->name) > 200)
        return lzt_fail(err, LZT_ERR_STORAGE, target, "not the name of a directory that can be made");
    return LZT_OK;
}

/* Removes the hidden directory if nobody holds its lock; 1: removed, 0: alive or not ours. */
static int remove_dead(const lzt_os *os, int parent_fd, const char *name)
{
    int fd = os->openat(os, parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd < 0) return 0;
    int locked = os->flock(os, fd, LOCK_EX | LOCK_NB);
    int removed = locked >= 0 && !lzt__os_remove_tree(os, parent_fd, name, NULL);
    os->close(os, fd);
    return removed;
}

typedef struct cleaning {
    const lzt_os *os;
    int parent_fd;
    const char *prefix;
    uint32_t removed;
} cleaning;

static bool is_hidden_name(const char *name, const char *prefix)
{
    if (*name != '.' || strncmp(name + 1, prefix, strlen(prefix))) return false;
    const char *mark = NULL;
    for (const char *at = strstr(name, MARK); at; at = strstr(at + 1, MARK)) mark = at;
    if (!mark || mark == name || !mark[strlen(MARK)]) return false;
    return strspn(mark + strlen(MARK), "0123456789") == strlen(mark + strlen(MARK));
}

static int clean_entry(void *arg, const char *name)
{
    cleaning *c = arg;
    if (is_hidden_name(name, c->prefix) && remove_dead(c->os, c->parent_fd, name)) c->removed++;
    return 0;
}

lzt_status lzt__staging_clean(const lzt_os *os, const char *parent, const char *prefix, uint32_t *removed,
                              lzt_error *err)
{
    *removed = 0;
    int fd = os->openat(os, AT_FDCWD, parent, O_RDONLY | O_DIRECTORY, 0);
    if (fd == -ENOENT) return LZT_OK;
    if (fd < 0) return lzt_fail_os(err, LZT_ERR_STORAGE, -fd, parent, "cannot open the directory");
    cleaning c = {os, fd, prefix, 0};
    int rc = os->list(os, fd, clean_entry, &c);
    os->close(os, fd);
    *removed = c.removed;
    return rc < 0 ? lzt_fail_os(err, LZT_ERR_STORAGE, -rc, parent, "cannot list the directory") : LZT_OK;
}

static lzt_status make_hidden(lzt__staging *s, lzt_error *err)
{
    const lzt_os *os = s->os;
    if (asprintf(&s->temporary, ".%s" MARK "%ld", s->name, (long)getpid()) < 0) {
        s->temporary = NULL;
        return lzt_fail(err, LZT_ERR_NO_MEMORY, s->name, "no memory");
    }
    cleaning c = {os, s->parent_fd, s->name, 0};
    int rc = os->list(os, s->parent_fd, clean_entry, &c);
    if (rc < 0) return lzt_fail_os(err, LZT_ERR_STORAGE, -rc, s->parent, "cannot list the directory");
    rc = os->mkdirat(os, s->parent_fd, s->temporary, 0777);
    if (rc < 0) return lzt_fail_os(err, LZT_ERR_STORAGE, -rc, s->parent, "cannot make %s in it", s->temporary);
    s->fd = os->openat(os, s->parent_fd, s->temporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (s->fd < 0) {
        rc = s->fd;
        os->unlinkat(os, s->parent_fd, s->temporary, AT_REMOVEDIR);
        return lzt_fail_os(err, LZT_ERR_STORAGE, -rc, s->parent, "cannot open %s in it", s->temporary);
    }
    s->has_temporary = true;
    rc = os->flock(os, s->fd, LOCK_EX | LOCK_NB);
    if (rc >= 0) return LZT_OK;
    s->has_temporary = false;
    os->unlinkat(os, s->parent_fd, s->temporary, AT_REMOVEDIR);
    return lzt_fail_os(err, LZT_ERR_STORAGE, -rc, s->parent, "cannot lock %s in it", s->temporary);
}

static void release(lzt__staging *s)
{
    if (s->fd >= 0) s->os->close(s->os, s->fd);
    if (s->parent_fd >= 0) s->os->close(s->os, s->parent_fd);
    free(s->parent);
    free(s->name);
    free(s->temporary);
    memset(s, 0, sizeof *s);
    s->fd = s->parent_fd = -1;
}

lzt_status lzt__staging_open(const lzt_os *os, const char *target, lzt__staging *s, lzt_error *err)
{
    *s = (lzt__staging){.os = os, .parent_fd = -1, .fd = -1};
    lzt_status status = split(target, s, err);
    if (!status) status = lzt__os_make_dirs(os, s->parent, err);
    if (!status) status = lzt__os_open(os, AT_FDCWD, s->parent, O_RDONLY | O_DIRECTORY, 0, &s->parent_fd, err);
    if (!status) status = make_hidden(s, err);
    if (status) release(s);
    return status;
}

lzt_status lzt__staging_create(const lzt__staging *s, const char *name, lzt__staging_file *file, lzt_error *err)
{
    *file = (lzt__staging_file){.staging = s, .fd = -1};
    if (strlen(name) >= sizeof file->name) return lzt_fail(err, LZT_ERR_STORAGE, name, "the file name is too long");
    snprintf(file->name, sizeof file->name, "%s", name);
    return lzt__os_open(s->os, s->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666, &file->fd, err);
}

lzt_status lzt__staging_write(lzt__staging_file *file, const void *data, uint64_t bytes, lzt_error *err)
{
    lzt_status status = lzt__os_write_all(file->staging->os, file->fd, file->name, data, bytes, file->bytes, err);
    if (!status) file->bytes += bytes;
    if (!status && file->hash) XXH3_128bits_update(file->hash, data, bytes);
    return status;
}

void lzt__staging_drop(lzt__staging_file *file)
{
    if (file->fd >= 0) file->staging->os->close(file->staging->os, file->fd);
    file->fd = -1;
}

static int sync_fd(const lzt_os *os, int fd)
{
    int rc;
    do rc = os->fsync(os, fd);
    while (rc == -EINTR);
    return rc;
}

lzt_status lzt__staging_finish(lzt__staging_file *file, lzt_error *err)
{
    const lzt_os *os = file->staging->os;
    int rc = sync_fd(os, file->fd);
    int closed = os->close(os, file->fd);
    file->fd = -1;
    if (rc >= 0) rc = closed;
    return rc < 0 ? lzt_fail_os(err, LZT_ERR_STORAGE, -rc, file->name, "cannot make the file durable") : LZT_OK;
}

lzt_status lzt__staging_put(const lzt__staging *s, const char *name, const void *data, uint64_t bytes, lzt_error *err)
{
    lzt__staging_file file;
    lzt_status status = lzt__staging_create(s, name, &file, err);
    if (status) return status;
    status = lzt__staging_write(&file, data, bytes, err);
    if (!status) return lzt__staging_finish(&file, err);
    lzt__staging_drop(&file);
    return status;
}

static lzt_status cannot_publish(const lzt__staging *s, int rc, lzt_error *err)
{
    return lzt_fail_os(err, LZT_ERR_STORAGE, -rc, s->name, "cannot publish the finished directory in %s", s->parent);
}

static int rename_without_flags(const lzt__staging *s)
{
    struct stat info;
    int rc = s->os->fstatat(s->os, s->parent_fd, s->name, &info, AT_SYMLINK_NOFOLLOW);
    if (rc >= 0) return -EEXIST;
    if (rc != -ENOENT) return rc;
    return s->os->renameat(s->os, s->parent_fd, s->temporary, s->parent_fd, s->name, 0);
}

lzt_status lzt__staging_publish(lzt__staging *s, bool replace, lzt_error *err)
{
    const lzt_os *os = s->os;
    int rc = sync_fd(os, s->fd);
    if (rc < 0) return cannot_publish(s, rc, err);
    rc = os->renameat(os, s->parent_fd, s->temporary, s->parent_fd, s->name, RENAME_NOREPLACE);
    if (rc == -EINVAL) rc = rename_without_flags(s); /* a file system that knows no flags */
    s->has_temporary = rc < 0;
    if (rc == -EEXIST && replace) /* the old directory now bears the hidden name: close removes it */
        rc = os->renameat(os, s->parent_fd, s->temporary, s->parent_fd, s->name, RENAME_EXCHANGE);
    if (rc >= 0) rc = sync_fd(os, s->parent_fd);
    return rc < 0 ? cannot_publish(s, rc, err) : LZT_OK;
}

void lzt__staging_close(lzt__staging *s)
{
    if (s->has_temporary) lzt__os_remove_tree(s->os, s->parent_fd, s->temporary, NULL);
    release(s);
}
