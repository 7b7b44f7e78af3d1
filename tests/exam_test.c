/* Goal: exact match as users see it: `eval --exact-match`, and evaluations during training, with counts, the answers'
 * file, and refusals.
 *
 * Method: the program on stories260k (LZT_DATA), which always tells of a girl named Lily: pairs whose own answer is
 * right, wrong and missing, by a pattern of names. A device cap changes neither ids nor counts.
 */
#include "program_run.h"

static char model[4096], words[12000];

static const char rows[] = "{\"query\":\"Once upon a time\",\"response\":\", there was a little girl named Lily.\"}\n"
                           "{\"query\":\"Once upon a time\",\"response\":\", there was a boy named Tom.\"}\n"
                           "{\"query\":\"One day\",\"response\":\", a dog came home.\"}\n"
                           "{\"query\":\"The cat\",\"response\":\" sat down. Her name was named Sue.\"}\n";

static const char pattern[] = "named (\\w+)";

static json_t *output(void)
{
    json_t *out = json_loads(run_out, 0, NULL);
    assert_non_null(out);
    return out;
}

static json_int_t count(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value)) fail_msg("no %s", key);
    return json_integer_value(value);
}

static int evaluate_by(const char *answer_pattern, const char *more)
{
    return run("eval --model '%s/stories260k-hf' --tokenizer '%s/stories260k/tok512.bin' --dataset rows.jsonl --json "
               "--exact-match --answer-pattern '%s' --max-new-tokens 30 %s",
               model, model, answer_pattern, more);
}

static int evaluate(const char *more)
{
    return evaluate_by(pattern, more);
}

/* Line number line of a file of JSON objects. */
static json_t *line_of(const char *file, int line)
{
    char *text = get_bytes(file, NULL), *save = NULL;
    json_t *found = NULL;
    if (!text) fail_msg("no %s", file);
    for (char *at = strtok_r(text, "\n", &save); at && !found; at = strtok_r(NULL, "\n", &save))
        if (line-- == 0) found = json_loads(at, JSON_REJECT_DUPLICATES, NULL);
    free(text);
    return found;
}

static void answers_are_counted_and_written(void **state)
{
    (void)state;
    put_text("rows.jsonl", "%s", rows);
    if (evaluate("--answers a.jsonl")) fail_msg("%s", run_err);
    json_t *out = output();
    assert_int_equal(count(out, "answers"), 4);
    assert_int_equal(count(out, "answers_right"), 1);
    assert_int_equal(count(out, "answers_none"), 1);
    assert_int_equal(count(out, "answers_cut"), 4);
    assert_int_equal(count(out, "answer_tokens"), 120);
    assert_int_equal(count(out, "rows"), 4);
    assert_true(json_number_value(json_object_get(out, "exact_match")) == 0.25);
    json_decref(out);
    assert_non_null(strstr(run_err, "no answer in 1 row"));
    static const struct {
        const char *extracted, *expected;
        bool right;
    } lines[] = {{"Lily", "Lily", true}, {"Lily", "Tom", false}, {"Lily", NULL, false}, {NULL, "Sue", false}};
    for (int i = 0; i < 4; i++) {
        json_t *line = line_of("a.jsonl", i);
        assert_int_equal(count(line, "row"), i + 1);
        const char *extracted = json_string_value(json_object_get(line, "extracted"));
        const char *expected = json_string_value(json_object_get(line, "expected"));
        assert_true(!extracted == !lines[i].extracted && (!extracted || !strcmp(extracted, lines[i].extracted)));
        assert_true(!expected == !lines[i].expected && (!expected || !strcmp(expected, lines[i].expected)));
        assert_int_equal(json_is_true(json_object_get(line, "right")), lines[i].right);
        assert_non_null(json_string_value(json_object_get(line, "generated")));
        assert_non_null(strstr(json_string_value(json_object_get(line, "prompt")), i < 2 ? "Once upon" : "e"));
        json_decref(line);
    }
}

static void samples_limit_both(void **state)
{
    (void)state;
    if (evaluate("--samples 2 --batch-size 3 --answers b.jsonl")) fail_msg("%s", run_err);
    json_t *out = output();
    assert_int_equal(count(out, "rows"), 2);
    assert_int_equal(count(out, "answers"), 2);
    json_decref(out);
    assert_null(line_of("b.jsonl", 2));
}

/* The least device that one sequence needs: other shapes of the cache, the same answers. One byte less is exit 3. */
static void a_cap_changes_no_answer(void **state)
{
    (void)state;
    unsigned long long least = 1;
    char cap[64];
    for (int tries = 0; tries < 3; tries++) { /* the plan's own least first, then the cache's */
        snprintf(cap, sizeof cap, "--answers c.jsonl --device-cap %llu", least);
        int code = evaluate(cap);
        if (!code) break;
        assert_int_equal(code, 3);
        const char *at = strstr(run_err, "needs at least ");
        assert_non_null(at);
        assert_int_equal(sscanf(at, "needs at least %llu bytes", &least), 1);
    }
    assert_true(least > 1);
    assert_true(same_files("a.jsonl", "c.jsonl"));
    snprintf(cap, sizeof cap, "--device-cap %llu", least - 1);
    assert_int_equal(evaluate(cap), 3);
}

static void refusals(void **state)
{
    (void)state;
    assert_int_equal(evaluate_by("(oops", ""), 2);
    assert_non_null(strstr(run_err, "(oops"));
    assert_int_equal(evaluate_by("never in the text", ""), 4);
    assert_non_null(strstr(run_err, "answer_pattern"));
    put_text("rows.jsonl", "{\"text\":\"no question\"}\n");
    assert_int_equal(evaluate(""), 4);
    assert_non_null(strstr(run_err, "rows.jsonl:1"));
    put_text("rows.jsonl", "%s", rows);
    assert_int_equal(run("eval --model '%s/stories260k-hf' --dataset rows.jsonl --answers a.jsonl", model), 2);
}

static void evaluations_of_a_run(void **state)
{
    (void)state;
    snprintf(words, sizeof words,
             "model_name_or_path: %s/stories260k-hf\ntokenizer: %s/stories260k/tok512.bin\ndataset: rows.jsonl\n"
             "eval_dataset: rows.jsonl\noutput_dir: out\nper_device_train_batch_size: 2\nmax_steps: 3\n"
             "learning_rate: 1e-4\neval_steps: 2\neval_samples: 3\neval_loss_samples: 2\neval_max_new_tokens: 30\n"
             "answer_pattern: 'named (\\w+)'\nsave_final: false\nsave_steps: 0\n",
             model, model);
    put_text("c.yaml", "%s", words);
    must_run("train c.yaml");
    assert_non_null(strstr(run_err, "exact match 33.3 %: 1 of 3 right"));
    char *text = get_bytes("out/metrics.jsonl", NULL), *save = NULL;
    int evals = 0;
    for (char *at = strtok_r(text, "\n", &save); at; at = strtok_r(NULL, "\n", &save)) {
        json_t *line = json_loads(at, JSON_REJECT_DUPLICATES, NULL);
        if (json_object_get(line, "event")) {
            assert_int_equal(count(line, "eval_rows"), 2);
            assert_int_equal(count(line, "answers"), 3);
            assert_int_equal(count(line, "answer_tokens"), 90);
            if (count(line, "step") == 0)
                assert_true(json_number_value(json_object_get(line, "exact_match")) * 3 == 1.0);
            evals++;
        }
        json_decref(line);
    }
    free(text);
    assert_int_equal(evals, 3); /* before, at step 2, at the end */
    assert_true(exists("out/answers/step-0.jsonl") && exists("out/answers/step-2.jsonl") &&
                exists("out/answers/step-3.jsonl"));
    json_t *line = line_of("out/answers/step-0.jsonl", 0);
    assert_true(json_is_true(json_object_get(line, "right")));
    json_decref(line);
}

int main(void)
{
    const char *data = getenv("LZT_DATA");
    char probe[4200], here[2048] = "";
    if (!data || data[0] != '/') assert(getcwd(here, sizeof here));
    snprintf(model, sizeof model, "%s/%s/models", here, data ? data : "../shared/data");
    snprintf(probe, sizeof probe, "%s/stories260k-hf/config.json", model);
    if (access(probe, R_OK)) {
        printf("SKIPPED: %s is not there\n", probe);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_counted_and_written),
        cmocka_unit_test(samples_limit_both),
        cmocka_unit_test(a_cap_changes_no_answer),
        cmocka_unit_test(refusals),
        cmocka_unit_test(evaluations_of_a_run),
    };
    return cmocka_run_group_tests(tests, run_set_up, run_tear_down);
}
