/* explain --objects: the plan compiled, and the life of every object of its step. */
#ifndef LZT_CLI_EXPLAIN_OBJECTS_H
#define LZT_CLI_EXPLAIN_OBJECTS_H

#include "lazytrain/plan.h"

typedef struct lzt_objects_options {
    const char *model;      /* directory or config.json; NULL: the plan's own word for it */
    uint64_t micro_batches; /* of a step, >= 1 */
    bool json;
} lzt_objects_options;

/* Prints each program of a step, how often it runs, and its objects; then the sums, which are a run's counters. Errors:
 * the model's and the compiler's. */
lzt_status lzt_explain_objects(const lzt_plan *plan, const lzt_objects_options *options, lzt_error *err);

#endif
