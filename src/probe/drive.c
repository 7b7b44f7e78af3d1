/* A drive's rates: reads and writes by block size and depth, direct and from the page cache, and both at once.
 *
 * The file is unlinked as soon as it is open, so its space is free again however the process ends. Direct transfers
 * (O_DIRECT) go to the drive and are "cold"; "warm" are reads that the page cache answers. Where a filesystem has no
 * direct transfers, or lies in memory, the profile says so.
 */
#include "base/clock.h"
#include "base/rng.h"
#include "lazytrain/probe.h"
#include "probe/drive_io.h"
#include "probe/load.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define BLOCK_MAX   (UINT64_C(8) << 20)
#define TMPFS_MAGIC 0x01021994

enum { SAMPLES = 3, BUFFER_ALIGNMENT = 4096 };

static const uint64_t blocks[] = {UINT64_C(64) << 10, UINT64_C(1) << 20, BLOCK_MAX};
static const uint32_t depths[] = {1, 4, 16};
enum {
    BLOCKS = sizeof blocks / sizeof *blocks,
    DEPTHS = sizeof depths / sizeof *depths,
    RUNS = 2 * BLOCKS * DEPTHS + 2
};

typedef struct drive {
    const lzt_probe_drive_options *o;
    lzt_profile *profile;
    const lzt_os *os;
    char path[4096];
    int fd;          /* direct, where the filesystem allows it */
    int buffered_fd; /* of the same file */
    uint64_t file_bytes;
    char *buffer[2]; /* each the deepest run's blocks */
    lzt_drive_engine engine;
} drive;

static const char *direction(bool is_write)
{
    return is_write ? "nvme_write" : "nvme_read";
}

/* ---- the file ---- */

static lzt_status open_file(drive *d, bool *direct, lzt_error *err)
{
    struct statfs fs = {0};
    snprintf(d->path, sizeof d->path, "%s/.lazytrain-probe-%ld", d->o->directory, (long)getpid());
    d->buffered_fd = d->fd = -1;
    lzt_status status = lzt__os_open(d->os, AT_FDCWD, d->path, O_RDWR | O_CREAT | O_EXCL, 0600, &d->buffered_fd, err);
    if (status) return status;
    d->fd = d->os->openat(d->os, AT_FDCWD, d->path, O_RDWR | O_DIRECT, 0);
    *direct = d->fd >= 0;
    if (!*direct) d->fd = d->os->openat(d->os, AT_FDCWD, d->path, O_RDWR, 0);
    int unlinked = d->os->unlinkat(d->os, AT_FDCWD, d->path, 0);
    if (d->fd < 0) return lzt_fail_os(err, LZT_ERR_STORAGE, -d->fd, d->path, "cannot be opened again");
    if (unlinked < 0) return lzt_fail_os(err, LZT_ERR_STORAGE, -unlinked, d->path, "cannot be unlinked");
    bool tmpfs = !fstatfs(d->fd, &fs) && fs.f_type == TMPFS_MAGIC;
    snprintf(d->profile->drive, sizeof d->profile->drive, "%s, %s%s", lzt__drive_engine_name(d->engine),
             *direct ? "direct" : "buffered: no O_DIRECT", tmpfs ? ", tmpfs: this is memory, not a drive" : "");
    return LZT_OK;
}

/* Twice the page cache of a block's worth at least; at most half of what is free. */
static lzt_status make_room(drive *d, lzt_error *err)
{
    struct statvfs fs;
    int rc = d->os->fstatvfs(d->os, d->fd, &fs);
    if (rc < 0) return lzt_fail_os(err, LZT_ERR_STORAGE, -rc, d->o->directory, "free space is not known");
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    d->profile->nvme_bytes = free_bytes;
    d->file_bytes = d->o->file_bytes / (2 * BLOCK_MAX) * (2 * BLOCK_MAX);
    if (d->file_bytes < 2 * BLOCK_MAX) d->file_bytes = 2 * BLOCK_MAX;
    if (d->file_bytes > free_bytes / 2) {
        lzt_fail(err, LZT_ERR_STORAGE, d->o->directory, "has %llu bytes free, the measurement needs %llu",
                 (unsigned long long)free_bytes, (unsigned long long)(2 * d->file_bytes));
        return lzt_hint(err, "name another directory, or lower --drive-bytes");
    }
    for (uint64_t at = 0; at < d->file_bytes; at += BLOCK_MAX) { /* real blocks: holes read too fast */
        lzt_status status = lzt__os_write_all(d->os, d->buffered_fd, d->path, d->buffer[0], BLOCK_MAX, at, err);
        if (status) return status;
    }
    rc = d->os->fdatasync(d->os, d->buffered_fd);
    if (rc < 0) return lzt_fail_os(err, LZT_ERR_STORAGE, -rc, d->path, "fdatasync");
    (void)posix_fadvise(d->buffered_fd, 0, 0, POSIX_FADV_DONTNEED); /* the cold reads come from the drive */
    return LZT_OK;
}

static lzt_status make_buffers(drive *d, lzt_error *err)
{
    size_t bytes = depths[DEPTHS - 1] * BLOCK_MAX;
    for (int i = 0; i < 2; i++) {
        d->buffer[i] = aligned_alloc(BUFFER_ALIGNMENT, bytes);
        if (!d->buffer[i]) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the drive's buffers");
        for (size_t k = 0; k < bytes / 8; k++) ((uint64_t *)d->buffer[i])[k] = lzt__rng_u64(7, 9, k);
    }
    return LZT_OK;
}

/* ---- runs ---- */

static lzt_drive_job job_of(const drive *d, bool is_write, uint64_t block, uint32_t depth, int half)
{
    uint64_t bytes = half < 0 ? d->file_bytes : d->file_bytes / 2;
    return (lzt_drive_job){.os = d->os,
                           .engine = d->engine,
                           .fd = d->fd,
                           .is_write = is_write,
                           .offset = half > 0 ? bytes : 0,
                           .bytes = bytes,
                           .block_bytes = block,
                           .depth = depth,
                           .buffer = d->buffer[half > 0]};
}

static double rate(const lzt_drive_job *job)
{
    return (double)job->done_bytes / lzt__clock_seconds(job->end_ns - job->begin_ns + 1);
}

static uint64_t deadline(const drive *d)
{
    return lzt__clock_ns() + (uint64_t)(d->o->seconds / RUNS / SAMPLES * 1e9);
}

static lzt_status measure(const drive *d, lzt_drive_job *job, const char *name, lzt_error *err)
{
    lzt_samples samples;
    lzt_measurement m = {.kind = LZT_MEASURE_RATE, .size = job->block_bytes};
    snprintf(m.name, sizeof m.name, "%s", name);
    lzt_status status = lzt__samples_init(&samples, SAMPLES, err);
    for (int i = 0; i < SAMPLES && !status; i++) {
        job->deadline_ns = deadline(d);
        status = lzt__drive_run(job, d->path, err);
        lzt__samples_put(&samples, rate(job));
    }
    if (!status) status = lzt__samples_add(&samples, &m, d->profile, err);
    lzt__samples_fini(&samples);
    return status;
}

static lzt_status measure_depths(const drive *d, bool is_write, lzt_error *err)
{
    char name[64];
    lzt_status status = LZT_OK;
    for (int b = 0; b < BLOCKS; b++)
        for (int k = 0; k < DEPTHS && !status; k++) {
            lzt_drive_job job = job_of(d, is_write, blocks[b], depths[k], -1);
            snprintf(name, sizeof name, "%s.depth%u", direction(is_write), depths[k]);
            status = measure(d, &job, name, err);
        }
    return status;
}

/* The plain name holds, for each block size, the depth that was fastest. */
static lzt_status add_best(const drive *d, bool is_write, lzt_error *err)
{
    char name[64];
    lzt_status status = LZT_OK;
    for (int b = 0; b < BLOCKS && !status; b++) {
        lzt_measurement best = {.median = -1};
        for (int k = 0; k < DEPTHS; k++) {
            snprintf(name, sizeof name, "%s.depth%u", direction(is_write), depths[k]);
            const lzt_measurement *m = lzt_profile_find(d->profile, LZT_MEASURE_RATE, name, blocks[b]);
            if (m && m->size == blocks[b] && m->median > best.median) best = *m;
        }
        snprintf(best.name, sizeof best.name, "%s", direction(is_write));
        status = lzt_profile_add(d->profile, &best, err);
    }
    return status;
}

static lzt_status measure_warm(const drive *d, lzt_error *err)
{
    lzt_drive_job job = job_of(d, false, blocks[1], depths[0], -1);
    job.fd = d->buffered_fd;
    job.engine = LZT_DRIVE_THREADS;                              /* a copy out of the cache: nothing is waited for */
    for (uint64_t at = 0; at < d->file_bytes; at += BLOCK_MAX) { /* into the page cache */
        lzt_status status = lzt__os_read_all(d->os, d->buffered_fd, d->path, d->buffer[0], BLOCK_MAX, at, err);
        if (status) return status;
    }
    return measure(d, &job, "nvme_read.warm", err);
}

static lzt_status measure_both(const drive *d, lzt_error *err)
{
    lzt_samples samples[2] = {{0}};
    lzt_status status = lzt__samples_init(&samples[0], SAMPLES, err);
    if (!status) status = lzt__samples_init(&samples[1], SAMPLES, err);
    for (int i = 0; i < SAMPLES && !status; i++) {
        lzt_drive_job in = job_of(d, false, blocks[1], 4, 0), out = job_of(d, true, blocks[1], 4, 1);
        in.deadline_ns = out.deadline_ns = deadline(d);
        status = lzt__drive_run_both(&in, &out, d->path, err);
        lzt__samples_put(&samples[0], rate(&in));
        lzt__samples_put(&samples[1], rate(&out));
    }
    for (int i = 0; i < 2; i++) {
        lzt_measurement m = {.kind = LZT_MEASURE_RATE, .size = blocks[1]};
        snprintf(m.name, sizeof m.name, "%s_both", direction(i));
        if (!status) status = lzt__samples_add(&samples[i], &m, d->profile, err);
        lzt__samples_fini(&samples[i]);
    }
    return status;
}

lzt_status lzt_probe_drive(const lzt_probe_drive_options *o, lzt_profile *profile, lzt_error *err)
{
    assert(o->struct_bytes == sizeof *o && o->directory && o->seconds > 0);
    drive d = {.o = o, .profile = profile, .os = lzt__os_posix(), .fd = -1, .buffered_fd = -1};
    bool direct = false;
    d.engine = lzt__drive_engine();
    lzt_status status = make_buffers(&d, err);
    if (!status) status = open_file(&d, &direct, err);
    if (!status) status = make_room(&d, err);
    for (int w = 0; w < 2 && !status; w++) {
        status = measure_depths(&d, w, err);
        if (!status) status = add_best(&d, w, err);
    }
    if (!status) status = measure_both(&d, err);
    if (!status) status = measure_warm(&d, err);
    if (d.fd >= 0) d.os->close(d.os, d.fd);
    if (d.buffered_fd >= 0) d.os->close(d.os, d.buffered_fd);
    free(d.buffer[0]);
    free(d.buffer[1]);
    return status;
}
