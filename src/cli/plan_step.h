/* plan --objective step: the real step's planner behind the plan command. */
#ifndef LZT_CLI_PLAN_STEP_H
#define LZT_CLI_PLAN_STEP_H

#include "cli/options.h"
#include "cli/plan_sweep.h"
#include "lazytrain/step_plan.h"

/* Plans as the command's options say; sweep NULL: once. Errors: LZT_ERR_NO_PLAN with what is missing. */
lzt_status lzt_plan_step(const lzt_args *args, const lzt_model_info *model, const lzt_sweep *sweep, lzt_error *err);

#endif
