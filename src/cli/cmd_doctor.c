/* lazytrain doctor: names what would fail before step 1, and the way out. */
#include "cli/commands.h"
#include "cli/doctor.h"
#include "cli/talk.h"

#include <stdio.h>
#include <string.h>

static const lzt_option options[] = {
    {.name = "CONFIG",
     .type = LZT_OPTION_PATH,
     .help = "the config of the run to come; without one the machine alone is looked at"},
    LZT_OPTION_JSON,
};

static const char *verdict_name(lzt_verdict verdict)
{
    static const char *const names[] = {"ok", "warn", "fail"};
    return names[verdict];
}

static lzt_status print_json(const lzt_checks *checks, lzt_error *err)
{
    json_t *list = json_array();
    for (int i = 0; i < checks->count; i++) {
        const lzt_check *c = &checks->check[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "name", c->name, "status",
                                              verdict_name(c->verdict), "detail", c->detail, "fix", c->fix));
    }
    return lzt_talk_json(json_pack("{s:o}", "checks", list), err);
}

static void print_text(const lzt_checks *checks)
{
    static const char *const color[] = {"\033[32m", "\033[33m", "\033[31m"};
    bool use_color = lzt_talk_use_color(stdout);
    for (int i = 0; i < checks->count; i++) {
        const lzt_check *c = &checks->check[i];
        printf("%s%-4s%s  %-12s  %s\n", use_color ? color[c->verdict] : "", verdict_name(c->verdict),
               use_color ? "\033[0m" : "", c->name, c->detail);
        if (c->fix[0]) printf("%20sfix: %s\n", "", c->fix);
    }
}

/* The first check that would end a run gives the exit code. */
static lzt_status judge(const lzt_checks *checks, lzt_error *err)
{
    int failed = 0;
    const lzt_check *first = NULL;
    for (int i = 0; i < checks->count; i++) {
        if (checks->check[i].verdict != LZT_VERDICT_FAIL) continue;
        if (!first) first = &checks->check[i];
        failed++;
    }
    if (!first) return LZT_OK;
    lzt_fail(err, first->status, "doctor", "%d of %d checks would stop a run; the first is %s: %s", failed,
             checks->count, first->name, first->detail);
    return lzt_hint(err, "%s", first->fix);
}

static lzt_status check_config(const lzt_args *args, lzt_needs *needs, lzt_checks *checks, lzt_config *config,
                               lzt_error *err)
{
    int count;
    const char *path = lzt_args_text(args, "CONFIG");
    const lzt_config_override *given = lzt_args_overrides(args, &count);
    lzt_status status = lzt_config_load_to_plan(path, given, count, config, err);
    if (!status) status = lzt_config_require(config, "model_name_or_path", err);
    if (!status) status = lzt_config_require(config, "dataset", err);
    if (!status) status = lzt_config_require(config, "output_dir", err);
    if (status) return status;
    lzt_session session = {.config = config};
    lzt_doctor_config(path, given, count, &session, needs, checks);
    lzt_session_close(&session);
    return LZT_OK;
}

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    lzt_config config = {0};
    lzt_checks checks = {0};
    lzt_needs needs = {0};
    lzt_status status = LZT_OK;
    if (lzt_args_given(args, "CONFIG")) status = check_config(args, &needs, &checks, &config, err);
    if (!status) {
        lzt_doctor_machine(lzt__facts_system(), &needs, &checks);
        if (lzt_args_flag(args, "json"))
            status = print_json(&checks, err);
        else
            print_text(&checks);
    }
    if (!status) status = judge(&checks, err);
    lzt_config_fini(&config);
    return status;
}

const lzt_command lzt_command_doctor = {
    .name = "doctor",
    .summary = "name what would fail before step 1, and the way out",
    .example = "lazytrain doctor config.yaml\nlazytrain doctor --json",
    .details =
        "Looks at the limit on locked memory, the memory, disk space, tmpfs, O_DIRECT, owners, locks, io_uring, "
        "the clock and GPUDirect Storage; with a config also at the config, the model's files, the rows and the "
        "plan, and at what these need of the machine. Keys of the config can be overridden as for train. Nothing "
        "is left behind.\n\n"
        "A check is ok, warn (a run would start) or fail (a run would not reach step 1). The exit code is that of "
        "the first failed check, the same that train would end with: 2 config, 3 memory, 4 data, 5 model, "
        "6 storage; else 0.",
    .option = options,
    .option_count = LZT_COUNT(options),
    .overrides = true,
    .run = run};
