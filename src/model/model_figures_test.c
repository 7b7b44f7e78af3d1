/* Goal: the tables equal what transformers says about real models.
 *
 * Method: for every config of the data directory the parameter counts must equal parameters.json to the last one, and
 * for every small model directory the stored tensors must be the tables': each one there with its shape, none left
 * over. Skipped (77) without the data directory (LZT_DATA, default ../shared/data).
 */
#include "lazytrain/model.h"
#include "model/model_internal.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *data_dir;

static lzt_model *open_or_fail(const char *path, int want)
{
    lzt_error err = {0};
    lzt_model *model = NULL;
    if (lzt_model_open(path, want, &model, &err)) fail_msg("%s: %s: %s", path, err.where, err.message);
    return model;
}

static json_int_t number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static void expect_figures(const char *name, const json_t *want)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/configs/%s.json", data_dir, name);
    lzt_model *model = open_or_fail(path, LZT_MODEL_CONFIG_ONLY);
    const lzt_model_info *info = lzt_model_get_info(model);
    print_message("%s: %llu parameters, %llu active\n", name, (unsigned long long)info->parameters,
                  (unsigned long long)info->parameters_active);
    assert_int_equal(info->layer_count, number(want, "layers"));
    assert_int_equal(info->parameters, number(want, "parameters"));
    json_int_t active = number(want, "parameters_active");
    assert_int_equal(info->parameters_active, active ? active : number(want, "parameters"));
    assert_int_equal(info->layer[0].parameters, number(want, "first_layer"));
    assert_int_equal(info->layer[info->layer_count - 1].parameters, number(want, "last_layer"));
    assert_int_equal(info->unit_count, info->layer_count + (info->tied ? 2 : 3));
    lzt_model_close(model);
}

static void test_totals(void **state)
{
    (void)state;
    char path[1024];
    snprintf(path, sizeof path, "%s/parameters.json", data_dir);
    json_t *all = json_load_file(path, 0, NULL), *want;
    assert_non_null(all);
    const char *name;
    assert_true(json_object_size(all) >= 20);
    json_object_foreach(all, name, want) expect_figures(name, want);
    json_decref(all);
}

/* No tensor of the files is missing from the tables (open has checked the other direction). */
static void expect_complete(const char *directory)
{
    lzt_model *model = open_or_fail(directory, LZT_MODEL_WANT_WEIGHTS);
    uint32_t stored = 0;
    uint64_t elements = 0;
    for (uint32_t i = 0; i < model->weights.shard_count; i++) {
        const lzt__st *st = &model->weights.shard[i].st;
        stored += st->count;
        for (uint32_t k = 0; k < st->count; k++) elements += st->entry[k].element_count;
    }
    assert_int_equal(stored, model->info.tensor_count);
    assert_int_equal(elements, model->info.parameters);
    float *values = malloc(model->info.tensor[0].element_count * sizeof *values);
    lzt_error err = {0};
    assert_int_equal(lzt_model_read_tensor(model, 0, values, &err), LZT_OK);
    free(values);
    lzt_model_close(model);
}

static void test_stored_tensors(void **state)
{
    (void)state;
    static const char *const names[] = {"golden/qwen3",
                                        "golden/qwen2.5",
                                        "golden/llama3",
                                        "golden/mistral",
                                        "golden/qwen3.5",
                                        "golden/qwen3-moe",
                                        "golden/mixtral",
                                        "golden/gemma3",
                                        "golden/gpt-oss",
                                        "models/stories260k-hf",
                                        "models/stories260k-hf-bf16-sharded"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", data_dir, names[i]);
        print_message("%s\n", names[i]);
        expect_complete(path);
    }
}

int main(void)
{
    data_dir = getenv("LZT_DATA");
    if (!data_dir) data_dir = "../shared/data";
    if (access(data_dir, R_OK)) {
        fprintf(stderr, "SKIPPED: no data directory at %s (set LZT_DATA)\n", data_dir);
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_totals), cmocka_unit_test(test_stored_tensors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
