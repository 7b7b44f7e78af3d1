/* lazytrain generate: greedy continuation of a prompt. */
#include "cli/commands.h"
#include "cli/session.h"
#include "cli/talk.h"
#include "lazytrain/train.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const lzt_option options[] = {
    {.name = "model", .argument = "DIR", .type = LZT_OPTION_PATH, .required = true, .help = "the model's directory"},
    {.name = "prompt-ids", .argument = "IDS", .type = LZT_OPTION_TEXT, .help = "token ids, separated by commas"},
    {.name = "prompt", .argument = "TEXT", .type = LZT_OPTION_TEXT, .help = "a text, encoded by the model's tokenizer"},
    {.name = "max-new-tokens",
     .argument = "N",
     .type = LZT_OPTION_UINT,
     .unit = "tokens",
     .fallback = "64",
     .help = "at most so many; an end-of-sequence id ends the text, and is part of it"},
    {.name = "dtype",
     .argument = "TYPE",
     .type = LZT_OPTION_CHOICE,
     .choices = "f32|bf16",
     .help = "weights and activations; default: the directory's own"},
    {.name = "tokenizer", .argument = "PATH", .type = LZT_OPTION_PATH, .help = "default: the model's own"},
    {.name = "echo", .type = LZT_OPTION_FLAG, .help = "print the prompt, too, ahead of what continues it"},
    LZT_OPTION_JSON,
};

static lzt_status parse_ids(const char *text, int32_t **ids, uint64_t *count, lzt_error *err)
{
    uint64_t room = strlen(text) / 2 + 2;
    *count = 0;
    *ids = calloc(room, sizeof **ids);
    if (!*ids) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the prompt");
    for (const char *at = text;; at++) {
        char *end;
        errno = 0;
        long value = strtol(at, &end, 10);
        if (end == at || errno || value < 0 || value > INT32_MAX || (*end && *end != ','))
            return lzt_fail(err, LZT_ERR_USAGE, "--prompt-ids", "\"%s\" is not a list of ids such as 1,2,3", text);
        (*ids)[(*count)++] = (int32_t)value;
        if (!*end) return LZT_OK;
        at = end;
    }
}

static lzt_status encode(const lzt_session *s, const char *text, int32_t **ids, uint64_t *count, lzt_error *err)
{
    lzt_encoder *encoder = NULL;
    lzt_encoding encoding;
    if (!s->tokenizer) {
        lzt_fail(err, LZT_ERR_USAGE, s->info->directory, "the directory has no tokenizer");
        return lzt_hint(err, "give --tokenizer, or --prompt-ids");
    }
    lzt_status status = lzt_encoder_create(s->tokenizer, &encoder, err);
    if (!status)
        status = lzt_encoder_encode(encoder, text, strlen(text), NULL, LZT_ENCODE_ADDED | LZT_ENCODE_SPECIAL, &encoding,
                                    err);
    if (!status) {
        *count = encoding.count;
        *ids = calloc(encoding.count + 1, sizeof **ids);
        if (!*ids)
            status = lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the prompt");
        else
            memcpy(*ids, encoding.ids, encoding.count * sizeof **ids);
    }
    lzt_encoder_destroy(encoder);
    return status;
}

static lzt_status print(const lzt_session *s, const int32_t *ids, uint64_t count, bool json, lzt_error *err)
{
    char *text = NULL;
    lzt_status status = LZT_OK;
    if (s->tokenizer) status = lzt_tokenizer_decode(s->tokenizer, ids, count, true, &text, NULL, err);
    if (status) return status;
    if (json) {
        json_t *list = json_array();
        for (uint64_t i = 0; i < count; i++) json_array_append_new(list, json_integer(ids[i]));
        status = lzt_talk_json(json_pack("{s:o,s:s?}", "ids", list, "text", text), err);
    } else if (text) {
        printf("%s\n", text);
    } else {
        for (uint64_t i = 0; i < count; i++) printf("%s%d", i ? "," : "", ids[i]);
        printf("\n");
    }
    free(text);
    return status;
}

/* The prompt as the tokenizer reads it back, or its ids. */
static lzt_status echo(const lzt_session *s, const int32_t *ids, uint64_t count, lzt_error *err)
{
    char *text = NULL;
    lzt_status status = s->tokenizer ? lzt_tokenizer_decode(s->tokenizer, ids, count, true, &text, NULL, err) : LZT_OK;
    if (text) printf("%s", text);
    for (uint64_t i = 0; !text && !status && i < count; i++) printf("%d,", ids[i]);
    free(text);
    return status;
}

static lzt_status generate(const lzt_args *args, lzt_session *s, int32_t **prompt, int32_t **out, lzt_error *err)
{
    uint64_t count = 0, wanted = lzt_args_uint(args, "max-new-tokens");
    const char *ids = lzt_args_text(args, "prompt-ids"), *text = lzt_args_text(args, "prompt");
    if (!ids == !text) return lzt_fail(err, LZT_ERR_USAGE, "generate", "give one of --prompt-ids and --prompt");
    lzt_status status = lzt_session_open_model(s, lzt_args_text(args, "model"), err);
    if (!status) status = lzt_session_open_tokenizer(s, lzt_args_text(args, "tokenizer"), err);
    if (!status) status = ids ? parse_ids(ids, prompt, &count, err) : encode(s, text, prompt, &count, err);
    if (!status && !count) status = lzt_fail(err, LZT_ERR_USAGE, "--prompt", "the prompt is empty");
    if (status) return status;
    uint64_t most = s->info->max_positions + 1;
    if (wanted > most || count > most - wanted) {
        lzt_fail(err, LZT_ERR_USAGE, "--max-new-tokens", "%llu ids and %llu new ones exceed the model's %llu positions",
                 (unsigned long long)count, (unsigned long long)wanted, (unsigned long long)s->info->max_positions);
        return lzt_hint(err, "ask for fewer");
    }
    *out = calloc(wanted + 1, sizeof **out);
    if (!*out) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for %llu ids", (unsigned long long)wanted);
    const lzt_cache_shape cache = {.sequences = 1, .length = count + wanted, .prompt_tokens = count};
    lzt_sequence sequence = {.prompt = *prompt, .prompt_count = count, .max_new = wanted, .out = *out};
    status = lzt_session_open_kernels(s, lzt_session_dtype(s, lzt_args_text(args, "dtype")), count, 1, false, err);
    if (!status) status = lzt_session_choose_plan(s, err);
    if (!status) status = lzt_session_open_engine(s, &cache, err);
    if (!status) status = lzt_generate(s->engine, &sequence, 1, NULL, NULL, err);
    bool json = lzt_args_flag(args, "json");
    if (!status && !json && lzt_args_flag(args, "echo")) status = echo(s, *prompt, count, err);
    if (!status) status = print(s, *out, sequence.made, json, err);
    return status;
}

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    lzt_session session = {0};
    int32_t *prompt = NULL, *out = NULL;
    lzt_status status = generate(args, &session, &prompt, &out, err);
    free(prompt);
    free(out);
    lzt_session_close(&session);
    return status;
}

const lzt_command lzt_command_generate = {
    .name = "generate",
    .summary = "continue a prompt, always with the likeliest token",
    .details = "Prints what continues the prompt, alone unless --echo is given.",
    .example = "lazytrain generate --model out/final --prompt 'Once upon a time' --max-new-tokens 64",
    .option = options,
    .option_count = LZT_COUNT(options),
    .run = run};
