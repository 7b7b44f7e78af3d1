/* The template language's parser: see jinja_parse.h.
 *
 * The scanner switches between two states: text up to the next tag, with Jinja's rules for the white space around tags,
 * and tokens inside a tag. The grammar below it is Jinja's own, one function a level of precedence.
 */
#include "data/jinja_parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 100

typedef enum token_type { T_END, T_NAME, T_STRING, T_NUMBER, T_SYMBOL, T_BLOCK_END, T_PRINT_END } token_type;

typedef struct token {
    token_type type;
    uint32_t line;
    const char *text; /* of names (interned) and symbols */
    lzt__value value; /* of strings and numbers */
} token;

typedef struct parser {
    lzt__jinja *j;
    const char *source;
    uint64_t size, at;
    uint32_t line, depth, brackets, loops;
    bool line_starting;
    token t; /* the current one, inside a tag */
    const char *where;
    lzt_status status;
    lzt_error *err;
} parser;

static lzt__node *fail(parser *p, uint32_t line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static lzt__node *fail(parser *p, uint32_t line, const char *fmt, ...)
{
    char text[512], where[600];
    if (p->status) return NULL;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    snprintf(where, sizeof where, "%.500s:%u", p->where, line);
    p->status = lzt_fail(p->err, LZT_ERR_DATA, where, "%s", text);
    return NULL;
}

static void *take(parser *p, uint64_t bytes)
{
    void *at = lzt__arena_take(&p->j->arena, bytes);
    if (!at && !p->status) p->status = lzt_fail(p->err, LZT_ERR_NO_MEMORY, p->where, "no memory for a template");
    if (at) memset(at, 0, bytes);
    return at;
}

static lzt__node *node(parser *p, lzt__node_kind kind, uint32_t line)
{
    lzt__node *n = take(p, sizeof *n);
    if (n) {
        n->kind = (uint8_t)kind;
        n->line = line;
    }
    return n;
}

static const char *intern(parser *p, const char *text, uint64_t size)
{
    lzt__jinja *j = p->j;
    for (uint32_t i = 0; i < j->name_count; i++)
        if (strlen(j->name[i]) == size && !memcmp(j->name[i], text, size)) return j->name[i];
    char *copy = take(p, size + 1);
    if (!copy) return "";
    memcpy(copy, text, size);
    if (j->name_count == j->name_capacity) {
        uint32_t capacity = j->name_capacity * 2 + 64;
        const char **grown = realloc(j->name, capacity * sizeof *grown);
        if (!grown) {
            p->status = lzt_fail(p->err, LZT_ERR_NO_MEMORY, p->where, "no memory for a template");
            return "";
        }
        j->name = grown;
        j->name_capacity = capacity;
    }
    return j->name[j->name_count++] = copy;
}

const char *lzt__jinja_name(const lzt__jinja *j, const char *name)
{
    for (uint32_t i = 0; i < j->name_count; i++)
        if (!strcmp(j->name[i], name)) return j->name[i];
    return NULL;
}

/* ---- inside a tag ---- */

static uint32_t code_at(const parser *p, uint64_t at, uint32_t *n)
{
    uint32_t code = 0;
    *n = at < p->size ? lzt__utf8_get(p->source + at, p->size - at, &code) : 0;
    return code;
}

static void skip_space(parser *p)
{
    uint32_t n;
    while (p->at < p->size && lzt__is_py_space(code_at(p, p->at, &n)) && n) {
        p->line += p->source[p->at] == '\n';
        p->at += n;
    }
}

static bool looking_at(const parser *p, const char *text)
{
    uint64_t n = strlen(text);
    return p->size - p->at >= n && !memcmp(p->source + p->at, text, n);
}

/* The end of a tag takes white space with it: all of it after '-', one newline after a block. */
static void close_tag(parser *p, bool block)
{
    char sign = p->source[p->at];
    p->at += sign == '-' || sign == '+' ? 3 : 2;
    if (sign == '-') {
        skip_space(p);
    } else if (block && sign != '+' && p->at < p->size && p->source[p->at] == '\n') {
        p->at++;
        p->line++;
    }
    p->line_starting = p->source[p->at - 1] == '\n';
}

static int hex_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Python's escapes in a literal; unknown ones stay. Returns the bytes read from at, 0: malformed. */
static uint64_t unescape(const char *at, uint64_t size, lzt__out *out)
{
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    char bytes[4];
    char c = size > 1 ? at[1] : 0;
    const char *simple = c ? strchr(from, c) : NULL;
    if (simple) return lzt__out_put(out, &to[simple - from], 1, 0) ? 2 : 0;
    if (c == '\n') return 2;
    uint32_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0, code = 0, n = 2;
    if (digits) {
        for (; n < 2 + digits; n++) {
            int h = n < size ? hex_value(at[n]) : -1;
            if (h < 0) return 0;
            code = code << 4 | (uint32_t)h;
        }
    } else if (c >= '0' && c <= '7') {
        for (n = 1; n < 4 && n < size && at[n] >= '0' && at[n] <= '7'; n++) code = code * 8 + (uint32_t)(at[n] - '0');
    } else {
        return lzt__out_put(out, at, 1, 0) ? 1 : 0;
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return 0;
    return lzt__out_put(out, bytes, lzt__utf8_put(bytes, code), 0) ? n : 0;
}

static void scan_string(parser *p)
{
    char quote = p->source[p->at];
    uint64_t i = p->at + 1;
    lzt__out out = {0};
    while (i < p->size && p->source[i] != quote) {
        uint64_t n = 1;
        p->line += p->source[i] == '\n';
        if (p->source[i] == '\\')
            n = unescape(p->source + i, p->size - i, &out);
        else if (!lzt__out_put(&out, p->source + i, 1, 0))
            n = 0;
        if (!n) break;
        i += n;
    }
    if (i >= p->size || p->source[i] != quote) {
        fail(p, p->line, "a string without its end, or with an escape that is not supported");
    } else {
        p->at = i + 1;
        p->t.type = T_STRING;
        char *copy = take(p, out.size + 1);
        if (copy && out.size) memcpy(copy, out.bytes, out.size);
        if (copy && !lzt__value_string(&p->j->arena, copy, out.size, LZT__MARK_TEMPLATE, &p->t.value))
            fail(p, p->line, "a string that is too long");
    }
    lzt__out_free(&out);
}

static void scan_number(parser *p)
{
    char text[64];
    uint64_t i = p->at, n = 0;
    bool real = false;
    while (i < p->size && n < sizeof text - 1) {
        char c = p->source[i];
        bool digit = c >= '0' && c <= '9';
        bool dot = c == '.' && !real && i + 1 < p->size && p->source[i + 1] >= '0' && p->source[i + 1] <= '9';
        bool exponent = (c | 32) == 'e' && i + 1 < p->size &&
                        (p->source[i + 1] == '-' || (p->source[i + 1] >= '0' && p->source[i + 1] <= '9'));
        bool sign = (c == '-' || c == '+') && n && (text[n - 1] | 32) == 'e';
        if (!digit && !dot && !exponent && !sign && c != '_') break;
        real = real || dot || exponent;
        if (c != '_') text[n++] = c;
        i++;
    }
    text[n] = 0;
    p->at = i;
    p->t.type = T_NUMBER;
    if (real)
        p->t.value = (lzt__value){LZT__KIND_FLOAT, {.real = strtod(text, NULL)}};
    else if (n < 19)
        p->t.value = (lzt__value){LZT__KIND_INT, {.integer = strtoll(text, NULL, 10)}};
    else
        fail(p, p->line, "the number %s is not supported", text);
}

static bool is_name_start(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static void scan_symbol(parser *p)
{
    static const char *const symbols[] = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<",
                                          ">",  "=",  "(",  ")",  "[",  "]",  "{", "}", ":", ",", ".", "|"};
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        if (!looking_at(p, symbols[i])) continue;
        p->t.type = T_SYMBOL;
        p->t.text = symbols[i];
        p->at += strlen(symbols[i]);
        if (strchr("([{", symbols[i][0])) p->brackets++;
        if (strchr(")]}", symbols[i][0]) && p->brackets) p->brackets--;
        return;
    }
    fail(p, p->line, "the character '%c' is not expected", p->source[p->at]);
}

static void next(parser *p)
{
    skip_space(p);
    p->t = (token){.type = T_END, .line = p->line};
    if (p->at >= p->size || p->status) return;
    if (!p->brackets && (looking_at(p, "%}") || looking_at(p, "-%}") || looking_at(p, "+%}"))) {
        p->t.type = T_BLOCK_END;
    } else if (!p->brackets && (looking_at(p, "}}") || looking_at(p, "-}}"))) {
        p->t.type = T_PRINT_END;
    } else if (p->source[p->at] == '"' || p->source[p->at] == '\'') {
        scan_string(p);
    } else if (p->source[p->at] >= '0' && p->source[p->at] <= '9') {
        scan_number(p);
    } else if (is_name_start(p->source[p->at])) {
        uint64_t begin = p->at;
        while (p->at < p->size &&
               (is_name_start(p->source[p->at]) || (p->source[p->at] >= '0' && p->source[p->at] <= '9')))
            p->at++;
        p->t.type = T_NAME;
        p->t.text = intern(p, p->source + begin, p->at - begin);
    } else {
        scan_symbol(p);
    }
}

static bool is_symbol(const parser *p, const char *text)
{
    return p->t.type == T_SYMBOL && !strcmp(p->t.text, text);
}

static bool is_name(const parser *p, const char *text)
{
    return p->t.type == T_NAME && !strcmp(p->t.text, text);
}

static bool skip_symbol(parser *p, const char *text)
{
    if (!is_symbol(p, text)) return false;
    next(p);
    return true;
}

static bool skip_name(parser *p, const char *text)
{
    if (!is_name(p, text)) return false;
    next(p);
    return true;
}

static const char *shown(const parser *p)
{
    switch (p->t.type) {
    case T_END: return "the end of the template";
    case T_STRING: return "a string";
    case T_NUMBER: return "a number";
    case T_BLOCK_END: return "%}";
    case T_PRINT_END: return "}}";
    default: return p->t.text;
    }
}

static void expect(parser *p, const char *symbol)
{
    if (!skip_symbol(p, symbol)) fail(p, p->t.line, "'%s' was expected, not %s", symbol, shown(p));
}

/* ---- expressions ---- */

static lzt__node *expression(parser *p);
static lzt__node *unary(parser *p, bool with_filters);

static lzt__node *constant(parser *p, lzt__value v, uint32_t line)
{
    lzt__node *n = node(p, LZT__NODE_CONST, line);
    if (n) n->constant = v;
    return n;
}

/* Items up to the closing symbol; appended to *list. */
static void items(parser *p, const char *end, lzt__node **list)
{
    while (!p->status && !is_symbol(p, end)) {
        lzt__node *item = expression(p);
        if (!item) return;
        *list = item;
        list = &item->next;
        if (!skip_symbol(p, ",")) break;
    }
    expect(p, end);
}

static lzt__node *dict(parser *p, uint32_t line)
{
    lzt__node *d = node(p, LZT__NODE_DICT, line), **list = d ? &d->a : NULL;
    while (d && !p->status && !is_symbol(p, "}")) {
        lzt__node *pair = node(p, LZT__NODE_PAIR, p->t.line);
        if (!pair) return NULL;
        pair->a = expression(p);
        expect(p, ":");
        pair->b = p->status ? NULL : expression(p);
        *list = pair;
        list = &pair->next;
        if (!skip_symbol(p, ",")) break;
    }
    expect(p, "}");
    return d;
}

/* In parentheses: an expression, or a tuple. */
static lzt__node *parenthesis(parser *p, uint32_t line)
{
    if (skip_symbol(p, ")")) return node(p, LZT__NODE_TUPLE, line);
    lzt__node *first = expression(p);
    if (!first || skip_symbol(p, ")")) return first;
    lzt__node *t = node(p, LZT__NODE_TUPLE, line);
    if (!t) return NULL;
    t->a = first;
    expect(p, ",");
    items(p, ")", &first->next);
    return t;
}

/* Strings side by side are one. */
static lzt__node *string_constant(parser *p)
{
    uint32_t line = p->t.line;
    lzt__value v = p->t.value;
    next(p);
    while (p->t.type == T_STRING && !p->status) {
        const lzt__string *a = v.string, *b = p->t.value.string;
        char *both = take(p, (uint64_t)a->size + b->size + 1);
        if (!both) return NULL;
        memcpy(both, a->bytes, a->size);
        memcpy(both + a->size, b->bytes, b->size);
        if (!lzt__value_string(&p->j->arena, both, (uint64_t)a->size + b->size, LZT__MARK_TEMPLATE, &v))
            return fail(p, line, "a string that is too long");
        next(p);
    }
    return constant(p, v, line);
}

static lzt__node *primary(parser *p)
{
    uint32_t line = p->t.line;
    if (p->t.type == T_STRING) return string_constant(p);
    if (p->t.type == T_NUMBER) {
        lzt__value v = p->t.value;
        next(p);
        return constant(p, v, line);
    }
    if (p->t.type == T_NAME) {
        const char *name = p->t.text;
        next(p);
        if (!strcmp(name, "true") || !strcmp(name, "True"))
            return constant(p, (lzt__value){LZT__KIND_BOOL, {.truth = true}}, line);
        if (!strcmp(name, "false") || !strcmp(name, "False"))
            return constant(p, (lzt__value){LZT__KIND_BOOL, {.truth = false}}, line);
        if (!strcmp(name, "none") || !strcmp(name, "None")) return constant(p, (lzt__value){LZT__KIND_NONE, {0}}, line);
        lzt__node *n = node(p, LZT__NODE_NAME, line);
        if (n) n->name = name;
        return n;
    }
    if (skip_symbol(p, "(")) return parenthesis(p, line);
    if (skip_symbol(p, "{")) return dict(p, line);
    if (!skip_symbol(p, "[")) return fail(p, line, "an expression was expected, not %s", shown(p));
    lzt__node *n = node(p, LZT__NODE_LIST, line);
    if (n) items(p, "]", &n->a);
    return n;
}

/* Behind "[": an index, or a slice. */
static lzt__node *subscript(parser *p, lzt__node *of)
{
    lzt__node *n = node(p, LZT__NODE_ITEM, p->t.line);
    if (!n) return NULL;
    n->a = of;
    if (!is_symbol(p, ":")) n->b = expression(p);
    if (!p->status && is_symbol(p, ":")) {
        n->kind = LZT__NODE_SLICE;
        next(p);
        if (!is_symbol(p, "]") && !is_symbol(p, ":")) n->c = expression(p);
        if (!p->status && skip_symbol(p, ":") && !is_symbol(p, "]")) n->d = expression(p);
    }
    if (is_symbol(p, ",")) return fail(p, p->t.line, "an index of several parts is not supported");
    expect(p, "]");
    return n;
}

/* Behind "(": arguments up to ")". */
static lzt__node *arguments(parser *p)
{
    lzt__node *first = NULL, **list = &first;
    while (!p->status && !is_symbol(p, ")")) {
        if (is_symbol(p, "*") || is_symbol(p, "**"))
            return fail(p, p->t.line, "arguments behind %s are not supported", p->t.text);
        lzt__node *arg = node(p, LZT__NODE_ARGUMENT, p->t.line);
        if (!arg) return NULL;
        arg->a = expression(p);
        if (!p->status && is_symbol(p, "=") && arg->a->kind == LZT__NODE_NAME) {
            arg->name = arg->a->name;
            next(p);
            arg->a = expression(p);
        }
        *list = arg;
        list = &arg->next;
        if (!skip_symbol(p, ",")) break;
    }
    expect(p, ")");
    return first;
}

static lzt__node *call(parser *p, lzt__node *of)
{
    lzt__node *n = node(p, LZT__NODE_CALL, p->t.line);
    if (!n) return NULL;
    n->a = of;
    n->b = arguments(p);
    return n;
}

static lzt__node *attribute(parser *p, lzt__node *of)
{
    lzt__node *n = node(p, LZT__NODE_ATTRIBUTE, p->t.line);
    if (!n) return NULL;
    n->a = of;
    if (p->t.type == T_NAME) {
        n->name = p->t.text;
    } else if (p->t.type == T_NUMBER && p->t.value.kind == LZT__KIND_INT) {
        n->kind = LZT__NODE_ITEM;
        n->b = constant(p, p->t.value, p->t.line);
    } else {
        return fail(p, p->t.line, "a name was expected behind the dot, not %s", shown(p));
    }
    next(p);
    return n;
}

static lzt__node *postfix(parser *p, lzt__node *n)
{
    while (n && !p->status) {
        if (skip_symbol(p, "."))
            n = attribute(p, n);
        else if (skip_symbol(p, "["))
            n = subscript(p, n);
        else if (skip_symbol(p, "("))
            n = call(p, n);
        else
            break;
    }
    return p->status ? NULL : n;
}

/* Behind "|". */
static lzt__node *apply(parser *p, lzt__node *of)
{
    lzt__node *n = node(p, LZT__NODE_APPLY, p->t.line);
    if (!n) return NULL;
    if (p->t.type != T_NAME) return fail(p, p->t.line, "a filter's name was expected, not %s", shown(p));
    if (!lzt__jinja_has_filter(p->t.text)) return fail(p, p->t.line, "the filter '%s' is not supported", p->t.text);
    n->a = of;
    n->name = p->t.text;
    next(p);
    if (skip_symbol(p, "(")) n->b = arguments(p);
    return n;
}

/* Behind "is": a test, its argument with or without parentheses. */
static lzt__node *test(parser *p, lzt__node *of)
{
    lzt__node *n = node(p, LZT__NODE_TEST, p->t.line);
    if (!n) return NULL;
    n->a = of;
    n->op = skip_name(p, "not");
    if (p->t.type != T_NAME) return fail(p, p->t.line, "a test's name was expected, not %s", shown(p));
    if (!lzt__jinja_has_test(p->t.text)) return fail(p, p->t.line, "the test '%s' is not supported", p->t.text);
    n->name = p->t.text;
    next(p);
    if (skip_symbol(p, "(")) {
        n->b = arguments(p);
        return n;
    }
    bool stops = is_name(p, "else") || is_name(p, "or") || is_name(p, "and") || is_name(p, "is");
    bool starts =
        p->t.type == T_NAME || p->t.type == T_STRING || p->t.type == T_NUMBER || is_symbol(p, "[") || is_symbol(p, "{");
    if (!starts || stops || is_name(p, "if") || is_name(p, "not") || is_name(p, "in")) return n;
    lzt__node *arg = node(p, LZT__NODE_ARGUMENT, p->t.line);
    if (!arg) return NULL;
    arg->a = postfix(p, primary(p));
    n->b = arg;
    return n;
}

static lzt__node *filters(parser *p, lzt__node *n)
{
    while (n && !p->status) {
        if (skip_symbol(p, "|"))
            n = apply(p, n);
        else if (skip_name(p, "is"))
            n = test(p, n);
        else if (skip_symbol(p, "("))
            n = call(p, n);
        else
            break;
    }
    return p->status ? NULL : n;
}

static lzt__node *unary(parser *p, bool with_filters)
{
    lzt__node *n;
    if (++p->depth > DEPTH_MAX) return fail(p, p->t.line, "an expression nests too deeply");
    if (is_symbol(p, "-") || is_symbol(p, "+")) {
        n = node(p, LZT__NODE_UNARY, p->t.line);
        if (!n) return NULL;
        n->op = is_symbol(p, "-") ? LZT__OP_SUBTRACT : LZT__OP_ADD;
        next(p);
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

static lzt__node *binary(parser *p, uint32_t at)
{
    if (at == sizeof levels / sizeof levels[0]) return unary(p, true);
    lzt__node *left = binary(p, at + 1);
    for (bool found = true; found && left && !p->status;) {
        found = false;
        for (int i = 0; i < 5 && levels[at].symbol[i] && !found; i++) {
            uint32_t line = p->t.line;
            if (!skip_symbol(p, levels[at].symbol[i])) continue;
            lzt__node *n = node(p, LZT__NODE_BINARY, line);
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

static bool comparison(parser *p, uint8_t *op)
{
    static const char *const symbol[] = {"==", "!=", "<", "<=", ">", ">="};
    for (int i = 0; i < 6; i++)
        if (skip_symbol(p, symbol[i])) {
            *op = (uint8_t)(LZT__OP_EQUAL + i);
            return true;
        }
    *op = LZT__OP_IN;
    if (skip_name(p, "in")) return true;
    if (!is_name(p, "not")) return false;
    /* "not in", looked for without giving up the "not" of something else */
    parser saved = *p;
    next(p);
    *op = LZT__OP_NOT_IN;
    if (skip_name(p, "in")) return true;
    lzt_status s = p->status;
    *p = saved;
    p->status = s;
    return false;
}

static lzt__node *compare(parser *p)
{
    uint32_t line = p->t.line;
    uint8_t op;
    lzt__node *left = binary(p, 0), *n = NULL, **list = NULL;
    while (left && !p->status && comparison(p, &op)) {
        if (!n) {
            n = node(p, LZT__NODE_COMPARE, line);
            if (!n) return NULL;
            n->a = left;
            list = &n->b;
        }
        lzt__node *operand = node(p, LZT__NODE_OPERAND, p->t.line);
        if (!operand) return NULL;
        operand->op = op;
        operand->a = binary(p, 0);
        *list = operand;
        list = &operand->next;
    }
    return p->status ? NULL : n ? n : left;
}

static lzt__node *negation(parser *p)
{
    uint32_t line = p->t.line;
    if (!skip_name(p, "not")) return compare(p);
    if (++p->depth > DEPTH_MAX) return fail(p, line, "an expression nests too deeply");
    lzt__node *n = node(p, LZT__NODE_NOT, line);
    if (n) n->a = negation(p);
    p->depth--;
    return p->status ? NULL : n;
}

static lzt__node *junction(parser *p, bool is_or)
{
    lzt__node *left = is_or ? junction(p, false) : negation(p);
    while (left && !p->status && is_name(p, is_or ? "or" : "and")) {
        lzt__node *n = node(p, is_or ? LZT__NODE_OR : LZT__NODE_AND, p->t.line);
        next(p);
        if (!n) return NULL;
        n->a = left;
        n->b = is_or ? junction(p, false) : negation(p);
        left = n;
    }
    return p->status ? NULL : left;
}

/* An expression without the `a if b else c` form, as the iterable of a for has it. */
static lzt__node *plain(parser *p)
{
    return junction(p, true);
}

static lzt__node *expression(parser *p)
{
    if (++p->depth > DEPTH_MAX) return fail(p, p->t.line, "an expression nests too deeply");
    lzt__node *n = plain(p);
    while (n && !p->status && is_name(p, "if")) {
        lzt__node *c = node(p, LZT__NODE_CONDITION, p->t.line);
        next(p);
        if (!c) return NULL;
        c->a = n;
        c->b = plain(p);
        if (!p->status && skip_name(p, "else")) c->c = expression(p);
        n = c;
    }
    p->depth--;
    return p->status ? NULL : n;
}

/* a or a, b, c: a tuple without parentheses. */
static lzt__node *tuple(parser *p, lzt__node *(*item)(parser *))
{
    uint32_t line = p->t.line;
    lzt__node *first = item(p);
    if (!first || !is_symbol(p, ",")) return first;
    lzt__node *t = node(p, LZT__NODE_TUPLE, line), **list = &first->next;
    if (!t) return NULL;
    t->a = first;
    while (skip_symbol(p, ",") && p->t.type != T_BLOCK_END && p->t.type != T_PRINT_END && !is_name(p, "in") &&
           !is_symbol(p, "=")) {
        lzt__node *n = item(p);
        if (!n) return NULL;
        *list = n;
        list = &n->next;
    }
    return t;
}

/* ---- statements ---- */

static lzt__node *body(parser *p, const char *const *ends);

static void end_block(parser *p)
{
    if (p->status) return;
    if (p->t.type != T_BLOCK_END) {
        fail(p, p->t.line, "the end of the block was expected, not %s", shown(p));
        return;
    }
    close_tag(p, true);
}

static lzt__node *target_name(parser *p)
{
    if (p->t.type != T_NAME) return fail(p, p->t.line, "a name to assign to was expected, not %s", shown(p));
    lzt__node *n = node(p, LZT__NODE_NAME, p->t.line);
    if (!n) return NULL;
    n->name = p->t.text;
    next(p);
    if (!skip_symbol(p, ".")) return n;
    return attribute(p, n);
}

static const char *const if_ends[] = {"elif", "else", "endif", NULL};
static const char *const else_ends[] = {"endif", NULL};
static const char *const for_ends[] = {"else", "endfor", NULL};
static const char *const for_else_ends[] = {"endfor", NULL};

/* body() leaves the cursor on the name of the end tag. */
static lzt__node *if_block(parser *p, uint32_t line)
{
    if (++p->depth > DEPTH_MAX) return fail(p, line, "blocks nest too deeply");
    lzt__node *n = node(p, LZT__NODE_IF, line);
    if (!n) return NULL;
    n->a = tuple(p, expression);
    end_block(p);
    n->b = body(p, if_ends);
    if (p->status) return NULL;
    uint32_t at = p->t.line;
    if (skip_name(p, "elif")) {
        n->c = if_block(p, at);
    } else if (skip_name(p, "else")) {
        end_block(p);
        n->c = body(p, else_ends);
        next(p);
    } else {
        next(p);
    }
    p->depth--;
    return n;
}

static lzt__node *for_block(parser *p, uint32_t line)
{
    lzt__node *n = node(p, LZT__NODE_FOR, line);
    if (!n) return NULL;
    n->a = tuple(p, target_name);
    if (p->status) return NULL;
    if (!skip_name(p, "in")) return fail(p, p->t.line, "'in' was expected, not %s", shown(p));
    n->b = tuple(p, plain);
    if (!p->status && skip_name(p, "if")) n->c = expression(p);
    if (!p->status && is_name(p, "recursive")) return fail(p, p->t.line, "recursive loops are not supported");
    end_block(p);
    p->loops++;
    n->d = body(p, for_ends);
    p->loops--;
    if (p->status) return NULL;
    if (skip_name(p, "else")) {
        end_block(p);
        n->e = body(p, for_else_ends);
    }
    next(p);
    return n;
}

static lzt__node *set_block(parser *p, uint32_t line)
{
    static const char *const ends[] = {"endset", NULL};
    lzt__node *n = node(p, LZT__NODE_SET, line);
    if (!n) return NULL;
    n->a = tuple(p, target_name);
    if (p->status) return NULL;
    if (skip_symbol(p, "=")) {
        n->b = tuple(p, expression);
        return n;
    }
    n->kind = LZT__NODE_SET_BLOCK;
    if (is_symbol(p, "|")) n->b = filters(p, node(p, LZT__NODE_BLOCK, line));
    end_block(p);
    n->c = body(p, ends);
    next(p);
    return n;
}

/* Behind "(": name, name=default up to ")". */
static lzt__node *parameters(parser *p)
{
    lzt__node *first = NULL, **list = &first;
    while (!p->status && !is_symbol(p, ")")) {
        lzt__node *n = node(p, LZT__NODE_ARGUMENT, p->t.line);
        if (!n) return NULL;
        if (p->t.type != T_NAME) return fail(p, p->t.line, "a parameter's name was expected, not %s", shown(p));
        n->name = p->t.text;
        next(p);
        if (skip_symbol(p, "=")) n->a = expression(p);
        *list = n;
        list = &n->next;
        if (!skip_symbol(p, ",")) break;
    }
    expect(p, ")");
    return first;
}

static lzt__node *macro_block(parser *p, uint32_t line)
{
    static const char *const ends[] = {"endmacro", NULL};
    lzt__node *n = node(p, LZT__NODE_MACRO, line);
    if (!n) return NULL;
    if (p->t.type != T_NAME) return fail(p, line, "a macro's name was expected, not %s", shown(p));
    n->name = p->t.text;
    next(p);
    expect(p, "(");
    n->a = parameters(p);
    end_block(p);
    uint32_t loops = p->loops;
    p->loops = 0;
    n->b = body(p, ends);
    p->loops = loops;
    next(p);
    return n;
}

static lzt__node *call_block(parser *p, uint32_t line)
{
    static const char *const ends[] = {"endcall", NULL};
    lzt__node *n = node(p, LZT__NODE_CALL_BLOCK, line);
    if (!n) return NULL;
    if (skip_symbol(p, "(")) n->b = parameters(p);
    n->a = expression(p);
    if (p->status) return NULL;
    if (n->a->kind != LZT__NODE_CALL) return fail(p, line, "a call was expected");
    end_block(p);
    n->c = body(p, ends);
    next(p);
    return n;
}

static lzt__node *wrapping_block(parser *p, uint32_t line, bool generation)
{
    static const char *const generation_ends[] = {"endgeneration", NULL}, *const filter_ends[] = {"endfilter", NULL};
    lzt__node *n = node(p, generation ? LZT__NODE_GENERATION : LZT__NODE_FILTER, line);
    if (!n) return NULL;
    if (!generation) n->a = filters(p, apply(p, node(p, LZT__NODE_BLOCK, line)));
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
    next(p);
    return n;
}

static lzt__node *loop_control(parser *p, uint32_t line, bool is_break)
{
    if (!p->loops) return fail(p, line, "%s outside a loop", is_break ? "break" : "continue");
    return node(p, is_break ? LZT__NODE_BREAK : LZT__NODE_CONTINUE, line);
}

/* A block behind its "{%"; the cursor is on its name. */
static lzt__node *statement(parser *p)
{
    uint32_t line = p->t.line;
    if (p->t.type != T_NAME) return fail(p, line, "a block's name was expected, not %s", shown(p));
    const char *name = p->t.text;
    lzt__node *n;
    if (++p->depth > DEPTH_MAX) return fail(p, line, "blocks nest too deeply");
    next(p);
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
        return fail(p, line, "the block '%s' is not supported here", name);
    end_block(p);
    p->depth--;
    return n;
}

static lzt__node *print_statement(parser *p)
{
    lzt__node *n = node(p, LZT__NODE_PRINT, p->t.line);
    if (!n) return NULL;
    n->a = tuple(p, expression);
    if (p->status) return NULL;
    if (p->t.type != T_PRINT_END) return fail(p, p->t.line, "}} was expected, not %s", shown(p));
    close_tag(p, false);
    return n;
}

/* ---- text between tags ---- */

/* The end of text before a tag: `-` takes all white space, a block that only white space precedes on its line takes
 * that. */
static uint64_t trimmed_end(const parser *p, uint64_t begin, uint64_t end, char sign, bool block)
{
    uint64_t at = end, line = begin, last = end;
    uint32_t n, code;
    while (sign == '-' && at > begin) {
        uint64_t before = at - 1;
        while (before > begin && ((unsigned char)p->source[before] & 0xc0) == 0x80) before--;
        code = code_at(p, before, &n);
        if (!n || !lzt__is_py_space(code)) break;
        at = before;
    }
    if (sign == '-' || sign == '+' || !block) return at;
    while (last > begin && p->source[last - 1] != '\n') last--;
    line = last;
    if (line == begin && !p->line_starting) return end;
    for (at = line; at < end; at += n) {
        code = code_at(p, at, &n);
        if (!n || !lzt__is_py_space(code)) return end;
    }
    return line;
}

static lzt__node *text_node(parser *p, uint64_t begin, uint64_t end)
{
    if (begin == end) return NULL;
    lzt__node *n = node(p, LZT__NODE_TEXT, p->line);
    char *copy = take(p, end - begin);
    if (!n || !copy) return NULL;
    memcpy(copy, p->source + begin, end - begin);
    if (!lzt__value_string(&p->j->arena, copy, end - begin, LZT__MARK_TEMPLATE, &n->constant))
        return fail(p, p->line, "a text that is too long");
    return n;
}

static void comment(parser *p)
{
    uint64_t i = p->at + 2;
    while (i + 1 < p->size && !(p->source[i] == '#' && p->source[i + 1] == '}')) i++;
    if (i + 1 >= p->size) {
        fail(p, p->line, "a comment without its end");
        return;
    }
    bool sign = i > p->at + 2 && (p->source[i - 1] == '-' || p->source[i - 1] == '+');
    for (uint64_t k = p->at; k < i; k++) p->line += p->source[k] == '\n';
    p->at = sign ? i - 1 : i;
    close_tag(p, true);
}

/* {% raw %}: the cursor is on "raw". The text up to {% endraw %} stands as it is. */
static lzt__node *raw_block(parser *p)
{
    uint32_t line = p->t.line;
    skip_space(p);
    if (!looking_at(p, "%}") && !looking_at(p, "-%}"))
        return fail(p, line, "the end of the raw block's tag was expected");
    close_tag(p, false);
    uint64_t begin = p->at;
    for (uint64_t i = begin; i + 1 < p->size; i++) {
        if (p->source[i] != '{' || p->source[i + 1] != '%') continue;
        uint64_t k = i + 2;
        char sign = k < p->size ? p->source[k] : 0;
        k += sign == '-' || sign == '+';
        while (k < p->size && strchr(" \t\n", p->source[k]) && p->source[k]) k++;
        if (p->size - k < 6 || memcmp(p->source + k, "endraw", 6)) continue;
        for (uint64_t x = begin; x < k; x++) p->line += p->source[x] == '\n';
        uint64_t end = trimmed_end(p, begin, i, sign, true);
        lzt__node *n = text_node(p, begin, end);
        p->at = k + 6;
        next(p);
        end_block(p);
        return n;
    }
    return fail(p, line, "a raw block without its end");
}

static bool is_end(const parser *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (is_name(p, *ends)) return true;
    return false;
}

/* Statements up to one of the end tags, whose name is then the current token; up to the end of the source without. */
static lzt__node *body(parser *p, const char *const *ends)
{
    lzt__node *first = NULL, **list = &first;
    uint32_t opened = p->line;
    while (!p->status) {
        uint64_t begin = p->at, i = begin;
        while (i + 1 < p->size && !(p->source[i] == '{' && strchr("{%#", p->source[i + 1]) && p->source[i + 1])) i++;
        bool found = i + 1 < p->size;
        if (!found) i = p->size;
        char kind = found ? p->source[i + 1] : 0, sign = found && i + 2 < p->size ? p->source[i + 2] : 0;
        uint64_t end = found ? trimmed_end(p, begin, i, sign, kind != '{') : i;
        lzt__node *n = text_node(p, begin, end);
        for (uint64_t k = begin; k < i; k++) p->line += p->source[k] == '\n';
        if (n) {
            *list = n;
            list = &n->next;
        }
        p->at = i;
        if (!found) {
            if (ends)
                fail(p, opened, "a block without its {%% %s %%}",
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
        next(p);
        if (kind == '%' && is_end(p, ends)) return first;
        n = kind == '{' ? print_statement(p) : is_name(p, "raw") ? raw_block(p) : statement(p);
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
    parser p = {.j = jinja, .source = copy, .size = size, .line = 1, .line_starting = true, .where = where, .err = err};
    uint32_t code;
    for (uint64_t i = 0, n; !p.status && i < size; i += n)
        if (!(n = lzt__utf8_get(copy + i, size - i, &code)))
            fail(&p, 1, "the template is not UTF-8 at byte %llu", (unsigned long long)i + 1);
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
