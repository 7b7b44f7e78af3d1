/* Small model directories for the tests of the model module: written by hand, so that they can be wrong on purpose. */
#ifndef LZT_MODEL_FIXTURE_H
#define LZT_MODEL_FIXTURE_H

#include "base/os.h"
#include "base/safetensors.h"
#include "base/safetensors_write.h"
#include "lazytrain/model.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define FIXTURE_UNUSED __attribute__((unused))

static char fixture_root[64];

static FIXTURE_UNUSED int fixture_make_root(void **state)
{
    (void)state;
    snprintf(fixture_root, sizeof fixture_root, "/tmp/lzt_model_test.XXXXXX");
    return mkdtemp(fixture_root) ? 0 : -1;
}

static FIXTURE_UNUSED int fixture_remove_root(void **state)
{
    (void)state;
    return lzt__os_remove_tree(lzt__os_posix(), AT_FDCWD, fixture_root, NULL);
}

static FIXTURE_UNUSED const char *fixture_path(const char *directory, const char *name)
{
    static char path[8][512];
    static int next;
    char *p = path[next++ % 8];
    snprintf(p, sizeof path[0], "%s/%s%s%s", fixture_root, directory, *name ? "/" : "", name);
    return p;
}

static FIXTURE_UNUSED void fixture_put(const char *directory, const char *name, const void *data, size_t bytes)
{
    lzt_error err = {0};
    if (lzt__os_make_dirs(lzt__os_posix(), fixture_path(directory, ""), &err) ||
        lzt__os_write_file_atomic(lzt__os_posix(), fixture_path(directory, name), data, bytes, &err))
        fail_msg("%s: %s", err.where, err.message);
}

static FIXTURE_UNUSED void fixture_put_text(const char *directory, const char *name, const char *text)
{
    fixture_put(directory, name, text, strlen(text));
}

/* A Llama of two layers; more keys go in front. */
static FIXTURE_UNUSED const char *fixture_config(const char *more)
{
    static char text[4096];
    snprintf(text, sizeof text,
             "{\n  %s\n  \"architectures\": [\"LlamaForCausalLM\"],\n  \"hidden_size\": 8, \"intermediate_size\": 12,\n"
             "  \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,\n"
             "  \"vocab_size\": 20, \"rope_theta\": 10000.0, \"rms_norm_eps\": 1e-05,\n"
             "  \"tie_word_embeddings\": false, \"torch_dtype\": \"float32\"\n}\n",
             more);
    return text;
}

/* A value that tells the tensor and the element. */
static FIXTURE_UNUSED float fixture_value(const char *name, uint64_t element)
{
    uint32_t seed = 7;
    for (const char *at = name; *at; at++) seed = seed * 31 + (unsigned char)*at;
    return (float)((seed + element * 37) % 1000) / 512.0f - 1.0f;
}

/* Writes a safetensors file of the tensors of model whose index satisfies (i % parts == part), then the extra ones. */
typedef struct fixture_extra {
    const char *name;
    lzt_dtype dtype;
    uint64_t rows, columns;
    const char *like; /* the tensor whose values it holds, or NULL for its own */
} fixture_extra;

static FIXTURE_UNUSED void fixture_weights(const char *directory, const char *file_name, const lzt_model_info *info,
                                           uint32_t part, uint32_t parts, const char *omit, lzt_dtype dtype,
                                           const fixture_extra *extra, uint32_t extra_count)
{
    lzt__st_member members[128];
    uint64_t shapes[128][2];
    const char *like[128];
    uint32_t count = 0;
    for (uint32_t i = 0; i < info->tensor_count; i++) {
        const lzt_tensor *t = &info->tensor[i];
        if (i % parts != part || (omit && !strcmp(omit, t->name))) continue;
        like[count] = t->name;
        members[count++] = (lzt__st_member){
            t->name, dtype, t->rank, t->shape, t->element_count * lzt_dtype_bytes(dtype), t->element_count};
    }
    for (uint32_t i = 0; i < extra_count; i++) {
        shapes[count][0] = extra[i].rows;
        shapes[count][1] = extra[i].columns;
        like[count] = extra[i].like ? extra[i].like : extra[i].name;
        uint64_t elements = extra[i].rows * extra[i].columns;
        members[count] = (lzt__st_member){
            extra[i].name, extra[i].dtype, 2, shapes[count], elements * lzt_dtype_bytes(extra[i].dtype), elements};
        count++;
    }
    lzt_error err = {0};
    lzt__staging staging;
    lzt__staging_file file;
    float values[4096];
    lzt_status status = lzt__staging_open(lzt__os_posix(), fixture_path("staging", ""), &staging, &err);
    if (!status) status = lzt__staging_create(&staging, "weights", &file, &err);
    if (!status) status = lzt__st_write_header(&file, members, count, &err);
    for (uint32_t i = 0; i < count && !status; i++) {
        assert(members[i].key <= 4096);
        for (uint64_t k = 0; k < members[i].key; k++) values[k] = fixture_value(like[i], k);
        status = lzt__st_write_values(&file, members[i].name, members[i].dtype, values, members[i].key, &err);
    }
    if (!status) status = lzt__staging_finish(&file, &err);
    if (!status) status = lzt__staging_publish(&staging, true, &err);
    if (status) fail_msg("%s: %s", err.where, err.message);
    lzt__staging_close(&staging);
    char *data;
    uint64_t bytes;
    lzt__os_read_file(lzt__os_posix(), fixture_path("staging", "weights"), 1 << 20, &data, &bytes, NULL);
    fixture_put(directory, file_name, data, bytes);
    free(data);
}

/* The tables of a config in the directory. */
static FIXTURE_UNUSED lzt_model *fixture_tables(const char *directory)
{
    lzt_error err = {0};
    lzt_model *model = NULL;
    if (lzt_model_open(fixture_path(directory, ""), LZT_MODEL_CONFIG_ONLY, &model, &err))
        fail_msg("%s: %s", err.where, err.message);
    return model;
}

#endif
