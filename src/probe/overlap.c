/* How lanes get in each other's way, pair by pair; and how long a lane takes to see that another is done.
 *
 * Both lanes of a pair get work for about the same time. What counts is what ran wholly while the other was busy: the
 * sum of its times over the sum of the same works' times alone, taken right before, so that a machine that grows slower
 * or faster over the probe does not look like a lane in the way.
 */
#include "probe/probe_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 4, PAIR_SAMPLES = 5, HANDOVERS = 200 };

static const lzt_lane lanes[LANES] = {LZT_LANE_COMPUTE, LZT_LANE_H2D, LZT_LANE_D2H, LZT_LANE_CPU_OPTIMIZER};

typedef struct overlap {
    lzt_probe *p;
    lzt_load load[LANES]; /* count 0: the lane has nothing to run */
    double pass_seconds[LANES];
    lzt_work *layer_work; /* compute's: the list without the head */
    double *layer_alone;
    lzt_range range[2][2 * LZT_PROBE_RING];
    lzt_work copy[2][LZT_PROBE_RING], host[LZT_PROBE_RING];
    double alone[3][LZT_PROBE_RING];
    lzt_probe_piece piece[LZT_PROBE_RING];
    lzt_probe_host spec;
} overlap;

/* Compute runs the layer's operators: most of a step. */
static lzt_status take_layer(overlap *v, lzt_error *err)
{
    const lzt_load *all = &v->p->kernels;
    v->layer_work = calloc((size_t)all->count + 1, sizeof *v->layer_work);
    v->layer_alone = calloc((size_t)all->count + 1, sizeof *v->layer_alone);
    if (!v->layer_work || !v->layer_alone) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a layer");
    lzt_load *load = &v->load[0];
    *load = (lzt_load){.stream = all->stream, .pass = v->layer_work, .alone = v->layer_alone};
    for (uint32_t i = 0; i < all->count; i++) {
        lzt_op op = v->p->o->kernel[i].call.op;
        if (op == LZT_OP_LOSS_CHUNK || op == LZT_OP_CAST || op == LZT_OP_ROPE_TABLE) continue;
        v->layer_work[load->count] = all->pass[i];
        v->layer_alone[load->count++] = all->alone[i];
    }
    return LZT_OK;
}

/* The largest size up to that of an upload of weights. */
static uint64_t typical_copy(const lzt_probe_options *o)
{
    uint64_t bytes = o->copy_count ? o->copy_bytes[0] : 0;
    for (uint32_t i = 0; i < o->copy_count; i++)
        if (o->copy_bytes[i] <= o->pair_copy_bytes) bytes = o->copy_bytes[i];
    return bytes;
}

/* The largest AdamW of which the ring holds several. */
static const lzt_probe_host *typical_host(const lzt_probe *p)
{
    const lzt_probe_host *best = NULL;
    for (uint32_t i = 0; i < p->o->host_count; i++) {
        const lzt_probe_host *h = &p->o->host[i];
        if (h->work != LZT_PROBE_ADAMW || 4 * lzt__probe_host_bytes(h) > p->host_ring_bytes) continue;
        if (!best || h->elements > best->elements) best = h;
    }
    return best;
}

/* The works' own times, each the mean over the passes but the first. */
static lzt_status measure_alone(overlap *v, int lane, uint32_t passes, lzt_error *err)
{
    lzt_load *load = &v->load[lane];
    const lzt_load *loads = load;
    lzt_work *works;
    passes++;
    lzt_status status = lzt__load_run(v->p->dev, &loads, &passes, 1, &works, err);
    for (uint32_t i = 0; i < load->count && !status; i++) {
        double sum = 0;
        for (uint32_t pass = 1; pass < passes; pass++) sum += lzt__work_seconds(&works[pass * load->count + i]);
        load->alone[i] = sum / (passes - 1);
    }
    free(works);
    return status;
}

static lzt_status set_up(overlap *v, lzt_error *err)
{
    uint64_t bytes = typical_copy(v->p->o);
    const lzt_probe_host *spec = typical_host(v->p);
    lzt_status status = take_layer(v, err);
    for (int d = 0; d < 2 && bytes; d++)
        lzt__probe_copy_ring(v->p, lanes[1 + d], bytes, v->range[d], v->copy[d], &v->load[1 + d]);
    if (spec) {
        v->spec = *spec;
        lzt__probe_host_ring(v->p, &v->spec, v->piece, v->host, &v->load[3]);
    }
    for (int i = 1; i < LANES && !status; i++) {
        v->load[i].alone = v->alone[i - 1];
        if (v->load[i].count) status = measure_alone(v, i, 4, err);
    }
    for (int i = 0; i < LANES; i++)
        for (uint32_t k = 0; k < v->load[i].count; k++) v->pass_seconds[i] += v->load[i].alone[k];
    return status;
}

/* Seconds of the works that ran wholly within [from, to], over their seconds alone; 0: there was none. */
static double slowdown(const lzt_load *load, const lzt_work *works, uint32_t passes, uint64_t from, uint64_t to)
{
    double beside = 0, alone = 0;
    for (uint32_t i = 0; i < passes * load->count; i++) {
        if (works[i].start_ns < from || works[i].end_ns > to) continue;
        beside += lzt__work_seconds(&works[i]);
        alone += load->alone[i % load->count];
    }
    return alone > 0 ? beside / alone : 0;
}

static uint32_t passes_for(const overlap *v, int lane)
{
    double want = v->p->o->seconds / PAIR_SAMPLES / v->pass_seconds[lane];
    return want < 2 ? 2 : want > 512 ? 512 : (uint32_t)want + 1;
}

static lzt_status sample_pair(overlap *v, int a, int b, lzt_samples *of_a, lzt_samples *of_b, lzt_error *err)
{
    const lzt_load *loads[2] = {&v->load[a], &v->load[b]};
    uint32_t passes[2] = {passes_for(v, a), passes_for(v, b)};
    lzt_work *works[2];
    lzt_status status = measure_alone(v, a, passes[0], err);
    if (!status) status = measure_alone(v, b, passes[1], err);
    if (status) return status;
    status = lzt__load_run(v->p->dev, loads, passes, 2, works, err);
    if (!status) {
        uint64_t from[2], to[2];
        for (int i = 0; i < 2; i++) {
            from[i] = works[i][0].start_ns;
            to[i] = works[i][passes[i] * loads[i]->count - 1].end_ns;
        }
        double sa = slowdown(loads[0], works[0], passes[0], from[1], to[1]);
        double sb = slowdown(loads[1], works[1], passes[1], from[0], to[0]);
        if (sa > 0) lzt__samples_put(of_a, sa * v->pass_seconds[a]);
        if (sb > 0) lzt__samples_put(of_b, sb * v->pass_seconds[b]);
    }
    free(works[0]);
    free(works[1]);
    return status;
}

static lzt_status add(const overlap *v, int a, int b, const lzt_samples *samples, lzt_error *err)
{
    lzt_measurement m = {.kind = LZT_MEASURE_TIME};
    snprintf(m.name, sizeof m.name, "overlap.%s.%s", lzt_lane_name(lanes[a]), lzt_lane_name(lanes[b]));
    return samples->count ? lzt__samples_add(samples, &m, v->p->profile, err) : LZT_OK;
}

static lzt_status measure_pair(overlap *v, int a, int b, lzt_error *err)
{
    lzt_samples of_a, of_b = {0};
    lzt_status status = lzt__samples_init(&of_a, PAIR_SAMPLES, err);
    if (!status) status = lzt__samples_init(&of_b, PAIR_SAMPLES, err);
    for (int s = 0; s < PAIR_SAMPLES && !status; s++) status = sample_pair(v, a, b, &of_a, &of_b, err);
    if (!status) status = add(v, a, b, &of_a, err);
    if (!status) status = add(v, b, a, &of_b, err);
    lzt__samples_fini(&of_a);
    lzt__samples_fini(&of_b);
    return status;
}

static lzt_status add_alone(const overlap *v, int a, lzt_error *err)
{
    double s = v->pass_seconds[a];
    lzt_measurement m = {.kind = LZT_MEASURE_TIME, .median = s, .min = s, .max = s, .count = 1};
    snprintf(m.name, sizeof m.name, "overlap.%s", lzt_lane_name(lanes[a]));
    return v->load[a].count ? lzt_profile_add(v->p->profile, &m, err) : LZT_OK;
}

/* ---- handing over ---- */

static lzt_status nothing(void *arg, void *native_stream, lzt_error *err)
{
    (void)arg;
    (void)native_stream;
    (void)err;
    return LZT_OK;
}

/* Two lanes that take turns. */
static lzt_status measure_handover(lzt_probe *p, lzt_error *err)
{
    static const lzt_lane turn[2] = {LZT_LANE_DATA, LZT_LANE_CPU_OPTIMIZER};
    lzt_work *works = calloc(HANDOVERS, sizeof *works);
    lzt_wait *waits = calloc(HANDOVERS, sizeof *waits);
    lzt_samples samples = {0};
    lzt_measurement m = {.kind = LZT_MEASURE_TIME, .name = "handover"};
    uint64_t last[2] = {0};
    lzt_status status = works && waits ? lzt__samples_init(&samples, HANDOVERS, err)
                                       : lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to measure");
    for (int i = 0; i < HANDOVERS && !status; i++) {
        int other = (i + 1) % 2;
        waits[i] = (lzt_wait){p->stream[turn[other]], last[other]};
        works[i] = (lzt_work){.name = "turn", .wait = &waits[i], .wait_count = 1, .call = nothing};
        status = lzt_dev_submit(p->dev, p->stream[turn[i % 2]], &works[i], &last[i % 2], err);
    }
    for (int i = 0; i < 2; i++) { /* what was submitted is the device's until it is done */
        lzt_error ignored;
        lzt_status waited = lzt_dev_wait(p->dev, p->stream[turn[i]], last[i], status ? &ignored : err);
        if (!status) status = waited;
    }
    for (int i = HANDOVERS / 2; i < HANDOVERS && !status; i++) /* the first half: the submitter is still at it */
        lzt__samples_put(&samples, (double)(works[i].start_ns - works[i - 1].end_ns) * 1e-9);
    if (!status) status = lzt__samples_add(&samples, &m, p->profile, err);
    lzt__samples_fini(&samples);
    free(waits);
    free(works);
    return status;
}

lzt_status lzt__probe_overlap(lzt_probe *p, lzt_error *err)
{
    overlap *v = calloc(1, sizeof *v);
    if (!v) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to measure lanes side by side");
    v->p = p;
    lzt__probe_say(p, "lanes side by side");
    lzt_status status = measure_handover(p, err);
    if (!status) status = set_up(v, err);
    for (int a = 0; a < LANES && !status; a++) status = add_alone(v, a, err);
    for (int a = 0; a < LANES && !status; a++)
        for (int b = a + 1; b < LANES && !status; b++)
            if (v->load[a].count && v->load[b].count) status = measure_pair(v, a, b, err);
    free(v->layer_work);
    free(v->layer_alone);
    free(v);
    return status;
}
