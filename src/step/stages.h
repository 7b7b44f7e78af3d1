/* A micro-batch as a row of stages, and what each of them needs brought to the device. Pure functions of the plan.
 *
 *     FORWARD 0 .. N-1, HEAD, then per block (s, e) from the last to the first: RECOMPUTE s .. e-2, BACKWARD e-1 .. s
 *
 * A block runs from a kept boundary s to the next kept one, e; RECOMPUTE l rebuilds boundary l+1. A block from boundary
 * 0 may begin with its rows gathered anew.
 */
#ifndef LZT_STEP_STAGES_H
#define LZT_STEP_STAGES_H

#include "lazytrain/plan.h"

typedef enum lzt_stage_kind {
    LZT_STAGE_FORWARD,
    LZT_STAGE_HEAD,
    LZT_STAGE_RECOMPUTE,
    LZT_STAGE_BACKWARD
} lzt_stage_kind;

typedef struct lzt_stage {
    lzt_stage_kind kind;
    uint32_t layer;
} lzt_stage;

typedef enum lzt_upload_kind {
    LZT_UPLOAD_UNIT,
    LZT_UPLOAD_BOUNDARY,
    LZT_UPLOAD_EMBEDDED, /* boundary 0, from the batch's ids once more */
    LZT_UPLOAD_INTERNALS /* the next pieces of a layer's, from the host */
} lzt_upload_kind;

typedef struct lzt_upload {
    lzt_upload_kind kind;
    uint32_t index;      /* unit, boundary or layer */
    uint32_t need_stage; /* the first stage that uses it, or, of internals in pieces, under which they have to come */
} lzt_upload;

typedef struct lzt_stage_list {
    lzt_stage *stage;
    lzt_upload *upload; /* in order of need */
    uint32_t stage_count, upload_count;
} lzt_stage_list;

/* training false: forward and head only. weights_present: kept weights (and a kept head) are on the device already. */
lzt_status lzt__stages_create(const lzt_plan *plan, const lzt_model_info *model, bool training, bool weights_present,
                              lzt_stage_list *list, lzt_error *err);
void lzt__stages_fini(lzt_stage_list *list);

#endif
