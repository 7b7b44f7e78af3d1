/* Shared pieces of the page's charts: see plan_html_chart.h. */
#include "plan/plan_html_chart.h"

#include <math.h>

double lzt__chart_x(const lzt_plan *plan, double i)
{
    return LZT__CHART_LEFT +
           (i + 0.5) * (LZT__CHART_WIDTH - LZT__CHART_LEFT - LZT__CHART_RIGHT) / (double)(plan->layer_count + 1);
}

double lzt__chart_cell(const lzt_plan *plan)
{
    double width = (double)(LZT__CHART_WIDTH - LZT__CHART_LEFT - LZT__CHART_RIGHT) / (double)(plan->layer_count + 1);
    return width > 6 ? width - 2 : width > 2 ? width - 0.6 : width;
}

double lzt__chart_tick_step(double most, int count)
{
    double raw = most / count, power = pow(10, floor(log10(raw))), step = raw / power;
    return (step <= 1 ? 1 : step <= 2 ? 2 : step <= 5 ? 5 : 10) * power;
}

void lzt__chart_axis(FILE *out, const lzt_plan *plan, double y)
{
    double step = fmax(1, lzt__chart_tick_step((double)plan->layer_count, 16));
    for (double i = 0; i <= (double)plan->layer_count; i += step)
        fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\">%.0f</text>", lzt__chart_x(plan, i), y, i);
    fputc('\n', out);
}

void lzt__chart_begin(FILE *out, int width, int height, const char *label)
{
    fprintf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", width, height, label);
}

void lzt__chart_legend(FILE *out, const char *const *cls, const char *const *name, int count)
{
    fputs("<p class=\"legend\">", out);
    for (int i = 0; i < count; i++) fprintf(out, "<span><i class=\"%s\"></i>%s</span>", cls[i], name[i]);
    fputs("</p>\n", out);
}

double lzt__scale_y(const lzt__scale *s, double value)
{
    return s->bottom - (s->bottom - s->top) * value / s->most;
}

void lzt__chart_grid(FILE *out, const lzt__scale *s, double left, double right, const char *unit)
{
    double step = lzt__chart_tick_step(s->most, 3);
    for (double v = 0; v <= s->most * 1.001; v += step)
        fprintf(out,
                "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/><text class=\"lane\" x=\"%.1f\" "
                "y=\"%.1f\">%.6g%s</text>\n",
                left, lzt__scale_y(s, v), right, lzt__scale_y(s, v), left - 10, lzt__scale_y(s, v) + 4, v, unit);
}
