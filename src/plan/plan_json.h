/* Names that the plan's reader and writer share. */
#ifndef LZT_PLAN_PLAN_JSON_H
#define LZT_PLAN_PLAN_JSON_H

#include "lazytrain/plan.h"

#define LZT__PLAN_FORMAT "lazytrain-plan"

/* The top-level keys, in order of writing; a trailing '?' marks those that a plan may lack. The last two lines are
 * derived from the others when a plan is written, and ignored when it is read. */
#define LZT__PLAN_KEYS                                                                                                 \
    "format version model numerics boundaries internals? weights? head_weights? prefetch_layers? gradient_slots? "     \
    "state? planned? status? solver? objective_ms? bound_ms? solve_seconds? source? problem? "                         \
    "gap? counts? recompute_ms? exposed_ms? tiebreak_ms? penalty_ms? transfer_ms? used_bytes? window_total_bytes? "    \
    "mandatory_total_bytes?"

/* Where a unit that is no decoder layer stands in `state`. */
#define LZT__STATE_EMBEDDING  "embedding"
#define LZT__STATE_FINAL_NORM "final_norm"
#define LZT__STATE_HEAD       "head"

/* The lower-case names of the two computing dtypes. */
static inline const char *lzt__plan_dtype_name(lzt_dtype dtype)
{
    return dtype == LZT_DTYPE_BF16 ? "bf16" : "f32";
}

#endif
