/* The checked device finds what is unordered or undeclared, and nothing else.
 *
 * Method: planted mistakes are found under every seed and with the right names; sound programs are silent. 1,000 random
 * programs are judged by a brute-force oracle (reachability over stream order, waits and host waits against all pairs
 * of conflicting works): a program with exactly the irreducible waits has no finding; without one of them that pair is
 * found, and nothing is found that the oracle does not confirm; with random waits there are findings exactly if the
 * oracle has any.
 */
#include "lazytrain/dev.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define TEST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TEST_ASAN 1
#endif
#endif

#define PAGE LZT_DEV_ALIGNMENT
enum { PAGES = 64 };

static lzt_dev *make(uint64_t seed, uint32_t delay_us, bool protect)
{
    lzt_dev_cpu_options cpu = LZT_DEV_CPU_OPTIONS_INIT;
    lzt_dev_checked_options checked = LZT_DEV_CHECKED_OPTIONS_INIT;
    checked.seed = seed;
    checked.delay_us_max = delay_us;
    checked.protect = protect;
    lzt_dev *inner, *dev;
    assert_int_equal(lzt_dev_cpu_create(&cpu, &inner, NULL), LZT_OK);
    assert_int_equal(lzt_dev_checked_create(&checked, inner, &dev, NULL), LZT_OK);
    assert_int_equal(lzt_dev_reserve(dev, LZT_SPACE_DEVICE, PAGES * PAGE - 100, NULL), LZT_OK);
    assert_int_equal(lzt_dev_reserve(dev, LZT_SPACE_HOST, PAGES * PAGE, NULL), LZT_OK);
    return dev;
}

static uint32_t stream(lzt_dev *dev, lzt_lane lane)
{
    uint32_t s;
    assert_int_equal(lzt_dev_stream_create(dev, lane, &s, NULL), LZT_OK);
    return s;
}

static lzt_status nothing(void *arg, void *native_stream, lzt_error *err)
{
    (void)arg, (void)native_stream, (void)err;
    return LZT_OK;
}

static uint64_t submit(lzt_dev *dev, uint32_t s, lzt_work *work)
{
    uint64_t sequence;
    if (!work->call) work->call = nothing;
    assert_int_equal(lzt_dev_submit(dev, s, work, &sequence, NULL), LZT_OK);
    return sequence;
}

static void expect(const lzt_dev *dev, uint64_t index, lzt_finding_kind kind, const char *first, const char *second)
{
    lzt_finding f;
    assert_true(lzt_dev_finding(dev, index, &f));
    assert_int_equal(f.kind, kind);
    assert_string_equal(f.first, first);
    assert_string_equal(f.second, second);
}

/* ---- order */

static void unordered_pair_is_found_under_any_seed(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        lzt_dev *dev = make(seed, 300, seed % 2);
        uint32_t a = stream(dev, LZT_LANE_COMPUTE), b = stream(dev, LZT_LANE_H2D);
        lzt_range write = {PAGE, 1000, LZT_SPACE_DEVICE, LZT_ACCESS_WRITE};
        lzt_range read = {PAGE + 900, 5000, LZT_SPACE_DEVICE, LZT_ACCESS_READ};
        lzt_work w[4] = {{.name = "writer", .range = &write, .range_count = 1},
                         {.name = "reader", .range = &read, .range_count = 1},
                         {.name = "writer", .range = &write, .range_count = 1},
                         {.name = "reader", .range = &read, .range_count = 1}};
        submit(dev, a, &w[0]);
        uint64_t last = submit(dev, b, &w[1]);
        assert_int_equal(lzt_dev_finding_count(dev), 1);
        expect(dev, 0, LZT_FINDING_UNORDERED, "writer", "reader");
        lzt_finding f;
        lzt_dev_finding(dev, 0, &f);
        assert_int_equal(f.offset, PAGE + 900);
        assert_int_equal(f.bytes, 100);
        assert_false(f.is_write);
        assert_int_equal(f.space, LZT_SPACE_DEVICE);
        assert_int_equal(lzt_dev_wait(dev, b, last, NULL), LZT_OK);
        submit(dev, a, &w[2]); /* ordered by the host's wait */
        assert_int_equal(lzt_dev_finding_count(dev), 1);
        submit(dev, b, &w[3]); /* the same pair of names: reported once */
        assert_int_equal(lzt_dev_finding_count(dev), 1);
        assert_false(lzt_dev_finding(dev, 1, &f));
        lzt_dev_destroy(dev);
    }
}

/* Streams a, b, c: write on a, read on b after a wait, write on c that waits for the read alone. */
static void chain(lzt_dev *dev, bool drop, uint64_t expected)
{
    uint32_t s[3] = {stream(dev, LZT_LANE_COMPUTE), stream(dev, LZT_LANE_D2H), stream(dev, LZT_LANE_H2D)};
    lzt_range r[3] = {{0, 64, LZT_SPACE_HOST, LZT_ACCESS_WRITE},
                      {0, 64, LZT_SPACE_HOST, LZT_ACCESS_READ},
                      {32, 1, LZT_SPACE_HOST, LZT_ACCESS_READ_WRITE}};
    lzt_wait wait[2] = {{s[0], 1}, {s[1], 1}};
    lzt_work w[3] = {
        {.name = "produce", .range = &r[0], .range_count = 1},
        {.name = "use", .range = &r[1], .range_count = 1, .wait = &wait[0], .wait_count = 1},
        {.name = "reuse", .range = &r[2], .range_count = 1, .wait = &wait[1], .wait_count = drop ? 0 : 1},
    };
    for (int i = 0; i < 3; i++) submit(dev, s[i], &w[i]);
    for (int i = 0; i < 3; i++) assert_int_equal(lzt_dev_wait(dev, s[i], 1, NULL), LZT_OK);
    assert_int_equal(lzt_dev_finding_count(dev), expected);
}

static void waits_are_transitive_and_a_dropped_one_is_found(void **state)
{
    (void)state;
    lzt_dev *dev = make(1, 100, true);
    chain(dev, false, 0);
    lzt_dev_destroy(dev);
    dev = make(1, 100, true);
    chain(dev, true, 2); /* reuse against both the write and the read */
    expect(dev, 0, LZT_FINDING_UNORDERED, "produce", "reuse");
    expect(dev, 1, LZT_FINDING_UNORDERED, "use", "reuse");
    lzt_dev_destroy(dev);
}

static void *wait_elsewhere(void *arg)
{
    lzt_dev *dev = arg;
    assert_int_equal(lzt_dev_wait(dev, 0, 1, NULL), LZT_OK);
    return NULL;
}

static void another_threads_wait_orders_nothing(void **state)
{
    (void)state;
    lzt_dev *dev = make(1, 0, false);
    uint32_t a = stream(dev, LZT_LANE_COMPUTE), b = stream(dev, LZT_LANE_DATA);
    lzt_range r = {0, 64, LZT_SPACE_HOST, LZT_ACCESS_WRITE};
    lzt_work w[2] = {{.name = "one", .range = &r, .range_count = 1}, {.name = "two", .range = &r, .range_count = 1}};
    submit(dev, a, &w[0]);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_elsewhere, dev), 0);
    pthread_join(thread, NULL);
    submit(dev, b, &w[1]);
    assert_int_equal(lzt_dev_finding_count(dev), 1);
    lzt_dev_destroy(dev);
}

/* ---- undeclared accesses */

typedef struct toucher {
    lzt_dev *dev;
    uint64_t read_at, write_at; /* 0: not at all */
    bool on_other_thread;
    unsigned char seen;
} toucher;

static void *touch_now(void *arg)
{
    toucher *t = arg;
    if (t->read_at) t->seen = *(volatile unsigned char *)lzt_dev_address(t->dev, LZT_SPACE_DEVICE, t->read_at);
    if (t->write_at) *(volatile unsigned char *)lzt_dev_address(t->dev, LZT_SPACE_DEVICE, t->write_at) = 77;
    return NULL;
}

static lzt_status touch(void *arg, void *native_stream, lzt_error *err)
{
    toucher *t = arg;
    (void)native_stream, (void)err;
    if (!t->on_other_thread) {
        touch_now(t);
        return LZT_OK;
    }
    pthread_t thread;
    pthread_create(&thread, NULL, touch_now, t);
    pthread_join(thread, NULL);
    return LZT_OK;
}

static void undeclared_accesses_are_reported(void **state)
{
    (void)state;
    lzt_dev *dev = make(3, 50, true);
    uint32_t s = stream(dev, LZT_LANE_COMPUTE);
    lzt_range declared[2] = {{2 * PAGE, 100, LZT_SPACE_DEVICE, LZT_ACCESS_READ},
                             {5 * PAGE, 3 * PAGE, LZT_SPACE_DEVICE, LZT_ACCESS_WRITE}};
    toucher t[6] = {
        {dev, 2 * PAGE + 7, 6 * PAGE + 1, false, 9}, /* declared: silent */
        {dev, 10 * PAGE + 5, 0, false, 9},           /* undeclared read */
        {dev, 0, 11 * PAGE + 6, false, 9},           /* undeclared write */
        {dev, 2 * PAGE + 7, 2 * PAGE + 8, false, 9}, /* write where only reading was declared */
        {dev, 11 * PAGE + 6, 11 * PAGE + 6, true, 9} /* on a thread of its own: read, then write, of an open page */,
        {dev, 6 * PAGE + 1, 0, true, 9},
    };
    const char *names[6] = {"good", "reader", "writer", "liar", "helper", "good too"};
    lzt_work w[6];
    for (int i = 0; i < 6; i++) {
        w[i] = (lzt_work){.name = names[i], .range = declared, .range_count = 2, .call = touch, .arg = &t[i]};
        uint64_t last = submit(dev, s, &w[i]);
        assert_int_equal(lzt_dev_wait(dev, s, last, NULL), LZT_OK);
    }
    assert_int_equal(t[1].seen, 0);  /* a fresh arena is zeroed */
    assert_int_equal(t[4].seen, 77); /* what "writer" wrote went through */
    assert_int_equal(t[5].seen, 77); /* and what "good" wrote */
    const struct {
        const char *name;
        uint64_t offset;
        bool is_write;
    } want[] = {{"reader", 10 * PAGE + 5, false},
                {"writer", 11 * PAGE + 6, true},
                {"liar", 2 * PAGE + 8, true},
                {"helper", 11 * PAGE + 6, false},
                {"helper", 11 * PAGE + 6, true}};
    assert_int_equal(lzt_dev_finding_count(dev), sizeof want / sizeof *want);
    for (uint64_t i = 0; i < sizeof want / sizeof *want; i++) {
        lzt_finding f;
        expect(dev, i, LZT_FINDING_UNDECLARED, want[i].name, "");
        lzt_dev_finding(dev, i, &f);
        assert_int_equal(f.offset, want[i].offset);
        assert_int_equal(f.is_write, want[i].is_write);
        assert_int_equal(f.bytes, 1);
    }
    lzt_dev_destroy(dev);
}

static void the_host_must_not_touch_the_device(void **state)
{
    (void)state;
    lzt_dev *dev = make(3, 0, true);
    stream(dev, LZT_LANE_COMPUTE);
    memset(lzt_dev_address(dev, LZT_SPACE_HOST, 0), 1, 3 * PAGE); /* its own space is open */
    assert_int_equal(lzt_dev_finding_count(dev), 0);
    toucher t = {dev, PAGE, 0, false, 9};
    touch_now(&t);
    assert_int_equal(lzt_dev_finding_count(dev), 1);
    expect(dev, 0, LZT_FINDING_UNDECLARED, "(host)", "");
    lzt_dev_destroy(dev);
}

/* A work that strays over the whole arena: one finding a kind, and everything is closed again afterwards. */
static lzt_status stray(void *arg, void *native_stream, lzt_error *err)
{
    (void)native_stream, (void)err;
    for (uint64_t p = 0; p < PAGES; p++) *(volatile char *)lzt_dev_address(arg, LZT_SPACE_DEVICE, p * PAGE) = 1;
    return LZT_OK;
}

static void many_faults_are_one_finding(void **state)
{
    (void)state;
    lzt_dev *dev = make(3, 0, true);
    uint32_t s = stream(dev, LZT_LANE_COMPUTE);
    lzt_range all = {0, PAGES * PAGE - 100, LZT_SPACE_DEVICE, LZT_ACCESS_WRITE};
    lzt_work w[4] = {{.name = "stray", .call = stray, .arg = dev},
                     {.name = "stray", .call = stray, .arg = dev},
                     {.name = "again", .call = stray, .arg = dev},
                     {.name = "allowed", .call = stray, .arg = dev, .range = &all, .range_count = 1}};
    uint64_t last = 0;
    for (int i = 0; i < 4; i++) last = submit(dev, s, &w[i]);
    assert_int_equal(lzt_dev_wait(dev, s, last, NULL), LZT_OK);
    assert_int_equal(lzt_dev_finding_count(dev), 2);
    expect(dev, 0, LZT_FINDING_UNDECLARED, "stray", "");
    expect(dev, 1, LZT_FINDING_UNDECLARED, "again", "");
    lzt_dev_destroy(dev);
}

/* Overlapping and touching declarations open exactly their union. */
static lzt_status poke(void *arg, void *native_stream, lzt_error *err)
{
    toucher *t = arg;
    (void)native_stream, (void)err;
    for (uint64_t p = 1; p < 12; p++) {
        volatile char *at = lzt_dev_address(t->dev, LZT_SPACE_DEVICE, p * PAGE);
        if (p >= 3 && p < 6)
            *at = 1;
        else
            (void)*at;
    }
    return LZT_OK;
}

static void overlapping_declarations_open_their_union(void **state)
{
    (void)state;
    lzt_dev *dev = make(3, 0, true);
    uint32_t s = stream(dev, LZT_LANE_COMPUTE);
    lzt_range r[4] = {{3 * PAGE + 50, 2 * PAGE, LZT_SPACE_DEVICE, LZT_ACCESS_WRITE},
                      {PAGE, 7 * PAGE, LZT_SPACE_DEVICE, LZT_ACCESS_READ},
                      {8 * PAGE, 0, LZT_SPACE_DEVICE, LZT_ACCESS_READ}, /* empty */
                      {3 * PAGE, PAGE, LZT_SPACE_DEVICE, LZT_ACCESS_WRITE}};
    lzt_range more = {8 * PAGE, 4 * PAGE, LZT_SPACE_DEVICE, LZT_ACCESS_READ};
    lzt_range full[5] = {r[0], r[1], r[2], r[3], more};
    toucher t = {.dev = dev};
    lzt_work w[2] = {{.name = "full", .call = poke, .arg = &t, .range = full, .range_count = 5},
                     {.name = "part", .call = poke, .arg = &t, .range = r, .range_count = 4}};
    submit(dev, s, &w[0]);
    submit(dev, s, &w[1]);
    assert_int_equal(lzt_dev_wait(dev, s, 2, NULL), LZT_OK);
    assert_int_equal(lzt_dev_finding_count(dev), 1);
    expect(dev, 0, LZT_FINDING_UNDECLARED, "part", "");
    lzt_finding f;
    lzt_dev_finding(dev, 0, &f);
    assert_int_equal(f.offset, 8 * PAGE);
    lzt_dev_destroy(dev);
}

static void copies_pass_the_fence(void **state)
{
    (void)state;
    lzt_dev *dev = make(3, 100, true);
    uint32_t up = stream(dev, LZT_LANE_H2D), down = stream(dev, LZT_LANE_D2H);
    unsigned char *host = lzt_dev_address(dev, LZT_SPACE_HOST, 0);
    for (uint64_t i = 0; i < 2 * PAGE; i++) host[i] = (unsigned char)(i * 7);
    lzt_range r[2][2] = {{{0, 2 * PAGE - 9, LZT_SPACE_HOST, LZT_ACCESS_READ},
                          {4 * PAGE, 2 * PAGE - 9, LZT_SPACE_DEVICE, LZT_ACCESS_WRITE}},
                         {{4 * PAGE, 2 * PAGE - 9, LZT_SPACE_DEVICE, LZT_ACCESS_READ},
                          {8 * PAGE, 2 * PAGE - 9, LZT_SPACE_HOST, LZT_ACCESS_WRITE}}};
    lzt_wait wait = {up, 1};
    lzt_work w[2] = {{.name = "up", .range = r[0], .range_count = 2},
                     {.name = "down", .range = r[1], .range_count = 2, .wait = &wait, .wait_count = 1}};
    assert_int_equal(lzt_dev_submit(dev, up, &w[0], NULL, NULL), LZT_OK);
    assert_int_equal(lzt_dev_submit(dev, down, &w[1], NULL, NULL), LZT_OK);
    assert_int_equal(lzt_dev_wait(dev, down, 1, NULL), LZT_OK);
    assert_memory_equal(host, host + 8 * PAGE, 2 * PAGE - 9);
    assert_int_equal(lzt_dev_finding_count(dev), 0);
    lzt_dev_info info;
    lzt_dev_get_info(dev, &info);
    assert_true(info.checked);
    assert_string_equal(info.name, "cpu-checked");
    assert_int_equal(info.copied_bytes[LZT_LANE_H2D], 2 * PAGE - 9);
    lzt_dev_destroy(dev);
}

static lzt_status go_wrong(void *arg, void *native_stream, lzt_error *err)
{
    (void)arg, (void)native_stream;
    return lzt_fail(err, LZT_ERR_DATA, "fail", "asked to");
}

static void a_failed_work_releases_the_fence(void **state)
{
    (void)state;
    lzt_dev *dev = make(3, 10, true);
    uint32_t a = stream(dev, LZT_LANE_COMPUTE), b = stream(dev, LZT_LANE_DATA);
    lzt_work w[3] = {{.name = "bad", .call = go_wrong}, {.name = "x", .call = nothing}, {.name = "y", .call = nothing}};
    assert_int_equal(lzt_dev_submit(dev, a, &w[0], NULL, NULL), LZT_OK);
    (void)lzt_dev_submit(dev, a, &w[1], NULL, NULL);
    (void)lzt_dev_submit(dev, b, &w[2], NULL, NULL);
    assert_int_equal(lzt_dev_wait(dev, a, 1, NULL), LZT_ERR_DATA);
    lzt_dev_destroy(dev);
}

/* ---- foreign faults */

static sigjmp_buf escape;

static void own_handler(int number)
{
    (void)number;
    siglongjmp(escape, 1);
}

static void foreign_faults_reach_the_handler_before_ours(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = own_handler};
    assert_int_equal(sigaction(SIGSEGV, &action, NULL), 0);
    lzt_dev *dev = make(3, 0, true);
    volatile char *closed = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool returned = false;
    if (!sigsetjmp(escape, 1)) {
        *closed = 1;
        returned = true;
    }
    assert_false(returned);
    munmap((void *)(uintptr_t)closed, PAGE);
    assert_int_equal(lzt_dev_finding_count(dev), 0);
    lzt_dev_destroy(dev);
}

#ifdef TEST_ASAN
/* Past the end of a declared range, within its page: ASan ends the process, here a child. */
static void tails_are_poisoned(void **state)
{
    (void)state;
    for (int past = 0; past < 2; past++) {
        pid_t child = fork();
        if (child == 0) {
            if (!freopen("/dev/null", "w", stderr)) _exit(3);
            lzt_dev *dev = make(3, 0, true);
            uint32_t s = stream(dev, LZT_LANE_COMPUTE);
            lzt_range r = {2 * PAGE, 104, LZT_SPACE_DEVICE, LZT_ACCESS_READ};
            toucher t = {dev, 2 * PAGE + 103 + (uint64_t)past, 0, false, 0};
            lzt_work w = {.name = "tail", .range = &r, .range_count = 1, .call = touch, .arg = &t};
            submit(dev, s, &w);
            _exit(lzt_dev_wait(dev, s, 1, NULL) ? 4 : 0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(WIFEXITED(status) && WEXITSTATUS(status) == 0, !past);
    }
}
#endif

/* ---- random programs against an oracle */

enum { WORKS_MAX = 40, RANGES_MAX = 3, STREAMS = 4, UNITS = 24 };

typedef struct program {
    int count, host_wait[WORKS_MAX]; /* host_wait[i]: before i is submitted the host waits for this work; -1: no */
    uint32_t stream[WORKS_MAX], range_count[WORKS_MAX];
    uint64_t sequence[WORKS_MAX];
    lzt_range range[WORKS_MAX][RANGES_MAX];
    bool edge[WORKS_MAX][WORKS_MAX];  /* stream order and host waits */
    bool wait[WORKS_MAX][WORKS_MAX];  /* [i][j]: j waits for i */
    bool reach[WORKS_MAX][WORKS_MAX]; /* of both */
} program;

static uint64_t random_state;
static uint32_t random_below(uint32_t n)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random_state >> 33) % n);
}

static bool conflicts(const program *p, int a, int b)
{
    for (uint32_t i = 0; i < p->range_count[a]; i++)
        for (uint32_t j = 0; j < p->range_count[b]; j++) {
            const lzt_range *x = &p->range[a][i], *y = &p->range[b][j];
            if (x->space != y->space || !((x->access | y->access) & LZT_ACCESS_WRITE)) continue;
            if (x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes) return true;
        }
    return false;
}

static void close_over(program *p)
{
    for (int i = 0; i < p->count; i++)
        for (int j = 0; j < p->count; j++) p->reach[i][j] = p->edge[i][j] || p->wait[i][j];
    for (int k = 0; k < p->count; k++)
        for (int i = 0; i < k; i++)
            if (p->reach[i][k])
                for (int j = k + 1; j < p->count; j++) p->reach[i][j] |= p->reach[k][j];
}

static void random_program(program *p)
{
    memset(p, 0, sizeof *p);
    p->count = 5 + (int)random_below(WORKS_MAX - 4);
    uint64_t next[STREAMS] = {0};
    for (int i = 0; i < p->count; i++) {
        p->stream[i] = random_below(STREAMS);
        p->sequence[i] = ++next[p->stream[i]];
        p->host_wait[i] = i && random_below(12) == 0 ? (int)random_below((uint32_t)i) : -1;
        p->range_count[i] = 1 + random_below(RANGES_MAX);
        for (uint32_t r = 0; r < p->range_count[i]; r++) {
            uint32_t begin = random_below(UNITS), bytes = 1 + random_below(UNITS - begin < 6 ? UNITS - begin : 6);
            p->range[i][r] = (lzt_range){begin, bytes, (uint8_t)random_below(2), (uint8_t)(1 + random_below(3))};
        }
        for (int j = 0; j < i; j++) p->edge[j][i] = p->stream[j] == p->stream[i];
        for (int k = 0; k <= i; k++) /* a host wait orders everything submitted later */
            if (p->host_wait[k] >= 0) p->edge[p->host_wait[k]][i] = true;
    }
}

/* The waits that the conflicts demand and nothing else implies. */
static void derive_waits(program *p)
{
    bool need[WORKS_MAX][WORKS_MAX] = {{false}};
    for (int j = 0; j < p->count; j++)
        for (int i = 0; i < j; i++) need[i][j] = conflicts(p, i, j) && !p->edge[i][j];
    memcpy(p->wait, need, sizeof need);
    close_over(p);
    for (int j = 0; j < p->count; j++)
        for (int i = 0; i < j; i++)
            for (int k = i + 1; need[i][j] && k < j; k++)
                if (p->reach[i][k] && p->reach[k][j]) p->wait[i][j] = false;
}

/* Runs p; marks the pairs found. Returns how many. */
static uint64_t run(const program *p, bool pair[WORKS_MAX][WORKS_MAX])
{
    static char names[WORKS_MAX][16];
    lzt_dev *dev = make(1, 0, false);
    lzt_wait wait[WORKS_MAX][WORKS_MAX];
    lzt_work w[WORKS_MAX];
    for (int s = 0; s < STREAMS; s++) stream(dev, LZT_LANE_DATA);
    for (int i = 0; i < p->count; i++) {
        int h = p->host_wait[i];
        if (h >= 0) assert_int_equal(lzt_dev_wait(dev, p->stream[h], p->sequence[h], NULL), LZT_OK);
        snprintf(names[i], sizeof names[i], "w%d", i);
        w[i] = (lzt_work){.name = names[i], .range = p->range[i], .range_count = p->range_count[i], .wait = wait[i]};
        for (int j = 0; j < i; j++)
            if (p->wait[j][i]) wait[i][w[i].wait_count++] = (lzt_wait){p->stream[j], p->sequence[j]};
        assert_int_equal(submit(dev, p->stream[i], &w[i]), p->sequence[i]);
    }
    memset(pair, 0, WORKS_MAX * sizeof pair[0]);
    uint64_t count = lzt_dev_finding_count(dev);
    for (uint64_t i = 0; i < count; i++) {
        lzt_finding f;
        assert_true(lzt_dev_finding(dev, i, &f));
        assert_int_equal(f.kind, LZT_FINDING_UNORDERED);
        pair[atoi(f.first + 1)][atoi(f.second + 1)] = true;
    }
    lzt_dev_destroy(dev);
    return count;
}

/* Everything found is a conflict that nothing orders. Returns how many such pairs the oracle knows. */
static int confirm(program *p, bool pair[WORKS_MAX][WORKS_MAX])
{
    int unordered = 0;
    close_over(p);
    for (int j = 0; j < p->count; j++)
        for (int i = 0; i < j; i++) {
            bool is_bad = conflicts(p, i, j) && !p->reach[i][j];
            unordered += is_bad;
            if (pair[i][j]) assert_true(is_bad);
        }
    return unordered;
}

static void random_programs_are_judged_like_the_oracle(void **state)
{
    (void)state;
    static program p;
    bool pair[WORKS_MAX][WORKS_MAX];
    int dropped = 0, with_findings = 0;
    random_state = 20240607;
    for (int n = 0; n < 1000; n++) {
        random_program(&p);
        derive_waits(&p);
        assert_int_equal(run(&p, pair), 0);
        int list[WORKS_MAX * WORKS_MAX][2], waits = 0;
        for (int j = 0; j < p.count; j++)
            for (int i = 0; i < j; i++)
                if (p.wait[i][j]) list[waits][0] = i, list[waits++][1] = j;
        if (waits) {
            int *d = list[random_below((uint32_t)waits)];
            p.wait[d[0]][d[1]] = false;
            assert_true(run(&p, pair) >= 1);
            assert_true(pair[d[0]][d[1]]);
            confirm(&p, pair);
            dropped++;
        }
        for (int j = 0; j < p.count; j++)
            for (int i = 0; i < j; i++) p.wait[i][j] = random_below(3) == 0;
        uint64_t found = run(&p, pair);
        assert_int_equal(found > 0, confirm(&p, pair) > 0);
        with_findings += found > 0;
    }
    assert_true(dropped > 900); /* the programs are not trivial */
    assert_true(with_findings > 100 && with_findings < 1000);
}

/* ---- size */

static void large_programs_stay_cheap(void **state)
{
    (void)state;
    enum { TASKS = 3000, STEPS = 5 };
    lzt_dev *dev = make(1, 0, false);
    uint32_t s[3] = {stream(dev, LZT_LANE_COMPUTE), stream(dev, LZT_LANE_H2D), stream(dev, LZT_LANE_D2H)};
    static lzt_range r[TASKS][8];
    static lzt_work w[TASKS];
    static char names[TASKS][32];
    static lzt_wait wait[TASKS];
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    uint64_t sequence = 0;
    for (int k = 0; k < STEPS; k++) {
        for (int i = 0; i < TASKS; i++) { /* a chain over three streams, eight ranges each */
            for (int j = 0; j < 8; j++) {
                uint64_t offset = (uint64_t)((i * 37 + j * 1001) % 4000) * 64;
                r[i][j] = (lzt_range){offset, 40 + (uint64_t)j, (uint8_t)(j % 2), (uint8_t)(1 + j % 3)};
            }
            snprintf(names[i], sizeof names[i], "task %d", i);
            w[i] = (lzt_work){.name = names[i], .range = r[i], .range_count = 8, .wait = &wait[i]};
            wait[i] = (lzt_wait){s[(i + TASKS - 1) % 3], sequence};
            w[i].wait_count = 1;
            sequence = submit(dev, s[i % 3], &w[i]);
        }
        assert_int_equal(lzt_dev_wait(dev, s[(TASKS - 1) % 3], sequence, NULL), LZT_OK);
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    if (getenv("LZT_TEST_VERBOSE"))
        print_message("%d tasks a step: %.1f ms a step\n", TASKS,
                      ((double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) * 1e-6) / STEPS);
    assert_int_equal(lzt_dev_finding_count(dev), 0);
    lzt_dev_destroy(dev);
}

static void options_are_checked(void **state)
{
    (void)state;
    lzt_dev_cpu_options cpu = LZT_DEV_CPU_OPTIONS_INIT;
    lzt_dev_checked_options o = LZT_DEV_CHECKED_OPTIONS_INIT;
    lzt_dev *inner, *dev;
    lzt_error err;
    o.struct_bytes = 1;
    assert_int_equal(lzt_dev_cpu_create(&cpu, &inner, NULL), LZT_OK);
    assert_int_equal(lzt_dev_checked_create(&o, inner, &dev, &err), LZT_ERR_USAGE); /* inner is freed: ASan knows */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unordered_pair_is_found_under_any_seed),
        cmocka_unit_test(waits_are_transitive_and_a_dropped_one_is_found),
        cmocka_unit_test(another_threads_wait_orders_nothing),
        cmocka_unit_test(undeclared_accesses_are_reported),
        cmocka_unit_test(the_host_must_not_touch_the_device),
        cmocka_unit_test(many_faults_are_one_finding),
        cmocka_unit_test(overlapping_declarations_open_their_union),
        cmocka_unit_test(copies_pass_the_fence),
        cmocka_unit_test(a_failed_work_releases_the_fence),
        cmocka_unit_test(foreign_faults_reach_the_handler_before_ours),
#ifdef TEST_ASAN
        cmocka_unit_test(tails_are_poisoned),
#endif
        cmocka_unit_test(random_programs_are_judged_like_the_oracle),
        cmocka_unit_test(large_programs_stay_cheap),
        cmocka_unit_test(options_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
