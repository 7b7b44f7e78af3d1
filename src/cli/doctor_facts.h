/* What the doctor asks the system: a table, so that a test can answer in the system's place.
 *
 * Each entry returns 0 or more, or -errno. lzt__facts_system answers for this machine; nothing it does stays behind:
 * the file that tries O_DIRECT is unlinked before it is written.
 *
 * Threads: the table is immutable. blocks: on disk. */
#ifndef LZT_CLI_DOCTOR_FACTS_H
#define LZT_CLI_DOCTOR_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct lzt_filesystem {
    uint64_t id;         /* equal for paths of one filesystem */
    uint64_t free_bytes; /* for this user */
    bool is_memory;      /* tmpfs, ramfs */
    bool is_network;     /* nfs, cifs, 9p, fuse */
    const char *name;    /* "ext4"; "" where it is not known */
    char nearest[1024];  /* path, or its nearest parent that exists */
} lzt_filesystem;

typedef struct lzt_place {
    bool exists, is_directory, may_write; /* may_write: into path, or its nearest parent that exists */
    uid_t owner;                          /* of path; where it exists */
} lzt_place;

/* A lock that lies in a directory or one below it. is_held: by a live process. */
typedef void lzt_lock_fn(void *arg, const char *path, bool is_held);

typedef struct lzt_facts lzt_facts;
struct lzt_facts {
    uid_t (*user)(const lzt_facts *facts);
    int (*memlock)(const lzt_facts *facts, uint64_t *bytes); /* RLIMIT_MEMLOCK, UINT64_MAX: unlimited */
    int (*memory)(const lzt_facts *facts, uint64_t *total_bytes,
                  uint64_t *available_bytes); /* the control group's, or the limit on address space, if less */
    int (*filesystem)(const lzt_facts *facts, const char *path, lzt_filesystem *out);
    int (*place)(const lzt_facts *facts, const char *path, lzt_place *out);
    int (*direct_io)(const lzt_facts *facts, const char *directory); /* -EINVAL: the filesystem has no O_DIRECT */
    int (*io_uring)(const lzt_facts *facts);                         /* -ENOSYS, -EPERM: not for us */
    int (*clock_source)(const lzt_facts *facts, char *name, size_t size);
    int (*locks)(const lzt_facts *facts, const char *directory, lzt_lock_fn *found, void *arg);
    int (*gds)(const lzt_facts *facts); /* 0: there, or no NVIDIA driver to want it; -ENOENT: a driver without it */
};

const lzt_facts *lzt__facts_system(void);

#endif
