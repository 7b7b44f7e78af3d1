/* The real step on a plan's page: where its time goes, what each lane does in each window, layer by layer, and what
 * each memory holds. The figures are those of `lazytrain explain`. */
#include "base/units.h"
#include "plan/plan_html_chart.h"

#include <inttypes.h>
#include <math.h>

enum { ROW = 30, BAR = 20, LAYERS = 150 };

static const char *const lane_class[LZT_STEP_LANE_COUNT] = {"gpu", "nvme", "cpu", "again"};
static const char *const lane_label[LZT_STEP_LANE_COUNT] = {"compute", "up", "down", "host"};

/* A bar from left on; returns its end. */
static double put_span(FILE *out, double left, double width, double y, const char *cls, const char *name, double ms)
{
    if (width <= 0) return left;
    fprintf(out,
            "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\"><title>%s: %.3f ms</title></rect>\n",
            cls, left, y, width, BAR, name, ms);
    return left + width;
}

/* Compute at work, then what it waits for. */
static void put_where(FILE *out, const lzt_plan *plan)
{
    static const char *const cls[] = {"gpu", "nvme", "cpu", "again", "exposed"};
    static const char *const name[] = {"compute at work", "waiting for uploads", "waiting for downloads",
                                       "waiting for the host", "other"};
    double all = lzt_ms(plan->objective_ps), rest = all, room = LZT__CHART_WIDTH - LZT__CHART_LEFT - LZT__CHART_RIGHT;
    double left = LZT__CHART_LEFT;
    if (!(all > 0)) return;
    fputs("<section><h2>Where the step's time goes</h2>\n<p>Simulated from ", out);
    fprintf(out, "the profile's times; no plan under these caps takes less than %.3f ms.</p>\n",
            lzt_ms(plan->bound_ps));
    lzt__chart_legend(out, cls, name, 5);
    lzt__chart_begin(out, LZT__CHART_WIDTH, BAR + 26, "Parts of the step");
    for (int i = 0; i <= LZT_STEP_LANE_COUNT; i++) {
        double ms = i < LZT_STEP_LANE_COUNT ? lzt_ms(plan->step->waits_ps[i]) : fmax(0, rest);
        rest -= ms;
        left = put_span(out, left, room * ms / all, 2, cls[i], name[i], ms);
    }
    fprintf(out, "<text class=\"lane\" x=\"%d\" y=\"17\">step</text>", LZT__CHART_LEFT - 10);
    double step = lzt__chart_tick_step(all, 10);
    for (double v = 0; v <= all * 1.001; v += step)
        fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\">%.6g ms</text>", LZT__CHART_LEFT + room * v / all,
                BAR + 20, v);
    fputs("\n</svg></section>\n", out);
}

/* Eight bars: each lane's work in forward and in backward. */
static void put_lanes(FILE *out, const lzt_plan *plan, const lzt_step_sum *sum)
{
    double most = 1e-9, room = LZT__CHART_WIDTH - LZT__CHART_LEFT - LZT__CHART_RIGHT - 130;
    for (int w = 0; w < LZT_STEP_WINDOW_COUNT; w++)
        for (int lane = 0; lane < LZT_STEP_LANE_COUNT; lane++) most = fmax(most, lzt_ms(sum->window_ps[w][lane]));
    fputs("<section><h2>What each lane does in each window</h2>\n<p>The longest lane of a window is the one that "
          "binds; the others "
          "have slack. Darker: what no placement changes.</p>\n",
          out);
    for (int w = 0; w < LZT_STEP_WINDOW_COUNT; w++) {
        fprintf(out, "<h3>%s</h3>\n", w ? "Backward" : "Forward");
        lzt__chart_begin(out, LZT__CHART_WIDTH, LZT_STEP_LANE_COUNT * ROW, w ? "Backward" : "Forward");
        for (int lane = 0; lane < LZT_STEP_LANE_COUNT; lane++) {
            double ms = lzt_ms(sum->window_ps[w][lane]), fixed = lzt_ms(plan->step->fixed_ps[w][lane]),
                   y = lane * ROW + 2;
            fprintf(out, "<text class=\"lane\" x=\"%d\" y=\"%.0f\">%s</text>", LZT__CHART_LEFT - 10, y + 15,
                    lane_label[lane]);
            fprintf(out, "<rect class=\"track\" x=\"%d\" y=\"%.0f\" width=\"%.1f\" height=\"%d\" rx=\"4\"/>",
                    LZT__CHART_LEFT, y, room, BAR);
            put_span(out, LZT__CHART_LEFT, room * ms / most, y, lane_class[lane], lane_label[lane], ms);
            fprintf(out, "<rect class=\"shade\" x=\"%d\" y=\"%.0f\" width=\"%.2f\" height=\"%d\"/>", LZT__CHART_LEFT, y,
                    room * fmin(ms, fixed) / most, BAR);
            fprintf(out, "<text class=\"value\" x=\"%.1f\" y=\"%.0f\">%.3f ms</text>\n", LZT__CHART_LEFT + room + 10,
                    y + 15, ms);
        }
        fputs("</svg>\n", out);
    }
    fputs("</section>\n", out);
}

/* One layer's work in one window, in ms. */
typedef struct share {
    double compute, up, down;
} share;

static bool internals_leave(const lzt_plan *plan, uint64_t l)
{
    return plan->internals[l] == LZT_TIER_CPU || plan->internals[l] == LZT_TIER_NVME;
}

static share forward_of(const lzt_plan *plan, uint64_t l)
{
    const lzt_step_layer *x = &plan->step->layer[l];
    bool leaves = l + 1 < plan->layer_count && plan->boundary[l + 1] == LZT_TIER_CPU;
    uint64_t down = (leaves ? plan->step->boundary_down_ps : 0) + (internals_leave(plan, l) ? x->internals_down_ps : 0);
    return (share){lzt_ms(x->forward_ps), lzt_ms(x->upload_ps), lzt_ms(down)};
}

static share backward_of(const lzt_plan *plan, uint64_t l)
{
    const lzt_step_layer *x = &plan->step->layer[l];
    uint64_t compute = x->backward_ps + (plan->internals[l] == LZT_TIER_RECOMPUTE ? x->again_ps : 0);
    bool moved = plan->boundary[l] == LZT_TIER_CPU || plan->boundary[l] == LZT_TIER_NVME;
    bool back = moved || (!l && plan->boundary[l] == LZT_TIER_RECOMPUTE);
    if (l + 1 < plan->layer_count && plan->boundary[l + 1] == LZT_TIER_RECOMPUTE) compute += x->recompute_ps;
    uint64_t up = (plan->weights[l] ? 0 : x->upload_ps) + (back ? plan->step->boundary_up_ps : 0);
    if (internals_leave(plan, l)) up += x->internals_up_ps;
    return (share){lzt_ms(compute), lzt_ms(up), lzt_ms(x->gradient_ps)};
}

static void put_tick(FILE *out, const lzt_plan *plan, const lzt__scale *s, uint64_t l, double ms, const char *cls)
{
    double half = lzt__chart_cell(plan) / 2, x = lzt__chart_x(plan, (double)l + 0.5), y = lzt__scale_y(s, ms);
    if (ms > 0)
        fprintf(out, "<line class=\"%s\" x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\"/>", cls, x - half, y, x + half,
                y);
}

static void put_layer_window(FILE *out, const lzt_plan *plan, share (*of)(const lzt_plan *, uint64_t),
                             const char *title)
{
    double most = 1e-9;
    for (uint64_t l = 0; l < plan->layer_count; l++) {
        share at = of(plan, l);
        most = fmax(most, fmax(at.compute, fmax(at.up, at.down)));
    }
    const lzt__scale s = {12, LAYERS - 20, most * 1.08};
    fprintf(out, "<h3>%s</h3>\n", title);
    lzt__chart_begin(out, LZT__CHART_WIDTH, LAYERS, title);
    lzt__chart_grid(out, &s, LZT__CHART_LEFT, LZT__CHART_WIDTH - LZT__CHART_RIGHT, " ms");
    for (uint64_t l = 0; l < plan->layer_count; l++) {
        share at = of(plan, l);
        double y = lzt__scale_y(&s, at.compute);
        fprintf(out,
                "<g><title>layer %" PRIu64
                ": compute %.3f ms, up %.3f, down %.3f</title><rect class=\"gpu faint\" x=\"%.2f\" "
                "y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>",
                l, at.compute, at.up, at.down, lzt__chart_x(plan, (double)l + 0.5) - lzt__chart_cell(plan) / 2, y,
                lzt__chart_cell(plan), s.bottom - y);
        put_tick(out, plan, &s, l, at.up, "up");
        put_tick(out, plan, &s, l, at.down, "down");
        fputs("</g>\n", out);
    }
    lzt__chart_axis(out, plan, LAYERS - 4);
    fputs("</svg>\n", out);
}

static void put_layers(FILE *out, const lzt_plan *plan)
{
    static const char *const cls[] = {"gpu", "nvme", "cpu"};
    static const char *const name[] = {"compute", "up: weights, boundaries and internals that return",
                                       "down: boundaries and internals that leave, gradients"};
    fputs("<section><h2>Layer by layer</h2>\n<p>Of a micro-batch. A line above its bar is traffic that this layer's "
          "compute cannot "
          "hide alone.</p>\n",
          out);
    lzt__chart_legend(out, cls, name, 3);
    put_layer_window(out, plan, forward_of, "Forward");
    put_layer_window(out, plan, backward_of, "Backward");
    fputs("</section>\n", out);
}

static void put_memory(FILE *out, const lzt_plan *plan)
{
    static const char *const names[LZT_STEP_MEMORY_COUNT] = {"device", "host"}, *const cls[] = {"gpu", "cpu"};
    const uint64_t peak[LZT_STEP_MEMORY_COUNT] = {plan->device_bytes, plan->host_bytes};
    double room = LZT__CHART_WIDTH - LZT__CHART_LEFT - LZT__CHART_RIGHT - 260;
    fputs("<section><h2>How full each memory is</h2>\n<p>The compiled program's peak, of the cap.</p>\n", out);
    lzt__chart_begin(out, LZT__CHART_WIDTH, LZT_STEP_MEMORY_COUNT * ROW + 4, "Memory");
    for (int k = 0; k < LZT_STEP_MEMORY_COUNT; k++) {
        char used[LZT_UNITS_TEXT], cap[LZT_UNITS_TEXT];
        uint64_t limit = plan->step->cap_bytes[k];
        double full = limit ? fmin(1, (double)peak[k] / (double)limit) : 1;
        int y = 2 + k * ROW;
        fprintf(out, "<text class=\"lane\" x=\"%d\" y=\"%d\">%s</text>", LZT__CHART_LEFT - 10, y + 15, names[k]);
        fprintf(out, "<rect class=\"track\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"4\"/>", LZT__CHART_LEFT,
                y, room, BAR);
        fprintf(out, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"4\"/>", cls[k],
                LZT__CHART_LEFT, y, room * full, BAR);
        fprintf(out, "<text class=\"value\" x=\"%.1f\" y=\"%d\">%s of %s</text>\n", LZT__CHART_LEFT + room + 12, y + 15,
                lzt__units_format_bytes(peak[k], used), limit ? lzt__units_format_bytes(limit, cap) : "no cap");
    }
    fputs("</svg></section>\n", out);
}

void lzt__plan_html_step(FILE *out, const lzt_plan *plan)
{
    lzt_step_sum sum;
    lzt_step_model_sum(plan->step, plan->boundary, plan->internals, plan->weights, &sum);
    put_where(out, plan);
    put_memory(out, plan);
    put_lanes(out, plan, &sum);
    put_layers(out, plan);
}
