/* A directory that appears whole or not at all.
 *
 * It is filled beside its place under a hidden name and published by one rename, after everything in it and its own
 * entries are on disk:
 *
 *     lzt__staging s;
 *     lzt__staging_open(os, "out/final", &s, &err);      makes out/.final.tmp-PID, locked while we live
 *     lzt__staging_create(&s, "a", &file, &err); ... lzt__staging_write(...); lzt__staging_finish(&file, &err);
 *     lzt__staging_publish(&s, true, &err);              out/final is the new directory, the old one is gone
 *     lzt__staging_close(&s);                            always; before publish it removes what was written
 *
 * A leftover of a killed process is known by its free lock and removed by the next open of the same target, or by
 * lzt__staging_clean. One writer a target at a time. blocks: on disk. Errors: LZT_ERR_STORAGE with the path.
 */
#ifndef LZT_BASE_STAGING_H
#define LZT_BASE_STAGING_H

#include "base/os.h"

typedef struct lzt__staging {
    const lzt_os *os;
    char *parent, *name; /* of the target */
    char *temporary;     /* the hidden name, in parent */
    int parent_fd, fd;   /* fd: the hidden directory, which holds the lock */
    bool has_temporary;  /* the hidden name stands for something that close is to remove */
} lzt__staging;

typedef struct lzt__staging_file {
    const lzt__staging *staging;
    char name[256];
    int fd;
    uint64_t bytes;            /* written so far */
    struct XXH3_state_s *hash; /* NULL after create; one that the caller puts here is fed what is written */
} lzt__staging_file;

/* Makes the target's parents and the hidden directory. On error there is nothing to close. */
lzt_status lzt__staging_open(const lzt_os *os, const char *target, lzt__staging *staging, lzt_error *err);

/* A new file in it, written from the start to the end. */
lzt_status lzt__staging_create(const lzt__staging *staging, const char *name, lzt__staging_file *file, lzt_error *err);
lzt_status lzt__staging_write(lzt__staging_file *file, const void *data, uint64_t bytes, lzt_error *err);
/* fsync and close; the file is closed after an error, too. */
lzt_status lzt__staging_finish(lzt__staging_file *file, lzt_error *err);
/* Closes without fsync, after an error. */
void lzt__staging_drop(lzt__staging_file *file);
/* create, write, finish */
lzt_status lzt__staging_put(const lzt__staging *staging, const char *name, const void *data, uint64_t bytes,
                            lzt_error *err);

/* Puts the directory into its place. replace: an existing directory there is exchanged and then removed; otherwise an
 * existing one is an error. After an error the target is what it was, unless the error is that the new name could not
 * be made durable. */
lzt_status lzt__staging_publish(lzt__staging *staging, bool replace, lzt_error *err);

/* Ends it; removes the hidden directory unless it was published. */
void lzt__staging_close(lzt__staging *staging);

/* Removes hidden directories of dead writers in parent whose target's name begins with prefix. *removed: how many. What
 * cannot be removed is left. A parent that is not there is good. */
lzt_status lzt__staging_clean(const lzt_os *os, const char *parent, const char *prefix, uint32_t *removed,
                              lzt_error *err);

#endif
