/* plan --topology: one plan a rank, each on its share of the pools that the ranks share. */
#ifndef LZT_CLI_PLAN_RANKS_H
#define LZT_CLI_PLAN_RANKS_H

#include "lazytrain/solve.h"

#include <stdbool.h>

typedef struct lzt_ranks_options {
    const char *topology, *model_name;
    const char *output; /* NULL: nothing is written; "plan.json" becomes plan.rank0.json, ... */
    uint64_t world_size;
    bool json;
    lzt_source_stated stated;
} lzt_ranks_options;

/* Solves every rank, then writes and prints. Nothing is written unless every rank has a plan. Errors: those of the
 * topology; LZT_ERR_NO_PLAN naming the rank. */
lzt_status lzt_ranks_run(const lzt_ranks_options *ranks, const lzt_model_info *model, const lzt_source_options *base,
                         const lzt_solve_options *solve, lzt_error *err);

#endif
