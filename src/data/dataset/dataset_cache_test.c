/* Goal: kept rows are those that would be made; whatever a row depends on changes the key, what it does not depend on
 * leaves it; a damaged or missing cache never changes what a run sees.
 *
 * Method: a small tokenizer, a template and pairs, written here. Each setting and each file is changed in turn, and the
 * report says whether rows were made or found. Rows with a cache are compared with rows without.
 */
#include "data/dataset/token_cache.h"
#include "base/os.h"
#include "lazytrain/data.h"
#include "lazytrain/template.h"
#include "lazytrain/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[] = "/tmp/lzt-cache-XXXXXX";

static const char *in(const char *name)
{
    static char path[256][256];
    static int next;
    char *p = path[next++ % 256];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static void put(const char *name, const char *text)
{
    FILE *f = fopen(in(name), "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* One token a character; the end token is what differs. */
static void put_tokenizer(const char *end)
{
    FILE *f = fopen(in("tokenizer.json"), "w");
    assert_non_null(f);
    fputs("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"\\u0120\":0,\"\\u010a\":1", f);
    for (int c = 33; c < 127; c++) fprintf(f, ",\"%s%c\":%d", c == '"' || c == '\\' ? "\\" : "", c, c - 31);
    fprintf(f,
            "},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},"
            "\"decoder\":{\"type\":\"ByteLevel\"},\"added_tokens\":[{\"id\":96,\"content\":\"%s\",\"special\":true,"
            "\"normalized\":false}]}",
            end);
    assert_int_equal(fclose(f), 0);
}

/* n pairs; one answer says word. Some rows have no answer, or a NUL, or text that spells a control token. */
static void put_rows(const char *name, int n, const char *word)
{
    FILE *f = fopen(in(name), "w");
    assert_non_null(f);
    for (int i = 0; i < n; i++)
        fprintf(f, "{\"question\": \"what is %d%s?\", \"answer\": \"%s%.*s\"}\n", i,
                i % 6 == 4 ? " <end> \\u0000 \\ud800" : "",
                i % 10 == 7 ? ""
                : i == 3    ? word
                            : "that",
                i % 10 == 7 ? 0 : i % 20, "....................");
    assert_int_equal(fclose(f), 0);
}

typedef struct parts {
    lzt_tokenizer *tokenizer;
    lzt_template *chat;
    lzt_dataset *dataset;
    lzt_dataset_report report;
} parts;

static lzt_dataset_options defaults(void)
{
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    o.path = in("rows.jsonl");
    o.max_seq_length = 60;
    o.cache_dir = in("cache");
    return o;
}

static void open_with(lzt_dataset_options o, const char *chat, parts *p)
{
    lzt_error err = {0};
    memset(p, 0, sizeof *p);
    if (lzt_tokenizer_open(in("tokenizer.json"), NULL, &p->tokenizer, &err) ||
        (chat && lzt_template_open(in(chat), folder, &p->chat, &err)))
        fail_msg("%s: %s", err.where, err.message);
    o.tokenizer = p->tokenizer;
    o.chat = p->chat;
    if (lzt_dataset_open(&o, &p->dataset, &err)) fail_msg("%s: %s", err.where, err.message);
    lzt_dataset_get_report(p->dataset, &p->report);
}

static void close_parts(parts *p)
{
    lzt_dataset_close(p->dataset);
    lzt_template_close(p->chat);
    lzt_tokenizer_close(p->tokenizer);
}

static lzt_cache_use use_of(lzt_dataset_options o, const char *chat)
{
    parts p;
    open_with(o, chat, &p);
    lzt_cache_use use = p.report.cache;
    close_parts(&p);
    return use;
}

/* Fresh for these options, and then found. */
static void new_key(lzt_dataset_options o, const char *chat)
{
    assert_int_equal(use_of(o, chat), LZT_CACHE_MADE);
    assert_int_equal(use_of(o, chat), LZT_CACHE_USED);
}

static void start(void)
{
    lzt__os_remove_tree(lzt__os_posix(), AT_FDCWD, in("cache"), NULL);
    put_tokenizer("<end>");
    put("tokenizer_config.json", "{\"eos_token\":\"<end>\"}");
    put("chat.jinja", "{% for m in messages %}{{ m.role }}: {{ m.content }}<end>\n{% endfor %}"
                      "{% if add_generation_prompt %}assistant: {% endif %}");
    put_rows("rows.jsonl", 90, "this");
}

static void assert_same_rows(const parts *a, const parts *b)
{
    lzt_error err = {0};
    lzt_dataset_report x = a->report, y = b->report;
    x.cache = y.cache = LZT_CACHE_OFF;
    x.cache_path = y.cache_path = x.cache_note = y.cache_note = NULL;
    x.first_dropped_path = y.first_dropped_path = x.first_bad_path = y.first_bad_path = NULL;
    assert_memory_equal(&x, &y, sizeof x);
    assert_int_equal(lzt_dataset_rows(a->dataset), lzt_dataset_rows(b->dataset));
    for (uint64_t row = 0; row < lzt_dataset_rows(a->dataset); row++) {
        uint32_t n, trained, m, also;
        int32_t ids[64], labels[64], other[64], other_labels[64];
        assert_int_equal(lzt_dataset_measure(a->dataset, row, &n, &trained, &err), 0);
        assert_int_equal(lzt_dataset_measure(b->dataset, row, &m, &also, &err), 0);
        assert_true(n == m && trained == also && n <= 60);
        assert_int_equal(lzt_dataset_line(a->dataset, row), lzt_dataset_line(b->dataset, row));
        assert_int_equal(lzt_dataset_read(a->dataset, row, ids, labels, NULL, &err), 0);
        assert_int_equal(lzt_dataset_read(b->dataset, row, other, other_labels, NULL, &err), 0);
        assert_memory_equal(ids, other, 4 * n);
        assert_memory_equal(labels, other_labels, 4 * n);
    }
}

static void kept_rows_are_the_rows(void **state)
{
    (void)state;
    parts plain, made, used;
    start();
    lzt_dataset_options o = defaults(), off = o;
    off.cache_dir = NULL;
    open_with(off, "chat.jinja", &plain);
    open_with(o, "chat.jinja", &made);
    open_with(o, "chat.jinja", &used);
    assert_int_equal(plain.report.cache, LZT_CACHE_OFF);
    assert_int_equal(made.report.cache, LZT_CACHE_MADE);
    assert_int_equal(used.report.cache, LZT_CACHE_USED);
    assert_string_equal(made.report.cache_path, used.report.cache_path);
    print_message("%d rows of %d, %d cut, %d with control text, %d with NULs\n", (int)plain.report.rows_out,
                  (int)plain.report.rows_in, (int)plain.report.truncated, (int)plain.report.control_text,
                  (int)plain.report.nul_text);
    assert_true(plain.report.truncated > 0 && plain.report.control_text > 0 && plain.report.nul_text > 0);
    assert_true(plain.report.replaced_text > 0 && plain.report.rows_out > 50);
    assert_same_rows(&plain, &made);
    assert_same_rows(&plain, &used);
    lzt_question question; /* what a row asks comes from the row itself */
    lzt_error err;
    assert_int_equal(lzt_dataset_question(used.dataset, 0, &question, &err), 0);
    assert_int_equal(question.answer_size, 4);
    close_parts(&plain);
    close_parts(&made);
    close_parts(&used);
    o.lazy = true; /* a large file's rows are not made at once, but taken where they are there */
    open_with(o, "chat.jinja", &used);
    assert_int_equal(used.report.cache, LZT_CACHE_USED);
    assert_false(lzt_dataset_is_lazy(used.dataset));
    close_parts(&used);
    o.max_seq_length = 59;
    assert_int_equal(use_of(o, "chat.jinja"), LZT_CACHE_OFF);
    o.cache_large = true; /* data tokenize */
    new_key(o, "chat.jinja");
}

static void every_input_changes_the_key(void **state)
{
    (void)state;
    start();
    const char *chat = "chat.jinja";
    const lzt_dataset_options base = defaults();
    lzt_dataset_options o = base;
    new_key(base, chat);
    new_key(base, NULL); /* no template */
#define CHANGE(field, value) o = base, o.field = (value), new_key(o, chat)
    CHANGE(max_seq_length, 61);
    CHANGE(max_samples, 80);
    CHANGE(vocabulary, 1000);
    CHANGE(truncation, LZT_TRUNCATE_KEEP_ANSWER);
    CHANGE(loss_on, LZT_LOSS_ALL);
    CHANGE(loss_on, LZT_LOSS_LAST);
    CHANGE(on_bad_row, LZT_BAD_ROW_SKIP);
    CHANGE(val_size, 10);
    CHANGE(val_size, 11);
#undef CHANGE
    o = base, o.val_size = 10, o.side = LZT_SIDE_VALIDATION;
    new_key(o, chat);
    o.split_seed = 5;
    new_key(o, chat);
    o = base, o.query_field = "answer", o.response_field = "question";
    new_key(o, chat);
    o = base, o.query_field = "question", o.response_field = "answer";
    new_key(o, chat);
    o = base, o.mix = LZT_MIX_OVER; /* which rows an epoch has is not what a row is */
    assert_int_equal(use_of(o, chat), LZT_CACHE_USED);
    o = base, o.split_seed = 9; /* nothing is split off */
    assert_int_equal(use_of(o, chat), LZT_CACHE_USED);
}

static void every_file_changes_the_key(void **state)
{
    (void)state;
    start();
    const char *chat = "chat.jinja";
    const lzt_dataset_options base = defaults();
    lzt_dataset_options o = base;
    new_key(base, chat);
    put_rows("rows.jsonl", 90, "thus"); /* the same size, at the same moment */
    new_key(base, chat);
    put_rows("rows.jsonl", 90, "this");
    assert_int_equal(use_of(base, chat), LZT_CACHE_USED);
    put_rows("copy.jsonl", 90, "this"); /* the content counts, not the name */
    o.path = in("copy.jsonl");
    assert_int_equal(use_of(o, chat), LZT_CACHE_USED);
    put("chat.jinja", "{% for m in messages %}{{ m.role }}; {{ m.content }}<end>\n{% endfor %}"
                      "{% if add_generation_prompt %}assistant; {% endif %}");
    new_key(base, chat);
    put("tokenizer_config.json", "{\"eos_token\":\"<end>\", \"bos_token\":\"<end>\"}");
    new_key(base, chat);
    put_tokenizer("<fin>");
    put("tokenizer_config.json", "{\"eos_token\":\"<fin>\", \"bos_token\":\"<end>\"}");
    new_key(base, chat);
    put("dataset_info.json", "{\"a\":{\"file_name\":\"rows.jsonl\",\"columns\":{\"prompt\":\"question\",\"response\":"
                             "\"answer\"}},\"b\":{\"file_name\":\"rows.jsonl\",\"columns\":{\"prompt\":\"answer\","
                             "\"response\":\"question\"}}}");
    o = base;
    o.dataset_dir = folder;
    o.path = "a";
    new_key(o, chat);
    o.path = "b";
    new_key(o, chat);
    o.path = "a,b";
    new_key(o, chat);
    o.path = "b,a";
    new_key(o, chat);
}

static void a_damaged_cache_is_made_anew(void **state)
{
    (void)state;
    parts plain, again;
    start();
    lzt_dataset_options o = defaults(), off = o;
    off.cache_dir = NULL;
    open_with(off, "chat.jinja", &plain);
    open_with(o, "chat.jinja", &again);
    char path[4096], byte;
    snprintf(path, sizeof path, "%s", again.report.cache_path);
    close_parts(&again);
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, 200), 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, 200), 1);
    close(fd);
    open_with(o, "chat.jinja", &again);
    assert_int_equal(again.report.cache, LZT_CACHE_REMADE);
    assert_non_null(strstr(again.report.cache_note, "content"));
    assert_same_rows(&plain, &again);
    close_parts(&again);
    assert_int_equal(use_of(o, "chat.jinja"), LZT_CACHE_USED);
    put("file", "");
    o.cache_dir = in("file"); /* not a directory */
    open_with(o, "chat.jinja", &again);
    assert_int_equal(again.report.cache, LZT_CACHE_NOT_WRITTEN);
    assert_true(strlen(again.report.cache_note) > 0);
    assert_same_rows(&plain, &again);
    close_parts(&again);
    close_parts(&plain);
}

/* Kinds of rows that are refused, made or kept alike. */
static void refused_rows(void **state)
{
    (void)state;
    static const struct {
        uint32_t refuse;
        const char *rows, *line, *word;
    } cases[] = {
        {LZT_REFUSE_TRUNCATED,
         "{\"question\":\"a\",\"answer\":\"b\"}\n{\"question\":\"a\",\"answer\":\"bbbbbbbbbbbbbbbbbbbb"
         "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\"}\n",
         ":2", "longer"},
        {LZT_REFUSE_UNTRAINED,
         "{\"question\":\"a\",\"answer\":\"b\"}\n\n{\"input_ids\":[1,2],\"labels\":[-100,-100]}\n", ":3", "bears loss"},
        {LZT_REFUSE_DOUBLE_BOS, "{\"text\":\"<end><end>a\"}\n", ":1", "two BOS"},
    };
    start();
    put("tokenizer_config.json", "{\"bos_token\":\"<end>\"}");
    for (int k = 0; k < 3; k++) {
        parts p = {0}, q;
        lzt_error err = {0};
        put("refused.jsonl", cases[k].rows);
        lzt_dataset_options o = defaults();
        o.path = in("refused.jsonl");
        open_with(o, "chat.jinja", &q); /* counted; and kept */
        assert_int_equal(q.report.truncated + q.report.dropped_untrained + q.report.double_bos, 1);
        close_parts(&q);
        assert_int_equal(lzt_tokenizer_open(in("tokenizer.json"), NULL, &p.tokenizer, &err), 0);
        assert_int_equal(lzt_template_open(in("chat.jinja"), folder, &p.chat, &err), 0);
        o.tokenizer = p.tokenizer;
        o.chat = p.chat;
        for (int kept = 0; kept < 2; kept++) {
            o.cache_dir = kept ? in("cache") : NULL;
            o.refuse = cases[k].refuse;
            assert_int_equal(lzt_dataset_open(&o, &p.dataset, &err), LZT_ERR_DATA);
            assert_non_null(strstr(err.where, cases[k].line));
            assert_non_null(strstr(err.message, cases[k].word));
            o.refuse = 7 & ~cases[k].refuse;
            assert_int_equal(lzt_dataset_open(&o, &p.dataset, &err), LZT_OK);
            lzt_dataset_close(p.dataset);
            p.dataset = NULL;
        }
        close_parts(&p);
    }
}

/* A row that ends the opening leaves nothing behind. */
static void a_failed_open_keeps_nothing(void **state)
{
    (void)state;
    parts p = {0};
    lzt_error err = {0};
    struct stat st;
    start();
    put("bad.jsonl", "{\"question\": \"a\", \"answer\": \"b\"}\n{\"question\": 5}\n");
    lzt_dataset_options o = defaults();
    o.path = in("bad.jsonl");
    assert_int_equal(lzt_tokenizer_open(in("tokenizer.json"), NULL, &p.tokenizer, &err), 0);
    o.tokenizer = p.tokenizer;
    assert_int_equal(lzt_dataset_open(&o, &p.dataset, &err), LZT_ERR_DATA);
    assert_int_equal(stat(in("cache"), &st), 0);
    assert_int_equal(st.st_nlink, 2); /* no directory in it */
    lzt_tokenizer_close(p.tokenizer);
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return (int)lzt__os_remove_tree(lzt__os_posix(), AT_FDCWD, folder, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_rows_are_the_rows),
        cmocka_unit_test(every_input_changes_the_key),
        cmocka_unit_test(every_file_changes_the_key),
        cmocka_unit_test(a_damaged_cache_is_made_anew),
        cmocka_unit_test(refused_rows),
        cmocka_unit_test(a_failed_open_keeps_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
