/* The template language's scanner: see jinja_scan.h. It knows two states, text up to the next tag and tokens inside
 * one; the parser says when a tag begins. */
#include "data/template/jinja_scan.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

lzt__node *lzt__scan_fail(lzt__scanner *p, uint32_t line, const char *fmt, ...)
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

void *lzt__scan_take(lzt__scanner *p, uint64_t bytes)
{
    void *at = lzt__arena_take(&p->j->arena, bytes);
    if (!at && !p->status) p->status = lzt_fail(p->err, LZT_ERR_NO_MEMORY, p->where, "no memory for a template");
    if (at) memset(at, 0, bytes);
    return at;
}

lzt__node *lzt__scan_node(lzt__scanner *p, lzt__node_kind kind, uint32_t line)
{
    lzt__node *n = lzt__scan_take(p, sizeof *n);
    if (n) {
        n->kind = (uint8_t)kind;
        n->line = line;
    }
    return n;
}

static const char *intern(lzt__scanner *p, const char *text, uint64_t size)
{
    lzt__jinja *j = p->j;
    for (uint32_t i = 0; i < j->name_count; i++)
        if (strlen(j->name[i]) == size && !memcmp(j->name[i], text, size)) return j->name[i];
    char *copy = lzt__scan_take(p, size + 1);
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

uint32_t lzt__scan_code_at(const lzt__scanner *p, uint64_t at, uint32_t *n)
{
    uint32_t code = 0;
    *n = at < p->size ? lzt__utf8_get(p->source + at, p->size - at, &code) : 0;
    return code;
}

void lzt__scan_skip_space(lzt__scanner *p)
{
    uint32_t n;
    while (p->at < p->size && lzt__is_py_space(lzt__scan_code_at(p, p->at, &n)) && n) {
        p->line += p->source[p->at] == '\n';
        p->at += n;
    }
}

bool lzt__scan_looking_at(const lzt__scanner *p, const char *text)
{
    uint64_t n = strlen(text);
    return p->size - p->at >= n && !memcmp(p->source + p->at, text, n);
}

/* The end of a tag takes white space with it: all of it after '-', one newline after a block. */
void lzt__scan_close_tag(lzt__scanner *p, bool block)
{
    char sign = p->source[p->at];
    p->at += sign == '-' || sign == '+' ? 3 : 2;
    if (sign == '-') {
        lzt__scan_skip_space(p);
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

static void scan_string(lzt__scanner *p)
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
        lzt__scan_fail(p, p->line, "a string without its end, or with an escape that is not supported");
    } else {
        p->at = i + 1;
        p->t.type = T_STRING;
        char *copy = lzt__scan_take(p, out.size + 1);
        if (copy && out.size) memcpy(copy, out.bytes, out.size);
        if (copy && !lzt__value_string(&p->j->arena, copy, out.size, LZT__MARK_TEMPLATE, &p->t.value))
            lzt__scan_fail(p, p->line, "a string that is too long");
    }
    lzt__out_free(&out);
}

static void scan_number(lzt__scanner *p)
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
    errno = 0;
    if (real)
        p->t.value = (lzt__value){LZT__KIND_FLOAT, {.real = strtod(text, NULL)}};
    else
        p->t.value = (lzt__value){LZT__KIND_INT, {.integer = strtoll(text, NULL, 10)}};
    if (!real && (errno || n == sizeof text - 1)) lzt__scan_fail(p, p->line, "the number %s is not supported", text);
}

static bool is_name_start(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static void scan_symbol(lzt__scanner *p)
{
    static const char *const symbols[] = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<",
                                          ">",  "=",  "(",  ")",  "[",  "]",  "{", "}", ":", ",", ".", "|"};
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        if (!lzt__scan_looking_at(p, symbols[i])) continue;
        p->t.type = T_SYMBOL;
        p->t.text = symbols[i];
        p->at += strlen(symbols[i]);
        if (strchr("([{", symbols[i][0])) p->brackets++;
        if (strchr(")]}", symbols[i][0]) && p->brackets) p->brackets--;
        return;
    }
    lzt__scan_fail(p, p->line, "the character '%c' is not expected", p->source[p->at]);
}

void lzt__scan_next(lzt__scanner *p)
{
    lzt__scan_skip_space(p);
    p->t = (lzt__token){.type = T_END, .line = p->line};
    if (p->at >= p->size || p->status) return;
    if (!p->brackets &&
        (lzt__scan_looking_at(p, "%}") || lzt__scan_looking_at(p, "-%}") || lzt__scan_looking_at(p, "+%}"))) {
        p->t.type = T_BLOCK_END;
    } else if (!p->brackets && (lzt__scan_looking_at(p, "}}") || lzt__scan_looking_at(p, "-}}"))) {
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

bool lzt__scan_is_symbol(const lzt__scanner *p, const char *text)
{
    return p->t.type == T_SYMBOL && !strcmp(p->t.text, text);
}

bool lzt__scan_is_name(const lzt__scanner *p, const char *text)
{
    return p->t.type == T_NAME && !strcmp(p->t.text, text);
}

bool lzt__scan_skip_symbol(lzt__scanner *p, const char *text)
{
    if (!lzt__scan_is_symbol(p, text)) return false;
    lzt__scan_next(p);
    return true;
}

bool lzt__scan_skip_name(lzt__scanner *p, const char *text)
{
    if (!lzt__scan_is_name(p, text)) return false;
    lzt__scan_next(p);
    return true;
}

const char *lzt__scan_shown(const lzt__scanner *p)
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

void lzt__scan_expect(lzt__scanner *p, const char *symbol)
{
    if (!lzt__scan_skip_symbol(p, symbol))
        lzt__scan_fail(p, p->t.line, "'%s' was expected, not %s", symbol, lzt__scan_shown(p));
}

uint64_t lzt__scan_trimmed_end(const lzt__scanner *p, uint64_t begin, uint64_t end, char sign, bool block)
{
    uint64_t at = end, line = begin, last = end;
    uint32_t n, code;
    while (sign == '-' && at > begin) {
        uint64_t before = at - 1;
        while (before > begin && ((unsigned char)p->source[before] & 0xc0) == 0x80) before--;
        code = lzt__scan_code_at(p, before, &n);
        if (!n || !lzt__is_py_space(code)) break;
        at = before;
    }
    if (sign == '-' || sign == '+' || !block) return at;
    while (last > begin && p->source[last - 1] != '\n') last--;
    line = last;
    if (line == begin && !p->line_starting) return end;
    for (at = line; at < end; at += n) {
        code = lzt__scan_code_at(p, at, &n);
        if (!n || !lzt__is_py_space(code)) return end;
    }
    return line;
}
