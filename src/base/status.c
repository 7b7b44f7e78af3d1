/* Status codes and the error record: see lazytrain/status.h. */
#include "lazytrain/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void fill(lzt_error *err, lzt_status status, int os_code, const char *where, const char *fmt, va_list args)
    __attribute__((format(printf, 5, 0)));
static void fill(lzt_error *err, lzt_status status, int os_code, const char *where, const char *fmt, va_list args)
{
    if (!err) return;
    err->status = status;
    err->os_code = os_code;
    err->hint[0] = 0;
    snprintf(err->where, sizeof err->where, "%s", where ? where : "");
    vsnprintf(err->message, sizeof err->message, fmt, args);
    if (os_code) {
        size_t used = strlen(err->message);
        char text[128];
        snprintf(err->message + used, sizeof err->message - used, ": %s", strerror_r(os_code, text, sizeof text));
    }
}

lzt_status lzt_fail(lzt_error *err, lzt_status status, const char *where, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fill(err, status, 0, where, fmt, args);
    va_end(args);
    return status;
}

lzt_status lzt_fail_os(lzt_error *err, lzt_status status, int os_code, const char *where, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fill(err, status, os_code, where, fmt, args);
    va_end(args);
    return status;
}

lzt_status lzt_hint(lzt_error *err, const char *fmt, ...)
{
    if (!err) return LZT_ERR_INTERNAL;
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->hint, sizeof err->hint, fmt, args);
    va_end(args);
    return err->status;
}

int lzt_exit_code(lzt_status status)
{
    if (status == LZT_ERR_NO_MEMORY) return 1;
    return -(int)status;
}

const char *lzt_status_name(lzt_status status)
{
    switch (status) {
    case LZT_OK: return "ok";
    case LZT_ERR_INTERNAL: return "internal";
    case LZT_ERR_USAGE: return "usage";
    case LZT_ERR_NO_PLAN: return "no plan";
    case LZT_ERR_DATA: return "data";
    case LZT_ERR_MODEL: return "model";
    case LZT_ERR_STORAGE: return "storage";
    case LZT_ERR_NUMERICS: return "numerics";
    case LZT_ERR_NO_MEMORY: return "out of memory";
    case LZT_ERR_INTERRUPTED: return "interrupted";
    }
    return "unknown";
}

const char *lzt_version(void)
{
    return LZT_VERSION;
}
