/* Streams of the CPU device: a bounded ring of works and the thread that runs them.
 *
 *     push (submitter) --> ring --> waits satisfied --> run --> completed + 1, wake waiters
 *
 * Nobody spins: on a small machine a spinning waiter starves the kernels and the copies it waits for. Waiters register
 * the smallest sequence they need (wanted), so that a completion nobody sleeps for wakes nobody.
 */
#include "dev/cpu/dev_cpu.h"

#include "base/team.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

uint64_t lzt__cpu_stream_push(cpu_stream *stream, lzt_work *work)
{
    pthread_mutex_lock(&stream->lock);
    assert(!stream->stop);
    uint64_t sequence = stream->submitted + 1;
    while (sequence - stream->completed > stream->slots) {
        stream->submitter_sleeps = true;
        pthread_cond_wait(&stream->slot_freed, &stream->lock);
    }
    stream->submitter_sleeps = false;
    stream->ring[sequence % stream->slots] = work;
    stream->submitted = sequence;
    if (sequence == stream->completed + 1) pthread_cond_signal(&stream->work_added);
    pthread_mutex_unlock(&stream->lock);
    return sequence;
}

bool lzt__cpu_stream_wait(cpu_stream *stream, uint64_t sequence)
{
    if (stream->completed >= sequence) return false;
    bool slept = false;
    pthread_mutex_lock(&stream->lock);
    while (stream->completed < sequence) {
        slept = true;
        if (sequence < stream->wanted) stream->wanted = sequence;
        pthread_cond_wait(&stream->progressed, &stream->lock);
    }
    pthread_mutex_unlock(&stream->lock);
    return slept;
}

static void complete(cpu_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    uint64_t sequence = stream->completed + 1;
    stream->completed = sequence;
    if (stream->wanted <= sequence) {
        stream->wanted = UINT64_MAX; /* those who need more register again */
        pthread_cond_broadcast(&stream->progressed);
    }
    if (stream->submitter_sleeps) pthread_cond_signal(&stream->slot_freed);
    pthread_mutex_unlock(&stream->lock);
}

/* The next work, or NULL when the stream is stopped and empty. */
static lzt_work *next(cpu_stream *stream, bool *slept)
{
    lzt_work *work = NULL;
    pthread_mutex_lock(&stream->lock);
    while (stream->submitted == stream->completed && !stream->stop) {
        *slept = true;
        pthread_cond_wait(&stream->work_added, &stream->lock);
    }
    if (stream->submitted != stream->completed) work = stream->ring[(stream->completed + 1) % stream->slots];
    pthread_mutex_unlock(&stream->lock);
    return work;
}

static bool wait_all(cpu_device *dev, const lzt_work *work)
{
    bool slept = false;
    for (uint32_t i = 0; i < work->wait_count; i++)
        slept |= lzt__cpu_stream_wait(dev->stream[work->wait[i].stream], work->wait[i].sequence);
    return slept;
}

static void raise_peaks(cpu_device *dev, const lzt_work *work)
{
    for (uint32_t i = 0; i < work->range_count; i++) {
        const lzt_range *r = &work->range[i];
        uint64_t end = r->offset + r->bytes, peak = dev->peak_bytes[r->space];
        while (r->bytes && peak < end && !atomic_compare_exchange_weak(&dev->peak_bytes[r->space], &peak, end)) {
        }
    }
}

static void copy(cpu_stream *stream, const lzt_work *work)
{
    cpu_device *dev = stream->dev;
    const lzt_range *from = &work->range[0], *to = &work->range[1];
    char *target = dev->arena[to->space] + to->offset;
    const char *source = dev->arena[from->space] + from->offset;
    if (stream->link)
        lzt__cpu_link_copy(stream->link, target, source, from->bytes, stream->back_to_back);
    else
        memcpy(target, source, from->bytes);
    stream->back_to_back = true;
    dev->copied_bytes[stream->lane] += from->bytes;
}

static lzt_status call(cpu_stream *stream, const lzt_work *work, lzt_error *err)
{
    stream->back_to_back = false;
    lzt_status status = work->call(work->arg, NULL, err);
    if (status && !err->status) {
        lzt_fail(err, status, work->name, "the work failed without saying why");
        err->status = status;
    }
    return status;
}

/* Sleeps (slowdown - 1) x the time since start_ns. A late wake-up shortens the next sleeps. */
static void stretch(cpu_stream *stream, uint64_t start_ns)
{
    const int64_t late_max_ns = 20000000;
    uint64_t end_ns = lzt__clock_ns();
    stream->stretch_ns += (int64_t)((stream->dev->compute_slowdown - 1) * (double)(end_ns - start_ns));
    if (stream->stretch_ns <= 0) return;
    lzt__clock_sleep_until(end_ns + (uint64_t)stream->stretch_ns);
    stream->stretch_ns -= (int64_t)(lzt__clock_ns() - end_ns);
    if (stream->stretch_ns < -late_max_ns) stream->stretch_ns = -late_max_ns;
}

static void run(cpu_stream *stream, lzt_work *work)
{
    cpu_device *dev = stream->dev;
    lzt_error err = {0};
    uint64_t sequence = stream->completed + 1;
    if (dev->hooks.begin) {
        dev->hooks.begin(dev->hooks.ctx, stream->index, sequence, work);
        stream->back_to_back = false; /* the hook's delay is not the link's lateness */
    }
    raise_peaks(dev, work);
    work->start_ns = lzt__clock_ns();
    lzt_status status = LZT_OK;
    if (work->call)
        status = call(stream, work, &err);
    else
        copy(stream, work);
    if (stream->lane == LZT_LANE_COMPUTE && dev->compute_slowdown > 1) stretch(stream, work->start_ns);
    work->end_ns = lzt__clock_ns();
    if (dev->hooks.end) dev->hooks.end(dev->hooks.ctx, stream->index, sequence, work);
    if (status) lzt__cpu_device_fail(dev, &err, NULL);
}

static void *stream_main(void *arg)
{
    cpu_stream *stream = arg;
    char name[16];
    snprintf(name, sizeof name, "lzt-%.11s", lzt_lane_name(stream->lane));
    pthread_setname_np(pthread_self(), name);
    prctl(PR_SET_TIMERSLACK, 1UL); /* ns: throttled lanes sleep for microseconds */
    lzt__team_short_slices();      /* and OpenMP's threads, which this one creates */
    for (;;) {
        bool slept = false;
        lzt_work *work = next(stream, &slept);
        if (!work) return NULL;
        slept |= wait_all(stream->dev, work);
        if (slept) stream->back_to_back = false;
        work->ready_ns = work->start_ns = work->end_ns = lzt__clock_ns();
        if (!stream->dev->failed) run(stream, work);
        complete(stream);
    }
}

lzt_status lzt__cpu_stream_create(cpu_device *dev, lzt_lane lane, uint32_t index, cpu_stream **out, lzt_error *err)
{
    cpu_stream *stream = calloc(1, sizeof *stream);
    lzt_work **ring = calloc(dev->queue_slots, sizeof(lzt_work *));
    if (!stream || !ring) {
        free(ring);
        free(stream);
        return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a stream of %u slots", dev->queue_slots);
    }
    stream->dev = dev;
    stream->index = index;
    stream->lane = lane;
    stream->link = lane == LZT_LANE_H2D ? &dev->h2d : lane == LZT_LANE_D2H ? &dev->d2h : NULL;
    stream->ring = ring;
    stream->slots = dev->queue_slots;
    stream->wanted = UINT64_MAX;
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->work_added, NULL);
    pthread_cond_init(&stream->slot_freed, NULL);
    pthread_cond_init(&stream->progressed, NULL);
    int rc = pthread_create(&stream->thread, NULL, stream_main, stream);
    if (rc) {
        free(ring);
        free(stream);
        return lzt_fail_os(err, LZT_ERR_NO_MEMORY, rc, NULL, "cannot start the thread of a %s stream",
                           lzt_lane_name(lane));
    }
    *out = stream;
    return LZT_OK;
}

void lzt__cpu_stream_stop(cpu_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->stop = true;
    pthread_cond_signal(&stream->work_added);
    pthread_mutex_unlock(&stream->lock);
}

void lzt__cpu_stream_destroy(cpu_stream *stream)
{
    if (!stream) return;
    pthread_join(stream->thread, NULL);
    pthread_cond_destroy(&stream->progressed);
    pthread_cond_destroy(&stream->slot_freed);
    pthread_cond_destroy(&stream->work_added);
    pthread_mutex_destroy(&stream->lock);
    free(stream->ring);
    free(stream);
}
