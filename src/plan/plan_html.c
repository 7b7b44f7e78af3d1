/* A plan as one HTML page: see lazytrain/plan_html.h.
 *
 * All charts over boundaries share one horizontal scale, so that a window stands under its boundary:
 *
 *     forward time of a layer   ▂▂▂▅▂▂▂▅
 *     gpu / cpu / nvme / again  one mark a boundary, in its tier's lane
 *     d2h, h2d, write, read     mandatory and activations under the window's capacity
 */
#include "lazytrain/plan_html.h"

#include "base/html_text.h"
#include "base/os.h"
#include "base/units.h"
#include "plan/plan_html_chart.h"
#include "plan/plan_html_style.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANE = 26, LANE_GAP = 6, STRIP = 40, POOL = 132, SWEEP = 190 };

/* ---- the boundary map ---- */

static const char *const tier_class[LZT_TIER_COUNT] = {"gpu", "cpu", "nvme", "again"};
static const char *const tier_label[LZT_TIER_COUNT] = {"GPU", "CPU", "NVMe", "recompute"};

static void put_times(FILE *out, const lzt_plan *plan)
{
    uint64_t most = 1;
    const uint64_t *ps = plan->problem->recompute_ps;
    for (uint64_t l = 0; l < plan->layer_count; l++)
        if (ps[l] > most) most = ps[l];
    fprintf(out, "<text class=\"lane\" x=\"%d\" y=\"%d\">forward</text>", LZT__CHART_LEFT - 10, STRIP - 8);
    for (uint64_t l = 0; l < plan->layer_count; l++) {
        double height = (STRIP - 10) * (double)ps[l] / (double)most;
        fprintf(out,
                "<rect class=\"time\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"><title>layer %" PRIu64
                ": %.3f ms</title></rect>\n",
                lzt__chart_x(plan, (double)l + 0.5) - lzt__chart_cell(plan) / 2, STRIP - height, lzt__chart_cell(plan),
                height, l, lzt_ms(ps[l]));
    }
}

static void put_lanes(FILE *out, const lzt_plan *plan, int top)
{
    for (int t = 0; t < LZT_TIER_COUNT; t++) {
        double y = top + t * (LANE + LANE_GAP);
        fprintf(out, "<rect class=\"track\" x=\"%d\" y=\"%.0f\" width=\"%d\" height=\"%d\" rx=\"4\"/>", LZT__CHART_LEFT,
                y, LZT__CHART_WIDTH - LZT__CHART_LEFT - LZT__CHART_RIGHT, LANE);
        fprintf(out, "<text class=\"lane\" x=\"%d\" y=\"%.0f\">%s</text>\n", LZT__CHART_LEFT - 10, y + LANE / 2.0 + 4,
                tier_label[t]);
    }
    for (uint64_t i = 0; i <= plan->layer_count; i++) {
        lzt_tier t = plan->boundary[i];
        double y = top + (int)t * (LANE + LANE_GAP);
        fprintf(
            out,
            "<rect class=\"%s\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\" rx=\"%.1f\"><title>boundary %" PRIu64
            ": %s</title></rect>\n",
            tier_class[t], lzt__chart_x(plan, (double)i) - lzt__chart_cell(plan) / 2, y + 3, lzt__chart_cell(plan),
            LANE - 6, fmin(3, lzt__chart_cell(plan) / 3), i, tier_label[t]);
    }
}

/* A bracket from checkpoint to checkpoint over the layers that backward runs again. */
static void put_blocks(FILE *out, const lzt_plan *plan, double y)
{
    uint64_t start = 0;
    for (uint64_t end = 1; end <= plan->layer_count; end++) {
        if (plan->boundary[end] == LZT_TIER_RECOMPUTE) continue;
        if (end - start > 1)
            fprintf(out,
                    "<path class=\"block\" d=\"M%.1f %.0fv7H%.1fv-7\"><title>layers %" PRIu64 " to %" PRIu64
                    " run again in backward, from boundary %" PRIu64 "</title></path>\n",
                    lzt__chart_x(plan, (double)start), y, lzt__chart_x(plan, (double)end), start, end - 2, start);
        start = end;
    }
}

/* A row of marks, one a layer. */
static void put_layer_mark(FILE *out, const lzt_plan *plan, uint64_t l, const char *cls, const char *name,
                           const char *what, double y)
{
    if (!l) fprintf(out, "<text class=\"lane\" x=\"%d\" y=\"%.0f\">%s</text>\n", LZT__CHART_LEFT - 10, y + 11, name);
    fprintf(out,
            "<rect class=\"%s\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"14\" rx=\"2\"><title>layer %" PRIu64
            ": %s %s</title></rect>\n",
            cls, lzt__chart_x(plan, (double)l + 0.5) - lzt__chart_cell(plan) / 2, y, lzt__chart_cell(plan), l, name,
            what);
}

static void put_layer_sets(FILE *out, const lzt_plan *plan, double y)
{
    static const char *const cls[LZT_TIER_COUNT] = {"gpu", "cpu", "nvme", "track"};
    static const char *const what[LZT_TIER_COUNT] = {"stay", "go to the host and come back", "go to nvme and come back",
                                                     "do not stay"};
    for (uint64_t l = 0; l < plan->layer_count; l++)
        put_layer_mark(out, plan, l, cls[plan->internals[l]], "internals", what[plan->internals[l]], y);
    for (uint64_t l = 0; l < plan->layer_count; l++)
        put_layer_mark(out, plan, l, plan->weights[l] ? "gpu" : "track", "weights",
                       plan->weights[l] ? "stay" : "do not stay", y + 20);
}

static void put_map(FILE *out, const lzt_plan *plan)
{
    int strip = plan->problem ? STRIP + 8 : 0, lanes = LZT_TIER_COUNT * (LANE + LANE_GAP);
    int more = plan->problem ? 0 : 44, height = strip + lanes + more + 34;
    fputs("<section><h2>Where each boundary lives</h2>\n<p>Boundary <em>i</em> is the input of layer <em>i</em>. A "
          "bracket "
          "spans a block: backward starts again from its left end.</p>\n",
          out);
    lzt__chart_begin(out, LZT__CHART_WIDTH, height, "Boundaries by tier");
    if (plan->problem) put_times(out, plan);
    put_lanes(out, plan, strip);
    if (!plan->problem) put_layer_sets(out, plan, strip + lanes + 2);
    put_blocks(out, plan, strip + lanes + more);
    lzt__chart_axis(out, plan, height - 6);
    fputs("</svg></section>\n", out);
}

/* ---- pools over windows ---- */

static void put_bar(FILE *out, const lzt_plan *plan, const lzt__scale *s, uint64_t w, const char *cls, uint64_t from,
                    uint64_t to)
{
    if (to <= from) return;
    fprintf(out, "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>", cls,
            lzt__chart_x(plan, (double)w + 0.5) - lzt__chart_cell(plan) / 2, lzt__scale_y(s, lzt__chart_gib(to)),
            lzt__chart_cell(plan), lzt__scale_y(s, lzt__chart_gib(from)) - lzt__scale_y(s, lzt__chart_gib(to)));
}

static void put_window(FILE *out, const lzt_plan *plan, const lzt__scale *s, uint64_t w, const lzt_window *at,
                       const char *cls)
{
    uint64_t mandatory = at->mandatory_bytes, whole = mandatory + at->activation_bytes;
    uint64_t exposed = at->exposed_bytes < whole ? at->exposed_bytes : whole, hidden = whole - exposed;
    fprintf(out, "<g><title>window %" PRIu64 ": %.3f GiB mandatory, %.3f of activations, of %.3f%s", w,
            lzt__chart_gib(mandatory), lzt__chart_gib(at->activation_bytes), lzt__chart_gib(at->capacity_bytes),
            exposed ? "; " : "");
    if (exposed) fprintf(out, "%.3f exposed", lzt__chart_gib(exposed));
    fputs("</title>", out);
    put_bar(out, plan, s, w, "mandatory", 0, mandatory < hidden ? mandatory : hidden);
    put_bar(out, plan, s, w, cls, mandatory, hidden);
    put_bar(out, plan, s, w, "exposed", hidden, whole);
    double x = lzt__chart_x(plan, (double)w), next = lzt__chart_x(plan, (double)w + 1),
           y = lzt__scale_y(s, lzt__chart_gib(at->capacity_bytes));
    fprintf(out, "<line class=\"capacity\" x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\"/></g>\n", x, y, next, y);
}

static void put_pool(FILE *out, const lzt_plan *plan, lzt_pool pool, const lzt_window *window, const lzt_evaluation *e)
{
    static const char *const title[LZT_POOL_COUNT] = {"Device to host", "Host to device", "Drive write", "Drive read"};
    static const char *const cls[LZT_POOL_COUNT] = {"cpu", "gpu", "nvme", "nvme"};
    uint64_t most = 1, carried = 0, capacity = 0;
    for (uint64_t w = 0; w < plan->layer_count; w++) {
        uint64_t whole = window[w].mandatory_bytes + window[w].activation_bytes;
        if (whole > most) most = whole;
        if (window[w].capacity_bytes > most) most = window[w].capacity_bytes;
        carried += whole;
        capacity += window[w].capacity_bytes;
    }
    const lzt__scale s = {12, POOL - 20, lzt__chart_gib(most) * 1.08};
    fprintf(out, "<h3>%s <small>%.4g GB/s · %.2f of %.2f GiB · %.4g ms exposed</small></h3>\n", title[pool],
            (double)plan->problem->bytes_per_s[pool] / 1e9, lzt__chart_gib(carried), lzt__chart_gib(capacity),
            lzt_ms(e->exposed_ps[pool]));
    lzt__chart_begin(out, LZT__CHART_WIDTH, POOL, title[pool]);
    lzt__chart_grid(out, &s, LZT__CHART_LEFT, LZT__CHART_WIDTH - LZT__CHART_RIGHT, "");
    for (uint64_t w = 0; w < plan->layer_count; w++) put_window(out, plan, &s, w, &window[w], cls[pool]);
    lzt__chart_axis(out, plan, POOL - 4);
    fputs("</svg>\n", out);
}

static lzt_status put_pools(FILE *out, const lzt_plan *plan, const lzt_evaluation *e, lzt_error *err)
{
    static const char *const cls[] = {"mandatory", "cpu", "gpu", "nvme", "exposed", "line"};
    static const char *const name[] = {"weights and gradients",    "activations down", "activations up",
                                       "activations on the drive", "exposed",          "capacity of the window"};
    lzt_window *window = calloc(plan->layer_count, sizeof *window);
    if (!window)
        return lzt_fail(err, LZT_ERR_NO_MEMORY, "html", "no memory for %" PRIu64 " windows", plan->layer_count);
    fputs(
        "<section><h2>What each pool carries, window by window</h2>\n<p>A window is the compute time of a layer. GiB, "
        "with every transfer as early as it can be; what is above a window's capacity is waited for.</p>\n",
        out);
    lzt__chart_legend(out, cls, name, 6);
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) {
        lzt_problem_windows(plan->problem, plan->boundary, (lzt_pool)pool, window);
        put_pool(out, plan, (lzt_pool)pool, window, e);
    }
    fputs("</section>\n", out);
    free(window);
    return LZT_OK;
}

/* ---- budgets and figures ---- */

static void put_tile(FILE *out, const char *name, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void put_tile(FILE *out, const char *name, const char *fmt, ...)
{
    va_list args;
    fputs("<div class=\"tile\"><b>", out);
    va_start(args, fmt);
    vfprintf(out, fmt, args);
    va_end(args);
    fprintf(out, "</b><span>%s</span></div>\n", name);
}

static void put_tiles(FILE *out, const lzt_plan *plan, const lzt_evaluation *e)
{
    uint64_t exposed = 0;
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) exposed += e->exposed_ps[pool];
    fputs("<div class=\"tiles\">\n", out);
    if (plan->problem) {
        put_tile(out, "objective, ms", "%.5f", lzt_ms(e->objective_ps));
        put_tile(out, "of it recompute, ms", "%.6g", lzt_ms(e->recompute_ps));
        put_tile(out, "of it exposed, ms", "%.6g", lzt_ms(exposed));
    } else {
        char text[LZT_UNITS_TEXT];
        if (plan->step) put_tile(out, "predicted step, ms", "%.3f", lzt_ms(plan->objective_ps));
        put_tile(out, "on the device", "%s", lzt__units_format_bytes(plan->device_bytes, text));
        put_tile(out, "on the host", "%s", lzt__units_format_bytes(plan->host_bytes, text));
        put_tile(out, "layer forwards a micro-batch", "%" PRIu64, lzt_plan_layer_forwards(plan));
    }
    put_tile(out, "on GPU · CPU · NVMe", "%" PRIu64 " · %" PRIu64 " · %" PRIu64, e->count[0], e->count[1], e->count[2]);
    put_tile(out, "recomputed", "%" PRIu64, e->count[LZT_TIER_RECOMPUTE]);
    fputs("</div>\n", out);
}

static void put_budgets(FILE *out, const lzt_plan *plan, const lzt_evaluation *e)
{
    fputs("<section><h2>How full each tier is</h2>\n", out);
    lzt__chart_begin(out, LZT__CHART_WIDTH, 3 * 34 + 4, "Budgets");
    for (int t = 0; t < 3; t++) {
        double used = lzt__chart_gib(e->used_bytes[t]), budget = lzt__chart_gib(plan->problem->budget_bytes[t]);
        double room = LZT__CHART_WIDTH - LZT__CHART_LEFT - LZT__CHART_RIGHT - 260,
               share = budget > 0 ? fmin(1, used / budget) : 0;
        int y = 4 + t * 34;
        fprintf(out, "<text class=\"lane\" x=\"%d\" y=\"%d\">%s</text>", LZT__CHART_LEFT - 10, y + 15, tier_label[t]);
        fprintf(out, "<rect class=\"track\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"22\" rx=\"4\"/>", LZT__CHART_LEFT,
                y, room);
        fprintf(out, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"22\" rx=\"4\"/>", tier_class[t],
                LZT__CHART_LEFT, y, room * share);
        fprintf(out, "<text class=\"value\" x=\"%.1f\" y=\"%d\">%.3f of %.3f GiB · %" PRIu64 " boundaries</text>\n",
                LZT__CHART_LEFT + room + 12, y + 15, used, budget, e->count[t]);
    }
    fputs("</svg></section>\n", out);
}

/* ---- the sweep ---- */

static double sweep_x(const lzt_plan_sweep *s, uint64_t budget)
{
    double low = lzt__chart_gib(s->point[0].budget_bytes),
           high = lzt__chart_gib(s->point[s->point_count - 1].budget_bytes);
    return LZT__CHART_LEFT +
           (lzt__chart_gib(budget) - low) / fmax(high - low, 1e-9) *
               (LZT__CHART_WIDTH - LZT__CHART_LEFT - LZT__CHART_RIGHT - 16) +
           8;
}

static void put_sweep_line(FILE *out, const lzt_plan_sweep *s, const lzt__scale *y)
{
    const char *join = "<polyline class=\"curve\" points=\"";
    for (uint64_t i = 0; i < s->point_count; i++) {
        if (!s->point[i].has_plan) continue;
        fprintf(out, "%s%.1f,%.1f", join, sweep_x(s, s->point[i].budget_bytes),
                lzt__scale_y(y, lzt_ms(s->point[i].evaluation.objective_ps)));
        join = " ";
    }
    if (*join == ' ') fputs("\"/>\n", out);
    for (uint64_t i = 0; i < s->point_count; i++) {
        const lzt_sweep_point *p = &s->point[i];
        double x = sweep_x(s, p->budget_bytes);
        if (!p->has_plan) {
            fprintf(out, "<text class=\"none\" x=\"%.1f\" y=\"%.1f\">×<title>%.3f GiB: nothing fits</title></text>\n",
                    x, y->bottom - 4, lzt__chart_gib(p->budget_bytes));
            continue;
        }
        const uint64_t *n = p->evaluation.count;
        fprintf(out,
                "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"><title>%.3f GiB: %.5f ms; %" PRIu64
                " GPU, %" PRIu64 " CPU, %" PRIu64 " NVMe, %" PRIu64 " recomputed</title></circle>\n",
                x, lzt__scale_y(y, lzt_ms(p->evaluation.objective_ps)), lzt__chart_gib(p->budget_bytes),
                lzt_ms(p->evaluation.objective_ps), n[0], n[1], n[2], n[3]);
    }
}

/* Counts by tier under the curve: a column a budget. */
static void put_sweep_counts(FILE *out, const lzt_plan_sweep *s, uint64_t boundaries, double top, double height)
{
    double width =
        fmin(18, (LZT__CHART_WIDTH - LZT__CHART_LEFT - LZT__CHART_RIGHT - 16) / (double)s->point_count - 1.5);
    fprintf(out, "<text class=\"lane\" x=\"%d\" y=\"%.1f\">tiers</text>", LZT__CHART_LEFT - 10, top + height / 2 + 4);
    for (uint64_t i = 0; i < s->point_count; i++) {
        double y = top;
        for (int t = 0; s->point[i].has_plan && t < LZT_TIER_COUNT; t++) {
            double part = height * (double)s->point[i].evaluation.count[t] / (double)boundaries;
            fprintf(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%.2f\" width=\"%.1f\" height=\"%.2f\"/>", tier_class[t],
                    sweep_x(s, s->point[i].budget_bytes) - width / 2, y, width, part);
            y += part;
        }
    }
    fputc('\n', out);
}

static void put_sweep(FILE *out, const lzt_plan *plan, const lzt_plan_sweep *s)
{
    double most = 1e-6, low = lzt__chart_gib(s->point[0].budget_bytes),
           high = lzt__chart_gib(s->point[s->point_count - 1].budget_bytes);
    for (uint64_t i = 0; i < s->point_count; i++)
        if (s->point[i].has_plan) most = fmax(most, lzt_ms(s->point[i].evaluation.objective_ps));
    const lzt__scale y = {12, SWEEP - 66, most * 1.1};
    uint64_t here = plan->problem->budget_bytes[s->tier];
    fprintf(out, "<h3>%s budget <small>%.4g to %.4g GiB; the plan's is %.4g</small></h3>\n", tier_label[s->tier], low,
            high, lzt__chart_gib(here));
    lzt__chart_begin(out, LZT__CHART_WIDTH, SWEEP, "Objective over budget");
    lzt__chart_grid(out, &y, LZT__CHART_LEFT, LZT__CHART_WIDTH - LZT__CHART_RIGHT, " ms");
    put_sweep_counts(out, s, plan->layer_count + 1, SWEEP - 54, 34);
    if (here >= s->point[0].budget_bytes && here <= s->point[s->point_count - 1].budget_bytes)
        fprintf(out, "<line class=\"here\" x1=\"%.1f\" y1=\"6\" x2=\"%.1f\" y2=\"%d\"/>\n", sweep_x(s, here),
                sweep_x(s, here), SWEEP - 18);
    put_sweep_line(out, s, &y);
    double step = lzt__chart_tick_step(fmax(high - low, 1e-9), 10);
    for (double v = ceil(low / step) * step; v <= high * 1.0001; v += step)
        fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\">%.4g</text>", sweep_x(s, (uint64_t)(v * 1073741824.0)),
                SWEEP - 4, v);
    fputs("\n</svg>\n", out);
}

static void put_sweeps(FILE *out, const lzt_plan *plan, const lzt_plan_sweep *sweep, uint64_t count)
{
    if (!count) return;
    fputs(
        "<section><h2>What other budgets would give</h2>\n<p>The same problem solved anew with one budget changed: its "
        "objective, and the boundaries by tier. The dashed line is this plan's budget.</p>\n",
        out);
    lzt__chart_legend(out, tier_class, tier_label, LZT_TIER_COUNT);
    for (uint64_t i = 0; i < count; i++)
        if (sweep[i].point_count) put_sweep(out, plan, &sweep[i]);
    fputs("</section>\n", out);
}

/* ---- the page ---- */

static void put_head(FILE *out, const lzt_plan *plan)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
          "content=\"width=device-width,initial-scale=1\"><meta name=\"color-scheme\" content=\"light "
          "dark\"><title>Plan of ",
          out);
    lzt__html_text(out, plan->model_name);
    fputs("</title>\n<style>" LZT__PLAN_HTML_STYLE "</style></head>\n<body><main>\n<header><h1>", out);
    lzt__html_text(out, plan->model_name);
    fputs("</h1>\n<p>", out);
    if (plan->problem) {
        const lzt_plan_source *s = &plan->source;
        fprintf(out,
                "%" PRIu64 " layers · batch %" PRIu64 " × %" PRIu64 " tokens · %s by %s in %.3g ms · bound %.5f ms",
                plan->layer_count, s->batch_size, s->max_seq_len, lzt_plan_status_name(plan->status), plan->solver,
                plan->solve_seconds * 1e3, lzt_ms(plan->bound_ps));
        if (s->world_size) fprintf(out, " · rank %" PRIu64 " of %" PRIu64, s->rank, s->world_size);
    } else {
        fprintf(out, "%" PRIu64 " layers · micro-batches of %" PRIu64 " tokens · ", plan->layer_count,
                plan->numerics.micro_batch_tokens);
        if (plan->step)
            fprintf(out, "%s, simulated in %.3g s · bound %.3f ms", lzt_plan_status_name(plan->status),
                    plan->solve_seconds, lzt_ms(plan->bound_ps));
        else
            fputs("compiled step", out);
    }
    fputs("</p></header>\n", out);
}

/* The plan's own table as text: every figure of the page can be read there too. */
static lzt_status put_table(FILE *out, const lzt_plan *plan, lzt_error *err)
{
    char *text = NULL;
    lzt_status status = plan->problem ? lzt_plan_table(plan, &text, err) : lzt_plan_explain(plan, &text, err);
    if (status) return status;
    fputs("<section><details><summary>The plan as a table</summary><pre>", out);
    lzt__html_text(out, text);
    fputs("</pre></details></section>\n", out);
    free(text);
    return LZT_OK;
}

static lzt_status put_page(FILE *out, const lzt_plan *plan, const lzt_plan_sweep *sweep, uint64_t sweep_count,
                           lzt_error *err)
{
    lzt_evaluation e;
    lzt_status status = lzt_plan_check(plan, NULL, NULL, &e, err);
    if (status) return status;
    put_head(out, plan);
    put_tiles(out, plan, &e);
    if (e.violation_count)
        fprintf(out, "<p class=\"bad\">This plan breaks %" PRIu64 " constraints: lazytrain check names them.</p>\n",
                e.violation_count);
    put_map(out, plan);
    if (plan->problem) {
        put_budgets(out, plan, &e);
        status = put_pools(out, plan, &e, err);
        put_sweeps(out, plan, sweep, sweep_count);
    }
    if (plan->step) lzt__plan_html_step(out, plan);
    if (!status) status = put_table(out, plan, err);
    fprintf(out, "<footer>lazytrain %s</footer>\n</main></body></html>\n", lzt_version());
    return status;
}

lzt_status lzt_plan_print_html(const lzt_plan *plan, const lzt_plan_sweep *sweep, uint64_t sweep_count, char **text,
                               lzt_error *err)
{
    size_t bytes = 0;
    *text = NULL;
    FILE *out = open_memstream(text, &bytes);
    if (!out) return lzt_fail(err, LZT_ERR_NO_MEMORY, "html", "no memory for the page");
    lzt_status status = put_page(out, plan, sweep, sweep_count, err);
    bool is_bad = ferror(out) != 0;
    is_bad |= fclose(out) != 0;
    if (!status && is_bad) status = lzt_fail(err, LZT_ERR_NO_MEMORY, "html", "no memory for the page");
    if (status) {
        free(*text);
        *text = NULL;
    }
    return status;
}

lzt_status lzt_plan_write_html(const lzt_plan *plan, const lzt_plan_sweep *sweep, uint64_t sweep_count,
                               const char *path, lzt_error *err)
{
    char *text;
    lzt_status status = lzt_plan_print_html(plan, sweep, sweep_count, &text, err);
    if (!status) status = lzt__os_write_file_atomic(lzt__os_posix(), path, text, strlen(text), err);
    free(text);
    return status;
}
