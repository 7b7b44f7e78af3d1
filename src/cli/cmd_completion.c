/* lazytrain completion: the completion script of a shell. */
#include "cli/commands.h"
#include "cli/manual.h"

#include <string.h>

static const lzt_option options[] = {
    {.name = "SHELL", .type = LZT_OPTION_CHOICE, .choices = "bash|zsh|fish", .required = true, .help = "which shell"},
};

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    (void)err;
    const char *shell = lzt_args_text(args, "SHELL");
    if (!strcmp(shell, "bash"))
        lzt_completion_bash(stdout);
    else if (!strcmp(shell, "zsh"))
        lzt_completion_zsh(stdout);
    else
        lzt_completion_fish(stdout);
    return LZT_OK;
}

const lzt_command lzt_command_completion = {.name = "completion",
                                            .summary = "print a shell's completion script",
                                            .example = "source <(lazytrain completion bash)",
                                            .option = options,
                                            .option_count = LZT_COUNT(options),
                                            .run = run};
