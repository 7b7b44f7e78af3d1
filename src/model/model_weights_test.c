/* Goal: no parameter is ever left without its stored value: missing, misplaced, misshapen and doubled tensors are
 * found at open, and the message lists them.
 *
 * Method: two-layer Llama directories written to a temporary folder, each wrong in one way (fixture values tell tensor
 * and element, so that what is read can be checked).
 */
#include "model/model_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define LAYER0_Q "model.layers.0.self_attn.q_proj.weight"
#define EMBED    "model.embed_tokens.weight"
#define HEAD     "lm_head.weight"

static const lzt_model_info *tables_of(const char *directory, lzt_model **model)
{
    *model = fixture_tables(directory);
    return lzt_model_get_info(*model);
}

static void expect_values(const lzt_model *model, const char *name, const char *like, double tolerance)
{
    const lzt_model_info *info = lzt_model_get_info(model);
    for (uint32_t i = 0; i < info->tensor_count; i++) {
        if (strcmp(info->tensor[i].name, name)) continue;
        float values[4096];
        lzt_error err = {0};
        if (lzt_model_read_tensor(model, i, values, &err)) fail_msg("%s: %s", err.where, err.message);
        for (uint64_t k = 0; k < info->tensor[i].element_count; k++)
            if (fabs(values[k] - fixture_value(like, k)) > tolerance)
                fail_msg("%s [%d] is %g", name, (int)k, values[k]);
        return;
    }
    fail_msg("no tensor %s", name);
}

static lzt_model *open_good(const char *directory)
{
    lzt_model *model;
    lzt_error err = {0};
    if (lzt_model_open(fixture_path(directory, ""), LZT_MODEL_WANT_WEIGHTS, &model, &err))
        fail_msg("%s: %s: %s", directory, err.where, err.message);
    return model;
}

static void expect_refused(const char *directory, const char *word)
{
    lzt_model *model = NULL;
    lzt_error err = {0};
    lzt_status status = lzt_model_open(fixture_path(directory, ""), LZT_MODEL_WANT_WEIGHTS, &model, &err);
    assert_null(model);
    if (status != LZT_ERR_MODEL) fail_msg("%s: status %d: %s", directory, status, err.message);
    if (!strstr(err.message, word)) fail_msg("%s: \"%s\" lacks \"%s\"", directory, err.message, word);
    if (!strstr(err.where, directory)) fail_msg("%s: where is \"%s\"", directory, err.where);
}

static void single_file(void **state)
{
    (void)state;
    static const lzt_dtype dtypes[] = {LZT_DTYPE_F32, LZT_DTYPE_BF16, LZT_DTYPE_F16};
    static const double tolerance[] = {0, 1.0 / 256, 1.0 / 2048};
    for (int i = 0; i < 3; i++) {
        lzt_model *tables, *model;
        fixture_put_text("single", "config.json", fixture_config(""));
        const lzt_model_info *info = tables_of("single", &tables);
        fixture_weights("single", "model.safetensors", info, 0, 1, NULL, dtypes[i], NULL, 0);
        model = open_good("single");
        assert_int_equal(lzt_model_get_info(model)->tensor[0].file_dtype, dtypes[i]);
        assert_int_equal(lzt_model_get_info(model)->fingerprint, info->fingerprint);
        expect_values(model, EMBED, EMBED, tolerance[i]);
        expect_values(model, LAYER0_Q, LAYER0_Q, tolerance[i]);
        expect_values(model, "model.layers.1.mlp.down_proj.weight", "model.layers.1.mlp.down_proj.weight",
                      tolerance[i]);
        lzt_model_drop_mappings(model);
        expect_values(model, HEAD, HEAD, tolerance[i]);
        lzt_model_close(model);
        lzt_model_close(tables);
    }
}

static void unit_layout(void **state)
{
    (void)state;
    lzt_model *model;
    fixture_put_text("layout", "config.json", fixture_config(""));
    const lzt_model_info *info = tables_of("layout", &model);
    assert_int_equal(info->unit_count, 5);
    uint64_t parameters = 0;
    for (uint32_t u = 0; u < info->unit_count; u++) {
        const lzt_unit *unit = &info->unit[u];
        uint64_t end = 0;
        assert_int_equal(unit->element_count % LZT_UNIT_ALIGNMENT, 0);
        for (uint32_t i = unit->first_tensor; i < unit->first_tensor + unit->tensor_count; i++) {
            const lzt_tensor *t = &info->tensor[i];
            bool joined = t->role == LZT_ROLE_K || t->role == LZT_ROLE_V || t->role == LZT_ROLE_UP;
            assert_int_equal(t->unit, u);
            if (joined)
                assert_int_equal(t->unit_offset, end);
            else
                assert_int_equal(t->unit_offset, (end + 63) / 64 * 64);
            end = t->unit_offset + t->element_count;
            parameters += t->element_count;
        }
        assert_true(unit->element_count >= end && unit->element_count < end + 64);
    }
    assert_int_equal(parameters, info->parameters);
    static const lzt_role order[] = {LZT_ROLE_INPUT_NORM, LZT_ROLE_Q,    LZT_ROLE_K,  LZT_ROLE_V,   LZT_ROLE_O,
                                     LZT_ROLE_POST_NORM,  LZT_ROLE_GATE, LZT_ROLE_UP, LZT_ROLE_DOWN};
    assert_int_equal(info->unit[1].tensor_count, 9);
    for (int i = 0; i < 9; i++) assert_int_equal(info->tensor[info->unit[1].first_tensor + (uint32_t)i].role, order[i]);
    /* 2 x (q 8x8, k and v 4x8, o 8x8, gate and up 12x8, down 8x12) */
    assert_true(info->layer[0].forward_flops_per_token == 2.0 * (64 + 2 * 32 + 64 + 2 * 96 + 96));
    lzt_model_close(model);
}

static void missing_and_misshapen(void **state)
{
    (void)state;
    lzt_model *tables;
    fixture_put_text("bad", "config.json", fixture_config(""));
    const lzt_model_info *info = tables_of("bad", &tables);
    expect_refused("bad", "no weights");
    fixture_weights("bad", "model.safetensors", info, 0, 1, LAYER0_Q, LZT_DTYPE_F32, NULL, 0);
    expect_refused("bad", LAYER0_Q);
    fixture_weights("bad", "model.safetensors", info, 0, 2, NULL, LZT_DTYPE_F32, NULL, 0);
    expect_refused("bad", "of 21 tensors are missing");
    const fixture_extra wide = {LAYER0_Q, LZT_DTYPE_F32, 8, 9, NULL};
    fixture_weights("bad", "model.safetensors", info, 0, 1, LAYER0_Q, LZT_DTYPE_F32, &wide, 1);
    expect_refused("bad", "[8, 9]");
    const fixture_extra turned = {LAYER0_Q, LZT_DTYPE_F32, 4, 16, NULL};
    fixture_weights("bad", "model.safetensors", info, 0, 1, LAYER0_Q, LZT_DTYPE_F32, &turned, 1);
    expect_refused("bad", "[8, 8]");
    fixture_put("bad", "model.safetensors", "\x02\0\0\0\0\0\0\0{", 9);
    expect_refused("bad", "cut");
    fixture_put_text("bad", "config.json", fixture_config("\"quantization_config\": {},"));
    expect_refused("bad", "quantization_config");
    lzt_model_close(tables);
}

static void put_index(const char *directory, const lzt_model_info *info, const char *special, const char *special_file)
{
    char text[8192];
    size_t used = (size_t)snprintf(text, sizeof text, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {");
    for (uint32_t i = 0; i < info->tensor_count; i++) {
        char file[32];
        snprintf(file, sizeof file, "part-%u.safetensors", i % 3);
        bool is_special = special && !strcmp(special, info->tensor[i].name);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%s\": \"%s\"", i ? ", " : "",
                                 info->tensor[i].name, is_special ? special_file : file);
    }
    snprintf(text + used, sizeof text - used, "}}");
    fixture_put_text(directory, "model.safetensors.index.json", text);
}

static void shards(void **state)
{
    (void)state;
    lzt_model *tables, *model;
    fixture_put_text("shards", "config.json", fixture_config(""));
    const lzt_model_info *info = tables_of("shards", &tables);
    put_index("shards", info, NULL, NULL);
    expect_refused(
        "shards",
        "3 of 3 weight files that model.safetensors.index.json names are missing: part-0.safetensors, part-1");
    for (uint32_t part = 0; part < 3; part++) {
        char name[32];
        snprintf(name, sizeof name, "part-%u.safetensors", part);
        fixture_weights("shards", name, info, part, 3, NULL, LZT_DTYPE_F32, NULL, 0);
    }
    /* An older copy in a file that the index does not list must not be read. */
    const fixture_extra stale = {LAYER0_Q, LZT_DTYPE_F32, 8, 8, "stale"};
    fixture_weights("shards", "part-9.safetensors", info, 200, 201, NULL, LZT_DTYPE_F32, &stale, 1);
    model = open_good("shards");
    for (uint32_t i = 0; i < info->tensor_count; i++)
        expect_values(model, info->tensor[i].name, info->tensor[i].name, 0);
    lzt_model_close(model);
    put_index("shards", info, LAYER0_Q, "part-0.safetensors"); /* it lies in another one */
    expect_refused("shards",
                   "model.safetensors.index.json lists 1 tensors that their files lack (the first should be in "
                   "part-0.safetensors): " LAYER0_Q);
    put_index("shards", info, LAYER0_Q, "../shards/part-1.safetensors");
    expect_refused("shards", "../shards");
    put_index("shards", info, LAYER0_Q, "part-7.safetensors");
    expect_refused("shards", "1 of 4 weight files that model.safetensors.index.json names are missing: part-7");
    fixture_put_text("shards", "model.safetensors.index.json", "{\"weight_map\": {\"a\": 1}}");
    expect_refused("shards", "not a file name");
    fixture_put_text("shards", "model.safetensors.index.json", "{\"weight_map\": {\"a\": \"x\", \"a\": \"x\"}}");
    expect_refused("shards", "duplicate");
    fixture_put_text("shards", "model.safetensors.index.json", "{\"weight_map\": {}}");
    expect_refused("shards", "missing");
    lzt_model_close(tables);
}

static const char *tied_config(void)
{
    char *text = strdup(fixture_config(""));
    static char tied[4096];
    char *at = strstr(text, "false");
    snprintf(tied, sizeof tied, "%.*strue%s", (int)(at - text), text, at + 5);
    free(text);
    return tied;
}

static void tied_embeddings(void **state)
{
    (void)state;
    lzt_model *tables, *model;
    fixture_put_text("tied", "config.json", tied_config());
    const lzt_model_info *info = tables_of("tied", &tables);
    assert_int_equal(info->unit_count, 4);
    assert_true(info->tied);
    fixture_weights("tied", "model.safetensors", info, 0, 1, NULL, LZT_DTYPE_F32, NULL, 0); /* the embedding alone */
    lzt_model_close(open_good("tied"));
    const fixture_extra head = {HEAD, LZT_DTYPE_F32, 20, 8, EMBED};
    fixture_weights("tied", "model.safetensors", info, 0, 1, EMBED, LZT_DTYPE_F32, &head, 1); /* the head alone */
    model = open_good("tied");
    expect_values(model, EMBED, EMBED, 0);
    lzt_model_close(model);
    fixture_weights("tied", "model.safetensors", info, 0, 1, NULL, LZT_DTYPE_F32, &head, 1); /* both, equal */
    model = open_good("tied");
    assert_int_equal(lzt_model_get_info(model)->parameters, info->parameters);
    lzt_model_close(model);
    const fixture_extra other = {HEAD, LZT_DTYPE_F32, 20, 8, "other"};
    fixture_weights("tied", "model.safetensors", info, 0, 1, NULL, LZT_DTYPE_F32, &other, 1); /* both, different */
    expect_refused("tied", "differs");
    fixture_weights("tied", "model.safetensors", info, 0, 1, EMBED, LZT_DTYPE_F32, NULL, 0); /* neither */
    expect_refused("tied", EMBED);
    fixture_put_text("tied", "config.json", fixture_config("")); /* untied, without its head */
    fixture_weights("tied", "model.safetensors", info, 0, 1, NULL, LZT_DTYPE_F32, NULL, 0);
    expect_refused("tied", HEAD);
    lzt_model_close(tables);
}

static void collect(void *arg, const char *line)
{
    strncat(arg, line, 2000);
    strncat(arg, "\n", 2);
}

static void verify(void **state)
{
    (void)state;
    lzt_model *tables;
    char notes[8192] = "";
    lzt_error err = {0};
    fixture_put_text("verify", "config.json", fixture_config(""));
    const lzt_model_info *info = tables_of("verify", &tables);
    const fixture_extra extra = {"vision.weight", LZT_DTYPE_F32, 2, 2, NULL};
    fixture_weights("verify", "model.safetensors", info, 0, 1, NULL, LZT_DTYPE_F32, &extra, 1);
    fixture_put_text("verify", "other.safetensors", "junk");
    fixture_put_text("verify", "model.safetensors.index.json", "junk");
    assert_int_equal(lzt_model_verify(fixture_path("verify", ""), true, collect, notes, &err), LZT_OK);
    assert_non_null(strstr(notes, "vision.weight"));
    assert_non_null(strstr(notes, "other.safetensors: not listed"));
    assert_non_null(strstr(notes, "index.json: ignored"));
    /* A NaN in the last element of the file, whichever tensor that is. */
    char *data;
    uint64_t bytes;
    lzt__os_read_file(lzt__os_posix(), fixture_path("verify", "model.safetensors"), 1 << 20, &data, &bytes, NULL);
    memcpy(data + 8 + (((unsigned char)data[1] << 8) | (unsigned char)data[0]), "\0\0\xc0\x7f", 4);
    fixture_put("verify", "model.safetensors", data, bytes);
    free(data);
    assert_int_equal(lzt_model_verify(fixture_path("verify", ""), false, NULL, NULL, &err), LZT_OK);
    assert_int_equal(lzt_model_verify(fixture_path("verify", ""), true, NULL, NULL, &err), LZT_ERR_MODEL);
    assert_non_null(strstr(err.message, "1 weights are not finite"));
    /* The index's total_size must be that of the files. */
    unlink(fixture_path("verify", "model.safetensors"));
    put_index("verify", info, NULL, NULL);
    for (uint32_t part = 0; part < 3; part++) {
        char name[32];
        snprintf(name, sizeof name, "part-%u.safetensors", part);
        fixture_weights("verify", name, info, part, 3, NULL, LZT_DTYPE_F32, NULL, 0);
    }
    assert_int_equal(lzt_model_verify(fixture_path("verify", ""), false, NULL, NULL, &err), LZT_ERR_MODEL);
    assert_non_null(strstr(err.message, "total_size"));
    lzt_model_close(tables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(single_file),           cmocka_unit_test(unit_layout),
                                       cmocka_unit_test(missing_and_misshapen), cmocka_unit_test(shards),
                                       cmocka_unit_test(tied_embeddings),       cmocka_unit_test(verify)};
    return cmocka_run_group_tests(tests, fixture_make_root, fixture_remove_root);
}
