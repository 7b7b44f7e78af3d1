/* Goal: gate 1 of the spine: twenty AdamW steps and greedy decoding of a real pretrained model, to the goldens' digits.
 *
 * Method: models/stories260k-hf under LZT_DATA; golden_train.json (losses, and per tensor l2, sum and first values of
 * gradients and parameters from a float64 run) and golden.json of the original (201 greedy ids, nats per token).
 */
#include "golden_run.h"

static char model_directory[512], golden_file[512];
static lzt_model *model;

static json_t *load(const char *path)
{
    json_error_t error;
    json_t *json = json_load_file(path, 0, &error);
    if (!json) fail_msg("%s: %s", path, error.text);
    return json;
}

static const json_t *at(const json_t *array, size_t index)
{
    return json_array_get(array, index);
}

/* Rows of 129 ids: the first 128 predict the last 128. */
static void batch_of(const json_t *rows, lzt_micro_batch *batch)
{
    json_t *copies = json_array(), *labels = json_array();
    for (size_t r = 0; r < json_array_size(rows); r++) {
        json_array_append(copies, (json_t *)(uintptr_t)at(rows, r));
        json_array_append(labels, (json_t *)(uintptr_t)at(rows, r));
    }
    batch_from_rows(copies, labels, batch);
    json_decref(copies);
    json_decref(labels);
}

static void check_tensors(const lzt_engine *engine, lzt_state_part part, const json_t *expected)
{
    const lzt_model_info *info = lzt_model_get_info(model);
    lzt_error err = {0};
    for (uint32_t i = 0; i < info->tensor_count; i++) {
        const lzt_tensor *t = &info->tensor[i];
        const json_t *e = json_object_get(expected, t->name);
        assert_non_null(e);
        float *values = malloc(t->element_count * 4);
        assert_int_equal(lzt_engine_read(engine, part, i, values, &err), LZT_OK);
        double square = 0, sum = 0, l2 = json_number_value(json_object_get(e, "l2"));
        for (uint64_t k = 0; k < t->element_count; k++) {
            square += (double)values[k] * values[k];
            sum += values[k];
        }
        double bound = 2e-5 * l2;
        if (fabs(sqrt(square) - l2) > bound) fail_msg("%s: l2 %.9g, not %.9g", t->name, sqrt(square), l2);
        double expected_sum = json_number_value(json_object_get(e, "sum"));
        if (fabs(sum - expected_sum) > bound * sqrt((double)t->element_count))
            fail_msg("%s: sum %.9g, not %.9g", t->name, sum, expected_sum);
        for (size_t k = 0; k < 4; k++) {
            double first = json_number_value(at(json_object_get(e, "first4"), k));
            if (fabs(values[k] - first) > bound) fail_msg("%s[%d]: %.9g, not %.9g", t->name, (int)k, values[k], first);
        }
        free(values);
    }
}

static void twenty_steps_match(void **state)
{
    (void)state;
    char path[600];
    snprintf(path, sizeof path, "%s/golden_train.json", model_directory);
    json_t *values = load(path);
    lzt_micro_batch batch;
    batch_of(json_object_get(values, "batch_ids"), &batch);
    engine_choice choice = {
        .dtype = LZT_DTYPE_F32, .capacity = batch.token_count, .micro_batches = 1, .drop_dependency = -1};
    lzt_engine *engine = engine_for(model, &choice);
    lzt_run_result result;
    double worst = 0;
    for (uint64_t step = 0; step < 20; step++) {
        double loss = train_step(engine, &batch, step + 1, &result);
        double expected = json_number_value(json_object_get(at(json_object_get(values, "steps"), step), "loss"));
        if (fabs(loss - expected) > worst) worst = fabs(loss - expected);
        if (fabs(loss - expected) > 2e-5) fail_msg("step %d: loss %.9f, not %.9f", (int)step + 1, loss, expected);
        if (step == 0) check_tensors(engine, LZT_STATE_PART_GRADIENT, json_object_get(values, "grad_step1"));
    }
    print_message("worst loss difference in twenty steps: %.2e\n", worst);
    lzt_error err = {0};
    assert_int_equal(lzt_engine_drain(engine, NULL, &err), LZT_OK);
    check_tensors(engine, LZT_STATE_PART_MASTER, json_object_get(values, "param_after_20"));
    lzt_engine_destroy(engine);
    batch_free(&batch);
    json_decref(values);
}

int main(void)
{
    const char *data = getenv("LZT_DATA");
    lzt_error err = {0};
    snprintf(model_directory, sizeof model_directory, "%s/models/stories260k-hf", data ? data : "../shared/data");
    snprintf(golden_file, sizeof golden_file, "%s/models/stories260k/golden.json", data ? data : "../shared/data");
    if (lzt_model_open(model_directory, LZT_MODEL_WANT_WEIGHTS, &model, &err)) {
        print_message("SKIPPED: %s: %s\n", err.where, err.message);
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(twenty_steps_match)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lzt_model_close(model);
    return failed;
}
