/* Kernel times: the list, in the order in which a layer runs, pass after pass on the compute lane.
 *
 * A sample is the mean of a few passes: a step adds up many calls, so what counts is the mean that they tend to, with
 * its share of preemptions; the median over samples then leaves out a burst.
 */
#include "base/clock.h"
#include "probe/probe_internal.h"

#include <stdlib.h>

/* Passes of a sample, and samples at least: fewer where there is little time. */
static uint32_t passes_of(const lzt_probe *p)
{
    return p->o->seconds >= 0.5 ? 3 : 1;
}

static int samples_min(const lzt_probe *p)
{
    return p->o->seconds >= 0.5 ? LZT_PROBE_SAMPLES_MIN : 3;
}

static lzt_status run_kernel(void *arg, void *native_stream, lzt_error *err)
{
    lzt_probe_call *c = arg;
    return lzt_kern_run(c->kern, &c->call, native_stream, err);
}

static lzt_status bind(lzt_probe *p, lzt_error *err)
{
    const lzt_probe_options *o = p->o;
    size_t n = (size_t)o->kernel_count + 1;
    p->call = calloc(n, sizeof *p->call);
    p->kernel_work = calloc(n, sizeof *p->kernel_work);
    p->kernels.alone = calloc(n, sizeof *p->kernels.alone);
    if (!p->call || !p->kernel_work || !p->kernels.alone)
        return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for %u kernel calls", o->kernel_count);
    for (uint32_t i = 0; i < o->kernel_count; i++) {
        const lzt_probe_kernel *k = &o->kernel[i];
        p->call[i] = (lzt_probe_call){o->kern, k->call};
        for (uint32_t j = 0; j < k->operand_count; j++) {
            const lzt_probe_operand *u = &k->operand[j];
            void *at = lzt_dev_address(p->dev, LZT_SPACE_DEVICE, p->buffer_at[u->buffer] + u->offset);
            if (u->slot >= 0) {
                p->call[i].call.ptr[u->slot] = at;
            } else {
                p->call[i].call.scratch = at;
                p->call[i].call.scratch_bytes = u->bytes;
            }
        }
        p->kernel_work[i] = (lzt_work){.name = k->entry.name, .call = run_kernel, .arg = &p->call[i]};
    }
    p->kernels.stream = p->stream[LZT_LANE_COMPUTE];
    p->kernels.pass = p->kernel_work;
    p->kernels.count = o->kernel_count;
    return LZT_OK;
}

static lzt_status sample(lzt_probe *p, lzt_samples *samples, lzt_error *err)
{
    const lzt_load *load = &p->kernels;
    const uint32_t passes = passes_of(p);
    lzt_work *works;
    lzt_status status = lzt__load_run(p->dev, &load, &passes, 1, &works, err);
    for (uint32_t i = 0; i < load->count && !status; i++) {
        double sum = 0;
        for (uint32_t pass = 0; pass < passes; pass++) sum += lzt__work_seconds(&works[pass * load->count + i]);
        lzt__samples_put(&samples[i], sum / passes);
    }
    free(works);
    return status;
}

lzt_status lzt__probe_kernels(lzt_probe *p, lzt_error *err)
{
    uint32_t n = p->o->kernel_count;
    if (!n) return LZT_OK;
    lzt__probe_say(p, "kernels");
    lzt_samples *samples = calloc(n, sizeof *samples);
    if (!samples) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for samples");
    lzt_status status = bind(p, err);
    for (uint32_t i = 0; i < n && !status; i++) status = lzt__samples_init(&samples[i], LZT_PROBE_SAMPLES_MAX, err);
    if (!status) status = sample(p, samples, err); /* the first touches everything once: it does not count */
    for (uint32_t i = 0; i < n; i++) samples[i].count = 0;
    uint64_t begin = lzt__clock_ns();
    for (int s = 0; s < LZT_PROBE_SAMPLES_MAX && !status; s++) {
        if (s >= samples_min(p) && lzt__clock_seconds(lzt__clock_ns() - begin) > p->o->seconds) break;
        status = sample(p, samples, err);
    }
    for (uint32_t i = 0; i < n && !status; i++) {
        p->kernels.alone[i] = lzt__samples_median(&samples[i]);
        status = lzt__samples_add(&samples[i], &p->o->kernel[i].entry, p->profile, err);
    }
    for (uint32_t i = 0; i < n; i++) lzt__samples_fini(&samples[i]);
    free(samples);
    return status;
}
