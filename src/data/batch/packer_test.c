/* Goal: packs hold every document once, whole, within the capacity, and nearly full; a packed epoch is the unpacked one
 * in other company. Method: random lengths against the packer's promises; one data set batched both ways and compared
 * document by document. */
#include "data/batch/packer.h"
#include "base/rng.h"
#include "lazytrain/data.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void promises(const uint32_t *length, uint32_t n, uint64_t capacity, double fill_min)
{
    lzt__packs *p = malloc(sizeof *p), *again = malloc(sizeof *again);
    uint8_t *seen = calloc(n + 1, 1);
    uint64_t total = 0, items = 0;
    assert_int_equal(lzt__pack(length, n, capacity, p, NULL), 0);
    assert_int_equal(lzt__packs_shuffle(p, 1, 2, 3, NULL), 0);
    for (uint32_t k = 0; k < p->count; k++) {
        uint64_t used = 0;
        assert_true(p->begin[k] < p->begin[k + 1]);
        for (uint32_t i = p->begin[k]; i < p->begin[k + 1]; i++, items++) {
            assert_false(seen[p->item[i]]);
            seen[p->item[i]] = 1;
            used += length[p->item[i]];
        }
        assert_true(used <= capacity);
        total += used;
    }
    for (uint32_t i = 0; i < n; i++) assert_int_equal(seen[i], length[i] > 0);
    assert_int_equal(items, p->begin[p->count]);
    if (p->count) assert_true((double)total >= fill_min * (double)(p->count * capacity));
    assert_int_equal(lzt__pack(length, n, capacity, again, NULL), 0);
    assert_int_equal(lzt__packs_shuffle(again, 1, 2, 3, NULL), 0);
    assert_memory_equal(p->item, again->item, items * sizeof *p->item);
    free(p);
    free(again);
    free(seen);
}

static void windows(void **state)
{
    (void)state;
    static uint32_t length[LZT__PACK_WINDOW];
    for (uint32_t i = 0; i < LZT__PACK_WINDOW; i++) length[i] = (uint32_t)lzt__rng_below(1, 0, i, 400);
    promises(length, LZT__PACK_WINDOW, 1024, 0.99);
    promises(length, 1, 1024, 0);
    promises(length, 0, 1024, 0);
    for (uint32_t i = 0; i < 100; i++) length[i] = 64;
    promises(length, 100, 64, 1);
    promises(length, 100, 65, 0.9);
    promises(length, 99, 128, 0.98);
    static const uint32_t exact[] = {5, 5, 3, 3, 2, 2}; /* 5+5, 3+3+2+2 */
    promises(exact, 6, 10, 1);
}

static lzt_dataset *rows(int n)
{
    char path[] = "/tmp/lzt-packer-XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    for (int r = 0; r < n; r++) {
        int tokens = 2 + (int)lzt__rng_below(7, 0, (uint64_t)r, 30);
        fprintf(f, "{\"input_ids\":[");
        for (int i = 0; i < tokens; i++) fprintf(f, "%s%d", i ? "," : "", r * 100 + i);
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

static void epochs(void **state)
{
    (void)state;
    enum { ROWS = 500, CAPACITY = 64 };
    lzt_dataset *d = rows(ROWS);
    lzt_batcher_options o = LZT_BATCHER_OPTIONS_INIT;
    lzt_batcher *b;
    lzt_error err;
    o.micro_batch_rows = 3;
    o.accumulation = 2;
    o.epochs = 2.5;
    o.packing = true;
    o.pack_tokens = CAPACITY;
    assert_int_equal(lzt_batcher_create(d, &o, &b, &err), 0);
    uint64_t n = lzt_batcher_capacity(b), loss = 0, counted = 0, step = 0;
    assert_int_equal(n, 3 * CAPACITY);
    lzt_micro_batch m = lzt_micro_batch_over(malloc(lzt_micro_batch_bytes(n)), n);
    uint8_t seen[ROWS] = {0};
    double tokens = 0, squares = 0;
    for (; lzt_batcher_epoch(b, step + 1) < 1.0 + 1e-9; step++) {
        uint64_t of_step;
        double weight;
        assert_int_equal(lzt_batcher_loss_count(b, step, &of_step, &weight, &err), 0);
        assert_true(weight == (double)of_step);
        counted += of_step;
        for (uint64_t k = 0; k < lzt_batcher_micro_batches(b, step); k++) {
            assert_int_equal(lzt_batcher_fill(b, step, k, &m, &err), 0);
            loss += m.loss_count;
            for (uint64_t i = 0; i < m.document_count; i++) {
                int32_t begin = m.document_begin[i], end = m.document_begin[i + 1], row = m.ids[begin] / 100;
                tokens += end - begin;
                squares += (double)(end - begin) * (end - begin);
                assert_false(seen[row]);
                seen[row] = 1;
                for (int32_t t = begin; t < end; t++) { /* as it would be alone */
                    assert_int_equal(m.ids[t], row * 100 + t - begin);
                    assert_int_equal(m.position[t], t - begin);
                    assert_int_equal(m.target[t], t + 1 < end ? m.ids[t + 1] : -1);
                }
            }
        }
    }
    for (int i = 0; i < ROWS; i++) assert_true(seen[i]);
    assert_int_equal(lzt_batcher_document_tokens(b), llround(squares / tokens));
    assert_int_equal(step, lzt_batcher_steps_per_epoch(b));
    assert_int_equal(loss, counted);
    assert_true(lzt_batcher_steps(b) > 2 * step);
    lzt_batcher *same; /* another batcher, asked for one step in the middle only */
    assert_int_equal(lzt_batcher_create(d, &o, &same, &err), 0);
    int32_t *ids = malloc(4 * n);
    assert_int_equal(lzt_batcher_fill(b, step + 2, 0, &m, &err), 0);
    uint64_t count = m.token_count;
    memcpy(ids, m.ids, 4 * count);
    assert_int_equal(lzt_batcher_fill(same, step + 2, 0, &m, &err), 0);
    assert_int_equal(m.token_count, count);
    assert_memory_equal(ids, m.ids, 4 * count);
    lzt_batcher_destroy(same);
    lzt_batcher_destroy(b);
    o.pack_tokens = 16; /* rows are longer */
    assert_int_equal(lzt_batcher_create(d, &o, &b, &err), LZT_ERR_USAGE);
    o.pack_tokens = 0;
    assert_int_equal(lzt_batcher_create(d, &o, &b, &err), LZT_ERR_USAGE);
    free(ids);
    free(m.ids);
    lzt_dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(windows), cmocka_unit_test(epochs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
