/* Goal: gate 9 of the spine: malformed input ends with the documented exit code and a message that names file and
 * place; nothing is left behind, nothing crashes.
 *
 * Method: a small model, rows, a config and a plan that work; then one thing is wrong at a time, and `lazytrain train`
 * is run. Each case states the exit code, the words that the message must hold, and that out/ was not made.
 */
#include "program_run.h"

static tiny good;

static void reset(void)
{
    tiny_free(&good);
    good = (tiny){0};
    tiny_init(&good);
    tiny_put(&good, "model");
    put_text("rows.jsonl", "{\"input_ids\":[1,5,6,7,8]}\n{\"input_ids\":[1,9,10,11]}\n{\"input_ids\":[1,12,13]}\n");
    put_config("model", "rows.jsonl", "");
    shell("true");
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s/out", run_folder);
    assert_int_equal(shell(command), 0);
}

/* train must end with code, and say each of the words (NULL ends them). */
static void refused(const char *what, int code, const char *word, const char *second)
{
    int got = run("train c.yaml");
    if (got != code) fail_msg("%s: exit %d, not %d: %s", what, got, code, run_err);
    if (!strstr(run_err, word)) fail_msg("%s: no \"%s\" in: %s", what, word, run_err);
    if (second && !strstr(run_err, second)) fail_msg("%s: no \"%s\" in: %s", what, second, run_err);
    if (exists("out")) fail_msg("%s: left out/ behind", what);
    assert_string_equal(run_out, "");
    reset();
}

static void the_good_case_runs(void **state)
{
    (void)state;
    reset();
    must_run("train c.yaml");
    assert_true(exists("out/final/config.json") && exists("out/metrics.jsonl") && exists("out/plan.json"));
    reset();
}

/* ---- safetensors ---- */

static void cut_files(void **state)
{
    (void)state;
    size_t bytes;
    reset();
    char *whole = get_bytes("model/model.safetensors", &bytes);
    const size_t cuts[] = {0, 4, 8, 100, bytes / 2, bytes - 1};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        char what[64];
        snprintf(what, sizeof what, "cut to %zu bytes", cuts[i]);
        put_bytes("model/model.safetensors", whole, cuts[i]);
        refused(what, 5, "model.safetensors", NULL);
    }
    char *longer = calloc(bytes + 8, 1);
    memcpy(longer, whole, bytes);
    put_bytes("model/model.safetensors", longer, bytes + 8);
    refused("bytes after the end", 5, "model.safetensors", NULL);
    free(longer);
    free(whole);
}

static void bad_headers(void **state)
{
    (void)state;
    static const struct {
        const char *what, *header;
        long long length;
    } cases[] = {
        {"a length of 2^62", NULL, 1LL << 62},
        {"a length of 0", NULL, 0},
        {"a length over the file", NULL, 1LL << 30},
        {"not JSON", "{\"a\":", -1},
        {"an array", "[1,2,3]", -1},
        {"no object", "{\"lm_head.weight\":7}", -1},
        {"NUL inside", "{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", -1},
    };
    reset();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tiny_put_weights(&good, "model/model.safetensors", cases[i].header, cases[i].length);
        refused(cases[i].what, 5, "model.safetensors", NULL);
    }
    char *deep = calloc(200001, 1);
    memset(deep, '[', 100000);
    memset(deep + 100000, ']', 100000);
    tiny_put_weights(&good, "model/model.safetensors", deep, -1);
    free(deep);
    refused("100,000 brackets", 5, "model.safetensors", NULL);
}

typedef void spoil(tiny *t);

static void overlap(tiny *t)
{
    tiny_tensor *x = tiny_find(t, "model.layers.1.self_attn.k_proj.weight");
    x->begin -= 64, x->end -= 64;
}
static void hole(tiny *t)
{
    for (int i = 1; i < t->count; i++) t->tensor[i].begin += 4, t->tensor[i].end += 4;
    t->bytes += 4;
    t->data = realloc(t->data, (size_t)t->bytes);
    t->data[t->bytes / 4 - 1] = 0;
}
static void beyond(tiny *t)
{
    tiny_tensor *x = tiny_find(t, "lm_head.weight");
    x->begin += 1 << 20, x->end += 1 << 20;
}
static void backwards(tiny *t)
{
    tiny_tensor *x = tiny_find(t, "lm_head.weight");
    long long begin = x->begin;
    x->begin = x->end, x->end = begin;
}
static void negative_offset(tiny *t)
{
    tiny_find(t, "model.embed_tokens.weight")->begin = -4;
}
static void negative_shape(tiny *t)
{
    tiny_find(t, "lm_head.weight")->shape[0] = -259;
}
static void shape_overflows(tiny *t)
{
    tiny_tensor *x = tiny_find(t, "lm_head.weight");
    x->shape[0] = 1LL << 40, x->shape[1] = 1LL << 40;
}
static void unknown_dtype(tiny *t)
{
    tiny_find(t, "lm_head.weight")->dtype = "F33";
}
static void integer_dtype(tiny *t)
{
    tiny_find(t, "lm_head.weight")->dtype = "I32";
}
static void wrong_shape(tiny *t)
{
    tiny_tensor *x = tiny_find(t, "model.layers.2.mlp.up_proj.weight");
    x->shape[0] = 80, x->shape[1] = 128;
}
static void transposed(tiny *t)
{
    tiny_tensor *x = tiny_find(t, "model.layers.0.mlp.down_proj.weight");
    x->shape[0] = t->ffn, x->shape[1] = t->hidden;
}
static void named_twice(tiny *t)
{
    snprintf(tiny_find(t, "model.layers.3.mlp.up_proj.weight")->name, 64, "model.layers.3.mlp.gate_proj.weight");
}
static void one_missing(tiny *t)
{
    snprintf(tiny_find(t, "model.layers.3.mlp.up_proj.weight")->name, 64, "model.layers.3.mlp.other.weight");
}
static void no_head(tiny *t)
{
    t->bytes = tiny_find(t, "lm_head.weight")->begin;
    tiny_remove(t, "lm_head.weight");
}

static void bad_tensors(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        spoil *spoil;
        const char *word, *second;
    } cases[] = {
        {"overlapping offsets", overlap, "model.safetensors", "model.layers.1.self_attn.k_proj.weight"},
        {"a hole", hole, "model.safetensors", NULL},
        {"offsets beyond the end", beyond, "model.safetensors", "lm_head.weight"},
        {"begin after end", backwards, "model.safetensors", "lm_head.weight"},
        {"a negative offset", negative_offset, "model.safetensors", "byte"},
        {"a negative size", negative_shape, "model.safetensors", "byte"},
        {"a shape that overflows", shape_overflows, "model.safetensors", "lm_head.weight"},
        {"an unknown dtype", unknown_dtype, "model.safetensors", "lm_head.weight"},
        {"an integer dtype", integer_dtype, "model", "lm_head.weight"},
        {"a wrong shape", wrong_shape, "model", "model.layers.2.mlp.up_proj.weight"},
        {"a transposed shape", transposed, "model", "model.layers.0.mlp.down_proj.weight"},
        {"a name given twice", named_twice, "model.safetensors", "model.layers.3.mlp.gate_proj.weight"},
        {"a missing tensor", one_missing, "model", "model.layers.3.mlp.up_proj.weight"},
        {"a missing head", no_head, "model", "lm_head.weight"},
    };
    reset();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cases[i].spoil(&good);
        tiny_put_weights(&good, "model/model.safetensors", NULL, -1);
        refused(cases[i].what, 5, cases[i].word, cases[i].second);
    }
}

/* ---- shards ---- */

/* Three shards and their index; special goes to special_file there. */
static void put_shards(const char *special, const char *special_file, bool leave_out)
{
    static char index[1 << 16], header[1 << 16];
    const int first[] = {0, 12, 26, good.count};
    size_t used =
        (size_t)snprintf(index, sizeof index, "{\"metadata\":{\"total_size\":%lld},\"weight_map\":{", good.bytes);
    const char *comma = "";
    for (int s = 0; s < 3; s++) {
        long long base = good.tensor[first[s]].begin;
        char file[48], path[128];
        snprintf(file, sizeof file, "model-0000%d-of-00003.safetensors", s + 1);
        snprintf(path, sizeof path, "model/%s", file);
        tiny_header(&good, first[s], first[s + 1] - first[s], base, header, sizeof header);
        tiny part = {.data = good.data + base / 4, .bytes = good.tensor[first[s + 1] - 1].end - base};
        tiny_put_weights(&part, path, header, -1);
        for (int i = first[s]; i < first[s + 1]; i++) {
            bool is_special = special && !strcmp(special, good.tensor[i].name);
            if (is_special && leave_out) continue;
            used += (size_t)snprintf(index + used, sizeof index - used, "%s\"%s\":\"%s\"", comma, good.tensor[i].name,
                                     is_special ? special_file : file);
            comma = ",";
        }
    }
    snprintf(index + used, sizeof index - used, "}}");
    put_text("model/model.safetensors.index.json", "%s", index);
    unlink(in_folder("model/model.safetensors"));
}

static void drop_shards(void)
{
    char command[256];
    snprintf(command, sizeof command, "rm -f %s/model/*.safetensors* ; rm -rf %s/out", run_folder, run_folder);
    shell(command);
    reset();
}

static void shards(void **state)
{
    (void)state;
    reset();
    must_run("train c.yaml");
    rename(in_folder("out/final/model.safetensors"), in_folder("expected.safetensors"));
    reset();
    put_shards(NULL, NULL, false);
    put_bytes("model/stray.safetensors", "not a file", 10); /* unlisted: ignored */
    must_run("train c.yaml");
    assert_true(exists("out/final/model-00002-of-00003.safetensors"));
    unlink(in_folder("model/stray.safetensors"));
    reset();

    put_shards(NULL, NULL, false);
    unlink(in_folder("model/model.safetensors"));
    unlink(in_folder("model/model-00002-of-00003.safetensors"));
    refused("a missing shard", 5, "model-00002-of-00003.safetensors", NULL);
    drop_shards();
    put_shards("model.norm.weight", "model-00001-of-00003.safetensors", false);
    unlink(in_folder("model/model.safetensors"));
    refused("a tensor that its shard lacks", 5, "model.norm.weight", "index");
    drop_shards();
    put_shards("model.norm.weight", "", true);
    unlink(in_folder("model/model.safetensors"));
    refused("a tensor that the index lacks", 5, "model.norm.weight", NULL);
    drop_shards();
    put_shards("model.norm.weight", "../expected.safetensors", false);
    unlink(in_folder("model/model.safetensors"));
    refused("a path out of the directory", 5, "../expected.safetensors", NULL);
    drop_shards();
    put_shards(NULL, NULL, false);
    unlink(in_folder("model/model.safetensors"));
    put_text("model/model.safetensors.index.json", "{\"weight_map\":{\"a\":");
    refused("an index cut short", 5, "model.safetensors.index.json", NULL);
    drop_shards();
}

/* ---- config.json ---- */

static void bad_model_configs(void **state)
{
    (void)state;
    static const struct {
        const char *what, *text, *word;
    } cases[] = {
        {"empty", "", ""},
        {"cut", "{\"hidden_size\": 6", ""},
        {"no object", "[]", ""},
        {"no sizes", "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\"}", ""},
        {"negative size", "{@\"hidden_size\":-64,\"num_attention_heads\":4}", "hidden_size"},
        {"zero heads", "{@\"hidden_size\":64,\"num_attention_heads\":0}", "num_attention_heads"},
        {"fraction", "{@\"hidden_size\":64.5,\"num_attention_heads\":4}", "hidden_size"},
        {"text", "{@\"hidden_size\":\"64\",\"num_attention_heads\":4}", "hidden_size"},
        {"huge", "{@\"hidden_size\":4611686018427387904,\"num_attention_heads\":4}", "hidden_size"},
        {"key twice", "{@\"hidden_size\":64,\"hidden_size\":32,\"num_attention_heads\":4}", "hidden_size"},
        {"unknown rope",
         "{@\"hidden_size\":64,\"num_attention_heads\":4,\"rope_scaling\":{\"rope_type\":\"warp\",\"factor\":8}}",
         "warp"},
        {"theta twice",
         "{@\"hidden_size\":64,\"num_attention_heads\":4,\"rope_theta\":10000.0,\"rope_parameters\":{\"rope_type\":"
         "\"default\",\"rope_theta\":5e5}}",
         "rope_theta"},
        {"negative layers",
         "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":64,\"num_attention_"
         "heads\":4,\"intermediate_size\":160,\"vocab_size\":259,\"num_hidden_layers\":-4}",
         "num_hidden_layers"},
        {"unknown architecture",
         "{\"architectures\":[\"NobodyForCausalLM\"],\"model_type\":\"nobody\",\"hidden_size\":64}", "obody"},
        {"quantised",
         "{@\"hidden_size\":64,\"num_attention_heads\":4,\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4}"
         "}",
         "quantization_config"},
    };
    static const char common[] =
        "\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"intermediate_size\":160,"
        "\"num_hidden_layers\":4,\"num_key_value_heads\":2,\"vocab_size\":259,\"max_position_embeddings\":512,"
        "\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\",\"tie_word_embeddings\":false,";
    reset();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[4096];
        const char *at = strchr(cases[i].text, '@');
        if (at)
            snprintf(text, sizeof text, "%.*s%s%s", (int)(at - cases[i].text), cases[i].text, common, at + 1);
        else
            snprintf(text, sizeof text, "%s", cases[i].text);
        put_text("model/config.json", "%s", text);
        bool names_file = !strcmp(cases[i].what, "quantised") || !strcmp(cases[i].what, "unknown architecture");
        refused(cases[i].what, 5, names_file ? "model" : "config.json", cases[i].word);
    }
    unlink(in_folder("model/config.json"));
    refused("no config.json", 5, "config.json", NULL);
    put_config("nowhere", "rows.jsonl", "");
    refused("no directory", 5, "nowhere", NULL);
}

/* Tied weights: one copy, both equal, only the head; different copies are refused. */
static void tied_models(void **state)
{
    (void)state;
    reset();
    good.tied = true;
    tiny_put_config(&good, "model");
    refused("tied, two different copies", 5, "lm_head.weight", NULL);
    tiny_tensor *head = tiny_find(&good, "lm_head.weight");
    memcpy(good.data + head->begin / 4, good.data, (size_t)(head->end - head->begin));
    good.tied = true;
    tiny_put(&good, "model");
    must_run("train c.yaml");
    reset();
}

/* ---- the YAML ---- */

static void bad_configs(void **state)
{
    (void)state;
    static const struct {
        const char *what, *keys, *word;
    } cases[] = {
        {"unknown key", "lerning_rate: 1\n", "learning_rate"},
        {"unknown section key", "memory:\n    devcie_cap: 1\n", "device_cap"},
        {"key twice", "seed: 2\n", "seed"},
        {"negative batch", "per_device_eval_batch_size: -1\n", "per_device_eval_batch_size"},
        {"zero accumulation", "gradient_accumulation_steps: 0\n", "gradient_accumulation_steps"},
        {"negative cap", "memory: {device_cap: -1}\n", "device_cap"},
        {"NaN", "weight_decay: nan\n", "weight_decay"},
        {"infinity", "weight_decay: .inf\n", "weight_decay"},
        {"trailing junk", "weight_decay: 0.1x\n", "weight_decay"},
        {"text for a number", "warmup_steps: many\n", "warmup_steps"},
        {"not YAML", "a: [1, 2\n", "c.yaml"},
        {"a tab", "memory:\n\tdevice_cap: 1\n", "c.yaml"},
        {"cuda", "device: cuda\n", "cuda"},
        {"unknown plan", "memory: {plan: nowhere.json}\n", "nowhere.json"},
        {"small capacity", "numerics: {micro_batch_tokens: 3}\n", "micro_batch_tokens"},
    };
    reset();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_config("model", "rows.jsonl", cases[i].keys);
        refused(cases[i].what, 2, cases[i].word, strstr(cases[i].what, "plan") ? NULL : "c.yaml");
    }
    put_text("c.yaml", "dataset: rows.jsonl\noutput_dir: out\n");
    refused("no model", 2, "model_name_or_path", NULL);
    put_text("c.yaml", "model_name_or_path: model\noutput_dir: out\n");
    refused("no dataset", 2, "dataset", NULL);
    unlink(in_folder("c.yaml"));
    refused("no config", 2, "c.yaml", NULL);
}

/* ---- rows ---- */

static void bad_rows(void **state)
{
    (void)state;
    static const struct {
        const char *what, *text, *word;
    } cases[] = {
        {"empty", "", "rows.jsonl"},
        {"blank lines", "\n\n   \n", "rows.jsonl"},
        {"no trained token", "{\"input_ids\":[1,2,3],\"labels\":[-100,-100,-100]}\n", "rows.jsonl"},
        {"only rows of one token", "{\"input_ids\":[1]}\n{\"input_ids\":[2]}\n", "rows.jsonl"},
        {"id = vocabulary", "{\"input_ids\":[1,2,3]}\n{\"input_ids\":[1,259]}\n", "rows.jsonl:2"},
        {"negative id", "{\"input_ids\":[1,-3]}\n", "rows.jsonl:1"},
        {"huge id", "{\"input_ids\":[1,99999999999999999999]}\n", "rows.jsonl:1"},
        {"label beyond", "{\"input_ids\":[1,2],\"labels\":[-100,300]}\n", "rows.jsonl:1"},
        {"fewer labels", "{\"input_ids\":[1,2,3],\"labels\":[-100,2]}\n", "rows.jsonl:1"},
        {"text for ids", "{\"input_ids\":\"abc\"}\n", "rows.jsonl:1"},
        {"fraction", "{\"input_ids\":[1,2.5]}\n", "rows.jsonl:1"},
        {"not JSON", "{\"input_ids\":[1,2,3]}\n{\"input_ids\":[1,\n", "rows.jsonl:2"},
        {"NUL", "{\"input_ids\":[1,2]}\n\x01\x02\n", "rows.jsonl:2"},
    };
    reset();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_text("rows.jsonl", "%s", cases[i].text);
        refused(cases[i].what, 4, cases[i].word, NULL);
    }
    for (size_t i = 0; i < 5; i++) { /* the same as the rows of an evaluation */
        put_text("eval.jsonl", "%s", cases[i].text);
        put_config("model", "rows.jsonl", "eval_dataset: eval.jsonl\n");
        char what[64];
        snprintf(what, sizeof what, "evaluation: %s", cases[i].what);
        refused(what, 4, "eval.jsonl", NULL);
    }
    put_config("model", "nowhere.jsonl", "");
    refused("no file", 4, "nowhere.jsonl", NULL);
}

/* ---- plans ---- */

/* text with the first from replaced by to; the caller frees it. */
static char *replaced(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    if (!at) fail_msg("no %s in the plan", from);
    size_t size = strlen(text) + strlen(to) + 1;
    char *out = malloc(size);
    assert_non_null(out);
    snprintf(out, size, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

static void bad_plans(void **state)
{
    (void)state;
    static const struct {
        const char *what, *from, *to, *word;
    } cases[] = {
        {"another model", "\"fingerprint\": \"", "\"fingerprint\": \"0000000000000000\", \"was\": \"", "plan.json"},
        {"an NVMe tier", "\"index\": 2, \"tier\": \"gpu\"", "\"index\": 2, \"tier\": \"nvme\"", "vme"},
        {"an unknown tier", "\"index\": 2, \"tier\": \"gpu\"", "\"index\": 2, \"tier\": \"moon\"", "moon"},
        {"an unknown key", "\"internals\"", "\"internalz\"", "internalz"},
        {"other layers", "\"layers\": 4", "\"layers\": 5", "plan.json"},
        {"another dtype", "\"dtype\": \"f32\"", "\"dtype\": \"bf16\"", "plan.json"},
        {"boundaries out of order", "\"index\": 1,", "\"index\": 3,", "1 is missing before it"},
        {"a boundary twice", "\"index\": 1,", "\"index\": 0,", "is boundary 0 a second time"},
        {"a negative count", "\"prefetch_layers\": 4", "\"prefetch_layers\": -2", "prefetch_layers"},
        {"no prefetch", "\"prefetch_layers\": 4", "\"prefetch_layers\": 0", "prefetch_layers"},
        {"a layer beyond", "\"internals\": [0, 1, 2, 3]", "\"internals\": [0, 1, 2, 4]", "internals"},
        {"a layer twice", "\"internals\": [0, 1, 2, 3]", "\"internals\": [0, 1, 1, 3]", "is layer 1 a second time"},
        {"a key twice", "\"head_weights\": true", "\"head_weights\": true, \"head_weights\": true", "head_weights"},
    };
    reset();
    must_run("train c.yaml --max_steps 0");
    size_t bytes;
    char *plan = get_bytes("out/plan.json", &bytes);
    reset();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = replaced(plan, cases[i].from, cases[i].to);
        put_text("plan.json", "%s", text);
        free(text);
        put_config("model", "rows.jsonl", "memory: {plan: plan.json}\n");
        refused(cases[i].what, 2, cases[i].word, NULL);
    }
    for (size_t cut = 0; cut < bytes - 2; cut += bytes / 5) {
        put_bytes("plan.json", plan, cut);
        put_config("model", "rows.jsonl", "memory: {plan: plan.json}\n");
        refused("a plan cut short", 2, "plan.json", NULL);
    }
    put_bytes("plan.json", plan, bytes);
    put_config("model", "rows.jsonl", "memory: {plan: plan.json}\nper_device_eval_batch_size: 8\n");
    must_run("train c.yaml");
    reset();
    put_bytes("plan.json", plan, bytes);
    put_config("model", "rows.jsonl", "memory: {plan: plan.json}\n");
    put_text("rows.jsonl", "{\"input_ids\":[1,5,6,7,8,3,3,3,3,3]}\n{\"input_ids\":[1,9,10,11]}\n");
    refused("a plan of fewer tokens", 2, "plan.json", "tokens");
    free(plan);
}

/* ---- the other commands ---- */

static void eval_and_generate(void **state)
{
    (void)state;
    static const struct {
        const char *words, *say;
        int code;
    } cases[] = {
        {"eval --model nowhere --dataset rows.jsonl", "nowhere", 5},
        {"eval --model model --dataset nowhere.jsonl", "nowhere.jsonl", 4},
        {"eval --model model --dataset empty.jsonl --json", "empty.jsonl", 4},
        {"eval --model model --dataset rows.jsonl --batch-size 0", "batch-size", 2},
        {"eval --model model", "dataset", 2},
        {"generate --model model --prompt-ids 1,259", "259", 2},
        {"generate --model model --prompt-ids 1,-2", "prompt-ids", 2},
        {"generate --model model --prompt-ids 1,x", "prompt-ids", 2},
        {"generate --model model --prompt-ids ''", "prompt-ids", 2},
        {"generate --model model", "prompt", 2},
        {"generate --model model --prompt hello", "tokenizer", 2},
        {"generate --model model --prompt-ids 1 --max-new-tokens 600", "512", 2},
        {"generate --model model --prompt-ids 1 --max-new-tokens 18446744073709551615", "max-new-tokens", 2},
        {"bench step --model model --batch 0 --seq 8 --dtype f32 --steps 1", "bench step", 2},
        {"bench step --model nowhere --batch 1 --seq 8 --dtype f32 --steps 1", "nowhere", 5},
    };
    reset();
    put_text("empty.jsonl", "%s", "");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int code = run("%s", cases[i].words);
        if (code != cases[i].code) fail_msg("%s: exit %d: %s", cases[i].words, code, run_err);
        if (!strstr(run_err, cases[i].say)) fail_msg("%s: no \"%s\": %s", cases[i].words, cases[i].say, run_err);
        assert_string_equal(run_out, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_good_case_runs),
        cmocka_unit_test(cut_files),
        cmocka_unit_test(bad_headers),
        cmocka_unit_test(bad_tensors),
        cmocka_unit_test(shards),
        cmocka_unit_test(bad_model_configs),
        cmocka_unit_test(tied_models),
        cmocka_unit_test(bad_configs),
        cmocka_unit_test(bad_rows),
        cmocka_unit_test(bad_plans),
        cmocka_unit_test(eval_and_generate),
    };
    return cmocka_run_group_tests(tests, run_set_up, run_tear_down);
}
