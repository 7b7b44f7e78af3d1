/* Copies over the link by size and direction, both at once, and one thread's memcpy. */
#include "base/clock.h"
#include "probe/probe_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_BYTES (UINT64_C(4) << 20)

enum { FEW = 3 };

void lzt__probe_copy_ring(const lzt_probe *p, lzt_lane lane, uint64_t bytes, lzt_range *range, lzt_work *work,
                          lzt_load *load)
{
    bool up = lane == LZT_LANE_H2D;
    uint64_t share = p->copy_bytes_max, at_device = p->device_copy_at + (up ? 0 : share);
    uint64_t at_host = p->host_copy_at + (up ? 0 : share), slots = share / bytes ? share / bytes : 1;
    for (uint64_t i = 0; i < LZT_PROBE_RING; i++) {
        uint64_t offset = i % slots * bytes;
        lzt_range device = {at_device + offset, bytes, LZT_SPACE_DEVICE, up ? LZT_ACCESS_WRITE : LZT_ACCESS_READ};
        lzt_range host = {at_host + offset, bytes, LZT_SPACE_HOST, up ? LZT_ACCESS_READ : LZT_ACCESS_WRITE};
        range[2 * i] = up ? host : device;
        range[2 * i + 1] = up ? device : host;
        work[i] = (lzt_work){.name = up ? "h2d" : "d2h", .range = &range[2 * i], .range_count = 2};
    }
    *load = (lzt_load){.stream = p->stream[lane], .pass = work, .count = LZT_PROBE_RING};
}

/* From the first's start to the last's end. */
static double pass_seconds(const lzt_work *works, uint32_t count)
{
    return (double)(works[count - 1].end_ns - works[0].start_ns) * 1e-9;
}

/* The mean rate of copies that follow one another: a throttled link makes up for a late one with the next, and for what
 * passes between the two, which therefore belongs to long ones; between short ones it is our own queue. With both
 * directions the first, which may be alone, does not count. */
static lzt_status sample(lzt_probe *p, const lzt_load *const *loads, uint32_t load_count, uint64_t bytes,
                         lzt_samples *samples, lzt_error *err)
{
    const uint32_t passes[] = {1, 1};
    lzt_work *works[2];
    lzt_status status = lzt__load_run(p->dev, loads, passes, load_count, works, err);
    for (uint32_t d = 0; d < load_count; d++) {
        double seconds = 1e-9;
        uint32_t first = load_count > 1, count = loads[d]->count;
        bool whole = !first && bytes > SHORT_BYTES;
        if (!status && whole) seconds += pass_seconds(works[d], count);
        for (uint32_t i = first; !status && !whole && i < count; i++) seconds += lzt__work_seconds(&works[d][i]);
        lzt__samples_put(&samples[d], (double)bytes * (count - first) / seconds);
        free(works[d]);
    }
    return status;
}

static lzt_status measure(lzt_probe *p, const lzt_load *const *loads, uint32_t load_count, uint64_t bytes,
                          const lzt_measurement *entry, lzt_error *err)
{
    lzt_samples samples[2] = {{0}};
    lzt_status status = LZT_OK;
    double budget = p->o->seconds / (p->o->copy_count + 1) / 2;
    for (uint32_t d = 0; d < load_count && !status; d++)
        status = lzt__samples_init(&samples[d], LZT_PROBE_SAMPLES_MAX, err);
    uint64_t begin = lzt__clock_ns();
    for (int s = 0; s < LZT_PROBE_SAMPLES_MAX && !status; s++) {
        if (s >= 3 && lzt__clock_seconds(lzt__clock_ns() - begin) > budget) break;
        status = sample(p, loads, load_count, bytes, samples, err);
    }
    for (uint32_t d = 0; d < load_count; d++) {
        if (!status) status = lzt__samples_add(&samples[d], &entry[d], p->profile, err);
        lzt__samples_fini(&samples[d]);
    }
    return status;
}

/* Halves of the largest region, so that neither stays in a cache. */
static lzt_status host_memory(lzt_probe *p, lzt_error *err)
{
    uint64_t bytes = p->copy_bytes_max;
    char *at = lzt_dev_address(p->dev, LZT_SPACE_HOST, p->host_copy_at);
    lzt_samples samples;
    lzt_measurement entry = {.kind = LZT_MEASURE_RATE, .name = "host_memory", .size = bytes};
    lzt_status status = lzt__samples_init(&samples, LZT_PROBE_SAMPLES_MIN, err);
    for (int i = 0; i < LZT_PROBE_SAMPLES_MIN && !status; i++) {
        uint64_t begin = lzt__clock_ns();
        memcpy(at, at + bytes, bytes);
        lzt__samples_put(&samples, (double)bytes / lzt__clock_seconds(lzt__clock_ns() - begin + 1));
    }
    if (!status) status = lzt__samples_add(&samples, &entry, p->profile, err);
    lzt__samples_fini(&samples);
    return status;
}

lzt_status lzt__probe_copies(lzt_probe *p, lzt_error *err)
{
    static const lzt_lane lanes[] = {LZT_LANE_H2D, LZT_LANE_D2H};
    lzt_range range[2][2 * LZT_PROBE_RING];
    lzt_work work[2][LZT_PROBE_RING];
    lzt_load load[2];
    lzt_status status = LZT_OK;
    if (!p->o->copy_count) return LZT_OK;
    lzt__probe_say(p, "copies");
    for (uint32_t i = 0; i < p->o->copy_count && !status; i++) {
        uint64_t bytes = p->o->copy_bytes[i] < p->copy_bytes_max ? p->o->copy_bytes[i] : p->copy_bytes_max;
        const lzt_load *loads[2] = {&load[0], &load[1]};
        lzt_measurement entry[2], both[2];
        for (int d = 0; d < 2; d++) {
            entry[d] = both[d] = (lzt_measurement){.kind = LZT_MEASURE_RATE, .size = bytes};
            snprintf(entry[d].name, sizeof entry[d].name, "%s", lzt_lane_name(lanes[d]));
            snprintf(both[d].name, sizeof both[d].name, "%s_both", lzt_lane_name(lanes[d]));
            lzt__probe_copy_ring(p, lanes[d], bytes, range[d], work[d], &load[d]);
            if (bytes > SHORT_BYTES) load[d].count = FEW; /* long ones need not be many */
            if (!status) status = measure(p, &loads[d], 1, bytes, &entry[d], err);
        }
        if (!status) status = measure(p, loads, 2, bytes, both, err);
    }
    if (!status) status = host_memory(p, err);
    return status;
}
