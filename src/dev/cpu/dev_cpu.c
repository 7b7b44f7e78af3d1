/* The CPU device: two capped arenas, streams on threads, copies at a given rate. See lazytrain/dev.h for the contract.
 *
 * Each arena is its own anonymous mapping, so that what lies outside cannot be addressed by an offset, and so that the
 * checked device can protect its pages.
 */
#include "dev/cpu/dev_cpu.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_BYTES (UINT64_C(2) << 20)

static const char *const space_names[LZT_SPACE_COUNT] = {"device", "host"};

lzt_status lzt__cpu_device_fail(cpu_device *dev, const lzt_error *cause, lzt_error *err)
{
    if (!cause && !dev->failed) return LZT_OK;
    pthread_mutex_lock(&dev->error_lock);
    if (!dev->failed) {
        dev->error = *cause;
        dev->failed = cause->status;
    }
    if (err) *err = dev->error;
    lzt_status status = dev->error.status;
    pthread_mutex_unlock(&dev->error_lock);
    return status;
}

static void cpu_destroy(lzt_dev *base)
{
    cpu_device *dev = (cpu_device *)base;
    /* All threads must live until all rings are empty: works wait for works of other streams. */
    for (uint32_t i = 0; i < dev->stream_count; i++) lzt__cpu_stream_wait(dev->stream[i], dev->stream[i]->submitted);
    for (uint32_t i = 0; i < dev->stream_count; i++) lzt__cpu_stream_stop(dev->stream[i]);
    for (uint32_t i = 0; i < dev->stream_count; i++) lzt__cpu_stream_destroy(dev->stream[i]);
    for (int s = 0; s < LZT_SPACE_COUNT; s++)
        if (dev->arena[s]) munmap(dev->arena[s], dev->reserved_bytes[s] ? dev->reserved_bytes[s] : 1);
    lzt__cpu_link_fini(&dev->h2d);
    lzt__cpu_link_fini(&dev->d2h);
    pthread_mutex_destroy(&dev->error_lock);
    free(dev);
}

static void cpu_info(const lzt_dev *base, lzt_dev_info *info)
{
    cpu_device *dev = (cpu_device *)(uintptr_t)base; /* atomics are loaded through non-const pointers */
    info->name = "cpu";
    memcpy(info->description, dev->description, sizeof info->description);
    for (int s = 0; s < LZT_SPACE_COUNT; s++) {
        info->cap_bytes[s] = dev->cap_bytes[s];
        info->reserved_bytes[s] = dev->reserved_bytes[s];
        info->peak_bytes[s] = dev->peak_bytes[s];
    }
    for (int l = 0; l < LZT_LANE_COUNT; l++) info->copied_bytes[l] = dev->copied_bytes[l];
}

/* An anonymous mapping of bytes (at least one page) that begins on a huge page, or NULL with errno. */
static char *map_arena(uint64_t bytes)
{
    uint64_t padded = bytes + HUGE_BYTES;
    if (padded < bytes || padded > SIZE_MAX / 2) {
        errno = ENOMEM;
        return NULL;
    }
    char *map = mmap(NULL, padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) return NULL;
    char *begin = (char *)(((uintptr_t)map + HUGE_BYTES - 1) & ~(uintptr_t)(HUGE_BYTES - 1));
    char *end = (char *)(((uintptr_t)begin + (bytes ? bytes : 1) + LZT_DEV_ALIGNMENT - 1) & ~(LZT_DEV_ALIGNMENT - 1));
    if (begin > map) munmap(map, (size_t)(begin - map));
    if (end < map + padded) munmap(end, (size_t)(map + padded - end));
    return begin;
}

static lzt_status cpu_reserve(lzt_dev *base, lzt_space space, uint64_t bytes, lzt_error *err)
{
    cpu_device *dev = (cpu_device *)base;
    if (dev->arena[space])
        return lzt_fail(err, LZT_ERR_INTERNAL, NULL, "the %s arena is reserved already", space_names[space]);
    if (dev->cap_bytes[space] && bytes > dev->cap_bytes[space])
        return lzt_fail(err, LZT_ERR_NO_PLAN, NULL, "the %s arena would need %llu bytes; its cap is %llu",
                        space_names[space], (unsigned long long)bytes, (unsigned long long)dev->cap_bytes[space]);
    char *arena = map_arena(bytes);
    if (!arena)
        return lzt_fail_os(err, LZT_ERR_NO_MEMORY, errno, NULL, "cannot map %llu bytes for the %s arena",
                           (unsigned long long)bytes, space_names[space]);
    if (bytes) (void)madvise(arena, bytes, MADV_HUGEPAGE); /* a wish: kernels without huge pages refuse it */
    dev->arena[space] = arena;
    dev->reserved_bytes[space] = bytes;
    return LZT_OK;
}

static void *cpu_address(const lzt_dev *base, lzt_space space, uint64_t offset)
{
    const cpu_device *dev = (const cpu_device *)base;
    assert(dev->arena[space]);
    assert(offset <= dev->reserved_bytes[space]);
    return dev->arena[space] + offset;
}

static lzt_status cpu_stream_create(lzt_dev *base, lzt_lane lane, uint32_t *stream, lzt_error *err)
{
    cpu_device *dev = (cpu_device *)base;
    uint32_t index = dev->stream_count;
    if (index == LZT_DEV_STREAMS_MAX)
        return lzt_fail(err, LZT_ERR_INTERNAL, NULL, "more than %d streams", LZT_DEV_STREAMS_MAX);
    lzt_status status = lzt__cpu_stream_create(dev, lane, index, &dev->stream[index], err);
    if (status) return status;
    dev->stream_count = index + 1;
    *stream = index;
    return LZT_OK;
}

static bool inside(const cpu_device *dev, const lzt_range *r)
{
    if (r->space >= LZT_SPACE_COUNT || !dev->arena[r->space]) return false;
    if (r->access < LZT_ACCESS_READ || r->access > LZT_ACCESS_READ_WRITE) return false;
    return r->offset <= dev->reserved_bytes[r->space] && r->bytes <= dev->reserved_bytes[r->space] - r->offset;
}

static bool is_copy_sound(const lzt_work *work)
{
    if (work->range_count != 2 || work->range[0].bytes != work->range[1].bytes) return false;
    const lzt_range *from = &work->range[0], *to = &work->range[1];
    if (from->access != LZT_ACCESS_READ || to->access != LZT_ACCESS_WRITE) return false;
    return from->space != to->space || from->offset + from->bytes <= to->offset ||
           to->offset + to->bytes <= from->offset;
}

static lzt_status validate(const cpu_device *dev, const lzt_work *work, lzt_error *err)
{
    for (uint32_t i = 0; i < work->range_count; i++) {
        const lzt_range *r = &work->range[i];
        if (!inside(dev, r))
            return lzt_fail(err, LZT_ERR_INTERNAL, work->name,
                            "range %u (space %u, access %u, offset %llu, %llu bytes) is not inside a reserved arena", i,
                            r->space, r->access, (unsigned long long)r->offset, (unsigned long long)r->bytes);
    }
    if (!work->call && !is_copy_sound(work))
        return lzt_fail(err, LZT_ERR_INTERNAL, work->name,
                        "a copy needs two disjoint ranges of equal size, the first read, the second written");
    for (uint32_t i = 0; i < work->wait_count; i++) {
        const lzt_wait *w = &work->wait[i];
        if (w->stream >= dev->stream_count || w->sequence > dev->stream[w->stream]->submitted)
            return lzt_fail(err, LZT_ERR_INTERNAL, work->name, "waits for sequence %llu of stream %u, not submitted",
                            (unsigned long long)w->sequence, w->stream);
    }
    return LZT_OK;
}

static lzt_status cpu_submit(lzt_dev *base, uint32_t stream, lzt_work *work, uint64_t *sequence, lzt_error *err)
{
    cpu_device *dev = (cpu_device *)base;
    assert(stream < dev->stream_count);
    lzt_status status = lzt__cpu_device_fail(dev, NULL, err);
    if (status) return status;
    lzt_error cause;
    if (validate(dev, work, &cause)) return lzt__cpu_device_fail(dev, &cause, err);
    uint64_t n = lzt__cpu_stream_push(dev->stream[stream], work);
    if (sequence) *sequence = n;
    return LZT_OK;
}

static lzt_status cpu_wait(lzt_dev *base, uint32_t stream, uint64_t sequence, lzt_error *err)
{
    cpu_device *dev = (cpu_device *)base;
    assert(stream < dev->stream_count);
    if (sequence > dev->stream[stream]->submitted)
        return lzt_fail(err, LZT_ERR_INTERNAL, NULL, "a wait for sequence %llu of stream %u, which was not submitted",
                        (unsigned long long)sequence, stream);
    lzt__cpu_stream_wait(dev->stream[stream], sequence);
    return lzt__cpu_device_fail(dev, NULL, err);
}

static void cpu_set_hooks(lzt_dev *base, const lzt_dev_hooks *hooks)
{
    cpu_device *dev = (cpu_device *)base;
    assert(dev->stream_count == 0);
    dev->hooks = *hooks;
}

/* "AMD EPYC ..., 2 cores" from /proc/cpuinfo. */
static void describe(char *text, size_t size)
{
    char line[256], model[96] = "cpu";
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, "model name", 10)) continue;
        const char *colon = strchr(line, ':');
        if (colon) snprintf(model, sizeof model, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (f) fclose(f);
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    snprintf(text, size, "%s, %d core%s", model, cores, cores == 1 ? "" : "s");
}

static lzt_status check_options(const lzt_dev_cpu_options *o, lzt_error *err)
{
    if (o->struct_bytes != sizeof *o)
        return lzt_fail(err, LZT_ERR_USAGE, "lzt_dev_cpu_options", "struct_bytes is %llu, not %zu",
                        (unsigned long long)o->struct_bytes, sizeof *o);
    if (!(o->h2d_bytes_per_s >= 0) || !(o->d2h_bytes_per_s >= 0) || isinf(o->h2d_bytes_per_s + o->d2h_bytes_per_s))
        return lzt_fail(err, LZT_ERR_USAGE, "link_gbps", "a link rate is 0 (not throttled) or positive");
    if (!(o->compute_slowdown >= 1) || !(o->compute_slowdown <= 1e6))
        return lzt_fail(err, LZT_ERR_USAGE, "compute_slowdown", "the factor is %g; it must be in 1..1e6",
                        o->compute_slowdown);
    if (o->queue_slots > 1u << 24)
        return lzt_fail(err, LZT_ERR_USAGE, "queue_slots", "%u slots; at most 2^24", o->queue_slots);
    return LZT_OK;
}

static const lzt_dev_ops cpu_ops = {
    .destroy = cpu_destroy,
    .info = cpu_info,
    .reserve = cpu_reserve,
    .address = cpu_address,
    .stream_create = cpu_stream_create,
    .submit = cpu_submit,
    .wait = cpu_wait,
    .set_hooks = cpu_set_hooks,
};

lzt_status lzt_dev_cpu_create(const lzt_dev_cpu_options *options, lzt_dev **out, lzt_error *err)
{
    lzt_status status = check_options(options, err);
    if (status) return status;
    cpu_device *dev = calloc(1, sizeof *dev);
    if (!dev) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a device");
    dev->base.ops = &cpu_ops;
    describe(dev->description, sizeof dev->description);
    dev->cap_bytes[LZT_SPACE_DEVICE] = options->device_cap_bytes;
    dev->cap_bytes[LZT_SPACE_HOST] = options->host_cap_bytes;
    dev->compute_slowdown = options->compute_slowdown;
    dev->queue_slots = options->queue_slots ? options->queue_slots : 4096;
    lzt__cpu_link_init(&dev->h2d, options->h2d_bytes_per_s);
    lzt__cpu_link_init(&dev->d2h, options->d2h_bytes_per_s);
    pthread_mutex_init(&dev->error_lock, NULL);
    *out = &dev->base;
    return LZT_OK;
}
