/* Goal: an exported directory holds every value and every other byte of its source, and is there whole or not at all.
 *
 * Method: small directories (single, sharded, tied with two copies, extra tensors) exported in each type and read back;
 * config.json compared byte by byte but for its dtype; the exporter's file calls failing and killed at every index.
 */
#include "base/os_faulty.h"
#include "model/model_config_dtype.h"
#include "model/model_export.h"
#include "model/model_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>

#include <cmocka.h>

#define EMBED "model.embed_tokens.weight"
#define HEAD  "lm_head.weight"

static lzt_model *open_good(const char *directory)
{
    lzt_model *model;
    lzt_error err = {0};
    if (lzt_model_open(fixture_path(directory, ""), LZT_MODEL_WANT_WEIGHTS, &model, &err))
        fail_msg("%s: %s: %s", directory, err.where, err.message);
    return model;
}

static char *read_text(const char *directory, const char *name)
{
    char *text;
    uint64_t bytes;
    lzt_error err = {0};
    if (lzt__os_read_file(lzt__os_posix(), fixture_path(directory, name), 1 << 22, &text, &bytes, &err))
        fail_msg("%s/%s: %s", directory, name, err.message);
    return text;
}

static bool exists(const char *directory, const char *name)
{
    return !access(fixture_path(directory, name), F_OK);
}

/* The values of the second export are those of the first, doubled. */
static lzt_status doubled(void *arg, uint32_t tensor_index, float *out, lzt_error *err)
{
    const lzt_model *model = arg;
    lzt_status status = lzt_model_read_tensor(model, tensor_index, out, err);
    uint64_t count = lzt_model_get_info(model)->tensor[tensor_index].element_count;
    for (uint64_t i = 0; i < count && !status; i++) out[i] *= 2;
    return status;
}

static void expect_same(const lzt_model *a, const lzt_model *b, float factor, double tolerance)
{
    const lzt_model_info *info = lzt_model_get_info(a);
    assert_int_equal(info->tensor_count, lzt_model_get_info(b)->tensor_count);
    for (uint32_t i = 0; i < info->tensor_count; i++) {
        float x[4096], y[4096];
        assert_string_equal(info->tensor[i].name, lzt_model_get_info(b)->tensor[i].name);
        assert_int_equal(lzt_model_read_tensor(a, i, x, NULL), LZT_OK);
        assert_int_equal(lzt_model_read_tensor(b, i, y, NULL), LZT_OK);
        for (uint64_t k = 0; k < info->tensor[i].element_count; k++)
            assert_true(fabs(factor * x[k] - y[k]) <= tolerance);
    }
}

static void expect_aligned(const char *directory, const char *name)
{
    char *data = read_text(directory, name);
    uint64_t header;
    memcpy(&header, data, 8);
    assert_int_equal((8 + header) % 4096, 0);
    assert_non_null(strstr(data + 8, "\"format\":\"pt\""));
    free(data);
}

static void make_single(const char *directory)
{
    fixture_put_text(directory, "config.json", fixture_config(""));
    fixture_put_text(directory, "tokenizer.json", "{ \"odd\" :\tspacing }\n\n");
    fixture_put_text(directory, "notes.bin", "kept");
    fixture_put_text(directory, "pytorch_model.bin", "stale");
    fixture_put_text(directory, "golden.safetensors", "stale");
    fixture_put("more", "x", "", 0);
    lzt_model *tables = fixture_tables(directory);
    fixture_weights(directory, "model.safetensors", lzt_model_get_info(tables), 0, 1, NULL, LZT_DTYPE_F32, NULL, 0);
    lzt_model_close(tables);
    lzt__os_make_dirs(lzt__os_posix(), fixture_path(directory, "original"), NULL);
}

static void round_trip(void **state)
{
    (void)state;
    make_single("a");
    lzt_model *a = open_good("a");
    lzt_error err = {0};
    assert_int_equal(lzt_model_export(a, fixture_path("out/f32/", ""), LZT_DTYPE_F32, NULL, NULL, &err), LZT_OK);
    lzt_model *b = open_good("out/f32");
    expect_same(a, b, 1, 0);
    lzt_model_close(b);
    expect_aligned("out/f32", "model.safetensors");
    char *config = read_text("out/f32", "config.json"), *source = read_text("a", "config.json");
    assert_string_equal(config, source);
    free(config);
    free(source);
    char *tokenizer = read_text("out/f32", "tokenizer.json");
    assert_string_equal(tokenizer, "{ \"odd\" :\tspacing }\n\n");
    free(tokenizer);
    assert_true(exists("out/f32", "notes.bin"));
    assert_false(exists("out/f32", "pytorch_model.bin") || exists("out/f32", "golden.safetensors") ||
                 exists("out/f32", "original"));
    /* replaced, with other values, in bf16 */
    assert_int_equal(lzt_model_export(a, fixture_path("out/f32", ""), LZT_DTYPE_BF16, doubled, a, &err), LZT_OK);
    b = open_good("out/f32");
    assert_int_equal(lzt_model_get_info(b)->dtype, LZT_DTYPE_BF16);
    assert_int_equal(lzt_model_get_info(b)->tensor[3].file_dtype, LZT_DTYPE_BF16);
    expect_same(a, b, 2, 1.0 / 128);
    lzt_model_close(b);
    assert_int_equal(lzt_model_export(a, fixture_path("a", ""), LZT_DTYPE_F32, NULL, NULL, &err), LZT_ERR_STORAGE);
    fixture_put_text("precious", "thesis.txt", "years of work");
    assert_int_equal(lzt_model_export(a, fixture_path("precious", ""), LZT_DTYPE_F32, NULL, NULL, &err),
                     LZT_ERR_STORAGE);
    assert_true(exists("precious", "thesis.txt"));
    assert_int_equal(lzt_model_export(a, "/proc/no/such", LZT_DTYPE_F32, NULL, NULL, &err), LZT_ERR_STORAGE);
    lzt_model_close(a);
}

static void shards_and_extras(void **state)
{
    (void)state;
    fixture_put_text("s", "config.json", fixture_config(""));
    lzt_model *tables = fixture_tables("s");
    const lzt_model_info *info = lzt_model_get_info(tables);
    const fixture_extra extra[] = {{"model.rotary.inv_freq", LZT_DTYPE_F16, 3, 5, NULL}};
    fixture_weights("s", "x-1.safetensors", info, 0, 2, NULL, LZT_DTYPE_BF16, extra, 1);
    fixture_weights("s", "x-2.safetensors", info, 1, 2, NULL, LZT_DTYPE_BF16, NULL, 0);
    char text[8192];
    size_t used =
        (size_t)snprintf(text, sizeof text, "{\"weight_map\": {\"model.rotary.inv_freq\": \"x-1.safetensors\"");
    for (uint32_t i = 0; i < info->tensor_count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, ", \"%s\": \"x-%u.safetensors\"",
                                 info->tensor[i].name, i % 2 + 1);
    snprintf(text + used, sizeof text - used, "}}");
    fixture_put_text("s", "model.safetensors.index.json", text);
    lzt_model *a = open_good("s");
    assert_int_equal(lzt_model_export(a, fixture_path("s-out", ""), LZT_DTYPE_F32, NULL, NULL, NULL), LZT_OK);
    lzt_model *b = open_good("s-out");
    expect_same(a, b, 1, 0);
    expect_aligned("s-out", "x-1.safetensors");
    expect_aligned("s-out", "x-2.safetensors");
    lzt_error err = {0};
    if (lzt_model_verify(fixture_path("s-out", ""), true, NULL, NULL, &err)) fail_msg("%s", err.message);
    char want[32], *index = read_text("s-out", "model.safetensors.index.json");
    snprintf(want, sizeof want, "\"total_size\": %llu", (unsigned long long)(info->parameters * 4 + 30));
    assert_non_null(strstr(index, want));
    free(index);
    lzt_model_close(b);
    lzt_model_close(a);
    lzt_model_close(tables);
}

static void both_tied_copies(void **state)
{
    (void)state;
    char *text = strdup(fixture_config(""));
    memcpy(strstr(text, "false"), "true ", 5);
    fixture_put_text("t", "config.json", text);
    free(text);
    lzt_model *tables = fixture_tables("t");
    const fixture_extra head = {HEAD, LZT_DTYPE_F32, 20, 8, EMBED};
    fixture_weights("t", "model.safetensors", lzt_model_get_info(tables), 0, 1, NULL, LZT_DTYPE_F32, &head, 1);
    lzt_model *a = open_good("t");
    assert_int_equal(lzt_model_export(a, fixture_path("t-out", ""), LZT_DTYPE_F32, doubled, a, NULL), LZT_OK);
    lzt_model *b = open_good("t-out"); /* opens: both copies are there and equal */
    expect_same(a, b, 2, 0);
    lzt__st st;
    assert_int_equal(lzt__st_open(lzt__os_posix(), fixture_path("t-out", "model.safetensors"), &st, NULL), LZT_OK);
    assert_non_null(lzt__st_find(&st, HEAD));
    assert_non_null(lzt__st_find(&st, EMBED));
    lzt__st_close(&st);
    lzt_model_close(b);
    lzt_model_close(a);
    lzt_model_close(tables);
}

static void expect_dtype_text(const char *in, const char *want)
{
    lzt__text out = {0};
    lzt__model_config_set_dtype(in, strlen(in), LZT_DTYPE_BF16, &out);
    assert_string_equal(out.at, want);
    lzt__text_free(&out);
}

static void dtype_in_config(void **state)
{
    (void)state;
    expect_dtype_text("{\"a\": 1, \"torch_dtype\" : \"float32\"}", "{\"a\": 1, \"torch_dtype\" : \"bfloat16\"}");
    expect_dtype_text("{\"dtype\":null,\"b\":[1]}", "{\"dtype\":\"bfloat16\",\"b\":[1]}");
    expect_dtype_text("{\n  \"a\": 1\n}\n", "{\n  \"dtype\": \"bfloat16\",\n  \"a\": 1\n}\n");
    expect_dtype_text("{\"x\": {\"dtype\": \"float32\"}, \"l\": [\"dtype\", {\"dtype\": 1}], \"dtype\": \"float32\"}",
                      "{\"x\": {\"dtype\": \"float32\"}, \"l\": [\"dtype\", {\"dtype\": 1}], \"dtype\": \"bfloat16\"}");
    expect_dtype_text("{\"text_config\": {\"k\": {\"dtype\": 1}, \"dtype\": \"float32\"}, \"v\": {\"dtype\": \"x\"}}",
                      "{\"text_config\": {\"k\": {\"dtype\": 1}, \"dtype\": \"bfloat16\"}, \"v\": {\"dtype\": \"x\"}}");
    expect_dtype_text("{\"s\": \"\\\"dtype\\\": 1\", \"dtype\": \"f\"}",
                      "{\"s\": \"\\\"dtype\\\": 1\", \"dtype\": \"bfloat16\"}");
}

static int count_hidden(void *arg, const char *name)
{
    *(int *)arg += name[0] == '.';
    return 0;
}

static int hidden_entries(void)
{
    const lzt_os *os = lzt__os_posix();
    int count = 0, fd = open(fixture_root, O_RDONLY | O_DIRECTORY);
    os->list(os, fd, count_hidden, &count);
    close(fd);
    return count;
}

static void every_call_fails(void **state)
{
    (void)state;
    make_single("a");
    lzt_model *a = open_good("a");
    lzt_os_faulty faulty;
    lzt__os_faulty_init(&faulty, lzt__os_posix());
    const char *target = "faulty";
    char path[512];
    snprintf(path, sizeof path, "%s", fixture_path(target, ""));
    assert_int_equal(lzt__model_export(&faulty.os, a, path, LZT_DTYPE_F32, NULL, NULL, NULL), LZT_OK);
    assert_int_equal(lzt__model_export(&faulty.os, a, path, LZT_DTYPE_F32, NULL, NULL, NULL), LZT_OK);
    uint64_t calls = faulty.calls / 2 + 4;
    for (uint64_t i = 1; i <= calls; i++) {
        lzt__os_faulty_init(&faulty, lzt__os_posix());
        faulty.fail_at = i;
        lzt_error err = {0};
        lzt__model_export(&faulty.os, a, path, LZT_DTYPE_F32, doubled, a, &err);
        assert_int_equal(faulty.open_fds, 0);
        lzt_model *b = open_good(target); /* whole: the old or the new */
        float x[160], y[160];
        lzt_model_read_tensor(a, 0, x, NULL);
        lzt_model_read_tensor(b, 0, y, NULL);
        assert_true(y[1] == x[1] || y[1] == 2 * x[1]);
        lzt_model_close(b);
        uint32_t removed;
        lzt__staging_clean(lzt__os_posix(), fixture_root, "", &removed, NULL);
        assert_int_equal(hidden_entries(), 0);
        assert_int_equal(lzt_model_export(a, path, LZT_DTYPE_F32, NULL, NULL, NULL), LZT_OK);
    }
    lzt_model_close(a);
}

static void full_disk(void **state)
{
    (void)state;
    make_single("a");
    lzt_model *a = open_good("a");
    for (uint64_t space = 0; space < 6000; space += 500) {
        lzt_os_faulty faulty;
        lzt__os_faulty_init(&faulty, lzt__os_posix());
        faulty.space_bytes = space + 1;
        lzt_error err = {0};
        assert_int_equal(lzt__model_export(&faulty.os, a, fixture_path("full", ""), LZT_DTYPE_F32, NULL, NULL, &err),
                         LZT_ERR_STORAGE);
        assert_int_equal(err.os_code, ENOSPC);
        assert_false(exists("full", ""));
        assert_int_equal(hidden_entries(), 0);
    }
    lzt_model_close(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(round_trip),       cmocka_unit_test(shards_and_extras),
                                       cmocka_unit_test(both_tied_copies), cmocka_unit_test(dtype_in_config),
                                       cmocka_unit_test(every_call_fails), cmocka_unit_test(full_disk)};
    return cmocka_run_group_tests(tests, fixture_make_root, fixture_remove_root);
}
