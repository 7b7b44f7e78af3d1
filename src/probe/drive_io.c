/* Drive jobs: see drive_io.h. */
#include "probe/drive_io.h"

#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#ifdef LZT_HAVE_URING
#include <liburing.h>
#endif

/* The n-th block of a job lies here. */
static uint64_t place(const lzt_drive_job *job, uint64_t n)
{
    return job->offset + n % (job->bytes / job->block_bytes) * job->block_bytes;
}

static lzt_status failed(const lzt_drive_job *job, const char *path, int64_t result, lzt_error *err)
{
    const char *what = job->is_write ? "writing" : "reading";
    if (result >= 0)
        return lzt_fail(err, LZT_ERR_STORAGE, path, "%s a block of %llu bytes ended after %lld", what,
                        (unsigned long long)job->block_bytes, (long long)result);
    return lzt_fail_os(err, LZT_ERR_STORAGE, (int)-result, path, "%s a block of %llu bytes", what,
                       (unsigned long long)job->block_bytes);
}

/* ---- threads ---- */

typedef struct crew {
    lzt_drive_job *job;
    atomic_ullong next; /* block to take */
    atomic_llong result;
} crew;

typedef struct member {
    crew *of;
    char *buffer;
    pthread_t thread;
} member;

static void *work(void *arg)
{
    const member *m = arg;
    crew *c = m->of;
    const lzt_drive_job *job = c->job;
    while (!atomic_load(&c->result)) {
        uint64_t n = atomic_fetch_add(&c->next, 1);
        if (n >= job->depth && lzt__clock_ns() > job->deadline_ns) {
            atomic_fetch_sub(&c->next, 1);
            break;
        }
        int64_t got = job->is_write ? job->os->pwrite(job->os, job->fd, m->buffer, job->block_bytes, place(job, n))
                                    : job->os->pread(job->os, job->fd, m->buffer, job->block_bytes, place(job, n));
        if (got != (int64_t)job->block_bytes) atomic_store(&c->result, got < 0 ? got : INT64_MAX);
    }
    return NULL;
}

static lzt_status run_threads(lzt_drive_job *job, const char *path, lzt_error *err)
{
    crew c = {.job = job};
    member m[LZT_DRIVE_DEPTH_MAX];
    uint32_t made = 0;
    int rc = 0;
    for (; made < job->depth && !rc; made += !rc) {
        m[made] = (member){.of = &c, .buffer = job->buffer + made * job->block_bytes};
        rc = pthread_create(&m[made].thread, NULL, work, &m[made]);
    }
    for (uint32_t i = 0; i < made; i++) pthread_join(m[i].thread, NULL);
    job->done_bytes = atomic_load(&c.next) * job->block_bytes;
    int64_t result = atomic_load(&c.result);
    if (rc) return lzt_fail_os(err, LZT_ERR_NO_MEMORY, rc, path, "cannot start a thread");
    return result ? failed(job, path, result == INT64_MAX ? 0 : result, err) : LZT_OK;
}

/* ---- io_uring ---- */

#ifdef LZT_HAVE_URING
/*
 * Rings are mapped and unmapped under this lock. A ring may lie where another thread's lay a moment ago; the kernel
 * orders the two, but liburing calls it without libc, where no tool that checks for races can see it.
 */
static pthread_mutex_t mapping = PTHREAD_MUTEX_INITIALIZER;

static int ring_init(struct io_uring *ring, uint32_t depth)
{
    pthread_mutex_lock(&mapping);
    int rc = io_uring_queue_init(depth, ring, 0);
    pthread_mutex_unlock(&mapping);
    return rc;
}

static void ring_exit(struct io_uring *ring)
{
    pthread_mutex_lock(&mapping);
    io_uring_queue_exit(ring);
    pthread_mutex_unlock(&mapping);
}

static bool submit(struct io_uring *ring, const lzt_drive_job *job, uint64_t n, uint64_t slot)
{
    struct io_uring_sqe *e = io_uring_get_sqe(ring);
    char *buffer = job->buffer + slot * job->block_bytes;
    if (!e) return false;
    if (job->is_write)
        io_uring_prep_write(e, job->fd, buffer, (unsigned)job->block_bytes, place(job, n));
    else
        io_uring_prep_read(e, job->fd, buffer, (unsigned)job->block_bytes, place(job, n));
    io_uring_sqe_set_data(e, (void *)(uintptr_t)slot);
    return true;
}

static lzt_status run_uring(lzt_drive_job *job, const char *path, lzt_error *err)
{
    struct io_uring ring;
    struct io_uring_cqe *cqe;
    uint64_t next = 0, in_flight = 0;
    int64_t result = 0;
    int rc = ring_init(&ring, job->depth);
    if (rc) return lzt_fail_os(err, LZT_ERR_STORAGE, -rc, path, "io_uring is refused");
    for (; next < job->depth && submit(&ring, job, next, next); next++) in_flight++;
    while (in_flight && rc >= 0) {
        rc = io_uring_submit_and_wait(&ring, 1);
        if (rc == -EINTR) rc = 0; /* stopped and continued, by a shell or a debugger: the next call submits the rest */
        while (rc >= 0 && in_flight && !io_uring_peek_cqe(&ring, &cqe)) {
            uint64_t slot = (uint64_t)(uintptr_t)io_uring_cqe_get_data(cqe);
            in_flight--;
            if (cqe->res == (int)job->block_bytes)
                job->done_bytes += job->block_bytes;
            else if (!result)
                result = cqe->res < 0 ? cqe->res : INT64_MAX;
            io_uring_cqe_seen(&ring, cqe);
            if (!result && lzt__clock_ns() < job->deadline_ns && submit(&ring, job, next, slot)) {
                next++;
                in_flight++;
            }
        }
    }
    ring_exit(&ring);
    if (rc < 0) return lzt_fail_os(err, LZT_ERR_STORAGE, -rc, path, "io_uring");
    return result ? failed(job, path, result == INT64_MAX ? 0 : result, err) : LZT_OK;
}
#endif

lzt_drive_engine lzt__drive_engine(void)
{
#ifdef LZT_HAVE_URING
    struct io_uring ring;
    if (!ring_init(&ring, 4)) {
        ring_exit(&ring);
        return LZT_DRIVE_URING;
    }
#endif
    return LZT_DRIVE_THREADS;
}

const char *lzt__drive_engine_name(lzt_drive_engine engine)
{
    return engine == LZT_DRIVE_URING ? "uring" : "threads";
}

/* ---- both ---- */

lzt_status lzt__drive_run(lzt_drive_job *job, const char *path, lzt_error *err)
{
    assert(job->depth >= 1 && job->depth <= LZT_DRIVE_DEPTH_MAX && job->bytes >= job->block_bytes);
    lzt_status status;
    job->done_bytes = 0;
    job->begin_ns = lzt__clock_ns();
#ifdef LZT_HAVE_URING
    if (job->engine == LZT_DRIVE_URING)
        status = run_uring(job, path, err);
    else
#endif
        status = run_threads(job, path, err);
    job->end_ns = lzt__clock_ns();
    return status;
}

typedef struct other {
    lzt_drive_job *job;
    const char *path;
    lzt_status status;
    lzt_error err;
} other;

static void *run_other(void *arg)
{
    other *o = arg;
    o->status = lzt__drive_run(o->job, o->path, &o->err);
    return NULL;
}

lzt_status lzt__drive_run_both(lzt_drive_job *a, lzt_drive_job *b, const char *path, lzt_error *err)
{
    other o = {.job = b, .path = path};
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, run_other, &o);
    if (rc) return lzt_fail_os(err, LZT_ERR_NO_MEMORY, rc, path, "cannot start a thread");
    lzt_status status = lzt__drive_run(a, path, err);
    pthread_join(thread, NULL);
    if (!status && o.status) *err = o.err;
    return status ? status : o.status;
}
