/* The program: finds the subcommand, parses its words, runs it, and turns its status into an exit code. */
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/talk.h"

#include <signal.h>
#include <string.h>

static bool is_help(const char *word)
{
    return !strcmp(word, "--help") || !strcmp(word, "-h");
}

static bool asks_for_help(int count, char *const *argument)
{
    for (int i = 0; i < count && strcmp(argument[i], "--"); i++)
        if (is_help(argument[i])) return true;
    return false;
}

static lzt_status run_command(int count, char *const *argument, lzt_error *err)
{
    const lzt_command *command;
    int used;
    lzt_status status = lzt_command_find(count, argument, &command, &used, err);
    if (status) return status;
    if (asks_for_help(count - used, argument + used)) {
        lzt_help_command(command, stdout);
        return LZT_OK;
    }
    lzt_args *args;
    status = lzt_args_parse(command, count - used, argument + used, &args, err);
    if (status) return status;
    status = command->run(args, err);
    lzt_args_free(args);
    return status;
}

/* "help" and "help COMMAND" are "--help" and "COMMAND --help". */
static lzt_status dispatch(int count, char *const *argument, lzt_error *err)
{
    if (count && !strcmp(argument[0], "help")) {
        if (count == 1 || is_help(argument[1])) {
            lzt_help_program(stdout);
            return LZT_OK;
        }
        const lzt_command *command;
        int used;
        lzt_status status = lzt_command_find(count - 1, argument + 1, &command, &used, err);
        if (!status) lzt_help_command(command, stdout);
        return status;
    }
    if (count && is_help(argument[0])) {
        lzt_help_program(stdout);
        return LZT_OK;
    }
    if (count && (!strcmp(argument[0], "--version") || !strcmp(argument[0], "-V"))) {
        printf("lazytrain %s\n", lzt_version());
        return LZT_OK;
    }
    if (!count) {
        lzt_fail(err, LZT_ERR_USAGE, NULL, "a subcommand is missing");
        return lzt_hint(err, "lazytrain --help lists the subcommands");
    }
    return run_command(count, argument, err);
}

int main(int argc, char **argv)
{
    lzt_error err = {0};
    signal(SIGXFSZ, SIG_IGN); /* a file above its limit is a write that fails, and says so */
    lzt_status status = dispatch(argc > 0 ? argc - 1 : 0, argv + 1, &err);
    if ((fflush(stdout) || ferror(stdout)) && !status)
        status = lzt_fail(&err, LZT_ERR_STORAGE, "standard output", "cannot write");
    if (status) {
        if (!err.message[0]) lzt_fail(&err, status, NULL, "failed (%s)", lzt_status_name(status));
        lzt_talk_error(&err);
    }
    return lzt_exit_code(status);
}
