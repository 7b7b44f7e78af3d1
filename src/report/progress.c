/* The progress line: see lazytrain/report.h. */
#include "lazytrain/report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *lzt_progress_duration(double seconds, char text[32])
{
    if (!isfinite(seconds) || seconds < 0 || seconds > 1e9) {
        snprintf(text, 32, "?");
        return text;
    }
    uint64_t s = (uint64_t)(seconds + 0.5);
    if (s < 3600)
        snprintf(text, 32, "%02" PRIu64 ":%02" PRIu64, s / 60, s % 60);
    else
        snprintf(text, 32, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600, s % 3600 / 60, s % 60);
    return text;
}

/* "wait 12 % (h2d)": the exposed share of the step and its largest cause. */
static void format_wait(const lzt_step_metrics *step, char text[48])
{
    double total = 0;
    int largest = LZT_CAUSE_OTHER;
    for (int i = LZT_CAUSE_COMPUTE + 1; i < LZT_CAUSE_COUNT; i++) {
        total += step->exposed_seconds[i];
        if (step->exposed_seconds[i] > step->exposed_seconds[largest]) largest = i;
    }
    double share = step->step_seconds > 0 ? 100 * total / step->step_seconds : 0;
    if (share < 0.5)
        snprintf(text, 48, "wait 0 %%");
    else
        snprintf(text, 48, "wait %.0f %% (%s)", share, lzt_cause_name((lzt_cause)largest));
}

/* "-nan" says nothing more than "nan". */
static double plain_nan(double value)
{
    return isnan(value) ? (double)NAN : value;
}

static void format_step(const lzt_progress *progress, const lzt_step_metrics *step, char *text, size_t size)
{
    char wait[48], eta[32];
    double left = progress->total_steps > step->step ? (double)(progress->total_steps - step->step) : 0;
    double mean = progress->steps_seen ? progress->seconds_seen / (double)progress->steps_seen : NAN;
    double rate = step->step_seconds > 0 ? (double)step->tokens_real / step->step_seconds : 0;
    format_wait(step, wait);
    snprintf(text, size,
             "step %" PRIu64 "/%" PRIu64 "  loss %.4f  norm %.3g  lr %.3g  %.3g s/step  %.0f tokens/s  %s  ETA %s%s",
             step->step, progress->total_steps, plain_nan(step->loss), plain_nan(step->grad_norm), step->lr,
             step->step_seconds, rate, wait, lzt_progress_duration(mean * left, eta),
             step->finite ? "" : "  NOT FINITE: step skipped");
}

static void format_bar(const lzt_progress *progress, uint64_t step, char *text)
{
    enum { CELLS = 20 };
    uint64_t total = progress->total_steps ? progress->total_steps : 1;
    uint64_t full = step >= total ? CELLS : step * CELLS / total;
    for (uint64_t i = 0; i < CELLS; i++) text[i] = i < full ? '#' : '.';
    text[CELLS] = 0;
}

void lzt_progress_clear(lzt_progress *progress)
{
    if (!progress->stream || !progress->drawn) return;
    fputs("\r\x1b[K", progress->stream);
    fflush(progress->stream);
    progress->drawn = 0;
}

void lzt_progress_step(lzt_progress *progress, const lzt_step_metrics *step)
{
    char text[256], bar[32];
    progress->steps_seen++;
    progress->seconds_seen += step->step_seconds;
    if (!progress->stream) return;
    bool is_due = progress->logging_steps && step->step % progress->logging_steps == 0;
    bool is_news = is_due || !step->finite || step->step == progress->total_steps;
    if (!progress->is_terminal && (!is_news || !progress->logging_steps)) return;
    format_step(progress, step, text, sizeof text);
    if (progress->is_terminal) {
        format_bar(progress, step->step, bar);
        lzt_progress_clear(progress);
        if (!step->finite) fprintf(progress->stream, "%s\n", text);
        fprintf(progress->stream, "%s[%s]%s %s", progress->use_color ? "\x1b[36m" : "", bar,
                progress->use_color ? "\x1b[0m" : "", text);
        progress->drawn = 1;
    } else {
        fprintf(progress->stream, "%s\n", text);
    }
    fflush(progress->stream);
}

void lzt_progress_eval(lzt_progress *progress, const lzt_eval_metrics *eval)
{
    if (!progress->stream) return;
    lzt_progress_clear(progress);
    fprintf(progress->stream, "step %" PRIu64 "  eval loss %.4f  perplexity %.4g  %" PRIu64 " tokens  %.3g s",
            eval->step, eval->eval_loss, exp(eval->eval_loss), eval->eval_tokens, eval->eval_seconds);
    if (eval->has_exact_match)
        fprintf(progress->stream,
                "  exact match %.1f %%: %" PRIu64 " of %" PRIu64 " right, %" PRIu64 " without an answer, %" PRIu64
                " tokens in %.3g s",
                100 * eval->exact_match, eval->answers_right, eval->answers, eval->answers_none, eval->answer_tokens,
                eval->answer_seconds);
    fputc('\n', progress->stream);
    fflush(progress->stream);
}
