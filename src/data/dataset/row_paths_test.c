/* Goal: a row is the same row whichever file it stands in and whichever way it is read: ids, labels, weights, counts
 * and digests, and for what is wrong with it the same words and the right place.
 *
 * Method: the rows of tests/golden/arrow/read-same-*, with what becomes of each written down here; from the rows' JSON
 * this test makes JSONL, a JSON array, CSV and packed files, and pyarrow made the Arrow file. Each is read whole,
 * lazily (as files above 256 MiB are), through a cache that is made and one that is used, and again after conversion;
 * and conversations through what `data render` shows. Skips, saying so, without the data directory's small tokenizer.
 */
#include "lazytrain/data.h"
#include "lazytrain/template.h"
#include "lazytrain/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <jansson.h>
#include <zlib.h>
#include <zstd.h>
#include <cmocka.h>

enum { MOST = 256, ROWS_MAX = 16 };

static char root[64];
static lzt_tokenizer *tokenizer;
static lzt_template *chat;
static lzt_error err;

/* is: runs of one weight with the text that it is of; "": no token is trained. refused: the error's words. */
typedef struct fate {
    const char *is, *refused;
} fate;

typedef struct family {
    const char *name;
    bool is_flat; /* also as CSV */
    int rows;
    fate fate[ROWS_MAX];
    char line[ROWS_MAX][512]; /* the rows as JSON */
} family;

static family families[] = {
    {"talks",
     false,
     12,
     {{"0.5:no<|im_end|>|1:yes<|im_end|>", NULL},
      {"0.25:yes<|im_end|>", NULL},
      {NULL, "the `weight` of message 2 is not finite, not a weight"},
      {"2:yes<|im_end|>", NULL},
      {NULL, "the `weight` of message 2 is not finite, not a weight"},
      {NULL, "the `weight` of message 2 is not finite, not a weight"},
      {"0.75:yes<|im_end|>", NULL},
      {NULL, "the row's `weight` is not finite, not a weight"},
      {NULL, "the row's weight times that of message 2 is 1e-12, not a weight"},
      {NULL, "the `weight` of message 2 is 1e-300, not a weight"},
      {"", NULL},
      {"1:yes<|im_end|>", NULL}},
     {{0}}},
    {"pairs",
     true,
     8,
     {{"1:yes<|im_end|>", NULL},
      {"0.5:yes<|im_end|>", NULL},
      {NULL, "the row's `weight` is -2, not a weight"},
      {"3:yes<|im_end|>", NULL},
      {NULL, "the row's `weight` is 1e+17, not a weight"},
      {"", NULL},
      {"1:yes<|im_end|>", NULL},
      {NULL, "the row's `weight` is not finite, not a weight"}},
     {{0}}},
    {"alpaca",
     true,
     4,
     {{"2:yes<|im_end|>", NULL},
      {"1:yes<|im_end|>", NULL},
      {NULL, "the row's `loss_weight` is -1, not a weight"},
      {"", NULL}},
     {{0}}},
    {"texts",
     true,
     4,
     {{"0.1:es no", NULL},
      {NULL, "the row's `weight` is not finite, not a weight"},
      {"1:o", NULL},
      {"1.23457e+07:es", NULL}},
     {{0}}},
    {"ids",
     false,
     6,
     {{"1:#|0.2:#", NULL},
      {"0.5:#", NULL},
      {"1:#", NULL},
      {NULL, "loss_weights[1] is not finite, not a weight"},
      {NULL, "the row's weight times that of token 2 is 5e-10, not a weight"},
      {NULL, "loss_weights[1] is not finite, not a weight"}},
     {{0}}},
};
enum { FAMILIES = sizeof families / sizeof *families };

/* ---- the rows, in every container ---- */

/* JSON has no NaN: a number that is none either stands for it. */
static void as_json(const char *from, char *to)
{
    while (*from) {
        bool nan = !strncmp(from, "NaN", 3), infinity = !strncmp(from, "Infinity", 8);
        to += sprintf(to, nan || infinity ? "1e999" : "%c", *from);
        from += nan ? 3 : infinity ? 8 : 1;
    }
    *to = 0;
}

static void load(family *f)
{
    char path[128], line[512];
    snprintf(path, sizeof path, "tests/golden/arrow/read-same-%s.jsonl", f->name);
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s is not there", path);
    int n = 0;
    for (; fgets(line, sizeof line, file); n++) {
        line[strcspn(line, "\n")] = 0;
        as_json(line, f->line[n]);
    }
    fclose(file);
    assert_int_equal(n, f->rows);
}

static void csv_field(FILE *file, const json_t *value, const char *text, bool first)
{
    const char *number = strrchr(text, ':') + 1; /* the weight is the last member; its spelling counts */
    if (!first) fputc(',', file);
    if (json_is_string(value)) fprintf(file, "\"%s\"", json_string_value(value));
    if (!json_is_string(value) && strncmp(number, "null", 4))
        fprintf(file, "%s%.*s", first ? "" : " ", (int)strcspn(number, "}"), number);
}

static void csv_record(FILE *file, const char *line, bool names)
{
    char text[512]; /* jansson refuses what is out of range */
    snprintf(text, sizeof text, "%s", line);
    char *huge = strstr(text, "1e999");
    if (huge) memcpy(huge, "12345", 5);
    json_t *row = json_loads(text, 0, NULL);
    assert_non_null(row);
    const char *key;
    json_t *value;
    bool first = true;
    json_object_foreach(row, key, value)
    {
        if (names)
            fprintf(file, first ? "%s" : ",%s", key);
        else
            csv_field(file, value, line, first);
        first = false;
    }
    fputs("\r\n", file);
    json_decref(row);
}

typedef enum kind { JSONL, ARRAY, CSV, KINDS } kind;

static void put_plain(const char *path, const family *f, kind k, int begin, int end)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    if (k == CSV) csv_record(file, f->line[0], true);
    for (int i = begin; i < end; i++) {
        if (k == ARRAY) fputs(i == begin ? "[" : ",\n", file);
        if (k == CSV) csv_record(file, f->line[i], false);
        if (k != CSV) fputs(f->line[i], file);
        if (k == JSONL && i + 1 < end) fputs("\n", file);
    }
    if (k == ARRAY) fputs("]", file);
    fclose(file);
}

static void pack(const char *path, bool zst)
{
    char packed[160];
    static char bytes[1 << 15], out[1 << 16];
    FILE *file = fopen(path, "rb");
    size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    snprintf(packed, sizeof packed, "%s%s", path, zst ? ".zst" : ".gz");
    if (!zst) {
        gzFile gz = gzopen(packed, "wb");
        assert_int_equal(gzwrite(gz, bytes, (unsigned)n), n);
        gzclose(gz);
        return;
    }
    size_t size = ZSTD_compress(out, sizeof out, bytes, n, 3);
    file = fopen(packed, "wb");
    assert_int_equal(fwrite(out, 1, size, file), size);
    fclose(file);
}

/* Calls back with every file that holds the family's rows; lines: those before the first row. */
static void in_every_file(const family *f, void use(const family *f, const char *path, int lines))
{
    static const char *const ending[KINDS] = {"jsonl", "json", "csv"};
    char path[160], packed[168];
    for (kind k = 0; k < (f->is_flat ? KINDS : CSV); k++) {
        snprintf(path, sizeof path, "%s/%s.%s", root, f->name, ending[k]);
        put_plain(path, f, k, 0, f->rows);
        use(f, path, k == CSV);
        for (int zst = 0; zst < 2; zst++) {
            pack(path, zst);
            snprintf(packed, sizeof packed, "%s%s", path, zst ? ".zst" : ".gz");
            use(f, packed, k == CSV);
        }
    }
    snprintf(path, sizeof path, "tests/golden/arrow/read-same-%s.arrow", f->name);
    use(f, path, 0);
}

/* ---- what becomes of them ---- */

static lzt_dataset_options options_of(const char *path)
{
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    o.path = path;
    o.tokenizer = tokenizer;
    o.chat = chat;
    return o;
}

static lzt_dataset *open_rows(const lzt_dataset_options *o)
{
    lzt_dataset *d = NULL;
    if (lzt_dataset_open(o, &d, &err)) fail_msg("%s: %s (%s)", err.where, err.message, err.hint);
    return d;
}

/* Row i as runs of one weight; "" where nothing is trained. Ids without a text are #. */
static void read_row(lzt_dataset *d, uint64_t i, bool ids_only, char text[1024])
{
    int32_t ids[MOST], labels[MOST];
    float weights[MOST], before = 0;
    uint32_t n, trained, counted = 0;
    double sum = 0, weight;
    text[0] = 0;
    assert_int_equal(lzt_dataset_measure(d, i, &n, &trained, &err), 0);
    assert_int_equal(lzt_dataset_weigh(d, i, &weight, &err), 0);
    assert_true(n <= MOST);
    if (!n) return;
    assert_int_equal(lzt_dataset_read(d, i, ids, labels, weights, &err), 0);
    for (uint32_t t = 0; t < n; t++) {
        char *piece, *to = text + strlen(text);
        assert_int_equal(labels[t], weights[t] > 0 ? ids[t] : LZT_LABEL_NONE);
        sum += (double)weights[t];
        counted += weights[t] > 0;
        if (weights[t] > 0 && weights[t] != before) sprintf(to, "%s%g:", *text ? "|" : "", (double)weights[t]);
        before = weights[t];
        if (weights[t] <= 0) continue;
        assert_int_equal(lzt_tokenizer_decode(tokenizer, &ids[t], 1, false, &piece, NULL, &err), 0);
        strcat(text, ids_only ? "#" : piece);
        free(piece);
    }
    assert_int_equal(counted, trained);
    assert_true(sum == weight);
}

/* The rows of a dataset that skips what cannot be read, against what is written down; first, second: of a file whose
 * rows that do not train stay in its index, as those of a lazy one do. */
static void rows_are(const family *f, lzt_dataset *d, bool lazy, int lines)
{
    lzt_dataset_report r;
    uint64_t at = 0, out = 0, bad = 0, untrained = 0, first_bad = 0;
    for (int i = 0; i < f->rows; i++) {
        const fate *want = &f->fate[i];
        char text[1024];
        bool trains = want->is && *want->is;
        bad += !want->is;
        if (!want->is && !first_bad) first_bad = (uint64_t)(i + 1 + lines);
        untrained += want->is && !*want->is;
        out += trains;
        if (!trains && !lazy) continue;
        read_row(d, at, !strcmp(f->name, "ids"), text);
        if (strcmp(text, trains ? want->is : "")) fail_msg("%s: row %d: %s", lzt_dataset_path(d), i + 1, text);
        assert_int_equal(lzt_dataset_line(d, at), i + 1 + lines);
        at++;
    }
    assert_int_equal(lzt_dataset_rows(d), at);
    lzt_dataset_get_report(d, &r);
    assert_int_equal(r.rows_in, f->rows);
    assert_int_equal(r.rows_out, out);
    assert_int_equal(r.dropped_bad, bad);
    assert_int_equal(r.dropped_untrained, untrained);
    assert_int_equal(r.first_bad_line, first_bad);
}

static char digest[FAMILIES][LZT_DIGEST_TEXT]; /* of the rows, from the family's first file */

static void digest_is(const family *f, const lzt_dataset *d, bool lazy)
{
    char rows[LZT_DIGEST_TEXT], files[LZT_DIGEST_TEXT], *known = digest[f - families];
    assert_int_equal(lzt_dataset_digest(d, rows, files, &err), 0);
    assert_int_equal(strlen(files), 32);
    assert_int_equal(strlen(rows), lazy ? 0 : 32);
    if (lazy) return;
    if (!*known) memcpy(known, rows, sizeof rows);
    assert_string_equal(rows, known);
}

static void converted(const family *f, const char *path)
{
    char text[8192] = "", out[160];
    const char *line;
    uint64_t size;
    lzt_dataset_options o = options_of(path);
    o.lazy = true;
    o.on_bad_row = LZT_BAD_ROW_SKIP;
    lzt_dataset *d = open_rows(&o);
    for (uint64_t i = 0; i < lzt_dataset_rows(d); i++) {
        assert_int_equal(lzt_dataset_convert(d, i, &line, &size, &err), 0);
        if (!size != !f->fate[i].is) fail_msg("%s: row %d: %.*s", path, (int)i + 1, (int)size, line);
        if (size) snprintf(text + strlen(text), sizeof text - strlen(text), "%.*s\n", (int)size, line);
    }
    lzt_dataset_close(d);
    snprintf(out, sizeof out, "%s/converted.jsonl", root);
    FILE *file = fopen(out, "wb");
    fputs(text, file);
    fclose(file);
    o = options_of(out);
    d = open_rows(&o);
    digest_is(f, d, false);
    lzt_dataset_close(d);
}

static void every_way(const family *f, const char *path, int lines)
{
    char cache[96];
    snprintf(cache, sizeof cache, "%s/cache", root);
    for (int way = 0; way < 4; way++) { /* whole, lazily, a cache that is made, one that is used */
        lzt_dataset_options o = options_of(path);
        o.on_bad_row = LZT_BAD_ROW_SKIP;
        o.lazy = way == 1;
        o.cache_dir = way > 1 ? cache : NULL;
        lzt_dataset *d = open_rows(&o);
        lzt_dataset_report r;
        lzt_dataset_get_report(d, &r);
        if (way == 3) assert_int_equal(r.cache, LZT_CACHE_USED);
        rows_are(f, d, way == 1, lines);
        digest_is(f, d, way == 1);
        lzt_dataset_close(d);
    }
    converted(f, path);
}

static void the_same_rows(void **state)
{
    (void)state;
    for (int i = 0; i < FAMILIES; i++) in_every_file(&families[i], every_way);
    for (int i = 1; i < FAMILIES; i++) assert_string_not_equal(digest[i], digest[i - 1]);
}

/* ---- what is wrong with them ---- */

static void error_is(const family *f, const char *path, int row, int lines)
{
    char place[200];
    snprintf(place, sizeof place, "%s:%d", path, row + 1 + lines);
    if (strcmp(err.where, place) || strncmp(err.message, f->fate[row].refused, strlen(f->fate[row].refused)) ||
        !strstr(err.message, "not a weight") || !strstr(err.hint, "1e-9 to 1e9"))
        fail_msg("%s: %s (%s), not %s: %s", err.where, err.message, err.hint, place, f->fate[row].refused);
}

static void every_refusal(const family *f, const char *path, int lines)
{
    lzt_dataset_options o = options_of(path);
    lzt_dataset *d = NULL;
    const char *line;
    uint64_t size;
    uint32_t n;
    char cache[96];
    int first = 0;
    while (f->fate[first].is) first++;
    snprintf(cache, sizeof cache, "%s/cache-of-bad", root);
    for (int cached = 0; cached < 2; cached++) {
        o.cache_dir = cached ? cache : NULL;
        assert_int_equal(lzt_dataset_open(&o, &d, &err), LZT_ERR_DATA);
        error_is(f, path, first, lines);
    }
    o.cache_dir = NULL;
    o.lazy = true;
    d = open_rows(&o);
    for (int i = 0; i < f->rows; i++) {
        lzt_status want = f->fate[i].is ? LZT_OK : LZT_ERR_DATA;
        assert_int_equal(lzt_dataset_measure(d, (uint64_t)i, &n, NULL, &err), want);
        if (want) error_is(f, path, i, lines);
        assert_int_equal(lzt_dataset_convert(d, (uint64_t)i, &line, &size, &err), want);
        if (want) error_is(f, path, i, lines);
    }
    lzt_dataset_close(d);
}

static void the_same_words(void **state)
{
    (void)state;
    for (int i = 0; i < FAMILIES; i++) in_every_file(&families[i], every_refusal);
}

/* What `data render` shows of a conversation. */
static void rendered(void **state)
{
    (void)state;
    const family *f = &families[0];
    for (int i = 0; i < f->rows; i++) {
        lzt_rendered r;
        char text[512] = "";
        float before = 0;
        lzt_status s = lzt_template_render(chat, f->line[i], strlen(f->line[i]), 0, &r, &err);
        assert_int_equal(s, f->fate[i].is ? LZT_OK : LZT_ERR_DATA);
        if (s) assert_memory_equal(err.message, f->fate[i].refused, strlen(f->fate[i].refused));
        for (uint64_t k = 0; !s && k < r.size; k++) {
            char *to = text + strlen(text);
            assert_int_equal(r.weight[k] > 0, r.trained[k] > 0);
            if (r.weight[k] > 0 && r.weight[k] != before)
                to += sprintf(to, "%s%g:", *text ? "|" : "", (double)r.weight[k]);
            if (r.weight[k] > 0) sprintf(to, "%c", r.text[k]);
            before = r.weight[k];
        }
        if (!s) assert_string_equal(text, f->fate[i].is);
    }
}

/* ---- digests ---- */

static void digests_of(const char *rows_text, bool lazy, char rows[LZT_DIGEST_TEXT], char files[LZT_DIGEST_TEXT])
{
    char path[96];
    snprintf(path, sizeof path, "%s/digest.jsonl", root);
    FILE *file = fopen(path, "wb");
    fputs(rows_text, file);
    fclose(file);
    lzt_dataset_options o = options_of(path);
    o.lazy = lazy;
    lzt_dataset *d = open_rows(&o);
    assert_int_equal(lzt_dataset_digest(d, rows, files, &err), 0);
    lzt_dataset_close(d);
}

/* Every change of a row that trains changes the digest, also where sums stay as they are; what changes no row does not.
 */
static void digests(void **state)
{
    (void)state;
    static const char base[] = "{\"input_ids\":[1,2,3],\"loss_weights\":[0,0.5,2]}\n{\"input_ids\":[1,4,5]}\n";
    static const char *const others[] = {
        "{\"input_ids\":[1,2,3],\"loss_weights\":[0,2,0.5]}\n{\"input_ids\":[1,4,5]}\n",
        "{\"input_ids\":[1,2,3],\"loss_weights\":[0,1,1]}\n{\"input_ids\":[1,4,5],\"loss_weights\":[0,0.5,2]}\n",
        "{\"input_ids\":[1,4,5]}\n{\"input_ids\":[1,2,3],\"loss_weights\":[0,0.5,2]}\n",
        "{\"input_ids\":[1,2,4],\"loss_weights\":[0,0.5,2]}\n{\"input_ids\":[1,4,5]}\n",
        "{\"input_ids\":[2,2,3],\"loss_weights\":[0,0.5,2]}\n{\"input_ids\":[1,4,5]}\n",
        "{\"input_ids\":[1,2,3],\"loss_weights\":[0,0.5,2]}\n{\"input_ids\":[1,4,5],\"labels\":[-100,4,6]}\n",
        "{\"input_ids\":[1,2,3],\"loss_weights\":[0,0.5,2]}\n{\"input_ids\":[1,4,5],\"labels\":[-100,-100,5]}\n"};
    static const char *const same[] = {
        "\n{\"loss_weights\":[1, 5e-1, 2.0], \"input_ids\":[1,2,3]}\n{\"input_ids\":[1,4,5],\"weight\":1}",
        "{\"input_ids\":[1,2,3],\"loss_weights\":[0,0.25,1],\"weight\":2}\n{\"input_ids\":[8]}\n{\"input_ids\":[1,4,5]}"
        "\n"};
    char rows[LZT_DIGEST_TEXT], files[LZT_DIGEST_TEXT], r[LZT_DIGEST_TEXT], f[LZT_DIGEST_TEXT];
    digests_of(base, false, rows, files);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        digests_of(others[i], false, r, f);
        assert_string_not_equal(r, rows);
        assert_string_not_equal(f, files);
        digests_of(others[i], true, r, f);
        assert_string_equal(r, "");
        assert_string_not_equal(f, files);
    }
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        digests_of(same[i], false, r, f);
        assert_string_equal(r, rows);
        assert_string_not_equal(f, files);
    }
    digests_of(base, true, r, f);
    assert_string_equal(f, files);
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
    if (lzt_tokenizer_open(path, NULL, &tokenizer, &err) || lzt_template_open("chatml", NULL, &chat, &err)) return 1;
    snprintf(root, sizeof root, "/tmp/lzt-row-paths-test-XXXXXX");
    if (!mkdtemp(root)) return 1;
    for (int i = 0; i < FAMILIES; i++) load(&families[i]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_same_rows), cmocka_unit_test(the_same_words),
                                       cmocka_unit_test(rendered), cmocka_unit_test(digests)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lzt_template_close(chat);
    lzt_tokenizer_close(tokenizer);
    snprintf(path, sizeof path, "rm -rf %s", root);
    return system(path) || failed;
}
