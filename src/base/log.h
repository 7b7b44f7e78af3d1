/* Where messages for people go. The library never prints: whoever opens a handle gives it a sink, or none.
 *
 *     static void to_stderr(void *arg, lzt_log_level level, const char *line) { fprintf(stderr, "%s\n", line); }
 *     lzt_log log = {.level = LZT_LOG_INFO, .write = to_stderr};
 *     lzt__log(&log, LZT_LOG_WARN, "dropped %llu rows", n);
 *
 * Threads: any thread may log; write must allow that. Ownership: the sink outlives its users; line is borrowed.
 */
#ifndef LZT_BASE_LOG_H
#define LZT_BASE_LOG_H

#include <stdbool.h>

typedef enum lzt_log_level { LZT_LOG_ERROR = 0, LZT_LOG_WARN, LZT_LOG_INFO, LZT_LOG_DEBUG } lzt_log_level;

typedef void lzt_log_fn(void *arg, lzt_log_level level, const char *line);

typedef struct lzt_log {
    lzt_log_level level; /* messages above it are dropped before they are formatted */
    lzt_log_fn *write;   /* line has no newline and at most 1,023 bytes */
    void *arg;
} lzt_log;

/* "error", "warning", "info", "debug". Never NULL. */
const char *lzt__log_level_name(lzt_log_level level);

/* Would a message of this level be written? log may be NULL: no. */
bool lzt__log_wants(const lzt_log *log, lzt_log_level level);

/* log may be NULL. Allocates nothing; a longer line is cut and ends in "...". */
void lzt__log(const lzt_log *log, lzt_log_level level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
