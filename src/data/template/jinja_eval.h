/* The template language at work: a tree and variables in, marked text out.
 *
 * Rendering also notes which chat message a stretch of the output belongs to: the message whose loop iteration printed
 * it. Values live in the evaluator's arena until the next rendering.
 *
 * Threads: one rendering at a time per evaluator.
 */
#ifndef LZT_DATA_JINJA_EVAL_H
#define LZT_DATA_JINJA_EVAL_H

#include "data/template/jinja_parse.h"

/* Output from begin on belongs to the message (-1: none), up to the next turn's begin. */
typedef struct lzt__turn {
    uint64_t begin;
    int32_t message;
} lzt__turn;

typedef struct lzt__variable {
    const char *name; /* interned by the template */
    lzt__value value;
} lzt__variable;

/* A scope. */
typedef struct lzt__frame {
    struct lzt__frame *parent;
    lzt__variable *variable; /* [count] */
    uint32_t count, capacity;
} lzt__frame;

/* What `loop` is. */
typedef struct lzt__loop {
    const lzt__list *list;
    uint32_t index, depth;
} lzt__loop;

typedef struct lzt__eval {
    const lzt__jinja *jinja;
    const char *where;
    lzt__arena arena;
    lzt__out out; /* of the template itself */
    lzt__out *to; /* where statements print: out, or a capture */
    lzt__frame root;
    uint8_t marks; /* added to all output: LZT__MARK_GENERATED inside a generation block */
    int32_t message;
    lzt__turn *turn; /* [turn_count] */
    uint32_t turn_count, turn_capacity;
    uint32_t depth;
    uint64_t steps; /* nodes that may still be evaluated */
    int64_t now;    /* seconds since 1970, for strftime_now */
    lzt_status status;
    lzt_error *err;
} lzt__eval;

void lzt__eval_begin(lzt__eval *ev, const lzt__jinja *jinja, const char *where); /* keeps its memory */
void lzt__eval_free(lzt__eval *ev);
/* A variable of the template; one that the template does not name is dropped. */
lzt_status lzt__eval_set(lzt__eval *ev, const char *name, lzt__value value, lzt_error *err);
/* Renders into ev->out and ev->turn. Errors: LZT_ERR_DATA with the template's line. */
lzt_status lzt__eval_run(lzt__eval *ev, lzt_error *err);

/* For filters and methods. Positional arguments first. */
typedef struct lzt__call {
    lzt__value *value; /* [count] */
    const char **name; /* [count] NULL: positional */
    uint32_t count, line;
} lzt__call;

/* Notes an error (the first one stays) and returns false. */
bool lzt__eval_fail(lzt__eval *ev, uint32_t line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool lzt__eval_no_memory(lzt__eval *ev);
#define LZT__EVAL_STEP_BYTES 64 /* bytes to look through for a step */
/* Counts work that grows with a value's size among the steps. */
bool lzt__eval_spend(lzt__eval *ev, uint64_t steps, uint32_t line);
bool lzt__eval_equal(lzt__eval *ev, const lzt__value *a, const lzt__value *b, uint32_t line, bool *result);
void *lzt__eval_take(lzt__eval *ev, uint64_t bytes); /* zeroed memory of the arena; NULL: an error was noted */
/* The argument at place, or called name; NULL: not given. */
const lzt__value *lzt__call_argument(const lzt__call *c, uint32_t place, const char *name);
/* str(v) as a string value */
bool lzt__eval_string(lzt__eval *ev, const lzt__value *v, lzt__value *result);

/* jinja_access.c */
/* Notes that v, undefined, was used; returns false. */
bool lzt__eval_undefined(lzt__eval *ev, const lzt__value *v, uint32_t line);
/* Sets *i to an integer's or boolean's value; false: neither. */
bool lzt__eval_index(const lzt__value *index, int64_t *i);
/* All items of what can be iterated: a list as it is, a dict's keys, a string's characters. */
bool lzt__eval_items(lzt__eval *ev, const lzt__value *v, uint32_t line, lzt__list **list);
/* v.name and v[index], Python's and Jinja's rules. */
bool lzt__eval_attribute(lzt__eval *ev, const lzt__value *v, const char *name, uint32_t line, lzt__value *result);
bool lzt__eval_item(lzt__eval *ev, const lzt__value *v, const lzt__value *index, uint32_t line, lzt__value *result);
/* v[first:stop:step]; NULL: not given */
bool lzt__eval_slice(lzt__eval *ev, const lzt__value *v, const int64_t *first, const int64_t *stop, int64_t step,
                     uint32_t line, lzt__value *result);
bool lzt__eval_contains(lzt__eval *ev, const lzt__value *item, const lzt__value *in, uint32_t line, bool *result);

/* jinja_operators.c */
bool lzt__eval_binary(lzt__eval *ev, lzt__operator op, const lzt__value *a, const lzt__value *b, uint32_t line,
                      lzt__value *result);
bool lzt__eval_compare(lzt__eval *ev, lzt__operator op, const lzt__value *a, const lzt__value *b, uint32_t line,
                       bool *result);
/* +v or -v, in place */
bool lzt__eval_sign(lzt__eval *ev, lzt__operator op, uint32_t line, lzt__value *v);

/* jinja_filters.c */
bool lzt__filter_apply(lzt__eval *ev, const char *name, const lzt__value *v, const lzt__call *c, lzt__value *result);
bool lzt__test_apply(lzt__eval *ev, const char *name, const lzt__value *v, const lzt__call *c, bool *result);
/* jinja_methods.c: methods of strings, dicts and lists */
bool lzt__method_exists(const lzt__value *self, const char *name);
bool lzt__method_call(lzt__eval *ev, const lzt__method *m, const lzt__call *c, lzt__value *result);
/* Strips characters (NULL: white space) from the start (bit 1) and the end (bit 2). */
bool lzt__string_strip(lzt__eval *ev, const lzt__string *s, const lzt__string *characters, int sides,
                       lzt__value *result);
bool lzt__string_replace(lzt__eval *ev, const lzt__string *s, const lzt__string *from, const lzt__string *to,
                         int64_t count, lzt__value *result);
bool lzt__string_case(lzt__eval *ev, const lzt__string *s, char how, lzt__value *result); /* u l c t */

#endif
