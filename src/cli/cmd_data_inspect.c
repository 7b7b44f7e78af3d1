/* lazytrain data inspect: what the model will see. */
#include "cli/commands.h"
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
     .argument = "FILE",
     .type = LZT_OPTION_PATH,
     .required = true,
     .help = "JSONL, JSON array or CSV"},
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
    int32_t *ids, *labels; /* of the longest row */
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
    if (!s) s = lzt_dataset_open(&o, &x->dataset, err);
    if (s) return s;
    lzt_dataset_report r;
    lzt_dataset_get_report(x->dataset, &r);
    x->ids = malloc((r.longest + 1) * sizeof *x->ids);
    x->labels = malloc((r.longest + 1) * sizeof *x->labels);
    return x->ids && x->labels ? LZT_OK : lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a row");
}

static void close_all(inspection *x)
{
    lzt_dataset_close(x->dataset);
    lzt_template_close(x->chat);
    lzt_tokenizer_close(x->tokenizer);
    free(x->ids);
    free(x->labels);
}

/* ---- rows ---- */

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
    if (!s) return lzt_talk_json_line(row, err);
    json_decref(row);
    return s;
}

/* Text with the trained tokens in green; without colour between marks. */
static lzt_status row_text(const inspection *x, uint64_t row, uint32_t n, bool color, lzt_error *err)
{
    printf("%sline %" PRIu64 ", %u tokens%s\n", color ? "\033[1m" : "--- ", lzt_dataset_line(x->dataset, row), n,
           color ? "\033[0m" : "");
    if (!x->tokenizer) return LZT_OK;
    for (uint32_t i = 0; i < n;) {
        uint32_t end = i;
        bool trained = x->labels[i] != LZT_LABEL_NONE;
        while (end < n && (x->labels[end] != LZT_LABEL_NONE) == trained) end++;
        char *text;
        lzt_status s = lzt_tokenizer_decode(x->tokenizer, x->ids + i, end - i, false, &text, NULL, err);
        if (s) return s;
        printf("%s%s%s", !trained ? "" : color ? "\033[32m" : "[[", text, !trained ? "" : color ? "\033[0m" : "]]");
        free(text);
        i = end;
    }
    puts("");
    return LZT_OK;
}

static lzt_status print_rows(const lzt_args *args, const inspection *x, lzt_error *err)
{
    bool color = lzt_talk_use_color(stdout);
    lzt_status s = LZT_OK;
    for (uint64_t i = 0; !s && i < lzt_dataset_rows(x->dataset); i++) {
        uint32_t n;
        s = lzt_dataset_measure(x->dataset, i, &n, NULL, err);
        if (!s) s = lzt_dataset_read(x->dataset, i, x->ids, x->labels, err);
        if (!s) s = lzt_args_flag(args, "json") ? row_json(x, n, err) : row_text(x, i, n, color, err);
    }
    return s;
}

/* ---- summary ---- */

/* Real tokens of an epoch over what is computed for them, and real tokens a step. */
typedef struct filling {
    double fill, tokens_per_step;
    uint64_t steps;
} filling;

static lzt_status measure_fill(const lzt_args *args, const inspection *x, filling *f, lzt_error *err)
{
    lzt_batcher_options o = LZT_BATCHER_OPTIONS_INIT;
    lzt_batcher *b;
    o.micro_batch_rows = lzt_args_uint(args, "batch-size");
    o.packing = lzt_args_bool(args, "packing");
    o.group_by_length = lzt_args_bool(args, "group-by-length");
    o.pack_tokens = lzt_args_uint(args, "max-seq-length");
    lzt_status s = lzt_batcher_create(x->dataset, &o, &b, err);
    if (s) return s;
    uint64_t n = lzt_batcher_capacity(b), real = 0, padded = 0;
    lzt_micro_batch m = {.capacity = n,
                         .ids = malloc(n * 4),
                         .position = malloc(n * 4),
                         .target = malloc(n * 4),
                         .document_begin = malloc(n * 4 + 4)};
    if (!m.ids || !m.position || !m.target || !m.document_begin)
        s = lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a batch");
    f->steps = lzt_batcher_steps(b);
    for (uint64_t step = 0; !s && step < f->steps; step++) {
        s = lzt_batcher_fill(b, step, 0, &m, err);
        real += m.token_count;
        padded += m.padded_count;
    }
    f->fill = padded ? (double)real / (double)padded : 0;
    f->tokens_per_step = (double)real / (double)f->steps;
    free(m.ids);
    free(m.position);
    free(m.target);
    free(m.document_begin);
    lzt_batcher_destroy(b);
    return s;
}

#define BINS 10

static void histogram(const inspection *x, uint64_t longest, uint64_t count[BINS])
{
    memset(count, 0, BINS * sizeof *count);
    for (uint64_t i = 0; i < lzt_dataset_rows(x->dataset); i++) {
        uint32_t n;
        lzt_dataset_measure(x->dataset, i, &n, NULL, NULL);
        uint64_t bin = longest ? (uint64_t)n * BINS / (longest + 1) : 0;
        count[bin < BINS ? bin : BINS - 1]++;
    }
}

static json_t *summary_json(const lzt_dataset_report *r, const filling *f, const uint64_t *bins)
{
    json_t *dropped =
        json_pack("{s:I,s:I,s:I,s:I}", "bad", (json_int_t)r->dropped_bad, "too_long", (json_int_t)r->dropped_too_long,
                  "cut", (json_int_t)r->dropped_cut, "untrained", (json_int_t)r->dropped_untrained);
    json_t *j = json_pack("{s:I,s:I,s:o,s:I,s:I,s:o}", "rows_in", (json_int_t)r->rows_in, "rows_out",
                          (json_int_t)r->rows_out, "dropped", dropped, "tokens", (json_int_t)r->tokens,
                          "trained_tokens", (json_int_t)r->trained_tokens, "fill", lzt_talk_json_real(f->fill));
    json_t *lengths = json_array();
    for (int i = 0; i < BINS; i++)
        json_array_append_new(
            lengths, json_pack("[I,I]", (json_int_t)((r->longest + 1) * (uint64_t)i / BINS), (json_int_t)bins[i]));
    json_object_set_new(j, "truncated", json_integer((json_int_t)r->truncated));
    json_object_set_new(j, "longest", json_integer((json_int_t)r->longest));
    json_object_set_new(j, "blank_lines", json_integer((json_int_t)r->blank_lines));
    json_object_set_new(j, "replaced_text", json_integer((json_int_t)r->replaced_text));
    json_object_set_new(j, "double_bos", json_integer((json_int_t)r->double_bos));
    json_object_set_new(j, "control_text", json_integer((json_int_t)r->control_text));
    json_object_set_new(j, "steps", json_integer((json_int_t)f->steps));
    json_object_set_new(j, "tokens_per_step", lzt_talk_json_real(f->tokens_per_step));
    json_object_set_new(j, "lengths", lengths);
    return j;
}

static void summary_text(const lzt_dataset_report *r, const filling *f, const uint64_t *bins)
{
    uint64_t most = 1;
    printf("rows            %" PRIu64 " in, %" PRIu64 " train\n", r->rows_in, r->rows_out);
    printf("dropped         %" PRIu64 " unreadable, %" PRIu64 " too long, %" PRIu64 " without a trained token, %" PRIu64
           " left without one by truncation\n",
           r->dropped_bad, r->dropped_too_long, r->dropped_untrained, r->dropped_cut);
    if (r->first_dropped_line) printf("                the first at line %" PRIu64 "\n", r->first_dropped_line);
    printf("truncated       %" PRIu64 "\n", r->truncated);
    printf("blank lines     %" PRIu64 "\n", r->blank_lines);
    printf("replaced text   %" PRIu64 " rows with lone surrogates or bytes that are not UTF-8\n", r->replaced_text);
    printf("control text    %" PRIu64 " rows whose content spells a control token (it stays text)\n", r->control_text);
    printf("double BOS      %" PRIu64 "\n", r->double_bos);
    printf("tokens          %" PRIu64 ", trained %" PRIu64 " (%.1f %%), longest row %" PRIu64 "\n", r->tokens,
           r->trained_tokens, r->tokens ? 100.0 * (double)r->trained_tokens / (double)r->tokens : 0.0, r->longest);
    printf("steps           %" PRIu64 " an epoch, %.1f tokens each, fill %.4f\n", f->steps, f->tokens_per_step,
           f->fill);
    for (int i = 0; i < BINS; i++)
        if (bins[i] > most) most = bins[i];
    for (int i = 0; i < BINS; i++) {
        printf("%6" PRIu64 " .. %-6" PRIu64 " %8" PRIu64 " ", (r->longest + 1) * (uint64_t)i / BINS,
               (r->longest + 1) * (uint64_t)(i + 1) / BINS - 1, bins[i]);
        for (uint64_t k = 0; k < bins[i] * 40 / most; k++) putchar('#');
        putchar('\n');
    }
}

static lzt_status print_summary(const lzt_args *args, const inspection *x, lzt_error *err)
{
    lzt_dataset_report r;
    filling f = {0};
    uint64_t bins[BINS];
    lzt_status s = measure_fill(args, x, &f, err);
    if (s) return s;
    lzt_dataset_get_report(x->dataset, &r);
    histogram(x, r.longest, bins);
    if (lzt_args_flag(args, "json")) return lzt_talk_json(summary_json(&r, &f, bins), err);
    summary_text(&r, &f, bins);
    return LZT_OK;
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
        "]] without colour), or with --json its input_ids, labels and text. Without it prints what became of the rows, "
        "their lengths, the share of trained tokens, and how full batches (or, with --packing true, packs) are.",
    .option = options,
    .option_count = LZT_COUNT(options),
    .run = run};
