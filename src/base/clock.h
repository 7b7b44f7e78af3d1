/* The monotonic clock. Everything that is measured or waited for uses it; wall-clock time is for names and logs only.
 *
 * Threads: any. blocks: sleep_until only.
 */
#ifndef LZT_BASE_CLOCK_H
#define LZT_BASE_CLOCK_H

#include <errno.h>
#include <stdint.h>
#include <time.h>

#define LZT_NS_PER_S UINT64_C(1000000000)

/* Nanoseconds since an arbitrary moment of this boot. */
static inline uint64_t lzt__clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * LZT_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Returns at deadline_ns or later, whatever signals arrive; at once when the deadline has passed. */
static inline void lzt__clock_sleep_until(uint64_t deadline_ns)
{
    struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / LZT_NS_PER_S),
                                .tv_nsec = (long)(deadline_ns % LZT_NS_PER_S)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL) == EINTR) continue;
}

static inline double lzt__clock_seconds(uint64_t ns)
{
    return (double)ns / (double)LZT_NS_PER_S;
}

#endif
