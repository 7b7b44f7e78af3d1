/* The template language's syntax: text to a tree.
 *
 * The language is Jinja 2 as transformers configures it: trim_blocks, lstrip_blocks, loop controls, {% generation %}.
 * What is not in the tree's vocabulary (include, extends, filters and tests that we do not have) is an error with its
 * line, when the template is parsed and not when it is used.
 */
#ifndef LZT_DATA_JINJA_PARSE_H
#define LZT_DATA_JINJA_PARSE_H

#include "data/template/jinja_value.h"

typedef enum lzt__node_kind {
    /* statements */
    LZT__NODE_TEXT,       /* constant */
    LZT__NODE_PRINT,      /* a */
    LZT__NODE_IF,         /* a condition, b body, c otherwise */
    LZT__NODE_FOR,        /* a target, b iterable, c condition?, d body, e otherwise? */
    LZT__NODE_SET,        /* a target, b value */
    LZT__NODE_SET_BLOCK,  /* a target, b filters over BLOCK or NULL, c body */
    LZT__NODE_MACRO,      /* name, a parameters, b body */
    LZT__NODE_CALL_BLOCK, /* a call, b parameters, c body */
    LZT__NODE_FILTER,     /* a filters over BLOCK, b body */
    LZT__NODE_GENERATION, /* a body */
    LZT__NODE_BREAK,
    LZT__NODE_CONTINUE,
    /* expressions */
    LZT__NODE_CONST,     /* constant */
    LZT__NODE_NAME,      /* name */
    LZT__NODE_BLOCK,     /* the body's text, under filters */
    LZT__NODE_ATTRIBUTE, /* a, name */
    LZT__NODE_ITEM,      /* a, b */
    LZT__NODE_SLICE,     /* a; b begin?, c end?, d step? */
    LZT__NODE_CALL,      /* a, b arguments */
    LZT__NODE_APPLY,     /* filter: name, a, b arguments */
    LZT__NODE_TEST,      /* name, a, b arguments; op 1: negated */
    LZT__NODE_UNARY,     /* op, a */
    LZT__NODE_BINARY,    /* op, a, b */
    LZT__NODE_AND,
    LZT__NODE_OR,
    LZT__NODE_NOT,
    LZT__NODE_COMPARE,   /* a, then b = list of OPERAND */
    LZT__NODE_OPERAND,   /* op, a */
    LZT__NODE_CONDITION, /* a if b else c? */
    LZT__NODE_LIST,      /* a items */
    LZT__NODE_TUPLE,     /* a items */
    LZT__NODE_DICT,      /* a list of PAIR */
    LZT__NODE_PAIR,      /* a key, b value */
    LZT__NODE_ARGUMENT,  /* a; name: keyword. Of a macro: name, a default? */
} lzt__node_kind;

/* Operators of UNARY, BINARY and OPERAND. */
typedef enum lzt__operator {
    LZT__OP_ADD,
    LZT__OP_SUBTRACT,
    LZT__OP_MULTIPLY,
    LZT__OP_DIVIDE,
    LZT__OP_FLOOR_DIVIDE,
    LZT__OP_MODULO,
    LZT__OP_POWER,
    LZT__OP_CONCAT,
    LZT__OP_EQUAL,
    LZT__OP_DIFFERENT,
    LZT__OP_LESS,
    LZT__OP_LESS_EQUAL,
    LZT__OP_GREATER,
    LZT__OP_GREATER_EQUAL,
    LZT__OP_IN,
    LZT__OP_NOT_IN
} lzt__operator;

typedef struct lzt__node lzt__node;

struct lzt__node {
    uint8_t kind, op;
    uint32_t line;
    const char *name; /* interned: equal names are equal pointers */
    lzt__value constant;
    lzt__node *a, *b, *c, *d, *e;
    lzt__node *next; /* in a list */
};

/* A parsed template; free with lzt__jinja_free. */
typedef struct lzt__jinja {
    lzt__arena arena;
    lzt__node *body;
    const char **name; /* [name_count] the interned names */
    uint32_t name_count, name_capacity;
    bool has_generation;
} lzt__jinja;

/* Errors: LZT_ERR_DATA, `where` with the line. */
lzt_status lzt__jinja_parse(const char *source, uint64_t size, const char *where, lzt__jinja *jinja, lzt_error *err);
void lzt__jinja_free(lzt__jinja *jinja);
/* The interned name, NULL when the template does not use it. */
const char *lzt__jinja_name(const lzt__jinja *jinja, const char *name);

/* Which filters and tests there are (jinja_filters.c). */
bool lzt__jinja_has_filter(const char *name);
bool lzt__jinja_has_test(const char *name);

#endif
