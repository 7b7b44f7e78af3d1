/* Goal: a config means what it says or is refused with file and line. Method: small YAML texts through
 * lzt_config_load_text, compared by field, by origin, or by error text; scenarios C2 to C4 of the bug log; every key of
 * the schema set once; the resolved config loaded again. */
#include "config/key_value.h"
#include "config/schema.h"
#include "lazytrain/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static lzt_config config;
static lzt_error err;

static lzt_status load(const char *yaml)
{
    lzt_config_fini(&config);
    err = (lzt_error){0};
    return lzt_config_load_text("c.yaml", yaml, strlen(yaml), NULL, 0, &config, &err);
}

static lzt_status load_with(const char *yaml, const char *key, const char *value)
{
    lzt_config_override override = {key, value};
    lzt_config_fini(&config);
    err = (lzt_error){0};
    return lzt_config_load_text("c.yaml", yaml, strlen(yaml), &override, 1, &config, &err);
}

static void refuse(const char *yaml, const char *where, const char *message, const char *hint)
{
    assert_int_equal(load(yaml), LZT_ERR_USAGE);
    assert_string_equal(err.where, where);
    assert_string_equal(err.message, message);
    if (hint) assert_string_equal(err.hint, hint);
    assert_null(config.private_data);
}

static const char *origin(const char *key)
{
    static char text[512];
    return lzt_config_origin(&config, key, text, sizeof text);
}

static void flat_and_sections_alike(void **state)
{
    (void)state;
    assert_int_equal(load("learning_rate: 1e-4\nmax_seq_length: 1_024\nmodel_name_or_path: dir\n"
                          "memory:\n  device_cap: 70GiB\n"),
                     LZT_OK);
    assert_true(config.learning_rate == 1e-4);
    assert_int_equal(config.max_seq_length, 1024);
    assert_int_equal(config.memory.device_cap, UINT64_C(70) << 30);
    assert_string_equal(config.model_name_or_path, "dir");
    assert_string_equal(origin("memory.device_cap"), "c.yaml:5");
    assert_string_equal(origin("seed"), "default");
    assert_int_equal(load("training:\n  learning_rate: 1e-4\ndata: {cutoff_len: 1024}\nmodel:\n  name: dir\n"
                          "device_cap: 70GiB\n"),
                     LZT_OK);
    assert_true(config.learning_rate == 1e-4);
    assert_int_equal(config.max_seq_length, 1024);
    assert_int_equal(config.memory.device_cap, UINT64_C(70) << 30);
    assert_string_equal(config.model_name_or_path, "dir");
}

/* The shipped shape of the source's configs, and one of LLaMA-Factory's. */
static void other_trainers_load(void **state)
{
    (void)state;
    assert_int_equal(load("model: {name: Qwen/Qwen3-8B, dtype: bfloat16, device: 0, attn_implementation: sdpa}\n"
                          "dataset: {path: rows.jsonl, max_seq_len: 1024, query_field: query, response_field: response,"
                          " train_on_prompt: false, num_workers: 2}\n"
                          "training: {batch_size: 72, gradient_accumulation_steps: 1, num_steps: 100,\n"
                          "  learning_rate: 1.0e-5, weight_decay: 0.01, max_grad_norm: 1.0, seed: 42}\n"
                          "optimizer: {type: deepspeed_adam, beta1: 0.9, beta2: 0.95, eps: 1e-8}\n"
                          "memory: {checkpoint_interval: 4, num_grad_slabs: 12}\n"
                          "logging: {log_interval: 1, enable_timing: true}\n"),
                     LZT_OK);
    assert_int_equal(config.per_device_train_batch_size, 72);
    assert_int_equal(config.max_steps, 100);
    assert_true(config.bf16);
    assert_true(config.adam_beta2 == 0.95);
    assert_int_equal(config.logging_steps.steps, 1);
    assert_int_equal(config.note.count, 5);
    assert_string_equal(config.note.item[0], "model.device has no effect: A device is chosen by the key device.");
    assert_int_equal(load("model_name_or_path: m\nstage: sft\ndo_train: true\nfinetuning_type: full\n"
                          "dataset: d.jsonl\ncutoff_len: 2048\noverwrite_cache: true\noutput_dir: o\n"
                          "per_device_train_batch_size: 1\nlearning_rate: 1.0e-5\nnum_train_epochs: 3.0\n"
                          "lr_scheduler_type: cosine\nwarmup_ratio: 0.1\nbf16: true\nddp_timeout: 180000000\n"
                          "resume_from_checkpoint: null\nreport_to: none\n"),
                     LZT_OK);
    assert_true(config.warmup_steps.ratio == 0.1);
    assert_int_equal(config.lr_scheduler_type, LZT_CONFIG_SCHEDULE_COSINE);
    assert_string_equal(config.resume_from_checkpoint, "auto");
    refuse("finetuning_type: lora\n", "c.yaml:1", "finetuning_type: 'lora' is not one of full", NULL);
}

static void unknown_keys_name_the_nearest(void **state)
{
    (void)state;
    refuse("seed: 1\nlerning_rate: 1\n", "c.yaml:2", "unknown key lerning_rate", "did you mean learning_rate?");
    refuse("memory:\n  device_cop: 1\n", "c.yaml:2", "unknown key memory.device_cop",
           "did you mean memory.device_cap?");
    refuse("trainig:\n  learning_rate: 1\n", "c.yaml:2", "unknown key trainig.learning_rate", NULL);
    refuse("zzzzzz: 1\n", "c.yaml:1", "unknown key zzzzzz",
           "docs/config.md lists the keys; keys that begin with x- are yours");
    refuse("zzzz: {}\n", "c.yaml:1", "unknown key zzzz", NULL);
    assert_int_equal(load_with("", "learning-rte", "1"), LZT_ERR_USAGE);
    assert_string_equal(err.where, "command line");
    assert_string_equal(err.hint, "did you mean learning_rate?");
}

static void own_keys_are_allowed(void **state)
{
    (void)state;
    assert_int_equal(load("x-note: hello\nx-tree: {a: [1, {b: 2}]}\nmemory: {x-mine: 1}\nnumerics: {}\nlogging:\n"),
                     LZT_OK);
}

/* C3: the same key twice is an error with both lines, also under two names. */
static void keys_given_twice(void **state)
{
    (void)state;
    refuse("seed: 1\nbf16: true\nseed: 1\n", "c.yaml:3", "seed is given twice: first on line 1, again here", NULL);
    refuse("learning_rate: 1\ntraining:\n  lr: 1\n", "c.yaml:3",
           "learning_rate is given twice: first on line 1, again here as training.lr", NULL);
    refuse("memory: {plan: auto}\nseed: 1\nmemory: {host_cap: 0}\n", "c.yaml:3",
           "memory is given twice: first on line 1, again here", NULL);
    lzt_config_override twice[] = {{"seed", "1"}, {"random_seed", "2"}};
    assert_int_equal(lzt_config_load_text("c.yaml", "", 0, twice, 2, &config, &err), LZT_ERR_USAGE);
    assert_string_equal(err.message, "seed is given twice");
}

/* C2: numbers are typed by the schema. */
static void numbers(void **state)
{
    (void)state;
    static const char *const rates[] = {"2e-5", "2.0e-5", "2E-05", "0.00002", "\"2e-5\""};
    char yaml[128], resolved[2][64] = {"", ""};
    for (size_t i = 0; i < 5; i++) {
        snprintf(yaml, sizeof yaml, "learning_rate: %s\n", rates[i]);
        assert_int_equal(load(yaml), LZT_OK);
        assert_true(config.learning_rate == 2e-5);
        lzt__value_print(lzt__schema_key(lzt__schema_find("learning_rate")), &config, true, resolved[i > 0], 64);
        assert_string_equal(resolved[i > 0], "2e-05");
    }
    assert_int_equal(load("max_steps: 1e9\n"), LZT_OK);
    assert_int_equal(config.max_steps, 1000000000);
    refuse("max_steps: 1e3.5\n", "c.yaml:1", "max_steps: '1e3.5' is not a whole number", NULL);
    refuse("max_steps: 07\n", "c.yaml:1", "max_steps: '07' has a leading zero", NULL);
    refuse("\nmax_steps: \"12 \"\n", "c.yaml:2", "max_steps: '12 ' is not a whole number", NULL);
    refuse("max_steps: 12x\n", "c.yaml:1", "max_steps: '12x' is not a whole number", NULL);
    refuse("max_steps:\n", "c.yaml:1", "max_steps has no value", "write null for the default");
    refuse("max_steps: ''\n", "c.yaml:1", "max_steps: '' is empty", NULL);
    refuse("weight_decay: nan\n", "c.yaml:1", "weight_decay: 'nan' is not a number", NULL);
    refuse("weight_decay: .inf\n", "c.yaml:1", "weight_decay: '.inf' is not finite", NULL);
    refuse("learning_rate: -1e-5\n", "c.yaml:1", "learning_rate: '-1e-5' is below the least value 0", NULL);
    refuse("max_steps: [1]\n", "c.yaml:1", "max_steps takes one value, not a list", NULL);
    refuse("max_steps: {a: 1}\n", "c.yaml:1", "unknown key max_steps.a", NULL);
    refuse("bf16: 1\n", "c.yaml:1", "bf16: '1' is not true or false", NULL);
    refuse("memory: {device_cap: 70Gi}\n", "c.yaml:1",
           "memory.device_cap: '70Gi' is not a size, such as 70GiB, 200MB or 4096", NULL);
}

/* C4: zero is honoured or refused. */
static void explicit_zeros(void **state)
{
    (void)state;
    static const char *const refused[] = {"per_device_train_batch_size",
                                          "max_seq_length",
                                          "gradient_accumulation_steps",
                                          "save_total_limit",
                                          "memory.checkpoint_interval",
                                          "numerics.threads",
                                          "num_train_epochs",
                                          "max_nonfinite_steps",
                                          "per_device_eval_batch_size",
                                          "max_samples"};
    char yaml[128];
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        for (int value = -1; value <= 0; value++) {
            snprintf(yaml, sizeof yaml, "%s: %d\n", refused[i], value);
            assert_int_equal(load(yaml), LZT_ERR_USAGE);
        }
    assert_int_equal(load("max_steps: 0\nwarmup_steps: 0\nsave_steps: 0\nlogging_steps: 0\neval_steps: 0\n"
                          "memory: {lazy_nvme_prefetch_distance: 0}\nmax_grad_norm: 0\nlearning_rate: 0\nseed: 0\n"),
                     LZT_OK);
    assert_int_equal(config.max_steps, 0);
    assert_true(config.max_grad_norm == 0 && config.learning_rate == 0);
    assert_int_equal(config.seed, 0);
    assert_int_equal(config.data_seed, 0);
    assert_int_equal(config.save_steps.steps, 0);
    assert_int_equal(load("max_steps: -1\n"), LZT_OK);
    assert_int_equal(load("max_steps: -2\n"), LZT_ERR_USAGE);
    assert_int_equal(load("memory: {lazy_nvme_prefetch_distance: -1}\n"), LZT_ERR_USAGE);
    assert_int_equal(load("warmup_steps: -1\n"), LZT_ERR_USAGE);
}

static void nulls_are_defaults(void **state)
{
    (void)state;
    assert_int_equal(load("max_grad_norm: null\nmax_steps: null\neval_dataset:\nsave_total_limit: ~\n"), LZT_OK);
    assert_true(config.max_grad_norm == 0);
    assert_int_equal(config.max_steps, -1);
    assert_null(config.eval_dataset);
    assert_string_equal(origin("max_steps"), "default");
    assert_string_equal(origin("max_grad_norm"), "c.yaml:1");
    assert_int_equal(load("eval_dataset: 'null'\n"), LZT_OK);
    assert_string_equal(config.eval_dataset, "null");
}

static void yaml_that_is_refused(void **state)
{
    (void)state;
    refuse("seed: &a 1\n", "c.yaml:1", "YAML anchors (&name) are not allowed", NULL);
    refuse("seed: 1\nbf16: *a\n", "c.yaml:2", "YAML aliases (*name) are not allowed; write the value out", NULL);
    refuse("seed: !!str 1\n", "c.yaml:1", "YAML tags (!name) are not allowed; the schema types every value", NULL);
    refuse("- 1\n", "c.yaml:1", "a config is a list of `key: value` lines", NULL);
    refuse("seed: 1\n---\nseed: 2\n", "c.yaml:2", "a config is one YAML document; a second one begins here", NULL);
    refuse("freeze: [[a]]\n", "c.yaml:1", "a list may hold single values only", NULL);
    refuse("dataset: |\n  a\n  b\n", "c.yaml:1", "a value must stand on one line", NULL);
    refuse("dataset: \"a\\0b\"\n", "c.yaml:1", "a NUL byte is not allowed", NULL);
    refuse("? [a]\n: 1\n", "c.yaml:1", "a key must be a word", NULL);
    assert_int_equal(load("a: {b: [\n"), LZT_ERR_USAGE);
    assert_int_equal(load("seed: 1\n\tbf16: true\n"), LZT_ERR_USAGE);
    assert_int_equal(load("\xff\xfe\x01"), LZT_ERR_USAGE);
    assert_int_equal(load(""), LZT_OK);
    assert_int_equal(load("# nothing\n"), LZT_OK);
}

static void warmup_as_steps_or_ratio(void **state)
{
    (void)state;
    assert_int_equal(load("warmup_steps: 0.1\n"), LZT_OK);
    assert_int_equal(lzt_steps_of(config.warmup_steps, 101), 11);
    assert_int_equal(load("warmup_steps: 10.0\n"), LZT_OK);
    assert_int_equal(lzt_steps_of(config.warmup_steps, 101), 10);
    assert_int_equal(load("warmup_ratio: 0.25\n"), LZT_OK);
    assert_int_equal(lzt_steps_of(config.warmup_steps, 100), 25);
    assert_string_equal(origin("warmup_steps"), "c.yaml:1");
    refuse("warmup_ratio: 0.1\nwarmup_steps: 5\n", "c.yaml:2", "warmup_steps and warmup_ratio are both given",
           "keep one of them");
    refuse("warmup_steps: 1.5\n", "c.yaml:1",
           "warmup_steps: '1.5' is neither a whole number of steps nor a ratio below 1", NULL);
    assert_int_equal(load_with("warmup_ratio: 0.1\n", "warmup_steps", "3"), LZT_OK);
    assert_int_equal(lzt_steps_of(config.warmup_steps, 100), 3);
    assert_int_equal(load_with("warmup_steps: 3\n", "warmup-ratio", "0.5"), LZT_OK);
    assert_int_equal(lzt_steps_of(config.warmup_steps, 100), 50);
    assert_int_equal(load("warmup_ratio: 0\nwarmup_steps: null\n"), LZT_OK);
    assert_int_equal(lzt_steps_of(config.warmup_steps, 100), 0);
}

static void words_for_one_setting(void **state)
{
    (void)state;
    assert_int_equal(load("train_on_prompt: true\n"), LZT_OK);
    assert_int_equal(config.loss_on, LZT_CONFIG_LOSS_ALL);
    assert_int_equal(load("mask_history: true\n"), LZT_OK);
    assert_int_equal(config.loss_on, LZT_CONFIG_LOSS_LAST);
    refuse("mask_history: true\ntrain_on_inputs: true\n", "c.yaml:2", "train_on_prompt and mask_history are both given",
           NULL);
    refuse("loss_on: all\nmask_history: true\n", "c.yaml:2", "loss_on and mask_history are both given", NULL);
    assert_int_equal(load("eval_dataset: e\neval_steps: 5\neval_strategy: no\n"), LZT_OK);
    assert_null(config.eval_dataset);
    assert_int_equal(load("eval_steps: 5\neval_strategy: epoch\nsave_strategy: no\n"), LZT_OK);
    assert_int_equal(config.eval_steps.steps, 0);
    assert_int_equal(config.save_steps.steps, 0);
    refuse("query_field: q\n", "c.yaml:1", "query_field and response_field go together", NULL);
    assert_int_equal(load("memory:\n  state_tier: cpu\n"), LZT_OK);
    assert_int_equal(config.memory.state_tier_moments, LZT_CONFIG_TIER_CPU);
    assert_int_equal(load("memory:\n  state_tier: {moments: cpu}\n"), LZT_OK);
    assert_int_equal(config.memory.state_tier_moments, LZT_CONFIG_TIER_CPU);
    assert_int_equal(config.memory.state_tier_weights, LZT_CONFIG_TIER_AUTO);
    assert_int_equal(load("resume_from_checkpoint: false\n"), LZT_OK);
    assert_string_equal(config.resume_from_checkpoint, "none");
}

static void overrides_win(void **state)
{
    (void)state;
    assert_int_equal(load_with("seed: 1\n", "seed", "7"), LZT_OK);
    assert_int_equal(config.seed, 7);
    assert_string_equal(origin("seed"), "command line");
    assert_int_equal(load_with("bf16: false\n", "bf16", NULL), LZT_OK);
    assert_true(config.bf16);
    assert_int_equal(load_with("", "memory.device-cap", "200MiB"), LZT_OK);
    assert_int_equal(config.memory.device_cap, 200 << 20);
    assert_int_equal(load_with("", "seed", NULL), LZT_ERR_USAGE);
    assert_string_equal(err.message, "--seed needs a value");
    assert_int_equal(load_with("", "seed", ""), LZT_ERR_USAGE);
    assert_int_equal(load_with("freeze: []\n", "freeze", ""), LZT_OK);
    assert_int_equal(load_with("", "output_dir", "caf\xe9"), LZT_ERR_USAGE);
    assert_string_equal(err.message, "output_dir: 'caf\xe9' is not UTF-8");
}

/* C3: no accepted value is without effect: features that do not exist are refused by name. */
static void features_that_do_not_exist_yet(void **state)
{
    (void)state;
    int seen = 0;
    for (int i = 0; i < lzt__schema_count(); i++) {
        const lzt_key *key = lzt__schema_key(i);
        const char *value;
        if (!key->not_yet) continue;
        if (strcmp(key->not_yet, "*")) {
            value = key->not_yet;
        } else if (key->choices) {
            value = strchr(key->choices, '|') + 1; /* the second and what follows: refused as a word or as missing */
        } else {
            value = key->type == LZT_KEY_REAL ? "0.5" : key->type == LZT_KEY_SIZE ? "1GiB" : "3";
        }
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(value, "|*"), value);
        assert_int_equal(load_with("", key->name, word), LZT_ERR_USAGE);
        assert_non_null(strstr(err.message, "is not implemented yet"));
        assert_non_null(strstr(err.message, key->name));
        seen++;
    }
    assert_true(seen > 0);
}

static void refused(const char *text, const char *says)
{
    assert_int_equal(load(text), LZT_ERR_USAGE);
    if (!strstr(err.message, says)) fail_msg("%s", err.message);
}

static void datasets_and_their_weights(void **state)
{
    (void)state;
    assert_int_equal(load("dataset: a, b\ndataset_dir: data\nmix_strategy: interleave_under\ninterleave_probs: 0.7, 3\n"
                          "val_size: 0.1\nstreaming: true\n"),
                     LZT_OK);
    assert_int_equal(config.mix_strategy, LZT_CONFIG_MIX_INTERLEAVE_UNDER);
    assert_int_equal(config.mix_weight_count, 2);
    assert_true(config.mix_weight[0] == 0.7 && config.mix_weight[1] == 3);
    assert_int_equal(load("mix_strategy: interleave_over\ninterleave_probs: [1, 1e-1, 2]\n"), LZT_OK);
    assert_int_equal(config.mix_weight_count, 3);
    assert_true(config.mix_weight[1] == 0.1);
    refused("interleave_probs: 0.5\n", "has no effect with mix_strategy: concat");
    refused("mix_strategy: interleave_over\ninterleave_probs: 0.5,x\n", "interleave_probs: '0.5,x' is not a number");
    refused("mix_strategy: interleave_over\ninterleave_probs: [1, 0]\n", "interleave_probs: '0' is not above 0");
    refused("val_size: 0.1\neval_dataset: e.jsonl\n", "val_size and eval_dataset are both given");
    refused("val_size: 2.5\n", "val_size: 2.5 is neither a share below 1 nor a number of rows");
    assert_int_equal(load("val_size: 0.1\neval_strategy: no\n"), LZT_OK);
    assert_true(config.val_size == 0);
}

static void print(const lzt_key *key, const lzt_config *from, char text[512])
{
    assert_true(lzt__value_print(key, from, true, text, 512));
}

/* C3: for every key, one value that is not the default reaches its field, and no other. */
static void every_key_reaches_its_field(void **state)
{
    (void)state;
    lzt_config defaults = {0};
    assert_int_equal(lzt_config_load_text("c", "", 0, NULL, 0, &defaults, &err), LZT_OK);
    for (int i = 0; i < lzt__schema_count(); i++) {
        const lzt_key *key = lzt__schema_key(i);
        if (key->type == LZT_KEY_NONE) continue;
        char before[512], after[512];
        print(key, &defaults, before);
        static const char *const tries[] = {"true", "false", "0.5", "3", "5", "word", "cpu-checked", "adamw"};
        bool changed = false;
        for (size_t t = 0; t < sizeof tries / sizeof tries[0] && !changed; t++) {
            const char *partner = !strcmp(key->name, "query_field")        ? "response_field: r\n"
                                  : !strcmp(key->name, "response_field")   ? "query_field: q\n"
                                  : !strcmp(key->name, "interleave_probs") ? "mix_strategy: interleave_over\n"
                                                                           : "";
            if (load_with(partner, key->name, tries[t])) continue;
            print(key, &config, after);
            changed = strcmp(before, after) != 0;
        }
        const char *words = key->choices ? strchr(key->choices, '|') : NULL;
        if (!changed && words) {
            char word[64];
            snprintf(word, sizeof word, "%.*s", (int)strcspn(words + 1, "|"), words + 1);
            if (!load_with("", key->name, word)) {
                print(key, &config, after);
                changed = strcmp(before, after) != 0;
            }
        }
        bool is_folded = !strcmp(key->name, "warmup_ratio") || !strcmp(key->name, "train_on_prompt") ||
                         !strcmp(key->name, "mask_history") || !strcmp(key->name, "optim");
        if (!changed && !key->not_yet && !is_folded) fail_msg("%s cannot be changed", key->name);
    }
    lzt_config_fini(&defaults);
}

static void resolved_config_loads_as_the_same(void **state)
{
    (void)state;
    char path[] = "/tmp/lzt-config-XXXXXX", first[16384] = "", second[16384] = "";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(
        load("model_name_or_path: \"a b\\\"c\\\\ \\u00e9\\u2028\\x01\\u0085\"\ndataset: ~/x\noutput_dir: 'null'\n"
             "warmup_ratio: 0.03\nlearning_rate: 1.2345678901234567e-5\nbf16: auto\n"
             "memory: {device_cap: 1.5GiB, link_gbps: 12.5, state_tier: {master: cpu}}\nmax_grad_norm: ~\n"
             "lr_scheduler_type: wsd\nlr_scheduler_kwargs: {num_decay_steps: 7}\n"),
        LZT_OK);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(lzt_config_write_resolved(&config, path, &err), LZT_OK);
        FILE *in = fopen(path, "r");
        assert_non_null(in);
        char line[1024], *to = round ? second : first;
        while (fgets(line, sizeof line, in)) {
            line[strcspn(line, "#")] = 0;
            strcat(to, line);
        }
        fclose(in);
        if (round) break;
        lzt_config_fini(&config);
        assert_int_equal(lzt_config_load(path, NULL, 0, &config, &err), LZT_OK);
    }
    assert_string_equal(first, second);
    assert_string_equal(config.model_name_or_path, "a b\"c\\ \xc3\xa9\xe2\x80\xa8\x01\xc2\x85");
    assert_string_equal(config.output_dir, "null");
    assert_true(config.learning_rate == 1.2345678901234567e-5);
    unlink(path);
}

static void missing_files_and_keys(void **state)
{
    (void)state;
    assert_int_equal(lzt_config_load("/nonexistent/c.yaml", NULL, 0, &config, &err), LZT_ERR_USAGE);
    assert_string_equal(err.where, "/nonexistent/c.yaml");
    assert_int_equal(lzt_config_load("/", NULL, 0, &config, &err), LZT_ERR_USAGE);
    assert_int_equal(load("dataset: d\n"), LZT_OK);
    assert_int_equal(lzt_config_require(&config, "dataset", &err), LZT_OK);
    assert_int_equal(lzt_config_require(&config, "output_dir", &err), LZT_ERR_USAGE);
    assert_string_equal(err.message, "output_dir is missing");
}

static int drop(void **state)
{
    (void)state;
    lzt_config_fini(&config);
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, drop)

static void a_dry_run_takes_what_only_plans_use(void **state)
{
    (void)state;
    const lzt_config_override planned[] = {{"memory.lazy_nvme_offload_dir", "spill"},
                                           {"optimizer.moments", "hybrid_8bit_adam"}};
    const lzt_config_override never[] = {{"fp16", "true"}};
    assert_int_equal(lzt_config_load(NULL, planned, 2, &config, &err), LZT_ERR_USAGE);
    assert_int_equal(lzt_config_load_to_plan(NULL, planned, 2, &config, &err), LZT_OK);
    assert_string_equal(config.memory.lazy_nvme_offload_dir, "spill");
    assert_int_equal(config.note.count, 2);
    assert_non_null(strstr(config.note.item[0], "memory.lazy_nvme_offload_dir: spill is planned with"));
    lzt_config_fini(&config);
    assert_int_equal(lzt_config_load_to_plan(NULL, never, 1, &config, &err), LZT_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(flat_and_sections_alike),
        TEST(other_trainers_load),
        TEST(unknown_keys_name_the_nearest),
        TEST(own_keys_are_allowed),
        TEST(keys_given_twice),
        TEST(numbers),
        TEST(explicit_zeros),
        TEST(nulls_are_defaults),
        TEST(yaml_that_is_refused),
        TEST(warmup_as_steps_or_ratio),
        TEST(words_for_one_setting),
        TEST(overrides_win),
        TEST(features_that_do_not_exist_yet),
        TEST(datasets_and_their_weights),
        TEST(every_key_reaches_its_field),
        TEST(resolved_config_loads_as_the_same),
        TEST(missing_files_and_keys),
        TEST(a_dry_run_takes_what_only_plans_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
