/* Goal: a probe of a small model holds, finite and in order, every entry that pricing its step asks for; a simulation
 * from it has the structure of the run: its tasks on its lanes, its bytes, its peaks, and parts that add up.
 */
#include "lazytrain/profile.h"

#include "program_run.h"

#include <math.h>
#include <signal.h>
#include <sys/prctl.h>

static tiny model;

static int set_up(void **state)
{
    if (run_set_up(state)) return -1;
    tiny_init(&model);
    tiny_put(&model, "model");
    char rows[4096] = "";
    for (int r = 0; r < 12; r++) {
        strcat(rows, "{\"input_ids\": [");
        for (int i = 0; i < 16; i++) sprintf(rows + strlen(rows), "%s%d", i ? "," : "", 1 + (r * 7 + i) % 30);
        strcat(rows, "]}\n");
    }
    put_text("rows.jsonl", "%s", rows);
    must_run("probe --model model --batch 2 --seq 16 --dtype f32 --seconds 0.02 --link-gbps 2 --compute-slowdown 2 "
             "--out profile.json");
    return 0;
}

static int tear_down(void **state)
{
    tiny_free(&model);
    return run_tear_down(state);
}

static bool is_finite(const lzt_measurement *m)
{
    return isfinite(m->median) && m->min > 0 && m->min <= m->median && m->median <= m->max && m->count >= 1;
}

static void test_values(void **unused)
{
    (void)unused;
    static const char *const rates[] = {"h2d",           "d2h",      "h2d_both", "d2h_both",       "host_memory",
                                        "adamw.f32.f32", "norm.f32", "gather",   "scatter.f32.f32"};
    static const char *const times[] = {"handover", "overlap.compute", "overlap.h2d", "overlap.d2h"};
    lzt_profile p;
    lzt_error err = {0};
    if (lzt_profile_read(in_folder("profile.json"), &p, &err)) fail_msg("%s: %s", err.where, err.message);
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        const lzt_measurement *m = lzt_profile_find(&p, LZT_MEASURE_RATE, rates[i], 1 << 20);
        if (!m || !is_finite(m)) fail_msg("rate %s", rates[i]);
    }
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        const lzt_measurement *m = lzt_profile_find(&p, LZT_MEASURE_TIME, times[i], 0);
        if (!m || !is_finite(m)) fail_msg("time %s", times[i]);
    }
    /* A pair has a value where one lane's work ran wholly within the other's: on a busy machine, not always. */
    for (uint64_t i = 0; i < p.measurement_count; i++)
        if (!is_finite(&p.measurement[i])) fail_msg("%s", p.measurement[i].name);
    /* The throttle is part of what was measured. */
    double rate = lzt_profile_find(&p, LZT_MEASURE_RATE, "h2d", 16 << 20)->median;
    if (rate > 2.2e9) fail_msg("a link of 2 GB/s carries %g", rate);
    assert_non_null(strstr(p.device, "link 2 GB/s, compute x2"));
    lzt_profile_fini(&p);
}

static json_t *json_out(void)
{
    json_t *json = json_loads(run_out, 0, NULL);
    if (!json) fail_msg("not JSON: %s", run_out);
    return json;
}

static double number(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

/* Every plan can be priced, and is what a run of it is, but for the times. */
static void check_plan(const char *memory, int accumulation)
{
    put_text(
        "c.yaml",
        "model_name_or_path: model\ndataset: rows.jsonl\noutput_dir: out\nper_device_train_batch_size: 2\n"
        "gradient_accumulation_steps: %d\nmax_steps: 2\ndisable_shuffling: true\nsave_final: false\nsave_steps: 0\n"
        "memory:\n    plan: %s\n",
        accumulation, memory);
    must_run("train c.yaml --quiet");
    char command[256];
    snprintf(command, sizeof command,
             "sim --plan out/plan.json --model model --profile %s --accumulation %d --json "
             "--trace sim.json",
             accumulation > 1 ? "profile2.json" : "profile.json", accumulation);
    must_run(command);
    json_t *sim = json_out(), *step = metrics_step("out", 1);
    assert_true(number(sim, "layer_forwards") == number(step, "layer_forwards"));
    json_t *moved = json_object_get(sim, "bytes"), *ran = json_object_get(step, "bytes");
    assert_true(number(moved, "h2d") == number(ran, "h2d") && number(moved, "d2h") == number(ran, "d2h"));
    assert_true(number(sim, "planned_device_bytes") == number(step, "peak_device_bytes"));
    double whole = number(sim, "predicted_step_seconds");
    double parts = number(json_object_get(sim, "busy_seconds"), "compute");
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(sim, "exposed_seconds"), name, value) parts += json_number_value(value);
    if (!(whole > 0) || fabs(parts - whole) > 1e-6) fail_msg("parts of %g add up to %g", whole, parts);
    json_decref(sim);
    json_decref(step);
}

static void test_sim(void **unused)
{
    (void)unused;
    check_plan("auto", 1);
    check_plan("baseline", 1);
    must_run("probe --model model --batch 2 --seq 16 --dtype f32 --accumulation 3 --seconds 0.02 --out profile2.json");
    check_plan("baseline", 3);
}

/* The trace of the simulation has the tracks of the run's. */
static void test_trace(void **unused)
{
    (void)unused;
    must_run("train c.yaml --quiet --trace --gradient_accumulation_steps 1 --output_dir traced");
    must_run("sim --plan traced/plan.json --model model --profile profile.json --trace sim.json");
    size_t bytes;
    char *ours = get_bytes("sim.json", &bytes), *theirs = get_bytes("traced/trace-step-2.json", &bytes);
    assert_non_null(ours);
    assert_non_null(theirs);
    static const char *const tracks[] = {"\"compute\"", "\"h2d\"",      "\"d2h\"",           "\"cpu_optimizer\"",
                                         "\"planned\"", "\"adamw.U1\"", "\"up.weights.U1\"", "\"loss.0\""};
    for (size_t i = 0; i < sizeof tracks / sizeof *tracks; i++) {
        if (!strstr(ours, tracks[i])) fail_msg("no %s in the simulation's trace", tracks[i]);
        if (!strstr(theirs, tracks[i])) fail_msg("no %s in the run's trace", tracks[i]);
    }
    free(ours);
    free(theirs);
}

/* A run's own times are a profile for the same plan: its step is predicted, and metrics say so from then on. */
static void test_from_run(void **unused)
{
    (void)unused;
    put_text("c.yaml",
             "model_name_or_path: model\ndataset: rows.jsonl\noutput_dir: seen\nper_device_train_batch_size: 2\n"
             "max_steps: 6\ndisable_shuffling: true\nsave_final: false\nsave_steps: 0\n");
    must_run("train c.yaml --quiet");
    must_run("probe --from-run seen --out own.json --json");
    json_t *json = json_out();
    assert_true(json_array_size(json_object_get(json, "times")) > 10);
    json_decref(json);
    must_run("sim --plan seen/plan.json --model model --profile own.json --json");
    json_t *sim = json_out(), *first = metrics_step("seen", 5);
    assert_true(number(sim, "predicted_step_seconds") > 0);
    assert_true(number(first, "predicted_step_seconds") == 0); /* there was no profile */
    must_run("train c.yaml --quiet --memory.profile own.json --output_dir again");
    json_t *again = metrics_step("again", 1);
    assert_true(number(again, "predicted_step_seconds") > 0);
    /* What is resident in the end is also the system's affair (stacks, huge pages): accept plan-predict compares it. */
    assert_true(number(again, "predicted_rss_bytes") >
                number(again, "peak_device_bytes") + number(again, "peak_host_bytes"));
    assert_true(number(again, "rss_bytes") > 0);
    json_decref(again);
    json_decref(first);
    json_decref(sim);
    /* the run's directory has a profile now: the same command is predicted by it */
    must_run("train c.yaml --quiet");
    first = metrics_step("seen", 0);
    assert_true(number(first, "predicted_step_seconds") > 0);
    json_decref(first);
    /* one step sees no update, which the next run's steps ask for: no profile, rather than half a one */
    must_run("train c.yaml --quiet --output_dir short --max_steps 1 --save_steps 1");
    assert_true(exists("short/observed.json") && !exists("short/profile.json"));
    must_run("train c.yaml --quiet --output_dir short");
    assert_null(strstr(run_err, "note:"));
    assert_true(exists("short/profile.json"));
    /* into a profile that was measured: what the run saw replaces it, and overlaps go */
    must_run("probe --model model --batch 2 --seq 16 --dtype f32 --seconds 0.02 --out measured.json");
    must_run("probe --from-run seen --out measured.json --json");
    json = json_out();
    char *text = json_dumps(json, 0);
    assert_null(strstr(text, "overlap."));
    assert_non_null(strstr(text, "h2d_both"));
    free(text);
    json_decref(json);
    /* not into another machine's, or another device's */
    for (int k = 0; k < 2; k++) {
        lzt_profile other;
        size_t before_bytes, after_bytes;
        assert_int_equal(lzt_profile_read(in_folder("measured.json"), &other, NULL), 0);
        snprintf(k ? other.device : other.machine, 8, "another");
        assert_int_equal(lzt_profile_write(in_folder("other.json"), &other, NULL), 0);
        char *before = get_bytes("other.json", &before_bytes);
        assert_int_equal(run("probe --from-run seen --out other.json"), 2);
        assert_non_null(strstr(run_err, "other.json: was measured on \"another\", the run computed on"));
        char *after = get_bytes("other.json", &after_bytes);
        assert_int_equal(before_bytes, after_bytes);
        assert_memory_equal(before, after, before_bytes);
        free(before);
        free(after);
        lzt_profile_fini(&other);
    }
}

static void test_dry_run(void **unused)
{
    (void)unused;
    must_run("train c.yaml --dry-run --json --output_dir nowhere");
    json_t *json = json_out();
    assert_non_null(strstr(json_string_value(json_object_get(json, "predicted_from")), "measured now"));
    assert_true(number(json, "predicted_step_seconds") > 0 && number(json, "predicted_rss_bytes") > 0);
    json_decref(json);
    /* What would take minutes to measure is not predicted, and the dry run says what would help. */
    must_run("train c.yaml --dry-run --json --memory.compute_slowdown 1000000 --output_dir nowhere");
    json = json_out();
    assert_true(json_is_null(json_object_get(json, "predicted_step_seconds")));
    assert_non_null(strstr(json_string_value(json_object_get(json, "predicted_from")), "memory.profile"));
    json_decref(json);
    must_run("train c.yaml --dry-run --json --memory.profile own.json --output_dir nowhere");
    json = json_out();
    assert_non_null(strstr(json_string_value(json_object_get(json, "predicted_from")), "on the profile"));
    assert_true(number(json, "predicted_step_seconds") > 0);
    json_decref(json);
}

static void test_drive(void **unused)
{
    (void)unused;
    lzt_profile p;
    lzt_error err = {0};
    static const char *const rates[] = {"nvme_read",      "nvme_write",      "nvme_read.depth1", "nvme_write.depth16",
                                        "nvme_read_both", "nvme_write_both", "nvme_read.warm"};
    must_run("probe --drive . --drive-bytes 32MiB --seconds 0.02 --out drive.json");
    if (lzt_profile_read(in_folder("drive.json"), &p, &err)) fail_msg("%s: %s", err.where, err.message);
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        const lzt_measurement *m = lzt_profile_find(&p, LZT_MEASURE_RATE, rates[i], 1 << 20);
        if (!m || !is_finite(m)) fail_msg("rate %s", rates[i]);
    }
    double best = lzt_profile_find(&p, LZT_MEASURE_RATE, "nvme_read", 1 << 20)->median;
    assert_true(best >= lzt_profile_find(&p, LZT_MEASURE_RATE, "nvme_read.depth1", 1 << 20)->median);
    assert_true(strstr(p.drive, "uring, ") || strstr(p.drive, "threads, "));
    assert_true(p.nvme_bytes > 0);
    lzt_profile_fini(&p);
    char listing[512];
    snprintf(listing, sizeof listing, "ls -a %s | grep -q lazytrain-probe", run_folder);
    assert_int_not_equal(shell(listing), 0); /* the file is gone */
    assert_int_equal(run("probe --drive nowhere"), 6);
    assert_int_equal(run("probe --drive . --drive-bytes 900000GiB"), 6);
    assert_non_null(strstr(run_err, "bytes free"));
    if (!access("/dev/shm", W_OK)) {
        must_run("probe --drive /dev/shm --drive-bytes 16MiB --seconds 0.02 --out shm.json");
        assert_non_null(strstr(run_err, "tmpfs"));
    }
}

/* A probe of a drive that is stopped and continued many times, as a shell does once, goes on. */
static void test_drive_stopped(void **unused)
{
    (void)unused;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (chdir(run_folder) || !freopen("stderr", "w", stderr)) _exit(126);
        execl(run_program_path, "lazytrain", "probe", "--drive", ".", "--drive-bytes", "16MiB", "--seconds", "0.3",
              "--out", "stopped.json", (char *)NULL);
        _exit(127);
    }
    int status;
    pid_t ended = 0;
    for (int i = 0; i < 200 && !ended; i++) { /* no more: a busy machine may not let it run in between */
        kill(child, SIGSTOP);
        usleep(500);
        kill(child, SIGCONT);
        usleep(2000);
        ended = waitpid(child, &status, WNOHANG);
    }
    if (!ended) assert_int_equal(waitpid(child, &status, 0), child);
    read_stream("stderr", run_err);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("status %x: %s", (unsigned)status, run_err);
    assert_true(exists("stopped.json"));
}

static void test_refused(void **unused)
{
    (void)unused;
    assert_int_equal(run("probe --model model --batch 0"), 2);
    assert_int_equal(run("sim --plan nowhere.json --model model --profile profile.json"), 2);
    must_run("probe --model model --batch 2 --seq 16 --dtype bf16 --seconds 0.02 --out other.json");
    assert_int_equal(run("sim --plan traced/plan.json --model model --profile other.json"), 2);
    assert_non_null(strstr(run_err, "has no "));
    assert_non_null(strstr(run_err, "lazytrain probe --model "));
    assert_non_null(strstr(run_err, "--dtype f32"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values),   cmocka_unit_test(test_sim),
                                       cmocka_unit_test(test_trace),    cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_from_run), cmocka_unit_test(test_dry_run),
                                       cmocka_unit_test(test_drive),    cmocka_unit_test(test_drive_stopped)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
