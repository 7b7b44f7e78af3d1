/* lazytrain check: verify a plan against its own budgets and constraints, independently of the planner. */
#include "cli/commands.h"
#include "cli/talk.h"
#include "lazytrain/plan.h"

#include <string.h>

static const lzt_option options[] = {
    {.name = "PLAN", .type = LZT_OPTION_PATH, .required = true, .help = "the plan.json to check"},
    {.name = "model",
     .argument = "PATH",
     .type = LZT_OPTION_PATH,
     .help = "also check that the plan belongs to this model directory or config.json"},
    LZT_OPTION_JSON,
};

static void collect(void *arg, const char *line)
{
    json_array_append_new(arg, json_string(line));
}

/* A plan for another model is a violation, not an error of the check. */
static lzt_status check_model(const char *path, const lzt_plan *plan, json_t *violations, lzt_error *err)
{
    lzt_model *model;
    lzt_error why = {0};
    if (!path) return LZT_OK;
    lzt_status status = lzt_model_open(path, LZT_MODEL_CONFIG_ONLY, &model, err);
    if (status) return status;
    if (lzt_plan_match(plan, lzt_model_get_info(model), &why)) {
        char line[1600];
        snprintf(line, sizeof line, "%s: %s", why.where, why.message);
        collect(violations, line);
    }
    lzt_model_close(model);
    return LZT_OK;
}

static json_t *answer(const lzt_plan *plan, const lzt_evaluation *e, json_t *violations)
{
    json_t *objective = plan->problem ? json_real(lzt_ms(e->objective_ps)) : json_null();
    json_t *stated = plan->status ? json_real(lzt_ms(plan->objective_ps)) : json_null();
    return json_pack("{s:b, s:o, s:o, s:O, s:{s:I, s:I, s:I, s:I, s:I}}", "valid", json_array_size(violations) == 0,
                     "objective_ms", objective, "stated_objective_ms", stated, "violations", violations, "counts",
                     "gpu", (json_int_t)e->count[0], "cpu", (json_int_t)e->count[1], "nvme", (json_int_t)e->count[2],
                     "recomputed", (json_int_t)e->count[3], "blocks", (json_int_t)e->block_count);
}

static void print_answer(const char *path, const lzt_plan *plan, const lzt_evaluation *e, const json_t *violations)
{
    size_t count = json_array_size(violations);
    for (size_t i = 0; i < count; i++) printf("%s: %s\n", path, json_string_value(json_array_get(violations, i)));
    printf("%s: %s", path, count ? "not valid" : "valid");
    if (plan->problem) printf(", objective %.5f ms", lzt_ms(e->objective_ps));
    if (plan->problem && plan->status && plan->objective_ps != e->objective_ps)
        printf(" (the file states %.5f: it was edited after it was solved)", lzt_ms(plan->objective_ps));
    putchar('\n');
}

static lzt_status check(const lzt_args *args, const lzt_plan *plan, json_t *violations, lzt_error *err)
{
    const char *path = lzt_args_text(args, "PLAN");
    lzt_evaluation e;
    lzt_status status = lzt_plan_check(plan, collect, violations, &e, err);
    if (!status) status = check_model(lzt_args_text(args, "model"), plan, violations, err);
    if (status) return status;
    if (lzt_args_flag(args, "json"))
        status = lzt_talk_json(answer(plan, &e, violations), err);
    else
        print_answer(path, plan, &e, violations);
    size_t count = json_array_size(violations);
    if (status || !count) return status;
    return lzt_fail(err, LZT_ERR_USAGE, path, "the plan breaks %zu constraint%s: %s", count, count > 1 ? "s" : "",
                    json_string_value(json_array_get(violations, 0)));
}

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    lzt_plan plan;
    lzt_status status = lzt_plan_read(lzt_args_text(args, "PLAN"), &plan, err);
    if (status) return status;
    json_t *violations = json_array();
    status = check(args, &plan, violations, err);
    json_decref(violations);
    lzt_plan_fini(&plan);
    return status;
}

const lzt_command lzt_command_check = {
    .name = "check",
    .summary = "verify a plan against its budgets and constraints",
    .example = "lazytrain check plan.json\nlazytrain check plan.json --model Qwen3.6-27B --json",
    .details = "The checker is code of its own: it knows the constraints, not how plans are found, and works in exact "
               "integers. A plan may have been edited by hand. Exit 2 when a constraint is broken.",
    .option = options,
    .option_count = LZT_COUNT(options),
    .run = run};
