/* Strict JSON reading: see json_read.h. */
#include "profile/json_read.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

lzt_status lzt__json_begin(lzt__json_reader *reader, const char *text, uint64_t text_bytes, const char *file,
                           lzt_status fault, lzt_error *err)
{
    json_error_t why;
    *reader = (lzt__json_reader){.file = file, .err = err, .fault = fault};
    reader->root = json_loadb(text, (size_t)text_bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    if (reader->root) return LZT_OK;
    reader->status = lzt_fail(err, fault, file, "line %d, column %d: %s", why.line, why.column, why.text);
    return reader->status;
}

lzt_status lzt__json_end(lzt__json_reader *reader)
{
    json_decref(reader->root);
    reader->root = NULL;
    return reader->status;
}

lzt__json_node lzt__json_root(lzt__json_reader *reader)
{
    return (lzt__json_node){.reader = reader, .json = reader->root};
}

lzt_status lzt__json_fail(const lzt__json_node *node, const char *fmt, ...)
{
    lzt__json_reader *r = node->reader;
    if (r->status) return r->status;
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    r->status = lzt_fail(r->err, r->fault, r->file, "%s %s", node->path[0] ? node->path : "the top level", text);
    return r->status;
}

static const char *type_name(const json_t *json)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a real number";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    case JSON_NULL: return "null";
    }
    return "unknown";
}

/* The node is there and of this type; absent nodes have been reported where they were looked up. */
static bool is_a(const lzt__json_node *node, bool right, const char *wanted)
{
    if (!node->json) return false;
    if (!right) lzt__json_fail(node, "is %s, must be %s", type_name(node->json), wanted);
    return right;
}

/* Finds key in the list "a b? c"; *optional says whether it ends in '?'. */
static bool find_key(const char *keys, const char *key, bool *optional)
{
    size_t length = strlen(key);
    for (const char *at = keys; *at;) {
        size_t word = strcspn(at, " ");
        *optional = word && at[word - 1] == '?';
        if (word - *optional == length && !memcmp(at, key, length)) return true;
        at += word;
        at += strspn(at, " ");
    }
    return false;
}

static void check_required(const lzt__json_node *node, const char *keys)
{
    for (const char *at = keys; *at;) {
        size_t word = strcspn(at, " ");
        char key[64];
        assert(word < sizeof key);
        memcpy(key, at, word);
        key[word] = 0;
        if (word && key[word - 1] != '?' && !json_object_get(node->json, key))
            lzt__json_fail(node, "lacks the key \"%s\"", key);
        at += word;
        at += strspn(at, " ");
    }
}

void lzt__json_keys(const lzt__json_node *node, const char *keys)
{
    const char *key;
    json_t *value;
    bool optional;
    if (!is_a(node, json_is_object(node->json), "an object")) return;
    json_object_foreach(node->json, key, value)
    {
        if (!find_key(keys, key, &optional)) lzt__json_fail(node, "has the unknown key \"%.60s\"", key);
    }
    check_required(node, keys);
}

bool lzt__json_has(const lzt__json_node *node, const char *key)
{
    return node->json && json_object_get(node->json, key);
}

lzt__json_node lzt__json_member(const lzt__json_node *node, const char *key)
{
    lzt__json_node member = {.reader = node->reader};
    snprintf(member.path, sizeof member.path, "%.150s%s%.40s", node->path, node->path[0] ? "." : "", key);
    member.json = node->json ? json_object_get(node->json, key) : NULL;
    if (node->json && !member.json) lzt__json_fail(node, "lacks the key \"%s\"", key);
    return member;
}

uint64_t lzt__json_length(const lzt__json_node *node, uint64_t min, uint64_t max)
{
    if (!is_a(node, json_is_array(node->json), "an array")) return 0;
    uint64_t length = json_array_size(node->json);
    if (length >= min && length <= max) return length;
    lzt__json_fail(node, "has %" PRIu64 " elements, must have %" PRIu64 " to %" PRIu64, length, min, max);
    return 0;
}

lzt__json_node lzt__json_element(const lzt__json_node *node, uint64_t index)
{
    lzt__json_node element = {.reader = node->reader};
    snprintf(element.path, sizeof element.path, "%.160s[%" PRIu64 "]", node->path, index);
    element.json = node->json ? json_array_get(node->json, (size_t)index) : NULL;
    return element;
}

uint64_t lzt__json_as_u64(const lzt__json_node *node, uint64_t min, uint64_t max)
{
    if (!is_a(node, json_is_integer(node->json), "an integer")) return 0;
    json_int_t value = json_integer_value(node->json);
    if (value >= 0 && (uint64_t)value >= min && (uint64_t)value <= max) return (uint64_t)value;
    lzt__json_fail(node, "is %" JSON_INTEGER_FORMAT ", must be %" PRIu64 " to %" PRIu64, value, min, max);
    return 0;
}

double lzt__json_as_real(const lzt__json_node *node, double min, double max)
{
    if (!is_a(node, json_is_number(node->json), "a number")) return 0;
    double value = json_number_value(node->json);
    if (value >= min && value <= max) return value;
    lzt__json_fail(node, "is %.17g, must be %g to %g", value, min, max);
    return 0;
}

bool lzt__json_as_bool(const lzt__json_node *node)
{
    return is_a(node, json_is_boolean(node->json), "true or false") && json_is_true(node->json);
}

const char *lzt__json_as_text(const lzt__json_node *node)
{
    return is_a(node, json_is_string(node->json), "a string") ? json_string_value(node->json) : "";
}

int lzt__json_as_choice(const lzt__json_node *node, const char *const *names, int count)
{
    if (!is_a(node, json_is_string(node->json), "a string")) return 0;
    char list[256] = "";
    for (int i = 0; i < count; i++) {
        if (!strcmp(json_string_value(node->json), names[i])) return i;
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    }
    lzt__json_fail(node, "is \"%.60s\", must be one of %s", json_string_value(node->json), list);
    return 0;
}

uint64_t lzt__json_u64(const lzt__json_node *node, const char *key, uint64_t min, uint64_t max)
{
    lzt__json_node member = lzt__json_member(node, key);
    return lzt__json_as_u64(&member, min, max);
}

double lzt__json_real(const lzt__json_node *node, const char *key, double min, double max)
{
    lzt__json_node member = lzt__json_member(node, key);
    return lzt__json_as_real(&member, min, max);
}

bool lzt__json_bool(const lzt__json_node *node, const char *key)
{
    lzt__json_node member = lzt__json_member(node, key);
    return lzt__json_as_bool(&member);
}

void lzt__json_text(const lzt__json_node *node, const char *key, char *out, uint64_t out_bytes)
{
    lzt__json_node member = lzt__json_member(node, key);
    const char *text = lzt__json_as_text(&member);
    size_t length = strlen(text);
    out[0] = 0;
    if (length >= out_bytes)
        lzt__json_fail(&member, "is %zu bytes long, may have %" PRIu64, length, out_bytes - 1);
    else
        memcpy(out, text, length + 1);
}
