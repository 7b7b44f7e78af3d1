/* Goal: Arrow files become the rows that pyarrow wrote, and whatever is wrong with one is an error, never a crash or a
 * shorter data set. Method: the golden files of tests/golden/arrow with their rows; types that are not read, each by
 * its name; every golden file cut at every length, and with every byte changed, under the sanitizers. */
#include "data/source/rowfile.h"
#include "lazytrain/data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define GOLDEN "tests/golden/arrow/"

static char *load(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s is not there", path);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    char *bytes = calloc(*size + 1, 1);
    assert_int_equal(fread(bytes, 1, *size, f), *size);
    fclose(f);
    return bytes;
}

static void rows_are(const char *name, uint64_t max_rows)
{
    char path[128], want_path[128];
    snprintf(path, sizeof path, GOLDEN "%s.arrow", name);
    snprintf(want_path, sizeof want_path, GOLDEN "%s.jsonl", name);
    size_t size;
    char *want = load(want_path, &size), *line = want;
    lzt__rowfile f;
    lzt__text scratch = {0};
    lzt_error err = {0};
    if (lzt__rowfile_open(path, max_rows, &f, &err)) fail_msg("%s: %s", err.where, err.message);
    assert_int_equal(f.kind, LZT__ROWFILE_ARROW);
    for (uint64_t i = 0; i < f.row_count; i++) {
        const char *text;
        uint64_t bytes, length = strcspn(line, "\n");
        assert_int_equal(lzt__rowfile_json(&f, i, "x", &scratch, &text, &bytes, &err), 0);
        if (bytes != length || memcmp(text, line, length)) fail_msg("%s\n%.*s", text, (int)length, line);
        assert_int_equal(lzt__rowfile_line(&f, i), i + 1);
        line += length + 1;
    }
    if (!max_rows) assert_int_equal(*line, 0); /* no row is missing */
    if (max_rows) assert_int_equal(f.row_count, max_rows);
    lzt__text_free(&scratch);
    lzt__rowfile_close(&f);
    free(want);
}

static void golden_rows(void **state)
{
    (void)state;
    rows_are("read-text", 0);
    rows_are("read-ids", 0);
    rows_are("read-chat", 0);
    rows_are("read-empty", 0);
    rows_are("read-broken", 0);
    rows_are("read-weights-f64", 0);
    rows_are("read-same-talks", 0);
    rows_are("read-same-pairs", 0);
    rows_are("read-same-alpaca", 0);
    rows_are("read-same-texts", 0);
    rows_are("read-same-ids", 0);
    rows_are("read-text", 1);
    rows_are("read-text", 5); /* in the second batch */
    rows_are("read-chat", 1);
}

static void pretokenised(void **state)
{
    (void)state;
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    lzt_dataset *d;
    lzt_error err;
    lzt_dataset_report r;
    int32_t ids[4], labels[4];
    o.path = GOLDEN "read-ids.arrow";
    assert_int_equal(lzt_dataset_open(&o, &d, &err), 0);
    lzt_dataset_get_report(d, &r);
    assert_int_equal(r.rows_in, 4);
    assert_int_equal(r.rows_out, 3);
    assert_int_equal(r.dropped_untrained, 1);
    assert_int_equal(r.first_dropped_line, 3);
    assert_int_equal(lzt_dataset_line(d, 2), 4);
    assert_int_equal(lzt_dataset_read(d, 2, ids, labels, NULL, &err), 0);
    static const int32_t want_ids[] = {6, 7, 8, 9}, want_labels[] = {-100, 7, 8, 9};
    assert_memory_equal(ids, want_ids, sizeof ids);
    assert_memory_equal(labels, want_labels, sizeof labels);
    lzt_dataset_close(d);
}

static void refuse(const char *path, const char *says)
{
    lzt__rowfile f;
    lzt_error err = {0};
    assert_int_equal(lzt__rowfile_open(path, 0, &f, &err), LZT_ERR_DATA);
    if (!strstr(err.message, says)) fail_msg("%s: %s", path, err.message);
}

static void refused_by_name(void **state)
{
    (void)state;
    refuse(GOLDEN "refuse-dictionary.arrow", "column \"text\" is dictionary-encoded");
    refuse(GOLDEN "refuse-zstd.arrow", "compressed (zstd)");
    refuse(GOLDEN "refuse-lz4.arrow", "compressed (lz4)");
    refuse(GOLDEN "refuse-timestamp.arrow", "column \"when\" is timestamp");
    refuse(GOLDEN "refuse-map.arrow", "column \"m\" is map");
    refuse(GOLDEN "refuse-binary.arrow", "column \"b\" is binary");
    refuse(GOLDEN "refuse-view.arrow", "column \"v\" is utf8 view");
    refuse(GOLDEN "refuse-half.arrow", "column \"h\" is of half floats");
}

/* Opens bytes and reads every row; returns the rows, or -1 for an error, which must have said something. */
static int64_t read_all(const char *bytes, size_t size)
{
    lzt__arrow *a;
    lzt_error err = {0};
    lzt__text json = {0};
    char *exact = malloc(size ? size : 1); /* an access behind it is found */
    memcpy(exact, bytes, size);
    lzt_status s = lzt__arrow_open(exact, size, 0, "x", &a, &err);
    int64_t rows = s ? -1 : (int64_t)lzt__arrow_rows(a);
    for (int64_t i = 0; !s && i < rows && i < 64; i++) {
        json.bytes = 0;
        if (lzt__arrow_row(a, (uint64_t)i, "x", &json, &err)) rows = -1;
    }
    if (rows < 0) assert_true(err.message[0]);
    if (!s) lzt__arrow_close(a);
    lzt__text_free(&json);
    free(exact);
    return rows;
}

static void damage(const char *path)
{
    size_t size;
    char *bytes = load(path, &size);
    int64_t rows = read_all(bytes, size);
    assert_true(rows >= 0);
    for (size_t n = 0; n < size; n++)
        if (read_all(bytes, n) >= 0) fail_msg("%s: cut at %zu it is read", path, n);
    for (size_t i = 0; i < size; i++)
        for (int k = 0; k < 3; k++) {
            static const unsigned char with[] = {0x00, 0xff, 0x80};
            char kept = bytes[i];
            bytes[i] ^= k ? (char)with[k] : 1;
            read_all(bytes, size);
            bytes[i] = kept;
        }
    free(bytes);
}

static void damaged(void **state)
{
    (void)state;
    damage(GOLDEN "read-text.arrow");
    damage(GOLDEN "read-ids.arrow");
    damage(GOLDEN "read-chat.arrow");
}

static void not_arrow(void **state)
{
    (void)state;
    char path[64];
    static const struct {
        const char *name, *text, *says;
        size_t size;
    } file[] = {
        {"x.arrow", "{\"text\":\"a\"}\n", "not an Arrow IPC file", 13},
        {"x.parquet", "{}", "Parquet", 2},
        {"x.jsonl", "PAR1....", "Parquet", 8},
        {"y.jsonl", "\xff\xfe{\0}\0", "UTF-16", 6},
        {"z.arrow", "", "not an Arrow IPC file", 0},
        {"old.arrow", "\x10\0\0\0\0\0\0\0", "not an Arrow IPC file", 8},
    };
    for (size_t i = 0; i < sizeof file / sizeof file[0]; i++) {
        snprintf(path, sizeof path, "/tmp/lzt-arrow-%d-%s", (int)getpid(), file[i].name);
        FILE *f = fopen(path, "wb");
        fwrite(file[i].text, 1, file[i].size, f);
        fclose(f);
        refuse(path, file[i].says);
        unlink(path);
    }
    refuse("/tmp", "a directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_rows), cmocka_unit_test(pretokenised), cmocka_unit_test(refused_by_name),
        cmocka_unit_test(damaged),     cmocka_unit_test(not_arrow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
