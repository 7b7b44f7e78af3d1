/* Manual pages, reference pages and shell completions, all made from the command tables and the config's schema. */
#ifndef LZT_CLI_MANUAL_H
#define LZT_CLI_MANUAL_H

#include "cli/options.h"

#include <stdio.h>

void lzt_manual_program(FILE *out);                             /* lazytrain.1 */
void lzt_manual_command(const lzt_command *command, FILE *out); /* lazytrain-COMMAND.1 */
void lzt_manual_config(FILE *out);                              /* lazytrain-config.5 */
void lzt_manual_commands_markdown(FILE *out);                   /* docs/commands.md */

void lzt_completion_bash(FILE *out);
void lzt_completion_zsh(FILE *out);
void lzt_completion_fish(FILE *out);

#endif
