/* Goal: the metrics files hold what the step's struct said, survive a full disk and a resume, and read back. Method: a
 * fresh directory per test; lines parsed with jansson; the file calls made to fail. */
#include "base/os_faulty.h"
#include "report/event_file.h"
#include "report/metrics_file.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <cmocka.h>

static char dir[64];
static lzt_error err;

static int make_dir(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/lzt-metrics-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    return lzt__os_remove_tree(lzt__os_posix(), AT_FDCWD, dir, NULL) ? -1 : 0;
}

static lzt_metrics *open_metrics(const lzt_os *os, bool resume, uint64_t start_step)
{
    lzt_metrics_options options = LZT_METRICS_OPTIONS_INIT;
    options.output_dir = dir;
    options.resume = resume;
    options.start_step = start_step;
    options.total_steps = 10;
    options.logging_steps = 2;
    lzt_metrics *metrics = NULL;
    assert_int_equal(lzt__metrics_open(os, &options, &metrics, &err), LZT_OK);
    return metrics;
}

static lzt_step_metrics example(uint64_t step)
{
    lzt_step_metrics m = {.step = step, .epoch = 0.5, .loss = 2.25, .grad_norm = 0.1, .lr = 1e-4, .finite = true};
    m.step_seconds = 2;
    m.tokens_padded = 4096;
    m.tokens_real = 1000;
    m.tokens_loss = 300;
    m.peak_bytes[LZT_MEMORY_DEVICE] = 123;
    m.planned_bytes[LZT_MEMORY_DEVICE] = 124;
    m.rss_bytes = 5000;
    m.layer_forwards = 60;
    m.link_bytes[LZT_LINK_D2H] = 77;
    m.busy_seconds[LZT_CAUSE_COMPUTE] = 1.5;
    m.exposed_seconds[LZT_CAUSE_CPU_OPTIMIZER] = 0.5;
    return m;
}

/* Line number (0-based) of a file, parsed; the caller drops it. NULL: there is none. */
static json_t *read_line(const char *name, int number)
{
    char path[256], *line = NULL;
    size_t size = 0;
    json_t *object = NULL;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    for (ssize_t length; (length = getline(&line, &size, in)) > 0; number--)
        if (number == 0) {
            assert_int_equal(line[length - 1], '\n');
            object = json_loadb(line, (size_t)length, JSON_REJECT_DUPLICATES, NULL);
            assert_non_null(object);
            break;
        }
    free(line);
    fclose(in);
    return object;
}

static double number(const json_t *object, const char *group, const char *key)
{
    const json_t *value = json_object_get(group ? json_object_get(object, group) : object, key);
    if (!json_is_number(value)) fail_msg("%s.%s is not a number", group ? group : "", key);
    return json_number_value(value);
}

static void a_step_has_the_fixed_names(void **state)
{
    (void)state;
    lzt_metrics *metrics = open_metrics(lzt__os_posix(), false, 0);
    lzt_queue_metrics queue = {"optimizer", 1e9, 2e9, 1.5, 1.0 / 3, 7};
    lzt_step_metrics m = example(1);
    m.queue = &queue;
    m.queue_count = 1;
    assert_int_equal(lzt_metrics_step(metrics, &m, &err), LZT_OK);
    lzt_metrics_close(metrics);
    json_t *line = read_line("metrics.jsonl", 0);
    assert_true(number(line, NULL, "schema") == 1 && number(line, NULL, "step") == 1);
    assert_true(number(line, NULL, "loss") == 2.25 && number(line, NULL, "grad_norm") == 0.1);
    assert_true(number(line, NULL, "lr") == 1e-4 && number(line, NULL, "step_seconds") == 2);
    assert_true(number(line, NULL, "tokens_padded") == 4096 && number(line, NULL, "tokens_real") == 1000);
    assert_true(number(line, NULL, "tokens_loss") == 300 && number(line, NULL, "tokens_real_per_second") == 500);
    assert_true(number(line, NULL, "peak_device_bytes") == 123 && number(line, NULL, "planned_device_bytes") == 124);
    assert_true(number(line, NULL, "rss_bytes") == 5000 && number(line, NULL, "layer_forwards") == 60);
    assert_true(number(line, "bytes", "d2h") == 77 && number(line, "busy_seconds", "compute") == 1.5);
    assert_true(number(line, "exposed_seconds", "cpu_optimizer") == 0.5);
    assert_null(json_object_get(json_object_get(line, "exposed_seconds"), "compute"));
    assert_true(json_is_true(json_object_get(line, "finite")));
    const json_t *q = json_array_get(json_object_get(line, "queues"), 0);
    assert_string_equal(json_string_value(json_object_get(q, "name")), "optimizer");
    assert_true(number(q, NULL, "ratio") == 1.0 / 3 && number(q, NULL, "D") == 1e9 && number(q, NULL, "B") == 2e9);
    assert_true(number(q, NULL, "T") == 1.5 && number(q, NULL, "depth_max") == 7);
    json_decref(line);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* Every allocation of this program passes here; glibc's own functions do the work. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *malloc(size_t bytes);
void *calloc(size_t count, size_t bytes);
void *realloc(void *p, size_t bytes);

static uint64_t allocations;

void *malloc(size_t bytes)
{
    allocations++;
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    allocations++;
    return __libc_calloc(count, bytes);
}

void *realloc(void *p, size_t bytes)
{
    allocations++;
    return __libc_realloc(p, bytes);
}

static void a_step_allocates_nothing(void **state)
{
    (void)state;
    lzt_metrics *metrics = open_metrics(lzt__os_posix(), false, 0);
    lzt_progress progress = {.stream = fopen("/dev/null", "w"), .total_steps = 20, .logging_steps = 1};
    lzt_step_metrics m = example(1);
    lzt_progress_step(&progress, &m); /* the stream's own buffer */
    uint64_t before = allocations;
    assert_true(before > 0);
    for (m.step = 2; m.step <= 20; m.step++) {
        lzt_status status = lzt_metrics_step(metrics, &m, &err);
        lzt_progress_step(&progress, &m);
        if (status) fail();
    }
    assert_int_equal(allocations, before);
    fclose(progress.stream);
    lzt_metrics_close(metrics);
}
#else
static void a_step_allocates_nothing(void **state)
{
    (void)state;
    print_message("allocations are counted in builds without sanitizers\n");
    skip();
}
#endif

static void what_is_not_finite_is_null(void **state)
{
    (void)state;
    lzt_metrics *metrics = open_metrics(lzt__os_posix(), false, 0);
    lzt_step_metrics m = example(1);
    m.loss = NAN;
    m.grad_norm = INFINITY;
    assert_int_equal(lzt_metrics_step(metrics, &m, &err), LZT_OK);
    lzt_eval_metrics eval = {.step = 1, .eval_loss = NAN, .eval_tokens = 3};
    assert_int_equal(lzt_metrics_eval(metrics, &eval, &err), LZT_OK);
    lzt_metrics_close(metrics);
    json_t *line = read_line("metrics.jsonl", 0);
    assert_true(json_is_null(json_object_get(line, "loss")) && json_is_null(json_object_get(line, "grad_norm")));
    assert_true(json_is_false(json_object_get(line, "finite")));
    json_decref(line);
    line = read_line("metrics.jsonl", 1);
    assert_string_equal(json_string_value(json_object_get(line, "event")), "eval");
    assert_true(json_is_null(json_object_get(line, "eval_loss")));
    json_decref(line);
    lzt_run_history history;
    assert_int_equal(lzt_run_history_read(dir, &history, &err), LZT_OK);
    assert_true(isnan(history.step[0].loss) && !history.step[0].finite);
    lzt_run_history_fini(&history);
}

static void trainer_log_has_llama_factorys_names(void **state)
{
    (void)state;
    lzt_metrics *metrics = open_metrics(lzt__os_posix(), false, 0);
    for (uint64_t step = 1; step <= 4; step++) {
        lzt_step_metrics m = example(step);
        assert_int_equal(lzt_metrics_step(metrics, &m, &err), LZT_OK);
    }
    lzt_metrics_close(metrics);
    json_t *line = read_line("trainer_log.jsonl", 1); /* every second step */
    assert_true(number(line, NULL, "current_steps") == 4 && number(line, NULL, "total_steps") == 10);
    assert_true(number(line, NULL, "loss") == 2.25 && number(line, NULL, "lr") == 1e-4);
    assert_true(number(line, NULL, "percentage") == 40 && number(line, NULL, "epoch") == 0.5);
    assert_true(number(line, NULL, "total_tokens") == 4000);
    assert_string_equal(json_string_value(json_object_get(line, "elapsed_time")), "0:00:00");
    assert_non_null(json_object_get(line, "remaining_time"));
    json_decref(line);
    assert_null(read_line("trainer_log.jsonl", 2));
}

static void write_steps(lzt_metrics *metrics, uint64_t first, uint64_t last, double loss)
{
    for (uint64_t step = first; step <= last; step++) {
        lzt_step_metrics m = example(step);
        m.loss = loss;
        assert_int_equal(lzt_metrics_step(metrics, &m, &err), LZT_OK);
        lzt_eval_metrics eval = {.step = step, .eval_loss = loss};
        if (step % 3 == 0) assert_int_equal(lzt_metrics_eval(metrics, &eval, &err), LZT_OK);
    }
}

static void resuming_cuts_what_came_later(void **state)
{
    (void)state;
    lzt_metrics *metrics = open_metrics(lzt__os_posix(), false, 0);
    write_steps(metrics, 1, 7, 1.0);
    lzt_metrics_close(metrics);
    char path[256];
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    FILE *torn = fopen(path, "a");
    fputs("{\"schema\":1,\"step\":2,\"lo", torn); /* a kill in the middle of a line */
    fclose(torn);
    metrics = open_metrics(lzt__os_posix(), true, 4);
    assert_true(lzt_metrics_has_eval(metrics, 3));
    assert_false(lzt_metrics_has_eval(metrics, 6));
    write_steps(metrics, 5, 9, 2.0);
    assert_int_equal(lzt_metrics_sync(metrics, &err), LZT_OK);
    lzt_metrics_close(metrics);
    lzt_run_history history;
    assert_int_equal(lzt_run_history_read(dir, &history, &err), LZT_OK);
    assert_int_equal(history.step_count, 9);
    assert_int_equal(history.eval_count, 3);
    for (uint64_t i = 0; i < 9; i++) {
        assert_int_equal(history.step[i].step, i + 1);
        assert_true(history.step[i].loss == (i < 4 ? 1.0 : 2.0));
        assert_int_equal(history.step[i].link_bytes[LZT_LINK_D2H], 77);
    }
    lzt_run_history_fini(&history);
    metrics = open_metrics(lzt__os_posix(), false, 0); /* anew: nothing is kept */
    lzt_metrics_close(metrics);
    assert_null(read_line("metrics.jsonl", 0));
    assert_null(read_line("trainer_log.jsonl", 0));
}

static void a_full_disk_costs_no_other_line(void **state)
{
    (void)state;
    lzt_os_faulty faulty;
    lzt__os_faulty_init(&faulty, lzt__os_posix());
    lzt_metrics *metrics = open_metrics(&faulty.os, false, 0);
    write_steps(metrics, 1, 1, 1.0);
    faulty.space_bytes = faulty.written_bytes + 100; /* the next line is cut short */
    lzt_step_metrics m = example(2);
    assert_int_equal(lzt_metrics_step(metrics, &m, &err), LZT_ERR_STORAGE);
    assert_non_null(strstr(err.where, "metrics.jsonl"));
    faulty.space_bytes = 0;
    write_steps(metrics, 2, 2, 1.0);
    lzt_metrics_close(metrics);
    assert_int_equal(faulty.open_fds, 0);
    lzt_run_history history;
    assert_int_equal(lzt_run_history_read(dir, &history, &err), LZT_OK);
    assert_int_equal(history.step_count, 2);
    assert_int_equal(history.step[1].step, 2);
    lzt_run_history_fini(&history);
}

static void every_failing_call_of_open_is_reported(void **state)
{
    (void)state;
    lzt_os_faulty faulty;
    lzt__os_faulty_init(&faulty, lzt__os_posix());
    lzt_metrics_close(open_metrics(&faulty.os, false, 0));
    uint64_t calls = faulty.calls;
    assert_true(calls > 5);
    for (uint64_t at = 1; at <= calls; at++) {
        lzt_metrics_options options = LZT_METRICS_OPTIONS_INIT;
        lzt_metrics *metrics = NULL;
        options.output_dir = dir;
        lzt__os_faulty_init(&faulty, lzt__os_posix());
        faulty.fail_at = at;
        faulty.fail_errno = ENOSPC;
        assert_int_equal(lzt__metrics_open(&faulty.os, &options, &metrics, &err), LZT_ERR_STORAGE);
        assert_int_equal(faulty.open_fds, 0);
    }
}

static void history_names_the_bad_line(void **state)
{
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    static const char *const bad[] = {"{\"schema\":1,\"step\":1}\nnot json\n",
                                      "{\"schema\":1,\"step\":1}\n{\"step\":2}\n",
                                      "{\"schema\":1,\"step\":1}\n{\"schema\":1}\n", "{\"schema\":1,\"step\":1}\n[]\n"};
    for (size_t i = 0; i < 4; i++) {
        FILE *out = fopen(path, "w");
        fputs(bad[i], out);
        fclose(out);
        lzt_run_history history;
        assert_int_equal(lzt_run_history_read(dir, &history, &err), LZT_ERR_USAGE);
        assert_non_null(strstr(err.where, "metrics.jsonl:2"));
    }
    lzt_run_history history;
    assert_int_equal(lzt_run_history_read("/nonexistent", &history, &err), LZT_ERR_USAGE);
}

/* Walks TFRecords: every length and payload checksum must hold. Returns how many, and the bytes read as text. */
static int count_records(const char *path, char *text, size_t size)
{
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    uint64_t length;
    int count = 0;
    size_t used = 0;
    while (fread(&length, 1, 8, in) == 8) {
        uint8_t payload[4096];
        uint32_t crc;
        assert_int_equal(fread(&crc, 1, 4, in), 4);
        assert_int_equal(crc, lzt__crc32c_masked(&length, 8));
        assert_true(length <= sizeof payload);
        assert_int_equal(fread(payload, 1, length, in), length);
        assert_int_equal(fread(&crc, 1, 4, in), 4);
        assert_int_equal(crc, lzt__crc32c_masked(payload, length));
        for (size_t i = 0; i < length && used + 1 < size; i++) text[used++] = payload[i] ? (char)payload[i] : '.';
        count++;
    }
    text[used] = 0;
    fclose(in);
    return count;
}

static int find_event_files(char path[512])
{
    int count = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *entry; (entry = readdir(d));)
        if (strstr(entry->d_name, "tfevents")) {
            snprintf(path, 512, "%s/%.300s", dir, entry->d_name);
            count++;
        }
    closedir(d);
    return count;
}

static void tensorboard_records_are_whole(void **state)
{
    (void)state;
    char path[512], text[8192];
    lzt_metrics *metrics = open_metrics(lzt__os_posix(), false, 0);
    write_steps(metrics, 1, 3, 1.0);
    lzt_metrics_close(metrics);
    assert_int_equal(find_event_files(path), 1);
    assert_int_equal(count_records(path, text, sizeof text), 1 + 3 + 1);
    assert_non_null(strstr(text, "brain.Event:2"));
    assert_non_null(strstr(text, "train/loss"));
    assert_non_null(strstr(text, "train/grad_norm"));
    assert_non_null(strstr(text, "train/learning_rate"));
    assert_non_null(strstr(text, "eval/loss"));
    lzt_metrics_close(open_metrics(lzt__os_posix(), false, 0));
    assert_int_equal(find_event_files(path), 1); /* the curves of the run before are gone */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_step_has_the_fixed_names),
        TEST(a_step_allocates_nothing),
        TEST(what_is_not_finite_is_null),
        TEST(trainer_log_has_llama_factorys_names),
        TEST(resuming_cuts_what_came_later),
        TEST(a_full_disk_costs_no_other_line),
        TEST(every_failing_call_of_open_is_reported),
        TEST(history_names_the_bad_line),
        TEST(tensorboard_records_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
