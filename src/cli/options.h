/* The command line: tables that describe commands, and what a command receives.
 *
 * A command is one static table: its options and operands with type, unit, default and help. The parser, --help, the
 * man pages, the shell completions and docs/commands.md are all made from it. To add a command, write
 * src/cli/cmd_NAME.c with a table like this one and name it in commands.c:
 *
 *     static const lzt_option options[] = {
 *         {.name = "PLAN", .type = LZT_OPTION_TEXT, .required = true, .help = "the plan to read"},
 *         {.name = "seq", .argument = "N", .type = LZT_OPTION_UINT, .unit = "tokens", .fallback = "512", .help =
 * "..."}, LZT_OPTION_JSON,
 *     };
 *     static lzt_status run(const lzt_args *args, lzt_error *err)
 *     {
 *         uint64_t seq = lzt_args_uint(args, "seq");
 *         ...
 *     }
 *     const lzt_command lzt_command_explain = {
 *         .name = "explain", .summary = "print a plan", .example = "lazytrain explain plan.json",
 *         .option = options, .option_count = LZT_COUNT(options), .run = run};
 *
 * Options are written --name VALUE, --name=VALUE, with '_' for '-' if one likes; operands have names without a lower
 * case letter (PLAN) and are taken in the table's order. "--" ends the options. run writes data to stdout, talk to
 * stderr (talk.h), and returns a status whose error main prints: it never exits.
 */
#ifndef LZT_CLI_OPTIONS_H
#define LZT_CLI_OPTIONS_H

#include "lazytrain/config.h"

#include <stdbool.h>

#define LZT_COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

typedef enum lzt_option_type {
    LZT_OPTION_FLAG = 0, /* takes no value */
    LZT_OPTION_TEXT,
    LZT_OPTION_PATH, /* a text; completion offers files */
    LZT_OPTION_UINT,
    LZT_OPTION_INT,
    LZT_OPTION_REAL,
    LZT_OPTION_SIZE,   /* bytes: 70GiB, 200MB, 4096 */
    LZT_OPTION_BOOL,   /* true or false */
    LZT_OPTION_CHOICE, /* one of the words in choices */
} lzt_option_type;

typedef struct lzt_option {
    const char *name;     /* "batch-size"; an operand: "PLAN" */
    const char *argument; /* how help shows the value: "N", "FILE"; NULL for flags and operands */
    lzt_option_type type;
    const char *unit;     /* "tokens", "GB/s"; NULL: none */
    const char *choices;  /* "f32|bf16" for LZT_OPTION_CHOICE */
    const char *fallback; /* the default, as text; NULL: none */
    bool required;
    bool repeated; /* may be given several times; the last operand only */
    bool hidden;   /* absent from help, man page and completion */
    const char *help;
} lzt_option;

#define LZT_OPTION_JSON                                                                                                \
    {                                                                                                                  \
        .name = "json", .help = "print one JSON document on standard output"                                           \
    }

typedef struct lzt_args lzt_args;

typedef struct lzt_command {
    const char *name;    /* "plan", or two words: "data inspect" */
    const char *summary; /* one line, lower case, no full stop */
    const char *example; /* complete command lines, one a line */
    const char *details; /* paragraphs for the man page and --help; NULL: none */
    const lzt_option *option;
    int option_count;
    bool overrides; /* unknown --key VALUE and key=VALUE are collected for the config (lzt_args_overrides) */
    bool hidden;
    lzt_status (*run)(const lzt_args *args, lzt_error *err);
} lzt_command;

/* argument[0..count-1]: the words after the command's name; must outlive the result, which borrows them.
 * Errors: LZT_ERR_USAGE with the nearest name. */
lzt_status lzt_args_parse(const lzt_command *command, int count, char *const *argument, lzt_args **args,
                          lzt_error *err);
void lzt_args_free(lzt_args *args); /* NULL is allowed */

/* Whether the option or operand was written. The name must be in the table (asserted), here and below. */
bool lzt_args_given(const lzt_args *args, const char *name);
/* The value, else the table's default. _flag: was given. _text: NULL when neither exists; the numeric ones need a
 * default or `required` (asserted) unless lzt_args_given is true. */
bool lzt_args_flag(const lzt_args *args, const char *name);
const char *lzt_args_text(const lzt_args *args, const char *name);
uint64_t lzt_args_uint(const lzt_args *args, const char *name);
int64_t lzt_args_int(const lzt_args *args, const char *name);
double lzt_args_real(const lzt_args *args, const char *name);
uint64_t lzt_args_size(const lzt_args *args, const char *name);
bool lzt_args_bool(const lzt_args *args, const char *name);
/* For repeated options: how often it was given, and the text of the index-th. */
int lzt_args_count(const lzt_args *args, const char *name);
const char *lzt_args_text_at(const lzt_args *args, const char *name, int index);

/* The collected overrides in the order written, for lzt_config_load; *count may be 0. Borrowed. */
const lzt_config_override *lzt_args_overrides(const lzt_args *args, int *count);

/* True for an operand's name (no lower case letter). */
bool lzt_option_is_operand(const lzt_option *option);

#endif
