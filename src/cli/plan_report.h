/* A plan's HTML page with its sweeps: what plan --html and explain --html write. */
#ifndef LZT_CLI_PLAN_REPORT_H
#define LZT_CLI_PLAN_REPORT_H

#include "lazytrain/plan.h"

/* Solves the plan's own problem under other budgets of each tier (some seconds at most), and writes path. Errors: those
 * of lzt_plan_write_html and of the solver. */
lzt_status lzt_plan_report(const lzt_plan *plan, const char *path, lzt_error *err);

#endif
