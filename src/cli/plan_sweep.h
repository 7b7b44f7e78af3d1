/* plan --sweep: the same problem under a range of budgets. */
#ifndef LZT_CLI_PLAN_SWEEP_H
#define LZT_CLI_PLAN_SWEEP_H

#include "lazytrain/solve.h"

typedef struct lzt_sweep {
    char tier[8]; /* "cpu", "nvme", "gpu"; "" : no sweep */
    double from, to, step;
} lzt_sweep;

/* "cpu=8:15" or "nvme=0:32:4", in GiB. Errors: LZT_ERR_USAGE. */
lzt_status lzt_sweep_parse(const char *text, lzt_sweep *sweep, lzt_error *err);

/* Prints one table and one plot, or with json an array of rows. Budgets under which nothing fits are rows as well. */
lzt_status lzt_sweep_run(const lzt_sweep *sweep, const lzt_model_info *model, const lzt_source_options *base,
                         const lzt_solve_options *solve, bool json, lzt_error *err);

#endif
