/* What the parts of a probe share: see lazytrain/probe.h. */
#ifndef LZT_PROBE_PROBE_INTERNAL_H
#define LZT_PROBE_PROBE_INTERNAL_H

#include "lazytrain/optim.h"
#include "lazytrain/probe.h"
#include "probe/load.h"

enum { LZT_PROBE_RING = 8, LZT_PROBE_SAMPLES_MIN = 5, LZT_PROBE_SAMPLES_MAX = 25 };

/* A kernel call bound to the device arena. */
typedef struct lzt_probe_call {
    lzt_kern *kern;
    lzt_kern_call call;
} lzt_probe_call;

/* A piece of host work bound to the host arena. */
typedef struct lzt_probe_piece {
    lzt_optim *optim;
    const lzt_probe_host *spec;
    char *part[5]; /* as the work takes them */
    const int32_t *ids;
    double sum; /* NORM's */
} lzt_probe_piece;

typedef struct lzt_probe {
    const lzt_probe_options *o;
    lzt_profile *profile;
    lzt_dev *dev;
    lzt_optim *optim;
    uint32_t stream[LZT_LANE_COUNT];
    uint64_t *buffer_at; /* [buffer_count] in the device arena */
    uint64_t device_copy_at, host_copy_at, host_ring_at;
    uint64_t copy_bytes_max, host_ring_bytes;
    int32_t *ids;         /* the rows that gather and scatter touch */
    lzt_probe_call *call; /* [kernel_count] */
    lzt_work *kernel_work;
    lzt_load kernels;
} lzt_probe;

/* kernels.c: the list on the compute lane; sets kernels.alone. */
lzt_status lzt__probe_kernels(lzt_probe *p, lzt_error *err);
/* copies.c: both directions by size, and one thread's memcpy; ring: a load of copies of `bytes`, ranges[2 * RING]. */
lzt_status lzt__probe_copies(lzt_probe *p, lzt_error *err);
void lzt__probe_copy_ring(const lzt_probe *p, lzt_lane lane, uint64_t bytes, lzt_range *range, lzt_work *work,
                          lzt_load *load);
/* host.c: the optimizer lane's work; ring: a load of pieces in memory of their own, piece[RING]. */
lzt_status lzt__probe_host(lzt_probe *p, lzt_error *err);
void lzt__probe_host_ring(const lzt_probe *p, const lzt_probe_host *spec, lzt_probe_piece *piece, lzt_work *work,
                          lzt_load *load);
uint64_t lzt__probe_host_bytes(const lzt_probe_host *spec); /* memory that a piece needs */
/* overlap.c: every pair of lanes, and how long one lane takes to see that another is done. */
lzt_status lzt__probe_overlap(lzt_probe *p, lzt_error *err);

void lzt__probe_say(const lzt_probe *p, const char *line);

#endif
