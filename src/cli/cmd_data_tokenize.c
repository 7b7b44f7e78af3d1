/* lazytrain data tokenize: lines of standard input to token ids; or a config's rows, made and kept (row_cache.c).
 *
 * Input is taken in blocks of whole lines; each thread has an encoder and a contiguous share of a block's bytes, and
 * writes its share's output, which is printed in order.
 */
#include "base/team.h"
#include "cli/commands.h"
#include "cli/row_cache.h"
#include "lazytrain/tokenizer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_BYTES (UINT64_C(16) << 20)

static const lzt_option options[] = {
    {.name = "tokenizer",
     .argument = "DIR|FILE",
     .type = LZT_OPTION_PATH,
     .help = "tokenizer.json, vocab.json with merges.txt, tokenizer.model, or a rank file with --pattern; or its "
             "directory"},
    {.name = "config",
     .argument = "CONFIG",
     .type = LZT_OPTION_PATH,
     .help = "make the rows of this training config and keep them, instead of reading standard input"},
    {.name = "pattern", .argument = "REGEX", .type = LZT_OPTION_TEXT, .help = "how a tiktoken rank file splits text"},
    {.name = "threads", .argument = "N", .type = LZT_OPTION_UINT, .fallback = "1", .help = "encoders at work"},
    {.name = "lines",
     .argument = "KIND",
     .type = LZT_OPTION_CHOICE,
     .choices = "text|json",
     .fallback = "text",
     .help = "what a line of input is: a text as it stands, or a JSON string"},
    LZT_OPTION_JSON,
};

/* One thread's share. */
typedef struct worker {
    lzt_encoder *encoder;
    char *out;
    uint64_t used, capacity;
    lzt_status status;
    lzt_error err;
} worker;

typedef struct job {
    worker *worker;
    const char *text;
    uint64_t size, first_line;
    bool is_json;
} job;

static bool room(worker *w, uint64_t more)
{
    if (w->capacity - w->used >= more) return true;
    uint64_t capacity = 2 * w->capacity + more + 65536;
    char *out = realloc(w->out, capacity);
    if (!out) return false;
    w->out = out;
    w->capacity = capacity;
    return true;
}

static char *write_id(char *at, uint32_t id)
{
    char digits[10];
    int n = 0;
    do digits[n++] = (char)('0' + id % 10);
    while (id /= 10);
    while (n) *at++ = digits[--n];
    return at;
}

static lzt_status write_ids(worker *w, const lzt_encoding *e)
{
    if (!room(w, 11 * e->count + 4)) return lzt_fail(&w->err, LZT_ERR_NO_MEMORY, NULL, "no memory for the output");
    char *at = w->out + w->used;
    *at++ = '[';
    for (uint64_t i = 0; i < e->count; i++) {
        if (i) *at++ = ',';
        at = write_id(at, (uint32_t)e->ids[i]);
    }
    *at++ = ']';
    *at++ = '\n';
    w->used = (uint64_t)(at - w->out);
    return LZT_OK;
}

static lzt_status one_line(worker *w, const char *text, uint64_t size, bool is_json)
{
    lzt_encoding e;
    lzt_status s = is_json ? lzt_encoder_encode_json(w->encoder, text, size, LZT_ENCODE_ADDED, &e, &w->err)
                           : lzt_encoder_encode(w->encoder, text, size, NULL, LZT_ENCODE_ADDED, &e, &w->err);
    return s ? s : write_ids(w, &e);
}

/* The first line end at or behind `at`: where a share may begin. */
static uint64_t line_start(const job *j, uint64_t at)
{
    if (!at || at >= j->size) return at ? j->size : 0;
    const char *newline = memchr(j->text + at - 1, '\n', j->size - at + 1);
    return newline ? (uint64_t)(newline - j->text) + 1 : j->size;
}

static void share(void *arg, uint32_t part, uint32_t parts)
{
    const job *j = arg;
    worker *w = &j->worker[part];
    uint64_t at = line_start(j, j->size * part / parts), end = line_start(j, j->size * (part + 1) / parts);
    w->used = 0;
    while (!w->status && at < end) {
        const char *newline = memchr(j->text + at, '\n', end - at);
        uint64_t stop = newline ? (uint64_t)(newline - j->text) : end;
        w->status = one_line(w, j->text + at, stop - at, j->is_json);
        if (w->status) {
            uint64_t line = j->first_line;
            for (uint64_t i = 0; i < at; i++) line += j->text[i] == '\n';
            snprintf(w->err.where, sizeof w->err.where, "stdin:%llu", (unsigned long long)line);
        }
        at = stop + 1;
    }
}

static lzt_status print(const job *j, uint32_t parts, lzt_error *err)
{
    for (uint32_t i = 0; i < parts; i++) {
        const worker *w = &j->worker[i];
        if (w->used && fwrite(w->out, 1, w->used, stdout) != w->used)
            return lzt_fail_os(err, LZT_ERR_STORAGE, errno, "standard output", "cannot write");
        if (w->status) {
            *err = w->err;
            return w->status;
        }
    }
    return LZT_OK;
}

/* Reads until the block is full or the input ends; false at the end. */
static bool fill(char *block, uint64_t *size, uint64_t capacity, lzt_status *status, lzt_error *err)
{
    while (*size < capacity) {
        ssize_t n = read(STDIN_FILENO, block + *size, capacity - *size);
        if (n == 0) return false;
        if (n > 0)
            *size += (uint64_t)n;
        else if (errno != EINTR) {
            *status = lzt_fail_os(err, LZT_ERR_STORAGE, errno, "stdin", "cannot read");
            return false;
        }
    }
    return true;
}

static lzt_status run_lines(lzt_team *team, job *j, lzt_error *err)
{
    uint64_t capacity = BLOCK_BYTES, size = 0;
    char *block = malloc(capacity);
    lzt_status s = block ? LZT_OK : lzt_fail(err, LZT_ERR_NO_MEMORY, "stdin", "no memory for the input");
    for (bool more = true; !s && more;) {
        more = fill(block, &size, capacity, &s, err);
        uint64_t whole = size;
        while (more && whole && block[whole - 1] != '\n') whole--;
        if (more && !whole) { /* one line longer than the block */
            capacity *= 2;
            char *grown = realloc(block, capacity);
            if (!grown)
                s = lzt_fail(err, LZT_ERR_NO_MEMORY, "stdin", "no memory for a line");
            else
                block = grown;
            continue;
        }
        if (s) break;
        j->text = block;
        j->size = whole;
        lzt__team_run(team, share, j);
        s = print(j, lzt__team_size(team), err);
        for (uint64_t i = 0; !s && i < whole; i++) j->first_line += block[i] == '\n';
        size -= whole;
        memmove(block, block + whole, size);
    }
    free(block);
    return s;
}

static lzt_status run_stdin(const lzt_args *args, lzt_error *err)
{
    uint64_t threads = lzt_args_uint(args, "threads");
    if (!threads || threads > 256) return lzt_fail(err, LZT_ERR_USAGE, "--threads", "must be 1 to 256");
    lzt_tokenizer_options how = LZT_TOKENIZER_OPTIONS_INIT;
    how.pattern = lzt_args_text(args, "pattern");
    lzt_tokenizer *tokenizer = NULL;
    lzt_team *team = NULL;
    job j = {.first_line = 1, .is_json = !strcmp(lzt_args_text(args, "lines"), "json")};
    lzt_status s = lzt_tokenizer_open(lzt_args_text(args, "tokenizer"), &how, &tokenizer, err);
    if (!s) s = lzt__team_create((uint32_t)threads, &team, err);
    if (!s && !(j.worker = calloc(threads, sizeof *j.worker)))
        s = lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for encoders");
    for (uint64_t i = 0; !s && i < threads; i++) s = lzt_encoder_create(tokenizer, &j.worker[i].encoder, err);
    if (!s) s = run_lines(team, &j, err);
    for (uint64_t i = 0; j.worker && i < threads; i++) {
        lzt_encoder_destroy(j.worker[i].encoder);
        free(j.worker[i].out);
    }
    free(j.worker);
    lzt__team_destroy(team);
    lzt_tokenizer_close(tokenizer);
    return s;
}

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    const char *config = lzt_args_text(args, "config");
    if (!config == !lzt_args_text(args, "tokenizer")) {
        lzt_fail(err, LZT_ERR_USAGE, "data tokenize", "either --tokenizer or --config is needed");
        return lzt_hint(err, "--tokenizer DIR reads texts from standard input, --config makes a run's rows ahead");
    }
    return config ? lzt_row_cache_build(config, lzt_args_flag(args, "json"), err) : run_stdin(args, err);
}

const lzt_command lzt_command_data_tokenize = {
    .name = "data tokenize",
    .summary = "lines of standard input to token ids, or a run's rows made ahead",
    .example = "lazytrain data tokenize --tokenizer models/qwen3 < texts.txt",
    .details =
        "Prints one JSON array of ids for each line of input, with or without --json. Ids are those of encoding "
        "without special tokens; added tokens are matched wherever they stand. Input that is not UTF-8 is an "
        "error; in JSON strings, unpaired surrogates become U+FFFD. With --config the rows of the config's data sets "
        "are made and kept where tokenized_path says, so that train finds them; what is kept is found by a hash "
        "of the program, the tokenizer's and the template's files, the data and every setting that changes a "
        "row.",
    .option = options,
    .option_count = LZT_COUNT(options),
    .run = run};
