/* lazytrain explain: a plan as tables that a person can check by hand. */
#include "cli/commands.h"
#include "cli/explain_objects.h"
#include "cli/plan_report.h"
#include "cli/talk.h"

#include <stdio.h>
#include <stdlib.h>

static const lzt_option options[] = {
    {.name = "PLAN", .type = LZT_OPTION_PATH, .required = true, .help = "the plan.json to read"},
    {.name = "html",
     .argument = "FILE",
     .type = LZT_OPTION_PATH,
     .help = "write the plan as an HTML page instead: boundaries by tier, pools over windows, other budgets"},
    {.name = "objects",
     .help = "compile the plan and print each object's life: who makes it, who needs it when, where it is meanwhile, "
             "when its memory is free"},
    {.name = "model",
     .argument = "PATH",
     .type = LZT_OPTION_PATH,
     .help = "with --objects: the model directory or config.json; else the plan's own word for it"},
    {.name = "micro-batches",
     .argument = "N",
     .type = LZT_OPTION_UINT,
     .fallback = "1",
     .help = "with --objects: micro-batches of a step"},
    {.name = "json", .help = "with --objects: print one JSON document on standard output"},
};

static lzt_status explain_objects(const lzt_args *args, const lzt_plan *plan, lzt_error *err)
{
    const lzt_objects_options o = {.model = lzt_args_text(args, "model"),
                                   .micro_batches = lzt_args_uint(args, "micro-batches"),
                                   .json = lzt_args_flag(args, "json")};
    if (!o.micro_batches) return lzt_fail(err, LZT_ERR_USAGE, "--micro-batches", "a step has at least one");
    return lzt_explain_objects(plan, &o, err);
}

/* Options without effect are errors. */
static lzt_status check_options(const lzt_args *args, lzt_error *err)
{
    static const char *const names[] = {"model", "micro-batches", "json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (lzt_args_given(args, names[i]) && !lzt_args_flag(args, "objects"))
            return lzt_fail(err, LZT_ERR_USAGE, "explain", "--%s belongs to --objects", names[i]);
    if (lzt_args_given(args, "html") && lzt_args_flag(args, "objects"))
        return lzt_fail(err, LZT_ERR_USAGE, "explain", "--html and --objects are two answers: ask for one");
    return LZT_OK;
}

static lzt_status show(const lzt_args *args, const lzt_plan *plan, lzt_error *err)
{
    char *text = NULL;
    lzt_status status;
    if (lzt_args_given(args, "html")) {
        status = lzt_plan_report(plan, lzt_args_text(args, "html"), err);
        if (!status) printf("%s\n", lzt_args_text(args, "html"));
        return status;
    }
    status = lzt_plan_explain(plan, &text, err);
    if (!status) fputs(text, stdout);
    free(text);
    return status;
}

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    lzt_plan plan;
    const char *path = lzt_args_text(args, "PLAN");
    lzt_status status = check_options(args, err);
    if (!status) status = lzt_plan_read(path, &plan, err);
    if (status) return status;
    /* A plan that may not run is shown, so that its fault is seen, and refused; there is no step of it to follow. */
    bool objects = lzt_args_flag(args, "objects");
    if (!objects) status = show(args, &plan, err);
    if (!status) status = lzt_plan_require(&plan, path, err);
    if (!status && objects) status = explain_objects(args, &plan, err);
    lzt_plan_fini(&plan);
    return status;
}

const lzt_command lzt_command_explain = {
    .name = "explain",
    .summary = "print a plan: placement, pools, windows, objects",
    .example = "lazytrain explain plan.json\nlazytrain explain out/plan.json --objects\n"
               "lazytrain explain plan.json --html plan.html",
    .details = "Prints the inputs and result of the plan, the boundaries of each tier, how full each budget is, the "
               "blocks that run layers again, and what every window of every pool carries.\n\n"
               "With --objects the plan is compiled, and every object of the step is followed: a boundary that goes to "
               "the host and comes back is one object in three places. The sums at the end are what a run counts: "
               "bytes on each link, peaks, layer forwards.\n\n"
               "A plan that breaks a constraint is printed all the same, and the exit is 2.",
    .option = options,
    .option_count = LZT_COUNT(options),
    .run = run};
