/* MANIFEST.json: the files of a version with sizes and hashes, and its own hash.
 *
 *     {
 *       "format": "lazytrain-checkpoint", "version": 1, "step": 40,
 *       "files": [
 *         {"name": "state-00001.safetensors", "bytes": 1234, "xxh3_128": "32 hex digits"}, ...
 *       ],
 *       "manifest_xxh3_128": "32 hex digits"
 *     }
 *
 * The manifest's own hash is that of its text before the last comma, so that a cut or altered manifest shows.
 */
#include "ckpt/ckpt_internal.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SELF_KEY ",\n  \"manifest_xxh3_128\": \""
#define SELF_END "\"\n}\n"

typedef struct hex {
    char text[33];
} hex;

static hex hex_of(XXH128_hash_t hash)
{
    hex out;
    snprintf(out.text, sizeof out.text, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    return out;
}

static bool parse_hex(const char *text, XXH128_hash_t *hash)
{
    if (!text || strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32) return false;
    char half[17] = {0};
    memcpy(half, text, 16);
    hash->high64 = strtoull(half, NULL, 16);
    memcpy(half, text + 16, 16);
    hash->low64 = strtoull(half, NULL, 16);
    return true;
}

lzt_status lzt__ckpt_manifest_add(lzt__ckpt_manifest *m, const char *name, uint64_t bytes, XXH128_hash_t hash,
                                  lzt_error *err)
{
    lzt__ckpt_file *grown = realloc(m->file, (m->file_count + 1) * sizeof *grown);
    if (!grown) return lzt_fail(err, LZT_ERR_NO_MEMORY, name, "no memory for the manifest");
    m->file = grown;
    lzt__ckpt_file *file = &m->file[m->file_count++];
    *file = (lzt__ckpt_file){.bytes = bytes, .hash = hash};
    snprintf(file->name, sizeof file->name, "%s", name);
    return LZT_OK;
}

lzt_status lzt__ckpt_manifest_write(const lzt__ckpt_manifest *m, const lzt__staging *staging, lzt_error *err)
{
    lzt__text text = {0};
    lzt__text_add(&text, "{\n  \"format\": \"" LZT__CKPT_FORMAT "\", \"version\": %d, \"step\": %llu,\n  \"files\": [",
                  LZT__CKPT_VERSION, (unsigned long long)m->step);
    for (uint32_t i = 0; i < m->file_count; i++)
        lzt__text_add(&text, "%s\n    {\"name\": \"%s\", \"bytes\": %llu, \"xxh3_128\": \"%s\"}", i ? "," : "",
                      m->file[i].name, (unsigned long long)m->file[i].bytes, hex_of(m->file[i].hash).text);
    lzt__text_add(&text, "\n  ]");
    XXH128_hash_t self = text.failed ? (XXH128_hash_t){0, 0} : XXH3_128bits(text.at, text.bytes);
    lzt__text_add(&text, SELF_KEY "%s" SELF_END, hex_of(self).text);
    lzt_status status = text.failed ? lzt_fail(err, LZT_ERR_NO_MEMORY, LZT__CKPT_MANIFEST, "no memory")
                                    : lzt__staging_put(staging, LZT__CKPT_MANIFEST, text.at, text.bytes, err);
    lzt__text_free(&text);
    return status;
}

/* A name that the writer makes: no way out of the directory. */
static bool is_file_name(const char *name)
{
    return name && *name && strlen(name) < sizeof((lzt__ckpt_file *)0)->name && !strchr(name, '/') && *name != '.';
}

static lzt_status parse_files(const json_t *list, const char *path, lzt__ckpt_manifest *m, lzt_error *err)
{
    if (!json_is_array(list) || !json_array_size(list))
        return lzt_fail(err, LZT_ERR_MODEL, path, "\"files\" is not a list of files");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(item, "name"));
        const json_t *bytes = json_object_get(item, "bytes");
        XXH128_hash_t hash;
        if (!is_file_name(name) || !json_is_integer(bytes) || json_integer_value(bytes) < 0 ||
            !parse_hex(json_string_value(json_object_get(item, "xxh3_128")), &hash))
            return lzt_fail(err, LZT_ERR_MODEL, path, "\"files\"[%zu] lacks a name, size or hash", i);
        lzt_status status = lzt__ckpt_manifest_add(m, name, (uint64_t)json_integer_value(bytes), hash, err);
        if (status) return status;
    }
    return LZT_OK;
}

static lzt_status parse(const char *text, uint64_t bytes, const char *path, lzt__ckpt_manifest *m, lzt_error *err)
{
    json_error_t json_err;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &json_err);
    if (!root) return lzt_fail(err, LZT_ERR_MODEL, path, "not valid JSON: %s (line %d)", json_err.text, json_err.line);
    const char *format = json_string_value(json_object_get(root, "format"));
    json_int_t version = json_integer_value(json_object_get(root, "version"));
    lzt_status status = LZT_OK;
    if (!format || strcmp(format, LZT__CKPT_FORMAT))
        status = lzt_fail(err, LZT_ERR_MODEL, path, "not a checkpoint's manifest");
    else if (version != LZT__CKPT_VERSION)
        status = lzt_fail(err, LZT_ERR_MODEL, path, "format version %lld; this program knows %d", (long long)version,
                          LZT__CKPT_VERSION);
    m->step = (uint64_t)json_integer_value(json_object_get(root, "step"));
    if (!status) status = parse_files(json_object_get(root, "files"), path, m, err);
    json_decref(root);
    return status;
}

/* The text must end in its own hash to the last byte. */
static lzt_status check_self(const char *text, uint64_t bytes, const char *path, lzt_error *err)
{
    const size_t key = strlen(SELF_KEY), end = strlen(SELF_END), tail = key + 32 + end;
    XXH128_hash_t want;
    char digits[33] = {0};
    const char *last = bytes > tail ? text + bytes - tail : NULL;
    if (last) memcpy(digits, last + key, 32);
    if (!last || memcmp(last, SELF_KEY, key) || memcmp(last + key + 32, SELF_END, end) || !parse_hex(digits, &want))
        return lzt_fail(err, LZT_ERR_MODEL, path, "it is cut: it does not end in its own hash");
    if (XXH128_isEqual(want, XXH3_128bits(text, (size_t)(last - text)))) return LZT_OK;
    return lzt_fail(err, LZT_ERR_MODEL, path, "it does not match its own hash");
}

static lzt_status check_sizes(const lzt_os *os, const char *directory, const lzt__ckpt_manifest *m, lzt_error *err)
{
    for (uint32_t i = 0; i < m->file_count; i++) {
        char path[4096];
        struct stat info;
        snprintf(path, sizeof path, "%s/%s", directory, m->file[i].name);
        int rc = os->fstatat(os, AT_FDCWD, path, &info, 0);
        if (rc == -ENOENT) return lzt_fail(err, LZT_ERR_MODEL, path, "the file is missing");
        if (rc < 0) return lzt_fail_os(err, LZT_ERR_STORAGE, -rc, path, "cannot stat");
        if ((uint64_t)info.st_size != m->file[i].bytes)
            return lzt_fail(err, LZT_ERR_MODEL, path, "%llu bytes, the manifest says %llu",
                            (unsigned long long)info.st_size, (unsigned long long)m->file[i].bytes);
    }
    return LZT_OK;
}

lzt_status lzt__ckpt_manifest_read(const lzt_os *os, const char *directory, lzt__ckpt_manifest *m, lzt_error *err)
{
    memset(m, 0, sizeof *m);
    char path[4096], *text = NULL;
    uint64_t bytes = 0;
    struct stat info;
    if (snprintf(path, sizeof path, "%s/" LZT__CKPT_MANIFEST, directory) >= (int)sizeof path)
        return lzt_fail(err, LZT_ERR_STORAGE, directory, "the path is too long");
    if (os->fstatat(os, AT_FDCWD, path, &info, 0) == -ENOENT)
        return lzt_fail(err, LZT_ERR_MODEL, directory, "not a complete checkpoint: there is no " LZT__CKPT_MANIFEST);
    lzt_status status = lzt__os_read_file(os, path, LZT__CKPT_TEXT_MAX, &text, &bytes, err);
    if (!status) status = check_self(text, bytes, path, err);
    if (!status) status = parse(text, bytes, path, m, err);
    if (!status) status = check_sizes(os, directory, m, err);
    free(text);
    if (status) lzt__ckpt_manifest_fini(m);
    return status;
}

void lzt__ckpt_manifest_fini(lzt__ckpt_manifest *m)
{
    free(m->file);
    memset(m, 0, sizeof *m);
}
