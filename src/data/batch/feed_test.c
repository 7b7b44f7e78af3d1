/* Goal: a feed hands out exactly the micro-batches that the batcher makes, in order, from any step on; a step that
 * finds its batch made does not wait; an error comes at the micro-batch that has it; stopping is clean at any moment.
 *
 * Method: random rows, packed and not, against lzt_batcher_fill of a second batcher. Waits are counted, never timed:
 * the test lets the ring fill up and then asks. A row is broken in the mapped file behind the feed's back.
 */
#include "base/rng.h"
#include "lazytrain/feed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

enum { PACK = 64 };

static char path[] = "/tmp/lzt-feed-XXXXXX";

/* n rows of 2..31 tokens; those from `silent` on bear no loss. */
static void put_rows(int n, int silent)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int r = 0; r < n; r++) {
        int tokens = 2 + (int)lzt__rng_below(7, 0, (uint64_t)r, 30);
        fprintf(f, "{\"input_ids\":[");
        for (int i = 0; i < tokens; i++) fprintf(f, "%s%d", i ? "," : "", r * 40 + i);
        fprintf(f, "]");
        if (r >= silent) {
            fprintf(f, ",\"labels\":[");
            for (int i = 0; i < tokens; i++) fprintf(f, "%s-100", i ? "," : "");
            fprintf(f, "]");
        }
        fprintf(f, "}\n");
    }
    assert_int_equal(fclose(f), 0);
}

static lzt_dataset *open_rows(bool lazy)
{
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    lzt_dataset *d;
    lzt_error err = {0};
    o.path = path;
    o.lazy = lazy;
    if (lzt_dataset_open(&o, &d, &err)) fail_msg("%s: %s", err.where, err.message);
    return d;
}

static lzt_batcher *batcher(lzt_dataset *d, bool packing, double epochs)
{
    lzt_batcher_options o = LZT_BATCHER_OPTIONS_INIT;
    lzt_batcher *b;
    lzt_error err = {0};
    o.micro_batch_rows = 3;
    o.accumulation = 2;
    o.epochs = epochs;
    o.packing = packing;
    o.pack_tokens = PACK;
    if (lzt_batcher_create(d, &o, &b, &err)) fail_msg("%s: %s", err.where, err.message);
    return b;
}

static lzt_feed *feed_of(lzt_batcher *b, uint64_t first, uint64_t depth)
{
    lzt_feed_options o = LZT_FEED_OPTIONS_INIT;
    lzt_feed *f;
    lzt_error err = {0};
    o.batcher = b;
    o.first_step = first;
    o.end_step = lzt_batcher_steps(b);
    o.token_capacity = lzt_batcher_capacity(b);
    o.depth = depth;
    if (lzt_feed_create(&o, &f, &err)) fail_msg("%s: %s", err.where, err.message);
    return f;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static void fill_all(lzt_feed *f, uint64_t want)
{
    while (lzt_feed_ready(f) < want) nap();
}

/* ---- what comes is what the batcher makes ---- */

static void assert_as_filled(lzt_batcher *b, const lzt_fed *fed, uint64_t step, uint64_t m, lzt_micro_batch *own)
{
    uint64_t loss;
    double weight;
    lzt_error err;
    assert_int_equal(lzt_batcher_loss_count(b, step, &loss, &weight, &err), LZT_OK);
    assert_int_equal(lzt_batcher_fill(b, step, m, own, &err), LZT_OK);
    assert_int_equal(fed->step, step);
    assert_int_equal(fed->index, m);
    assert_int_equal(fed->count, lzt_batcher_micro_batches(b, step));
    assert_int_equal(fed->loss_tokens, loss);
    assert_true(fed->loss_weight == weight && fed->batch->loss_weight == own->loss_weight);
    assert_int_equal(fed->rows, own->document_count);
    assert_int_equal(fed->batch->token_count, own->token_count);
    assert_int_equal(fed->batch->loss_count, own->loss_count);
    assert_int_equal(fed->batch->padded_count, own->padded_count);
    assert_memory_equal(fed->batch->ids, own->ids, 4 * own->token_count);
    assert_memory_equal(fed->batch->position, own->position, 4 * own->token_count);
    assert_memory_equal(fed->batch->target, own->target, 4 * own->token_count);
    assert_memory_equal(fed->batch->weight, own->weight, 4 * own->token_count);
    assert_memory_equal(fed->batch->document_begin, own->document_begin, 4 * own->document_count + 4);
}

static void compare(bool packing, uint64_t first, uint64_t depth)
{
    lzt_dataset *d = open_rows(false), *d2 = open_rows(false);
    lzt_batcher *b = batcher(d, packing, 2.5), *b2 = batcher(d2, packing, 2.5);
    lzt_feed *f = feed_of(b, first, depth);
    lzt_error err;
    lzt_fed fed;
    uint64_t n = lzt_batcher_capacity(b2), taken = 0;
    lzt_micro_batch own = lzt_micro_batch_over(malloc(lzt_micro_batch_bytes(n)), n);
    for (uint64_t step = first; step < lzt_batcher_steps(b2); step++)
        for (uint64_t m = 0; m < lzt_batcher_micro_batches(b2, step); m++, taken++) {
            if (lzt__rng_below(depth, first, taken, 8) == 0) nap(); /* another rhythm every time */
            assert_int_equal(lzt_feed_next(f, &fed, &err), LZT_OK);
            assert_as_filled(b2, &fed, step, m, &own);
        }
    assert_int_equal(lzt_feed_next(f, &fed, &err), LZT_OK);
    assert_null(fed.batch);
    lzt_feed_stats stats;
    lzt_feed_take_stats(f, &stats);
    assert_int_equal(stats.taken, taken);
    lzt_feed_destroy(f);
    lzt_batcher_destroy(b);
    lzt_batcher_destroy(b2);
    lzt_dataset_close(d);
    lzt_dataset_close(d2);
    free(own.ids);
}

static void as_the_batcher_makes_them(void **state)
{
    (void)state;
    put_rows(301, 301);
    for (int packing = 0; packing < 2; packing++) {
        compare(packing, 0, 2);
        compare(packing, 0, 9);
        compare(packing, 17, 3); /* going on in the middle */
    }
}

/* ---- waits ---- */

static void a_full_ring_never_waits(void **state)
{
    (void)state;
    put_rows(301, 301);
    lzt_dataset *d = open_rows(false);
    lzt_batcher *b = batcher(d, true, 1);
    lzt_feed *f = feed_of(b, 0, 6);
    lzt_feed_stats stats;
    lzt_error err;
    lzt_fed fed;
    uint64_t left = 0;
    for (uint64_t s = 0; s < lzt_batcher_steps(b); s++) left += lzt_batcher_micro_batches(b, s);
    fill_all(f, 6);
    for (uint64_t taken = 0; left; taken++, left--) {
        fill_all(f, left < 5 ? left : 5); /* one slot is ours */
        assert_int_equal(lzt_feed_next(f, &fed, &err), LZT_OK);
        assert_non_null(fed.batch);
        lzt_feed_take_stats(f, &stats);
        assert_int_equal(stats.waits, 0);
        assert_true(stats.wait_seconds == 0);
        assert_int_equal(stats.taken, 1);
        assert_true(stats.ready_max <= 6 && stats.ready_max >= (left < 5 ? left : 5));
        assert_int_equal(stats.bytes, 4 * (4 * fed.batch->token_count + fed.batch->document_count + 1));
    }
    lzt_feed_destroy(f);
    lzt_batcher_destroy(b);
    lzt_dataset_close(d);
}

/* ---- errors ---- */

/* Makes the row that holds token 40 r unreadable, in place. */
static void break_row(int r)
{
    char text[64];
    static char all[1 << 20];
    int fd = open(path, O_RDWR);
    ssize_t n = read(fd, all, sizeof all - 1);
    assert_true(n > 0);
    all[n] = 0;
    snprintf(text, sizeof text, "[%d,", r * 40);
    char *at = strstr(all, text);
    assert_non_null(at);
    assert_int_equal(pwrite(fd, "?", 1, at - all), 1);
    close(fd);
}

static void an_error_comes_where_it_is_needed(void **state)
{
    (void)state;
    put_rows(60, 60);
    lzt_dataset *d = open_rows(false);
    lzt_batcher_options o = LZT_BATCHER_OPTIONS_INIT;
    lzt_batcher *b;
    lzt_error err = {0}, again = {0};
    lzt_fed fed;
    o.micro_batch_rows = 2;
    o.disable_shuffling = true;
    assert_int_equal(lzt_batcher_create(d, &o, &b, &err), LZT_OK);
    break_row(30); /* the first of step 15 */
    lzt_feed *f = feed_of(b, 10, 9);
    fill_all(f, 5); /* the thread has met it by now */
    for (uint64_t step = 10; step < 15; step++) {
        assert_int_equal(lzt_feed_next(f, &fed, &err), LZT_OK);
        assert_int_equal(fed.step, step);
        assert_int_equal(fed.batch->ids[0], 80 * (int)step);
    }
    assert_int_equal(lzt_feed_next(f, &fed, &err), LZT_ERR_DATA);
    assert_null(fed.batch);
    assert_non_null(strstr(err.where, ":31")); /* the line */
    assert_true(strlen(err.message) > 0);
    assert_int_equal(lzt_feed_next(f, &fed, &again), LZT_ERR_DATA);
    assert_string_equal(err.message, again.message);
    lzt_feed_destroy(f);
    lzt_batcher_destroy(b);
    lzt_dataset_close(d);
}

static void steps_without_loss_come_as_one(void **state)
{
    (void)state;
    put_rows(24, 8); /* a lazy data set finds out as it goes */
    lzt_dataset *d = open_rows(true);
    lzt_batcher_options o = LZT_BATCHER_OPTIONS_INIT;
    lzt_batcher *b;
    lzt_error err = {0};
    lzt_fed fed;
    o.micro_batch_rows = 4;
    o.accumulation = 3;
    o.disable_shuffling = true;
    assert_int_equal(lzt_batcher_create(d, &o, &b, &err), LZT_OK);
    lzt_feed *f = feed_of(b, 0, 4);
    for (uint64_t m = 0; m < 3; m++) {
        assert_int_equal(lzt_feed_next(f, &fed, &err), LZT_OK);
        assert_int_equal(fed.count, 3);
        assert_true(fed.loss_tokens > 0);
        assert_int_equal(fed.rows, m < 2 ? 4 : 0);
    }
    assert_int_equal(fed.batch->token_count, 1); /* the stand-in */
    assert_int_equal(fed.batch->target[0], -1);
    assert_int_equal(lzt_feed_next(f, &fed, &err), LZT_OK);
    assert_int_equal(fed.step, 1);
    assert_int_equal(fed.count, 1);
    assert_int_equal(fed.loss_tokens, 0);
    assert_int_equal(lzt_feed_next(f, &fed, &err), LZT_OK);
    assert_null(fed.batch);
    lzt_feed_destroy(f);
    lzt_batcher_destroy(b);
    lzt_dataset_close(d);
}

static void stopping_at_any_moment(void **state)
{
    (void)state;
    put_rows(120, 120);
    lzt_dataset *d = open_rows(false);
    lzt_batcher *b = batcher(d, true, 3);
    lzt_error err;
    lzt_fed fed;
    for (uint64_t i = 0; i < 60; i++) {
        lzt_feed *f = feed_of(b, i % 5, 2 + i % 4);
        for (uint64_t k = 0; k < i % 7; k++) assert_int_equal(lzt_feed_next(f, &fed, &err), LZT_OK);
        if (i % 3 == 0) nap();
        lzt_feed_destroy(f);
    }
    lzt_feed_destroy(NULL);
    lzt_feed_options o = LZT_FEED_OPTIONS_INIT;
    lzt_feed *f;
    o.batcher = b;
    o.token_capacity = 1;
    o.end_step = lzt_batcher_steps(b) + 1;
    assert_int_equal(lzt_feed_create(&o, &f, &err), LZT_ERR_USAGE);
    o.end_step = 1; /* one token is too little for a pack: the batcher's error */
    assert_int_equal(lzt_feed_create(&o, &f, &err), LZT_OK);
    assert_int_equal(lzt_feed_next(f, &fed, &err), LZT_ERR_USAGE);
    lzt_feed_destroy(f);
    lzt_batcher_destroy(b);
    lzt_dataset_close(d);
}

/* ---- where a step stands ---- */

static void positions(void **state)
{
    (void)state;
    put_rows(9000, 9000); /* three windows */
    for (int lazy = 0; lazy < 2; lazy++)
        for (int packing = 0; packing < 2; packing++) {
            lzt_dataset *d = open_rows(lazy);
            lzt_batcher *b = batcher(d, packing, 2.5);
            lzt_data_position at, before = {0, 0, 0};
            uint64_t ends = 0;
            for (uint64_t step = 0; step <= lzt_batcher_steps(b); step++) {
                lzt_batcher_position(b, step, &at);
                double epoch = lzt_batcher_epoch(b, step);
                assert_true(at.epoch == (uint64_t)(epoch + 1e-9));
                assert_true(at.window < 3 && at.pack < 4096);
                ends += lzt_batcher_ends_epoch(b, step);
                assert_int_equal(lzt_batcher_ends_epoch(b, step), step && !at.window && !at.pack);
                if (step && at.window == before.window && at.epoch == before.epoch)
                    assert_int_equal(at.pack, before.pack + 6); /* a step of 2 micro-batches of 3 */
                else if (step)
                    assert_true(at.epoch * 3 + at.window == before.epoch * 3 + before.window + 1);
                before = at;
            }
            assert_int_equal(ends, 2);
            lzt_batcher_destroy(b);
            lzt_dataset_close(d);
        }
}

/* A lazy data set is packed only as far as the run goes, and alike. */
static void a_short_run_over_a_lazy_dataset(void **state)
{
    (void)state;
    put_rows(9000, 9000);
    lzt_dataset *lazy = open_rows(true), *whole = open_rows(false);
    lzt_batcher_options o = LZT_BATCHER_OPTIONS_INIT;
    lzt_batcher *a, *b;
    lzt_error err;
    o.micro_batch_rows = 4;
    o.packing = true;
    o.pack_tokens = PACK;
    o.max_steps = 20;
    assert_int_equal(lzt_batcher_create(lazy, &o, &a, &err), LZT_OK);
    assert_int_equal(lzt_batcher_create(whole, &o, &b, &err), LZT_OK);
    lzt_dataset_report r;
    lzt_dataset_get_report(lazy, &r);
    assert_int_equal(r.rows_out, 4096); /* one window */
    uint64_t n = lzt_batcher_capacity(a);
    assert_int_equal(lzt_batcher_capacity(b), n);
    assert_int_equal(lzt_batcher_steps(a), 20);
    lzt_micro_batch x = lzt_micro_batch_over(malloc(lzt_micro_batch_bytes(n)), n);
    lzt_micro_batch y = lzt_micro_batch_over(malloc(lzt_micro_batch_bytes(n)), n);
    for (uint64_t step = 0; step < 20; step++) {
        lzt_data_position at, same;
        assert_int_equal(lzt_batcher_fill(a, step, 0, &x, &err), LZT_OK);
        assert_int_equal(lzt_batcher_fill(b, step, 0, &y, &err), LZT_OK);
        assert_int_equal(x.token_count, y.token_count);
        assert_memory_equal(x.ids, y.ids, 4 * x.token_count);
        lzt_batcher_position(a, step + 1, &at);
        lzt_batcher_position(b, step + 1, &same);
        assert_memory_equal(&at, &same, sizeof at);
        assert_false(lzt_batcher_ends_epoch(a, step + 1));
    }
    double rough = (double)lzt_batcher_steps_per_epoch(a) / (double)lzt_batcher_steps_per_epoch(b);
    assert_true(rough > 0.9 && rough < 1.1);
    free(y.ids);
    free(x.ids);
    lzt_batcher_destroy(a);
    lzt_batcher_destroy(b);
    lzt_dataset_close(lazy);
    lzt_dataset_close(whole);
}

/* Epochs over a large file begin without looking into its rows where max_seq_length bounds them. */
static void a_bounded_lazy_dataset(void **state)
{
    (void)state;
    put_rows(500, 500);
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    lzt_dataset *d;
    lzt_dataset_report r;
    lzt_error err = {0};
    o.path = path;
    o.lazy = true;
    o.max_seq_length = 25; /* some are longer */
    assert_int_equal(lzt_dataset_open(&o, &d, &err), LZT_OK);
    lzt_batcher *b = batcher(d, false, 1);
    lzt_dataset_get_report(d, &r);
    assert_int_equal(r.rows_out, 0);
    assert_int_equal(lzt_batcher_capacity(b), 3 * 25);
    lzt_feed *f = feed_of(b, 0, 4);
    uint64_t rows = 0;
    for (lzt_fed fed; !lzt_feed_next(f, &fed, &err) && fed.batch;) rows += fed.rows;
    assert_int_equal(rows, 500);
    lzt_feed_destroy(f);
    lzt_dataset_get_report(d, &r);
    assert_true(r.rows_out == 500 && r.truncated > 0 && r.longest == 25);
    lzt_batcher_destroy(b);
    lzt_dataset_close(d);
}

static int set_up(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_batcher_makes_them),
        cmocka_unit_test(a_full_ring_never_waits),
        cmocka_unit_test(an_error_comes_where_it_is_needed),
        cmocka_unit_test(steps_without_loss_come_as_one),
        cmocka_unit_test(stopping_at_any_moment),
        cmocka_unit_test(positions),
        cmocka_unit_test(a_short_run_over_a_lazy_dataset),
        cmocka_unit_test(a_bounded_lazy_dataset),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
