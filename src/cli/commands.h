/* The list of subcommands, in the order help shows them. */
#ifndef LZT_CLI_COMMANDS_H
#define LZT_CLI_COMMANDS_H

#include "cli/options.h"

/* Each cmd_*.c defines its table as `const lzt_command lzt_command_NAME`; declare it here, list it in commands.c. */
extern const lzt_command lzt_command_check;
extern const lzt_command lzt_command_config_show;
extern const lzt_command lzt_command_data_convert;
extern const lzt_command lzt_command_data_inspect;
extern const lzt_command lzt_command_data_render;
extern const lzt_command lzt_command_data_tokenize;
extern const lzt_command lzt_command_explain;
extern const lzt_command lzt_command_plan;
extern const lzt_command lzt_command_bench_gemm;
extern const lzt_command lzt_command_bench_step;
extern const lzt_command lzt_command_compare;
extern const lzt_command lzt_command_completion;
extern const lzt_command lzt_command_docs;
extern const lzt_command lzt_command_doctor;
extern const lzt_command lzt_command_eval;
extern const lzt_command lzt_command_generate;
extern const lzt_command lzt_command_model_inspect;
extern const lzt_command lzt_command_model_verify;
extern const lzt_command lzt_command_probe;
extern const lzt_command lzt_command_report;
extern const lzt_command lzt_command_sim;
extern const lzt_command lzt_command_trace;
extern const lzt_command lzt_command_train;
extern const lzt_command lzt_command_ckpt_ls;
extern const lzt_command lzt_command_ckpt_verify;
extern const lzt_command lzt_command_ckpt_prune;
extern const lzt_command lzt_command_ckpt_export;
extern const lzt_command lzt_command_version;

/* Command index in 0..lzt_command_count()-1. */
int lzt_command_count(void);
const lzt_command *lzt_command_at(int index);

/* Finds the command whose name is the first one or two words of argument; *used is how many words that took.
 * Errors: LZT_ERR_USAGE with the nearest name, or with the members of a group ("data"). */
lzt_status lzt_command_find(int count, char *const *argument, const lzt_command **command, int *used, lzt_error *err);

#endif
