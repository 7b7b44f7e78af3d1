/* Values of the template language: see jinja_value.h. */
#include "data/template/jinja_value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX  200
#define VALUES_MAX 2000000             /* values of one comparison or text: a list may hold one list many times */
#define OUT_MAX    (UINT64_C(1) << 26) /* bytes of a text */

struct lzt__arena_block {
    lzt__arena_block *next;
    uint64_t used, capacity;
    char bytes[];
};

void *lzt__arena_take(lzt__arena *arena, uint64_t bytes)
{
    bytes = (bytes + 15) & ~UINT64_C(15);
    if (arena->limit && bytes > arena->limit - arena->used) return NULL;
    lzt__arena_block *b = arena->block;
    if (!b || b->capacity - b->used < bytes) {
        uint64_t capacity = bytes > 32768 ? bytes : 32768;
        b = malloc(sizeof *b + 8 + capacity);
        if (!b) return NULL;
        *b = (lzt__arena_block){arena->block, 0, capacity};
        arena->block = b;
    }
    char *at = b->bytes + b->used;
    at += (16 - (uintptr_t)at % 16) % 16;
    b->used += bytes;
    arena->used += bytes;
    return at;
}

void lzt__arena_free(lzt__arena *arena)
{
    while (arena->block) {
        lzt__arena_block *next = arena->block->next;
        free(arena->block);
        arena->block = next;
    }
    arena->used = 0;
}

void lzt__arena_reset(lzt__arena *arena)
{
    while (arena->block && arena->block->next) {
        lzt__arena_block *next = arena->block->next;
        free(arena->block);
        arena->block = next;
    }
    if (arena->block) arena->block->used = 0;
    arena->used = 0;
}

/* ---- growing text ---- */

bool lzt__out_reserve(lzt__out *out, uint64_t more)
{
    if (out->capacity - out->size >= more) return true;
    uint64_t capacity = out->capacity * 2 + more + 256;
    if (out->size + more > OUT_MAX) return false;
    char *bytes = realloc(out->bytes, capacity);
    if (bytes) out->bytes = bytes;
    uint8_t *mark = bytes ? realloc(out->mark, capacity) : NULL;
    if (!mark) return false;
    out->mark = mark;
    out->capacity = capacity;
    return true;
}

void lzt__out_free(lzt__out *out)
{
    free(out->bytes);
    free(out->mark);
    *out = (lzt__out){0};
}

bool lzt__out_put(lzt__out *out, const char *bytes, uint64_t size, uint8_t marks)
{
    if (!lzt__out_reserve(out, size)) return false;
    if (!size) return true;
    memcpy(out->bytes + out->size, bytes, size);
    memset(out->mark + out->size, marks, size);
    out->size += size;
    return true;
}

bool lzt__out_string(lzt__out *out, const lzt__string *s)
{
    if (!lzt__out_put(out, s->bytes, s->size, s->marks)) return false;
    if (s->mark && s->size) memcpy(out->mark + out->size - s->size, s->mark, s->size);
    return true;
}

bool lzt__out_value(lzt__arena *arena, const lzt__out *out, lzt__value *value)
{
    lzt__string *s = lzt__arena_take(arena, sizeof *s);
    char *bytes = lzt__arena_take(arena, 2 * out->size + 1);
    if (!s || !bytes) return false;
    if (out->size) {
        memcpy(bytes, out->bytes, out->size);
        memcpy(bytes + out->size, out->mark, out->size);
    }
    *s = (lzt__string){bytes, (uint8_t *)bytes + out->size, (uint32_t)out->size, 0, false};
    *value = (lzt__value){LZT__KIND_STRING, {.string = s}};
    return true;
}

/* ---- makers ---- */

bool lzt__value_string(lzt__arena *arena, const char *bytes, uint64_t size, uint8_t marks, lzt__value *value)
{
    lzt__string *s = lzt__arena_take(arena, sizeof *s);
    if (!s || size > UINT32_MAX / 2) return false;
    *s = (lzt__string){bytes, NULL, (uint32_t)size, marks, false};
    *value = (lzt__value){LZT__KIND_STRING, {.string = s}};
    return true;
}

bool lzt__value_part(lzt__arena *arena, const lzt__string *s, uint64_t begin, uint64_t end, lzt__value *value)
{
    if (!lzt__value_string(arena, s->bytes + begin, end - begin, s->marks, value)) return false;
    value->string->mark = s->mark ? s->mark + begin : NULL;
    value->string->is_markup = s->is_markup;
    return true;
}

bool lzt__value_list(lzt__arena *arena, uint32_t count, lzt__kind kind, lzt__value *value)
{
    lzt__list *l = lzt__arena_take(arena, sizeof *l);
    lzt__value *item = lzt__arena_take(arena, ((uint64_t)count + 1) * sizeof *item);
    if (!l || !item) return false;
    *l = (lzt__list){item, count};
    *value = (lzt__value){(uint8_t)kind, {.list = l}};
    return true;
}

bool lzt__value_dict(lzt__arena *arena, uint32_t capacity, lzt__value *value)
{
    lzt__dict *d = lzt__arena_take(arena, sizeof *d);
    lzt__value *room = lzt__arena_take(arena, 2 * ((uint64_t)capacity + 1) * sizeof *room);
    if (!d || !room) return false;
    *d = (lzt__dict){room, room + capacity + 1, 0, capacity, -1};
    *value = (lzt__value){LZT__KIND_DICT, {.dict = d}};
    return true;
}

static lzt__value *slot_of(const lzt__dict *dict, const lzt__value *key)
{
    for (uint32_t i = 0; i < dict->count; i++)
        if (lzt__value_equal(&dict->key[i], key, NULL)) return &dict->value[i];
    return NULL;
}

bool lzt__dict_set(lzt__arena *arena, lzt__dict *dict, lzt__value key, lzt__value value)
{
    lzt__value *found = slot_of(dict, &key);
    if (found) {
        *found = value;
        return true;
    }
    if (dict->count == dict->capacity) {
        uint32_t capacity = dict->capacity * 2 + 4;
        lzt__value *room = lzt__arena_take(arena, 2 * (uint64_t)capacity * sizeof *room);
        if (!room) return false;
        memcpy(room, dict->key, dict->count * sizeof *room);
        memcpy(room + capacity, dict->value, dict->count * sizeof *room);
        dict->key = room;
        dict->value = room + capacity;
        dict->capacity = capacity;
    }
    dict->key[dict->count] = key;
    dict->value[dict->count++] = value;
    return true;
}

const lzt__value *lzt__dict_get(const lzt__dict *dict, const lzt__value *key)
{
    return slot_of(dict, key);
}

const lzt__value *lzt__dict_find(const lzt__dict *dict, const char *key)
{
    uint64_t n = strlen(key);
    for (uint32_t i = 0; i < dict->count; i++) {
        const lzt__value *k = &dict->key[i];
        if (k->kind == LZT__KIND_STRING && k->string->size == n && !memcmp(k->string->bytes, key, n))
            return &dict->value[i];
    }
    return NULL;
}

static lzt_status number_from_json(const lzt__json *node, lzt__value *value, lzt_error *err)
{
    char text[400];
    if (node->is_integer) {
        if (lzt__json_integer(node, &value->integer)) {
            value->kind = LZT__KIND_INT;
            return LZT_OK;
        }
        return lzt_fail(err, LZT_ERR_DATA, NULL, "the integer %.*s is beyond 64 bits, which a template cannot print",
                        (int)(node->size > 40 ? 40 : node->size), node->text);
    }
    if (node->size >= sizeof text) return lzt_fail(err, LZT_ERR_DATA, NULL, "a number of %u digits", node->size);
    memcpy(text, node->text, node->size);
    text[node->size] = 0;
    *value = (lzt__value){LZT__KIND_FLOAT, {.real = strtod(text, NULL)}};
    return LZT_OK;
}

static lzt_status container_from_json(lzt__arena *arena, const lzt__json *node, lzt__value *value, lzt_error *err)
{
    bool list = node->type == LZT__JSON_ARRAY;
    bool ok =
        list ? lzt__value_list(arena, node->size, LZT__KIND_LIST, value) : lzt__value_dict(arena, node->size, value);
    lzt_status s = ok ? LZT_OK : lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a row's values");
    const lzt__json *c = lzt__json_child(node);
    for (uint32_t i = 0; !s && i < node->size; i++, c = lzt__json_next(c)) {
        lzt__value key, item;
        s = lzt__value_from_json(arena, c, list ? &value->list->item[i] : &item, err);
        if (s || list) continue;
        ok = lzt__value_string(arena, c->key, c->key_size, 0, &key) && lzt__dict_set(arena, value->dict, key, item);
        if (!ok) s = lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a row's values");
    }
    return s;
}

lzt_status lzt__value_from_json(lzt__arena *arena, const lzt__json *node, lzt__value *value, lzt_error *err)
{
    switch (node->type) {
    case LZT__JSON_NULL: *value = (lzt__value){LZT__KIND_NONE, {0}}; return LZT_OK;
    case LZT__JSON_FALSE:
    case LZT__JSON_TRUE: *value = (lzt__value){LZT__KIND_BOOL, {.truth = node->type == LZT__JSON_TRUE}}; return LZT_OK;
    case LZT__JSON_NUMBER: return number_from_json(node, value, err);
    case LZT__JSON_STRING:
        if (lzt__value_string(arena, node->text, node->size, 0, value)) return LZT_OK;
        return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a row's values");
    default: return container_from_json(arena, node, value, err);
    }
}

/* ---- comparisons ---- */

bool lzt__value_truth(const lzt__value *v)
{
    switch (v->kind) {
    case LZT__KIND_UNDEFINED:
    case LZT__KIND_NONE: return false;
    case LZT__KIND_BOOL: return v->truth;
    case LZT__KIND_INT: return v->integer != 0;
    case LZT__KIND_FLOAT: return v->real != 0;
    case LZT__KIND_STRING: return v->string->size > 0;
    case LZT__KIND_LIST:
    case LZT__KIND_TUPLE: return v->list->count > 0;
    case LZT__KIND_DICT: return v->dict->count > 0;
    default: return true;
    }
}

bool lzt__value_number(const lzt__value *v, double *x)
{
    if (v->kind == LZT__KIND_BOOL)
        *x = v->truth;
    else if (v->kind == LZT__KIND_INT)
        *x = (double)v->integer;
    else if (v->kind == LZT__KIND_FLOAT)
        *x = v->real;
    else
        return false;
    return true;
}

/* 1: equal, 0: different, -1: nested too deeply or too large to say. left: values that may still be compared. */
static int equal_within(const lzt__value *a, const lzt__value *b, uint32_t depth, uint64_t *left);

static int equal_dicts(const lzt__dict *a, const lzt__dict *b, uint32_t depth, uint64_t *left)
{
    int same = a->count == b->count;
    for (uint32_t i = 0; same == 1 && i < a->count; i++) {
        const lzt__value *other = lzt__dict_get(b, &a->key[i]);
        same = other ? equal_within(&a->value[i], other, depth + 1, left) : 0;
    }
    return same;
}

static int equal_within(const lzt__value *a, const lzt__value *b, uint32_t depth, uint64_t *left)
{
    double x, y;
    if (depth > DEPTH_MAX || !(*left)--) return -1;
    if (lzt__value_number(a, &x) && lzt__value_number(b, &y)) {
        if (a->kind == LZT__KIND_INT && b->kind == LZT__KIND_INT) return a->integer == b->integer;
        return x == y;
    }
    if (a->kind != b->kind) return 0;
    switch (a->kind) {
    case LZT__KIND_UNDEFINED:
    case LZT__KIND_NONE: return 1;
    case LZT__KIND_STRING:
        return a->string->size == b->string->size && !memcmp(a->string->bytes, b->string->bytes, a->string->size);
    case LZT__KIND_LIST:
    case LZT__KIND_TUPLE: {
        int same = a->list->count == b->list->count;
        for (uint32_t i = 0; same == 1 && i < a->list->count; i++)
            same = equal_within(&a->list->item[i], &b->list->item[i], depth + 1, left);
        return same;
    }
    case LZT__KIND_DICT: return equal_dicts(a->dict, b->dict, depth, left);
    default: return a->any == b->any;
    }
}

bool lzt__value_equal(const lzt__value *a, const lzt__value *b, bool *unknown)
{
    uint64_t left = VALUES_MAX;
    int same = equal_within(a, b, 0, &left);
    if (unknown) *unknown = same < 0;
    return same == 1;
}

static bool order_within(const lzt__value *a, const lzt__value *b, int *order, uint32_t depth, uint64_t *left)
{
    double x, y;
    if (depth > DEPTH_MAX) return false;
    if (lzt__value_number(a, &x) && lzt__value_number(b, &y)) {
        if (a->kind == LZT__KIND_INT && b->kind == LZT__KIND_INT)
            *order = (a->integer > b->integer) - (a->integer < b->integer);
        else
            *order = (x > y) - (x < y);
        return true;
    }
    if (a->kind != b->kind) return false;
    if (a->kind == LZT__KIND_STRING) { /* the order of UTF-8 bytes is that of code points */
        uint32_t n = a->string->size < b->string->size ? a->string->size : b->string->size;
        *order = n ? memcmp(a->string->bytes, b->string->bytes, n) : 0;
        if (!*order) *order = (a->string->size > b->string->size) - (a->string->size < b->string->size);
        return true;
    }
    if (a->kind != LZT__KIND_LIST && a->kind != LZT__KIND_TUPLE) return false;
    for (uint32_t i = 0; i < a->list->count && i < b->list->count; i++) {
        int same = equal_within(&a->list->item[i], &b->list->item[i], depth + 1, left);
        if (same < 0) return false;
        if (!same) return order_within(&a->list->item[i], &b->list->item[i], order, depth + 1, left);
    }
    *order = (a->list->count > b->list->count) - (a->list->count < b->list->count);
    return true;
}

bool lzt__value_order(const lzt__value *a, const lzt__value *b, int *order)
{
    uint64_t left = VALUES_MAX;
    return order_within(a, b, order, 0, &left);
}

const char *lzt__kind_name(const lzt__value *v)
{
    static const char *const name[] = {"Undefined", "NoneType",  "bool",  "int",    "float",    "str",  "list", "tuple",
                                       "dict",      "Namespace", "Macro", "method", "function", "loop", "Macro"};
    return name[v->kind];
}

/* ---- text of values ---- */

/* Python's repr of a float: the shortest digits that read back the same. */
static void float_text(double x, char text[40])
{
    if (isnan(x))
        strcpy(text, "nan");
    else if (isinf(x))
        strcpy(text, x < 0 ? "-inf" : "inf");
    if (isnan(x) || isinf(x)) return;
    char e[32];
    int digits = 1;
    for (; digits < 18; digits++) {
        snprintf(e, sizeof e, "%.*e", digits - 1, x);
        if (strtod(e, NULL) == x) break;
    }
    int exponent = atoi(strchr(e, 'e') + 1);
    if (exponent >= -4 && exponent < 16) {
        int places = digits - 1 - exponent;
        snprintf(text, 40, "%.*f", places > 1 ? places : 1, x);
        return;
    }
    char *mark = strchr(e, 'e');
    *mark = 0;
    snprintf(text, 40, "%.31se%c%02d", e, exponent < 0 ? '-' : '+', abs(exponent) % 1000);
}

static bool put_text(lzt__out *out, const char *text, uint8_t marks)
{
    return lzt__out_put(out, text, strlen(text), marks);
}

bool lzt__is_py_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* Python prints these as escapes in a repr: controls, separators but the space, what is not assigned is left to look.
 */
static bool is_unprintable(uint32_t c)
{
    return c < 32 || (c >= 0x7f && c <= 0xa0) || c == 0xad || (c != 32 && lzt__is_py_space(c)) ||
           (c >= 0x200b && c <= 0x200f) || (c >= 0x202a && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) ||
           c == 0xfeff || (c >= 0xe000 && c <= 0xf8ff);
}

static bool repr_string(lzt__out *out, const lzt__string *s)
{
    bool has_single = s->size && memchr(s->bytes, '\'', s->size),
         has_double = s->size && memchr(s->bytes, '"', s->size);
    char quote = has_single && !has_double ? '"' : '\'', text[16];
    bool ok = lzt__out_put(out, &quote, 1, 0);
    for (uint32_t i = 0; ok && i < s->size;) {
        uint32_t c, n = lzt__utf8_get(s->bytes + i, s->size - i, &c);
        if (!n) return false;
        if (c == '\\' || c == (uint32_t)quote)
            snprintf(text, sizeof text, "\\%c", (char)c);
        else if (c == '\n' || c == '\r' || c == '\t')
            snprintf(text, sizeof text, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (is_unprintable(c))
            snprintf(text, sizeof text, c < 256 ? "\\x%02x" : c < 65536 ? "\\u%04x" : "\\U%08x", c);
        else
            text[0] = 0;
        ok = text[0] ? put_text(out, text, 0) : lzt__out_put(out, s->bytes + i, n, 0);
        i += n;
    }
    return ok && lzt__out_put(out, &quote, 1, 0);
}

static bool repr_list(lzt__out *out, const lzt__value *v, uint32_t depth)
{
    bool tuple = v->kind == LZT__KIND_TUPLE, ok = put_text(out, tuple ? "(" : "[", 0);
    for (uint32_t i = 0; ok && i < v->list->count; i++)
        ok = (!i || put_text(out, ", ", 0)) && lzt__value_repr(out, &v->list->item[i], depth + 1);
    return ok && put_text(out, tuple ? (v->list->count == 1 ? ",)" : ")") : "]", 0);
}

static bool repr_dict(lzt__out *out, const lzt__dict *d, uint32_t depth)
{
    bool ok = put_text(out, "{", 0);
    for (uint32_t i = 0; ok && i < d->count; i++)
        ok = (!i || put_text(out, ", ", 0)) && lzt__value_repr(out, &d->key[i], depth + 1) && put_text(out, ": ", 0) &&
             lzt__value_repr(out, &d->value[i], depth + 1);
    return ok && put_text(out, "}", 0);
}

bool lzt__value_repr(lzt__out *out, const lzt__value *v, uint32_t depth)
{
    if (depth > DEPTH_MAX || out->value_count++ > VALUES_MAX) return false;
    switch (v->kind) {
    case LZT__KIND_STRING: return repr_string(out, v->string);
    case LZT__KIND_LIST:
    case LZT__KIND_TUPLE: return repr_list(out, v, depth);
    case LZT__KIND_DICT: return repr_dict(out, v->dict, depth);
    case LZT__KIND_UNDEFINED: return put_text(out, "Undefined", 0);
    default: return lzt__value_str(out, v, 0);
    }
}

bool lzt__value_str(lzt__out *out, const lzt__value *v, uint8_t marks)
{
    char text[40];
    switch (v->kind) {
    case LZT__KIND_UNDEFINED: return true;
    case LZT__KIND_NONE: return put_text(out, "None", marks);
    case LZT__KIND_BOOL: return put_text(out, v->truth ? "True" : "False", marks);
    case LZT__KIND_INT: snprintf(text, sizeof text, "%lld", (long long)v->integer); return put_text(out, text, marks);
    case LZT__KIND_FLOAT: float_text(v->real, text); return put_text(out, text, marks);
    case LZT__KIND_STRING: return lzt__out_string(out, v->string);
    case LZT__KIND_LIST:
    case LZT__KIND_TUPLE:
    case LZT__KIND_DICT: return lzt__value_repr(out, v, 0);
    default: return false;
    }
}

/* ---- JSON ---- */

static bool dump_string(lzt__out *out, const lzt__string *s, bool ensure_ascii)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    char text[16];
    bool ok = put_text(out, "\"", 0);
    for (uint32_t i = 0; ok && i < s->size;) {
        uint32_t c, n = lzt__utf8_get(s->bytes + i, s->size - i, &c);
        if (!n) return false;
        const char *short_form = c && c < 128 ? strchr(from, (int)c) : NULL;
        if (short_form)
            snprintf(text, sizeof text, "\\%c", to[short_form - from]);
        else if (c < 32 || (ensure_ascii && c > 126 && c < 65536))
            snprintf(text, sizeof text, "\\u%04x", c);
        else if (ensure_ascii && c >= 65536)
            snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((c - 65536) >> 10), 0xdc00 + ((c - 65536) & 1023));
        else
            text[0] = 0;
        if (ensure_ascii && c == 127) text[0] = 0;
        ok = text[0] ? put_text(out, text, 0) : lzt__out_put(out, s->bytes + i, n, 0);
        i += n;
    }
    return ok && put_text(out, "\"", 0);
}

static bool new_line(lzt__out *out, const lzt__dump *how, uint32_t depth)
{
    if (how->indent < 0 && !how->indent_text) return true;
    bool ok = put_text(out, "\n", 0);
    for (uint32_t i = 0; ok && i < depth; i++) {
        if (how->indent_text) ok = lzt__out_put(out, how->indent_text, how->indent_size, 0);
        for (int64_t k = 0; ok && !how->indent_text && k < how->indent; k++) ok = put_text(out, " ", 0);
    }
    return ok;
}

static bool separator(lzt__out *out, const lzt__dump *how, bool item)
{
    const lzt__string *given = item ? how->item_separator : how->key_separator;
    if (given) return lzt__out_put(out, given->bytes, given->size, 0);
    bool lines = how->indent >= 0 || how->indent_text;
    return put_text(out, !item ? ": " : lines ? "," : ", ", 0);
}

static bool dump_key(lzt__out *out, const lzt__value *key, const lzt__dump *how)
{
    if (key->kind == LZT__KIND_STRING) return dump_string(out, key->string, how->ensure_ascii);
    const char *what;
    return put_text(out, "\"", 0) && lzt__value_dump(out, key, how, 0, &what) && put_text(out, "\"", 0);
}

static bool dump_dict(lzt__out *out, const lzt__dict *d, const lzt__dump *how, uint32_t depth, const char **what)
{
    uint32_t *order = malloc(((uint64_t)d->count + 1) * sizeof *order);
    if (!order) return false;
    for (uint32_t i = 0; i < d->count; i++) {
        uint32_t at = i;
        int less = 0;
        for (; how->sort_keys && at && lzt__value_order(&d->key[i], &d->key[order[at - 1]], &less) && less < 0; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    bool ok = put_text(out, "{", 0);
    for (uint32_t i = 0; ok && i < d->count; i++)
        ok = (!i || separator(out, how, true)) && new_line(out, how, depth + 1) &&
             dump_key(out, &d->key[order[i]], how) && separator(out, how, false) &&
             lzt__value_dump(out, &d->value[order[i]], how, depth + 1, what);
    free(order);
    return ok && (!d->count || new_line(out, how, depth)) && put_text(out, "}", 0);
}

bool lzt__value_dump(lzt__out *out, const lzt__value *v, const lzt__dump *how, uint32_t depth, const char **what)
{
    *what = NULL;
    if (depth > DEPTH_MAX || out->value_count++ > VALUES_MAX) return false;
    switch (v->kind) {
    case LZT__KIND_NONE: return put_text(out, "null", 0);
    case LZT__KIND_BOOL: return put_text(out, v->truth ? "true" : "false", 0);
    case LZT__KIND_FLOAT:
        if (isnan(v->real)) return put_text(out, "NaN", 0);
        if (isinf(v->real)) return put_text(out, v->real < 0 ? "-Infinity" : "Infinity", 0);
        return lzt__value_str(out, v, 0);
    case LZT__KIND_INT: return lzt__value_str(out, v, 0);
    case LZT__KIND_STRING: return dump_string(out, v->string, how->ensure_ascii);
    case LZT__KIND_DICT: return dump_dict(out, v->dict, how, depth, what);
    case LZT__KIND_LIST:
    case LZT__KIND_TUPLE: break;
    default: *what = lzt__kind_name(v); return false;
    }
    bool ok = put_text(out, "[", 0);
    for (uint32_t i = 0; ok && i < v->list->count; i++)
        ok = (!i || separator(out, how, true)) && new_line(out, how, depth + 1) &&
             lzt__value_dump(out, &v->list->item[i], how, depth + 1, what);
    return ok && (!v->list->count || new_line(out, how, depth)) && put_text(out, "]", 0);
}

/* ---- code points ---- */

uint64_t lzt__utf8_count(const char *bytes, uint64_t size)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < size; i++) n += ((unsigned char)bytes[i] & 0xc0) != 0x80;
    return n;
}

uint64_t lzt__utf8_offset(const char *bytes, uint64_t size, uint64_t index)
{
    uint64_t i = 0;
    for (; i < size; i++)
        if (((unsigned char)bytes[i] & 0xc0) != 0x80 && index-- == 0) break;
    return i;
}
