/* The template language's parser: see jinja_parse.h. The grammar is Jinja's own, one function a level of precedence;
 * the tokens are jinja_scan.c's. */
#include "data/template/jinja_scan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 100

/* ---- expressions ---- */

static lzt__node *expression(lzt__scanner *p);
static lzt__node *unary(lzt__scanner *p, bool with_filters);

static lzt__node *constant(lzt__scanner *p, lzt__value v, uint32_t line)
{
    lzt__node *n = lzt__scan_node(p, LZT__NODE_CONST, line);
    if (n) n->constant = v;
    return n;
}

/* Items up to the closing symbol; appended to *list. */
static void items(lzt__scanner *p, const char *end, lzt__node **list)
{
    while (!p->status && !lzt__scan_is_symbol(p, end)) {
        lzt__node *item = expression(p);
        if (!item) return;
        *list = item;
        list = &item->next;
        if (!lzt__scan_skip_symbol(p, ",")) break;
    }
    lzt__scan_expect(p, end);
}

static lzt__node *dict(lzt__scanner *p, uint32_t line)
{
    lzt__node *d = lzt__scan_node(p, LZT__NODE_DICT, line), **list = d ? &d->a : NULL;
    while (d && !p->status && !lzt__scan_is_symbol(p, "}")) {
        lzt__node *pair = lzt__scan_node(p, LZT__NODE_PAIR, p->t.line);
        if (!pair) return NULL;
        pair->a = expression(p);
        lzt__scan_expect(p, ":");
        pair->b = p->status ? NULL : expression(p);
        *list = pair;
        list = &pair->next;
        if (!lzt__scan_skip_symbol(p, ",")) break;
    }
    lzt__scan_expect(p, "}");
    return d;
}

/* In parentheses: an expression, or a tuple. */
static lzt__node *parenthesis(lzt__scanner *p, uint32_t line)
{
    if (lzt__scan_skip_symbol(p, ")")) return lzt__scan_node(p, LZT__NODE_TUPLE, line);
    lzt__node *first = expression(p);
    if (!first || lzt__scan_skip_symbol(p, ")")) return first;
    lzt__node *t = lzt__scan_node(p, LZT__NODE_TUPLE, line);
    if (!t) return NULL;
    t->a = first;
    lzt__scan_expect(p, ",");
    items(p, ")", &first->next);
    return t;
}

/* Strings side by side are one. */
static lzt__node *string_constant(lzt__scanner *p)
{
    uint32_t line = p->t.line;
    lzt__value v = p->t.value;
    lzt__scan_next(p);
    while (p->t.type == T_STRING && !p->status) {
        const lzt__string *a = v.string, *b = p->t.value.string;
        char *both = lzt__scan_take(p, (uint64_t)a->size + b->size + 1);
        if (!both) return NULL;
        memcpy(both, a->bytes, a->size);
        memcpy(both + a->size, b->bytes, b->size);
        if (!lzt__value_string(&p->j->arena, both, (uint64_t)a->size + b->size, LZT__MARK_TEMPLATE, &v))
            return lzt__scan_fail(p, line, "a string that is too long");
        lzt__scan_next(p);
    }
    return constant(p, v, line);
}

static lzt__node *primary(lzt__scanner *p)
{
    uint32_t line = p->t.line;
    if (p->t.type == T_STRING) return string_constant(p);
    if (p->t.type == T_NUMBER) {
        lzt__value v = p->t.value;
        lzt__scan_next(p);
        return constant(p, v, line);
    }
    if (p->t.type == T_NAME) {
        const char *name = p->t.text;
        lzt__scan_next(p);
        if (!strcmp(name, "true") || !strcmp(name, "True"))
            return constant(p, (lzt__value){LZT__KIND_BOOL, {.truth = true}}, line);
        if (!strcmp(name, "false") || !strcmp(name, "False"))
            return constant(p, (lzt__value){LZT__KIND_BOOL, {.truth = false}}, line);
        if (!strcmp(name, "none") || !strcmp(name, "None")) return constant(p, (lzt__value){LZT__KIND_NONE, {0}}, line);
        lzt__node *n = lzt__scan_node(p, LZT__NODE_NAME, line);
        if (n) n->name = name;
        return n;
    }
    if (lzt__scan_skip_symbol(p, "(")) return parenthesis(p, line);
    if (lzt__scan_skip_symbol(p, "{")) return dict(p, line);
    if (!lzt__scan_skip_symbol(p, "["))
        return lzt__scan_fail(p, line, "an expression was expected, not %s", lzt__scan_shown(p));
    lzt__node *n = lzt__scan_node(p, LZT__NODE_LIST, line);
    if (n) items(p, "]", &n->a);
    return n;
}

/* Behind "[": an index, or a slice. */
static lzt__node *subscript(lzt__scanner *p, lzt__node *of)
{
    lzt__node *n = lzt__scan_node(p, LZT__NODE_ITEM, p->t.line);
    if (!n) return NULL;
    n->a = of;
    if (!lzt__scan_is_symbol(p, ":")) n->b = expression(p);
    if (!p->status && lzt__scan_is_symbol(p, ":")) {
        n->kind = LZT__NODE_SLICE;
        lzt__scan_next(p);
        if (!lzt__scan_is_symbol(p, "]") && !lzt__scan_is_symbol(p, ":")) n->c = expression(p);
        if (!p->status && lzt__scan_skip_symbol(p, ":") && !lzt__scan_is_symbol(p, "]")) n->d = expression(p);
    }
    if (lzt__scan_is_symbol(p, ",")) return lzt__scan_fail(p, p->t.line, "an index of several parts is not supported");
    lzt__scan_expect(p, "]");
    return n;
}

/* Behind "(": arguments up to ")". */
static lzt__node *arguments(lzt__scanner *p)
{
    lzt__node *first = NULL, **list = &first;
    while (!p->status && !lzt__scan_is_symbol(p, ")")) {
        if (lzt__scan_is_symbol(p, "*") || lzt__scan_is_symbol(p, "**"))
            return lzt__scan_fail(p, p->t.line, "arguments behind %s are not supported", p->t.text);
        lzt__node *arg = lzt__scan_node(p, LZT__NODE_ARGUMENT, p->t.line);
        if (!arg) return NULL;
        arg->a = expression(p);
        if (!p->status && lzt__scan_is_symbol(p, "=") && arg->a->kind == LZT__NODE_NAME) {
            arg->name = arg->a->name;
            lzt__scan_next(p);
            arg->a = expression(p);
        }
        *list = arg;
        list = &arg->next;
        if (!lzt__scan_skip_symbol(p, ",")) break;
    }
    lzt__scan_expect(p, ")");
    return first;
}

static lzt__node *call(lzt__scanner *p, lzt__node *of)
{
    lzt__node *n = lzt__scan_node(p, LZT__NODE_CALL, p->t.line);
    if (!n) return NULL;
    n->a = of;
    n->b = arguments(p);
    return n;
}

static lzt__node *attribute(lzt__scanner *p, lzt__node *of)
{
    lzt__node *n = lzt__scan_node(p, LZT__NODE_ATTRIBUTE, p->t.line);
    if (!n) return NULL;
    n->a = of;
    if (p->t.type == T_NAME) {
        n->name = p->t.text;
    } else if (p->t.type == T_NUMBER && p->t.value.kind == LZT__KIND_INT) {
        n->kind = LZT__NODE_ITEM;
        n->b = constant(p, p->t.value, p->t.line);
    } else {
        return lzt__scan_fail(p, p->t.line, "a name was expected behind the dot, not %s", lzt__scan_shown(p));
    }
    lzt__scan_next(p);
    return n;
}

static lzt__node *postfix(lzt__scanner *p, lzt__node *n)
{
    while (n && !p->status) {
        if (lzt__scan_skip_symbol(p, "."))
            n = attribute(p, n);
        else if (lzt__scan_skip_symbol(p, "["))
            n = subscript(p, n);
        else if (lzt__scan_skip_symbol(p, "("))
            n = call(p, n);
        else
            break;
    }
    return p->status ? NULL : n;
}

/* Behind "|". */
static lzt__node *apply(lzt__scanner *p, lzt__node *of)
{
    lzt__node *n = lzt__scan_node(p, LZT__NODE_APPLY, p->t.line);
    if (!n) return NULL;
    if (p->t.type != T_NAME)
        return lzt__scan_fail(p, p->t.line, "a filter's name was expected, not %s", lzt__scan_shown(p));
    if (!lzt__jinja_has_filter(p->t.text))
        return lzt__scan_fail(p, p->t.line, "the filter '%s' is not supported", p->t.text);
    n->a = of;
    n->name = p->t.text;
    lzt__scan_next(p);
    if (lzt__scan_skip_symbol(p, "(")) n->b = arguments(p);
    return n;
}

/* Behind "is": a test, its argument with or without parentheses. */
static lzt__node *test(lzt__scanner *p, lzt__node *of)
{
    lzt__node *n = lzt__scan_node(p, LZT__NODE_TEST, p->t.line);
    if (!n) return NULL;
    n->a = of;
    n->op = lzt__scan_skip_name(p, "not");
    if (p->t.type != T_NAME)
        return lzt__scan_fail(p, p->t.line, "a test's name was expected, not %s", lzt__scan_shown(p));
    if (!lzt__jinja_has_test(p->t.text))
        return lzt__scan_fail(p, p->t.line, "the test '%s' is not supported", p->t.text);
    n->name = p->t.text;
    lzt__scan_next(p);
    if (lzt__scan_skip_symbol(p, "(")) {
        n->b = arguments(p);
        return n;
    }
    bool stops = lzt__scan_is_name(p, "else") || lzt__scan_is_name(p, "or") || lzt__scan_is_name(p, "and") ||
                 lzt__scan_is_name(p, "is");
    bool starts = p->t.type == T_NAME || p->t.type == T_STRING || p->t.type == T_NUMBER ||
                  lzt__scan_is_symbol(p, "[") || lzt__scan_is_symbol(p, "{");
    if (!starts || stops || lzt__scan_is_name(p, "if") || lzt__scan_is_name(p, "not") || lzt__scan_is_name(p, "in"))
        return n;
    lzt__node *arg = lzt__scan_node(p, LZT__NODE_ARGUMENT, p->t.line);
    if (!arg) return NULL;
    arg->a = postfix(p, primary(p));
    n->b = arg;
    return n;
}

static lzt__node *filters(lzt__scanner *p, lzt__node *n)
{
    while (n && !p->status) {
        if (lzt__scan_skip_symbol(p, "|"))
            n = apply(p, n);
        else if (lzt__scan_skip_name(p, "is"))
            n = test(p, n);
        else if (lzt__scan_skip_symbol(p, "("))
            n = call(p, n);
        else
            break;
    }
    return p->status ? NULL : n;
}

static lzt__node *unary(lzt__scanner *p, bool with_filters)
{
    lzt__node *n;
    if (++p->depth > DEPTH_MAX) return lzt__scan_fail(p, p->t.line, "an expression nests too deeply");
    if (lzt__scan_is_symbol(p, "-") || lzt__scan_is_symbol(p, "+")) {
        n = lzt__scan_node(p, LZT__NODE_UNARY, p->t.line);
        if (!n) return NULL;
        n->op = lzt__scan_is_symbol(p, "-") ? LZT__OP_SUBTRACT : LZT__OP_ADD;
        lzt__scan_next(p);
        n->a = unary(p, false);
    } else {
        n = primary(p);
    }
    n = postfix(p, n);
    p->depth--;
    return with_filters ? filters(p, n) : n;
}

typedef struct level {
    const char *symbol[5];
    lzt__operator op[5];
} level;

/* From loose to tight: + -, ~, * / // %, **. */
static const level levels[] = {
    {{"+", "-"}, {LZT__OP_ADD, LZT__OP_SUBTRACT}},
    {{"~"}, {LZT__OP_CONCAT}},
    {{"*", "/", "//", "%"}, {LZT__OP_MULTIPLY, LZT__OP_DIVIDE, LZT__OP_FLOOR_DIVIDE, LZT__OP_MODULO}},
    {{"**"}, {LZT__OP_POWER}}};

static lzt__node *binary(lzt__scanner *p, uint32_t at)
{
    if (at == sizeof levels / sizeof levels[0]) return unary(p, true);
    lzt__node *left = binary(p, at + 1);
    for (bool found = true; found && left && !p->status;) {
        found = false;
        for (int i = 0; i < 5 && levels[at].symbol[i] && !found; i++) {
            uint32_t line = p->t.line;
            if (!lzt__scan_skip_symbol(p, levels[at].symbol[i])) continue;
            lzt__node *n = lzt__scan_node(p, LZT__NODE_BINARY, line);
            if (!n) return NULL;
            n->op = (uint8_t)levels[at].op[i];
            n->a = left;
            n->b = binary(p, at + 1);
            left = n;
            found = true;
        }
    }
    return p->status ? NULL : left;
}

static bool comparison(lzt__scanner *p, uint8_t *op)
{
    static const char *const symbol[] = {"==", "!=", "<", "<=", ">", ">="};
    for (int i = 0; i < 6; i++)
        if (lzt__scan_skip_symbol(p, symbol[i])) {
            *op = (uint8_t)(LZT__OP_EQUAL + i);
            return true;
        }
    *op = LZT__OP_IN;
    if (lzt__scan_skip_name(p, "in")) return true;
    if (!lzt__scan_is_name(p, "not")) return false;
    /* "not in", looked for without giving up the "not" of something else */
    lzt__scanner saved = *p;
    lzt__scan_next(p);
    *op = LZT__OP_NOT_IN;
    if (lzt__scan_skip_name(p, "in")) return true;
    lzt_status s = p->status;
    *p = saved;
    p->status = s;
    return false;
}

static lzt__node *compare(lzt__scanner *p)
{
    uint32_t line = p->t.line;
    uint8_t op;
    lzt__node *left = binary(p, 0), *n = NULL, **list = NULL;
    while (left && !p->status && comparison(p, &op)) {
        if (!n) {
            n = lzt__scan_node(p, LZT__NODE_COMPARE, line);
            if (!n) return NULL;
            n->a = left;
            list = &n->b;
        }
        lzt__node *operand = lzt__scan_node(p, LZT__NODE_OPERAND, p->t.line);
        if (!operand) return NULL;
        operand->op = op;
        operand->a = binary(p, 0);
        *list = operand;
        list = &operand->next;
    }
    return p->status ? NULL : n ? n : left;
}

static lzt__node *negation(lzt__scanner *p)
{
    uint32_t line = p->t.line;
    if (!lzt__scan_skip_name(p, "not")) return compare(p);
    if (++p->depth > DEPTH_MAX) return lzt__scan_fail(p, line, "an expression nests too deeply");
    lzt__node *n = lzt__scan_node(p, LZT__NODE_NOT, line);
    if (n) n->a = negation(p);
    p->depth--;
    return p->status ? NULL : n;
}

static lzt__node *junction(lzt__scanner *p, bool is_or)
{
    lzt__node *left = is_or ? junction(p, false) : negation(p);
    while (left && !p->status && lzt__scan_is_name(p, is_or ? "or" : "and")) {
        lzt__node *n = lzt__scan_node(p, is_or ? LZT__NODE_OR : LZT__NODE_AND, p->t.line);
        lzt__scan_next(p);
        if (!n) return NULL;
        n->a = left;
        n->b = is_or ? junction(p, false) : negation(p);
        left = n;
    }
    return p->status ? NULL : left;
}

/* An expression without the `a if b else c` form, as the iterable of a for has it. */
static lzt__node *plain(lzt__scanner *p)
{
    return junction(p, true);
}

static lzt__node *expression(lzt__scanner *p)
{
    if (++p->depth > DEPTH_MAX) return lzt__scan_fail(p, p->t.line, "an expression nests too deeply");
    lzt__node *n = plain(p);
    while (n && !p->status && lzt__scan_is_name(p, "if")) {
        lzt__node *c = lzt__scan_node(p, LZT__NODE_CONDITION, p->t.line);
        lzt__scan_next(p);
        if (!c) return NULL;
        c->a = n;
        c->b = plain(p);
        if (!p->status && lzt__scan_skip_name(p, "else")) c->c = expression(p);
        n = c;
    }
    p->depth--;
    return p->status ? NULL : n;
}

/* a or a, b, c: a tuple without parentheses. */
static lzt__node *tuple(lzt__scanner *p, lzt__node *(*item)(lzt__scanner *))
{
    uint32_t line = p->t.line;
    lzt__node *first = item(p);
    if (!first || !lzt__scan_is_symbol(p, ",")) return first;
    lzt__node *t = lzt__scan_node(p, LZT__NODE_TUPLE, line), **list = &first->next;
    if (!t) return NULL;
    t->a = first;
    while (lzt__scan_skip_symbol(p, ",") && p->t.type != T_BLOCK_END && p->t.type != T_PRINT_END &&
           !lzt__scan_is_name(p, "in") && !lzt__scan_is_symbol(p, "=")) {
        lzt__node *n = item(p);
        if (!n) return NULL;
        *list = n;
        list = &n->next;
    }
    return t;
}

/* ---- statements ---- */

static lzt__node *body(lzt__scanner *p, const char *const *ends);

static void end_block(lzt__scanner *p)
{
    if (p->status) return;
    if (p->t.type != T_BLOCK_END) {
        lzt__scan_fail(p, p->t.line, "the end of the block was expected, not %s", lzt__scan_shown(p));
        return;
    }
    lzt__scan_close_tag(p, true);
}

static lzt__node *target_name(lzt__scanner *p)
{
    if (p->t.type != T_NAME)
        return lzt__scan_fail(p, p->t.line, "a name to assign to was expected, not %s", lzt__scan_shown(p));
    lzt__node *n = lzt__scan_node(p, LZT__NODE_NAME, p->t.line);
    if (!n) return NULL;
    n->name = p->t.text;
    lzt__scan_next(p);
    if (!lzt__scan_skip_symbol(p, ".")) return n;
    if (p->t.type != T_NAME)
        return lzt__scan_fail(p, p->t.line, "a name was expected behind the dot, not %s", lzt__scan_shown(p));
    return attribute(p, n);
}

static const char *const if_ends[] = {"elif", "else", "endif", NULL};
static const char *const else_ends[] = {"endif", NULL};
static const char *const for_ends[] = {"else", "endfor", NULL};
static const char *const for_else_ends[] = {"endfor", NULL};

/* body() leaves the cursor on the name of the end tag. */
static lzt__node *if_block(lzt__scanner *p, uint32_t line)
{
    if (++p->depth > DEPTH_MAX) return lzt__scan_fail(p, line, "blocks nest too deeply");
    lzt__node *n = lzt__scan_node(p, LZT__NODE_IF, line);
    if (!n) return NULL;
    n->a = tuple(p, expression);
    end_block(p);
    n->b = body(p, if_ends);
    if (p->status) return NULL;
    uint32_t at = p->t.line;
    if (lzt__scan_skip_name(p, "elif")) {
        n->c = if_block(p, at);
    } else if (lzt__scan_skip_name(p, "else")) {
        end_block(p);
        n->c = body(p, else_ends);
        lzt__scan_next(p);
    } else {
        lzt__scan_next(p);
    }
    p->depth--;
    return n;
}

static lzt__node *for_block(lzt__scanner *p, uint32_t line)
{
    lzt__node *n = lzt__scan_node(p, LZT__NODE_FOR, line);
    if (!n) return NULL;
    n->a = tuple(p, target_name);
    if (p->status) return NULL;
    if (!lzt__scan_skip_name(p, "in"))
        return lzt__scan_fail(p, p->t.line, "'in' was expected, not %s", lzt__scan_shown(p));
    n->b = tuple(p, plain);
    if (!p->status && lzt__scan_skip_name(p, "if")) n->c = expression(p);
    if (!p->status && lzt__scan_is_name(p, "recursive"))
        return lzt__scan_fail(p, p->t.line, "recursive loops are not supported");
    end_block(p);
    p->loops++;
    n->d = body(p, for_ends);
    p->loops--;
    if (p->status) return NULL;
    if (lzt__scan_skip_name(p, "else")) {
        end_block(p);
        n->e = body(p, for_else_ends);
    }
    lzt__scan_next(p);
    return n;
}

static lzt__node *set_block(lzt__scanner *p, uint32_t line)
{
    static const char *const ends[] = {"endset", NULL};
    lzt__node *n = lzt__scan_node(p, LZT__NODE_SET, line);
    if (!n) return NULL;
    n->a = tuple(p, target_name);
    if (p->status) return NULL;
    if (lzt__scan_skip_symbol(p, "=")) {
        n->b = tuple(p, expression);
        return n;
    }
    n->kind = LZT__NODE_SET_BLOCK;
    if (lzt__scan_is_symbol(p, "|")) n->b = filters(p, lzt__scan_node(p, LZT__NODE_BLOCK, line));
    end_block(p);
    n->c = body(p, ends);
    lzt__scan_next(p);
    return n;
}

/* Behind "(": name, name=default up to ")". */
static lzt__node *parameters(lzt__scanner *p)
{
    lzt__node *first = NULL, **list = &first;
    while (!p->status && !lzt__scan_is_symbol(p, ")")) {
        lzt__node *n = lzt__scan_node(p, LZT__NODE_ARGUMENT, p->t.line);
        if (!n) return NULL;
        if (p->t.type != T_NAME)
            return lzt__scan_fail(p, p->t.line, "a parameter's name was expected, not %s", lzt__scan_shown(p));
        n->name = p->t.text;
        lzt__scan_next(p);
        if (lzt__scan_skip_symbol(p, "=")) n->a = expression(p);
        *list = n;
        list = &n->next;
        if (!lzt__scan_skip_symbol(p, ",")) break;
    }
    lzt__scan_expect(p, ")");
    return first;
}

static lzt__node *macro_block(lzt__scanner *p, uint32_t line)
{
    static const char *const ends[] = {"endmacro", NULL};
    lzt__node *n = lzt__scan_node(p, LZT__NODE_MACRO, line);
    if (!n) return NULL;
    if (p->t.type != T_NAME) return lzt__scan_fail(p, line, "a macro's name was expected, not %s", lzt__scan_shown(p));
    n->name = p->t.text;
    lzt__scan_next(p);
    lzt__scan_expect(p, "(");
    n->a = parameters(p);
    end_block(p);
    uint32_t loops = p->loops;
    p->loops = 0;
    n->b = body(p, ends);
    p->loops = loops;
    lzt__scan_next(p);
    return n;
}

static lzt__node *call_block(lzt__scanner *p, uint32_t line)
{
    static const char *const ends[] = {"endcall", NULL};
    lzt__node *n = lzt__scan_node(p, LZT__NODE_CALL_BLOCK, line);
    if (!n) return NULL;
    if (lzt__scan_skip_symbol(p, "(")) n->b = parameters(p);
    n->a = expression(p);
    if (p->status) return NULL;
    if (n->a->kind != LZT__NODE_CALL) return lzt__scan_fail(p, line, "a call was expected");
    end_block(p);
    n->c = body(p, ends);
    lzt__scan_next(p);
    return n;
}

static lzt__node *wrapping_block(lzt__scanner *p, uint32_t line, bool generation)
{
    static const char *const generation_ends[] = {"endgeneration", NULL}, *const filter_ends[] = {"endfilter", NULL};
    lzt__node *n = lzt__scan_node(p, generation ? LZT__NODE_GENERATION : LZT__NODE_FILTER, line);
    if (!n) return NULL;
    if (!generation) n->a = filters(p, apply(p, lzt__scan_node(p, LZT__NODE_BLOCK, line)));
    end_block(p);
    uint32_t loops = p->loops;
    p->loops = 0;
    lzt__node *inside = body(p, generation ? generation_ends : filter_ends);
    p->loops = loops;
    if (generation)
        n->a = inside;
    else
        n->b = inside;
    p->j->has_generation = p->j->has_generation || generation;
    lzt__scan_next(p);
    return n;
}

static lzt__node *loop_control(lzt__scanner *p, uint32_t line, bool is_break)
{
    if (!p->loops) return lzt__scan_fail(p, line, "%s outside a loop", is_break ? "break" : "continue");
    return lzt__scan_node(p, is_break ? LZT__NODE_BREAK : LZT__NODE_CONTINUE, line);
}

/* A block behind its "{%"; the cursor is on its name. */
static lzt__node *statement(lzt__scanner *p)
{
    uint32_t line = p->t.line;
    if (p->t.type != T_NAME) return lzt__scan_fail(p, line, "a block's name was expected, not %s", lzt__scan_shown(p));
    const char *name = p->t.text;
    lzt__node *n;
    if (++p->depth > DEPTH_MAX) return lzt__scan_fail(p, line, "blocks nest too deeply");
    lzt__scan_next(p);
    if (!strcmp(name, "if"))
        n = if_block(p, line);
    else if (!strcmp(name, "for"))
        n = for_block(p, line);
    else if (!strcmp(name, "set"))
        n = set_block(p, line);
    else if (!strcmp(name, "macro"))
        n = macro_block(p, line);
    else if (!strcmp(name, "call"))
        n = call_block(p, line);
    else if (!strcmp(name, "filter"))
        n = wrapping_block(p, line, false);
    else if (!strcmp(name, "generation"))
        n = wrapping_block(p, line, true);
    else if (!strcmp(name, "break") || !strcmp(name, "continue"))
        n = loop_control(p, line, name[0] == 'b');
    else
        return lzt__scan_fail(p, line, "the block '%s' is not supported here", name);
    end_block(p);
    p->depth--;
    return n;
}

static lzt__node *print_statement(lzt__scanner *p)
{
    lzt__node *n = lzt__scan_node(p, LZT__NODE_PRINT, p->t.line);
    if (!n) return NULL;
    n->a = tuple(p, expression);
    if (p->status) return NULL;
    if (p->t.type != T_PRINT_END) return lzt__scan_fail(p, p->t.line, "}} was expected, not %s", lzt__scan_shown(p));
    lzt__scan_close_tag(p, false);
    return n;
}

/* ---- text between tags ---- */

static lzt__node *text_node(lzt__scanner *p, uint64_t begin, uint64_t end)
{
    if (begin == end) return NULL;
    lzt__node *n = lzt__scan_node(p, LZT__NODE_TEXT, p->line);
    char *copy = lzt__scan_take(p, end - begin);
    if (!n || !copy) return NULL;
    memcpy(copy, p->source + begin, end - begin);
    if (!lzt__value_string(&p->j->arena, copy, end - begin, LZT__MARK_TEMPLATE, &n->constant))
        return lzt__scan_fail(p, p->line, "a text that is too long");
    return n;
}

static void comment(lzt__scanner *p)
{
    uint64_t i = p->at + 2;
    while (i + 1 < p->size && !(p->source[i] == '#' && p->source[i + 1] == '}')) i++;
    if (i + 1 >= p->size) {
        lzt__scan_fail(p, p->line, "a comment without its end");
        return;
    }
    bool sign = i > p->at + 2 && (p->source[i - 1] == '-' || p->source[i - 1] == '+');
    for (uint64_t k = p->at; k < i; k++) p->line += p->source[k] == '\n';
    p->at = sign ? i - 1 : i;
    lzt__scan_close_tag(p, true);
}

/* {% raw %}: the cursor is on "raw". The text up to {% endraw %} stands as it is. */
static lzt__node *raw_block(lzt__scanner *p)
{
    uint32_t line = p->t.line;
    lzt__scan_skip_space(p);
    if (!lzt__scan_looking_at(p, "%}") && !lzt__scan_looking_at(p, "-%}"))
        return lzt__scan_fail(p, line, "the end of the raw block's tag was expected");
    lzt__scan_close_tag(p, false);
    uint64_t begin = p->at;
    for (uint64_t i = begin; i + 1 < p->size; i++) {
        if (p->source[i] != '{' || p->source[i + 1] != '%') continue;
        uint64_t k = i + 2;
        char sign = k < p->size ? p->source[k] : 0;
        k += sign == '-' || sign == '+';
        while (k < p->size && strchr(" \t\n", p->source[k]) && p->source[k]) k++;
        if (p->size - k < 6 || memcmp(p->source + k, "endraw", 6)) continue;
        for (uint64_t x = begin; x < k; x++) p->line += p->source[x] == '\n';
        uint64_t end = lzt__scan_trimmed_end(p, begin, i, sign, true);
        lzt__node *n = text_node(p, begin, end);
        p->at = k + 6;
        lzt__scan_next(p);
        end_block(p);
        return n;
    }
    return lzt__scan_fail(p, line, "a raw block without its end");
}

static bool is_end(const lzt__scanner *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (lzt__scan_is_name(p, *ends)) return true;
    return false;
}

/* Statements up to one of the end tags, whose name is then the current token; up to the end of the source without. */
static lzt__node *body(lzt__scanner *p, const char *const *ends)
{
    lzt__node *first = NULL, **list = &first;
    uint32_t opened = p->line;
    while (!p->status) {
        uint64_t begin = p->at, i = begin;
        while (i + 1 < p->size && !(p->source[i] == '{' && strchr("{%#", p->source[i + 1]) && p->source[i + 1])) i++;
        bool found = i + 1 < p->size;
        if (!found) i = p->size;
        char kind = found ? p->source[i + 1] : 0, sign = found && i + 2 < p->size ? p->source[i + 2] : 0;
        uint64_t end = found ? lzt__scan_trimmed_end(p, begin, i, sign, kind != '{') : i;
        lzt__node *n = text_node(p, begin, end);
        for (uint64_t k = begin; k < i; k++) p->line += p->source[k] == '\n';
        if (n) {
            *list = n;
            list = &n->next;
        }
        p->at = i;
        if (!found) {
            if (ends)
                lzt__scan_fail(p, opened, "a block without its {%% %s %%}",
                               ends[1] && ends[2] ? ends[2]
                               : ends[1]          ? ends[1]
                                                  : ends[0]);
            return first;
        }
        if (kind == '#') {
            comment(p);
            continue;
        }
        p->at += sign == '-' || sign == '+' ? 3 : 2;
        p->brackets = 0;
        lzt__scan_next(p);
        if (kind == '%' && is_end(p, ends)) return first;
        n = kind == '{' ? print_statement(p) : lzt__scan_is_name(p, "raw") ? raw_block(p) : statement(p);
        if (!n) continue;
        *list = n;
        list = &n->next;
    }
    return NULL;
}

/* \r\n and \r are \n; one newline at the end falls off. */
static char *normalised(const char *source, uint64_t *size)
{
    char *copy = malloc(*size + 1);
    uint64_t n = 0;
    for (uint64_t i = 0; copy && i < *size; i++) {
        if (source[i] == '\r' && i + 1 < *size && source[i + 1] == '\n') continue;
        copy[n++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (n && copy[n - 1] == '\n') n--;
    *size = n;
    return copy;
}

lzt_status lzt__jinja_parse(const char *source, uint64_t size, const char *where, lzt__jinja *jinja, lzt_error *err)
{
    *jinja = (lzt__jinja){0};
    char *copy = normalised(source, &size);
    if (!copy) return lzt_fail(err, LZT_ERR_NO_MEMORY, where, "no memory for a template");
    lzt__scanner p = {
        .j = jinja, .source = copy, .size = size, .line = 1, .line_starting = true, .where = where, .err = err};
    uint32_t code;
    for (uint64_t i = 0, n; !p.status && i < size; i += n)
        if (!(n = lzt__utf8_get(copy + i, size - i, &code)))
            lzt__scan_fail(&p, 1, "the template is not UTF-8 at byte %llu", (unsigned long long)i + 1);
    if (!p.status) jinja->body = body(&p, NULL);
    free(copy);
    if (p.status) lzt__jinja_free(jinja);
    return p.status;
}

void lzt__jinja_free(lzt__jinja *jinja)
{
    lzt__arena_free(&jinja->arena);
    free(jinja->name);
    *jinja = (lzt__jinja){0};
}
