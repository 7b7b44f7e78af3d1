/* One stream of reads or writes of equal blocks, several in flight, until a deadline. */
#ifndef LZT_PROBE_DRIVE_IO_H
#define LZT_PROBE_DRIVE_IO_H

#include "base/os.h"
#include "lazytrain/status.h"

enum { LZT_DRIVE_DEPTH_MAX = 32 };

typedef enum lzt_drive_engine { LZT_DRIVE_THREADS = 0, LZT_DRIVE_URING } lzt_drive_engine;

typedef struct lzt_drive_job {
    const lzt_os *os;
    lzt_drive_engine engine;
    int fd;
    bool is_write;
    uint64_t offset, bytes; /* the part of the file: whole blocks, gone through in order, again and again */
    uint64_t block_bytes;
    uint32_t depth; /* in flight: 1..LZT_DRIVE_DEPTH_MAX */
    char *buffer;   /* depth blocks, aligned to 4,096; the caller's */
    uint64_t deadline_ns;
    /* out */
    uint64_t done_bytes, begin_ns, end_ns;
} lzt_drive_job;

/* io_uring where it was built in and the kernel allows it, else threads. */
lzt_drive_engine lzt__drive_engine(void);
const char *lzt__drive_engine_name(lzt_drive_engine engine);

/* At least one block for each in flight. Errors: LZT_ERR_STORAGE, with path as the place; LZT_ERR_NO_MEMORY.
 * blocks: yes */
lzt_status lzt__drive_run(lzt_drive_job *job, const char *path, lzt_error *err);
/* Two jobs at once. */
lzt_status lzt__drive_run_both(lzt_drive_job *a, lzt_drive_job *b, const char *path, lzt_error *err);

#endif
