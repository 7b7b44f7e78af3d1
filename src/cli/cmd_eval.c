/* lazytrain eval: the loss and perplexity of a model on a dataset, and how many of its questions it answers. */
#include "cli/commands.h"
#include "cli/session.h"
#include "cli/talk.h"
#include "lazytrain/train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const lzt_option options[] = {
    {.name = "model", .argument = "DIR", .type = LZT_OPTION_PATH, .required = true, .help = "the model's directory"},
    {.name = "dataset",
     .argument = "FILES",
     .type = LZT_OPTION_PATH,
     .required = true,
     .help = "files of rows, or names in dataset_info.json, separated by commas"},
    {.name = "dataset-dir", .argument = "DIR", .type = LZT_OPTION_PATH, .help = "directory of dataset_info.json"},
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
    {.name = "exact-match", .help = "generate an answer to each row's question and compare it with the row's own"},
    {.name = "samples",
     .argument = "N",
     .type = LZT_OPTION_UINT,
     .unit = "rows",
     .fallback = "0",
     .help = "rows that are evaluated, from the start; 0: all"},
    {.name = "max-new-tokens",
     .argument = "N",
     .type = LZT_OPTION_UINT,
     .unit = "tokens",
     .fallback = "256",
     .help = "the longest generated answer"},
    {.name = "answer-pattern",
     .argument = "PATTERN",
     .type = LZT_OPTION_TEXT,
     .help =
         "finds the answer in a text, in Perl's syntax: group 1 or the whole match, the last match counts; default: "
         "what follows #### or The answer is:"},
    {.name = "answers",
     .argument = "FILE",
     .type = LZT_OPTION_PATH,
     .help = "write what was generated, one JSON object a row, with what was extracted, expected and whether it is "
             "right"},
    {.name = "device-cap", .argument = "SIZE", .type = LZT_OPTION_SIZE, .unit = "bytes", .help = "the device arena"},
    LZT_OPTION_JSON,
};

static lzt_status print_json(const lzt_eval_result *e, const lzt_exam_result *x, lzt_error *err)
{
    double loss = e->loss_sum / e->loss_weight;
    json_t *out = json_pack("{s:o,s:o,s:I,s:o,s:I,s:o}", "loss", lzt_talk_json_real(loss), "perplexity",
                            lzt_talk_json_real(exp(loss)), "tokens", (json_int_t)e->loss_count, "loss_weight",
                            lzt_talk_json_real(e->loss_weight), "rows", (json_int_t)e->rows, "seconds",
                            lzt_talk_json_real(e->seconds));
    if (x) {
        json_t *more = json_pack("{s:o,s:I,s:I,s:I,s:I,s:I,s:o}", "exact_match",
                                 lzt_talk_json_real((double)x->right / (double)x->answers), "answers",
                                 (json_int_t)x->answers, "answers_right", (json_int_t)x->right, "answers_none",
                                 (json_int_t)x->unanswered, "answers_cut", (json_int_t)x->cut, "answer_tokens",
                                 (json_int_t)x->generated.new_tokens, "answer_seconds", lzt_talk_json_real(x->seconds));
        json_object_update(out, more);
        json_decref(more);
    }
    return lzt_talk_json(out, err);
}

static void print(const lzt_eval_result *e, const lzt_exam_result *x)
{
    double loss = e->loss_sum / e->loss_weight;
    printf("loss %.6f  perplexity %.4f  %llu tokens in %llu rows", loss, exp(loss), (unsigned long long)e->loss_count,
           (unsigned long long)e->rows);
    if (e->loss_weight != (double)e->loss_count) printf(", weights of %g in all", e->loss_weight);
    puts("");
    if (!x) return;
    printf("exact match %.2f %%: %llu of %llu right, %llu without an answer, %llu cut; %llu tokens in %.1f s\n",
           100.0 * (double)x->right / (double)x->answers, (unsigned long long)x->right, (unsigned long long)x->answers,
           (unsigned long long)x->unanswered, (unsigned long long)x->cut, (unsigned long long)x->generated.new_tokens,
           x->seconds);
}

/* Everything up to the engine. */
static lzt_status open_all(const lzt_args *args, lzt_session *s, uint64_t rows, lzt_error *err)
{
    uint64_t capacity = 0;
    lzt_status status = lzt_session_open_model(s, lzt_args_text(args, "model"), err);
    if (!status) status = lzt_session_open_tokenizer(s, lzt_args_text(args, "tokenizer"), err);
    if (!status) status = lzt_session_open_template(s, lzt_args_text(args, "template"), err);
    if (!status) status = lzt_session_open_dataset(s, lzt_args_text(args, "dataset"), &s->train, err);
    if (!status) status = lzt_session_eval_capacity(s->train, rows, lzt_args_uint(args, "samples"), &capacity, err);
    if (!status && lzt_args_flag(args, "exact-match"))
        status =
            lzt_session_open_exam(s, s->train, lzt_args_uint(args, "samples"), lzt_args_uint(args, "max-new-tokens"),
                                  lzt_args_text(args, "answer-pattern"), &capacity, err);
    if (!status)
        status =
            lzt_session_open_kernels(s, lzt_session_dtype(s, lzt_args_text(args, "dtype")), capacity, 1, false, err);
    if (!status) status = lzt_session_choose_plan(s, err);
    return status ? status : lzt_session_open_engine(s, NULL, err);
}

/* Options that stand for keys of a config. */
static lzt_status load_config(const lzt_args *args, lzt_config *config, lzt_error *err)
{
    char length[32], cap[32];
    lzt_config_override given[3];
    int count = 0;
    snprintf(length, sizeof length, "%llu", (unsigned long long)lzt_args_uint(args, "max-seq-length"));
    if (lzt_args_given(args, "dataset-dir"))
        given[count++] = (lzt_config_override){"dataset_dir", lzt_args_text(args, "dataset-dir")};
    if (lzt_args_uint(args, "max-seq-length")) given[count++] = (lzt_config_override){"max_seq_length", length};
    if (lzt_args_given(args, "device-cap")) {
        snprintf(cap, sizeof cap, "%llu", (unsigned long long)lzt_args_size(args, "device-cap"));
        given[count++] = (lzt_config_override){"memory.device_cap", cap};
    }
    return lzt_config_load(NULL, given, count, config, err);
}

static lzt_status evaluate(const lzt_args *args, lzt_session *s, lzt_error *err)
{
    lzt_eval_result loss;
    lzt_exam_result exam;
    uint64_t rows = lzt_args_uint(args, "batch-size"), samples = lzt_args_uint(args, "samples");
    const char *answers = lzt_args_text(args, "answers");
    if (answers && !lzt_args_flag(args, "exact-match")) {
        lzt_fail(err, LZT_ERR_USAGE, "--answers", "no answers are generated without --exact-match");
        return lzt_hint(err, "give both");
    }
    lzt_status status = open_all(args, s, rows, err);
    if (!status) status = lzt_evaluate(s->engine, s->train, rows, samples, NULL, &loss, err);
    if (!status && s->exam) status = lzt_exam_run(s->exam, s->engine, answers, NULL, &exam, err);
    if (status) return status;
    if (lzt_args_flag(args, "json")) return print_json(&loss, s->exam ? &exam : NULL, err);
    print(&loss, s->exam ? &exam : NULL);
    return LZT_OK;
}

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    lzt_config config;
    if (!lzt_args_uint(args, "batch-size"))
        return lzt_fail(err, LZT_ERR_USAGE, "--batch-size", "at least one row must run at once");
    if (!lzt_args_uint(args, "max-new-tokens"))
        return lzt_fail(err, LZT_ERR_USAGE, "--max-new-tokens", "an answer has at least one token");
    lzt_status status = load_config(args, &config, err);
    if (status) return status;
    lzt_session session = {.config = &config};
    status = evaluate(args, &session, err);
    lzt_session_close(&session);
    lzt_config_fini(&config);
    return status;
}

const lzt_command lzt_command_eval = {
    .name = "eval",
    .summary = "print the loss and perplexity of a model on a dataset, and the share of its questions answered",
    .example = "lazytrain eval --model out/final --dataset test.jsonl --exact-match --samples 100 --json",
    .details = "The loss is the weighted sum over loss-bearing tokens divided by the sum of their weights (their count "
               "unless messages have weights), whatever the batch size. With --exact-match each row's question is "
               "rendered by the template with its generation prompt and continued "
               "greedily; the last match of the pattern is the answer. Numbers are compared as numbers (1,000 = "
               "$1000.00, 1/2 = 0.5, units are left out), anything else as trimmed strings.",
    .option = options,
    .option_count = LZT_COUNT(options),
    .run = run};
