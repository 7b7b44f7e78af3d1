/* Goal: with a profile of its machine, a run's automatic plan is the real step's, and changes nothing but time;
 * proposed numerics are taken only when numerics.auto says so, and once in a run; what does not fit is named to the
 * byte; a profile that lacks what the run needs is left aside.
 *
 * Method: a small model through the program: probe, then train with memory.profile. One profile is edited so that the
 * default loss chunk is slow. */
#include "program_run.h"

static tiny model;

static void put_rows(int count, int length)
{
    FILE *file = fopen(in_folder("rows.jsonl"), "wb");
    assert_non_null(file);
    for (int i = 0; i < count; i++) {
        fputs("{\"input_ids\":[1", file);
        for (int k = 1; k < length; k++) fprintf(file, ",%d", (7 * i + 3 * k) % model.vocab);
        fputs("]}\n", file);
    }
    fclose(file);
}

static void set_up(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s/*", run_folder);
    assert_int_equal(shell(command), 0);
    model = (tiny){0};
    tiny_init(&model);
    tiny_put(&model, "model");
    put_rows(8, 40);
    put_text("c.yaml", "model_name_or_path: model\ndataset: rows.jsonl\nper_device_train_batch_size: 2\nmax_steps: 3\n"
                       "learning_rate: 1e-3\nlr_scheduler_type: constant\nsave_steps: 0\nseed: 1\nbf16: false\n");
    must_run("probe --model model --batch 2 --seq 40 --dtype f32 --seconds 0.01 --out profile.json");
}

static json_t *load(const char *name)
{
    json_t *json = json_load_file(in_folder(name), 0, NULL);
    if (!json) fail_msg("%s is not there, or no JSON", name);
    return json;
}

/* plan.json's solver, and its loss chunk. */
static void expect_plan(const char *name, const char *solver, int loss_chunk)
{
    json_t *plan = load(name), *found = json_object_get(plan, "solver");
    if (solver)
        assert_string_equal(json_string_value(found), solver);
    else
        assert_null(found);
    json_t *numerics = json_object_get(plan, "numerics");
    assert_int_equal(json_integer_value(json_object_get(numerics, "loss_chunk")), loss_chunk);
    json_decref(plan);
}

static void the_profile_makes_the_plan(void **state)
{
    (void)state;
    set_up();
    must_run("train c.yaml --output_dir plain");
    assert_null(strstr(run_err, "plan: found from"));
    must_run("train c.yaml --output_dir step --memory.profile profile.json");
    assert_non_null(strstr(run_err, "plan: found from profile.json: "));
    assert_non_null(strstr(run_err, "candidates simulated, no other could be faster"));
    expect_plan("plain/plan.json", NULL, 80);
    expect_plan("step/plan.json", "step", 80);
    must_run("check step/plan.json --model model");
    must_run("explain step/plan.json");
    assert_non_null(strstr(run_out, "predicted step"));
    assert_true(same_files("plain/final/model.safetensors", "step/final/model.safetensors"));
    tiny_free(&model);
}

static void a_cap_is_met_to_the_byte(void **state)
{
    (void)state;
    unsigned long long bytes = 0;
    set_up();
    int code = run("train c.yaml --quiet --output_dir a --memory.profile profile.json --memory.device_cap 1000");
    const char *text = strstr(run_err, "device_cap: needs at least ");
    assert_int_equal(code, 3);
    assert_non_null(text);
    assert_int_equal(sscanf(text, "device_cap: needs at least %llu bytes", &bytes), 1);
    assert_int_equal(
        run("train c.yaml --quiet --output_dir a --memory.profile profile.json --memory.device_cap %llu", bytes - 1),
        3);
    assert_int_equal(
        run("train c.yaml --quiet --output_dir a --memory.profile profile.json --memory.device_cap %llu", bytes), 0);
    json_t *plan = load("a/plan.json"), *planned = json_object_get(plan, "planned");
    assert_int_equal(json_integer_value(json_object_get(planned, "device_bytes")), bytes);
    json_decref(plan);
    tiny_free(&model);
}

/* Loss chunks of the default size, 80 tokens, take a hundred times as long as others of as many tokens. What was
 * measured does not matter: on a busy machine any of it may be long. */
static void slow_default_chunk(void)
{
    static const char *const keys[] = {"seconds", "min", "max"};
    json_t *profile = load("profile.json"), *entry;
    size_t i;
    int slow = 0;
    json_array_foreach(json_object_get(profile, "times"), i, entry)
    {
        if (strncmp(json_string_value(json_object_get(entry, "name")), "loss_chunk", 10)) continue;
        json_int_t tokens = json_integer_value(json_object_get(entry, "tokens"));
        double seconds = (double)tokens * (tokens == 80 ? 1 : 0.01);
        for (int k = 0; k < 3; k++) json_object_set_new(entry, keys[k], json_real(seconds));
        slow += tokens == 80;
    }
    assert_int_equal(slow, 1);
    assert_int_equal(json_dump_file(profile, in_folder("slow.json"), JSON_REAL_PRECISION(17)), 0);
    json_decref(profile);
}

static void numerics_are_taken_only_when_asked(void **state)
{
    (void)state;
    set_up();
    slow_default_chunk();
    must_run("train c.yaml --quiet --output_dir a --memory.profile slow.json");
    expect_plan("a/plan.json", "step", 80);
    must_run("train c.yaml --output_dir a2 --memory.profile slow.json --dry-run");
    assert_non_null(strstr(run_err, "proposed numerics: loss_chunk 32"));
    must_run("train c.yaml --quiet --output_dir b --memory.profile slow.json --numerics.auto true");
    assert_non_null(strstr(run_err, "numerics.auto: loss_chunk 32 instead of 80"));
    expect_plan("b/plan.json", "step", 32);
    must_run("train c.yaml --quiet --output_dir c --numerics.loss_chunk 32");
    assert_true(same_files("b/final/model.safetensors", "c/final/model.safetensors"));
    tiny_free(&model);
}

/* A run in steps of a directory of its own: what it saw is its profile later on, and it says so. numerics.auto decides
 * at the beginning: going on, under whichever profile, gives the bits of a run that never stopped. */
static void a_run_that_goes_on_keeps_its_numerics(void **state)
{
    (void)state;
    set_up();
    slow_default_chunk();
    must_run("train c.yaml --quiet --output_dir a --memory.profile slow.json --numerics.auto true --save_steps 1");
    expect_plan("a/plan.json", "step", 32);
    must_run("train c.yaml --output_dir a --memory.profile profile.json --numerics.auto true --max_steps 5");
    assert_non_null(strstr(run_err, "numerics.auto: loss_chunk 32, with which the run began (a/plan.json)"));
    expect_plan("a/plan.json", "step", 32);
    must_run("train c.yaml --quiet --output_dir b --numerics.loss_chunk 32 --max_steps 5");
    assert_true(same_files("a/final/model.safetensors", "b/final/model.safetensors"));
    must_run("train c.yaml --quiet --output_dir c --numerics.auto true --save_steps 1");
    expect_plan("c/plan.json", NULL, 80);
    must_run("train c.yaml --output_dir c --memory.profile slow.json --numerics.auto true --max_steps 5");
    assert_non_null(strstr(run_err, "plan: found from slow.json: "));
    expect_plan("c/plan.json", "step", 80);
    must_run(
        "train c.yaml --output_dir c --numerics.auto true --resume_from_checkpoint none --memory.profile slow.json");
    assert_null(strstr(run_err, "with which the run began"));
    expect_plan("c/plan.json", "step", 32);
    tiny_free(&model);
}

static void another_profile_is_left_aside(void **state)
{
    (void)state;
    set_up();
    must_run("train c.yaml --quiet --output_dir a --memory.profile profile.json --bf16 true");
    assert_non_null(strstr(run_err, "the plan is not found from the profile"));
    assert_non_null(strstr(run_err, "lazytrain probe"));
    expect_plan("a/plan.json", NULL, 80);
    tiny_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_profile_makes_the_plan),         cmocka_unit_test(a_cap_is_met_to_the_byte),
        cmocka_unit_test(numerics_are_taken_only_when_asked), cmocka_unit_test(a_run_that_goes_on_keeps_its_numerics),
        cmocka_unit_test(another_profile_is_left_aside),
    };
    return cmocka_run_group_tests(tests, run_set_up, run_tear_down);
}
