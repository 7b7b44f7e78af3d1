/* The list of subcommands: one line each, here and in commands.h. */
#include "cli/commands.h"

#include "config/nearest.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* One a line, so that branches merge. */
/* clang-format off */
static const lzt_command *const commands[] = {
    &lzt_command_train,
    &lzt_command_eval,
    &lzt_command_generate,
    &lzt_command_bench_gemm,
    &lzt_command_bench_step,
    &lzt_command_plan,
    &lzt_command_explain,
    &lzt_command_check,
    &lzt_command_sim,
    &lzt_command_doctor,
    &lzt_command_probe,
    &lzt_command_data_convert,
    &lzt_command_data_inspect,
    &lzt_command_data_tokenize,
    &lzt_command_data_render,
    &lzt_command_compare,
    &lzt_command_report,
    &lzt_command_trace,
    &lzt_command_config_show,
    &lzt_command_model_inspect,
    &lzt_command_model_verify,
    &lzt_command_completion,
    &lzt_command_docs,
    &lzt_command_ckpt_ls,
    &lzt_command_ckpt_verify,
    &lzt_command_ckpt_prune,
    &lzt_command_ckpt_export,
    &lzt_command_version,
};
/* clang-format on */

int lzt_command_count(void)
{
    return LZT_COUNT(commands);
}

const lzt_command *lzt_command_at(int index)
{
    assert(index >= 0 && index < LZT_COUNT(commands));
    return commands[index];
}

static const lzt_command *exact(const char *name)
{
    for (int i = 0; i < LZT_COUNT(commands); i++)
        if (!strcmp(commands[i]->name, name)) return commands[i];
    return NULL;
}

/* word is the first of two words of some command; their second words go into members. */
static bool is_group(const char *word, char *members, size_t size)
{
    size_t length = strlen(word), used = 0;
    members[0] = 0;
    for (int i = 0; i < LZT_COUNT(commands); i++) {
        const char *name = commands[i]->name;
        if (strncmp(name, word, length) || name[length] != ' ' || commands[i]->hidden || used >= size) continue;
        used += (size_t)snprintf(members + used, size - used, "%s%s", used ? ", " : "", name + length + 1);
    }
    return used > 0;
}

static lzt_status unknown_command(const char *name, lzt_error *err)
{
    lzt_nearest nearest = {.wanted = name};
    for (int i = 0; i < LZT_COUNT(commands); i++)
        if (!commands[i]->hidden) lzt__nearest_offer(&nearest, commands[i]->name);
    lzt_fail(err, LZT_ERR_USAGE, name, "unknown subcommand");
    const char *best = lzt__nearest_name(&nearest);
    if (best) return lzt_hint(err, "did you mean lazytrain %s?", best);
    return lzt_hint(err, "lazytrain --help lists the subcommands");
}

lzt_status lzt_command_find(int count, char *const *argument, const lzt_command **command, int *used, lzt_error *err)
{
    assert(count >= 1);
    char name[256], members[256];
    *used = 2;
    if (count >= 2) {
        snprintf(name, sizeof name, "%.100s %.100s", argument[0], argument[1]);
        if ((*command = exact(name))) return LZT_OK;
    }
    *used = 1;
    if ((*command = exact(argument[0]))) return LZT_OK;
    if (!is_group(argument[0], members, sizeof members)) {
        snprintf(name, sizeof name, "%.200s", argument[0]);
        return unknown_command(name, err);
    }
    if (count >= 2 && argument[1][0] != '-') {
        unknown_command(name, err);
        if (!strncmp(err->hint, "did you mean", 12)) return LZT_ERR_USAGE;
    } else {
        lzt_fail(err, LZT_ERR_USAGE, argument[0], "needs a second word");
    }
    return lzt_hint(err, "lazytrain %s has: %s", argument[0], members);
}
