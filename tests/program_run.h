/* Shared by the tests that run the built program: a folder of their own, files in it, small models, the program's
 * streams and exit code. The program is the one beside this test's build (BUILD/tests/x_test, BUILD/lazytrain). */
#ifndef LZT_TESTS_PROGRAM_RUN_H
#define LZT_TESTS_PROGRAM_RUN_H

#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define RUN_UNUSED __attribute__((unused))

static char run_program_path[4096], run_folder[64], run_out[1 << 16], run_err[1 << 16];

/* ---- the folder ---- */

static RUN_UNUSED const char *in_folder(const char *name)
{
    static char path[8][256];
    static int next;
    char *p = path[next++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", run_folder, name);
    return p;
}

static RUN_UNUSED void put_bytes(const char *name, const void *data, size_t bytes)
{
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    fclose(file);
}

static RUN_UNUSED void put_text(const char *name, const char *format, ...)
{
    va_list list;
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    va_start(list, format);
    vfprintf(file, format, list);
    va_end(list);
    fclose(file);
}

/* The whole file, NUL-terminated; the caller frees it. NULL when it is not there. */
static RUN_UNUSED char *get_bytes(const char *name, size_t *bytes)
{
    FILE *file = fopen(in_folder(name), "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    char *text = calloc(size + 1, 1);
    assert_int_equal(fread(text, 1, size, file), size);
    fclose(file);
    if (bytes) *bytes = size;
    return text;
}

static RUN_UNUSED bool exists(const char *name)
{
    return !access(in_folder(name), F_OK);
}

static RUN_UNUSED bool same_files(const char *a, const char *b)
{
    size_t a_bytes = 0, b_bytes = 0;
    char *x = get_bytes(a, &a_bytes), *y = get_bytes(b, &b_bytes);
    bool same = x && y && a_bytes == b_bytes && !memcmp(x, y, a_bytes);
    free(x);
    free(y);
    return same;
}

/* ---- the program ---- */

static RUN_UNUSED int shell(const char *command)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0 || !WIFEXITED(status)) return -1;
    return WEXITSTATUS(status);
}

static RUN_UNUSED void read_stream(const char *name, char text[1 << 16])
{
    size_t bytes = 0;
    char *all = get_bytes(name, &bytes);
    assert_non_null(all);
    snprintf(text, 1 << 16, "%s", all);
    free(all);
}

/* The exit code (128 and a signal's number when a signal ended it); the streams are in run_out and run_err. */
static RUN_UNUSED int run(const char *format, ...)
{
    char words[4096], command[9000];
    va_list list;
    va_start(list, format);
    vsnprintf(words, sizeof words, format, list);
    va_end(list);
    snprintf(command, sizeof command, "cd %s && '%s' %s >stdout 2>stderr </dev/null", run_folder, run_program_path,
             words);
    int code = shell(command);
    read_stream("stdout", run_out);
    read_stream("stderr", run_err);
    return code;
}

static RUN_UNUSED void must_run(const char *words)
{
    int code = run("%s", words);
    if (code) fail_msg("lazytrain %s: exit %d: %s", words, code, run_err);
}

static RUN_UNUSED int run_set_up(void **state)
{
    (void)state;
    ssize_t length = readlink("/proc/self/exe", run_program_path, 4000);
    if (length < 0) return -1;
    run_program_path[length] = 0;
    *strrchr(run_program_path, '/') = 0; /* BUILD/tests */
    strcpy(strrchr(run_program_path, '/'), "/lazytrain");
    strcpy(run_folder, "/tmp/lzt-run-XXXXXX");
    return access(run_program_path, X_OK) || !mkdtemp(run_folder) ? -1 : 0;
}

static RUN_UNUSED int run_tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", run_folder);
    return shell(command);
}

/* ---- small models, right or wrong on purpose ---- */

typedef struct tiny_tensor {
    char name[64];
    int rank;
    long long shape[2];
    long long begin, end; /* data_offsets */
    const char *dtype;
} tiny_tensor;

typedef struct tiny {
    int hidden, heads, kv_heads, head_dim, ffn, vocab, layers;
    bool tied;
    const char *more; /* keys in front of config.json's, with their comma */
    tiny_tensor tensor[64];
    int count;
    float *data;
    long long bytes;
} tiny;

static RUN_UNUSED void tiny_add(tiny *t, const char *name, int rank, long long rows, long long columns)
{
    assert(t->count < 64);
    tiny_tensor *x = &t->tensor[t->count++];
    snprintf(x->name, sizeof x->name, "%s", name);
    x->rank = rank;
    x->shape[0] = rows;
    x->shape[1] = columns;
    x->dtype = "F32";
    x->begin = t->bytes;
    t->bytes = x->end = x->begin + 4 * rows * (rank == 2 ? columns : 1);
}

static RUN_UNUSED void tiny_add_layer(tiny *t, int layer)
{
    const int h = t->hidden, q = t->heads * t->head_dim, k = t->kv_heads * t->head_dim, f = t->ffn;
    const struct {
        const char *name;
        int rank, rows, columns;
    } parts[] = {
        {"input_layernorm", 1, h, 1},  {"self_attn.q_proj", 2, q, h}, {"self_attn.k_proj", 2, k, h},
        {"self_attn.v_proj", 2, k, h}, {"self_attn.o_proj", 2, h, q}, {"post_attention_layernorm", 1, h, 1},
        {"mlp.gate_proj", 2, f, h},    {"mlp.up_proj", 2, f, h},      {"mlp.down_proj", 2, h, f},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char name[64];
        snprintf(name, sizeof name, "model.layers.%d.%s.weight", layer, parts[i].name);
        tiny_add(t, name, parts[i].rank, parts[i].rows, parts[i].columns);
    }
}

static RUN_UNUSED void tiny_fill(tiny *t)
{
    uint64_t x = 88172645463325252u;
    t->data = malloc((size_t)t->bytes);
    assert_non_null(t->data);
    for (int i = 0; i < t->count; i++)
        for (long long k = t->tensor[i].begin / 4; k < t->tensor[i].end / 4; k++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            t->data[k] = t->tensor[i].rank == 1 ? 1.0f : (float)((double)(x >> 11) / 9007199254740992.0 - 0.5) * 0.2f;
        }
}

/* A Llama with random weights; sizes are taken from *t, 0 means TINY's: hidden 64, 4 and 2 heads, ffn 160, vocabulary
 * 259, 4 layers. */
static RUN_UNUSED void tiny_init(tiny *t)
{
    if (!t->hidden) t->hidden = 64;
    if (!t->heads) t->heads = 4;
    if (!t->kv_heads) t->kv_heads = 2;
    if (!t->head_dim) t->head_dim = t->hidden / t->heads;
    if (!t->ffn) t->ffn = 160;
    if (!t->vocab) t->vocab = 259;
    if (!t->layers) t->layers = 4;
    tiny_add(t, "model.embed_tokens.weight", 2, t->vocab, t->hidden);
    for (int i = 0; i < t->layers; i++) tiny_add_layer(t, i);
    tiny_add(t, "model.norm.weight", 1, t->hidden, 1);
    if (!t->tied) tiny_add(t, "lm_head.weight", 2, t->vocab, t->hidden);
    tiny_fill(t);
}

static RUN_UNUSED tiny_tensor *tiny_find(tiny *t, const char *name)
{
    for (int i = 0; i < t->count; i++)
        if (!strcmp(t->tensor[i].name, name)) return &t->tensor[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static RUN_UNUSED void tiny_remove(tiny *t, const char *name)
{
    tiny_tensor *x = tiny_find(t, name);
    memmove(x, x + 1, (size_t)(&t->tensor[t->count] - (x + 1)) * sizeof *x);
    t->count--;
}

/* The header of tensors first..first+count-1, as text; offsets less base. */
static RUN_UNUSED void tiny_header(const tiny *t, int first, int count, long long base, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int i = first; i < first + count; i++) {
        const tiny_tensor *x = &t->tensor[i];
        char shape[64];
        snprintf(shape, sizeof shape, x->rank == 2 ? "%lld,%lld" : "%lld", x->shape[0], x->shape[1]);
        used += (size_t)snprintf(text + used, size - used,
                                 ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%lld,%lld]}", x->name,
                                 x->dtype, shape, x->begin - base, x->end - base);
    }
    snprintf(text + used, size - used, "}");
}

/* header, or where it is NULL that of all tensors; length -1: the header's own. */
static RUN_UNUSED void tiny_put_weights(const tiny *t, const char *file, const char *header, long long length)
{
    static char own[1 << 16];
    if (!header) tiny_header(t, 0, t->count, 0, own, sizeof own);
    const char *text = header ? header : own;
    uint64_t n = length < 0 ? strlen(text) : (uint64_t)length;
    FILE *out = fopen(in_folder(file), "wb");
    assert_non_null(out);
    fwrite(&n, 1, 8, out);
    fputs(text, out);
    fwrite(t->data, 1, (size_t)t->bytes, out);
    fclose(out);
}

static RUN_UNUSED void tiny_put_config(const tiny *t, const char *directory)
{
    char name[128];
    snprintf(name, sizeof name, "%s/config.json", directory);
    put_text(name,
             "{%s\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":%d,"
             "\"intermediate_size\":%d,\"num_hidden_layers\":%d,\"num_attention_heads\":%d,\"num_key_value_heads\":%d,"
             "\"head_dim\":%d,\"vocab_size\":%d,\"max_position_embeddings\":512,\"rms_norm_eps\":1e-5,"
             "\"hidden_act\":\"silu\",\"tie_word_embeddings\":%s,\"torch_dtype\":\"float32\",\"eos_token_id\":2}",
             t->more ? t->more : "", t->hidden, t->ffn, t->layers, t->heads, t->kv_heads, t->head_dim, t->vocab,
             t->tied ? "true" : "false");
}

static RUN_UNUSED void tiny_put(const tiny *t, const char *directory)
{
    char name[128];
    mkdir(in_folder(directory), 0777);
    tiny_put_config(t, directory);
    snprintf(name, sizeof name, "%s/model.safetensors", directory);
    tiny_put_weights(t, name, NULL, -1);
}

static RUN_UNUSED void tiny_free(tiny *t)
{
    free(t->data);
    t->data = NULL;
}

/* ---- configs ---- */

/* c.yaml in the folder: the rows in file order, FP32, two steps of two rows; keys override. */
static RUN_UNUSED void put_config(const char *model, const char *rows, const char *keys)
{
    put_text("c.yaml",
             "model_name_or_path: %s\ndataset: %s\noutput_dir: out\nper_device_train_batch_size: 2\nmax_steps: 2\n"
             "learning_rate: 1e-3\nlr_scheduler_type: constant\ndisable_shuffling: true\nlogging_steps: 1\n"
             "save_steps: 0\nseed: 1\n%s",
             model, rows, keys);
}

/* Line number line (from 0) of OUT/metrics.jsonl that is a step; the caller decrefs it. NULL when there is none. */
static RUN_UNUSED json_t *metrics_step(const char *directory, int line)
{
    char name[128];
    snprintf(name, sizeof name, "%s/metrics.jsonl", directory);
    char *text = get_bytes(name, NULL), *save = NULL;
    json_t *found = NULL;
    if (!text) return NULL;
    for (char *at = strtok_r(text, "\n", &save); at && !found; at = strtok_r(NULL, "\n", &save)) {
        json_t *row = json_loads(at, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(row); /* strict JSON */
        if (!json_object_get(row, "event") && line-- == 0)
            found = row;
        else
            json_decref(row);
    }
    free(text);
    return found;
}

/* A number of that line; NAN: the key is there with another type, or is not. */
static RUN_UNUSED double value_of(const char *directory, int line, const char *key)
{
    json_t *step = metrics_step(directory, line);
    if (!step) fail_msg("%s: no step %d", directory, line + 1);
    json_t *value = json_object_get(step, key);
    double x = json_is_number(value) ? json_number_value(value) : NAN;
    json_decref(step);
    return x;
}

/* Whether two runs ended with the same weights, to the byte. */
static RUN_UNUSED bool same_model(const char *a, const char *b)
{
    char x[128], y[128];
    snprintf(x, sizeof x, "%s/final/model.safetensors", a);
    snprintf(y, sizeof y, "%s/final/model.safetensors", b);
    return same_files(x, y);
}

#endif
