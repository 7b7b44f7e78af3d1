/* What the charts of a plan's page share: one horizontal scale over boundaries, vertical scales, ticks, legends. Used
 * by plan_html.c and plan_html_step.c alone. */
#ifndef LZT_PLAN_PLAN_HTML_CHART_H
#define LZT_PLAN_PLAN_HTML_CHART_H

#include "lazytrain/plan.h"

#include <stdio.h>

enum { LZT__CHART_WIDTH = 960, LZT__CHART_LEFT = 84, LZT__CHART_RIGHT = 12 };

static inline double lzt__chart_gib(uint64_t bytes)
{
    return (double)bytes / 1073741824.0;
}

/* The place of boundary i; layers and windows stand at i + 0.5. */
double lzt__chart_x(const lzt_plan *plan, double i);
/* The width of a mark. */
double lzt__chart_cell(const lzt_plan *plan);
/* 1, 2 or 5 times a power of ten: the step of about count labels up to most, which is above 0. */
double lzt__chart_tick_step(double most, int count);
/* Numbers of boundaries along y. */
void lzt__chart_axis(FILE *out, const lzt_plan *plan, double y);
void lzt__chart_begin(FILE *out, int width, int height, const char *label);
void lzt__chart_legend(FILE *out, const char *const *cls, const char *const *name, int count);

typedef struct lzt__scale {
    double top, bottom, most; /* pixels; the value at the top, above 0 */
} lzt__scale;

double lzt__scale_y(const lzt__scale *scale, double value);
void lzt__chart_grid(FILE *out, const lzt__scale *scale, double left, double right, const char *unit);

/* plan_html_step.c: where the step's time goes, lanes, layers and memory of a plan of the real step. */
void lzt__plan_html_step(FILE *out, const lzt_plan *plan);

#endif
