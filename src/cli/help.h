/* Help texts, made from the command tables. */
#ifndef LZT_CLI_HELP_H
#define LZT_CLI_HELP_H

#include "cli/options.h"

#include <stdio.h>

/* The list of subcommands, exit codes and where to read on. */
void lzt_help_program(FILE *out);
/* One command: example first, then usage, options, details. */
void lzt_help_command(const lzt_command *command, FILE *out);
/* "lazytrain plan --model DIR [OPTION...] [PLAN]" without a newline. */
void lzt_help_usage(const lzt_command *command, FILE *out);
/* Text broken into lines of at most 80 columns with the indent before each; column is where the cursor stands. */
void lzt_help_wrap(const char *text, int indent, int column, FILE *out);
/* The help sentence of an option with "(choices, unit, default, ...)" appended. */
void lzt_help_option_text(const lzt_option *option, char *text, size_t size);

#endif
