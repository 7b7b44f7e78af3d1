/* Reading typed values out of a JSON object with one sticky error.
 *
 * Every getter returns a harmless value once an error is recorded, so that a parser reads all its keys in a row and
 * checks status once. A key is looked up in `object` only; messages name it with `prefix` in front.
 */
#ifndef LZT_MODEL_JSON_H
#define LZT_MODEL_JSON_H

#include "lazytrain/status.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct lzt__model_json {
    const json_t *object;
    const char *prefix; /* "" or "text_config." */
    const char *where;  /* the file */
    lzt_error *err;
    lzt_status status;
} lzt__model_json;

/* Records an error about key unless one is recorded already. */
void lzt__model_json_fail(lzt__model_json *j, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The value of key, or NULL when it is absent or null. */
const json_t *lzt__model_json_get(const lzt__model_json *j, const char *key);

/* An integer in [low, high]; `fallback` when absent or null (-1: the key is required). Never 0 unless low is. */
uint64_t lzt__model_json_size(lzt__model_json *j, const char *key, int64_t fallback, uint64_t low, uint64_t high);
/* A finite number in [low, high]; `fallback` when absent or null (NAN: required). */
double lzt__model_json_number(lzt__model_json *j, const char *key, double fallback, double low, double high);
bool lzt__model_json_bool(lzt__model_json *j, const char *key, bool fallback);
/* A string that lives as long as the JSON value; `fallback` when absent or null. */
const char *lzt__model_json_string(lzt__model_json *j, const char *key, const char *fallback);
/* An object, or NULL when absent or null. */
const json_t *lzt__model_json_object(lzt__model_json *j, const char *key);

/* Loads the text of a JSON object, refusing duplicate keys. Errors: LZT_ERR_MODEL with where:line. */
lzt_status lzt__model_json_load(const char *text, size_t bytes, const char *where, json_t **root, lzt_error *err);

#endif
