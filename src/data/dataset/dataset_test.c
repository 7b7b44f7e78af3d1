/* Goal: pre-tokenised rows come out as they went in, what cannot train is found and counted, and batches are pure
 * functions of the step. Method: small files written here, every case with its expected rows, lines and counts. */
#include "lazytrain/data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char path[64];

static void file_is(const char *text, size_t size)
{
    strcpy(path, "/tmp/lzt-dataset-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, size), size);
    close(fd);
}

static lzt_status open_text(const char *text, lzt_dataset_options o, lzt_dataset **d, lzt_error *err)
{
    file_is(text, strlen(text));
    o.path = path;
    lzt_status s = lzt_dataset_open(&o, d, err);
    unlink(path);
    return s;
}

static void labels_and_report(void **state)
{
    (void)state;
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    o.vocabulary = 10;
    lzt_dataset *d;
    lzt_error err;
    assert_int_equal(
        open_text("\xef\xbb\xbf{\"x\":{\"a\":[1]},\"input_ids\":[1,2,3],\"labels\":[-100,-100,3]}\r\n\n  \n"
                  "{\"input_ids\":[4,5]}\n"
                  "{\"input_ids\":[7]}\n"
                  "{\"input_ids\":[7,8],\"labels\":[7,-100]}\n"
                  "{\"labels\":null,\"input_ids\":[9,9,9,9]}",
                  o, &d, &err),
        0);
    assert_int_equal(lzt_dataset_rows(d), 3);
    int32_t ids[4], labels[4];
    assert_int_equal(lzt_dataset_read(d, 0, ids, labels, NULL, &err), 0);
    assert_int_equal(ids[2], 3);
    assert_int_equal(labels[1], -100);
    assert_int_equal(labels[2], 3);
    assert_int_equal(lzt_dataset_read(d, 1, ids, labels, NULL, &err), 0);
    assert_int_equal(labels[0], -100);
    assert_int_equal(labels[1], 5);
    assert_int_equal(lzt_dataset_line(d, 1), 4);
    assert_int_equal(lzt_dataset_line(d, 2), 7);
    lzt_dataset_report r;
    lzt_dataset_get_report(d, &r);
    assert_int_equal(r.rows_in, 5);
    assert_int_equal(r.rows_out, 3);
    assert_int_equal(r.dropped_untrained, 2);
    assert_int_equal(r.first_dropped_line, 5);
    assert_int_equal(r.blank_lines, 2);
    assert_int_equal(r.tokens, 9);
    assert_int_equal(r.trained_tokens, 1 + 1 + 3);
    assert_int_equal(r.longest, 4);
    lzt_dataset_close(d);
}

static void refuse(const char *text, uint64_t vocabulary, const char *place, const char *says)
{
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    o.vocabulary = vocabulary;
    lzt_dataset *d;
    lzt_error err = {0};
    assert_int_equal(open_text(text, o, &d, &err), LZT_ERR_DATA);
    assert_null(d);
    if (!strstr(err.where, place) || !strstr(err.message, says)) fail_msg("%s: %s", err.where, err.message);
}

static void bad_rows(void **state)
{
    (void)state;
    refuse("", 10, "lzt-dataset", "no rows");
    refuse("\n \r\n\n", 10, "lzt-dataset", "no rows (3 blank");
    refuse("{\"input_ids\":[1,2]}\n{\"input_ids\":[1,10]}\n", 10, ":2", "input_ids[1] is 10");
    refuse("{\"input_ids\":[1,-2]}\n", 10, ":1", "is -2");
    refuse("{\"input_ids\":[1,2],\"labels\":[-1,2]}\n", 10, ":1", "labels[0] is -1");
    refuse("{\"input_ids\":[1,2],\"labels\":[2]}\n", 10, ":1", "labels has 1 entries");
    refuse("{\"input_ids\":[1,2.5]}\n", 10, ":1", "not an integer");
    refuse("{\"input_ids\":[1,99999999999999999999]}\n", 10, ":1", "not an integer");
    refuse("{\"input_ids\":[1,3000000000]}\n", 0, ":1", "outside");
    refuse("\n{\"input_ids\":[1,2}\n", 10, ":2", "comma");
    refuse("{\"input_ids\":[1,2]}{\n", 10, ":1", "text after");
    refuse("[1,2]", 10, ":1", "not a JSON object");
    refuse("[{\"input_ids\":[1,2]}", 10, "lzt-dataset", "not closed");
    refuse("[{\"input_ids\":[1,2]},]", 10, "lzt-dataset", "missing");
    refuse("{\"input_ids\":[1,2],\"labels\":[-100,-100]}\n{\"input_ids\":[1]}\n", 10, "lzt-dataset", "no trainable");
    char deep[1000];
    memset(deep, '[', sizeof deep);
    memcpy(deep, "{\"a\":", 5);
    deep[sizeof deep - 1] = 0;
    refuse(deep, 10, ":1", "deeper");
}

static void skipping(void **state)
{
    (void)state;
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    o.on_bad_row = LZT_BAD_ROW_SKIP;
    o.vocabulary = 10;
    lzt_dataset *d;
    lzt_error err;
    assert_int_equal(
        open_text("[\n{\"input_ids\":[1,2]},\n{\"input_ids\":[1,77]}\n,{\"input_ids\":[3,4]}\n]\n", o, &d, &err), 0);
    lzt_dataset_report r;
    lzt_dataset_get_report(d, &r);
    assert_int_equal(r.rows_in, 3);
    assert_int_equal(r.rows_out, 2);
    assert_int_equal(r.dropped_bad, 1);
    assert_int_equal(lzt_dataset_line(d, 1), 4);
    lzt_dataset_close(d);
}

/* Prompt 20 and answer 5; prompt 14 and answer 5; a short row: bug log, D1. */
static void truncation(void **state)
{
    (void)state;
    char text[1024] = "";
    static const int prompt[3] = {20, 14, 3};
    for (int r = 0; r < 3; r++) {
        char ids[256] = "", labels[256] = "";
        for (int i = 0; i < prompt[r] + 5; i++) {
            sprintf(ids + strlen(ids), "%s%d", i ? "," : "", i);
            sprintf(labels + strlen(labels), "%s%d", i ? "," : "", i < prompt[r] ? -100 : i);
        }
        sprintf(text + strlen(text), "{\"input_ids\":[%s],\"labels\":[%s]}\n", ids, labels);
    }
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    o.max_seq_length = 16;
    lzt_dataset *d;
    lzt_error err;
    lzt_dataset_report r;
    int32_t ids[16], labels[16];
    assert_int_equal(open_text(text, o, &d, &err), 0);
    lzt_dataset_get_report(d, &r);
    assert_int_equal(r.rows_out, 2);
    assert_int_equal(r.dropped_cut, 1);
    assert_int_equal(r.first_dropped_line, 1);
    assert_int_equal(r.truncated, 1);
    assert_int_equal(r.trained_tokens, 2 + 5);
    lzt_dataset_close(d);
    o.truncation = LZT_TRUNCATE_KEEP_ANSWER;
    assert_int_equal(open_text(text, o, &d, &err), 0);
    lzt_dataset_get_report(d, &r);
    assert_int_equal(r.rows_out, 3);
    assert_int_equal(r.trained_tokens, 15);
    assert_int_equal(lzt_dataset_read(d, 0, ids, labels, NULL, &err), 0);
    assert_int_equal(ids[0], 9);
    assert_int_equal(labels[15], 24);
    assert_int_equal(labels[10], -100);
    assert_int_equal(labels[11], 20);
    lzt_dataset_close(d);
    o.truncation = LZT_TRUNCATE_DROP;
    assert_int_equal(open_text(text, o, &d, &err), 0);
    lzt_dataset_get_report(d, &r);
    assert_int_equal(r.rows_out, 1);
    assert_int_equal(r.dropped_too_long, 2);
    lzt_dataset_close(d);
    o.truncation = LZT_TRUNCATE_ERROR;
    assert_int_equal(open_text(text, o, &d, &err), LZT_ERR_DATA);
    assert_non_null(strstr(err.where, ":1"));
    o.truncation = LZT_TRUNCATE_KEEP_START;
    o.max_samples = 1;
    assert_int_equal(open_text(text, o, &d, &err), LZT_ERR_DATA);
    assert_non_null(strstr(err.message, "no trainable tokens"));
}

static void surrogates_and_nul(void **state)
{
    (void)state;
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    lzt_dataset *d;
    lzt_error err;
    lzt_dataset_report r;
    assert_int_equal(open_text("{\"t\":\"a\\u0000b \\ud800 \\udc00\\\" \\ud83d\\ude00\",\"input_ids\":[1,2]}\n"
                               "{\"t\":\"\xc0\xaf \xff\xfe\",\"input_ids\":[1,2],\"input_ids\":[3,4]}\n",
                               o, &d, &err),
                     0);
    lzt_dataset_get_report(d, &r);
    assert_int_equal(r.replaced_text, 2);
    int32_t ids[2];
    assert_int_equal(lzt_dataset_read(d, 1, ids, NULL, NULL, &err), 0);
    assert_int_equal(ids[0], 3);
    lzt_dataset_close(d);
}

static lzt_dataset *rows_of_lengths(const int *length, int n)
{
    char *text = calloc(1, 65536);
    for (int r = 0; r < n; r++) {
        strcat(text, "{\"input_ids\":[");
        for (int i = 0; i < length[r]; i++) sprintf(text + strlen(text), "%s%d", i ? "," : "", 100 * r + i);
        strcat(text, "]}\n");
    }
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    lzt_dataset *d;
    lzt_error err;
    assert_int_equal(open_text(text, o, &d, &err), 0);
    free(text);
    return d;
}

static void micro_batches(void **state)
{
    (void)state;
    static const int length[7] = {3, 5, 2, 4, 6, 2, 9};
    lzt_dataset *d = rows_of_lengths(length, 7);
    lzt_batcher_options o = LZT_BATCHER_OPTIONS_INIT;
    o.micro_batch_rows = 2;
    o.accumulation = 2;
    o.epochs = 1.2;
    o.disable_shuffling = true;
    lzt_batcher *b;
    lzt_error err;
    assert_int_equal(lzt_batcher_create(d, &o, &b, &err), 0);
    assert_int_equal(lzt_batcher_steps_per_epoch(b), 2);
    assert_int_equal(lzt_batcher_steps(b), 3);
    assert_int_equal(lzt_batcher_capacity(b), 12);
    assert_int_equal(lzt_batcher_micro_batches(b, 0), 2);
    assert_int_equal(lzt_batcher_micro_batches(b, 1), 2);
    uint64_t loss;
    double weight;
    assert_int_equal(lzt_batcher_loss_count(b, 1, &loss, &weight, &err), 0);
    assert_int_equal(loss, 5 + 1 + 8);
    assert_true(weight == 5 + 1 + 8);
    int32_t memory[5 * 12 + 1];
    lzt_micro_batch m = lzt_micro_batch_over(memory, 12);
    const int32_t *ids = m.ids, *position = m.position, *target = m.target, *begin = m.document_begin;
    assert_int_equal(sizeof memory, lzt_micro_batch_bytes(12));
    assert_int_equal(lzt_batcher_fill(b, 0, 0, &m, &err), 0);
    assert_int_equal(m.token_count, 8);
    assert_int_equal(m.document_count, 2);
    assert_int_equal(m.loss_count, 6);
    assert_int_equal(m.padded_count, 10);
    assert_int_equal(begin[1], 3);
    assert_int_equal(begin[2], 8);
    assert_int_equal(position[3], 0);
    assert_int_equal(target[2], -1);
    assert_int_equal(target[3], 101);
    assert_int_equal(ids[7], 104);
    assert_int_equal(target[7], -1);
    assert_int_equal(lzt_batcher_fill(b, 1, 1, &m, &err), 0);
    assert_int_equal(m.document_count, 1);
    assert_int_equal(ids[0], 600);
    m.capacity = 8;
    assert_int_equal(lzt_batcher_fill(b, 1, 1, &m, &err), LZT_ERR_USAGE);
    lzt_batcher_destroy(b);
    o.drop_last = true;
    assert_int_equal(lzt_batcher_create(d, &o, &b, &err), 0);
    assert_int_equal(lzt_batcher_steps_per_epoch(b), 1);
    assert_int_equal(lzt_batcher_capacity(b), 10);
    lzt_batcher_destroy(b);
    o.micro_batch_rows = 4;
    assert_int_equal(lzt_batcher_create(d, &o, &b, &err), LZT_ERR_DATA);
    lzt_dataset_close(d);
}

static void shuffled(void **state)
{
    (void)state;
    static const int length[5] = {2, 3, 4, 5, 6};
    lzt_dataset *d = rows_of_lengths(length, 5);
    lzt_batcher_options o = LZT_BATCHER_OPTIONS_INIT;
    o.micro_batch_rows = 2;
    o.max_steps = 9;
    lzt_batcher *b;
    lzt_error err;
    assert_int_equal(lzt_batcher_create(d, &o, &b, &err), 0);
    assert_int_equal(lzt_batcher_steps(b), 9);
    int32_t memory[5 * 64 + 1];
    lzt_micro_batch m = lzt_micro_batch_over(memory, 64);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        int seen = 0;
        for (uint64_t step = 3 * epoch; step < 3 * epoch + 3; step++) {
            assert_int_equal(lzt_batcher_fill(b, step, 0, &m, &err), 0);
            for (uint64_t i = 0; i < m.document_count; i++) seen |= 1 << m.ids[m.document_begin[i]] / 100;
        }
        assert_int_equal(seen, 31);
    }
    assert_true(lzt_batcher_capacity(b) <= 12 && lzt_batcher_capacity(b) >= 6);
    lzt_batcher_destroy(b);
    lzt_dataset_close(d);
}

static void lazily(void **state)
{
    (void)state;
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    o.lazy = true;
    lzt_dataset *d;
    lzt_error err;
    file_is("{\"input_ids\":[1,2]}\n{\"input_ids\":[5]}\nbroken\n", 45);
    o.path = path;
    assert_int_equal(lzt_dataset_open(&o, &d, &err), 0);
    assert_int_equal(lzt_dataset_rows(d), 3);
    uint32_t tokens, trained;
    assert_int_equal(lzt_dataset_measure(d, 0, &tokens, &trained, &err), 0);
    assert_int_equal(tokens, 2);
    assert_int_equal(lzt_dataset_measure(d, 1, &tokens, &trained, &err), 0);
    assert_int_equal(tokens, 0);
    assert_int_equal(lzt_dataset_measure(d, 2, &tokens, &trained, &err), LZT_ERR_DATA);
    assert_non_null(strstr(err.where, ":3"));
    lzt_dataset_close(d);
    unlink(path);
}

/* The bytes are those of `printf ... | gzip -n` and `| zstd`, of two rows. */
static void packed_files(void **state)
{
    (void)state;
    static const unsigned char gz[] = {31,  139, 8,   0,  0,  0,   0,   0,  0,   3,  171, 86,  202, 204, 43, 40, 45,
                                       137, 207, 76,  41, 86, 178, 138, 54, 212, 49, 138, 173, 229, 170, 70, 17, 51,
                                       214, 49,  209, 49, 5,  138, 2,   0,  109, 33, 79,  82,  42,  0,   0,  0};
    static const unsigned char zst[] = {40,  181, 47,  253, 4,   88, 21, 1,  0,  224, 123, 34,  105, 110, 112, 117,
                                        116, 95,  105, 100, 115, 34, 58, 91, 49, 44,  50,  93,  125, 10,  51,  44,
                                        52,  44,  53,  93,  125, 10, 1,  0,  78, 158, 76,  242, 113, 203, 20};
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    lzt_dataset *d;
    lzt_error err;
    for (int k = 0; k < 4; k++) { /* whole, then cut */
        char name[80];
        size_t size = (k & 1 ? sizeof zst : sizeof gz) - (k > 1 ? 6 : 0);
        file_is((const char *)(k & 1 ? zst : gz), size);
        snprintf(name, sizeof name, "%s.jsonl%s", path, k & 1 ? ".zst" : ".gz");
        rename(path, name);
        o.path = name;
        assert_int_equal(lzt_dataset_open(&o, &d, &err), k > 1 ? LZT_ERR_DATA : 0);
        if (k < 2) {
            assert_int_equal(lzt_dataset_rows(d), 2);
            assert_int_equal(lzt_dataset_line(d, 1), 2);
            lzt_dataset_close(d);
        }
        unlink(name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_and_report),  cmocka_unit_test(bad_rows),
        cmocka_unit_test(skipping),           cmocka_unit_test(truncation),
        cmocka_unit_test(surrogates_and_nul), cmocka_unit_test(micro_batches),
        cmocka_unit_test(shuffled),           cmocka_unit_test(lazily),
        cmocka_unit_test(packed_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
