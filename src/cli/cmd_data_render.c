/* lazytrain data render: conversations through a chat template, to see what a model is given. */
#include "base/real_text.h"
#include "cli/commands.h"
#include "cli/talk.h"
#include "lazytrain/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const lzt_option options[] = {
    {.name = "model",
     .argument = "DIR",
     .type = LZT_OPTION_PATH,
     .help = "the model directory: its own template, and the special tokens"},
    {.name = "template",
     .argument = "T",
     .type = LZT_OPTION_TEXT,
     .fallback = "auto",
     .help = "auto (the model's own), alpaca, chatml, qwen2.5, qwen3, llama3, raw, or a Jinja file"},
    {.name = "prompt", .type = LZT_OPTION_FLAG, .help = "add the generation prompt"},
    LZT_OPTION_JSON,
};

/* spans: [[begin, end], ...] in bytes of the text, of what is trained; weights, where one is not 1: of each span. */
static json_t *row_of(const lzt_rendered *r)
{
    char text[LZT_REAL_TEXT];
    json_t *spans = json_array(), *weights = json_array();
    bool weighted = false;
    for (uint64_t i = 0; i < r->size;) {
        uint64_t end = i;
        while (end < r->size && !r->trained[end] == !r->trained[i] && r->weight[end] == r->weight[i]) end++;
        if (r->trained[i]) {
            json_array_append_new(spans, json_pack("[I,I]", (json_int_t)i, (json_int_t)end));
            json_array_append_new(weights, lzt_talk_json_real(strtod(lzt__real_text_f32(r->weight[i], text), NULL)));
            weighted = weighted || r->weight[i] != 1;
        }
        i = end;
    }
    json_t *row = json_pack("{s:o,s:o}", "text", json_stringn(r->text, r->size), "spans", spans);
    if (weighted) json_object_set(row, "weights", weights);
    json_decref(weights);
    return row;
}

static lzt_status one(lzt_template *chat, const char *line, uint64_t size, bool prompt, lzt_error *err)
{
    lzt_rendered r;
    lzt_error mine = {0};
    if (lzt_template_render(chat, line, size, prompt ? LZT_RENDER_PROMPT : 0, &r, &mine))
        return lzt_talk_json_line(json_pack("{s:s,s:s}", "error", mine.message, "where", mine.where), err);
    return lzt_talk_json_line(row_of(&r), err);
}

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    lzt_template *chat;
    lzt_status s = lzt_template_open(lzt_args_text(args, "template"), lzt_args_text(args, "model"), &chat, err);
    if (s) return s;
    char *line = NULL;
    size_t capacity = 0;
    ssize_t n;
    while (!s && (n = getline(&line, &capacity, stdin)) > 0)
        s = one(chat, line, (uint64_t)n, lzt_args_flag(args, "prompt"), err);
    free(line);
    lzt_template_close(chat);
    return s;
}

const lzt_command lzt_command_data_render = {
    .name = "data render",
    .summary = "conversations through a chat template",
    .example = "echo '[{\"role\":\"user\",\"content\":\"Hi\"}]' | lazytrain data render --template chatml",
    .details =
        "Reads one conversation a line: a JSON list of messages, or an object with messages, tools and other "
        "variables. Prints {text, spans} a line, or {error, where} where the template refuses. spans are the bytes "
        "that "
        "are trained: what is inside {% generation %}; in a template without it, the assistant's turns behind their "
        "header, through the token that ends them. A message's train, weight or loss_weight counts as in "
        "training; where one is neither 0 nor 1, weights has one a span.",
    .option = options,
    .option_count = LZT_COUNT(options),
    .run = run};
