/* The profile: what this machine measured. Plain data, a JSON file that a person can read and correct.
 *
 * Rates are bytes per second of a link or drive at a block size, times are seconds of a piece of work at a token count;
 * each with its median, least, greatest and number of samples. Names are the measurer's: links "h2d", "d2h",
 * "nvme_read", "nvme_write" ("_both" behind it: while the other direction runs), "host_memory"; work such as
 * "forward.full_attention.bf16". The planner and the simulator read profiles; they never measure.
 *
 *     lzt_profile profile;
 *     if (lzt_profile_read("profile.json", &profile, &err)) ...
 *     const lzt_measurement *up = lzt_profile_find(&profile, LZT_MEASURE_RATE, "h2d", 64 << 20);
 *     lzt_profile_fini(&profile);
 *
 * Threads: plain data. Ownership: lzt_profile_fini frees what add or read made.
 */
#ifndef LAZYTRAIN_PROFILE_H
#define LAZYTRAIN_PROFILE_H

#include "lazytrain/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LZT_PROFILE_VERSION          1
#define LZT_PROFILE_BYTES_MAX        (UINT64_C(16) << 20) /* a larger file is refused */
#define LZT_PROFILE_MEASUREMENTS_MAX UINT64_C(65536)

typedef enum lzt_measure { LZT_MEASURE_RATE = 0, LZT_MEASURE_TIME, LZT_MEASURE_COUNT } lzt_measure;

typedef struct lzt_measurement {
    lzt_measure kind;
    char name[64];
    uint64_t size;           /* RATE: bytes of a block; TIME: tokens */
    double median, min, max; /* RATE: bytes per second; TIME: seconds */
    uint64_t count;          /* samples: >= 1 */
} lzt_measurement;

typedef struct lzt_profile {
    char machine[128], device[128];                /* what it was measured on, in words */
    char drive[128];                               /* "uring, direct"; "": no drive was measured */
    uint64_t device_bytes, host_bytes, nvme_bytes; /* capacities; 0: unknown */
    lzt_measurement *measurement; /* [measurement_count] by kind, then name, then size; no two alike in all three */
    uint64_t measurement_count;
} lzt_profile;

/* Puts a measurement in its place; one of the same kind, name and size is replaced. The profile begins zeroed.
 * Errors: LZT_ERR_USAGE (a name that is empty or too long, numbers not finite, out of order or negative),
 * LZT_ERR_NO_MEMORY. */
LZT_EXPORT lzt_status lzt_profile_add(lzt_profile *profile, const lzt_measurement *measurement, lzt_error *err);
LZT_EXPORT void lzt_profile_fini(lzt_profile *profile); /* a zeroed profile is allowed */

/* The measurement of this kind and name whose size is nearest, as a ratio, to size; NULL when there is none of the
 * name. Borrowed until the next add. */
LZT_EXPORT const lzt_measurement *lzt_profile_find(const lzt_profile *profile, lzt_measure kind, const char *name,
                                                   uint64_t size);

/* Reads and writes profile.json: strict like plan.json. On error *profile is zeroed. blocks: on disk */
LZT_EXPORT lzt_status lzt_profile_read(const char *path, lzt_profile *profile, lzt_error *err);
LZT_EXPORT lzt_status lzt_profile_write(const char *path, const lzt_profile *profile, lzt_error *err);
/* The same from and to memory. *text is NUL-terminated; the caller frees it. */
LZT_EXPORT lzt_status lzt_profile_parse(const char *text, uint64_t text_bytes, const char *where, lzt_profile *profile,
                                        lzt_error *err);
LZT_EXPORT lzt_status lzt_profile_print(const lzt_profile *profile, char **text, lzt_error *err);

#ifdef __cplusplus
}
#endif
#endif
