/* Keeps what no running work has declared out of reach.
 *
 * The fence takes an arena's pages away (PROT_NONE) and gives a work those that it declares, for as long as it runs;
 * one work runs at a time. A touch of another page faults: the fence writes down who, where and how, opens the page,
 * and lets the access go on; the page closes when the work ends.
 *
 * Threads: begin and end from any thread, each pair from one; the signal handler from any thread of the process. Under
 * AddressSanitizer the bytes of open pages that are not declared are poisoned.
 */
#ifndef LZT_DEV_FENCE_H
#define LZT_DEV_FENCE_H

#include "lazytrain/dev.h"

typedef struct lzt_fence lzt_fence;

/* work NULL: the host touched the arena itself. */
typedef void fence_report_fn(void *ctx, const char *work, uint64_t offset, bool is_write);

/* Installs the process's handler where it is not installed. Errors: LZT_ERR_NO_MEMORY, LZT_ERR_INTERNAL (too many
 * fences). */
lzt_status lzt__fence_create(fence_report_fn *report, void *ctx, lzt_fence **fence, lzt_error *err);
void lzt__fence_destroy(lzt_fence *fence); /* NULL is allowed; no work may be running */
/* Closes the arena of space; once. */
lzt_status lzt__fence_arm(lzt_fence *fence, lzt_space space, void *arena, uint64_t bytes, lzt_error *err);
/* The calling thread is the one that submits: its touches are the host's, whatever runs. */
void lzt__fence_host(lzt_fence *fence);
/* blocks: until the work before has ended. Asserts that the system grants the pages. */
void lzt__fence_begin(lzt_fence *fence, const lzt_work *work);
/* Closes the work's pages, lets the next work run, then reports what it touched without having declared it. */
void lzt__fence_end(lzt_fence *fence);
/* Reports the host's touches so far. */
void lzt__fence_flush(lzt_fence *fence);

#endif
