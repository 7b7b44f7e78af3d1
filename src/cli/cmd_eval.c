/* lazytrain eval: the loss and perplexity of a model on a dataset. */
#include "cli/commands.h"
#include "cli/session.h"
#include "cli/talk.h"
#include "lazytrain/train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const lzt_option options[] = {
    {.name = "model", .argument = "DIR", .type = LZT_OPTION_PATH, .required = true, .help = "the model's directory"},
    {.name = "dataset", .argument = "FILE", .type = LZT_OPTION_PATH, .required = true, .help = "the rows"},
    {.name = "dtype",
     .argument = "TYPE",
     .type = LZT_OPTION_CHOICE,
     .choices = "f32|bf16",
     .help = "weights and activations; default: the directory's own"},
    {.name = "batch-size",
     .argument = "N",
     .type = LZT_OPTION_UINT,
     .unit = "rows",
     .fallback = "8",
     .help = "rows that run at once; the result does not depend on it"},
    {.name = "max-seq-length",
     .argument = "N",
     .type = LZT_OPTION_UINT,
     .unit = "tokens",
     .fallback = "0",
     .help = "cut rows to this length; 0: nothing is cut"},
    {.name = "tokenizer", .argument = "PATH", .type = LZT_OPTION_PATH, .help = "default: the model's own"},
    {.name = "template",
     .argument = "NAME",
     .type = LZT_OPTION_TEXT,
     .help = "chat template of raw rows: a built-in one or a file; default: the model's own"},
    LZT_OPTION_JSON,
};

static lzt_status print(const lzt_eval_result *e, bool json, lzt_error *err)
{
    double loss = e->loss_sum / (double)e->loss_count;
    if (!json) {
        printf("loss %.6f  perplexity %.4f  %llu tokens in %llu rows\n", loss, exp(loss),
               (unsigned long long)e->loss_count, (unsigned long long)e->rows);
        return LZT_OK;
    }
    json_t *out = json_pack("{s:o,s:o,s:I,s:I,s:o}", "loss", lzt_talk_json_real(loss), "perplexity",
                            lzt_talk_json_real(exp(loss)), "tokens", (json_int_t)e->loss_count, "rows",
                            (json_int_t)e->rows, "seconds", lzt_talk_json_real(e->seconds));
    return lzt_talk_json(out, err);
}

static lzt_status evaluate(const lzt_args *args, lzt_session *s, lzt_error *err)
{
    lzt_eval_result result;
    uint64_t rows = lzt_args_uint(args, "batch-size"), capacity = 0;
    lzt_config config;
    char length[32];
    uint64_t longest = lzt_args_uint(args, "max-seq-length");
    snprintf(length, sizeof length, "%llu", (unsigned long long)longest);
    const lzt_config_override given = {"max_seq_length", length};
    if (!rows) return lzt_fail(err, LZT_ERR_USAGE, "--batch-size", "at least one row must run at once");
    lzt_status status = lzt_config_load(NULL, &given, longest > 0, &config, err);
    if (status) return status;
    s->config = &config;
    status = lzt_session_open_model(s, lzt_args_text(args, "model"), err);
    if (!status) status = lzt_session_open_tokenizer(s, lzt_args_text(args, "tokenizer"), err);
    if (!status) status = lzt_session_open_template(s, lzt_args_text(args, "template"), err);
    if (!status) status = lzt_session_open_dataset(s, lzt_args_text(args, "dataset"), &s->train, err);
    if (!status) status = lzt_session_eval_capacity(s->train, rows, &capacity, err);
    if (!status)
        status =
            lzt_session_open_kernels(s, lzt_session_dtype(s, lzt_args_text(args, "dtype")), capacity, 1, false, err);
    if (!status) status = lzt_session_choose_plan(s, err);
    if (!status) status = lzt_session_open_engine(s, false, err);
    if (!status) status = lzt_evaluate(s->engine, s->train, rows, NULL, &result, err);
    if (!status) status = print(&result, lzt_args_flag(args, "json"), err);
    lzt_session_close(s);
    lzt_config_fini(&config);
    return status;
}

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    lzt_session session = {0};
    return evaluate(args, &session, err);
}

const lzt_command lzt_command_eval = {
    .name = "eval",
    .summary = "print the loss and perplexity of a model on a dataset",
    .example = "lazytrain eval --model out/final --dataset eval.jsonl --json",
    .details = "The loss is the sum over loss-bearing tokens divided by their count, whatever the batch size.",
    .option = options,
    .option_count = LZT_COUNT(options),
    .run = run};
