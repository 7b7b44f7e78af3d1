/* Goal: a config's `dataset` means exactly the rows it should: several files, names of a registry with its columns and
 * tags, mixes by weight with exact counts, and a split whose sides never share a row. Method: small files written here;
 * pre-tokenised rows whose ids say where they come from; conversations through chatml and the small tokenizer of the
 * data directory (those tests skip, saying so, without it). */
#include "data/source/mix.h"
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

static char folder[64];
static lzt_error err;

static const char *at(const char *name)
{
    static char path[8][512];
    static int next;
    char *p = path[next++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static void put(const char *name, const char *text)
{
    FILE *f = fopen(at(name), "wb");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* Rows [base + i, i] for i in 0 .. count-1. */
static void put_rows(const char *name, int base, int count)
{
    FILE *f = fopen(at(name), "wb");
    assert_non_null(f);
    for (int i = 0; i < count; i++) fprintf(f, "{\"input_ids\":[%d,%d]}\n", base, i);
    fclose(f);
}

static lzt_dataset *open_it(lzt_dataset_options o)
{
    lzt_dataset *d = NULL;
    if (lzt_dataset_open(&o, &d, &err)) fail_msg("%s: %s (%s)", err.where, err.message, err.hint);
    return d;
}

static void refuse(lzt_dataset_options o, lzt_status status, const char *says)
{
    lzt_dataset *d = NULL;
    err = (lzt_error){0};
    assert_int_equal(lzt_dataset_open(&o, &d, &err), status);
    if (!strstr(err.message, says) && !strstr(err.hint, says))
        fail_msg("%s: %s (%s)", err.where, err.message, err.hint);
}

/* The two ids of a row as one number. */
static int row_number(lzt_dataset *d, uint64_t row)
{
    int32_t ids[2] = {-1, -1};
    assert_int_equal(lzt_dataset_read(d, row, ids, NULL, NULL, &err), 0);
    return ids[0] + ids[1];
}

static void several_files(void **state)
{
    (void)state;
    char names[512];
    put_rows("a.jsonl", 1000, 3);
    put_rows("b.jsonl", 2000, 2);
    put("c,d.jsonl", "{\"input_ids\":[3000,0]}\n");
    snprintf(names, sizeof names, "%s/a.jsonl, %s/b.jsonl", folder, folder);
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    o.path = names;
    lzt_dataset *d = open_it(o);
    static const int want[] = {1000, 1001, 1002, 2000, 2001};
    assert_int_equal(lzt_dataset_rows(d), 5);
    for (uint64_t i = 0; i < 5; i++) assert_int_equal(row_number(d, i), want[i]);
    assert_int_equal(lzt_dataset_line(d, 4), 2);
    assert_int_equal(lzt_dataset_source_count(d), 2);
    lzt_dataset_source s;
    lzt_dataset_get_source(d, 1, &s);
    assert_int_equal(s.rows_in, 2);
    assert_int_equal(s.rows_per_epoch, 2);
    lzt_dataset_close(d);
    o.max_samples = 2; /* of each */
    d = open_it(o);
    assert_int_equal(lzt_dataset_rows(d), 4);
    assert_int_equal(row_number(d, 2), 2000);
    lzt_dataset_close(d);
    o.max_samples = 0;
    o.path = at("c,d.jsonl"); /* a file's name as a whole */
    d = open_it(o);
    assert_int_equal(row_number(d, 0), 3000);
    lzt_dataset_close(d);
    snprintf(names, sizeof names, "%s/a.jsonl,,%s/b.jsonl", folder, folder);
    o.path = names;
    refuse(o, LZT_ERR_USAGE, "empty name");
    snprintf(names, sizeof names, "%s/a.jsonl,%s/none.jsonl", folder, folder);
    refuse(o, LZT_ERR_DATA, "cannot open the dataset");
    put("empty.jsonl", "\n");
    snprintf(names, sizeof names, "%s/a.jsonl,%s/empty.jsonl", folder, folder);
    refuse(o, LZT_ERR_DATA, "no rows (1 blank lines)");
}

/* An error in the second file names that file. */
static void places_of_errors(void **state)
{
    (void)state;
    char names[512];
    put_rows("a.jsonl", 1000, 3);
    put("bad.jsonl", "{\"input_ids\":[1,2]}\n\n{\"input_ids\":[1,}\n");
    snprintf(names, sizeof names, "%s/a.jsonl,%s/bad.jsonl", folder, folder);
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    lzt_dataset *d = NULL;
    o.path = names;
    assert_int_equal(lzt_dataset_open(&o, &d, &err), LZT_ERR_DATA);
    assert_non_null(strstr(err.where, "bad.jsonl:3"));
    o.on_bad_row = LZT_BAD_ROW_SKIP;
    d = open_it(o);
    lzt_dataset_report r;
    lzt_dataset_get_report(d, &r);
    assert_int_equal(r.rows_in, 5);
    assert_int_equal(r.rows_out, 4);
    assert_int_equal(r.dropped_bad, 1);
    assert_int_equal(r.blank_lines, 1);
    assert_int_equal(r.first_bad_line, 3);
    assert_non_null(strstr(r.first_bad_path, "bad.jsonl"));
    lzt_dataset_close(d);
}

/* ---- mixing ---- */

/* How often each row of a (base 1000) and b (base 2000) stands in an epoch. */
static void count_epoch(lzt_dataset *d, uint64_t epoch, bool shuffled, int a[16], int b[16])
{
    memset(a, 0, 16 * sizeof *a);
    memset(b, 0, 16 * sizeof *b);
    for (uint64_t i = 0; i < lzt_dataset_epoch_rows(d); i++) {
        int n = row_number(d, lzt_dataset_epoch_row(d, 7, shuffled, epoch, i));
        assert_int_equal(n, row_number(d, lzt_dataset_epoch_row(d, 7, shuffled, epoch, i)));
        ++*(n < 2000 ? &a[n - 1000] : &b[n - 2000]);
    }
}

static lzt_dataset *open_mix(lzt_mix mix, double wa, double wb)
{
    static char names[512];
    double weights[] = {wa, wb};
    put_rows("a.jsonl", 1000, 12);
    put_rows("b.jsonl", 2000, 5);
    snprintf(names, sizeof names, "%s/a.jsonl,%s/b.jsonl", folder, folder);
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    o.path = names;
    o.mix = mix;
    o.weights = weights;
    o.weight_count = 2;
    return open_it(o);
}

/* 12 and 5 rows, weights 1 to 1: the first to run out has 5, so 5 and 5. */
static void under(void **state)
{
    (void)state;
    lzt_dataset *d = open_mix(LZT_MIX_UNDER, 1, 1);
    int a[16], b[16], all[16] = {0};
    assert_int_equal(lzt_dataset_epoch_rows(d), 10);
    assert_true(lzt_dataset_epochs_differ(d));
    for (uint64_t epoch = 0; epoch < 12; epoch++) {
        int seen = 0;
        count_epoch(d, epoch, true, a, b);
        for (int i = 0; i < 12; i++) all[i] += a[i], seen += a[i];
        for (int i = 0; i < 5; i++) assert_int_equal(b[i], 1);
        assert_int_equal(seen, 5);
    }
    for (int i = 0; i < 12; i++) assert_int_equal(all[i], 5); /* 12 epochs x 5 places = 5 passes over 12 rows */
    lzt_dataset_close(d);
}

/* Weights 1 to 3 over 12 and 5 rows: b needs 5 / 0.75 = 6.67 places, a 12 / 0.25 = 48: 12 of a and 36 of b. */
static void over(void **state)
{
    (void)state;
    lzt_dataset *d = open_mix(LZT_MIX_OVER, 0.25, 0.75);
    int a[16], b[16];
    assert_int_equal(lzt_dataset_epoch_rows(d), 48);
    int all[16] = {0};
    for (uint64_t epoch = 0; epoch < 5; epoch++) {
        int sum = 0;
        count_epoch(d, epoch, true, a, b);
        for (int i = 0; i < 12; i++) assert_int_equal(a[i], 1);
        for (int i = 0; i < 5; i++) {
            assert_true(b[i] >= 6 && b[i] <= 8); /* the end of one pass, six whole ones, the start of another */
            sum += b[i];
            all[i] += b[i];
        }
        assert_int_equal(sum, 36);
    }
    for (int i = 0; i < 5; i++) assert_int_equal(all[i], 36); /* 5 epochs x 36 places = 36 passes over 5 rows */
    lzt_dataset_source s;
    lzt_dataset_get_source(d, 1, &s);
    assert_int_equal(s.rows_per_epoch, 36);
    lzt_dataset_close(d);
}

/* Unshuffled: a b a b ..., each in file order, going on where the last epoch stopped. */
static void in_file_order(void **state)
{
    (void)state;
    lzt_dataset *d = open_mix(LZT_MIX_UNDER, 2, 1);
    static const int first[] = {1000, 2000, 1001, 1002, 2001, 1003};
    assert_int_equal(lzt_dataset_epoch_rows(d), 15);
    for (uint64_t i = 0; i < 6; i++)
        assert_int_equal(row_number(d, lzt_dataset_epoch_row(d, 7, false, 0, i)), first[i]);
    assert_int_equal(row_number(d, lzt_dataset_epoch_row(d, 7, false, 1, 0)), 1010);
    lzt_dataset_close(d);
}

/* Every place of an epoch is one source's, and each source's own places come in order. */
static void places(void **state)
{
    (void)state;
    static const uint64_t count[][3] = {{1, 1, 1}, {7, 7, 7}, {100, 1, 9}, {2, 3, 1}, {1, 1000, 37}};
    for (size_t c = 0; c < sizeof count / sizeof count[0]; c++) {
        uint64_t next[3] = {0}, sum = count[c][0] + count[c][1] + count[c][2];
        for (uint64_t p = 0; p < sum; p++) {
            uint64_t own, k = lzt__mix_place(count[c], 3, p, &own);
            assert_int_equal(own, next[k]);
            next[k]++;
            double behind = (double)(p + 1) * (double)count[c][k] / (double)sum - (double)next[k];
            assert_true(behind < 1.5 && behind > -1.5); /* evenly spread */
        }
        for (int k = 0; k < 3; k++) assert_int_equal(next[k], count[c][k]);
    }
}

static void counts(void **state)
{
    (void)state;
    static const uint64_t rows[3] = {1000, 300, 10};
    static const double weight[3] = {0.6, 0.3, 0.1}, bad[3] = {1, 0, 1};
    uint64_t count[3], all;
    assert_int_equal(lzt__mix_counts(rows, weight, 3, true, count, &all, &err), 0);
    assert_int_equal(all, 100);
    assert_int_equal(count[0], 60);
    assert_int_equal(count[1], 30);
    assert_int_equal(count[2], 10);
    assert_int_equal(lzt__mix_counts(rows, weight, 3, false, count, &all, &err), 0);
    assert_int_equal(count[0], 1000);
    assert_int_equal(count[1], 500);
    assert_int_equal(count[2], 167);
    assert_int_equal(all, 1667);
    assert_int_equal(lzt__mix_counts(rows, bad, 3, false, count, &all, &err), LZT_ERR_USAGE);
}

static void weights_that_do_not_fit(void **state)
{
    (void)state;
    double three[3] = {1, 1, 1}, steep[2] = {1, 1e6};
    char names[512];
    put_rows("a.jsonl", 1000, 12);
    put_rows("b.jsonl", 2000, 5);
    snprintf(names, sizeof names, "%s/a.jsonl,%s/b.jsonl", folder, folder);
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    o.path = names;
    o.mix = LZT_MIX_UNDER;
    o.weights = three;
    o.weight_count = 3;
    refuse(o, LZT_ERR_USAGE, "3 weights for 2 datasets");
    o.weights = steep;
    o.weight_count = 2;
    refuse(o, LZT_ERR_DATA, "none of an epoch's 5 rows");
}

/* ---- the split ---- */

static void split(void **state)
{
    (void)state;
    char names[512];
    put_rows("a.jsonl", 0, 40);
    put_rows("b.jsonl", 100, 60);
    snprintf(names, sizeof names, "%s/a.jsonl,%s/b.jsonl", folder, folder);
    static const double sizes[] = {0.1, 0.101, 7, 99};
    static const uint64_t held[] = {10, 11, 7, 99};
    int first[160] = {0};
    for (int c = 0; c < 4; c++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            int seen[160] = {0};
            lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
            o.path = names;
            o.val_size = sizes[c];
            o.split_seed = seed;
            lzt_dataset *train = open_it(o);
            o.side = LZT_SIDE_VALIDATION;
            lzt_dataset *val = open_it(o);
            lzt_dataset_report r;
            lzt_dataset_get_report(train, &r);
            assert_int_equal(r.split_off, held[c]);
            assert_int_equal(r.rows_in, 100 - held[c]);
            assert_int_equal(lzt_dataset_rows(val), held[c]);
            assert_int_equal(lzt_dataset_rows(train), 100 - held[c]);
            for (uint64_t i = 0; i < lzt_dataset_rows(train); i++) seen[row_number(train, i)]++;
            for (uint64_t i = 0; i < lzt_dataset_rows(val); i++) seen[row_number(val, i)] += 10;
            for (int i = 0; i < 40; i++) assert_true(seen[i] == 1 || seen[i] == 10);
            for (int i = 100; i < 160; i++) assert_true(seen[i] == 1 || seen[i] == 10);
            if (!c && !seed) memcpy(first, seen, sizeof seen);
            if (!c && seed == 1) assert_true(memcmp(first, seen, sizeof seen)); /* another seed, another split */
            lzt_dataset_close(train);
            lzt_dataset_close(val);
        }
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    o.path = names;
    o.val_size = 100;
    refuse(o, LZT_ERR_DATA, "splits off 100 of 100 rows");
    o.val_size = 1.5;
    refuse(o, LZT_ERR_USAGE, "neither a share");
    o.val_size = 0;
    o.side = LZT_SIDE_VALIDATION;
    refuse(o, LZT_ERR_USAGE, "nothing is split off");
}

/* ---- the registry ---- */

static const char registry[] =
    "\xef\xbb\xbf{\"plain\":{\"file_name\":\"p.jsonl\"},\n"
    "\"few\":{\"file_name\":\"p.jsonl\",\"num_samples\":1},\"many\":{\"file_name\":\"p.jsonl\",\"num_samples\":9},\n"
    "\"alpaca\":{\"file_name\":\"alpaca.json\"},"
    "\"own\":{\"file_name\":\"own.jsonl\",\"columns\":{\"prompt\":\"frage\",\"query\":\"dazu\",\"response\":"
    "\"antwort\","
    "\"system\":\"amt\",\"history\":\"zuvor\"}},\n"
    "\"text\":{\"file_name\":\"text.jsonl\",\"columns\":{\"prompt\":\"body\"}},"
    "\"share\":{\"file_name\":\"share.jsonl\",\"formatting\":\"sharegpt\",\"columns\":{\"messages\":\"talk\","
    "\"system\":"
    "\"amt\"},\"tags\":{\"role_tag\":\"who\",\"content_tag\":\"what\",\"user_tag\":\"u\",\"assistant_tag\":\"a\","
    "\"observation_tag\":\"o\",\"function_tag\":\"f\",\"system_tag\":\"s\"}},\n"
    "\"openai\":{\"file_name\":\"openai.jsonl\",\"formatting\":\"openai\"},"
    "\"hub\":{\"hf_hub_url\":\"x/y\"},\"hub2\":{\"file_name\":\"p.jsonl\",\"subset\":\"main\"},"
    "\"test\":{\"file_name\":\"p.jsonl\",\"split\":\"test\"},\"train\":{\"file_name\":\"p.jsonl\",\"split\":\"train\"},"
    "\"rank\":{\"file_name\":\"p.jsonl\",\"ranking\":true},\"typo\":{\"file_name\":\"p.jsonl\",\"colums\":{}},"
    "\"col\":{\"file_name\":\"p.jsonl\",\"columns\":{\"images\":\"i\"}},\"none\":{\"formatting\":\"alpaca\"},"
    "\"how\":{\"file_name\":\"p.jsonl\",\"formatting\":\"xml\"},"
    "\"odd\":{\"file_name\":\"p.jsonl\",\"formatting\":\"openai\",\"tags\":{\"role_tag\":\"r\"}}}";

static void put_registry(void)
{
    put("dataset_info.json", registry);
    put_rows("p.jsonl", 500, 2);
}

static lzt_dataset_options named(const char *names)
{
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    o.path = names;
    o.dataset_dir = folder;
    return o;
}

static void registry_names(void **state)
{
    (void)state;
    char names[512];
    put_registry();
    lzt_dataset *d = open_it(named("plain, train"));
    assert_int_equal(lzt_dataset_rows(d), 4);
    lzt_dataset_source s;
    lzt_dataset_get_source(d, 1, &s);
    assert_string_equal(s.name, "train");
    assert_string_equal(s.path, at("p.jsonl"));
    lzt_dataset_close(d);
    d = open_it(named("few"));
    assert_int_equal(lzt_dataset_rows(d), 1);
    lzt_dataset_close(d);
    snprintf(names, sizeof names, "few,%s/p.jsonl", folder); /* a name and a file */
    d = open_it(named(names));
    assert_int_equal(lzt_dataset_rows(d), 3);
    lzt_dataset_close(d);
    refuse(named("many"), LZT_ERR_DATA, "has 2 rows, dataset_info.json asks for 9");
    refuse(named("plane"), LZT_ERR_USAGE, "no data set \"plane\"");
    refuse(named("plane"), LZT_ERR_USAGE, "there are: plain, few, many, alpaca");
    refuse(named("hub"), LZT_ERR_USAGE, "there is no network");
    refuse(named("hub"), LZT_ERR_USAGE, "\"hub\": hf_hub_url");
    refuse(named("hub2"), LZT_ERR_USAGE, "subset");
    refuse(named("test"), LZT_ERR_USAGE, "split");
    refuse(named("rank"), LZT_ERR_USAGE, "ranking");
    refuse(named("typo"), LZT_ERR_USAGE, "unknown member \"colums\"");
    refuse(named("col"), LZT_ERR_USAGE, "\"images\", which is not supported");
    refuse(named("none"), LZT_ERR_USAGE, "file_name is missing");
    refuse(named("how"), LZT_ERR_USAGE, "alpaca, sharegpt or openai");
    refuse(named("odd"), LZT_ERR_USAGE, "role_tag differs");
    put("dataset_info.json", "{\"a\":");
    refuse(named("a"), LZT_ERR_DATA, "not valid JSON");
    unlink(at("dataset_info.json"));
    refuse(named("a"), LZT_ERR_DATA, "No such file");
}

static lzt_tokenizer *tokenizer;
static lzt_template *chat;

/* The row's text, or the error it ends with, must say so. */
static void row_is(const char *name, const char *want)
{
    lzt_dataset_options o = named(name);
    o.tokenizer = tokenizer;
    o.chat = chat;
    lzt_dataset *d = open_it(o);
    static int32_t ids[4096], labels[4096];
    uint32_t n;
    char *text;
    assert_int_equal(lzt_dataset_measure(d, 0, &n, NULL, &err), 0);
    assert_int_equal(lzt_dataset_read(d, 0, ids, labels, NULL, &err), 0);
    assert_int_equal(lzt_tokenizer_decode(tokenizer, ids, n, false, &text, NULL, &err), 0);
    assert_string_equal(text, want);
    free(text);
    lzt_dataset_close(d);
}

static void refuse_row(const char *name, const char *says)
{
    lzt_dataset_options o = named(name);
    o.tokenizer = tokenizer;
    o.chat = chat;
    refuse(o, LZT_ERR_DATA, says);
}

#define SAID(role, text) "<|im_start|>" role "\n" text "<|im_end|>\n"

static void registry_shapes(void **state)
{
    (void)state;
    if (!tokenizer) skip();
    put_registry();
    put("alpaca.json", "[{\"instruction\":\"do\",\"input\":\"this\",\"output\":\"done\"}]");
    row_is("alpaca", SAID("user", "do\nthis") SAID("assistant", "done"));
    put("own.jsonl", "{\"frage\":\"q\",\"dazu\":\"more\",\"antwort\":\"a\",\"amt\":\"sys\",\"zuvor\":[[\"h1\",\"h2\"]],"
                     "\"messages\":[],\"system\":\"not this\"}\n");
    row_is("own", SAID("system", "sys") SAID("user", "h1") SAID("assistant", "h2") SAID("user", "q\nmore")
                      SAID("assistant", "a"));
    put("share.jsonl",
        "{\"amt\":\"sys\",\"talk\":[{\"who\":\"u\",\"what\":\"hi\"},{\"who\":\"a\",\"what\":\"ho\"},{\"who\":"
        "\"o\",\"what\":\"42\"},{\"who\":\"a\",\"what\":\"yes\"}],\"conversations\":[]}\n");
    lzt_template_close(chat);
    assert_int_equal(lzt_template_open("chatml", NULL, &chat, &err), 0);
    row_is("share", SAID("system", "sys") SAID("user", "hi") SAID("assistant", "ho") SAID("tool", "42")
                        SAID("assistant", "yes"));
    put("openai.jsonl",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":\"ho\"}]}\n");
    row_is("openai", SAID("user", "hi") SAID("assistant", "ho"));
    put("share.jsonl",
        "{\"talk\":[{\"who\":\"u\",\"what\":\"hi\"},{\"who\":\"a\",\"what\":\"ho\",\"weight\":-0.5}]}\n");
    refuse_row("share", "the `weight` of message 2 is -0.5, not a weight");
    put("share.jsonl",
        "{\"talk\":[{\"who\":\"u\",\"what\":\"hi\"},{\"who\":\"a\",\"what\":\"ho\",\"train\":\"x\"}]}\n");
    refuse_row("share", "the `train` of message 2 is not a number, not a weight");
    put("own.jsonl", "{\"question\":\"q\",\"answer\":\"a\"}\n");
    refuse_row("own", "no field \"frage\"");
    put("share.jsonl", "{\"talk\":[{\"who\":\"human\",\"what\":\"hi\"}]}\n");
    refuse_row("share", "from \"human\", which is nobody known");
    put("share.jsonl", "{\"talk\":[{\"from\":\"human\",\"value\":\"hi\"}]}\n");
    refuse_row("share", "no text in `who` and `what`");
}

/* The registry of examples/ is one that works. */
static void example(void **state)
{
    (void)state;
    if (!tokenizer) skip();
    double weights[] = {2, 1};
    lzt_dataset_options o = named("math, chats");
    o.dataset_dir = "examples/registry";
    o.tokenizer = tokenizer;
    o.chat = chat;
    o.mix = LZT_MIX_UNDER;
    o.weights = weights;
    o.weight_count = 2;
    lzt_dataset *d = open_it(o);
    assert_int_equal(lzt_dataset_rows(d), 9);
    assert_int_equal(lzt_dataset_epoch_rows(d), 9); /* 6 of 6 and 3 of 3 */
    lzt_dataset_close(d);
}

int main(void)
{
    char path[4096];
    const char *root = getenv("LZT_DATA") ? getenv("LZT_DATA") : "../shared/data";
    snprintf(path, sizeof path, "%s/tokenizers/tiny-bpe/tiny_bpe_tokenizer.json", root);
    if (access(path, R_OK))
        fprintf(stderr, "registry_shapes is skipped: %s is not there (set LZT_DATA)\n", path);
    else if (lzt_tokenizer_open(path, NULL, &tokenizer, &err) || lzt_template_open("chatml", NULL, &chat, &err))
        return 1;
    strcpy(folder, "/tmp/lzt-source-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_files),  cmocka_unit_test(places_of_errors),        cmocka_unit_test(under),
        cmocka_unit_test(over),           cmocka_unit_test(in_file_order),           cmocka_unit_test(places),
        cmocka_unit_test(counts),         cmocka_unit_test(weights_that_do_not_fit), cmocka_unit_test(split),
        cmocka_unit_test(registry_names), cmocka_unit_test(registry_shapes),         cmocka_unit_test(example),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lzt_template_close(chat);
    lzt_tokenizer_close(tokenizer);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) || failed;
}
