/* Typed values out of a JSON object: see model_json.h. */
#include "model_json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

void lzt__model_json_fail(lzt__model_json *j, const char *key, const char *fmt, ...)
{
    if (j->status) return;
    char text[768];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    j->status = lzt_fail(j->err, LZT_ERR_MODEL, j->where, "\"%s%s\" %s", j->prefix, key, text);
}

const json_t *lzt__model_json_get(const lzt__model_json *j, const char *key)
{
    const json_t *value = json_object_get(j->object, key);
    return json_is_null(value) ? NULL : value;
}

uint64_t lzt__model_json_size(lzt__model_json *j, const char *key, int64_t fallback, uint64_t low, uint64_t high)
{
    uint64_t harmless = low ? low : 1;
    if (j->status) return harmless;
    const json_t *value = lzt__model_json_get(j, key);
    if (!value) {
        if (fallback >= 0) return (uint64_t)fallback;
        lzt__model_json_fail(j, key, "is missing");
        return harmless;
    }
    if (!json_is_integer(value)) {
        lzt__model_json_fail(j, key, "is not an integer");
        return harmless;
    }
    json_int_t n = json_integer_value(value);
    if (n < (json_int_t)low || n > (json_int_t)high) {
        lzt__model_json_fail(j, key, "is %lld, outside %llu to %llu", (long long)n, (unsigned long long)low,
                             (unsigned long long)high);
        return harmless;
    }
    return (uint64_t)n;
}

double lzt__model_json_number(lzt__model_json *j, const char *key, double fallback, double low, double high)
{
    if (j->status) return low;
    const json_t *value = lzt__model_json_get(j, key);
    if (!value) {
        if (!isnan(fallback)) return fallback;
        lzt__model_json_fail(j, key, "is missing");
        return low;
    }
    if (!json_is_number(value)) {
        lzt__model_json_fail(j, key, "is not a number");
        return low;
    }
    double n = json_number_value(value);
    if (!(n >= low && n <= high)) {
        lzt__model_json_fail(j, key, "is %g, outside %g to %g", n, low, high);
        return low;
    }
    return n;
}

bool lzt__model_json_bool(lzt__model_json *j, const char *key, bool fallback)
{
    const json_t *value = lzt__model_json_get(j, key);
    if (!value) return fallback;
    if (!json_is_boolean(value)) lzt__model_json_fail(j, key, "is neither true nor false");
    return json_is_true(value);
}

const char *lzt__model_json_string(lzt__model_json *j, const char *key, const char *fallback)
{
    const json_t *value = lzt__model_json_get(j, key);
    if (!value) return fallback;
    if (!json_is_string(value)) {
        lzt__model_json_fail(j, key, "is not a string");
        return fallback;
    }
    return json_string_value(value);
}

const json_t *lzt__model_json_object(lzt__model_json *j, const char *key)
{
    const json_t *value = lzt__model_json_get(j, key);
    if (value && !json_is_object(value)) {
        lzt__model_json_fail(j, key, "is not an object");
        return NULL;
    }
    return value;
}

lzt_status lzt__model_json_load(const char *text, size_t bytes, const char *where, json_t **root, lzt_error *err)
{
    json_error_t json_err;
    *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &json_err);
    if (!*root) {
        char place[512];
        snprintf(place, sizeof place, "%s:%d", where, json_err.line);
        if (json_error_code(&json_err) == json_error_out_of_memory)
            return lzt_fail(err, LZT_ERR_NO_MEMORY, place, "no memory for the JSON text");
        return lzt_fail(err, LZT_ERR_MODEL, place, "not valid JSON: %s (column %d)", json_err.text, json_err.column);
    }
    if (json_is_object(*root)) return LZT_OK;
    json_decref(*root);
    *root = NULL;
    return lzt_fail(err, LZT_ERR_MODEL, where, "the JSON text is not an object");
}
