/* Goal: `data inspect` tells the truth: every count of rows, the lengths, the share of trained tokens, how full batches
 * are, in text and as JSON; and shows which tokens are trained.
 *
 * Method: fifteen rows whose tokens can be counted by hand (a tokenizer of one token a character), through the program;
 * a pseudo-terminal for the colours.
 */
#include "program_run.h"

#include <math.h>
#include <pty.h>

static void put_tokenizer(void)
{
    assert_int_equal(mkdir(in_folder("tok"), 0777), 0);
    FILE *f = fopen(in_folder("tok/tokenizer.json"), "w");
    assert_non_null(f);
    fputs("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"\\u0120\":0,\"\\u010a\":1", f);
    for (int c = 33; c < 127; c++) fprintf(f, ",\"%s%c\":%d", c == '"' || c == '\\' ? "\\" : "", c, c - 31);
    for (int c = 0; c < 2; c++) fprintf(f, ",\"\\u%04x\":%d", c ? 0xa9 : 0xc3, 96 + c); /* the bytes of é */
    fputs("},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},"
          "\"decoder\":{\"type\":\"ByteLevel\"},\"added_tokens\":[{\"id\":98,\"content\":\"<b>\",\"special\":true,"
          "\"normalized\":false}]}",
          f);
    assert_int_equal(fclose(f), 0);
    put_text("tok/tokenizer_config.json", "{\"bos_token\":\"<b>\",\"chat_template\":\"{%% for m in messages %%}"
                                          "{%% if m.role == 'assistant' %%}{%% generation %%}{{ m.content }}"
                                          "{%% endgeneration %%}{%% else %%}{{ m.content }}{%% endif %%}"
                                          "{%% endfor %%}\"}");
}

/* Ten pairs of 1 + i characters, of which i are trained; and one row of every kind that is counted. */
static void put_rows(void)
{
    FILE *f = fopen(in_folder("rows.jsonl"), "w");
    assert_non_null(f);
    for (int i = 1; i <= 10; i++) fprintf(f, "{\"question\":\"q\",\"answer\":\"%.*s\"}\n", i, "abcdefghij");
    fputs("\n", f);                                                                  /* 11: blank */
    fputs("{\"question\":\"qqqqq\",\"answer\":\"aaaaaaaaaaaaaaaaaaaaaaaaa\"}\n", f); /* 12: 30 tokens, cut to 20 */
    fputs("{\"question\":\"qqqqqqqqqqqqqqqqqqqqqqqqq\",\"answer\":\"a\"}\n", f);     /* 13: cut away */
    fputs("{\"input_ids\":[2,3,4],\"labels\":[-100,-100,-100]}\n", f);               /* 14: untrained */
    fputs("{\"text\":\"<b><b>ab\"}\n", f);                                           /* 15: double BOS, 4 tokens */
    fputs("{\"question\":\"<b>\",\"answer\":\"a\\u0000\\ud800\"}\n", f);             /* 16: see below */
    fputs("not json\n", f);                                                          /* 17: bad */
    assert_int_equal(fclose(f), 0);
}

static json_int_t count(const json_t *j, const char *key)
{
    const json_t *value = json_object_get(j, key);
    if (!json_is_integer(value)) fail_msg("no %s", key);
    return json_integer_value(value);
}

static double real(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

#define INSPECT                                                                                                        \
    "data inspect --tokenizer tok --dataset rows.jsonl --max-seq-length 20 --on-bad-row skip --batch-size 4 "

static void summary_as_json(void **state)
{
    (void)state;
    put_tokenizer();
    put_rows();
    must_run(INSPECT "--json");
    json_t *j = json_loads(run_out, 0, NULL), *dropped = json_object_get(j, "dropped"), *lengths;
    assert_int_equal(count(j, "rows_in"), 16);
    assert_int_equal(count(j, "rows_out"), 13);
    assert_int_equal(count(dropped, "bad"), 1);
    assert_int_equal(count(dropped, "cut"), 1);
    assert_int_equal(count(dropped, "untrained"), 1);
    assert_int_equal(count(dropped, "too_long"), 0);
    assert_int_equal(count(j, "fully_masked"), 2);
    assert_int_equal(count(j, "truncated"), 1);
    assert_int_equal(count(j, "blank_lines"), 1);
    assert_int_equal(count(j, "double_bos"), 1);
    assert_int_equal(count(j, "control_text"), 1);
    assert_int_equal(count(j, "nul_text"), 1);
    assert_int_equal(count(j, "replaced_text"), 1);
    assert_int_equal(count(j, "first_bad_line"), 17);
    assert_int_equal(count(j, "first_dropped_line"), 13);
    assert_int_equal(count(j, "longest"), 20);
    json_int_t tokens = count(j, "tokens"), trained = count(j, "trained_tokens"), in_bins = 0;
    assert_true(fabs(real(j, "trained_share") - (double)trained / (double)tokens) < 1e-12);
    lengths = json_object_get(j, "lengths");
    assert_int_equal(json_array_size(lengths), 10);
    for (size_t i = 0; i < 10; i++) {
        const json_t *bin = json_array_get(lengths, i);
        assert_int_equal(json_integer_value(json_array_get(bin, 0)), 21 * i / 10);
        in_bins += json_integer_value(json_array_get(bin, 1));
    }
    assert_int_equal(in_bins, 13);
    /* 13 rows in batches of 4; packs of 20 tokens in batches of 4 */
    const json_t *ways = json_object_get(j, "batches"), *plain = json_object_get(ways, "plain"),
                 *packed = json_object_get(ways, "packed"), *grouped = json_object_get(ways, "grouped");
    assert_int_equal(count(plain, "steps"), 4);
    assert_int_equal(count(grouped, "steps"), 4);
    assert_true(fabs(real(plain, "tokens_per_step") - (double)tokens / 4) < 1e-9);
    assert_true(real(grouped, "fill") > real(plain, "fill") && real(grouped, "fill") <= 1);
    json_int_t steps = count(packed, "steps");
    assert_true(fabs(real(packed, "tokens_per_step") - (double)tokens / (double)steps) < 1e-9);
    json_int_t packs = (tokens + 19) / 20; /* so few that best fit is perfect, or one pack from it */
    double fill = real(packed, "fill");
    assert_true(fabs(fill - (double)tokens / (double)(20 * packs)) < 1e-9 ||
                fabs(fill - (double)tokens / (double)(20 * (packs + 1))) < 1e-9);
    assert_true(real(j, "fill") == real(plain, "fill"));
    json_decref(j);
    must_run(INSPECT "--packing true --json");
    j = json_loads(run_out, 0, NULL);
    assert_true(real(j, "fill") == fill && count(j, "steps") == steps);
    json_decref(j);
}

static void summary_as_text(void **state)
{
    (void)state;
    static const char *const lines[] = {"rows            16 in, 13 train\n",
                                        "dropped         1 unreadable, 0 too long, 1 without a trained token, 1 left",
                                        "the first unreadable one at rows.jsonl:17\n",
                                        "the first without a trained token at rows.jsonl:13\n",
                                        "fully masked    2\n",
                                        "truncated       1\n",
                                        "blank lines     1\n",
                                        "double BOS      1\n",
                                        "* by length     4 steps an epoch",
                                        "  packed ",
                                        "longest row 20\n"};
    must_run(INSPECT "--group-by-length true");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(run_out, lines[i])) fail_msg("no \"%s\" in\n%s", lines[i], run_out);
    assert_int_equal(run(INSPECT "--group-by-length true --packing true"), 2);
}

/* Trained tokens between marks, or in colour on a terminal; a character of several tokens stays whole. */
static void rows_as_text(void **state)
{
    (void)state;
    put_text("rows.jsonl", "{\"question\":\"ask \",\"answer\":\"tell\"}\n"
                           "{\"input_ids\":[66,96,97,67],\"labels\":[-100,-100,97,67]}\n");
    must_run("data inspect --tokenizer tok --dataset rows.jsonl --rows");
    assert_string_equal(run_out, "--- line 1, 8 tokens\nask [[tell]]\n--- line 2, 4 tokens\na[[\xc3\xa9"
                                 "b]]\n");
    char command[9000], text[4096] = "";
    size_t n = 0;
    int terminal;
    pid_t child = forkpty(&terminal, NULL, NULL, NULL);
    if (child == 0) {
        snprintf(command, sizeof command,
                 "cd %s && unset NO_COLOR; TERM=xterm '%s' data inspect --tokenizer tok --dataset "
                 "rows.jsonl --rows 2>/dev/null",
                 run_folder, run_program_path);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    assert_true(child > 0);
    for (ssize_t got; n < sizeof text - 1 && (got = read(terminal, text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)got;
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    close(terminal);
    assert_non_null(strstr(text, "ask \033[32mtell\033[0m"));
    assert_non_null(strstr(text, "a\033[32m\xc3\xa9"
                                 "b\033[0m"));
}

static void rows_as_json(void **state)
{
    (void)state;
    must_run("data inspect --tokenizer tok --dataset rows.jsonl --rows --json");
    json_t *j = json_loads(run_out, JSON_DISABLE_EOF_CHECK, NULL);
    const json_t *ids = json_object_get(j, "input_ids"), *labels = json_object_get(j, "labels");
    assert_int_equal(json_array_size(ids), 8);
    for (size_t i = 0; i < 8; i++) {
        json_int_t id = json_integer_value(json_array_get(ids, i));
        assert_int_equal(id, i == 3 ? 0 : "ask tell"[i] - 31);
        assert_int_equal(json_integer_value(json_array_get(labels, i)), i < 4 ? -100 : id);
    }
    assert_string_equal(json_string_value(json_object_get(j, "text")), "ask tell");
    json_decref(j);
}

/* ---- one row, every command ---- */

static void config(const char *keys)
{
    put_text("c.yaml",
             "model_name_or_path: model\ndataset: rows.jsonl\ntokenizer: tok\nmax_steps: 1\nsave_steps: 1\n"
             "output_dir: out\ntokenized_path: kept\n%s",
             keys);
}

/* Every command that reads the row refuses it at its line and in the same words. converts: but for conversion to
 * messages, which knows no template. */
static void refused_everywhere(const char *row, const char *says, bool converts)
{
    static const char *const commands[] = {
        "train c.yaml",
        "data tokenize --config c.yaml",
        "data inspect --dataset rows.jsonl --tokenizer tok --template own.jinja",
        "data inspect --rows --dataset rows.jsonl --tokenizer tok --template own.jinja",
        "data convert --to tokens --output x.jsonl --dataset rows.jsonl --tokenizer tok --template own.jinja",
        "eval --model model --dataset rows.jsonl --tokenizer tok --template own.jinja"};
    char command[9000];
    put_text("rows.jsonl",
             "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"a\"}]}\n%s\n",
             row);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        int code = run("%s", commands[i]);
        if (code != 4 || !strstr(run_err, "rows.jsonl:2") || !strstr(run_err, says))
            fail_msg("%s: exit %d: %s", commands[i], code, run_err);
    }
    int code = run("data convert --output x.jsonl --dataset rows.jsonl");
    if (code != (converts ? 0 : 4) || (!converts && !strstr(run_err, says))) fail_msg("exit %d: %s", code, run_err);
    snprintf(command, sizeof command, "cd %s && '%s' data render --template own.jinja <rows.jsonl >stdout", run_folder,
             run_program_path);
    assert_int_equal(shell(command), 0);
    read_stream("stdout", run_out);
    const char *second = strchr(run_out, '\n') + 1;
    if (!strstr(run_out, "\"text\"") || !strstr(second, "\"error\"") || !strstr(second, says)) fail_msg("%s", run_out);
}

#define SAID(role, more) "{\"role\":\"" role "\",\"content\":\"x\"" more "}"
#define TALK(said, more) "{\"messages\":[" said "," SAID("assistant", "") "]" more "}"

static void every_command_refuses_a_row(void **state)
{
    (void)state;
    tiny model = {0};
    tiny_init(&model);
    tiny_put(&model, "model");
    tiny_free(&model);
    config("template: own.jinja\n");
    put_text("own.jinja", "{{ messages[0].content if messages[0].role == 'system' }}{%% for m in messages %%}"
                          "{%% if m.role != 'system' %%}{{ m.role + m.content }};{%% endif %%}{%% endfor %%}");
    refused_everywhere(TALK(SAID("user", ",\"weight\":1e-400"), ""),
                       "the `weight` of message 1 is 1e-400, not a weight", false);
    refused_everywhere(TALK(SAID("user", ""), ",\"loss_weight\":1e400"), "the row's `loss_weight` is not finite",
                       false);
    refused_everywhere(TALK(SAID("user", ",\"weight\":1e5"), ",\"weight\":1e5"),
                       "the row's weight times that of message 1 is 1e+10, not a weight", false);
    refused_everywhere(
        TALK(SAID("system", ",\"weight\":0.5"), ""),
        "the template does not write message 1 in a turn of its own, where its weight of 0.5 would count", true);
    put_text("own.jinja", "{%% set ns = namespace(t='') %%}{%% for m in messages %%}{%% set ns.t = ns.t + m.content %%}"
                          "{%% endfor %%}{%% generation %%}{{ ns.t }}{%% endgeneration %%}");
    refused_everywhere(TALK(SAID("assistant", ",\"weight\":0.5"), ""),
                       "the template does not show which of its output is whose, and messages have weights", true);
}

/* ---- a template that tells the date ---- */

/* The digest of the config's rows. */
static void made(const char *template, const char *keys, char digest[33])
{
    put_text("own.jinja",
             "{%% for m in messages %%}{%% generation %%}%s{{ m.content }}{%% endgeneration %%}{%% endfor %%}",
             template);
    config(keys);
    must_run("data tokenize --config c.yaml --json");
    json_t *j = json_loads(run_out, 0, NULL);
    snprintf(digest, 33, "%s", json_string_value(json_object_get(json_object_get(j, "train"), "row_digest")));
    assert_int_equal(strlen(digest), 32);
    json_decref(j);
}

/* A run that goes on another day has the rows that it began with. */
static void the_date_of_the_first_day(void **state)
{
    (void)state;
    char of_then[33], then[33], now[33];
    put_text("rows.jsonl", "%s\n", TALK(SAID("user", ""), ""));
    assert_int_equal(mkdir(in_folder("begun"), 0777), 0);
    put_text("begun/trainer.json", "{\"config\":{\"template_time\":86400}}");
    made("{{ strftime_now('%Y-%m-%d') }}", "template: own.jinja\nresume_from_checkpoint: begun\n", of_then);
    made("1970-01-02", "template: own.jinja\n", then);
    made("{{ strftime_now('%Y-%m-%d') }}", "template: own.jinja\n", now);
    assert_string_equal(of_then, then);
    assert_string_not_equal(now, then);
    must_run("train c.yaml --quiet");
    json_t *trainer = json_load_file(in_folder("out/checkpoints/step-1/trainer.json"), 0, NULL),
           *fields = json_object_get(trainer, "config");
    assert_true(json_integer_value(json_object_get(fields, "template_time")) > 1700000000);
    assert_string_equal(json_string_value(json_object_get(fields, "row_digest")), now);
    json_decref(trainer);
    must_run("train c.yaml --quiet --max_steps 2"); /* goes on */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(summary_as_json),
        cmocka_unit_test(summary_as_text),
        cmocka_unit_test(rows_as_text),
        cmocka_unit_test(rows_as_json),
        cmocka_unit_test(every_command_refuses_a_row),
        cmocka_unit_test(the_date_of_the_first_day),
    };
    return cmocka_run_group_tests(tests, run_set_up, run_tear_down);
}
