/* Goal: grouping visits every row of an epoch once, puts rows of similar length together, and is a function of (seed,
 * epoch, index). Method: the group's own promises on random lengths; an epoch of the batcher against the plain one. */
#include "data/batch/grouper.h"
#include "base/rng.h"
#include "lazytrain/data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void promises(uint64_t n, uint64_t batch)
{
    const uint64_t name[3] = {1, 2, 3}, other[3] = {1, 3, 3};
    uint32_t *length = calloc(n + 1, 4), *item = malloc((n + 1) * 4), *again = malloc((n + 1) * 4);
    uint8_t *seen = calloc(n + 1, 1);
    uint64_t whole = n / batch * batch, below = 0;
    for (uint64_t i = 0; i < n; i++) length[i] = (uint32_t)lzt__rng_below(5, n, i, 300);
    assert_int_equal(lzt__group(length, n, batch, name, item, NULL), 0);
    for (uint64_t i = 0; i < n; i++) {
        assert_true(item[i] < n && !seen[item[i]]);
        seen[item[i]] = 1;
    }
    for (uint64_t b = 0; b + batch <= whole; b += batch) { /* a batch is a stretch of the sorted rows */
        uint32_t longest = length[item[b]], shortest = length[item[b + batch - 1]];
        uint64_t between = 0;
        for (uint64_t k = b; k < b + batch; k++) assert_true(length[item[k]] <= longest && length[item[k]] >= shortest);
        for (uint64_t i = 0; i < whole; i++) between += length[i] < longest && length[i] > shortest;
        assert_true(between <= batch);
        below += b && longest < length[item[b - batch]];
    }
    for (uint64_t i = whole; i < n; i++) assert_int_equal(item[i], i);
    if (n / batch > 20) assert_true(below > n / batch / 4 && below < n / batch * 3 / 4); /* not sorted: shuffled */
    assert_int_equal(lzt__group(length, n, batch, name, again, NULL), 0);
    assert_memory_equal(item, again, n * 4);
    assert_int_equal(lzt__group(length, n, batch, other, again, NULL), 0);
    if (n / batch > 20) assert_memory_not_equal(item, again, n * 4);
    free(length);
    free(item);
    free(again);
    free(seen);
}

static void windows(void **state)
{
    (void)state;
    promises(4096, 8);
    promises(4095, 16);
    promises(100, 101);
    promises(1, 1);
    promises(0, 4);
    promises(997, 3);
}

static lzt_dataset *rows(int n)
{
    char path[] = "/tmp/lzt-grouper-XXXXXX";
    FILE *f = fdopen(mkstemp(path), "w");
    for (int r = 0; r < n; r++) {
        int tokens = 2 + (int)lzt__rng_below(7, 0, (uint64_t)r, 60);
        fprintf(f, "{\"input_ids\":[%d", r);
        for (int i = 1; i < tokens; i++) fprintf(f, ",%d", i);
        fprintf(f, "]}\n");
    }
    fclose(f);
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    lzt_dataset *d;
    lzt_error err;
    o.path = path;
    assert_int_equal(lzt_dataset_open(&o, &d, &err), 0);
    unlink(path);
    return d;
}

/* Walks the run; returns what would be padded over what is real. seen[row]: visits. */
static double walk(lzt_dataset *d, bool grouped, bool drop_last, int *seen, int32_t *first_ids)
{
    lzt_batcher_options o = LZT_BATCHER_OPTIONS_INIT;
    lzt_batcher *b;
    lzt_error err;
    o.micro_batch_rows = 5;
    o.accumulation = 2;
    o.epochs = 2;
    o.drop_last = drop_last;
    o.group_by_length = grouped;
    assert_int_equal(lzt_batcher_create(d, &o, &b, &err), 0);
    uint64_t n = lzt_batcher_capacity(b), real = 0, padded = 0, steps = lzt_batcher_steps(b), at = 0, middle = 0;
    lzt_micro_batch m = lzt_micro_batch_over(malloc(lzt_micro_batch_bytes(n)), n);
    for (uint64_t step = 0; step < steps; step++)
        for (uint64_t k = 0; k < lzt_batcher_micro_batches(b, step); k++) {
            assert_int_equal(lzt_batcher_fill(b, step, k, &m, &err), 0);
            if (step == steps / 2 && k == 1) middle = at;
            real += m.token_count;
            padded += m.padded_count;
            for (uint64_t i = 0; i < m.document_count; i++) {
                seen[m.ids[m.document_begin[i]]]++;
                first_ids[at++] = m.ids[m.document_begin[i]];
            }
        }
    lzt_batcher *same; /* a step in the middle alone */
    assert_int_equal(lzt_batcher_create(d, &o, &same, &err), 0);
    assert_int_equal(lzt_batcher_fill(same, steps / 2, 1, &m, &err), 0);
    assert_int_equal(m.ids[0], first_ids[middle]);
    lzt_batcher_destroy(same);
    lzt_batcher_destroy(b);
    free(m.ids);
    return (double)padded / (double)real;
}

static void epochs(void **state)
{
    (void)state;
    enum { ROWS = 9003 };
    static int seen[ROWS], plain[ROWS], dropped[ROWS];
    static int32_t order[2 * ROWS], unused[2 * ROWS];
    lzt_dataset *d = rows(ROWS);
    double grouped = walk(d, true, false, seen, order), padded = walk(d, false, false, plain, unused);
    print_message("padded over real: %.3f grouped, %.3f not\n", grouped, padded);
    assert_true(grouped < 1.03 && padded > 1.4);
    int total = 0;
    for (int i = 0; i < ROWS; i++) assert_int_equal(seen[i], 2);
    assert_memory_not_equal(order, order + ROWS, ROWS * 4); /* each epoch has an order of its own */
    walk(d, true, true, dropped, unused);
    for (int i = 0; i < ROWS; i++) total += dropped[i];
    assert_int_equal(total, 2 * (ROWS / 10 * 10));
    lzt_dataset_close(d);
}

static void refused(void **state)
{
    (void)state;
    lzt_dataset *d = rows(10);
    lzt_batcher_options o = LZT_BATCHER_OPTIONS_INIT;
    lzt_batcher *b;
    lzt_error err;
    o.group_by_length = o.packing = true;
    o.pack_tokens = 100;
    assert_int_equal(lzt_batcher_create(d, &o, &b, &err), LZT_ERR_USAGE);
    o.packing = false;
    o.disable_shuffling = true;
    assert_int_equal(lzt_batcher_create(d, &o, &b, &err), LZT_ERR_USAGE);
    lzt_dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(windows), cmocka_unit_test(epochs), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
