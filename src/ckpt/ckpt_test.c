/* Goal: there is always a newest complete version, it holds exactly what was saved, and nothing that is not whole is
 * ever loaded.
 *
 * Method: states whose values tell tensor, part, element and step are saved and loaded back; every file call of a save
 * fails in turn, and the process is killed at every call (the next save and find must then see a whole version and no
 * leftovers); every file of a version is damaged at many bytes.
 */
#include "base/os_faulty.h"
#include "ckpt/ckpt_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char base[64], root[96];

static const uint64_t shapes[4][2] = {{6, 4}, {64, 16}, {5}, {3, 3}};
static const lzt_ckpt_tensor tensors[4] = {{"model.a.weight", 2, shapes[0], 24, true},
                                           {"model.b.weight", 2, shapes[1], 1024, true}, /* whole pages */
                                           {"model.\"c\"", 1, shapes[2], 5, true},
                                           {"frozen", 2, shapes[3], 9, false}};

static float value_of(uint64_t step, uint32_t tensor, int part, uint64_t element)
{
    return (float)(step * 1000003 + tensor * 10007 + (uint64_t)part * 1009 + element);
}

static lzt_status source(void *arg, uint32_t tensor, int part, float *out, lzt_error *err)
{
    (void)err;
    assert_true(part == 0 || tensors[tensor].has_moments);
    for (uint64_t i = 0; i < tensors[tensor].element_count; i++) out[i] = value_of(*(uint64_t *)arg, tensor, part, i);
    return LZT_OK;
}

static lzt_status failing_source(void *arg, uint32_t tensor, int part, float *out, lzt_error *err)
{
    if (tensor == 2) return lzt_fail(err, LZT_ERR_INTERNAL, "source", "no");
    return source(arg, tensor, part, out, err);
}

static lzt_status save_with(const lzt_os *os, uint64_t step, uint64_t keep, lzt_error *err)
{
    lzt_ckpt_state state = LZT_CKPT_STATE_INIT;
    state.step = step;
    state.applied_steps = step - 1;
    state.nonfinite_steps = 1;
    state.rows_seen = 8 * step;
    state.epoch = (double)step / 3;
    state.seed = UINT64_MAX - 5;
    state.model_fingerprint = 0xfedcba9876543210;
    state.config_json = "{\"b\": 1.5, \"a\": [true, null]}";
    state.tensor = tensors;
    state.tensor_count = 4;
    state.source = source;
    state.arg = &step;
    lzt_ckpt_options options = LZT_CKPT_OPTIONS_INIT;
    options.save_total_limit = keep;
    options.shard_bytes = 5000; /* two files */
    return lzt__ckpt_save(os, root, &state, &options, err);
}

static void save_good(uint64_t step, uint64_t keep)
{
    lzt_error err = {0};
    if (save_with(lzt__os_posix(), step, keep, &err)) fail_msg("%s: %s", err.where, err.message);
}

typedef struct seen {
    uint64_t step;
    uint32_t calls;
} seen;

static lzt_status sink(void *arg, uint32_t tensor, int part, const float *in, lzt_error *err)
{
    (void)err;
    seen *s = arg;
    s->calls++;
    for (uint64_t i = 0; i < tensors[tensor].element_count; i++)
        assert_true(in[i] == value_of(s->step, tensor, part, i));
    return LZT_OK;
}

static void collect(void *arg, const char *line)
{
    strncat(arg, line, 1000);
    strncat(arg, "\n", 2);
}

/* The newest version, which must be of `step`, is loaded whole. 0: there must be none. */
static void expect_latest(uint64_t step, char *notes)
{
    lzt_ckpt *ckpt;
    lzt_error err = {0};
    if (lzt_ckpt_find_latest(root, notes ? collect : NULL, notes, &ckpt, &err))
        fail_msg("%s: %s", err.where, err.message);
    if (!step) {
        assert_null(ckpt);
        return;
    }
    assert_non_null(ckpt);
    const lzt_ckpt_info *info = lzt_ckpt_get_info(ckpt);
    assert_int_equal(info->step, step);
    assert_int_equal(info->applied_steps, step - 1);
    assert_int_equal(info->nonfinite_steps, 1);
    assert_int_equal(info->rows_seen, 8 * step);
    assert_true(info->epoch == (double)step / 3);
    assert_true(info->seed == UINT64_MAX - 5);
    assert_true(info->model_fingerprint == 0xfedcba9876543210);
    assert_string_equal(info->config_json, "{\"a\":[true,null],\"b\":1.5}");
    assert_int_equal(info->file_count, 3);
    seen s = {step, 0};
    if (lzt_ckpt_load(ckpt, tensors, 4, sink, &s, &err)) fail_msg("%s: %s", err.where, err.message);
    assert_int_equal(s.calls, 10);
    lzt_ckpt_close(ckpt);
}

static int list_entry(void *arg, const char *name)
{
    collect(arg, name);
    return 0;
}

static void expect_entries(const char *const *names, int count)
{
    char all[4096] = "";
    const lzt_os *os = lzt__os_posix();
    int fd = open(root, O_RDONLY | O_DIRECTORY), lines = 0;
    os->list(os, fd, list_entry, all);
    close(fd);
    for (const char *at = all; *at; at++) lines += *at == '\n';
    if (lines != count) fail_msg("not %d entries:\n%s", count, all);
    for (int i = 0; i < count; i++) assert_non_null(strstr(all, names[i]));
}

static int fresh_root(void **state)
{
    (void)state;
    static int number;
    snprintf(root, sizeof root, "%s/run-%d/checkpoints", base, number++);
    return 0;
}

static void save_and_load(void **state)
{
    (void)state;
    expect_latest(0, NULL);
    save_good(1, 0);
    expect_latest(1, NULL);
    save_good(2, 0);
    save_good(10, 0);
    expect_latest(10, NULL);
    save_good(10, 0); /* the same step again */
    expect_latest(10, NULL);
    expect_entries((const char *[]){"step-1", "step-2", "step-10"}, 3);
    lzt_ckpt *ckpt;
    float values[24];
    char path[128];
    snprintf(path, sizeof path, "%s/step-2", root);
    assert_int_equal(lzt_ckpt_open(path, &ckpt, NULL), LZT_OK);
    assert_int_equal(lzt_ckpt_read(ckpt, "model.a.weight", LZT_CKPT_EXP_AVG, values, 24, NULL), LZT_OK);
    assert_true(values[7] == value_of(2, 0, 1, 7));
    lzt_error err = {0};
    assert_int_equal(lzt_ckpt_read(ckpt, "model.a.weight", LZT_CKPT_MASTER, values, 23, &err), LZT_ERR_MODEL);
    assert_int_equal(lzt_ckpt_read(ckpt, "frozen", LZT_CKPT_EXP_AVG, values, 9, &err), LZT_ERR_MODEL);
    lzt_ckpt_close(ckpt);
}

static lzt_status no_sink(void *arg, uint32_t tensor, int part, const float *in, lzt_error *err)
{
    (void)arg, (void)tensor, (void)part, (void)in, (void)err;
    fail_msg("the sink was called");
    return LZT_OK;
}

static void another_model(void **state)
{
    (void)state;
    save_good(3, 0);
    lzt_ckpt *ckpt;
    lzt_error err = {0};
    assert_int_equal(lzt_ckpt_find_latest(root, NULL, NULL, &ckpt, NULL), LZT_OK);
    assert_int_equal(lzt_ckpt_load(ckpt, tensors, 3, no_sink, NULL, &err), LZT_ERR_MODEL); /* one fewer */
    lzt_ckpt_tensor other[5];
    memcpy(other, tensors, sizeof tensors);
    other[4] = (lzt_ckpt_tensor){"new", 1, shapes[2], 5, true};
    assert_int_equal(lzt_ckpt_load(ckpt, other, 5, no_sink, NULL, &err), LZT_ERR_MODEL); /* one more */
    assert_non_null(strstr(err.message, "master.new"));
    const uint64_t turned[2] = {4, 6};
    other[0].shape = turned;
    assert_int_equal(lzt_ckpt_load(ckpt, other, 4, no_sink, NULL, &err), LZT_ERR_MODEL);
    assert_non_null(strstr(err.message, "shape"));
    other[0] = tensors[0];
    other[3].has_moments = true;
    assert_int_equal(lzt_ckpt_load(ckpt, other, 4, no_sink, NULL, &err), LZT_ERR_MODEL);
    lzt_ckpt_close(ckpt);
}

static void rotation(void **state)
{
    (void)state;
    for (uint64_t step = 1; step <= 4; step++) save_good(step, 2);
    expect_entries((const char *[]){"step-3", "step-4"}, 2);
    save_good(5, 1);
    expect_entries((const char *[]){"step-5"}, 1);
    save_good(4, 1); /* an older step than what is there: the newest stays */
    expect_entries((const char *[]){"step-5"}, 1);
    /* What is not complete neither counts nor goes in a rotation. */
    char path[160];
    snprintf(path, sizeof path, "%s/step-9", root);
    assert_int_equal(lzt__os_make_dirs(lzt__os_posix(), path, NULL), LZT_OK);
    save_good(6, 1);
    expect_entries((const char *[]){"step-6", "step-9"}, 2);
    char notes[4096] = "";
    expect_latest(6, notes);
    assert_non_null(strstr(notes, "step-9 is skipped"));
    assert_non_null(strstr(notes, "no MANIFEST.json"));
    save_good(7, 0);
    assert_int_equal(lzt_ckpt_prune(root, 0, false, NULL, NULL, NULL), LZT_ERR_USAGE);
    assert_int_equal(lzt_ckpt_prune(root, 1, true, NULL, NULL, NULL), LZT_OK);
    expect_entries((const char *[]){"step-6", "step-7", "step-9"}, 3);
    assert_int_equal(lzt_ckpt_prune(root, 1, false, NULL, NULL, NULL), LZT_OK);
    expect_entries((const char *[]){"step-7"}, 1);
}

static void damage(const char *name, uint64_t offset, int bit, bool cut)
{
    char path[200];
    unsigned char byte;
    snprintf(path, sizeof path, "%s/step-2/%s", root, name);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    if (cut) {
        assert_int_equal(ftruncate(fd, (off_t)offset), 0);
    } else {
        assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
        byte ^= (unsigned char)(1 << bit);
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
    }
    close(fd);
}

static uint64_t size_of(const char *name)
{
    char path[200];
    struct stat info;
    snprintf(path, sizeof path, "%s/step-2/%s", root, name);
    assert_int_equal(stat(path, &info), 0);
    return (uint64_t)info.st_size;
}

static void damaged_versions(void **state)
{
    (void)state;
    static const char *const names[] = {"MANIFEST.json", "trainer.json", "state-00001.safetensors",
                                        "state-00002.safetensors"};
    save_good(1, 0);
    save_good(2, 0);
    for (int f = 0; f < 4; f++) {
        uint64_t bytes = size_of(names[f]);
        for (uint64_t k = 0; k < 24; k++) {
            uint64_t offset = k * (bytes - 1) / 23;
            damage(names[f], offset, (int)(k % 8), false);
            char notes[4096] = "";
            expect_latest(1, notes);
            assert_non_null(strstr(notes, "step-2 is skipped"));
            damage(names[f], offset, (int)(k % 8), false); /* undone */
        }
        expect_latest(2, NULL);
    }
    for (int f = 0; f < 4; f++) {
        damage(names[f], size_of(names[f]) - 1, 0, true);
        expect_latest(1, NULL);
        save_good(2, 0); /* replaces it */
        expect_latest(2, NULL);
    }
    char path[200];
    snprintf(path, sizeof path, "%s/step-2/state-00002.safetensors", root);
    unlink(path);
    snprintf(path, sizeof path, "%s/step-2", root);
    lzt_ckpt *ckpt;
    lzt_error err = {0};
    assert_int_equal(lzt_ckpt_open(path, &ckpt, &err), LZT_ERR_MODEL); /* asked for by name */
    assert_non_null(strstr(err.where, "state-00002"));
}

/* A version whose manifest is whole but of another step was renamed by somebody. */
static void renamed_version(void **state)
{
    (void)state;
    char from[160], to[160], notes[4096] = "";
    save_good(1, 0);
    save_good(2, 0);
    snprintf(from, sizeof from, "%s/step-2", root);
    snprintf(to, sizeof to, "%s/step-77", root);
    assert_int_equal(rename(from, to), 0);
    expect_latest(1, notes);
    assert_non_null(strstr(notes, "another step"));
}

static void changed_after_open(void **state)
{
    (void)state;
    save_good(2, 0);
    lzt_ckpt *ckpt;
    lzt_error err = {0};
    assert_int_equal(lzt_ckpt_find_latest(root, NULL, NULL, &ckpt, NULL), LZT_OK);
    damage("state-00001.safetensors", 100, 1, false); /* in the header, which nobody parses again */
    seen s = {2, 0};
    assert_int_equal(lzt_ckpt_load(ckpt, tensors, 4, sink, &s, &err), LZT_ERR_MODEL);
    assert_non_null(strstr(err.message, "hash"));
    lzt_ckpt_close(ckpt);
}

static void failing_callbacks(void **state)
{
    (void)state;
    save_good(1, 0);
    uint64_t step = 2;
    lzt_ckpt_state bad = LZT_CKPT_STATE_INIT;
    bad.step = 2;
    bad.tensor = tensors;
    bad.tensor_count = 4;
    bad.source = failing_source;
    bad.arg = &step;
    lzt_error err = {0};
    assert_int_equal(lzt_ckpt_save(root, &bad, NULL, &err), LZT_ERR_INTERNAL);
    assert_string_equal(err.where, "source");
    bad.config_json = "[1]";
    assert_int_equal(lzt_ckpt_save(root, &bad, NULL, &err), LZT_ERR_INTERNAL);
    expect_entries((const char *[]){"step-1"}, 1);
}

static void every_call_fails(void **state)
{
    (void)state;
    lzt_os_faulty faulty;
    save_good(1, 0);
    lzt__os_faulty_init(&faulty, lzt__os_posix());
    assert_int_equal(save_with(&faulty.os, 2, 1, NULL), LZT_OK);
    uint64_t calls = faulty.calls;
    assert_true(calls > 30);
    int failed = 0;
    for (uint64_t i = 1; i <= calls; i++) {
        fresh_root(NULL);
        save_good(1, 0);
        lzt__os_faulty_init(&faulty, lzt__os_posix());
        faulty.fail_at = i;
        faulty.fail_errno = i % 2 ? ENOSPC : EIO;
        lzt_error err = {0};
        lzt_status status = save_with(&faulty.os, 2, 1, &err);
        assert_int_equal(faulty.open_fds, 0);
        if (status) {
            failed++;
            assert_int_equal(status, LZT_ERR_STORAGE);
            assert_int_not_equal(err.message[0], 0);
            char path[160];
            snprintf(path, sizeof path, "%s/step-2", root);
            bool published = !access(path, F_OK); /* its name could not be made durable */
            if (published)
                expect_entries((const char *[]){"step-1", "step-2"}, 2);
            else
                expect_entries((const char *[]){"step-1"}, 1);
            expect_latest(published ? 2 : 1, NULL);
        } else {
            expect_latest(2, NULL);
        }
    }
    assert_true(failed > 20);
}

static void full_disk(void **state)
{
    (void)state;
    save_good(1, 0);
    for (uint64_t space = 1; space < 20000; space += 1777) {
        lzt_os_faulty faulty;
        lzt__os_faulty_init(&faulty, lzt__os_posix());
        faulty.space_bytes = space;
        lzt_error err = {0};
        assert_int_equal(save_with(&faulty.os, 2, 1, &err), LZT_ERR_STORAGE);
        assert_int_equal(err.os_code, ENOSPC);
        expect_entries((const char *[]){"step-1"}, 1);
        expect_latest(1, NULL);
    }
}

static void short_writes(void **state)
{
    (void)state;
    lzt_os_faulty faulty;
    lzt__os_faulty_init(&faulty, lzt__os_posix());
    faulty.short_bytes_max = 777;
    assert_int_equal(save_with(&faulty.os, 2, 1, NULL), LZT_OK);
    expect_latest(2, NULL);
}

static void killed_at_every_call(void **state)
{
    (void)state;
    lzt_os_faulty faulty;
    save_good(1, 0);
    lzt__os_faulty_init(&faulty, lzt__os_posix());
    assert_int_equal(save_with(&faulty.os, 2, 1, NULL), LZT_OK);
    uint64_t calls = faulty.calls;
    int newer = 0;
    for (uint64_t i = 1; i <= calls + 1; i++) {
        fresh_root(NULL);
        save_good(1, 0);
        pid_t pid = fork();
        if (!pid) {
            lzt__os_faulty_init(&faulty, lzt__os_posix());
            faulty.kill_at = i;
            save_with(&faulty.os, 2, 1, NULL);
            _exit(0);
        }
        waitpid(pid, NULL, 0);
        char path[160];
        snprintf(path, sizeof path, "%s/step-2", root);
        bool published = !access(path, F_OK);
        newer += published;
        expect_latest(published ? 2 : 1, NULL); /* and removes what the dead one left */
        char all[4096] = "";
        const lzt_os *os = lzt__os_posix();
        int fd = open(root, O_RDONLY | O_DIRECTORY);
        os->list(os, fd, list_entry, all);
        close(fd);
        if (strstr(all, "tmp")) fail_msg("call %d: left behind:\n%s", (int)i, all);
    }
    assert_true(newer > 1 && newer < (int)calls);
}

static void unreadable(void **state)
{
    (void)state;
    save_good(1, 0);
    lzt_os_faulty faulty;
    lzt__os_faulty_init(&faulty, lzt__os_posix());
    lzt_ckpt *ckpt;
    assert_int_equal(lzt__ckpt_find_latest(&faulty.os, root, NULL, NULL, &ckpt, NULL), LZT_OK);
    lzt_ckpt_close(ckpt);
    uint64_t calls = faulty.calls;
    for (uint64_t i = 1; i <= calls; i++) {
        lzt__os_faulty_init(&faulty, lzt__os_posix());
        faulty.fail_at = i;
        lzt_error err = {0};
        lzt_status status = lzt__ckpt_find_latest(&faulty.os, root, NULL, NULL, &ckpt, &err);
        /* never "there is none" because the disk did not answer */
        if (!status) assert_non_null(ckpt);
        lzt_ckpt_close(ckpt);
        assert_int_equal(faulty.open_fds, 0);
    }
}

static int make_base(void **state)
{
    (void)state;
    snprintf(base, sizeof base, "/tmp/lzt_ckpt_test.XXXXXX");
    return mkdtemp(base) ? 0 : -1;
}

static int remove_base(void **state)
{
    (void)state;
    return lzt__os_remove_tree(lzt__os_posix(), AT_FDCWD, base, NULL);
}

#define TEST(name) cmocka_unit_test_setup(name, fresh_root)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(save_and_load),     TEST(another_model),        TEST(rotation),
                                       TEST(damaged_versions),  TEST(renamed_version),      TEST(changed_after_open),
                                       TEST(failing_callbacks), TEST(every_call_fails),     TEST(full_disk),
                                       TEST(short_writes),      TEST(killed_at_every_call), TEST(unreadable)};
    return cmocka_run_group_tests(tests, make_base, remove_base);
}
