/* Names that the plan's reader and writer share. */
#ifndef LZT_PLAN_PLAN_JSON_H
#define LZT_PLAN_PLAN_JSON_H

#include "lazytrain/plan.h"
#include "profile/json_read.h"

#include <stdio.h>

#define LZT__PLAN_FORMAT "lazytrain-plan"

/* The top-level keys, in order of writing; a trailing '?' marks those that a plan may lack. The last two lines are
 * derived from the others when a plan is written, and ignored when it is read. */
#define LZT__PLAN_KEYS                                                                                                 \
    "format version model numerics boundaries internals? internals_cpu? internals_nvme? weights? head_weights? "       \
    "prefetch_layers? gradient_slots? internals_stages? state? planned? status? limit? solver? objective_ms? "         \
    "bound_ms? solve_seconds? source? problem? "                                                                       \
    "step? "                                                                                                           \
    "gap? counts? recompute_ms? exposed_ms? tiebreak_ms? penalty_ms? transfer_ms? used_bytes? window_total_bytes? "    \
    "mandatory_total_bytes? advice?"

/* Where a unit that is no decoder layer stands in `state`. */
#define LZT__STATE_EMBEDDING  "embedding"
#define LZT__STATE_FINAL_NORM "final_norm"
#define LZT__STATE_HEAD       "head"

/* Below this, milliseconds survive the way through a double to the last picosecond. */
#define LZT__PLAN_MS_MAX 2e6

/* plan_write.c: picoseconds as milliseconds, to the last digit; a list of numbers, twelve a line; a JSON string. */
void lzt__plan_put_ms(FILE *out, uint64_t ps);
void lzt__plan_put_array(FILE *out, const char *indent, const uint64_t *value, uint64_t count, bool is_ms);
void lzt__plan_put_text(FILE *out, const char *text);
/* "[0, 3]": where set[] is true; what lies at the tier; whether anything does. */
void lzt__plan_put_set(FILE *out, const bool *set, uint64_t count);
void lzt__plan_put_at(FILE *out, const lzt_tier *at, uint64_t count, lzt_tier tier);
bool lzt__plan_any_at(const lzt_tier *at, uint64_t count, lzt_tier tier);
/* plan_read.c: the way back. */
uint64_t lzt__plan_member_ps(const lzt__json_node *node, const char *key, double max_ms);
void lzt__plan_read_numbers(const lzt__json_node *list, uint64_t *value, uint64_t count, bool is_ms);

/* step_model_json.c: `step`. put ends without a comma. read takes the whole plan's root. */
lzt_status lzt__plan_put_step(FILE *out, const lzt_step_model *step, lzt_error *err);
lzt_status lzt__plan_read_step(const lzt__json_node *root, lzt_plan *plan, lzt_error *err);

/* explain_step.c: what a person needs to add up a plan of the real step. */
void lzt__plan_explain_step(FILE *out, const lzt_plan *plan);

/* The lower-case names of the two computing dtypes. */
static inline const char *lzt__plan_dtype_name(lzt_dtype dtype)
{
    return dtype == LZT_DTYPE_BF16 ? "bf16" : "f32";
}

#endif
