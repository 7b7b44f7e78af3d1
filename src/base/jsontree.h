/* A JSON text as a flat tree, for data rows and tokenizer files.
 *
 * Why not the library that the rest of the program uses: rows may hold NULs, lone surrogates and bytes that are not
 * UTF-8, numbers must keep their spelling (templates print them as Python would), the order of keys counts, and a
 * tokenizer file of 11 MB has to load in well under 100 ms.
 *
 * Nodes lie in one array in reading order: the first child of a container is the node after it, the next sibling is
 * `skip` nodes further. Strings point into the input where they can, into the document's own blocks where they had to
 * be decoded. One written rule for broken text: an unpaired surrogate escape and every byte that is not part of valid
 * UTF-8 becomes U+FFFD and is counted; anything else that is not JSON is an error with its byte offset.
 *
 * Threads: one at a time per document. Ownership: nodes live until the next parse or free; the input must outlive them.
 */
#ifndef LZT_BASE_JSONTREE_H
#define LZT_BASE_JSONTREE_H

#include "lazytrain/status.h"

#include <stdbool.h>

typedef enum lzt__json_type {
    LZT__JSON_NULL,
    LZT__JSON_FALSE,
    LZT__JSON_TRUE,
    LZT__JSON_NUMBER,
    LZT__JSON_STRING,
    LZT__JSON_ARRAY,
    LZT__JSON_OBJECT
} lzt__json_type;

/* Containers nest at most this deep. */
#define LZT__JSON_DEPTH_MAX 200

typedef struct lzt__json {
    uint8_t type;      /* lzt__json_type */
    bool is_integer;   /* of a number: neither fraction nor exponent */
    uint32_t key_size; /* bytes */
    uint32_t size;     /* bytes of text; children of a container */
    uint32_t skip;     /* nodes from here to the next sibling */
    const char *key;   /* NULL outside objects; not terminated */
    const char *text;  /* a string's bytes (not terminated), a number's spelling; of a null: see not_finite */
} lzt__json;

typedef struct lzt__json_block lzt__json_block;

typedef struct lzt__json_doc {
    lzt__json *node; /* [node_count], node[0] is the root */
    uint32_t node_count, node_capacity;
    uint64_t replaced; /* surrogates and bytes that became U+FFFD in the last parse */
    uint64_t nuls;     /* escaped NULs in the last parse */
    uint64_t at;       /* byte offset of the last parse's error */
    bool not_finite;   /* in: NaN, Infinity and -Infinity are nulls whose text says which; else they are errors */
    lzt__json_block *block;
} lzt__json_doc;

/* Parses text[0..size) whole (trailing space allowed). Errors: LZT_ERR_DATA with `where`, the message holding the byte
 * offset; NO_MEMORY. doc starts zeroed and can be parsed into again and again. */
lzt_status lzt__json_parse(lzt__json_doc *doc, const char *text, uint64_t size, const char *where, lzt_error *err);
void lzt__json_free(lzt__json_doc *doc);

static inline const lzt__json *lzt__json_child(const lzt__json *node)
{
    return node + 1;
}
static inline const lzt__json *lzt__json_next(const lzt__json *node)
{
    return node + node->skip;
}
/* The member of an object, the last one where a key repeats (as Python has it); NULL when absent or not an object. */
const lzt__json *lzt__json_get(const lzt__json *object, const char *key);
bool lzt__json_is_string(const lzt__json *node, const char *text);
/* false unless node is an integer that fits */
bool lzt__json_integer(const lzt__json *node, int64_t *value);
/* The member's truth, or otherwise where it is absent or null. */
bool lzt__json_flag(const lzt__json *object, const char *key, bool otherwise);

/* Appends the code point to out[0..3]; returns the bytes written (1 to 4). */
uint32_t lzt__utf8_put(char *out, uint32_t code);
/* Length of the valid UTF-8 sequence at text[0..size), 0 if there is none; *code receives the code point. */
uint32_t lzt__utf8_get(const char *text, uint64_t size, uint32_t *code);

#endif
