/* A run as one HTML file: see lazytrain/report.h. Plain HTML and inline SVG; nothing is loaded from anywhere. */
#include "base/html_text.h"
#include "base/os.h"
#include "base/units.h"
#include "lazytrain/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 860, HEIGHT = 260, LEFT = 64, BOTTOM = 28, TOP = 10, POINTS_MAX = 2000 };

typedef struct plot {
    FILE *out;
    double x_min, x_max, y_min, y_max;
} plot;

static const char *const colors[LZT_CAUSE_COUNT] = {"#4c78a8", "#f58518", "#e45756", "#72b7b2", "#54a24b",
                                                    "#eeca3b", "#b279a2", "#ff9da6", "#9d755d"};

static double x_of(const plot *p, double x)
{
    return LEFT + (x - p->x_min) / (p->x_max - p->x_min) * (WIDTH - LEFT - 10);
}

static double y_of(const plot *p, double y)
{
    return TOP + (p->y_max - y) / (p->y_max - p->y_min) * (HEIGHT - TOP - BOTTOM);
}

static void widen(plot *p)
{
    if (!(p->x_max > p->x_min)) p->x_max = p->x_min + 1;
    if (!(p->y_max > p->y_min)) p->y_max = p->y_min + 1;
}

static void begin_plot(const plot *p, const char *title)
{
    fprintf(p->out, "<h2>%s</h2>\n<svg viewBox=\"0 0 %d %d\" role=\"img\">\n", title, WIDTH, HEIGHT);
    for (int i = 0; i <= 4; i++) {
        double y = p->y_min + (p->y_max - p->y_min) * i / 4, x = p->x_min + (p->x_max - p->x_min) * i / 4;
        fprintf(p->out,
                "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" class=\"g\"/>"
                "<text x=\"%d\" y=\"%.1f\" class=\"r\">%.4g</text>"
                "<text x=\"%.1f\" y=\"%d\" class=\"m\">%.0f</text>\n",
                LEFT, y_of(p, y), WIDTH - 10, y_of(p, y), LEFT - 6, y_of(p, y) + 4, y, x_of(p, x), HEIGHT - 8, x);
    }
}

static void end_plot(const plot *p)
{
    fputs("</svg>\n", p->out);
}

/* Every stride-th step, so that a long run stays a small file. */
static uint64_t stride_of(uint64_t count)
{
    return count / POINTS_MAX + 1;
}

static void stretch(double *low, double *high, double value)
{
    if (!isfinite(value)) return;
    if (value < *low) *low = value;
    if (value > *high) *high = value;
}

static void put_loss_curve(const plot *p, const lzt_run_history *history)
{
    bool is_open = false;
    uint64_t stride = stride_of(history->step_count);
    for (uint64_t i = 0; i < history->step_count; i += stride) {
        const lzt_step_metrics *step = &history->step[i];
        if (isfinite(step->loss)) {
            fprintf(p->out, is_open ? " %.1f,%.1f" : "<polyline class=\"t\" points=\"%.1f,%.1f",
                    x_of(p, (double)step->step), y_of(p, step->loss));
            is_open = true;
            continue;
        }
        if (is_open) fputs("\"/>\n", p->out); /* a gap where the loss was not finite */
        is_open = false;
    }
    if (is_open) fputs("\"/>\n", p->out);
    for (uint64_t i = 0; i < history->eval_count; i++)
        if (isfinite(history->eval[i].eval_loss))
            fprintf(p->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" class=\"e\"><title>eval %.4f</title></circle>\n",
                    x_of(p, (double)history->eval[i].step), y_of(p, history->eval[i].eval_loss),
                    history->eval[i].eval_loss);
}

static void put_losses(FILE *out, const lzt_run_history *history)
{
    plot p = {out, INFINITY, -INFINITY, INFINITY, -INFINITY};
    for (uint64_t i = 0; i < history->step_count; i++) {
        stretch(&p.x_min, &p.x_max, (double)history->step[i].step);
        stretch(&p.y_min, &p.y_max, history->step[i].loss);
    }
    for (uint64_t i = 0; i < history->eval_count; i++) {
        stretch(&p.x_min, &p.x_max, (double)history->eval[i].step);
        stretch(&p.y_min, &p.y_max, history->eval[i].eval_loss);
    }
    if (!isfinite(p.x_min) || !isfinite(p.y_min)) return;
    widen(&p);
    begin_plot(&p, "Loss (line: training, dots: evaluation)");
    put_loss_curve(&p, history);
    end_plot(&p);
}

/* One bar a step: compute below, the exposed causes stacked upon it. */
static void put_step_bar(const plot *p, const lzt_step_metrics *step, double width)
{
    double below = 0;
    for (int cause = 0; cause < LZT_CAUSE_COUNT; cause++) {
        double part = cause == LZT_CAUSE_COMPUTE ? step->busy_seconds[cause] : step->exposed_seconds[cause];
        if (!(part > 0)) continue;
        double top = y_of(p, below + part);
        fprintf(p->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"%s\"/>\n",
                x_of(p, (double)step->step) - width / 2, top, width, y_of(p, below) - top, colors[cause]);
        below += part;
    }
}

static void put_times(FILE *out, const lzt_run_history *history)
{
    plot p = {out, INFINITY, -INFINITY, 0, 0};
    for (uint64_t i = 0; i < history->step_count; i++) {
        stretch(&p.x_min, &p.x_max, (double)history->step[i].step);
        stretch(&p.y_min, &p.y_max, history->step[i].step_seconds);
    }
    if (!isfinite(p.x_min)) return;
    p.x_min -= 0.5;
    p.x_max += 0.5;
    widen(&p);
    begin_plot(&p, "Seconds a step: compute, and what compute waited for");
    uint64_t stride = stride_of(history->step_count * 4);
    double width = (WIDTH - LEFT - 10) / (p.x_max - p.x_min) * (double)stride * 0.9;
    for (uint64_t i = 0; i < history->step_count; i += stride) put_step_bar(&p, &history->step[i], width);
    end_plot(&p);
    fputs("<p>", out);
    for (int cause = 0; cause < LZT_CAUSE_COUNT; cause++)
        fprintf(out, "<span style=\"color:%s\">&#9632;</span> %s ", colors[cause], lzt_cause_name((lzt_cause)cause));
    fputs("</p>\n", out);
}

static void put_row(FILE *out, const char *name, const char *value)
{
    fprintf(out, "<tr><td>%s</td><td>%s</td></tr>\n", name, value);
}

static void put_number_row(FILE *out, const char *name, const char *unit, double value)
{
    char text[64];
    snprintf(text, sizeof text, "%.6g%s%s", value, *unit ? " " : "", unit);
    put_row(out, name, text);
}

static void put_summary(FILE *out, const lzt_run_history *history, const lzt_run_summary *s)
{
    char text[LZT_UNITS_TEXT], name[64];
    fputs("<table>\n", out);
    put_number_row(out, "steps", "", (double)s->step_count);
    put_number_row(out, "steps that were not finite", "", (double)s->nonfinite_steps);
    put_number_row(out, "last loss", "", s->loss_last);
    if (history->eval_count) {
        put_number_row(out, "first evaluation loss", "", history->eval[0].eval_loss);
        put_number_row(out, "last evaluation loss", "", history->eval[history->eval_count - 1].eval_loss);
    }
    put_number_row(out, "median step", "s", s->step_seconds_median);
    put_number_row(out, "real tokens", "/s", s->tokens_real_per_second);
    put_number_row(out, "padded tokens", "/s", s->tokens_padded_per_second);
    put_number_row(out, "loss-bearing tokens", "/s", s->tokens_loss_per_second);
    for (int i = 0; i < LZT_MEMORY_COUNT; i++) {
        snprintf(name, sizeof name, "peak of %s memory", lzt_memory_name((lzt_memory)i));
        if (s->peak_bytes[i]) put_row(out, name, lzt__units_format_bytes(s->peak_bytes[i], text));
    }
    put_row(out, "resident memory", lzt__units_format_bytes(s->rss_bytes, text));
    for (int i = 0; i < LZT_LINK_COUNT; i++) {
        snprintf(name, sizeof name, "bytes over %s", lzt_link_name((lzt_link)i));
        if (s->link_bytes[i]) put_row(out, name, lzt__units_format_bytes(s->link_bytes[i], text));
    }
    fputs("</table>\n", out);
}

static void put_page(FILE *out, const lzt_run_history *history, const lzt_run_summary *summary, const char *title)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>", out);
    lzt__html_text(out, title);
    fputs("</title>\n<style>body{font:15px sans-serif;max-width:900px;margin:2em auto;color:#222}"
          "td{padding:2px 16px 2px 0}svg{width:100%;background:#fafafa}.g{stroke:#ddd}text{font-size:11px;fill:#666}"
          ".r{text-anchor:end}.m{text-anchor:middle}.t{fill:none;stroke:#4c78a8;stroke-width:1.5}.e{fill:#e45756}"
          "</style></head>\n<body><h1>",
          out);
    lzt__html_text(out, title);
    fputs("</h1>\n", out);
    put_summary(out, history, summary);
    put_losses(out, history);
    put_times(out, history);
    fprintf(out, "<p>lazytrain %s</p>\n</body></html>\n", lzt_version());
}

lzt_status lzt_run_write_html(const lzt_run_history *history, const char *title, const char *path, lzt_error *err)
{
    lzt_run_summary summary;
    char *text = NULL;
    size_t bytes = 0;
    lzt_status status = lzt_run_summarize(history, 0, UINT64_MAX, 0, &summary, err);
    if (status) return status;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return lzt_fail(err, LZT_ERR_NO_MEMORY, path, "no memory for the report");
    put_page(out, history, &summary, title);
    bool is_bad = ferror(out) != 0;
    is_bad |= fclose(out) != 0;
    status = is_bad ? lzt_fail(err, LZT_ERR_NO_MEMORY, path, "no memory for the report")
                    : lzt__os_write_file_atomic(lzt__os_posix(), path, text, bytes, err);
    free(text);
    return status;
}
