/* lazytrain data convert: any readable data set as normalised JSONL. */
#include "base/os.h"
#include "base/real_text.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/data_counts.h"
#include "cli/talk.h"
#include "lazytrain/data.h"
#include "lazytrain/template.h"
#include "lazytrain/tokenizer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLUSH_BYTES (1 << 20)

static const lzt_option options[] = {
    {.name = "dataset",
     .argument = "FILES",
     .type = LZT_OPTION_PATH,
     .required = true,
     .help = "JSONL, JSON array, CSV or Arrow files, or names in dataset_info.json, separated by commas"},
    {.name = "output",
     .argument = "FILE",
     .type = LZT_OPTION_PATH,
     .required = true,
     .help = "the JSONL file to write"},
    {.name = "dataset-dir", .argument = "DIR", .type = LZT_OPTION_PATH, .help = "directory of dataset_info.json"},
    {.name = "to",
     .argument = "KIND",
     .type = LZT_OPTION_CHOICE,
     .choices = "messages|tokens",
     .fallback = "messages",
     .help = "conversations as they are, or input_ids and labels as training would see them"},
    {.name = "model",
     .argument = "DIR",
     .type = LZT_OPTION_PATH,
     .help = "of tokens: the model whose tokenizer and template are used"},
    {.name = "tokenizer",
     .argument = "DIR|FILE",
     .type = LZT_OPTION_PATH,
     .help = "another tokenizer than the model's"},
    {.name = "template",
     .argument = "T",
     .type = LZT_OPTION_TEXT,
     .fallback = "auto",
     .help = "auto (the model's own, if it has one), none, a built-in one, or a Jinja file"},
    {.name = "query-field", .argument = "A", .type = LZT_OPTION_TEXT, .help = "the question's field"},
    {.name = "response-field", .argument = "B", .type = LZT_OPTION_TEXT, .help = "the answer's field"},
    {.name = "max-seq-length",
     .argument = "N",
     .type = LZT_OPTION_UINT,
     .unit = "tokens",
     .fallback = "0",
     .help = "of tokens: where rows are cut; 0: not"},
    {.name = "limit",
     .argument = "N",
     .type = LZT_OPTION_UINT,
     .unit = "rows",
     .fallback = "0",
     .help = "rows of each file to read; 0: all"},
    {.name = "on-bad-row",
     .argument = "HOW",
     .type = LZT_OPTION_CHOICE,
     .choices = "error|skip",
     .fallback = "error",
     .help = "what becomes of rows that cannot be read"},
    LZT_OPTION_JSON,
};

/* ---- the file that is written ---- */

/* Rows are gathered and written to a file beside the output, which takes its name when it is whole. */
typedef struct output {
    const char *path;
    char temporary[4200];
    int fd; /* -1: none */
    uint64_t bytes;
    lzt__text text;
} output;

static lzt_status begin(output *o, const char *path, lzt_error *err)
{
    *o = (output){.path = path, .fd = -1};
    snprintf(o->temporary, sizeof o->temporary, "%.4096s.tmp-%ld", path, (long)getpid());
    lzt_status s = lzt__os_check_replaceable(path, err);
    if (s) return s;
    return lzt__os_open(lzt__os_posix(), AT_FDCWD, o->temporary, O_WRONLY | O_CREAT | O_TRUNC, 0666, &o->fd, err);
}

static lzt_status flush(output *o, lzt_error *err)
{
    if (o->text.failed) return lzt_fail(err, LZT_ERR_NO_MEMORY, o->path, "no memory for a row");
    lzt_status s = lzt__os_write_all(lzt__os_posix(), o->fd, o->temporary, o->text.at, o->text.bytes, o->bytes, err);
    o->bytes += o->text.bytes;
    o->text.bytes = 0;
    return s;
}

static lzt_status end_row(output *o, lzt_error *err)
{
    lzt__text_add_bytes(&o->text, "\n", 1);
    return o->text.failed || o->text.bytes >= FLUSH_BYTES ? flush(o, err) : LZT_OK;
}

/* Publishes the file, or after an error removes what there is of it. */
static lzt_status end(output *o, lzt_status s, lzt_error *err)
{
    const lzt_os *os = lzt__os_posix();
    if (o->fd < 0) return s;
    if (!s) s = flush(o, err);
    int code = s ? 0 : os->fsync(os, o->fd);
    if (!code && !s) code = os->renameat(os, AT_FDCWD, o->temporary, AT_FDCWD, o->path, 0);
    if (code < 0) s = lzt_fail_os(err, LZT_ERR_STORAGE, -code, o->path, "cannot write the rows");
    os->close(os, o->fd);
    if (s) os->unlinkat(os, AT_FDCWD, o->temporary, 0);
    lzt__text_free(&o->text);
    return s;
}

/* ---- rows ---- */

typedef struct conversion {
    lzt_tokenizer *tokenizer;
    lzt_template *chat;
    lzt_dataset *dataset;
    output out;
} conversion;

static lzt_status open_tokenizer(const lzt_args *args, conversion *c, lzt_error *err)
{
    const char *model = lzt_args_text(args, "model"), *tokenizer = lzt_args_text(args, "tokenizer"),
               *name = lzt_args_text(args, "template");
    if (!tokenizer) tokenizer = model;
    if (!tokenizer) {
        lzt_fail(err, LZT_ERR_USAGE, "--to", "tokens are made with a tokenizer");
        return lzt_hint(err, "name one: --model DIR or --tokenizer DIR");
    }
    lzt_status s = lzt_tokenizer_open(tokenizer, NULL, &c->tokenizer, err);
    if (s || !strcmp(name, "none")) return s;
    s = lzt_template_open(name, model ? model : tokenizer, &c->chat, err);
    return s == LZT_ERR_USAGE && !lzt_args_given(args, "template") ? LZT_OK : s;
}

static lzt_status open_dataset(const lzt_args *args, bool tokens, conversion *c, lzt_error *err)
{
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    o.path = lzt_args_text(args, "dataset");
    o.dataset_dir = lzt_args_text(args, "dataset-dir");
    o.max_samples = lzt_args_uint(args, "limit");
    o.max_seq_length = lzt_args_uint(args, "max-seq-length");
    o.tokenizer = c->tokenizer;
    o.vocabulary = c->tokenizer ? lzt_tokenizer_size(c->tokenizer) : 0;
    o.chat = c->chat;
    o.query_field = lzt_args_text(args, "query-field");
    o.response_field = lzt_args_text(args, "response-field");
    o.on_bad_row = strcmp(lzt_args_text(args, "on-bad-row"), "skip") ? LZT_BAD_ROW_ERROR : LZT_BAD_ROW_SKIP;
    o.lazy = !tokens; /* a conversation is written whether it trains or not */
    return lzt_dataset_open(&o, &c->dataset, err);
}

static lzt_status write_messages(conversion *c, lzt_error *err)
{
    lzt_status s = LZT_OK;
    for (uint64_t i = 0; !s && i < lzt_dataset_rows(c->dataset); i++) {
        const char *text;
        uint64_t size;
        s = lzt_dataset_convert(c->dataset, i, &text, &size, err);
        if (s || !size) continue;
        lzt__text_add_bytes(&c->out.text, text, size);
        s = end_row(&c->out, err);
    }
    return s;
}

static void put_list(lzt__text *text, const char *name, const int32_t *list, uint32_t n)
{
    lzt__text_add(text, "\"%s\": [", name);
    for (uint32_t i = 0; i < n; i++) lzt__text_add(text, i ? ", %" PRId32 : "%" PRId32, list[i]);
    lzt__text_add_bytes(text, "]", 1);
}

static void put_weights(lzt__text *text, const float *list, uint32_t n)
{
    char number[LZT_REAL_TEXT];
    lzt__text_add(text, ", \"loss_weights\": [");
    for (uint32_t i = 0; i < n; i++) lzt__text_add(text, i ? ", %s" : "%s", lzt__real_text_f32(list[i], number));
    lzt__text_add_bytes(text, "]", 1);
}

static lzt_status write_tokens(conversion *c, lzt_error *err)
{
    lzt_status s = LZT_OK;
    uint64_t capacity = 0;
    int32_t *ids = NULL, *labels = NULL;
    float *weights = NULL;
    for (uint64_t i = 0; !s && i < lzt_dataset_rows(c->dataset); i++) {
        uint32_t n;
        s = lzt_dataset_measure(c->dataset, i, &n, NULL, err);
        if (s || !n) continue;
        if (n > capacity) {
            free(ids);
            free(labels);
            free(weights);
            capacity = 2 * (uint64_t)n;
            ids = malloc(capacity * sizeof *ids);
            labels = malloc(capacity * sizeof *labels);
            weights = malloc(capacity * sizeof *weights);
            if (!ids || !labels || !weights) {
                s = lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a row");
                break;
            }
        }
        s = lzt_dataset_read(c->dataset, i, ids, labels, weights, err);
        if (s) break;
        lzt__text_add_bytes(&c->out.text, "{", 1);
        put_list(&c->out.text, "input_ids", ids, n);
        lzt__text_add_bytes(&c->out.text, ", ", 2);
        put_list(&c->out.text, "labels", labels, n);
        if (lzt_data_is_weighted(weights, n)) put_weights(&c->out.text, weights, n);
        lzt__text_add_bytes(&c->out.text, "}", 1);
        s = end_row(&c->out, err);
    }
    free(ids);
    free(labels);
    free(weights);
    return s;
}

static lzt_status print_counts(const lzt_args *args, const conversion *c, lzt_error *err)
{
    lzt_dataset_report r;
    lzt_dataset_get_report(c->dataset, &r);
    if (lzt_args_flag(args, "json")) {
        json_t *counts = json_object();
        lzt_data_put_counts(counts, c->dataset);
        json_object_set_new(counts, "output", json_string(c->out.path));
        json_object_set_new(counts, "bytes", json_integer((json_int_t)c->out.bytes));
        return lzt_talk_json(counts, err);
    }
    printf("%s: %" PRIu64 " of %" PRIu64 " rows, %" PRIu64 " bytes\n", c->out.path, r.rows_out, r.rows_in,
           c->out.bytes);
    printf("left out: %" PRIu64 " unreadable, %" PRIu64 " too long, %" PRIu64 " without a trained token\n",
           r.dropped_bad, r.dropped_too_long, r.dropped_untrained + r.dropped_cut);
    printf("seen: %" PRIu64 " blank lines, %" PRIu64 " rows with broken text (U+FFFD in its place), %" PRIu64
           " rows with a NUL, %" PRIu64 " truncated\n",
           r.blank_lines, r.replaced_text, r.nul_text, r.truncated);
    return LZT_OK;
}

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    conversion c = {.out.fd = -1};
    bool tokens = !strcmp(lzt_args_text(args, "to"), "tokens");
    lzt_status s = tokens ? open_tokenizer(args, &c, err) : LZT_OK;
    if (!s) s = open_dataset(args, tokens, &c, err);
    if (!s) s = begin(&c.out, lzt_args_text(args, "output"), err);
    if (!s) s = tokens ? write_tokens(&c, err) : write_messages(&c, err);
    s = end(&c.out, s, err);
    if (!s) s = print_counts(args, &c, err);
    lzt_dataset_close(c.dataset);
    lzt_template_close(c.chat);
    lzt_tokenizer_close(c.tokenizer);
    return s;
}

const lzt_command lzt_command_data_convert = {
    .name = "data convert",
    .summary = "write a data set as normalised JSONL",
    .example = "lazytrain data convert --dataset train.arrow --output train.jsonl\n"
               "lazytrain data convert --dataset chats --dataset-dir data --to tokens --model models/smollm2 --output "
               "rows.jsonl",
    .details = "Reads whatever training reads and writes one row a line: conversations as messages (with tools, and a "
               "weight where a turn's training is not the usual one), texts as text, rows of ids as input_ids and "
               "labels. With --to tokens, every row as the input_ids and labels that training would see; rows that do "
               "not train are left out and counted. A row with weights that are neither 0 nor 1 also has loss_weights. "
               "The output appears when it is whole; on an error there is none.",
    .option = options,
    .option_count = LZT_COUNT(options),
    .run = run};
