/* A function in a process of its own: what a library does in it can be stopped, and cannot take us along.
 *
 *     static void body(void *context, void *answer) { ... }         runs in the child, writes answer[bytes]
 *     lzt__child_run("HiGHS", body, &context, &answer, sizeof answer, deadline_ns, &late, &err);
 *
 * The child is a fork: it sees the caller's memory as it was, and what it changes is its own. Its answer comes back
 * through a pipe. It ends without running exit handlers, ends when the calling thread ends, and is always waited for:
 * no process and no descriptor is left, whatever comes back.
 *
 * Threads: any, several at a time. The body may allocate (glibc makes its heap whole in a child) and may call pure code
 * of ours; it must not take a lock that another thread of the caller may have held at the fork.
 */
#ifndef LZT_BASE_CHILD_H
#define LZT_BASE_CHILD_H

#include "lazytrain/status.h"

#include <stdbool.h>

/* deadline_ns: of lzt__clock_ns; 0: none. *late: the deadline passed without an answer, and the child was killed;
 * answer is then undefined, and the status LZT_OK. Errors: LZT_ERR_NO_MEMORY (no process; or the child was killed, as
 * the system does when memory is out, or had no CPU time left), LZT_ERR_INTERRUPTED (a signal that is no fault ended
 * it), LZT_ERR_INTERNAL (it crashed, or ended without an answer). `what` names it in messages. blocks: until the answer
 * or the deadline */
lzt_status lzt__child_run(const char *what, void (*body)(void *context, void *answer), void *context, void *answer,
                          size_t answer_bytes, uint64_t deadline_ns, bool *late, lzt_error *err);

#endif
