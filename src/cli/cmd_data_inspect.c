/* lazytrain data inspect: what the model will see. */
#include "base/real_text.h"
#include "cli/commands.h"
#include "cli/data_counts.h"
#include "cli/data_summary.h"
#include "cli/talk.h"
#include "lazytrain/data.h"
#include "lazytrain/template.h"
#include "lazytrain/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const lzt_option options[] = {
    {.name = "dataset",
     .argument = "FILES",
     .type = LZT_OPTION_PATH,
     .required = true,
     .help = "JSONL, JSON array, CSV or Arrow files, or names in dataset_info.json, separated by commas"},
    {.name = "dataset-dir", .argument = "DIR", .type = LZT_OPTION_PATH, .help = "directory of dataset_info.json"},
    {.name = "model",
     .argument = "DIR",
     .type = LZT_OPTION_PATH,
     .help = "the model whose tokenizer and template are used"},
    {.name = "tokenizer",
     .argument = "DIR|FILE",
     .type = LZT_OPTION_PATH,
     .help = "another tokenizer than the model's"},
    {.name = "template",
     .argument = "T",
     .type = LZT_OPTION_TEXT,
     .fallback = "auto",
     .help =
         "auto (the model's own, if it has one), none, alpaca, chatml, qwen2.5, qwen3, llama3, raw, or a Jinja file"},
    {.name = "query-field", .argument = "A", .type = LZT_OPTION_TEXT, .help = "the question's field"},
    {.name = "response-field", .argument = "B", .type = LZT_OPTION_TEXT, .help = "the answer's field"},
    {.name = "max-seq-length",
     .argument = "N",
     .type = LZT_OPTION_UINT,
     .unit = "tokens",
     .fallback = "0",
     .help = "where rows are cut; 0: not"},
    {.name = "truncation",
     .argument = "KIND",
     .type = LZT_OPTION_CHOICE,
     .choices = "keep_start|keep_answer|drop|error",
     .fallback = "keep_start",
     .help = "what becomes of longer rows"},
    {.name = "loss-on",
     .argument = "PART",
     .type = LZT_OPTION_CHOICE,
     .choices = "assistant|last|all",
     .fallback = "assistant",
     .help = "which tokens are trained"},
    {.name = "on-bad-row",
     .argument = "HOW",
     .type = LZT_OPTION_CHOICE,
     .choices = "error|skip",
     .fallback = "error",
     .help = "what becomes of rows that cannot be read"},
    {.name = "packing",
     .argument = "BOOL",
     .type = LZT_OPTION_BOOL,
     .fallback = "false",
     .help = "rows share packs of max-seq-length tokens"},
    {.name = "group-by-length",
     .argument = "BOOL",
     .type = LZT_OPTION_BOOL,
     .fallback = "false",
     .help = "rows of similar length share a batch"},
    {.name = "batch-size",
     .argument = "N",
     .type = LZT_OPTION_UINT,
     .unit = "rows",
     .fallback = "8",
     .help = "rows or packs of a step"},
    {.name = "limit",
     .argument = "N",
     .type = LZT_OPTION_UINT,
     .unit = "rows",
     .fallback = "0",
     .help = "rows to read; 0: all"},
    {.name = "rows", .type = LZT_OPTION_FLAG, .help = "the rows themselves, not the summary"},
    LZT_OPTION_JSON,
};

typedef struct inspection {
    lzt_tokenizer *tokenizer;
    lzt_template *chat;
    lzt_dataset *dataset;
    int32_t *ids, *labels; /* [capacity] of a row */
    float *weights;
    uint32_t capacity;
} inspection;

static int choice(const lzt_args *args, const char *name, const char *const *words)
{
    const char *text = lzt_args_text(args, name);
    for (int i = 0; words[i]; i++)
        if (!strcmp(words[i], text)) return i;
    return 0;
}

/* Without --template, a model that has no chat template is no error: pairs then stand as they are. */
static lzt_status open_template(const lzt_args *args, const char *model, inspection *x, lzt_error *err)
{
    const char *name = lzt_args_text(args, "template");
    if (!strcmp(name, "none")) return LZT_OK;
    lzt_status s = lzt_template_open(name, model, &x->chat, err);
    return s == LZT_ERR_USAGE && !lzt_args_given(args, "template") ? LZT_OK : s;
}

static lzt_status open_all(const lzt_args *args, inspection *x, lzt_error *err)
{
    static const char *const truncation[] = {"keep_start", "keep_answer", "drop", "error", NULL},
                             *const loss[] = {"assistant", "last", "all", NULL}, *const bad[] = {"error", "skip", NULL};
    const char *model = lzt_args_text(args, "model"), *tokenizer = lzt_args_text(args, "tokenizer");
    lzt_status s = LZT_OK;
    if (!tokenizer) tokenizer = model;
    if (tokenizer) s = lzt_tokenizer_open(tokenizer, NULL, &x->tokenizer, err);
    if (!s && tokenizer) s = open_template(args, model ? model : tokenizer, x, err);
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    o.path = lzt_args_text(args, "dataset");
    o.dataset_dir = lzt_args_text(args, "dataset-dir");
    o.max_seq_length = lzt_args_uint(args, "max-seq-length");
    o.max_samples = lzt_args_uint(args, "limit");
    o.tokenizer = x->tokenizer;
    o.vocabulary = x->tokenizer ? lzt_tokenizer_size(x->tokenizer) : 0;
    o.chat = x->chat;
    o.query_field = lzt_args_text(args, "query-field");
    o.response_field = lzt_args_text(args, "response-field");
    o.truncation = (lzt_truncation)choice(args, "truncation", truncation);
    o.loss_on = (lzt_loss_on)choice(args, "loss-on", loss);
    o.on_bad_row = (lzt_bad_row)choice(args, "on-bad-row", bad);
    return s ? s : lzt_dataset_open(&o, &x->dataset, err);
}

static void close_all(inspection *x)
{
    lzt_dataset_close(x->dataset);
    lzt_template_close(x->chat);
    lzt_tokenizer_close(x->tokenizer);
    free(x->ids);
    free(x->labels);
    free(x->weights);
}

/* ---- rows ---- */

static json_t *weights_json(const inspection *x, uint32_t n)
{
    char text[LZT_REAL_TEXT];
    json_t *weights = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(weights, lzt_talk_json_real(strtod(lzt__real_text_f32(x->weights[i], text), NULL)));
    return weights;
}

static lzt_status row_json(const inspection *x, uint32_t n, lzt_error *err)
{
    json_t *ids = json_array(), *labels = json_array(), *text = json_null();
    for (uint32_t i = 0; i < n; i++) {
        json_array_append_new(ids, json_integer(x->ids[i]));
        json_array_append_new(labels, json_integer(x->labels[i]));
    }
    lzt_status s = LZT_OK;
    if (x->tokenizer) {
        char *all;
        uint64_t size;
        s = lzt_tokenizer_decode(x->tokenizer, x->ids, n, false, &all, &size, err);
        if (!s) text = json_stringn(all, size);
        if (!s) free(all);
    }
    json_t *row = json_pack("{s:o,s:o,s:o}", "input_ids", ids, "labels", labels, "text", text);
    if (lzt_data_is_weighted(x->weights, n)) json_object_set_new(row, "loss_weights", weights_json(x, n));
    if (!s) return lzt_talk_json_line(row, err);
    json_decref(row);
    return s;
}

/* Ends what was trained with the weight before, and begins what is trained with this one: 0 nothing, 1 the usual. */
static void change_weight(float before, float weight, bool color)
{
    char text[LZT_REAL_TEXT];
    if (before > 0) fputs(color ? "\033[0m" : "]]", stdout);
    if (weight > 0) fputs(!color ? "[[" : weight == 1 ? "\033[32m" : "\033[33m", stdout);
    if (weight > 0 && weight != 1) printf("%s: ", lzt__real_text_f32(weight, text));
}

/* Text with the trained tokens in green; without colour between marks. Those with a weight are yellow and begin with
 * it. A character belongs to the token that ends it. */
static lzt_status print_text(const inspection *x, uint32_t n, bool color, lzt_error *err)
{
    lzt_decoder *decoder;
    const char *text;
    uint64_t size;
    float weight = 0;
    lzt_status s = lzt_decoder_create(x->tokenizer, false, &decoder, err);
    for (uint32_t i = 0; !s && i < n; i++) {
        s = lzt_decoder_push(decoder, x->ids[i], &text, &size, err);
        if (s || !size) continue;
        if (x->weights[i] != weight) change_weight(weight, x->weights[i], color);
        weight = x->weights[i];
        fwrite(text, 1, size, stdout);
    }
    if (!s) s = lzt_decoder_finish(decoder, &text, &size, err);
    if (!s) fwrite(text, 1, size, stdout);
    if (weight > 0) change_weight(weight, 0, color);
    lzt_decoder_destroy(decoder);
    puts("");
    return s;
}

static lzt_status row_text(const inspection *x, uint64_t row, uint32_t n, bool color, lzt_error *err)
{
    printf("%sline %" PRIu64 ", %u tokens%s\n", color ? "\033[1m" : "--- ", lzt_dataset_line(x->dataset, row), n,
           color ? "\033[0m" : "");
    return x->tokenizer ? print_text(x, n, color, err) : LZT_OK;
}

/* Room for n tokens: a large file's longest row is not known beforehand. */
static lzt_status make_room(inspection *x, uint32_t n, lzt_error *err)
{
    if (n <= x->capacity) return LZT_OK;
    int32_t *ids = realloc(x->ids, n * sizeof *ids);
    if (ids) x->ids = ids;
    int32_t *labels = ids ? realloc(x->labels, n * sizeof *labels) : NULL;
    if (labels) x->labels = labels;
    float *weights = labels ? realloc(x->weights, n * sizeof *weights) : NULL;
    if (!weights) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a row");
    x->weights = weights;
    x->capacity = n;
    return LZT_OK;
}

static lzt_status print_rows(const lzt_args *args, inspection *x, lzt_error *err)
{
    bool color = lzt_talk_use_color(stdout);
    lzt_status s = LZT_OK;
    for (uint64_t i = 0; !s && i < lzt_dataset_rows(x->dataset); i++) {
        uint32_t n;
        s = lzt_dataset_measure(x->dataset, i, &n, NULL, err);
        if (!s && !n) continue; /* found out only now that it does not train */
        if (!s) s = make_room(x, n, err);
        if (!s) s = lzt_dataset_read(x->dataset, i, x->ids, x->labels, x->weights, err);
        if (!s) s = lzt_args_flag(args, "json") ? row_json(x, n, err) : row_text(x, i, n, color, err);
    }
    return s;
}

/* ---- summary ---- */

static lzt_status print_summary(const lzt_args *args, const inspection *x, lzt_error *err)
{
    lzt_summary_options o = {.batch_rows = lzt_args_uint(args, "batch-size"),
                             .pack_tokens = lzt_args_uint(args, "max-seq-length"),
                             .packing = lzt_args_bool(args, "packing"),
                             .group_by_length = lzt_args_bool(args, "group-by-length"),
                             .json = lzt_args_flag(args, "json")};
    return lzt_data_summary_print(x->dataset, &o, err);
}

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    inspection x = {0};
    lzt_status s = open_all(args, &x, err);
    if (!s) s = lzt_args_flag(args, "rows") ? print_rows(args, &x, err) : print_summary(args, &x, err);
    close_all(&x);
    return s;
}

const lzt_command lzt_command_data_inspect = {
    .name = "data inspect",
    .summary = "what the model will see of a data set",
    .example = "lazytrain data inspect --model models/smollm2 --dataset train.jsonl --rows --limit 3",
    .details =
        "Reads the rows as training would. With --rows prints each one's text, trained tokens coloured (between [[ and "
        "]] without colour; a weight other than 1 stands before its tokens), or with --json its input_ids, labels, "
        "text, "
        "and loss_weights where one is neither 0 nor 1. Without it prints what became of the rows, "
        "their lengths, the share of trained tokens, and how full batches are: as rows come, grouped by length, and "
        "(with "
        "--max-seq-length) packed; the way that is asked for is marked with *.",
    .option = options,
    .option_count = LZT_COUNT(options),
    .run = run};
