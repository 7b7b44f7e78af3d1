/* The log sink: see log.h. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *lzt__log_level_name(lzt_log_level level)
{
    switch (level) {
    case LZT_LOG_ERROR: return "error";
    case LZT_LOG_WARN: return "warning";
    case LZT_LOG_INFO: return "info";
    case LZT_LOG_DEBUG: return "debug";
    }
    return "unknown";
}

bool lzt__log_wants(const lzt_log *log, lzt_log_level level)
{
    return log && log->write && level <= log->level;
}

void lzt__log(const lzt_log *log, lzt_log_level level, const char *fmt, ...)
{
    if (!lzt__log_wants(log, level)) return;
    char line[1024];
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (length >= (int)sizeof line) memcpy(line + sizeof line - 4, "...", 4);
    log->write(log->arg, level, line);
}
