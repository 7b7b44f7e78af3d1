/* lazytrain report: a run as one HTML file that needs no network. */
#include "cli/commands.h"
#include "cli/talk.h"
#include "lazytrain/report.h"

static const lzt_option options[] = {
    {.name = "RUN", .type = LZT_OPTION_PATH, .required = true, .help = "the run directory"},
    {.name = "output", .argument = "FILE", .type = LZT_OPTION_PATH, .help = "write here instead of RUN/report.html"},
    LZT_OPTION_JSON,
};

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    char path[4096];
    const char *directory = lzt_args_text(args, "RUN"), *output = lzt_args_text(args, "output");
    lzt_run_history history;
    lzt_status status = lzt_run_history_read(directory, &history, err);
    if (status) return status;
    snprintf(path, sizeof path, "%s%s", output ? output : directory, output ? "" : "/report.html");
    status = lzt_run_write_html(&history, directory, path, err);
    lzt_run_history_fini(&history);
    if (status) return status;
    if (lzt_args_flag(args, "json")) return lzt_talk_json(json_pack("{s:s}", "report", path), err);
    printf("%s\n", path);
    return LZT_OK;
}

const lzt_command lzt_command_report = {.name = "report",
                                        .summary = "write a run's HTML report",
                                        .example = "lazytrain report out",
                                        .details =
                                            "Loss curves, the time of each step by cause, memory and traffic, from "
                                            "metrics.jsonl. Prints the file's path.",
                                        .option = options,
                                        .option_count = LZT_COUNT(options),
                                        .run = run};
