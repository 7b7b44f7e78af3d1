/* The CPU device keeps its contract.
 *
 * Method: small programs on real streams whose bodies write down what happened; order, bytes, refusals and errors are
 * compared. Times are only compared with lower bounds that a throttle implies (a link of r bytes/s cannot have moved n
 * bytes in less than n/r), never with upper bounds.
 */
#include "lazytrain/dev.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)

static lzt_dev *make(lzt_dev_cpu_options options, uint64_t device_bytes, uint64_t host_bytes)
{
    lzt_dev *dev;
    lzt_error err;
    assert_int_equal(lzt_dev_cpu_create(&options, &dev, &err), LZT_OK);
    if (device_bytes) assert_int_equal(lzt_dev_reserve(dev, LZT_SPACE_DEVICE, device_bytes, &err), LZT_OK);
    if (host_bytes) assert_int_equal(lzt_dev_reserve(dev, LZT_SPACE_HOST, host_bytes, &err), LZT_OK);
    return dev;
}

static uint32_t stream(lzt_dev *dev, lzt_lane lane)
{
    uint32_t s;
    assert_int_equal(lzt_dev_stream_create(dev, lane, &s, NULL), LZT_OK);
    return s;
}

/* ---- bodies */

typedef struct note {
    _Atomic uint32_t *clock;
    uint32_t value; /* the clock's value when the body ran */
    uint32_t sleep_us;
    lzt_status status;
} note;

static void nap(uint32_t us)
{
    struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000};
    nanosleep(&t, NULL);
}

static lzt_status take_note(void *arg, void *native_stream, lzt_error *err)
{
    note *n = arg;
    assert_null(native_stream);
    nap(n->sleep_us);
    n->value = ++*n->clock;
    if (n->status) return lzt_fail(err, n->status, "note", "asked to fail");
    return LZT_OK;
}

typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool open;
} gate;

static lzt_status pass_gate(void *arg, void *native_stream, lzt_error *err)
{
    gate *g = arg;
    (void)native_stream, (void)err;
    pthread_mutex_lock(&g->lock);
    while (!g->open) pthread_cond_wait(&g->opened, &g->lock);
    pthread_mutex_unlock(&g->lock);
    return LZT_OK;
}

static void open_gate(gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->open = true;
    pthread_cond_broadcast(&g->opened);
    pthread_mutex_unlock(&g->lock);
}

/* ---- tests */

static void waits_order_streams(void **state)
{
    (void)state;
    enum { N = 200 };
    lzt_dev *dev = make((lzt_dev_cpu_options)LZT_DEV_CPU_OPTIONS_INIT, 0, 0);
    uint32_t s[3] = {stream(dev, LZT_LANE_COMPUTE), stream(dev, LZT_LANE_H2D), stream(dev, LZT_LANE_CPU_OPTIMIZER)};
    _Atomic uint32_t clock = 0;
    static note n[N];
    static lzt_work w[N];
    static lzt_wait wait[N];
    uint64_t sequence = 0, last[3] = {0};
    for (int i = 0; i < N; i++) { /* a chain that hops from stream to stream: each waits for the one before */
        uint32_t to = s[(i * 7 + i / 5) % 3], from = i ? s[((i - 1) * 7 + (i - 1) / 5) % 3] : 0;
        n[i] = (note){&clock, 0, i % 9 == 0 ? 300 : 0, LZT_OK};
        wait[i] = (lzt_wait){from, sequence};
        w[i] = (lzt_work){.name = "hop", .wait = &wait[i], .wait_count = 1, .call = take_note, .arg = &n[i]};
        assert_int_equal(lzt_dev_submit(dev, to, &w[i], &sequence, NULL), LZT_OK);
        assert_int_equal(sequence, last[to] + 1);
        last[to] = sequence;
    }
    assert_int_equal(lzt_dev_wait(dev, s[((N - 1) * 7 + (N - 1) / 5) % 3], sequence, NULL), LZT_OK);
    for (int i = 0; i < N; i++) {
        assert_int_equal(n[i].value, i + 1);
        assert_true(w[i].ready_ns && w[i].ready_ns <= w[i].start_ns && w[i].start_ns <= w[i].end_ns);
        if (i) assert_true(w[i - 1].end_ns <= w[i].ready_ns);
    }
    lzt_dev_destroy(dev);
}

typedef struct feeder {
    lzt_dev *dev;
    uint32_t stream;
    lzt_work *work;
    int count;
    _Atomic int submitted;
} feeder;

static void *feed(void *arg)
{
    feeder *f = arg;
    for (int i = 0; i < f->count; i++) {
        assert_int_equal(lzt_dev_submit(f->dev, f->stream, &f->work[i], NULL, NULL), LZT_OK);
        f->submitted++;
    }
    return NULL;
}

static void full_queue_blocks_the_submitter(void **state)
{
    (void)state;
    lzt_dev_cpu_options options = LZT_DEV_CPU_OPTIONS_INIT;
    options.queue_slots = 4;
    lzt_dev *dev = make(options, 0, 0);
    gate g = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    _Atomic uint32_t clock = 0;
    note n[20];
    lzt_work w[20];
    for (int i = 0; i < 20; i++) {
        n[i] = (note){&clock, 0, 0, LZT_OK};
        w[i] = (lzt_work){.name = "queued", .call = i ? take_note : pass_gate, .arg = i ? (void *)&n[i] : &g};
    }
    feeder f = {.dev = dev, .stream = stream(dev, LZT_LANE_DATA), .work = w, .count = 20};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, feed, &f), 0);
    while (f.submitted < 4) nap(100);
    nap(20000);
    assert_int_equal(f.submitted, 4); /* the first holds its slot until it has completed */
    open_gate(&g);
    pthread_join(thread, NULL);
    assert_int_equal(lzt_dev_wait(dev, f.stream, 20, NULL), LZT_OK);
    assert_int_equal(clock, 19);
    lzt_dev_destroy(dev);
}

static lzt_work copy_work(lzt_range range[2])
{
    return (lzt_work){.name = "copy", .range = range, .range_count = 2};
}

static void copies_move_bytes_and_count_them(void **state)
{
    (void)state;
    lzt_dev *dev = make((lzt_dev_cpu_options)LZT_DEV_CPU_OPTIONS_INIT, 3 * MIB + 100, 3 * MIB);
    uint32_t up = stream(dev, LZT_LANE_H2D), down = stream(dev, LZT_LANE_D2H);
    uint64_t bytes = 2 * MIB + 77, sequence;
    unsigned char *host = lzt_dev_address(dev, LZT_SPACE_HOST, 0);
    for (uint64_t i = 0; i < bytes; i++) host[i] = (unsigned char)(i * 131 >> 3);
    lzt_range r[2][2] = {
        {{0, bytes, LZT_SPACE_HOST, LZT_ACCESS_READ}, {4096, bytes, LZT_SPACE_DEVICE, LZT_ACCESS_WRITE}},
        {{4096 + 5, 1000, LZT_SPACE_DEVICE, LZT_ACCESS_READ}, {3 * MIB - 1000, 1000, LZT_SPACE_HOST, LZT_ACCESS_WRITE}},
    };
    lzt_work w[2] = {copy_work(r[0]), copy_work(r[1])};
    lzt_wait wait = {up, 1};
    w[1].wait = &wait;
    w[1].wait_count = 1;
    assert_int_equal(lzt_dev_submit(dev, up, &w[0], NULL, NULL), LZT_OK);
    assert_int_equal(lzt_dev_submit(dev, down, &w[1], &sequence, NULL), LZT_OK);
    assert_int_equal(lzt_dev_wait(dev, down, sequence, NULL), LZT_OK);
    assert_memory_equal(host + 5, host + 3 * MIB - 1000, 1000);
    assert_memory_equal(host, lzt_dev_address(dev, LZT_SPACE_DEVICE, 4096), bytes);
    lzt_dev_info info;
    lzt_dev_get_info(dev, &info);
    assert_int_equal(info.copied_bytes[LZT_LANE_H2D], bytes);
    assert_int_equal(info.copied_bytes[LZT_LANE_D2H], 1000);
    assert_int_equal(info.peak_bytes[LZT_SPACE_DEVICE], 4096 + bytes);
    assert_int_equal(info.peak_bytes[LZT_SPACE_HOST], 3 * MIB);
    assert_int_equal(info.reserved_bytes[LZT_SPACE_DEVICE], 3 * MIB + 100);
    assert_string_equal(info.name, "cpu");
    assert_false(info.checked);
    lzt_dev_destroy(dev);
}

/* count copies of bytes each, back to back at rate: the last ends no earlier than the ideal link. */
static void throttled(uint64_t bytes, int count, double rate, bool down)
{
    lzt_dev_cpu_options options = LZT_DEV_CPU_OPTIONS_INIT;
    options.h2d_bytes_per_s = down ? 1e12 : rate;
    options.d2h_bytes_per_s = down ? rate : 1e12;
    lzt_dev *dev = make(options, bytes, bytes);
    uint32_t s = stream(dev, down ? LZT_LANE_D2H : LZT_LANE_H2D);
    lzt_range r[2] = {{0, bytes, LZT_SPACE_HOST, LZT_ACCESS_READ}, {0, bytes, LZT_SPACE_DEVICE, LZT_ACCESS_WRITE}};
    lzt_work *w = calloc((size_t)count, sizeof *w);
    uint64_t sequence = 0;
    for (int i = 0; i < count; i++) {
        w[i] = copy_work(r);
        assert_int_equal(lzt_dev_submit(dev, s, &w[i], &sequence, NULL), LZT_OK);
    }
    assert_int_equal(lzt_dev_wait(dev, s, sequence, NULL), LZT_OK);
    double ideal = (double)bytes * count / rate, taken = (double)(w[count - 1].end_ns - w[0].start_ns) * 1e-9;
    assert_true(taken > 0.999 * ideal);
    if (getenv("LZT_TEST_VERBOSE"))
        print_message("%d x %llu bytes: %.3f of the ideal time %.1f ms\n", count, (unsigned long long)bytes,
                      taken / ideal, ideal * 1e3);
    free(w);
    lzt_dev_destroy(dev);
}

static void throttle_holds_the_rate(void **state)
{
    (void)state;
    throttled(8 * MIB, 4, 1e9, false);
    throttled(1 * MIB, 40, 1e9, true);
    throttled(4 * KIB, 500, 200e6, false);
    throttled(100, 2000, 10e6, true);
}

static void slowdown_stretches_compute_only(void **state)
{
    (void)state;
    lzt_dev_cpu_options options = LZT_DEV_CPU_OPTIONS_INIT;
    options.compute_slowdown = 3;
    lzt_dev *dev = make(options, 0, 0);
    uint32_t s[2] = {stream(dev, LZT_LANE_COMPUTE), stream(dev, LZT_LANE_DATA)};
    _Atomic uint32_t clock = 0;
    note n[10];
    lzt_work w[10];
    for (int i = 0; i < 10; i++) {
        n[i] = (note){&clock, 0, 2000, LZT_OK};
        w[i] = (lzt_work){.name = "busy", .call = take_note, .arg = &n[i]};
        assert_int_equal(lzt_dev_submit(dev, s[0], &w[i], NULL, NULL), LZT_OK);
    }
    assert_int_equal(lzt_dev_wait(dev, s[0], 10, NULL), LZT_OK);
    assert_true(w[9].end_ns - w[0].start_ns >= 10 * 3 * UINT64_C(2000000));
    lzt_dev_destroy(dev);
}

static void caps_refuse(void **state)
{
    (void)state;
    lzt_dev_cpu_options options = LZT_DEV_CPU_OPTIONS_INIT;
    options.device_cap_bytes = 1000;
    options.host_cap_bytes = 5000;
    lzt_dev *dev = make(options, 0, 0);
    lzt_error err;
    assert_int_equal(lzt_dev_reserve(dev, LZT_SPACE_DEVICE, 1001, &err), LZT_ERR_NO_PLAN);
    assert_non_null(strstr(err.message, "1001"));
    assert_non_null(strstr(err.message, "1000"));
    assert_int_equal(lzt_dev_reserve(dev, LZT_SPACE_DEVICE, 1000, &err), LZT_OK);
    assert_int_equal(lzt_dev_reserve(dev, LZT_SPACE_DEVICE, 1, &err), LZT_ERR_INTERNAL); /* once */
    assert_int_equal(lzt_dev_reserve(dev, LZT_SPACE_HOST, 5001, &err), LZT_ERR_NO_PLAN);
    lzt_dev_destroy(dev);
    options.device_cap_bytes = 0;
    dev = make(options, 0, 0);
    assert_int_equal(lzt_dev_reserve(dev, LZT_SPACE_DEVICE, UINT64_MAX - 10, &err), LZT_ERR_NO_MEMORY);
    assert_int_equal(lzt_dev_reserve(dev, LZT_SPACE_DEVICE, UINT64_C(1) << 60, &err), LZT_ERR_NO_MEMORY);
    assert_int_equal(lzt_dev_reserve(dev, LZT_SPACE_DEVICE, 0, &err), LZT_OK);
    lzt_dev_destroy(dev);
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    lzt_dev *dev;
    lzt_error err;
    for (int i = 0; i < 5; i++) {
        lzt_dev_cpu_options o = LZT_DEV_CPU_OPTIONS_INIT;
        if (i == 0) o.struct_bytes = 3;
        if (i == 1) o.compute_slowdown = 0.5;
        if (i == 2) o.h2d_bytes_per_s = -1;
        if (i == 3) o.d2h_bytes_per_s = 1e308 * 1e308;
        if (i == 4) o.compute_slowdown = 1e308 * 1e308 - 1e308 * 1e308;
        assert_int_equal(lzt_dev_cpu_create(&o, &dev, &err), LZT_ERR_USAGE);
        assert_true(err.message[0]);
    }
}

/* A refused submit names the work, is never run, and stays the device's error. */
static void bad_work_is_refused(void **state)
{
    (void)state;
    const lzt_range outside[] = {
        {0, 5000, LZT_SPACE_DEVICE, LZT_ACCESS_READ},
        {4096, 1, LZT_SPACE_DEVICE, LZT_ACCESS_WRITE},
        {UINT64_MAX, 2, LZT_SPACE_DEVICE, LZT_ACCESS_READ},
        {2, UINT64_MAX, LZT_SPACE_DEVICE, LZT_ACCESS_READ},
        {0, 1, LZT_SPACE_HOST, LZT_ACCESS_READ} /* not reserved */,
        {0, 1, 7, LZT_ACCESS_READ},
        {0, 1, LZT_SPACE_DEVICE, 0},
    };
    enum { BAD_RANGES = sizeof outside / sizeof *outside };
    for (int i = 0; i < BAD_RANGES + 4; i++) {
        lzt_dev *dev = make((lzt_dev_cpu_options)LZT_DEV_CPU_OPTIONS_INIT, 4096, 0);
        uint32_t s = stream(dev, LZT_LANE_COMPUTE);
        _Atomic uint32_t clock = 0;
        note n = {&clock, 0, 0, LZT_OK};
        lzt_range pair[2] = {{0, 64, LZT_SPACE_DEVICE, LZT_ACCESS_READ}, {64, 64, LZT_SPACE_DEVICE, LZT_ACCESS_WRITE}};
        lzt_wait never = {s, 1};
        lzt_work w = {.name = "the culprit", .call = take_note, .arg = &n};
        if (i < BAD_RANGES) w.range = &outside[i], w.range_count = 1;
        if (i == BAD_RANGES) w.wait = &never, w.wait_count = 1; /* of itself: not submitted yet */
        if (i == BAD_RANGES + 1) w.call = NULL;
        if (i > BAD_RANGES + 1) w.call = NULL, w.range = pair, w.range_count = 2;
        if (i == BAD_RANGES + 2) pair[1].offset = 63; /* overlap */
        if (i == BAD_RANGES + 3) pair[1].bytes = 32;
        lzt_error err;
        assert_int_equal(lzt_dev_submit(dev, s, &w, NULL, &err), LZT_ERR_INTERNAL);
        assert_string_equal(err.where, "the culprit");
        lzt_work good = {.name = "innocent", .call = take_note, .arg = &n};
        assert_int_equal(lzt_dev_submit(dev, s, &good, NULL, &err), LZT_ERR_INTERNAL);
        assert_string_equal(err.where, "the culprit");
        assert_int_equal(lzt_dev_wait(dev, s, 0, &err), LZT_ERR_INTERNAL);
        lzt_dev_destroy(dev);
        assert_int_equal(clock, 0);
    }
}

static void first_error_stays_and_later_works_do_not_run(void **state)
{
    (void)state;
    lzt_dev *dev = make((lzt_dev_cpu_options)LZT_DEV_CPU_OPTIONS_INIT, 0, 0);
    uint32_t a = stream(dev, LZT_LANE_COMPUTE), b = stream(dev, LZT_LANE_DATA);
    gate g = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    _Atomic uint32_t clock = 0;
    note n[4] = {
        {&clock, 0, 0, LZT_OK}, {&clock, 0, 0, LZT_ERR_STORAGE}, {&clock, 0, 0, LZT_ERR_DATA}, {&clock, 0, 0, LZT_OK}};
    lzt_work hold = {.name = "hold", .call = pass_gate, .arg = &g}, w[4];
    lzt_wait on_failure = {a, 3};
    assert_int_equal(lzt_dev_submit(dev, a, &hold, NULL, NULL), LZT_OK);
    for (int i = 0; i < 3; i++) {
        w[i] = (lzt_work){.name = "w", .call = take_note, .arg = &n[i]};
        assert_int_equal(lzt_dev_submit(dev, a, &w[i], NULL, NULL), LZT_OK);
    }
    w[3] = (lzt_work){.name = "w", .call = take_note, .arg = &n[3], .wait = &on_failure, .wait_count = 1};
    assert_int_equal(lzt_dev_submit(dev, b, &w[3], NULL, NULL), LZT_OK);
    open_gate(&g);
    lzt_error err;
    assert_int_equal(lzt_dev_wait(dev, b, 1, &err), LZT_ERR_STORAGE);
    assert_string_equal(err.message, "asked to fail");
    assert_int_equal(lzt_dev_wait(dev, a, 4, &err), LZT_ERR_STORAGE);
    assert_int_equal(lzt_dev_submit(dev, b, &w[0], NULL, &err), LZT_ERR_STORAGE);
    assert_int_equal(lzt_dev_wait(dev, a, 5, &err), LZT_ERR_INTERNAL); /* never submitted: not a hang */
    assert_int_equal(clock, 2);                                        /* the first and the one that failed */
    lzt_dev_destroy(dev);
}

static void destroy_waits_for_all(void **state)
{
    (void)state;
    lzt_dev *dev = make((lzt_dev_cpu_options)LZT_DEV_CPU_OPTIONS_INIT, 0, 0);
    uint32_t a = stream(dev, LZT_LANE_COMPUTE), b = stream(dev, LZT_LANE_DATA);
    _Atomic uint32_t clock = 0;
    note n[2] = {{&clock, 0, 20000, LZT_OK}, {&clock, 0, 0, LZT_OK}};
    lzt_wait wait = {b, 1};
    lzt_work w[2] = {{.name = "slow", .call = take_note, .arg = &n[0]},
                     {.name = "after", .call = take_note, .arg = &n[1], .wait = &wait, .wait_count = 1}};
    assert_int_equal(lzt_dev_submit(dev, b, &w[0], NULL, NULL), LZT_OK);
    assert_int_equal(lzt_dev_submit(dev, a, &w[1], NULL, NULL), LZT_OK);
    lzt_dev_destroy(dev);
    assert_int_equal(n[0].value, 1);
    assert_int_equal(n[1].value, 2);
    lzt_dev_destroy(NULL);
}

static void streams_are_bounded(void **state)
{
    (void)state;
    lzt_dev *dev = make((lzt_dev_cpu_options)LZT_DEV_CPU_OPTIONS_INIT, 0, 0);
    for (uint32_t i = 0; i < LZT_DEV_STREAMS_MAX; i++) assert_int_equal(stream(dev, LZT_LANE_DATA), i);
    uint32_t s;
    assert_int_equal(lzt_dev_stream_create(dev, LZT_LANE_DATA, &s, NULL), LZT_ERR_INTERNAL);
    lzt_dev_destroy(dev);
    for (int l = 0; l < LZT_LANE_COUNT; l++) assert_true(lzt_lane_name((lzt_lane)l)[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_order_streams),
        cmocka_unit_test(full_queue_blocks_the_submitter),
        cmocka_unit_test(copies_move_bytes_and_count_them),
        cmocka_unit_test(throttle_holds_the_rate),
        cmocka_unit_test(slowdown_stretches_compute_only),
        cmocka_unit_test(caps_refuse),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(bad_work_is_refused),
        cmocka_unit_test(first_error_stays_and_later_works_do_not_run),
        cmocka_unit_test(destroy_waits_for_all),
        cmocka_unit_test(streams_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
