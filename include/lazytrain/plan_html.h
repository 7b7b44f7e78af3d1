/* A plan as one HTML page: the map of its boundaries by tier, its pools over the windows, and what other budgets would
 * give. Inline SVG and CSS, light and dark, no script; nothing is loaded from anywhere.
 *
 *     lzt_plan_write_html(&plan, sweeps, 3, "plan.html", &err);
 *
 * Threads: pure but for the file.
 */
#ifndef LAZYTRAIN_PLAN_HTML_H
#define LAZYTRAIN_PLAN_HTML_H

#include "lazytrain/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The same problem under another budget. */
typedef struct lzt_sweep_point {
    uint64_t budget_bytes;
    bool has_plan; /* false: nothing fits, and evaluation is empty */
    lzt_evaluation evaluation;
} lzt_sweep_point;

typedef struct lzt_plan_sweep {
    lzt_tier tier;          /* whose budget is varied */
    lzt_sweep_point *point; /* [point_count] by rising budget */
    uint64_t point_count;
} lzt_plan_sweep;

/* sweep[sweep_count] may be none. Plans without a problem (those of the step compiler) have the map and no pools.
 * Replaces path atomically. Errors: LZT_ERR_STORAGE, LZT_ERR_NO_MEMORY, LZT_ERR_USAGE (a malformed problem). blocks: on
 * disk */
LZT_EXPORT lzt_status lzt_plan_write_html(const lzt_plan *plan, const lzt_plan_sweep *sweep, uint64_t sweep_count,
                                          const char *path, lzt_error *err);
/* The same to memory: *text is NUL-terminated; the caller frees it. NULL on error. */
LZT_EXPORT lzt_status lzt_plan_print_html(const lzt_plan *plan, const lzt_plan_sweep *sweep, uint64_t sweep_count,
                                          char **text, lzt_error *err);

#ifdef __cplusplus
}
#endif
#endif
