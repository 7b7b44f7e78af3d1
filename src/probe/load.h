/* A lane kept busy: a pass of works that is submitted again and again, and what each of them took. */
#ifndef LZT_PROBE_LOAD_H
#define LZT_PROBE_LOAD_H

#include "lazytrain/dev.h"
#include "lazytrain/profile.h"

/* One lane's works, in order. */
typedef struct lzt_load {
    uint32_t stream;
    lzt_work *pass; /* [count] templates: copied for each run */
    uint32_t count;
    double *alone; /* [count] seconds of each by itself, once measured */
} lzt_load;

/* A row of numbers that becomes a measurement. */
typedef struct lzt_samples {
    double *value; /* [room] */
    uint32_t count, room;
} lzt_samples;

lzt_status lzt__samples_init(lzt_samples *s, uint32_t room, lzt_error *err);
void lzt__samples_fini(lzt_samples *s);
void lzt__samples_put(lzt_samples *s, double value); /* those beyond the room are dropped */
double lzt__samples_median(const lzt_samples *s);
/* median, least and greatest of the samples as the entry's. Errors: no samples; those of adding. */
lzt_status lzt__samples_add(const lzt_samples *s, const lzt_measurement *entry, lzt_profile *profile, lzt_error *err);

/* Runs passes[i] passes of each load at once and waits. What ran is in *works[i], [passes[i] * count], the caller's to
 * free (also those of a failed run, which may be NULL). */
lzt_status lzt__load_run(lzt_dev *dev, const lzt_load *const *load, const uint32_t *passes, uint32_t load_count,
                         lzt_work **works, lzt_error *err);

static inline double lzt__work_seconds(const lzt_work *w)
{
    return (double)(w->end_ns - w->start_ns) * 1e-9;
}

#endif
