/* The order of a probe, and the memory that its parts work on: see lazytrain/probe.h.
 *
 *     device arena   | the kernels' buffers | copies: h2d's targets | d2h's sources |
 *     host arena     | copies: sources and targets | a ring of optimizer state, larger than caches |
 */
#include "base/rng.h"
#include "probe/probe_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COPY_BYTES_MAX (UINT64_C(128) << 20)
#define RING_BYTES_MAX (UINT64_C(768) << 20)

void lzt__probe_say(const lzt_probe *p, const char *line)
{
    if (p->o->say) p->o->say(p->o->say_arg, line);
}

static uint64_t take(uint64_t *cursor, uint64_t bytes)
{
    uint64_t at = *cursor;
    *cursor += (bytes + LZT_DEV_ALIGNMENT - 1) / LZT_DEV_ALIGNMENT * LZT_DEV_ALIGNMENT;
    return at;
}

/* A quarter of what the machine has free at most: the ring is there to be larger than the caches, no more. */
static uint64_t ring_bytes(const lzt_probe_options *o)
{
    uint64_t bytes = 0, free_bytes = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    for (uint32_t i = 0; i < o->host_count; i++) {
        uint64_t ring = LZT_PROBE_RING * lzt__probe_host_bytes(&o->host[i]);
        if (ring > bytes) bytes = ring;
    }
    if (bytes > RING_BYTES_MAX) bytes = RING_BYTES_MAX;
    if (o->seconds < 1 && bytes > (uint64_t)(o->seconds * (double)RING_BYTES_MAX)) /* filling it takes time, too */
        bytes = (uint64_t)(o->seconds * (double)RING_BYTES_MAX);
    if (bytes > free_bytes / 4) bytes = free_bytes / 4;
    return bytes;
}

static lzt_status reserve(lzt_probe *p, lzt_error *err)
{
    const lzt_probe_options *o = p->o;
    uint64_t device = 0, host = 0;
    p->buffer_at = calloc((size_t)o->buffer_count + 1, sizeof *p->buffer_at);
    if (!p->buffer_at) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to measure");
    for (uint32_t i = 0; i < o->buffer_count; i++) p->buffer_at[i] = take(&device, o->buffer_bytes[i]);
    for (uint32_t i = 0; i < o->copy_count; i++)
        if (o->copy_bytes[i] > p->copy_bytes_max) p->copy_bytes_max = o->copy_bytes[i];
    if (p->copy_bytes_max > COPY_BYTES_MAX) p->copy_bytes_max = COPY_BYTES_MAX;
    p->device_copy_at = take(&device, 2 * p->copy_bytes_max);
    p->host_copy_at = take(&host, 2 * p->copy_bytes_max);
    p->host_ring_bytes = ring_bytes(o);
    p->host_ring_at = take(&host, p->host_ring_bytes);
    lzt_status status = lzt_dev_reserve(p->dev, LZT_SPACE_DEVICE, device, err);
    if (!status) status = lzt_dev_reserve(p->dev, LZT_SPACE_HOST, host, err);
    return status;
}

/* BF16 values between 1/16 and 1/8; two of them make an F32 of that size too, so that whatever a buffer holds, no
 * arithmetic meets a number that is not finite, or a denormal one. */
static void fill(void *data, uint64_t bytes, uint64_t stream, bool signs)
{
    uint16_t *v = data;
    uint64_t bits = 0;
    for (uint64_t i = 0; i < bytes / 2; i++) {
        if (i % 4 == 0) bits = lzt__rng_u64(7, stream, i);
        uint16_t b = (uint16_t)(bits >> (16 * (i % 4)));
        v[i] = (uint16_t)((signs ? b & 0x8000 : 0) | 123 << 7 | (b & 0x7f));
    }
}

static uint64_t vocabulary(const lzt_probe_options *o)
{
    for (uint32_t i = 0; i < o->kernel_count; i++)
        if (o->kernel[i].call.op == LZT_OP_LOSS_CHUNK) return o->kernel[i].call.dim[2];
    return 2;
}

/* Rows of equal length, every token but a row's last bears loss. */
static void fill_descriptor(lzt_probe *p)
{
    const lzt_probe_options *o = p->o;
    char *batch = lzt_dev_address(p->dev, LZT_SPACE_DEVICE, p->buffer_at[o->descriptor]);
    uint64_t n = o->tokens, rows = o->documents, length = n / rows;
    assert(rows >= 1 && length >= 1 && o->buffer_bytes[o->descriptor] >= lzt_batch_bytes(n));
    uint64_t capacity = lzt_batch_capacity(o->buffer_bytes[o->descriptor]);
    *(lzt_batch_header *)batch = (lzt_batch_header){.token_count = (uint32_t)(rows * length),
                                                    .document_count = (uint32_t)rows,
                                                    .loss_token_count = (uint32_t)(rows * (length - 1)),
                                                    .loss_scale = 1.0f / (float)n};
    for (uint64_t i = 0; i < rows * length; i++) {
        lzt_batch_position(batch)[i] = (int32_t)(i % length);
        bool last = i % length + 1 == length;
        lzt_batch_target(batch, capacity)[i] = last ? -1 : (int32_t)lzt__rng_below(7, 1, i, vocabulary(o));
        lzt_batch_weight(batch, capacity)[i] = last ? 0 : 1;
    }
    for (uint64_t r = 0; r <= rows; r++) lzt_batch_document(batch, capacity)[r] = (int32_t)(r * length);
}

static lzt_status set_up(lzt_probe *p, lzt_error *err)
{
    const lzt_probe_options *o = p->o;
    static const lzt_lane lanes[] = {LZT_LANE_COMPUTE, LZT_LANE_H2D, LZT_LANE_D2H, LZT_LANE_CPU_OPTIMIZER,
                                     LZT_LANE_DATA};
    lzt_optim_options optim = LZT_OPTIM_OPTIONS_INIT;
    optim.threads = o->threads;
    lzt_status status = lzt_optim_create(&optim, &p->optim, err);
    uint64_t rows = 0;
    for (uint32_t i = 0; i < o->host_count; i++)
        if (o->host[i].rows > rows) rows = o->host[i].rows;
    p->ids = calloc(rows + 1, sizeof *p->ids);
    if (!status && !p->ids) status = lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for ids");
    if (!status) status = reserve(p, err);
    for (size_t i = 0; i < sizeof lanes / sizeof *lanes && !status; i++)
        status = lzt_dev_stream_create(p->dev, lanes[i], &p->stream[lanes[i]], err);
    if (status) return status;
    lzt_dev_info info;
    lzt_dev_get_info(p->dev, &info);
    fill(lzt_dev_address(p->dev, LZT_SPACE_DEVICE, 0), info.reserved_bytes[LZT_SPACE_DEVICE], 0, true);
    fill(lzt_dev_address(p->dev, LZT_SPACE_HOST, 0), info.reserved_bytes[LZT_SPACE_HOST], 1, false);
    if (o->kernel_count) fill_descriptor(p);
    return LZT_OK;
}

static void tear_down(lzt_probe *p)
{
    lzt_dev_destroy(p->dev);
    lzt_optim_destroy(p->optim);
    free(p->buffer_at);
    free(p->ids);
    free(p->call);
    free(p->kernel_work);
    free(p->kernels.alone);
}

/* What it was measured on, in words. */
static void describe(lzt_probe *p)
{
    lzt_dev_info info;
    lzt_dev_get_info(p->dev, &info);
    lzt_profile *to = p->profile;
    snprintf(to->machine, sizeof to->machine, "%s", info.description);
    if (!to->device[0])
        snprintf(to->device, sizeof to->device, "%s %s", info.name, p->o->kern->ops->description(p->o->kern));
    to->device_bytes = info.cap_bytes[LZT_SPACE_DEVICE];
    to->host_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

lzt_status lzt_probe_run(const lzt_probe_options *o, lzt_profile *profile, lzt_error *err)
{
    assert(o->struct_bytes == sizeof *o && o->dev && o->kern && o->tokens);
    lzt_probe p = {.o = o, .profile = profile, .dev = o->dev};
    lzt_status status = set_up(&p, err);
    if (!status) describe(&p);
    if (!status) status = lzt__probe_copies(&p, err);
    if (!status) status = lzt__probe_kernels(&p, err);
    if (!status) status = lzt__probe_host(&p, err);
    if (!status) status = lzt__probe_overlap(&p, err);
    tear_down(&p);
    return status;
}
