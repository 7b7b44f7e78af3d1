/* Strict reading of our own JSON files: every key known, every type right, every message with file and key path.
 *
 * A reader wraps one parsed text; a node is a value in it and its path. Reading goes on after the first error with
 * zeros, and the first error stays: callers check reader.status once at the end of a function, or before they use a
 * count to allocate.
 *
 *     lzt__json_reader r;
 *     if (lzt__json_begin(&r, text, bytes, "plan.json", err)) return err->status;
 *     lzt__json_node root = lzt__json_root(&r);
 *     lzt__json_keys(&root, "format version?");
 *     uint64_t version = lzt__json_u64(&root, "version", 1, 1);
 *     lzt__json_end(&r);
 */
#ifndef LZT_PROFILE_JSON_READ_H
#define LZT_PROFILE_JSON_READ_H

#include "lazytrain/status.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct lzt__json_reader {
    const char *file;
    json_t *root;
    lzt_error *err;
    lzt_status status, fault; /* the first error; the status that errors of this file have */
} lzt__json_reader;

typedef struct lzt__json_node {
    lzt__json_reader *reader;
    json_t *json;
    char path[192]; /* "boundaries[3].tier"; "" for the root */
} lzt__json_node;

/* Parses text strictly (duplicate keys, trailing text and non-finite numbers are errors). fault: LZT_ERR_USAGE or
 * another. */
lzt_status lzt__json_begin(lzt__json_reader *reader, const char *text, uint64_t text_bytes, const char *file,
                           lzt_status fault, lzt_error *err);
/* Frees the text and returns the first error. */
lzt_status lzt__json_end(lzt__json_reader *reader);
lzt__json_node lzt__json_root(lzt__json_reader *reader);

/* Fails with the node's path; returns the reader's status. */
lzt_status lzt__json_fail(const lzt__json_node *node, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The node is an object and has all of these keys, separated by blanks, and no others; "key?" may be absent. */
void lzt__json_keys(const lzt__json_node *node, const char *keys);
bool lzt__json_has(const lzt__json_node *node, const char *key);
/* A member; of an absent one .json is NULL (an error is recorded). */
lzt__json_node lzt__json_member(const lzt__json_node *node, const char *key);
/* The length of an array node that must lie in [min, max]; 0 on error. */
uint64_t lzt__json_length(const lzt__json_node *node, uint64_t min, uint64_t max);
lzt__json_node lzt__json_element(const lzt__json_node *node, uint64_t index);

/* Values of the node itself. On error 0, false, "". */
uint64_t lzt__json_as_u64(const lzt__json_node *node, uint64_t min, uint64_t max);
double lzt__json_as_real(const lzt__json_node *node, double min, double max);
bool lzt__json_as_bool(const lzt__json_node *node);
const char *lzt__json_as_text(const lzt__json_node *node);
/* The index of the node's string among names[count]. */
int lzt__json_as_choice(const lzt__json_node *node, const char *const *names, int count);

/* Values of a member. */
uint64_t lzt__json_u64(const lzt__json_node *node, const char *key, uint64_t min, uint64_t max);
double lzt__json_real(const lzt__json_node *node, const char *key, double min, double max);
bool lzt__json_bool(const lzt__json_node *node, const char *key);
/* Copies a member string; too long is an error. */
void lzt__json_text(const lzt__json_node *node, const char *key, char *out, uint64_t out_bytes);

#endif
