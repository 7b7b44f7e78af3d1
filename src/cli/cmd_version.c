/* lazytrain version: what this build is. */
#include "cli/commands.h"
#include "cli/talk.h"

static const lzt_option options[] = {LZT_OPTION_JSON};

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    if (lzt_args_flag(args, "json"))
        return lzt_talk_json(json_pack("{s:s, s:s}", "version", lzt_version(), "compiler", __VERSION__), err);
    printf("lazytrain %s\n", lzt_version());
    return LZT_OK;
}

const lzt_command lzt_command_version = {.name = "version",
                                         .summary = "print the version",
                                         .example = "lazytrain version --json",
                                         .option = options,
                                         .option_count = LZT_COUNT(options),
                                         .run = run};
