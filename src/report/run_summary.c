/* What a window of steps comes to: see lazytrain/report.h. */
#include "lazytrain/report.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts seconds in place. */
static void take_times(double *seconds, uint64_t count, lzt_run_summary *summary)
{
    qsort(seconds, count, sizeof *seconds, by_value);
    summary->step_seconds_min = seconds[0];
    summary->step_seconds_max = seconds[count - 1];
    summary->step_seconds_median = (seconds[(count - 1) / 2] + seconds[count / 2]) / 2;
    for (uint64_t i = 0; i < count; i++) summary->seconds += seconds[i];
}

static void max_into(uint64_t *greatest, uint64_t value)
{
    if (value > *greatest) *greatest = value;
}

static void take_step(const lzt_step_metrics *step, double share, lzt_run_summary *summary)
{
    for (int i = 0; i < LZT_CAUSE_COUNT; i++) {
        summary->busy_seconds[i] += step->busy_seconds[i] * share;
        summary->exposed_seconds[i] += step->exposed_seconds[i] * share;
    }
    for (int i = 0; i < LZT_LINK_COUNT; i++) summary->link_bytes[i] += step->link_bytes[i];
    for (int i = 0; i < LZT_MEMORY_COUNT; i++) max_into(&summary->peak_bytes[i], step->peak_bytes[i]);
    max_into(&summary->rss_bytes, step->rss_bytes);
    summary->nonfinite_steps += !step->finite;
    summary->tokens_padded_per_second += (double)step->tokens_padded;
    summary->tokens_real_per_second += (double)step->tokens_real;
    summary->tokens_loss_per_second += (double)step->tokens_loss;
}

static void take_losses(const lzt_step_metrics *step, uint64_t count, lzt_run_summary *summary)
{
    uint64_t finite = 0;
    summary->loss_last = NAN;
    for (uint64_t i = 0; i < count; i++) {
        if (!isfinite(step[i].loss)) continue;
        summary->loss_mean += step[i].loss;
        summary->loss_last = step[i].loss;
        finite++;
    }
    summary->loss_mean = finite ? summary->loss_mean / (double)finite : NAN;
}

lzt_status lzt_run_summarize(const lzt_run_history *history, uint64_t first, uint64_t last, uint64_t latest,
                             lzt_run_summary *summary, lzt_error *err)
{
    const lzt_step_metrics *step = history->step;
    uint64_t begin = 0, end = history->step_count;
    *summary = (lzt_run_summary){0};
    if (latest) {
        begin = end > latest ? end - latest : 0;
    } else {
        while (begin < end && step[begin].step < first) begin++;
        while (end > begin && step[end - 1].step > last) end--;
    }
    uint64_t count = end - begin;
    if (!count) return LZT_OK;
    double *seconds = malloc(count * sizeof *seconds);
    if (!seconds) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a summary");
    summary->step_count = count;
    summary->first_step = step[begin].step;
    summary->last_step = step[end - 1].step;
    for (uint64_t i = 0; i < count; i++) {
        seconds[i] = step[begin + i].step_seconds;
        take_step(&step[begin + i], 1.0 / (double)count, summary);
    }
    take_losses(step + begin, count, summary);
    take_times(seconds, count, summary);
    free(seconds);
    double rate = summary->seconds > 0 ? 1 / summary->seconds : 0;
    summary->tokens_padded_per_second *= rate;
    summary->tokens_real_per_second *= rate;
    summary->tokens_loss_per_second *= rate;
    return LZT_OK;
}
