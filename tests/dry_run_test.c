/* Goal: the source's 27B case passes a dry run from its config.json alone, for each of its schedules; caps that are
 * stated are believed, to the byte; what a run cannot do yet is still refused by a run. Method: the built program on
 * examples/qwen3.6-27b-metamathqa, without weights, rows or a GPU; figures are compared with those of the planner's
 * spec (30 slots of 0.703125 GiB under 70 GiB, and so on). */
#include "program_run.h"

#define SLOT   UINT64_C(754974720)   /* 72 x 1024 x 5120 x 2 */
#define DEVICE UINT64_C(74668677530) /* 70 GiB less what the 30 slots leave of the budget */

/* Runs words (shell syntax) in the example's folder; the JSON of standard output, NULL when there is none. */
static json_t *example(const char *words, int *code)
{
    char command[8192];
    snprintf(command, sizeof command,
             "cd examples/qwen3.6-27b-metamathqa && export LAZYTRAIN='%s' RUN_STAMP=test T=%s && (%s) >$T/stdout "
             "2>$T/stderr "
             "</dev/null",
             run_program_path, run_folder, words);
    *code = shell(command);
    read_stream("stdout", run_out);
    read_stream("stderr", run_err);
    return json_loads(run_out, JSON_REJECT_DUPLICATES, NULL);
}

static uint64_t bytes_of(const json_t *out, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(out, key));
}

static void each_schedule_fits(void **state)
{
    (void)state;
    static const struct {
        int cpu, nvme_slots, cpu_slots;
        double objective_s;
    } cases[] = {{8, 11, 11, 0.18201152}, {14, 3, 19, 0.18200352}, {15, 1, 21, 0.18200152}};
    uint64_t without_cpu = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int code;
        char words[128];
        snprintf(words, sizeof words, "CPU=%d bash run.sh --dry-run --json", cases[i].cpu);
        json_t *out = example(words, &code);
        assert_int_equal(code, 0);
        assert_true(json_is_true(json_object_get(out, "fits")));
        assert_int_equal(bytes_of(out, "planned_device_bytes"), DEVICE);
        assert_int_equal(bytes_of(out, "planned_nvme_bytes"), (uint64_t)cases[i].nvme_slots * SLOT);
        uint64_t host = bytes_of(out, "planned_host_bytes") - (uint64_t)cases[i].cpu_slots * SLOT;
        if (i) assert_int_equal(host, without_cpu); /* the same state, whatever the schedule */
        without_cpu = host;
        double step = json_number_value(json_object_get(out, "predicted_step_seconds"));
        assert_float_equal(step, 4 * 0.992 + cases[i].objective_s, 1e-9);
        assert_float_equal(json_number_value(json_object_get(out, "ssd_bytes_a_day")),
                           (double)((uint64_t)cases[i].nvme_slots * SLOT) * 86400 / step, 1.0);
        assert_int_equal(bytes_of(out, "steps"), 3841);
        assert_non_null(strstr(run_err, "planned from config.json alone"));
        json_decref(out);
    }
}

/* N bytes run and N - 1 do not. */
static void stated_caps_hold_to_the_byte(void **state)
{
    (void)state;
    int code;
    char words[256];
    json_t *out = example("bash run.sh --dry-run --json", &code);
    const struct {
        const char *cap, *key;
    } caps[] = {
        {"device_cap", "planned_device_bytes"}, {"host_cap", "planned_host_bytes"}, {"nvme_cap", "planned_nvme_bytes"}};
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++)
        for (uint64_t less = 0; less < 2; less++) {
            uint64_t bytes = bytes_of(out, caps[i].key);
            char needs[128];
            snprintf(words, sizeof words, "bash run.sh --dry-run --json --memory.%s %llu", caps[i].cap,
                     (unsigned long long)(bytes - less));
            json_t *again = example(words, &code);
            assert_int_equal(code, less ? 3 : 0);
            assert_int_equal(json_is_true(json_object_get(again, "fits")), !less);
            snprintf(needs, sizeof needs, "%s: needs at least %llu bytes", caps[i].cap, (unsigned long long)bytes);
            assert_int_equal(strstr(run_err, needs) != NULL, less);
            json_decref(again);
        }
    json_decref(out);
}

/* A profile that lacks what the step needs is named, and the plan's own model answers. */
static void a_profile_without_its_entries(void **state)
{
    (void)state;
    int code;
    put_text("empty.json", "{\"format\": \"lazytrain-profile\", \"version\": 1, \"machine\": \"m\", \"device\": \"d\", "
                           "\"capacity\": {\"device_bytes\": 0, \"host_bytes\": 0, \"nvme_bytes\": 0}, \"rates\": [], "
                           "\"times\": []}");
    json_t *out = example("CPU=14 bash run.sh --dry-run --json --memory.profile $T/empty.json", &code);
    assert_int_equal(code, 0);
    assert_float_equal(json_number_value(json_object_get(out, "predicted_step_seconds")), 4 * 0.992 + 0.18200352, 1e-9);
    assert_non_null(strstr(run_err, "note: the profile does not price this step"));
    assert_non_null(strstr(json_string_value(json_object_get(out, "predicted_from")), "own model"));
    json_decref(out);
}

static void a_run_is_still_refused(void **state)
{
    (void)state;
    int code;
    json_decref(example("bash run.sh --json", &code));
    assert_int_equal(code, 2);
    assert_non_null(strstr(run_err, "is not implemented yet"));
}

/* The source's rule: a schedule with NVMe checkpoints needs a place for them, before anything is loaded. */
static void spill_needs_a_directory(void **state)
{
    (void)state;
    int code;
    json_decref(example("\"$LAZYTRAIN\" train qwen3_6_27b_metamathqa_b72_lazy_peak70_nvme.yaml --dry-run "
                        "--memory.lazy_nvme_offload_dir null --model_name_or_path not-there",
                        &code));
    assert_int_equal(code, 2);
    assert_non_null(strstr(run_err, "1 checkpoints lie on nvme, and memory.lazy_nvme_offload_dir is missing"));
}

static void a_broken_schedule_is_refused(void **state)
{
    (void)state;
    int code;
    json_decref(example("sed 's/\"index\": 1, \"tier\": \"nvme\"/\"index\": 1, \"tier\": \"gpu\"/' "
                        "schedules/*cpu15_pcie*.json >$T/broken.json; "
                        "SCHEDULE=$T/broken.json bash run.sh --dry-run",
                        &code));
    assert_int_equal(code, 2);
    assert_non_null(strstr(run_err, "the plan breaks a constraint"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_schedule_fits),
        cmocka_unit_test(stated_caps_hold_to_the_byte),
        cmocka_unit_test(a_profile_without_its_entries),
        cmocka_unit_test(a_run_is_still_refused),
        cmocka_unit_test(spill_needs_a_directory),
        cmocka_unit_test(a_broken_schedule_is_refused),
    };
    return cmocka_run_group_tests(tests, run_set_up, run_tear_down);
}
