/* The template language's tokens: what jinja_parse.c reads a template through. Errors are remembered in the scanner and
 * reported once; after one, every function is harmless. */
#ifndef LZT_DATA_JINJA_SCAN_H
#define LZT_DATA_JINJA_SCAN_H

#include "data/template/jinja_parse.h"

typedef enum lzt__token_type { T_END, T_NAME, T_STRING, T_NUMBER, T_SYMBOL, T_BLOCK_END, T_PRINT_END } lzt__token_type;

typedef struct lzt__token {
    lzt__token_type type;
    uint32_t line;
    const char *text; /* of names (interned) and symbols */
    lzt__value value; /* of strings and numbers */
} lzt__token;

typedef struct lzt__scanner {
    lzt__jinja *j;
    const char *source;
    uint64_t size, at;
    uint32_t line, depth, brackets, loops;
    bool line_starting;
    lzt__token t; /* the current one, inside a tag */
    const char *where;
    lzt_status status;
    lzt_error *err;
} lzt__scanner;

/* An error with its line, once; returns NULL. */
lzt__node *lzt__scan_fail(lzt__scanner *p, uint32_t line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Zeroed memory of the template's arena; NULL ends the parse. */
void *lzt__scan_take(lzt__scanner *p, uint64_t bytes);
/* A new node of the kind. */
lzt__node *lzt__scan_node(lzt__scanner *p, lzt__node_kind kind, uint32_t line);
/* The code point at a byte of the source, and its length n; n 0 past the end or where it is no UTF-8. */
uint32_t lzt__scan_code_at(const lzt__scanner *p, uint64_t at, uint32_t *n);
/* Past white space inside a tag. */
void lzt__scan_skip_space(lzt__scanner *p);
/* The source goes on with text. */
bool lzt__scan_looking_at(const lzt__scanner *p, const char *text);
/* Eats the end of a tag, with the white space that it strips. */
void lzt__scan_close_tag(lzt__scanner *p, bool block);
/* Moves to the next token of the tag. */
void lzt__scan_next(lzt__scanner *p);
bool lzt__scan_is_symbol(const lzt__scanner *p, const char *text);
bool lzt__scan_is_name(const lzt__scanner *p, const char *text);
/* Past the symbol, if it is next. */
bool lzt__scan_skip_symbol(lzt__scanner *p, const char *text);
/* Past the name, if it is next. */
bool lzt__scan_skip_name(lzt__scanner *p, const char *text);
/* The token in hand, as messages spell it. */
const char *lzt__scan_shown(const lzt__scanner *p);
/* The symbol, or an error. */
void lzt__scan_expect(lzt__scanner *p, const char *symbol);
/* The end of text before a tag: `-` takes all white space, a block that only white space precedes on its line takes
 * that. */
uint64_t lzt__scan_trimmed_end(const lzt__scanner *p, uint64_t begin, uint64_t end, char sign, bool block);

#endif
