/* Status codes and the error record.
 *
 * Every function that can fail returns an lzt_status: 0 is good, negative is bad. The text of a failure goes into an
 * lzt_error that the caller supplies, or nowhere when the caller passes NULL; the library itself never prints and never
 * exits. Expected outcomes (an infeasible plan, a skipped step) are not errors; they are values of their own types.
 *
 *     lzt_error err = {0};
 *     if (lzt_model_open(dir, &model, &err)) fprintf(stderr, "%s: %s\n", err.where, err.message);
 *
 * Threads: an lzt_error belongs to one call at a time. Ownership: the record holds its text; nothing is to be freed.
 */
#ifndef LAZYTRAIN_STATUS_H
#define LAZYTRAIN_STATUS_H

#include "lazytrain/export.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The documented exit code of the program is the negated value (LZT_ERR_NO_MEMORY exits with 1). */
typedef enum lzt_status {
    LZT_OK = 0,
    LZT_ERR_INTERNAL = -1,    /* our own fault */
    LZT_ERR_USAGE = -2,       /* command line or config */
    LZT_ERR_NO_PLAN = -3,     /* nothing fits the budgets */
    LZT_ERR_DATA = -4,        /* dataset or tokenizer */
    LZT_ERR_MODEL = -5,       /* model directory or checkpoint invalid */
    LZT_ERR_STORAGE = -6,     /* disk full, I/O error */
    LZT_ERR_NUMERICS = -7,    /* stopped by the non-finite policy */
    LZT_ERR_NO_MEMORY = -8,   /* the host has no memory left */
    LZT_ERR_INTERRUPTED = -75 /* a signal; the run can be resumed */
} lzt_status;

typedef struct lzt_error {
    lzt_status status;
    int os_code;        /* errno, or 0 */
    char where[512];    /* the file, "file:line", config key or tensor that is at fault */
    char message[1024]; /* one sentence: what is wrong */
    char hint[512];     /* the way out, or "" */
} lzt_error;

/* Fills *err (may be NULL) and returns status, so that a caller can write `return lzt_fail(...)`. where may be NULL.
 * blocks: no */
LZT_EXPORT lzt_status lzt_fail(lzt_error *err, lzt_status status, const char *where, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The same for a failed OS call: appends strerror(os_code) to the message. */
LZT_EXPORT lzt_status lzt_fail_os(lzt_error *err, lzt_status status, int os_code, const char *where, const char *fmt,
                                  ...) __attribute__((format(printf, 5, 6)));

/* Adds the way out to a filled record; returns err->status, or LZT_ERR_INTERNAL when err is NULL. */
LZT_EXPORT lzt_status lzt_hint(lzt_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The process exit code of a status: 0 to 7, or 75. */
LZT_EXPORT int lzt_exit_code(lzt_status status);

/* A short name such as "storage", for logs. Never NULL. */
LZT_EXPORT const char *lzt_status_name(lzt_status status);

/* "0.1.0" */
LZT_EXPORT const char *lzt_version(void);

#ifdef __cplusplus
}
#endif
#endif
