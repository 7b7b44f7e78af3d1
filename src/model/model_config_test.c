/* Goal: every spelling of a config.json is understood or refused by name, and never guessed.
 *
 * Method: one small Llama text; each case changes one key and checks the resulting numbers, or that the error names
 * the key. The rotary frequencies are compared with values computed independently (formulas of transformers 5.24's
 * modeling_rope_utils, evaluated with Python's float).
 */
#include "model/model_config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The base text with an architecture and some keys added or, since duplicates are refused, replaced. */
static char text[8192];

static const struct {
    const char *key, *value;
} base_keys[] = {{"hidden_size", "64"},        {"intermediate_size", "160"}, {"num_hidden_layers", "4"},
                 {"num_attention_heads", "4"}, {"num_key_value_heads", "2"}, {"vocab_size", "384"},
                 {"rope_theta", "10000.0"},    {"rms_norm_eps", "1e-5"},     {"max_position_embeddings", "256"}};

static const char *make(const char *architecture, const char *more)
{
    size_t used = (size_t)snprintf(text, sizeof text, "{\"architectures\": [\"%s\"]", architecture);
    for (size_t i = 0; i < sizeof base_keys / sizeof base_keys[0]; i++) {
        char quoted[64];
        snprintf(quoted, sizeof quoted, "\"%s\":", base_keys[i].key);
        if (strstr(more, quoted) == more || strstr(more, quoted)) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, ", \"%s\": %s", base_keys[i].key, base_keys[i].value);
    }
    snprintf(text + used, sizeof text - used, "%s%s}", *more ? ", " : "", more);
    return text;
}

static lzt__model_config parse(const char *json)
{
    lzt_error err = {0};
    lzt__model_config c;
    if (lzt__model_config_parse(json, strlen(json), "config.json", &c, &err)) fail_msg("%s: %s", json, err.message);
    return c;
}

static void expect_error(const char *json, const char *word)
{
    lzt_error err = {0};
    lzt__model_config c;
    lzt_status status = lzt__model_config_parse(json, strlen(json), "config.json", &c, &err);
    if (status != LZT_ERR_MODEL) fail_msg("not refused: %s", json);
    if (!strstr(err.where, "config.json")) fail_msg("%s: the file is not named", json);
    if (!strstr(err.message, word)) fail_msg("%s: \"%s\" does not name %s", json, err.message, word);
}

static void sizes_and_defaults(void **state)
{
    (void)state;
    lzt__model_config c = parse(make("LlamaForCausalLM", ""));
    assert_int_equal(c.arch, LZT_ARCH_LLAMA);
    assert_int_equal(c.head_dim, 16);
    assert_int_equal(c.rotary_dim, 16);
    assert_false(c.tied || c.qkv_bias || c.qk_norm || c.quantized);
    assert_int_equal(c.bos_id, 1);
    assert_int_equal(c.eos_id_count, 1);
    assert_int_equal(c.eos_id[0], 2);
    assert_string_equal(c.not_trainable, "");
    lzt__model_config_fini(&c);
    c = parse(make("LlamaForCausalLM", "\"num_key_value_heads\": null, \"head_dim\": 8, \"tie_word_embeddings\": true, "
                                       "\"dtype\": \"bfloat16\", \"eos_token_id\": [5, 6], \"pad_token_id\": 3"));
    assert_int_equal(c.kv_heads, 4);
    assert_int_equal(c.head_dim, 8);
    assert_true(c.tied);
    assert_int_equal(c.dtype, LZT_DTYPE_BF16);
    assert_int_equal(c.eos_id_count, 2);
    assert_int_equal(c.eos_id[1], 6);
    assert_int_equal(c.pad_id, 3);
    const char *generation = "{\"eos_token_id\": 9}";
    assert_int_equal(lzt__model_config_generation(&c, generation, strlen(generation), "g", NULL), LZT_OK);
    assert_int_equal(c.eos_id_count, 1);
    assert_int_equal(c.eos_id[0], 9);
    lzt__model_config_fini(&c);
    c = parse(make("Qwen2ForCausalLM", "\"eos_token_id\": null"));
    assert_true(c.qkv_bias);
    assert_false(c.output_bias);
    assert_int_equal(c.eos_id_count, 0);
    lzt__model_config_fini(&c);
    c = parse(make("Qwen3ForCausalLM", ""));
    assert_int_equal(c.head_dim, 128); /* the class's own default */
    assert_true(c.qk_norm);
    lzt__model_config_fini(&c);
    c = parse(make("LlamaForCausalLM", "\"attention_bias\": true"));
    assert_true(c.qkv_bias && c.output_bias);
    assert_non_null(strstr(c.not_trainable, "o_proj"));
    lzt__model_config_fini(&c);
}

static void bad_sizes(void **state)
{
    (void)state;
    const char *a = "LlamaForCausalLM";
    expect_error(make(a, "\"hidden_size\": -64"), "hidden_size");
    expect_error(make(a, "\"hidden_size\": 0"), "hidden_size");
    expect_error(make(a, "\"hidden_size\": 1e3"), "hidden_size");
    expect_error(make(a, "\"hidden_size\": \"64\""), "hidden_size");
    expect_error(make(a, "\"hidden_size\": 65"), "hidden_size");
    expect_error(make(a, "\"vocab_size\": 4611686018427387904"), "vocab_size");
    expect_error(make(a, "\"num_hidden_layers\": 1000000"), "num_hidden_layers");
    expect_error(make(a, "\"num_key_value_heads\": 3"), "num_key_value_heads");
    expect_error(make(a, "\"num_attention_heads\": null"), "num_attention_heads");
    expect_error(make(a, "\"rms_norm_eps\": -1"), "rms_norm_eps");
    expect_error(make(a, "\"head_dim\": 15"), "head_dim");
    expect_error(make(a, "\"tie_word_embeddings\": 1"), "tie_word_embeddings");
    expect_error(make(a, "\"eos_token_id\": \"x\""), "eos_token_id");
    expect_error(make(a, "\"torch_dtype\": \"int8\""), "torch_dtype");
    expect_error(make(a, "\"torch_dtype\": \"float32\", \"dtype\": \"float16\""), "dtype");
    expect_error(make("MambaForCausalLM", ""), "architectures");
    expect_error("{\"hidden_size\": 64}", "architectures");
    expect_error("{\"hidden_size\": 64, \"hidden_size\": 65}", "duplicate");
    expect_error("[1]", "object");
    expect_error("{", "JSON");
    expect_error("", "JSON");
    expect_error(make("MixtralForCausalLM", "\"num_local_experts\": 2, \"num_experts_per_tok\": 3"),
                 "num_experts_per_tok");
}

static void windows(void **state)
{
    (void)state;
    lzt__model_config c = parse(make("MistralForCausalLM", "\"sliding_window\": 12"));
    assert_int_equal(c.layer[3].kind, LZT_LAYER_SLIDING_ATTENTION);
    assert_int_equal(c.layer[3].window, 12);
    lzt__model_config_fini(&c);
    c = parse(make("MistralForCausalLM", "\"sliding_window\": null"));
    assert_int_equal(c.layer[0].window, 0);
    lzt__model_config_fini(&c);
    c = parse(make("Qwen2ForCausalLM", "\"sliding_window\": 12, \"use_sliding_window\": false"));
    assert_int_equal(c.layer[0].window, 0);
    lzt__model_config_fini(&c);
    c = parse(
        make("Qwen2ForCausalLM", "\"sliding_window\": 12, \"use_sliding_window\": true, \"max_window_layers\": 3"));
    assert_int_equal(c.layer[2].window, 0);
    assert_int_equal(c.layer[3].window, 12);
    lzt__model_config_fini(&c);
    c = parse(make("Qwen3ForCausalLM", "\"sliding_window\": 12, \"use_sliding_window\": true, \"layer_types\": "
                                       "[\"sliding_attention\", \"full_attention\", \"full_attention\", "
                                       "\"sliding_attention\"]"));
    assert_int_equal(c.layer[0].window, 12);
    assert_int_equal(c.layer[1].window, 0);
    lzt__model_config_fini(&c);
    c = parse(make("LlamaForCausalLM", "\"sliding_window\": 12")); /* Llama ignores it */
    assert_int_equal(c.layer[0].window, 0);
    lzt__model_config_fini(&c);
    expect_error(make("MistralForCausalLM", "\"sliding_window\": -1"), "sliding_window");
    expect_error(make("Qwen3ForCausalLM", "\"layer_types\": [\"full_attention\"]"), "layer_types");
    expect_error(make("Qwen3ForCausalLM", "\"layer_types\": [\"a\", \"a\", \"a\", \"a\"]"), "layer_types");
    expect_error(make("Qwen3ForCausalLM", "\"layer_types\": [\"linear_attention\", \"full_attention\", "
                                          "\"full_attention\", \"full_attention\"]"),
                 "linear_attention");
    expect_error(make("Qwen3ForCausalLM", "\"layer_types\": [\"sliding_attention\", \"full_attention\", "
                                          "\"full_attention\", \"full_attention\"]"),
                 "sliding_window");
}

static void rope_spellings(void **state)
{
    (void)state;
    const char *a = "LlamaForCausalLM";
    const char *nested = "\"rope_theta\": null, \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 5e5}";
    lzt__model_config c = parse(make(a, nested));
    assert_true(c.rope.theta == 5e5 && !c.rope.theta_is_default);
    lzt__model_config_fini(&c);
    c = parse(make(a, "\"rope_theta\": 5e5, \"rope_parameters\": {\"rope_theta\": 500000}"));
    assert_true(c.rope.theta == 5e5);
    lzt__model_config_fini(&c);
    c = parse(make(a, "\"rope_theta\": null"));
    assert_true(c.rope.theta == 1e4 && c.rope.theta_is_default);
    lzt__model_config_fini(&c);
    c = parse(make(a, "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 4.0}"));
    assert_int_equal(c.rope.type, LZT_ROPE_LINEAR);
    lzt__model_config_fini(&c);
    expect_error(make(a, "\"rope_theta\": 1e6, \"rope_parameters\": {\"rope_theta\": 5e5}"), "rope_theta");
    expect_error(make(a, "\"rope_theta\": -1"), "rope_theta");
    expect_error(make(a, "\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4.0}"), "dynamic");
    expect_error(make(a, "\"rope_scaling\": {\"rope_type\": \"longrope\", \"factor\": 4.0}"), "longrope");
    expect_error(make(a, "\"rope_scaling\": {\"factor\": 4.0}"), "rope_type");
    expect_error(make(a, "\"rope_scaling\": {\"type\": \"linear\", \"rope_type\": \"yarn\", \"factor\": 4}"), "type");
    expect_error(make(a, "\"rope_scaling\": {\"type\": \"linear\"}"), "rope_scaling.factor");
    expect_error(make(a, "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}"), "rope_scaling.factor");
    expect_error(make(a, "\"rope_scaling\": 4"), "rope_scaling");
    expect_error(make(a, "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 4.0}, "
                         "\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2.0}"),
                 "rope_scaling");
    expect_error(make(a, "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, "
                         "\"high_freq_factor\": 1, \"original_max_position_embeddings\": 32}"),
                 "high_freq_factor");
}

static void expect_frequencies(const char *rope, const double *want, double want_factor)
{
    lzt__model_config c = parse(make("LlamaForCausalLM", rope));
    float got[8];
    double factor;
    lzt__model_inv_freq(&c.rope, 16, got, &factor);
    assert_true(fabs(factor - want_factor) < 1e-12);
    for (int i = 0; i < 8; i++)
        if (fabs(got[i] - want[i]) > 1e-7 * fabs(want[i]))
            fail_msg("%s [%d]: %.9g, not %.9g", rope, i, got[i], want[i]);
    lzt__model_config_fini(&c);
}

#include "model_rope_values.h"

static void frequencies(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rope_cases / sizeof rope_cases[0]; i++)
        expect_frequencies(rope_cases[i].settings, rope_cases[i].inv_freq, rope_cases[i].attention_factor);
}

static void nested_text_config(void **state)
{
    (void)state;
    const char *json =
        "{\"architectures\": [\"Qwen3_5ForConditionalGeneration\"], \"tie_word_embeddings\": true, \"text_config\": {"
        "\"hidden_size\": 64, \"intermediate_size\": 160, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, "
        "\"num_key_value_heads\": 2, \"head_dim\": 32, \"vocab_size\": 384, \"dtype\": \"bfloat16\", \"eos_token_id\": "
        "7, \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1e7, \"partial_rotary_factor\": 0.25}}}";
    lzt__model_config c = parse(json);
    assert_int_equal(c.arch, LZT_ARCH_QWEN3_5);
    assert_true(c.wrapped && c.tied);
    assert_int_equal(c.rotary_dim, 8);
    assert_int_equal(c.dtype, LZT_DTYPE_BF16);
    assert_int_equal(c.eos_id[0], 7);
    assert_int_equal(c.layer[2].kind, LZT_LAYER_LINEAR_ATTENTION);
    assert_int_equal(c.layer[3].kind, LZT_LAYER_FULL_ATTENTION);
    lzt__model_config_fini(&c);
    expect_error("{\"architectures\": [\"Qwen3_5ForConditionalGeneration\"], \"text_config\": {}}",
                 "text_config.num_hidden_layers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_defaults), cmocka_unit_test(bad_sizes),   cmocka_unit_test(windows),
        cmocka_unit_test(rope_spellings),     cmocka_unit_test(frequencies), cmocka_unit_test(nested_text_config)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
