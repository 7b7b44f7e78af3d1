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
                 "cd %s && unset NO_COLOR; TERM=xterm %s data inspect --tokenizer tok --dataset "
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(summary_as_json),
        cmocka_unit_test(summary_as_text),
        cmocka_unit_test(rows_as_text),
        cmocka_unit_test(rows_as_json),
    };
    return cmocka_run_group_tests(tests, run_set_up, run_tear_down);
}
