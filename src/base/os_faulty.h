/* File calls that fail on demand: an lzt_os over another, for tests only (not part of the library).
 *
 *     lzt_os_faulty faulty;
 *     lzt__os_faulty_init(&faulty, lzt__os_posix());
 *     faulty.fail_at = 3;                                the third call that counts ...
 *     faulty.fail_errno = ENOSPC;                        ... returns -ENOSPC
 *     faulty.only = LZT_OS_BIT(PWRITE);                  only pwrite counts; 0: every call but close
 *     code_under_test(&faulty.os);
 *
 * To visit every failure of a function: run it once, take calls, then run it with fail_at = 1..calls.
 * Threads: the count is atomic; set the options before the calls begin. The counters stay valid afterwards.
 */
#ifndef LZT_BASE_OS_FAULTY_H
#define LZT_BASE_OS_FAULTY_H

#include "base/os.h"

#include <stdatomic.h>

typedef enum lzt_os_call {
    LZT_OS_OPENAT,
    LZT_OS_PREAD,
    LZT_OS_PWRITE,
    LZT_OS_FSYNC,
    LZT_OS_FDATASYNC,
    LZT_OS_FTRUNCATE,
    LZT_OS_FALLOCATE,
    LZT_OS_RENAMEAT,
    LZT_OS_UNLINKAT,
    LZT_OS_MKDIRAT,
    LZT_OS_LIST,
    LZT_OS_FSTAT,
    LZT_OS_FSTATAT,
    LZT_OS_FLOCK,
    LZT_OS_FSTATVFS,
    LZT_OS_CALL_COUNT
} lzt_os_call;

#define LZT_OS_BIT(name) (UINT32_C(1) << LZT_OS_##name)

typedef struct lzt_os_faulty {
    lzt_os os; /* first: the table that the code under test gets */
    const lzt_os *inner;

    uint32_t only;            /* set of LZT_OS_BIT that count; 0: all */
    uint64_t fail_at;         /* the number, from 1, of the call that fails; 0: none */
    int fail_errno;           /* what it fails with; 0: EIO */
    bool fail_on;             /* every call that counts from fail_at on fails, as on a full disk */
    uint64_t kill_at;         /* the process gets SIGKILL instead of this call; 0: never */
    uint64_t short_bytes_max; /* a pread or pwrite moves at most this much; 0: no limit */
    uint64_t space_bytes;     /* bytes that pwrite accepts in all before ENOSPC; 0: no limit */

    _Atomic uint64_t calls; /* that counted */
    _Atomic uint64_t calls_of[LZT_OS_CALL_COUNT];
    _Atomic uint64_t written_bytes;
    _Atomic int64_t open_fds; /* opened and not yet closed: 0 at the end of a test */
} lzt_os_faulty;

void lzt__os_faulty_init(lzt_os_faulty *faulty, const lzt_os *inner);

#endif
