/* lazytrain config show: a config as it is understood, with the origin of every value. */
#include "cli/commands.h"
#include "cli/talk.h"
#include "lazytrain/config.h"

static const lzt_option options[] = {
    {.name = "CONFIG", .type = LZT_OPTION_PATH, .required = true, .help = "the YAML file"},
};

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    int count;
    const lzt_config_override *overrides = lzt_args_overrides(args, &count);
    lzt_config config;
    lzt_status status = lzt_config_load(lzt_args_text(args, "CONFIG"), overrides, count, &config, err);
    if (status) return status;
    for (uint64_t i = 0; i < config.note.count; i++) lzt_talk("note: %s", config.note.item[i]);
    status = lzt_config_print_resolved(&config, stdout, err);
    lzt_config_fini(&config);
    return status;
}

const lzt_command lzt_command_config_show = {
    .name = "config show",
    .summary = "print a config with the origin of every value",
    .example = "lazytrain config show config.yaml --learning_rate 1e-5",
    .details = "Prints the resolved config as YAML. Options that are not listed here override keys of the config.",
    .option = options,
    .option_count = LZT_COUNT(options),
    .overrides = true,
    .run = run};
