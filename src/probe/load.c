/* Lanes under load: see load.h. */
#include "probe/load.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

lzt_status lzt__samples_init(lzt_samples *s, uint32_t room, lzt_error *err)
{
    *s = (lzt_samples){.value = calloc(room, sizeof *s->value), .room = room};
    return s->value ? LZT_OK : lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for %u samples", room);
}

void lzt__samples_fini(lzt_samples *s)
{
    free(s->value);
    *s = (lzt_samples){0};
}

void lzt__samples_put(lzt_samples *s, double value)
{
    if (s->count < s->room) s->value[s->count++] = value;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* In order; the middle one, or the mean of the two. */
static double sort(const lzt_samples *s)
{
    qsort(s->value, s->count, sizeof *s->value, by_value);
    return (s->value[(s->count - 1) / 2] + s->value[s->count / 2]) / 2;
}

double lzt__samples_median(const lzt_samples *s)
{
    assert(s->count);
    return sort(s);
}

lzt_status lzt__samples_add(const lzt_samples *s, const lzt_measurement *entry, lzt_profile *profile, lzt_error *err)
{
    lzt_measurement m = *entry;
    if (!s->count) return lzt_fail(err, LZT_ERR_INTERNAL, m.name, "was not measured");
    m.median = sort(s);
    m.min = s->value[0];
    m.max = s->value[s->count - 1];
    m.count = s->count;
    return lzt_profile_add(profile, &m, err);
}

static lzt_status submit(lzt_dev *dev, const lzt_load *load, uint32_t passes, lzt_work **works, uint64_t *last,
                         lzt_error *err)
{
    lzt_work *w = calloc((size_t)passes * load->count + 1, sizeof *w);
    *works = w;
    if (!w) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for %u works", load->count);
    lzt_status status = LZT_OK;
    for (uint32_t p = 0; p < passes; p++)
        for (uint32_t i = 0; i < load->count && !status; i++) {
            w[p * load->count + i] = load->pass[i];
            status = lzt_dev_submit(dev, load->stream, &w[p * load->count + i], last, err);
        }
    return status;
}

lzt_status lzt__load_run(lzt_dev *dev, const lzt_load *const *load, const uint32_t *passes, uint32_t load_count,
                         lzt_work **works, lzt_error *err)
{
    uint64_t last[LZT_LANE_COUNT] = {0};
    lzt_status status = LZT_OK;
    assert(load_count <= LZT_LANE_COUNT);
    memset(works, 0, load_count * sizeof *works);
    for (uint32_t i = 0; i < load_count && !status; i++)
        status = submit(dev, load[i], passes[i], &works[i], &last[i], err);
    for (uint32_t i = 0; i < load_count; i++) { /* also after a failure: the works are the device's until then */
        lzt_error ignored;
        lzt_status waited = lzt_dev_wait(dev, load[i]->stream, last[i], status ? &ignored : err);
        if (!status) status = waited;
    }
    return status;
}
