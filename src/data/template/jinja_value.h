/* Values of the template language: Python's, as far as chat templates use them.
 *
 * Every byte of a string carries marks: whether the template wrote it (and not the data), and whether it lies in a
 * {% generation %} block. Operations on strings carry the marks along, so that the rendered text says of each byte
 * where it came from. Values live in an arena and are never changed once made, but for namespaces.
 *
 * Threads: an arena and its values belong to one thread.
 */
#ifndef LZT_DATA_JINJA_VALUE_H
#define LZT_DATA_JINJA_VALUE_H

#include "base/jsontree.h"

#include <stdbool.h>

/* Marks of a byte. */
#define LZT__MARK_TEMPLATE  1 /* written by the template */
#define LZT__MARK_GENERATED 2 /* inside {% generation %} */

typedef struct lzt__arena_block lzt__arena_block;

typedef struct lzt__arena {
    lzt__arena_block *block;
    uint64_t used, limit; /* bytes in all; 0: no limit */
} lzt__arena;

/* Zeroed never; NULL when the system or the limit refuses. */
void *lzt__arena_take(lzt__arena *arena, uint64_t bytes);
/* Keeps one block for the next use. */
void lzt__arena_reset(lzt__arena *arena);
void lzt__arena_free(lzt__arena *arena);

typedef enum lzt__kind {
    LZT__KIND_UNDEFINED,
    LZT__KIND_NONE,
    LZT__KIND_BOOL,
    LZT__KIND_INT,
    LZT__KIND_FLOAT,
    LZT__KIND_STRING,
    LZT__KIND_LIST,
    LZT__KIND_TUPLE,
    LZT__KIND_DICT,
    LZT__KIND_NAMESPACE,
    LZT__KIND_MACRO,
    LZT__KIND_METHOD,   /* a name bound to a value */
    LZT__KIND_FUNCTION, /* a global function, by name */
    LZT__KIND_LOOP,
    LZT__KIND_CALLER
} lzt__kind;

typedef struct lzt__string {
    const char *bytes;   /* valid UTF-8 */
    const uint8_t *mark; /* [size], or NULL: all bytes have `marks` */
    uint32_t size;
    uint8_t marks;
    bool is_markup; /* came out of `safe`: + escapes what it is added to */
} lzt__string;

typedef struct lzt__value lzt__value;

typedef struct lzt__list {
    lzt__value *item; /* [count] */
    uint32_t count;
} lzt__list;

/* In the order of insertion; keys are strings, numbers, booleans or None. */
typedef struct lzt__dict {
    lzt__value *key, *value; /* [count] */
    uint32_t count, capacity;
    int32_t message; /* index of the chat message that this is, or -1 */
} lzt__dict;

typedef struct lzt__method {
    lzt__value *self;
    const char *name;
} lzt__method;

struct lzt__value {
    uint8_t kind; /* lzt__kind */
    union {
        int64_t integer; /* the first and the widest: {KIND, {0}} clears them all */
        bool truth;
        double real;
        lzt__string *string;
        lzt__list *list;
        lzt__dict *dict; /* also NAMESPACE */
        lzt__method *method;
        const char *name; /* FUNCTION; UNDEFINED: what was looked for, or NULL */
        void *any;        /* MACRO, LOOP, CALLER: the evaluator's */
    };
};

_Static_assert(sizeof(lzt__value) == 2 * sizeof(int64_t), "no member of a value is wider than its first");

/* A growing text with marks. */
typedef struct lzt__out {
    char *bytes;
    uint8_t *mark;
    uint64_t size, capacity;
    uint32_t value_count; /* values written, of which there is a limit: see VALUES_MAX */
} lzt__out;

bool lzt__out_reserve(lzt__out *out, uint64_t more); /* false: no memory, or a text above 64 MiB */
void lzt__out_free(lzt__out *out);
bool lzt__out_put(lzt__out *out, const char *bytes, uint64_t size, uint8_t marks);
bool lzt__out_string(lzt__out *out, const lzt__string *s);
/* The out's content as a value in the arena; false: no memory. */
bool lzt__out_value(lzt__arena *arena, const lzt__out *out, lzt__value *value);

/* Makers; false: no memory. bytes are not copied. */
bool lzt__value_string(lzt__arena *arena, const char *bytes, uint64_t size, uint8_t marks, lzt__value *value);
/* Bytes begin..end-1 of s. */
bool lzt__value_part(lzt__arena *arena, const lzt__string *s, uint64_t begin, uint64_t end, lzt__value *value);
bool lzt__value_list(lzt__arena *arena, uint32_t count, lzt__kind kind, lzt__value *value);
bool lzt__value_dict(lzt__arena *arena, uint32_t capacity, lzt__value *value);
bool lzt__dict_set(lzt__arena *arena, lzt__dict *dict, lzt__value key, lzt__value value);
const lzt__value *lzt__dict_get(const lzt__dict *dict, const lzt__value *key); /* NULL: absent */
const lzt__value *lzt__dict_find(const lzt__dict *dict, const char *key);
/* A JSON tree as values whose strings are data. Errors: NO_MEMORY, DATA (an integer beyond 64 bits). */
lzt_status lzt__value_from_json(lzt__arena *arena, const lzt__json *node, lzt__value *value, lzt_error *err);

bool lzt__value_truth(const lzt__value *v);
/* Sets *x to an integer's, a float's or a boolean's value; false: no number. */
bool lzt__value_number(const lzt__value *v, double *x);
/* *unknown (NULL: not asked): the values nest too deeply, or are too many, to say; false is returned. */
bool lzt__value_equal(const lzt__value *a, const lzt__value *b, bool *unknown);
/* Sets *order to <0, 0, >0; false where Python would raise. */
bool lzt__value_order(const lzt__value *a, const lzt__value *b, int *order);
const char *lzt__kind_name(const lzt__value *v); /* as Python names the type */

/* str(v), repr(v); false: no memory, nested too deeply or too many. Numbers and the like get `marks`. */
bool lzt__value_str(lzt__out *out, const lzt__value *v, uint8_t marks);
bool lzt__value_repr(lzt__out *out, const lzt__value *v, uint32_t depth);

typedef struct lzt__dump {
    bool ensure_ascii, sort_keys;
    int64_t indent; /* -1: none */
    const char *indent_text;
    uint32_t indent_size;
    const lzt__string *item_separator, *key_separator; /* NULL: Python's */
} lzt__dump;

/* json.dumps; false with *what (may stay NULL: no memory) naming what cannot be written. */
bool lzt__value_dump(lzt__out *out, const lzt__value *v, const lzt__dump *how, uint32_t depth, const char **what);

/* Code points. */
uint64_t lzt__utf8_count(const char *bytes, uint64_t size);
/* Byte offset of code point index (at most size). */
uint64_t lzt__utf8_offset(const char *bytes, uint64_t size, uint64_t index);
/* str.isspace of the code point */
bool lzt__is_py_space(uint32_t code);

#endif
