/* Goal: explain --objects tells the truth about a run: the bytes of its objects are the bytes that the run counts on
 * each link, their highest end is the peak that the device measures, and every object's memory is its own from its
 * first to its last task. Method: a small model is trained under an automatic, a baseline and a streamed plan, with one
 * and with three micro-batches a step; the objects of the run's own plan.json, use by use, are summed here and compared
 * with the run's metrics. */
#include "program_run.h"

#define ROWS 24

static void put_inputs(void)
{
    char rows[8192] = "";
    tiny t = {0};
    tiny_init(&t);
    tiny_put(&t, "m");
    tiny_free(&t);
    for (int i = 0; i < ROWS; i++) {
        size_t used = strlen(rows);
        used += (size_t)snprintf(rows + used, sizeof rows - used, "{\"input_ids\": [5");
        for (int k = 0; k < 4 + i % 5; k++)
            used += (size_t)snprintf(rows + used, sizeof rows - used, ", %d", 7 + (i * 13 + k * 5) % 200);
        snprintf(rows + used, sizeof rows - used, "]}\n");
    }
    put_text("rows.jsonl", "%s", rows);
}

/* Every boundary and all internals on the host, nothing kept, prefetched: all that can move moves. */
static void put_streamed_plan(void)
{
    char *text = get_bytes("out/plan.json", NULL);
    json_t *plan = json_loads(text, 0, NULL), *boundaries = json_object_get(plan, "boundaries");
    size_t count = json_array_size(boundaries);
    for (size_t i = 1; i + 1 < count; i++)
        json_object_set_new(json_array_get(boundaries, i), "tier", json_string("cpu"));
    json_t *hosted = json_array();
    for (size_t l = 0; l + 1 < count; l++) json_array_append_new(hosted, json_integer((json_int_t)l));
    json_object_set_new(plan, "internals", json_array());
    json_object_set_new(plan, "internals_cpu", hosted);
    json_object_set_new(plan, "weights", json_array());
    json_object_set_new(plan, "head_weights", json_false());
    json_object_set_new(plan, "prefetch_layers", json_integer(2));
    json_object_set_new(plan, "gradient_slots", json_integer(2));
    assert_int_equal(json_dump_file(plan, in_folder("streamed.json"), 0), 0);
    json_decref(plan);
    free(text);
}

static json_int_t integer(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

typedef struct sums {
    json_int_t h2d, d2h, peak[2];
} sums;

static void sum_place(const json_t *place, json_int_t times, sums *s)
{
    json_t *use;
    size_t i;
    bool host = !strcmp(json_string_value(json_object_get(place, "space")), "host");
    json_int_t last = integer(place, "first_task");
    json_array_foreach(json_object_get(place, "uses"), i, use)
    {
        const char *lane = json_string_value(json_object_get(use, "lane"));
        assert_true(integer(use, "task") >= last && integer(use, "task") <= integer(place, "last_task"));
        last = integer(use, "task");
        if (!json_is_true(json_object_get(use, "copy"))) continue;
        if (strcmp(json_string_value(json_object_get(use, "access")), "write")) continue;
        if (!strcmp(lane, "h2d")) s->h2d += times * integer(use, "bytes");
        if (!strcmp(lane, "d2h")) s->d2h += times * integer(use, "bytes");
    }
    json_int_t end = integer(place, "offset") + integer(place, "bytes");
    if (end > s->peak[host]) s->peak[host] = end;
}

static void no_two_share_bytes(json_t *places)
{
    for (size_t i = 0; i < json_array_size(places); i++)
        for (size_t k = 0; k < i; k++) {
            const json_t *a = json_array_get(places, i), *b = json_array_get(places, k);
            if (strcmp(json_string_value(json_object_get(a, "space")), json_string_value(json_object_get(b, "space"))))
                continue;
            bool always =
                json_is_true(json_object_get(a, "persistent")) || json_is_true(json_object_get(b, "persistent"));
            bool apart = integer(a, "offset") >= integer(b, "offset") + integer(b, "bytes") ||
                         integer(b, "offset") >= integer(a, "offset") + integer(a, "bytes");
            bool later = integer(a, "first_task") > integer(b, "last_task") ||
                         integer(b, "first_task") > integer(a, "last_task");
            if (!apart && (always || !later))
                fail_msg("%s and %s share bytes", json_string_value(json_object_get(a, "object")),
                         json_string_value(json_object_get(b, "object")));
        }
}

static void sum_program(const json_t *program, sums *s)
{
    json_t *life, *place, *all = json_array();
    size_t i, k;
    json_array_foreach(json_object_get(program, "objects"), i, life)
        json_array_foreach(json_object_get(life, "places"), k, place)
    {
        sum_place(place, integer(program, "times"), s);
        json_array_append(all, place);
    }
    no_two_share_bytes(all);
    json_decref(all);
}

static void objects_are_the_runs(const char *plan, int accumulation)
{
    char keys[256], *text;
    snprintf(keys, sizeof keys, "save_final: false\ngradient_accumulation_steps: %d\nmemory:\n  plan: %s\n",
             accumulation, plan);
    put_config("m", "rows.jsonl", keys);
    must_run("train c.yaml --quiet");
    assert_int_equal(run("explain out/plan.json --objects --json --micro-batches %d", accumulation), 0);
    text = get_bytes("stdout", NULL);
    json_t *objects = json_loads(text, JSON_REJECT_DUPLICATES, NULL), *step = metrics_step("out", 1);
    assert_non_null(objects);
    sums s = {0};
    json_t *program, *total = json_object_get(objects, "step");
    size_t i;
    json_array_foreach(json_object_get(objects, "programs"), i, program) sum_program(program, &s);
    json_t *counted = json_object_get(step, "bytes"), *said = json_object_get(total, "bytes");
    assert_true(s.h2d > 0 && s.d2h > 0);
    assert_int_equal(s.h2d, integer(counted, "h2d"));
    assert_int_equal(s.d2h, integer(counted, "d2h"));
    assert_int_equal(integer(said, "h2d"), s.h2d);
    assert_int_equal(integer(said, "d2h"), s.d2h);
    assert_int_equal(s.peak[0], integer(step, "peak_device_bytes"));
    assert_int_equal(integer(total, "peak_device_bytes"), s.peak[0]);
    assert_int_equal(integer(total, "peak_host_bytes"), integer(step, "peak_host_bytes"));
    assert_int_equal(integer(total, "layer_forwards"), integer(step, "layer_forwards"));
    assert_int_equal(integer(total, "weight_uploads"), integer(step, "weight_uploads"));
    json_decref(objects);
    json_decref(step);
    free(text);
}

static void automatic(void **state)
{
    (void)state;
    objects_are_the_runs("auto", 1);
    objects_are_the_runs("auto", 3);
}

static void baseline(void **state)
{
    (void)state;
    objects_are_the_runs("baseline\n  checkpoint_interval: 2", 1);
    objects_are_the_runs("baseline\n  checkpoint_interval: 2", 3);
}

static void streamed(void **state)
{
    (void)state;
    put_streamed_plan(); /* of the plan before, with three micro-batches */
    objects_are_the_runs("streamed.json", 1);
    objects_are_the_runs("streamed.json", 3);
}

/* As text: a boundary that leaves and returns is one object in three places. */
static void a_boundary_is_followed(void **state)
{
    (void)state;
    must_run("explain out/plan.json --objects");
    const char *boundary = strstr(run_out, "down.boundary.2");
    assert_non_null(boundary);
    assert_non_null(strstr(run_out, "bytes from the device by down.boundary.2"));
    assert_non_null(strstr(run_out, "bytes from the host by up.boundary.2"));
    assert_non_null(strstr(run_out, "free after task"));
    assert_int_equal(run("explain out/plan.json --json"), 2);
    assert_int_equal(run("explain out/plan.json --objects --model nowhere"), 5);
}

static int set_up(void **state)
{
    int rc = run_set_up(state);
    if (!rc) put_inputs();
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(automatic),
        cmocka_unit_test(baseline),
        cmocka_unit_test(streamed),
        cmocka_unit_test(a_boundary_is_followed),
    };
    return cmocka_run_group_tests(tests, set_up, run_tear_down);
}
