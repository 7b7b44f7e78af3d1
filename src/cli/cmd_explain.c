/* lazytrain explain: a plan as tables that a person can check by hand. */
#include "cli/commands.h"
#include "cli/talk.h"
#include "lazytrain/plan.h"

#include <stdlib.h>

static const lzt_option options[] = {
    {.name = "PLAN", .type = LZT_OPTION_PATH, .required = true, .help = "the plan.json to read"},
};

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    lzt_plan plan;
    char *text = NULL;
    lzt_status status = lzt_plan_read(lzt_args_text(args, "PLAN"), &plan, err);
    if (status) return status;
    status = lzt_plan_explain(&plan, &text, err);
    if (!status) fputs(text, stdout);
    free(text);
    lzt_plan_fini(&plan);
    return status;
}

const lzt_command lzt_command_explain = {
    .name = "explain",
    .summary = "print a plan: placement, pools, windows",
    .example = "lazytrain explain plan.json",
    .details = "Prints the inputs and result of the plan, the boundaries of each tier, how full each budget is, the "
               "blocks that run layers again, and what every window of every pool carries.",
    .option = options,
    .option_count = LZT_COUNT(options),
    .run = run};
