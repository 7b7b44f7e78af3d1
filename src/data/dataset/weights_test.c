/* Goal: a message's weight reaches exactly the tokens of its turn, in every format and template; weights of 0 and 1 are
 * what they were without weights; what is no weight is refused with its place and the way out; rows keep their weights
 * through truncation, the cache, conversion, packing and grouping. Method: rows written here, through the small
 * tokenizer of the data directory; skips, saying so, without it. */
#include "lazytrain/data.h"
#include "lazytrain/template.h"
#include "lazytrain/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { MOST = 1024 };

static char root[64];
static lzt_tokenizer *tokenizer;
static lzt_error err;

typedef struct row {
    int32_t ids[MOST], labels[MOST];
    float weights[MOST];
    uint32_t n, trained;
    double weight;
    char text[4096]; /* "0.5:no<|im_end|>|1:yes": runs of one weight above 0 */
} row;

static const char *put(const char *name, const char *text)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", root, name);
    unlink(path); /* an open data set keeps its own */
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return path;
}

static lzt_dataset *open_rows(const char *text, lzt_dataset_options o, lzt_template *chat)
{
    lzt_dataset *d = NULL;
    o.path = put("rows.jsonl", text);
    o.tokenizer = tokenizer;
    o.chat = chat;
    if (lzt_dataset_open(&o, &d, &err)) fail_msg("%s: %s (%s)", err.where, err.message, err.hint);
    return d;
}

static void refuse(const char *text, lzt_dataset_options o, lzt_template *chat, const char *where, const char *says)
{
    lzt_dataset *d = NULL;
    o.path = put("rows.jsonl", text);
    o.tokenizer = tokenizer;
    o.chat = chat;
    err = (lzt_error){0};
    assert_int_equal(lzt_dataset_open(&o, &d, &err), LZT_ERR_DATA);
    if (!strstr(err.where, where) || !strstr(err.message, says)) fail_msg("%s: %s", err.where, err.message);
    if (!strstr(err.hint, strstr(says, "turn") ? "chatml" : "1e-9 to 1e9") && !strstr(says, "entries") &&
        !strstr(says, "list"))
        fail_msg("no way out: %s", err.hint);
}

static void read_row(lzt_dataset *d, uint64_t i, row *r)
{
    float before = 0;
    double sum = 0;
    uint32_t trained = 0;
    assert_int_equal(lzt_dataset_measure(d, i, &r->n, &r->trained, &err), 0);
    assert_int_equal(lzt_dataset_weigh(d, i, &r->weight, &err), 0);
    assert_true(r->n <= MOST);
    assert_int_equal(lzt_dataset_read(d, i, r->ids, r->labels, r->weights, &err), 0);
    r->text[0] = 0;
    for (uint32_t t = 0; t < r->n; t++) {
        float w = r->weights[t];
        assert_int_equal(r->labels[t] == LZT_LABEL_NONE, w == 0);
        trained += w > 0;
        sum += (double)w;
        size_t used = strlen(r->text);
        if (w != before && w > 0) snprintf(r->text + used, sizeof r->text - used, "%s%g:", used ? "|" : "", (double)w);
        before = w;
        if (w == 0) continue;
        assert_int_equal(r->labels[t], r->ids[t]);
        char *piece;
        assert_int_equal(lzt_tokenizer_decode(tokenizer, &r->ids[t], 1, false, &piece, NULL, &err), 0);
        strcat(r->text, piece);
        free(piece);
    }
    assert_int_equal(trained, r->trained);
    assert_true(sum == r->weight);
}

static void row_is(const char *line, lzt_loss_on loss_on, lzt_template *chat, const char *want)
{
    row r;
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    o.loss_on = loss_on;
    lzt_dataset *d = open_rows(line, o, chat);
    read_row(d, 0, &r);
    assert_string_equal(r.text, want);
    lzt_dataset_close(d);
}

static lzt_template *open_chat(const char *name)
{
    lzt_template *chat;
    if (lzt_template_open(name, NULL, &chat, &err)) fail_msg("%s: %s", err.where, err.message);
    return chat;
}

#define M(role, text)         "{\"role\":\"" role "\",\"content\":\"" text "\"}"
#define W(role, text, weight) "{\"role\":\"" role "\",\"content\":\"" text "\"," weight "}"
#define T(from, text, weight) "{\"from\":\"" from "\",\"value\":\"" text "\"," weight "}"
#define TALK(messages)        "{\"messages\":[" messages "]}\n"
#define SHARED(messages)      "{\"conversations\":[" messages "]}\n"
#define UNMARKED                                                                                                       \
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"           \
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

/* ---- from messages to tokens ---- */

static void every_format(void **state)
{
    (void)state;
    lzt_template *chat = open_chat("chatml");
    row_is(TALK(M("user", "1") "," W("assistant", "no", "\"weight\":0.5") "," M("user", "2") "," M("assistant", "yes")),
           LZT_LOSS_ASSISTANT, chat, "0.5:no<|im_end|>|1:yes<|im_end|>");
    row_is(TALK(M("user", "1") "," W("assistant", "no", "\"weight\":0") "," M("user", "2") "," W("assistant", "yes",
                                                                                                 "\"weight\":2.5")),
           LZT_LOSS_ASSISTANT, chat, "2.5:yes<|im_end|>");
    row_is(TALK(W("assistant", "a", "\"loss_weight\":0.25") "," W("assistant", "b", "\"train\":0.125") "," W(
               "assistant", "c", "\"train\":true") "," W("assistant", "d", "\"train\":false") "," W("assistant", "e",
                                                                                                    "\"weight\":null")),
           LZT_LOSS_ASSISTANT, chat, "0.25:a<|im_end|>|0.125:b<|im_end|>|1:c<|im_end|>|1:e<|im_end|>");
    row_is(SHARED(T("human", "1", "\"x\":0") "," T("gpt", "no", "\"loss_weight\":0.75") "," T(
               "function_call", "[]", "\"loss_weight\":0.5") "," T("gpt", "yes", "\"weight\":1")),
           LZT_LOSS_ASSISTANT, chat, "0.75:no<|im_end|>|0.5:<|im_end|>|1:yes<|im_end|>");
    row_is(TALK(M("user", "1") "," W("assistant", "no", "\"weight\":0.5") "," M("assistant", "yes")), LZT_LOSS_LAST,
           chat, "1:yes<|im_end|>");
    row_is(TALK(M("user", "1") "," M("assistant", "no") "," W("assistant", "yes", "\"weight\":0.5")), LZT_LOSS_LAST,
           chat, "0.5:yes<|im_end|>");
    lzt_template_close(chat);
}

static void every_template(void **state)
{
    (void)state;
    static const char line[] = TALK(W("user", "1", "\"weight\":0.5") "," W("assistant", "no", "\"weight\":0.25") "," M(
        "user", "2") "," W("assistant", "yes", "\"weight\":3"));
    static const char *const names[] = {"chatml", "qwen2.5", "alpaca", "raw"};
    static const char *const says[] = {"0.25:no<|im_end|>|3:yes<|im_end|>", "0.25:no<|im_end|>|3:yes<|im_end|>",
                                       "0.25:no|3:yes", "0.25:no|3:yes"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        lzt_template *chat = open_chat(names[i]);
        row_is(line, LZT_LOSS_ASSISTANT, chat, says[i]);
        lzt_template_close(chat);
    }
    char path[128];
    snprintf(path, sizeof path, "%s", put("own.jinja", UNMARKED));
    lzt_template *chat = open_chat(path); /* without marks also a user's turn can be trained */
    row_is(line, LZT_LOSS_ASSISTANT, chat, "0.5:user\n1<|im_end|>|0.25:no<|im_end|>|3:yes<|im_end|>");
    lzt_template_close(chat);
}

/* Everything bears loss: a turn by its message's weight, header and end included; what says nothing, 1. */
static void on_the_whole(void **state)
{
    (void)state;
    lzt_template *chat = open_chat("chatml");
    row_is(TALK(M("user", "1") "," W("assistant", "no", "\"weight\":0.5")), LZT_LOSS_ALL, chat,
           "1:user\n1<|im_end|>\n|0.5:<|im_start|>assistant\nno<|im_end|>\n");
    row_is(TALK(W("user", "1", "\"weight\":0") "," M("assistant", "no")), LZT_LOSS_ALL, chat,
           "1:<|im_start|>assistant\nno<|im_end|>\n");
    row_is(TALK(M("user", "1") "," W("assistant", "no", "\"weight\":1")), LZT_LOSS_ALL, chat,
           "1:user\n1<|im_end|>\n<|im_start|>assistant\nno<|im_end|>\n");
    lzt_template_close(chat);
}

/* A template that writes all messages at once: weights of 0 and 1 are as they were, others cannot be placed. */
static void nobodys_output(void **state)
{
    (void)state;
    char path[128];
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    lzt_dataset *d = NULL;
    snprintf(path, sizeof path, "%s",
             put("joined.jinja",
                 "{% set ns = namespace(all='') %}{% for m in messages %}{% set ns.all = ns.all + m.content "
                 "%}{% endfor %}{% generation %}{{ ns.all }}{% endgeneration %}"));
    lzt_template *chat = open_chat(path);
    row_is(TALK(M("user", "1") "," M("assistant", "no")), LZT_LOSS_ASSISTANT, chat, "1:no");
    o.path = put("rows.jsonl", TALK(M("user", "1") "," W("assistant", "no", "\"weight\":0.5")));
    o.tokenizer = tokenizer;
    o.chat = chat;
    assert_int_equal(lzt_dataset_open(&o, &d, &err), LZT_ERR_DATA);
    assert_non_null(strstr(err.message, "whose"));
    assert_non_null(strstr(err.hint, "built-in"));
    o.loss_on = LZT_LOSS_ALL;
    assert_int_equal(lzt_dataset_open(&o, &d, &err), LZT_ERR_DATA);
    assert_non_null(strstr(err.message, "whose"));
    lzt_template_close(chat);
}

#define SAID "{{ m.content }};"

/* A system message that the template writes ahead of its loop, or into the user's turn: its weight is never lost. */
static void without_a_turn(void **state)
{
    (void)state;
    static const char *const own[] = {
        "{{ messages[0].content }}|{% for m in messages %}{% if m.role != 'system' %}" SAID "{% endif %}{% endfor %}",
        "{% for m in messages %}{% if m.role == 'system' %} \n{% else %}{{ messages[0].content if loop.index0 == 1 "
        "}}" SAID "{% endif %}{% endfor %}"};
    static const char *const told[] = {"\"weight\":0", "\"weight\":0.5", "\"train\":true"};
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    for (int k = 0; k < 2; k++) {
        char path[128], line[512];
        snprintf(path, sizeof path, "%s", put("own.jinja", own[k]));
        lzt_template *chat = open_chat(path);
        for (int i = 0; i < 3; i++) {
            snprintf(line, sizeof line, TALK(W("system", "s", "%s") "," M("user", "1") "," M("assistant", "a")),
                     told[i]);
            o.loss_on = LZT_LOSS_ALL; /* 1 is what everything has there */
            if (i < 2) refuse(line, o, chat, "rows.jsonl:1", "does not write message 1 in a turn of its own");
            o.loss_on = LZT_LOSS_ASSISTANT; /* 0 is what a system message has there */
            if (i > 0) refuse(line, o, chat, "rows.jsonl:1", "does not write message 1 in a turn of its own");
            if (i == 0) row_is(line, LZT_LOSS_ASSISTANT, chat, "1:a;");
        }
        row_is(TALK(W("system", " ", "\"weight\":0.5") "," M("user", "1") "," W("assistant", "a", "\"weight\":0.5")),
               LZT_LOSS_ASSISTANT, chat, "0.5:a;"); /* no text, nothing to lose */
        lzt_template_close(chat);
    }
    lzt_template *chat = open_chat("alpaca");
    o.loss_on = LZT_LOSS_ALL;
    refuse(TALK(W("system", "s", "\"weight\":0.5") "," M("user", "1") "," M("assistant", "a")), o, chat, "rows.jsonl:1",
           "message 1 in a turn");
    row_is(TALK(W("system", "s", "\"weight\":0.5") "," M("user", "1") "," M("assistant", "a")), LZT_LOSS_ASSISTANT,
           chat, "1:a"); /* nothing of it is trained there, as the template's marks say */
    lzt_template_close(chat);
}

static void refusals(void **state)
{
    (void)state;
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    lzt_template *chat = open_chat("chatml");
    static const struct {
        const char *weight, *says;
    } bad[] = {{"-0.5", "`weight` of message 2 is -0.5, not a weight"},
               {"1e-12", "is 1e-12"},
               {"1e10", "is 1e10"},
               {"1e400", "is not finite"},
               {"1e-400", "`weight` of message 2 is 1e-400, not a weight"},
               {"-0.00001E-400", "is -0.00001E-400"},
               {"9.99e-10", "is 9.99e-10"},
               {"\"0.5\"", "is not a number"},
               {"[1]", "is not a number"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char line[512];
        snprintf(line, sizeof line, "\n%s", TALK(M("user", "1") "," M("assistant", "a")));
        snprintf(line + strlen(line), sizeof line - strlen(line),
                 TALK(M("user", "1") "," W("assistant", "b", "\"weight\":%s")), bad[i].weight);
        refuse(line, o, chat, "rows.jsonl:3", bad[i].says);
        o.on_bad_row = LZT_BAD_ROW_SKIP;
        lzt_dataset_report report;
        lzt_dataset *d = open_rows(line, o, chat);
        lzt_dataset_get_report(d, &report);
        assert_int_equal(report.dropped_bad, 1);
        assert_int_equal(report.first_bad_line, 3);
        lzt_dataset_close(d);
        o.on_bad_row = LZT_BAD_ROW_ERROR;
    }
    lzt_dataset *d = NULL; /* no JSON, as Python writes it */
    o.path = put("rows.jsonl", TALK(W("assistant", "b", "\"weight\":NaN")));
    o.tokenizer = tokenizer;
    o.chat = chat;
    assert_int_equal(lzt_dataset_open(&o, &d, &err), LZT_ERR_DATA);
    assert_non_null(strstr(err.where, "rows.jsonl:1"));
    lzt_template_close(chat);
    refuse("{\"input_ids\":[1,2],\"loss_weights\":[1]}\n", o, NULL, "rows.jsonl:1", "1 entries where input_ids has 2");
    refuse("{\"input_ids\":[1,2],\"loss_weights\":0.5}\n", o, NULL, "rows.jsonl:1", "not a list of numbers");
    refuse("{\"input_ids\":[1,2],\"loss_weights\":[1,-2]}\n", o, NULL, "rows.jsonl:1", "loss_weights[1] is -2");
    refuse("{\"input_ids\":[1,2],\"loss_weights\":[1,1e-400]}\n", o, NULL, "rows.jsonl:1", "loss_weights[1] is 1e-400");
    refuse("{\"input_ids\":[1,2],\"loss_weights\":[1,null]}\n", o, NULL, "rows.jsonl:1",
           "loss_weights[1] is not a number");
}

/* What data render shows: bytes, with the weight of each. */
static void rendered(void **state)
{
    (void)state;
    static const char talk[] = "[" M("user", "1") "," W("assistant", "no", "\"weight\":0.5") "," W(
        "assistant", "none", "\"loss_weight\":0") "," M("assistant", "yes") "]";
    static const struct {
        const char *name, *says;
    } chats[] = {{"chatml", "0.5:no<|im_end|>1:yes<|im_end|>"}, {"own", "0.5:no<|im_end|>1:yes<|im_end|>"}};
    for (int i = 0; i < 2; i++) {
        char path[128], text[256] = "";
        snprintf(path, sizeof path, "%s", i ? put("own.jinja", UNMARKED) : chats[i].name);
        lzt_template *chat = open_chat(path);
        lzt_rendered r;
        float before = 0;
        assert_int_equal(lzt_template_render(chat, talk, sizeof talk - 1, 0, &r, &err), 0);
        for (uint64_t k = 0; k < r.size; k++) {
            size_t used = strlen(text);
            assert_int_equal(r.weight[k] > 0, r.trained[k] > 0);
            if (r.weight[k] > 0 && r.weight[k] != before)
                used += (size_t)snprintf(text + used, sizeof text - used, "%g:", (double)r.weight[k]);
            if (r.weight[k] > 0) snprintf(text + used, sizeof text - used, "%c", r.text[k]);
            before = r.weight[k];
        }
        assert_string_equal(text, chats[i].says);
        static const char bad[] = "[" W("assistant", "no", "\"weight\":-1") "]";
        assert_int_equal(lzt_template_render(chat, bad, sizeof bad - 1, 0, &r, &err), LZT_ERR_DATA);
        assert_non_null(strstr(err.message, "`weight` of message 1 is -1"));
        lzt_template_close(chat);
    }
}

/* ---- rows of ids ---- */

#define IDS                                                                                                            \
    "{\"input_ids\":[1,2,3,4,5,6],\"labels\":[-100,2,-100,4,5,6],\"loss_weights\":[1,0.5,0.25,0,1,1e-3]}\n"            \
    "{\"input_ids\":[7,8,9],\"loss_weights\":[0.1,1,1]}\n"                                                             \
    "{\"input_ids\":[7,8,9],\"loss_weights\":[1,0,0]}\n"                                                               \
    "{\"input_ids\":[7,8,9,10,11],\"loss_weights\":[0,1e9,9.999999717180685e-10,0.3,2]}\n"

static void rows_of_ids(void **state)
{
    (void)state;
    static const float first[] = {0, 0.5f, 0, 0, 1, 1e-3f}, last[] = {0, 1e9f, 1e-9f, 0.3f, 2};
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    lzt_dataset_report report;
    lzt_dataset *d = open_rows(IDS, o, NULL);
    row r;
    lzt_dataset_get_report(d, &report);
    assert_int_equal(report.rows_out, 3);
    assert_int_equal(report.dropped_untrained, 1);
    assert_int_equal(report.trained_tokens, 3 + 2 + 4);
    assert_int_equal(report.weighted_rows, 2); /* nothing predicts the first token, so its weight is none */
    assert_int_equal(report.weighted_tokens, 2 + 4);
    read_row(d, 0, &r);
    assert_memory_equal(r.weights, first, sizeof first);
    assert_int_equal(r.labels[3], LZT_LABEL_NONE);
    read_row(d, 1, &r);
    assert_true(r.weight == 2);
    read_row(d, 2, &r);
    assert_memory_equal(r.weights, last, sizeof last);
    assert_true(report.loss_weight == (0.5 + 1 + (double)1e-3f) + 2 + r.weight);
    lzt_dataset_close(d);
    o.max_seq_length = 3;
    o.truncation = LZT_TRUNCATE_KEEP_ANSWER;
    d = open_rows("{\"input_ids\":[1,2,3,4,5,6],\"loss_weights\":[0,0,0,0.5,0.25,0]}\n", o, NULL);
    read_row(d, 0, &r); /* tokens 3, 4, 5 */
    assert_int_equal(r.ids[0], 3);
    static const float cut[] = {0, 0.5f, 0.25f};
    assert_memory_equal(r.weights, cut, sizeof cut);
    lzt_dataset_close(d);
}

static void from_arrow(void **state)
{
    (void)state;
    static const float floats[] = {0, 0.5f, 0.1f}, doubles[] = {0, 0.125f, 3};
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    lzt_dataset *d;
    row r;
    o.path = "tests/golden/arrow/read-weights.arrow";
    if (lzt_dataset_open(&o, &d, &err)) fail_msg("%s: %s", err.where, err.message);
    read_row(d, 0, &r);
    assert_memory_equal(r.weights, floats, sizeof floats);
    lzt_dataset_close(d);
    o.path = "tests/golden/arrow/read-weights-f64.arrow";
    assert_int_equal(lzt_dataset_open(&o, &d, &err), LZT_ERR_DATA); /* its second row has a NaN */
    assert_non_null(strstr(err.where, "arrow:2"));
    assert_non_null(strstr(err.message, "loss_weights[1] is not finite, not a weight"));
    o.on_bad_row = LZT_BAD_ROW_SKIP;
    assert_int_equal(lzt_dataset_open(&o, &d, &err), 0);
    read_row(d, 0, &r);
    assert_memory_equal(r.weights, doubles, sizeof doubles);
    lzt_dataset_close(d);
}

/* ---- kept and converted ---- */

static const char mixed[] = TALK(M("user", "1") "," W("assistant", "no", "\"weight\":0.1") "," M("assistant", "yes"))
    TALK(M("user", "1") "," M("assistant", "plain")) TALK(M("user", "1") "," W("assistant", "none", "\"weight\":0"))
        SHARED(T("human", "1", "\"weight\":0") "," T("gpt", "turns", "\"loss_weight\":0.3333")) IDS;

static void same_rows(lzt_dataset *a, lzt_dataset *b)
{
    lzt_dataset_report x, y;
    row r, s;
    lzt_dataset_get_report(a, &x);
    lzt_dataset_get_report(b, &y);
    assert_int_equal(x.rows_out, y.rows_out);
    assert_int_equal(x.trained_tokens, y.trained_tokens);
    assert_int_equal(x.weighted_rows, y.weighted_rows);
    assert_int_equal(x.weighted_tokens, y.weighted_tokens);
    assert_true(x.loss_weight == y.loss_weight);
    for (uint64_t i = 0; i < lzt_dataset_rows(a); i++) {
        read_row(a, i, &r);
        read_row(b, i, &s);
        assert_int_equal(r.n, s.n);
        assert_memory_equal(r.ids, s.ids, r.n * sizeof *r.ids);
        assert_memory_equal(r.labels, s.labels, r.n * sizeof *r.labels);
        assert_memory_equal(r.weights, s.weights, r.n * sizeof *r.weights);
    }
}

static lzt_cache_use cache_use(lzt_dataset *d)
{
    lzt_dataset_report report;
    lzt_dataset_get_report(d, &report);
    return report.cache;
}

static void kept(void **state)
{
    (void)state;
    char cache[96];
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT, without = o;
    lzt_template *chat = open_chat("chatml");
    snprintf(cache, sizeof cache, "%s/cache", root);
    o.cache_dir = cache;
    lzt_dataset *made = open_rows(mixed, o, chat), *used = open_rows(mixed, o, chat),
                *plain = open_rows(mixed, without, chat);
    assert_int_equal(cache_use(made), LZT_CACHE_MADE);
    assert_int_equal(cache_use(used), LZT_CACHE_USED);
    same_rows(made, plain);
    same_rows(used, plain);
    lzt_dataset_report report;
    lzt_dataset_get_report(used, &report);
    assert_int_equal(report.weighted_rows, 4);
    lzt_dataset_close(made);
    lzt_dataset_close(used);
    lzt_dataset_close(plain);
    char other[sizeof mixed]; /* one weight differs: other rows */
    snprintf(other, sizeof other, "%s", mixed);
    *strstr(other, "0.1}") = '1';
    lzt_dataset *d = open_rows(other, o, chat);
    assert_int_equal(cache_use(d), LZT_CACHE_MADE);
    row r;
    read_row(d, 0, &r);
    assert_string_equal(r.text, "1.1:no<|im_end|>|1:yes<|im_end|>");
    lzt_dataset_close(d);
    lzt_template_close(chat);
}

static void converted(void **state)
{
    (void)state;
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    lzt_template *chat = open_chat("chatml");
    lzt_dataset *d = open_rows(mixed, o, chat);
    char text[8192] = "";
    lzt_dataset_options lazy = o;
    lazy.lazy = true;
    lzt_dataset *all = open_rows(mixed, lazy, NULL);
    for (uint64_t i = 0; i < lzt_dataset_rows(all); i++) {
        const char *line;
        uint64_t size;
        assert_int_equal(lzt_dataset_convert(all, i, &line, &size, &err), 0);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%.*s\n", (int)size, line);
    }
    assert_non_null(strstr(text, "\"weight\": 0.1"));
    assert_non_null(strstr(text, "\"weight\": 0.3333"));
    assert_non_null(strstr(text, "\"loss_weights\": [0, 0.5, 0, 0, 1, 0.001]"));
    lzt_dataset *again = open_rows(text, o, chat);
    same_rows(again, d);
    lzt_dataset_close(again);
    lzt_dataset_close(all);
    lzt_dataset_close(d);
    d = open_rows("{\"input_ids\":[7,8,9],\"loss_weights\":[0,1,1]}\n", lazy, NULL); /* plain: as it always was */
    const char *line;
    uint64_t size;
    assert_int_equal(lzt_dataset_convert(d, 0, &line, &size, &err), 0);
    assert_int_equal(size, strlen("{\"input_ids\": [7, 8, 9], \"labels\": [-100, 8, 9]}"));
    lzt_dataset_close(d);
    lzt_template_close(chat);
}

/* ---- batches ---- */

/* Row i is 100 i, 100 i + 1, ...; token t of it weighs as weight_of says. */
static float weight_of(int32_t id)
{
    int32_t i = id / 100, t = id % 100;
    return i % 3 ? 1 : (float)(i + 1) / (float)(t + 7);
}

static lzt_dataset *weighted_rows(int rows, bool lazy)
{
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    lzt_dataset *d;
    char path[128];
    snprintf(path, sizeof path, "%s/many.jsonl", root);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (int i = 0; i < rows; i++) {
        int n = 2 + i * 7 % 19;
        fprintf(f, "{\"input_ids\":[");
        for (int t = 0; t < n; t++) fprintf(f, t ? ",%d" : "%d", 100 * i + t);
        fprintf(f, "],\"loss_weights\":[");
        for (int t = 0; t < n; t++) fprintf(f, t ? ",%.9g" : "%.9g", (double)weight_of(100 * i + t));
        fprintf(f, "]}\n");
    }
    fclose(f);
    o.path = path;
    o.max_seq_length = 24;
    o.lazy = lazy;
    if (lzt_dataset_open(&o, &d, &err)) fail_msg("%s: %s", err.where, err.message);
    return d;
}

/* Every micro-batch has each document's own weights, one place before the token that they are of. */
static double walk(lzt_dataset *d, lzt_batcher_options o)
{
    lzt_batcher *b;
    double all = 0;
    assert_int_equal(lzt_batcher_create(d, &o, &b, &err), 0);
    uint64_t n = lzt_batcher_capacity(b);
    lzt_micro_batch m = lzt_micro_batch_over(malloc(lzt_micro_batch_bytes(n)), n);
    for (uint64_t step = 0; step < lzt_batcher_steps(b); step++) {
        uint64_t count, counted = 0;
        double weight, sum = 0;
        assert_int_equal(lzt_batcher_loss_count(b, step, &count, &weight, &err), 0);
        for (uint64_t k = 0; k < lzt_batcher_micro_batches(b, step); k++) {
            double of_micro = 0;
            assert_int_equal(lzt_batcher_fill(b, step, k, &m, &err), 0);
            for (uint64_t i = 0; i < m.document_count; i++) {
                double of_row = 0;
                for (int32_t t = m.document_begin[i]; t < m.document_begin[i + 1]; t++) {
                    bool last = t + 1 == m.document_begin[i + 1];
                    assert_true(m.weight[t] == (last ? 0 : weight_of(m.ids[t + 1])));
                    assert_int_equal(m.target[t] < 0, m.weight[t] == 0);
                    of_row += (double)m.weight[t];
                }
                of_micro += of_row;
                sum += of_row;
            }
            assert_true(m.loss_weight == of_micro);
            counted += m.loss_count;
        }
        assert_int_equal(counted, count);
        assert_true(sum == weight);
        all += weight;
    }
    free(m.ids);
    lzt_batcher_destroy(b);
    return all;
}

static void batches(void **state)
{
    (void)state;
    lzt_dataset *d = weighted_rows(60, false);
    lzt_dataset_report report;
    lzt_dataset_get_report(d, &report);
    assert_int_equal(report.weighted_rows, 20);
    lzt_batcher_options o = LZT_BATCHER_OPTIONS_INIT;
    o.micro_batch_rows = 3;
    o.accumulation = 2;
    double plain = walk(d, o);
    o.group_by_length = true;
    double grouped = walk(d, o);
    o.group_by_length = false;
    o.packing = true;
    o.pack_tokens = 24;
    double packed = walk(d, o);
    double bound = 1e-12 * report.loss_weight;
    assert_true(plain - report.loss_weight < bound && report.loss_weight - plain < bound);
    assert_true(grouped - plain < bound && plain - grouped < bound && packed - plain < bound && plain - packed < bound);
    lzt_dataset *lazy = weighted_rows(60, true); /* rows are weighed when a batch needs them */
    o.packing = false;
    assert_true(walk(lazy, o) == plain);
    lzt_dataset_get_report(lazy, &report);
    assert_int_equal(report.weighted_rows, 20);
    lzt_dataset_close(lazy);
    lzt_dataset_close(d);
}

int main(void)
{
    char path[4096];
    const char *data = getenv("LZT_DATA") ? getenv("LZT_DATA") : "../shared/data";
    snprintf(path, sizeof path, "%s/tokenizers/tiny-bpe/tiny_bpe_tokenizer.json", data);
    if (access(path, R_OK)) {
        fprintf(stderr, "skipped: %s is not there (set LZT_DATA)\n", path);
        return 77;
    }
    if (lzt_tokenizer_open(path, NULL, &tokenizer, &err)) return 1;
    snprintf(root, sizeof root, "/tmp/lzt-weights-test-XXXXXX");
    if (!mkdtemp(root)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format),   cmocka_unit_test(every_template), cmocka_unit_test(on_the_whole),
        cmocka_unit_test(nobodys_output), cmocka_unit_test(without_a_turn), cmocka_unit_test(refusals),
        cmocka_unit_test(rows_of_ids),    cmocka_unit_test(from_arrow),     cmocka_unit_test(kept),
        cmocka_unit_test(converted),      cmocka_unit_test(rendered),       cmocka_unit_test(batches)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lzt_tokenizer_close(tokenizer);
    snprintf(path, sizeof path, "rm -rf %s", root);
    return system(path) || failed;
}
