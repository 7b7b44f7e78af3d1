/* The checked device: judges the order of works, disturbs their timing, fences the arena. See lazytrain/dev.h.
 *
 * Order is judged at submission, with vector clocks over the streams. clock[s] of a work is the last sequence of stream
 * s that has surely completed before the work starts: its own sequence - 1 on its own stream, joined over the work
 * before it there, over the works it waits for, and over what the host had waited for (host). Rows of works that the
 * host clock covers are dropped, so memory is bounded by what is in flight.
 *
 * Works are passed on unchanged; delays and the fence happen in the inner device's hooks. Lock order: a fence's
 * running, then lock here. Names are interned, since they may die with their works.
 */
#include "base/clock.h"
#include "dev/checked/dev_fence.h"
#include "dev/checked/dev_shadow.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct clock_row {
    uint64_t at[LZT_DEV_STREAMS_MAX];
} clock_row;

/* The clocks of a stream's works first .. first + count - 1, row n at n % capacity. */
typedef struct history {
    uint64_t first, count, capacity; /* capacity: 0 or a power of two */
    clock_row *row;
} history;

typedef struct found {
    lzt_finding finding;
    const char *first, *second; /* interned; with kind and, for undeclared ones, is_write the identity */
} found;

typedef struct checked_device {
    lzt_dev base;
    lzt_dev *inner;
    lzt_dev_checked_options options;
    char name[64];
    lzt_fence *fence;     /* NULL: not protected */
    pthread_mutex_t lock; /* everything below */
    pthread_t submitter;
    bool has_submitter;
    uint32_t stream_count;
    history history[LZT_DEV_STREAMS_MAX];
    clock_row host;
    lzt_shadow *shadow[LZT_SPACE_COUNT]; /* NULL: not reserved */
    uint64_t reserved_bytes[LZT_SPACE_COUNT];
    char **names; /* hash table of capacity name_capacity, at most half full */
    uint32_t name_count, name_capacity;
    found *finding;
    uint64_t finding_count, finding_capacity;
} checked_device;

/* The access that is being judged, for report_conflict. */
typedef struct suspect {
    checked_device *dev;
    const char *name;
    uint8_t space;
    bool is_write, is_lost; /* lost: no memory for the finding */
} suspect;

/* ---- names */

static uint64_t hash_text(const char *text)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (; *text; text++) h = (h ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return h ^ h >> 29;
}

static char **name_slot(char **names, uint32_t capacity, const char *text)
{
    uint32_t i = (uint32_t)hash_text(text) & (capacity - 1);
    while (names[i] && strcmp(names[i], text)) i = (i + 1) & (capacity - 1);
    return &names[i];
}

static bool grow_names(checked_device *dev)
{
    if (dev->name_count * 2 < dev->name_capacity) return true;
    uint32_t capacity = dev->name_capacity ? dev->name_capacity * 2 : 1024;
    char **names = calloc(capacity, sizeof *names);
    if (!names) return false;
    for (uint32_t i = 0; i < dev->name_capacity; i++)
        if (dev->names[i]) *name_slot(names, capacity, dev->names[i]) = dev->names[i];
    free(dev->names);
    dev->names = names;
    dev->name_capacity = capacity;
    return true;
}

/* A copy of text that lives as long as the device; equal texts give equal pointers. NULL: no memory. */
static const char *intern(checked_device *dev, const char *text)
{
    if (!grow_names(dev)) return NULL;
    char **slot = name_slot(dev->names, dev->name_capacity, text);
    if (!*slot) {
        *slot = strdup(text);
        if (*slot) dev->name_count++;
    }
    return *slot;
}

/* ---- findings */

static bool is_known(const checked_device *dev, const lzt_finding *finding, const char *first, const char *second)
{
    for (uint64_t i = 0; i < dev->finding_count; i++) {
        const found *f = &dev->finding[i];
        if (f->first != first || f->second != second || f->finding.kind != finding->kind) continue;
        if (finding->kind == LZT_FINDING_UNORDERED || f->finding.is_write == finding->is_write) return true;
    }
    return false;
}

/* Names are interned. False: no memory. */
static bool add_finding(checked_device *dev, lzt_finding finding, const char *first, const char *second)
{
    if (is_known(dev, &finding, first, second)) return true;
    if (dev->finding_count == dev->finding_capacity) {
        uint64_t capacity = dev->finding_capacity * 2 + 16;
        found *grown = realloc(dev->finding, capacity * sizeof *grown);
        if (!grown) return false;
        dev->finding = grown;
        dev->finding_capacity = capacity;
    }
    snprintf(finding.first, sizeof finding.first, "%s", first);
    snprintf(finding.second, sizeof finding.second, "%s", second ? second : "");
    dev->finding[dev->finding_count++] = (found){finding, first, second};
    return true;
}

static void report_conflict(void *ctx, const shadow_work *earlier, uint64_t offset, uint64_t bytes)
{
    suspect *s = ctx;
    lzt_finding finding = {
        .kind = LZT_FINDING_UNORDERED, .space = s->space, .is_write = s->is_write, .offset = offset, .bytes = bytes};
    if (!add_finding(s->dev, finding, earlier->name, s->name)) s->is_lost = true;
}

static void report_touch(void *ctx, const char *work, uint64_t offset, bool is_write)
{
    checked_device *dev = ctx;
    lzt_finding finding = {
        .kind = LZT_FINDING_UNDECLARED, .space = LZT_SPACE_DEVICE, .is_write = is_write, .offset = offset, .bytes = 1};
    pthread_mutex_lock(&dev->lock);
    const char *name = intern(dev, work ? work : "(host)");
    bool kept = name && add_finding(dev, finding, name, NULL);
    pthread_mutex_unlock(&dev->lock);
    assert(kept); /* a finding must not get lost, and there is nobody here to return an error to */
    (void)kept;
}

/* ---- clocks */

static clock_row *row_of(history *h, uint64_t sequence)
{
    assert(sequence >= h->first && sequence < h->first + h->count);
    return &h->row[sequence & (h->capacity - 1)];
}

static bool grow_history(history *h)
{
    if (h->count < h->capacity) return true;
    uint64_t capacity = h->capacity ? h->capacity * 2 : 64;
    clock_row *row = malloc(capacity * sizeof *row);
    if (!row) return false;
    for (uint64_t n = h->first; n < h->first + h->count; n++) row[n & (capacity - 1)] = *row_of(h, n);
    free(h->row);
    h->row = row;
    h->capacity = capacity;
    return true;
}

static void join_clock(const checked_device *dev, clock_row *into, const clock_row *from)
{
    for (uint32_t s = 0; s < dev->stream_count; s++)
        if (from->at[s] > into->at[s]) into->at[s] = from->at[s];
}

/* Joins what is known once sequence of stream has completed. */
static void join_work(checked_device *dev, clock_row *into, uint32_t stream, uint64_t sequence)
{
    if (sequence <= dev->host.at[stream]) return; /* into contains the host's clock */
    join_clock(dev, into, row_of(&dev->history[stream], sequence));
}

/* Forgets the rows that the host's clock covers. */
static void prune(checked_device *dev)
{
    for (uint32_t s = 0; s < dev->stream_count; s++) {
        history *h = &dev->history[s];
        while (h->count && h->first <= dev->host.at[s]) {
            h->first++;
            h->count--;
        }
    }
}

static uint64_t last_sequence(const history *h)
{
    return h->first + h->count - 1;
}

/* ---- submission */

/* Whether the inner device will take the work; what it refuses needs no judgement. */
static bool is_sound(const checked_device *dev, const lzt_work *work)
{
    for (uint32_t i = 0; i < work->range_count; i++) {
        const lzt_range *r = &work->range[i];
        if (r->space >= LZT_SPACE_COUNT || !dev->shadow[r->space]) return false;
        uint64_t bytes = dev->reserved_bytes[r->space];
        if (r->offset > bytes || r->bytes > bytes - r->offset) return false;
    }
    for (uint32_t i = 0; i < work->wait_count; i++) {
        const lzt_wait *w = &work->wait[i];
        if (w->stream >= dev->stream_count || w->sequence > last_sequence(&dev->history[w->stream])) return false;
    }
    return true;
}

static bool judge_ranges(checked_device *dev, const lzt_work *work, const shadow_work *self, const clock_row *clock)
{
    for (int pass = 0; pass < 2; pass++) { /* reads first: a work's own write must not hide the writer before it */
        for (uint32_t i = 0; i < work->range_count; i++) {
            const lzt_range *r = &work->range[i];
            bool is_write = r->access & LZT_ACCESS_WRITE;
            if (is_write != (pass == 1)) continue;
            suspect s = {.dev = dev, .name = self->name, .space = r->space, .is_write = is_write};
            bool noted = lzt__shadow_note(dev->shadow[r->space], r->offset, r->offset + r->bytes, is_write, self,
                                          clock->at, report_conflict, &s);
            if (!noted || s.is_lost) return false;
        }
    }
    return true;
}

/* False: no memory. */
static bool note_submit(checked_device *dev, uint32_t stream, const lzt_work *work)
{
    history *h = &dev->history[stream];
    if (!is_sound(dev, work)) return true;
    if (!grow_history(h)) return false;
    shadow_work self = {intern(dev, work->name), h->first + h->count, stream};
    if (!self.name) return false;
    clock_row clock = dev->host;
    if (h->count) join_clock(dev, &clock, row_of(h, last_sequence(h)));
    for (uint32_t i = 0; i < work->wait_count; i++)
        join_work(dev, &clock, work->wait[i].stream, work->wait[i].sequence);
    clock.at[stream] = self.sequence;
    h->count++;
    *row_of(h, self.sequence) = clock;
    return dev->options.ignore_order || judge_ranges(dev, work, &self, &clock);
}

static lzt_status checked_submit(lzt_dev *base, uint32_t stream, lzt_work *work, uint64_t *sequence, lzt_error *err)
{
    checked_device *dev = (checked_device *)base;
    assert(stream < dev->stream_count);
    pthread_mutex_lock(&dev->lock);
    dev->submitter = pthread_self();
    dev->has_submitter = true;
    bool noted = note_submit(dev, stream, work);
    pthread_mutex_unlock(&dev->lock);
    if (!noted) return lzt_fail(err, LZT_ERR_NO_MEMORY, work->name, "no memory to check the work");
    if (dev->fence) lzt__fence_host(dev->fence);
    return dev->inner->ops->submit(dev->inner, stream, work, sequence, err);
}

static lzt_status checked_wait(lzt_dev *base, uint32_t stream, uint64_t sequence, lzt_error *err)
{
    checked_device *dev = (checked_device *)base;
    lzt_status status = dev->inner->ops->wait(dev->inner, stream, sequence, err);
    if (status) return status;
    pthread_mutex_lock(&dev->lock);
    /* Another thread's wait orders nothing that the submitter does later. */
    if (dev->has_submitter && pthread_equal(dev->submitter, pthread_self())) {
        join_work(dev, &dev->host, stream, sequence);
        prune(dev);
    }
    pthread_mutex_unlock(&dev->lock);
    return status;
}

/* ---- hooks: on the inner device's threads */

/* splitmix64 */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static void begin_work(void *ctx, uint32_t stream, uint64_t sequence, const lzt_work *work)
{
    checked_device *dev = ctx;
    if (dev->options.delay_us_max) {
        uint64_t random = mix(mix(dev->options.seed ^ mix(stream)) + sequence);
        uint64_t us = random % ((uint64_t)dev->options.delay_us_max + 1);
        lzt__clock_sleep_until(lzt__clock_ns() + us * 1000);
    }
    if (dev->fence) lzt__fence_begin(dev->fence, work);
}

static void end_work(void *ctx, uint32_t stream, uint64_t sequence, const lzt_work *work)
{
    checked_device *dev = ctx;
    (void)stream, (void)sequence, (void)work;
    if (dev->fence) lzt__fence_end(dev->fence);
}

/* ---- the rest of the contract */

static void checked_destroy(lzt_dev *base)
{
    checked_device *dev = (checked_device *)base;
    lzt_dev_destroy(dev->inner); /* first: its works still use the hooks */
    lzt__fence_destroy(dev->fence);
    for (int s = 0; s < LZT_SPACE_COUNT; s++) lzt__shadow_destroy(dev->shadow[s]);
    for (uint32_t s = 0; s < LZT_DEV_STREAMS_MAX; s++) free(dev->history[s].row);
    for (uint32_t i = 0; i < dev->name_capacity; i++) free(dev->names[i]);
    free(dev->names);
    free(dev->finding);
    pthread_mutex_destroy(&dev->lock);
    free(dev);
}

static void checked_info(const lzt_dev *base, lzt_dev_info *info)
{
    const checked_device *dev = (const checked_device *)base;
    dev->inner->ops->info(dev->inner, info);
    info->name = dev->name;
    info->checked = true;
}

static lzt_status checked_reserve(lzt_dev *base, lzt_space space, uint64_t bytes, lzt_error *err)
{
    checked_device *dev = (checked_device *)base;
    lzt_status status = dev->inner->ops->reserve(dev->inner, space, bytes, err);
    if (status) return status;
    lzt_shadow *shadow = lzt__shadow_create(bytes);
    if (!shadow) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to check an arena");
    pthread_mutex_lock(&dev->lock);
    dev->shadow[space] = shadow;
    dev->reserved_bytes[space] = bytes;
    pthread_mutex_unlock(&dev->lock);
    if (!dev->fence || space != LZT_SPACE_DEVICE) return LZT_OK;
    return lzt__fence_arm(dev->fence, space, dev->inner->ops->address(dev->inner, space, 0), bytes, err);
}

static void *checked_address(const lzt_dev *base, lzt_space space, uint64_t offset)
{
    const checked_device *dev = (const checked_device *)base;
    return dev->inner->ops->address(dev->inner, space, offset);
}

static lzt_status checked_stream_create(lzt_dev *base, lzt_lane lane, uint32_t *stream, lzt_error *err)
{
    checked_device *dev = (checked_device *)base;
    lzt_status status = dev->inner->ops->stream_create(dev->inner, lane, stream, err);
    if (status) return status;
    pthread_mutex_lock(&dev->lock);
    assert(*stream == dev->stream_count);
    dev->history[*stream].first = 1;
    dev->stream_count++;
    pthread_mutex_unlock(&dev->lock);
    return LZT_OK;
}

static uint64_t checked_finding_count(const lzt_dev *base)
{
    checked_device *dev = (checked_device *)(uintptr_t)base;
    if (dev->fence) lzt__fence_flush(dev->fence);
    pthread_mutex_lock(&dev->lock);
    uint64_t count = dev->finding_count;
    pthread_mutex_unlock(&dev->lock);
    return count;
}

static bool checked_finding(const lzt_dev *base, uint64_t index, lzt_finding *finding)
{
    checked_device *dev = (checked_device *)(uintptr_t)base;
    pthread_mutex_lock(&dev->lock);
    bool exists = index < dev->finding_count;
    if (exists) *finding = dev->finding[index].finding;
    pthread_mutex_unlock(&dev->lock);
    return exists;
}

static const lzt_dev_ops checked_ops = {
    .destroy = checked_destroy,
    .info = checked_info,
    .reserve = checked_reserve,
    .address = checked_address,
    .stream_create = checked_stream_create,
    .submit = checked_submit,
    .wait = checked_wait,
    .finding_count = checked_finding_count,
    .finding = checked_finding,
};

static lzt_status fill(checked_device *dev, lzt_error *err)
{
    if (dev->options.struct_bytes != sizeof dev->options)
        return lzt_fail(err, LZT_ERR_USAGE, "lzt_dev_checked_options", "struct_bytes is %llu, not %zu",
                        (unsigned long long)dev->options.struct_bytes, sizeof dev->options);
    lzt_dev_info info;
    lzt_dev_get_info(dev->inner, &info);
    snprintf(dev->name, sizeof dev->name, "%.48s-checked", info.name);
    if (!dev->options.protect && !dev->options.delay_us_max) return LZT_OK;
    if (!dev->inner->ops->set_hooks)
        return lzt_fail(err, LZT_ERR_USAGE, info.name, "this device can be checked for order only, without delays");
    if (dev->options.protect) {
        lzt_status status = lzt__fence_create(report_touch, dev, &dev->fence, err);
        if (status) return status;
    }
    lzt_dev_hooks hooks = {.ctx = dev, .begin = begin_work, .end = end_work};
    dev->inner->ops->set_hooks(dev->inner, &hooks);
    return LZT_OK;
}

lzt_status lzt_dev_checked_create(const lzt_dev_checked_options *options, lzt_dev *inner, lzt_dev **out, lzt_error *err)
{
    checked_device *dev = calloc(1, sizeof *dev);
    if (!dev) {
        lzt_dev_destroy(inner);
        return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a checked device");
    }
    dev->base.ops = &checked_ops;
    dev->inner = inner;
    dev->options = *options;
    pthread_mutex_init(&dev->lock, NULL);
    lzt_status status = fill(dev, err);
    if (status) {
        checked_destroy(&dev->base);
        return status;
    }
    *out = &dev->base;
    return LZT_OK;
}
