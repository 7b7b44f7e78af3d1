/* Work of the host lanes: AdamW, norms, adds, embedding rows, each over memory larger than the caches, as a step has
 * it.
 */
#include "base/clock.h"
#include "base/rng.h"
#include "probe/probe_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 5 };

static uint64_t align(uint64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Bytes of each array that a piece works on; 0: none. */
static void part_bytes(const lzt_probe_host *s, uint64_t bytes[PARTS])
{
    uint64_t n = s->elements, e = lzt_dtype_bytes(s->dtype), g = lzt_dtype_bytes(s->grad_dtype);
    memset(bytes, 0, PARTS * sizeof *bytes);
    switch (s->work) {
    case LZT_PROBE_ADAMW:
        bytes[0] = n * g; /* gradient, weight, its low half, two moments */
        bytes[1] = n * e;
        bytes[2] = s->dtype == LZT_DTYPE_BF16 ? n * 2 : 0;
        bytes[3] = bytes[4] = n * 4;
        break;
    case LZT_PROBE_NORM: bytes[0] = n * g; break;
    case LZT_PROBE_ADD: bytes[0] = bytes[1] = n * g; break;
    case LZT_PROBE_ZERO: bytes[0] = n; break;
    case LZT_PROBE_GATHER:
        bytes[0] = s->table_rows * s->columns * e;
        bytes[1] = s->rows * s->columns * e;
        break;
    case LZT_PROBE_SCATTER:
        bytes[0] = s->table_rows * s->columns * g;
        bytes[1] = s->rows * s->columns * e;
        bytes[2] = lzt_optim_scatter_scratch_bytes(s->rows, s->columns);
        break;
    }
}

uint64_t lzt__probe_host_bytes(const lzt_probe_host *spec)
{
    uint64_t bytes[PARTS], sum = 0;
    part_bytes(spec, bytes);
    for (int i = 0; i < PARTS; i++) sum += align(bytes[i]);
    return sum;
}

static void adamw(lzt_probe_piece *c)
{
    const lzt_probe_host *s = c->spec;
    bool split = s->dtype == LZT_DTYPE_BF16;
    lzt_optim_step step;
    lzt_optim_step_init(&step, 1e-6, 0.9, 0.999, 1e-8, 10);
    lzt_optim_run run = {.master = split ? LZT_MASTER_SPLIT : LZT_MASTER_F32,
                         .grad_dtype = s->grad_dtype,
                         .count = s->elements,
                         .weight = c->part[1],
                         .low = split ? (int16_t *)c->part[2] : NULL,
                         .grad = c->part[0],
                         .m = (float *)c->part[3],
                         .v = (float *)c->part[4],
                         .weight_decay = 0.01};
    lzt_optim_adamw(c->optim, &run, &step);
}

static lzt_status run_piece(void *arg, void *native_stream, lzt_error *err)
{
    lzt_probe_piece *c = arg;
    const lzt_probe_host *s = c->spec;
    (void)native_stream;
    (void)err;
    switch (s->work) {
    case LZT_PROBE_ADAMW: adamw(c); break;
    case LZT_PROBE_NORM: c->sum = lzt_optim_sqnorm(c->optim, s->grad_dtype, c->part[0], s->elements); break;
    case LZT_PROBE_ADD:
        lzt_optim_add(c->optim, s->grad_dtype, c->part[1], s->grad_dtype, c->part[0], s->elements);
        break;
    case LZT_PROBE_ZERO: memset(c->part[0], 0, s->elements); break;
    case LZT_PROBE_GATHER:
        lzt_optim_gather_rows(c->ids, s->rows, c->part[0], s->columns * lzt_dtype_bytes(s->dtype), c->part[1]);
        break;
    case LZT_PROBE_SCATTER:
        lzt_optim_scatter_rows(c->ids, s->rows, -1, s->dtype, c->part[1], s->grad_dtype, c->part[0], s->columns,
                               c->part[2]);
        break;
    }
    return LZT_OK;
}

/* A piece cut down to what the ring can hold: time is in proportion, and the rate is what counts. */
static lzt_probe_host fit(const lzt_probe *p, const lzt_probe_host *spec)
{
    lzt_probe_host s = *spec;
    uint64_t need = lzt__probe_host_bytes(&s);
    if (need <= p->host_ring_bytes) return s;
    bool rows = s.work == LZT_PROBE_GATHER || s.work == LZT_PROBE_SCATTER;
    uint64_t *size = rows ? &s.table_rows : &s.elements;
    double share = 0.95 * (double)p->host_ring_bytes / (double)need;
    *size = (uint64_t)((double)*size * share) / 64 * 64;
    if (!rows) s.entry.size = (uint64_t)((double)s.entry.size * share);
    return s;
}

void lzt__probe_host_ring(const lzt_probe *p, const lzt_probe_host *spec, lzt_probe_piece *piece, lzt_work *work,
                          lzt_load *load)
{
    uint64_t bytes[PARTS], each = lzt__probe_host_bytes(spec);
    uint64_t slots = each && p->host_ring_bytes / each ? p->host_ring_bytes / each : 1;
    char *ring = lzt_dev_address(p->dev, LZT_SPACE_HOST, p->host_ring_at);
    part_bytes(spec, bytes);
    for (uint64_t i = 0; i < LZT_PROBE_RING; i++) {
        char *at = ring + i % slots * each;
        piece[i] = (lzt_probe_piece){.optim = p->optim, .spec = spec, .ids = p->ids};
        for (int k = 0; k < PARTS; at += align(bytes[k++])) piece[i].part[k] = at;
        work[i] = (lzt_work){.name = spec->entry.name, .call = run_piece, .arg = &piece[i]};
    }
    *load = (lzt_load){.stream = p->stream[LZT_LANE_CPU_OPTIMIZER], .pass = work, .count = LZT_PROBE_RING};
}

static lzt_status measure(lzt_probe *p, const lzt_probe_host *wanted, lzt_error *err)
{
    lzt_probe_host spec = fit(p, wanted);
    lzt_probe_piece piece[LZT_PROBE_RING];
    lzt_work work[LZT_PROBE_RING], *works;
    lzt_load load;
    const lzt_load *loads = &load;
    const uint32_t once = 1;
    lzt_samples samples;
    lzt_status status = lzt__samples_init(&samples, LZT_PROBE_SAMPLES_MAX, err);
    if (status) return status;
    for (uint64_t i = 0; i < spec.rows; i++)
        p->ids[i] = (int32_t)lzt__rng_below(7, 2, i, spec.table_rows ? spec.table_rows : 1);
    lzt__probe_host_ring(p, &spec, piece, work, &load);
    double budget = p->o->seconds / p->o->host_count;
    uint64_t begin = lzt__clock_ns();
    for (int s = -1; s < LZT_PROBE_SAMPLES_MAX && !status; s++) {
        if (s >= 3 && lzt__clock_seconds(lzt__clock_ns() - begin) > budget) break;
        status = lzt__load_run(p->dev, &loads, &once, 1, &works, err);
        double sum = 1e-9;
        for (uint32_t i = 0; i < load.count && !status; i++) sum += lzt__work_seconds(&works[i]);
        if (s >= 0) lzt__samples_put(&samples, (double)spec.entry.size * LZT_PROBE_RING / sum);
        free(works);
    }
    if (!status) status = lzt__samples_add(&samples, &spec.entry, p->profile, err);
    lzt__samples_fini(&samples);
    return status;
}

lzt_status lzt__probe_host(lzt_probe *p, lzt_error *err)
{
    lzt_status status = LZT_OK;
    if (p->o->host_count) lzt__probe_say(p, "optimizer and host work");
    for (uint32_t i = 0; i < p->o->host_count && !status; i++) status = measure(p, &p->o->host[i], err);
    return status;
}
