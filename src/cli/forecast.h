/* What a step under the session's plan will take, from a profile: time by part, memory, and its trace. */
#ifndef LZT_CLI_FORECAST_H
#define LZT_CLI_FORECAST_H

#include "cli/session.h"
#include "lazytrain/price.h"

typedef struct lzt_forecast {
    lzt_step_price price;
    double unlimited_seconds;             /* if nothing shared bytes: what the data alone demand */
    uint64_t peak_bytes[LZT_SPACE_COUNT]; /* of the step's programs */
    uint64_t rss_bytes;                   /* of a process that runs it: this one as it is, and both arenas */
} lzt_forecast;

/* rows: of equal length in a micro-batch. trace: NULL, or a file for the simulated step. Errors: those of compiling,
 * pricing and writing. */
lzt_status lzt_forecast_step(const lzt_session *s, const lzt_profile *profile, uint64_t rows, const char *trace,
                             lzt_forecast *forecast, lzt_error *err);

/* Resident memory of a process like this one once both arenas are in use. */
uint64_t lzt_forecast_rss(uint64_t device_bytes, uint64_t host_bytes);

#endif
