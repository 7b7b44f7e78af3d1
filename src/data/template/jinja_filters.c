/* Filters and tests of the template language. */
#include "data/template/jinja_eval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef bool filter_fn(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r);

static bool flag_argument(const lzt__call *c, uint32_t place, const char *name, bool otherwise)
{
    const lzt__value *a = lzt__call_argument(c, place, name);
    return a ? lzt__value_truth(a) : otherwise;
}

static const lzt__string *string_argument(const lzt__call *c, uint32_t place, const char *name)
{
    const lzt__value *a = lzt__call_argument(c, place, name);
    return a && a->kind == LZT__KIND_STRING ? a->string : NULL;
}

static bool refuse(lzt__eval *ev, const lzt__value *v, const lzt__call *c, const char *filter)
{
    if (v->kind == LZT__KIND_UNDEFINED)
        return lzt__eval_fail(ev, c->line, "'%s' is undefined", v->name ? v->name : "value");
    return lzt__eval_fail(ev, c->line, "the filter %s cannot take a %s", filter, lzt__kind_name(v));
}

/* ---- strings ---- */

static bool f_string(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    (void)c;
    return lzt__eval_string(ev, v, r);
}

static bool f_trim(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    lzt__value s;
    return lzt__eval_string(ev, v, &s) && lzt__string_strip(ev, s.string, string_argument(c, 0, "chars"), 3, r);
}

static bool f_upper(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    (void)c;
    lzt__value s;
    return lzt__eval_string(ev, v, &s) && lzt__string_case(ev, s.string, 'u', r);
}

static bool f_lower(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    (void)c;
    lzt__value s;
    return lzt__eval_string(ev, v, &s) && lzt__string_case(ev, s.string, 'l', r);
}

static bool f_capitalize(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    (void)c;
    lzt__value s;
    return lzt__eval_string(ev, v, &s) && lzt__string_case(ev, s.string, 'c', r);
}

static bool f_safe(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    (void)c;
    lzt__value s;
    if (!lzt__eval_string(ev, v, &s) || !lzt__value_part(&ev->arena, s.string, 0, s.string->size, r))
        return lzt__eval_no_memory(ev);
    r->string->is_markup = true;
    return true;
}

static bool f_replace(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    const lzt__string *from = string_argument(c, 0, "old"), *to = string_argument(c, 1, "new");
    const lzt__value *count = lzt__call_argument(c, 2, "count");
    lzt__value s;
    if (!from || !to) return lzt__eval_fail(ev, c->line, "replace takes two strings");
    return lzt__eval_string(ev, v, &s) &&
           lzt__string_replace(ev, s.string, from, to, count && count->kind == LZT__KIND_INT ? count->integer : -1, r);
}

static bool f_join(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    lzt__list *list;
    lzt__out out = {0};
    const lzt__string *between = string_argument(c, 0, "d"), *attribute = string_argument(c, 1, "attribute");
    if (!lzt__eval_items(ev, v, c->line, &list)) return false;
    bool ok = true;
    for (uint32_t i = 0; ok && i < list->count; i++) {
        lzt__value item = list->item[i], name;
        if (attribute) {
            ok = lzt__value_part(&ev->arena, attribute, 0, attribute->size, &name) &&
                 lzt__eval_item(ev, &list->item[i], &name, c->line, &item);
            if (!ok) break;
        }
        ok = (!i || !between || lzt__out_string(&out, between)) && item.kind < LZT__KIND_NAMESPACE &&
             lzt__value_str(&out, &item, 0);
    }
    ok = ok && lzt__out_value(&ev->arena, &out, r);
    lzt__out_free(&out);
    return ok || (ev->status ? false : lzt__eval_no_memory(ev));
}

static bool f_tojson(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    const lzt__value *indent = lzt__call_argument(c, 1, "indent"), *separators = lzt__call_argument(c, 2, "separators");
    lzt__dump how = {.ensure_ascii = flag_argument(c, 0, "ensure_ascii", false),
                     .sort_keys = flag_argument(c, 3, "sort_keys", false),
                     .indent = -1};
    if (indent && indent->kind == LZT__KIND_INT) how.indent = indent->integer > 0 ? indent->integer : 0;
    if (how.indent > 64) return lzt__eval_fail(ev, c->line, "an indent above 64 is not supported");
    if (indent && indent->kind == LZT__KIND_STRING) {
        how.indent_text = indent->string->bytes;
        how.indent_size = indent->string->size;
    }
    bool pair = separators && (separators->kind == LZT__KIND_TUPLE || separators->kind == LZT__KIND_LIST) &&
                separators->list->count == 2 && separators->list->item[0].kind == LZT__KIND_STRING &&
                separators->list->item[1].kind == LZT__KIND_STRING;
    if (separators && separators->kind != LZT__KIND_NONE && !pair)
        return lzt__eval_fail(ev, c->line, "separators are two strings");
    if (pair) {
        how.item_separator = separators->list->item[0].string;
        how.key_separator = separators->list->item[1].string;
    }
    lzt__out out = {0};
    const char *what = NULL;
    bool ok = lzt__value_dump(&out, v, &how, 0, &what) && lzt__out_value(&ev->arena, &out, r);
    lzt__out_free(&out);
    if (what) return lzt__eval_fail(ev, c->line, "Object of type %s is not JSON serializable", what);
    return ok || lzt__eval_no_memory(ev);
}

static bool f_indent(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    const lzt__value *width = lzt__call_argument(c, 0, "width");
    bool first = flag_argument(c, 1, "first", false), blank = flag_argument(c, 2, "blank", false);
    int64_t n = width && width->kind == LZT__KIND_INT ? width->integer : 4;
    lzt__value s;
    if (n < 0 || n > 64 || (width && width->kind != LZT__KIND_INT))
        return lzt__eval_fail(ev, c->line, "this width of indent is not supported");
    if (!lzt__eval_string(ev, v, &s)) return false;
    lzt__out out = {0};
    bool ok = true, at_start = true, is_first = true;
    for (uint32_t i = 0; ok && i < s.string->size; i++) {
        const lzt__string *x = s.string;
        bool wanted = at_start && (is_first ? first : blank || x->bytes[i] != '\n');
        for (int64_t k = 0; ok && wanted && k < n; k++) ok = lzt__out_put(&out, " ", 1, 0);
        ok = ok && lzt__out_put(&out, x->bytes + i, 1, x->mark ? x->mark[i] : x->marks);
        at_start = x->bytes[i] == '\n';
        is_first = is_first && !at_start;
    }
    ok = ok && lzt__out_value(&ev->arena, &out, r);
    lzt__out_free(&out);
    return ok || lzt__eval_no_memory(ev);
}

/* ---- numbers ---- */

static bool integer(int64_t n, lzt__value *r)
{
    *r = (lzt__value){LZT__KIND_INT, {.integer = n}};
    return true;
}

static bool f_length(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    switch (v->kind) {
    case LZT__KIND_UNDEFINED: return integer(0, r);
    case LZT__KIND_STRING:
        return lzt__eval_spend(ev, v->string->size / LZT__EVAL_STEP_BYTES, c->line) &&
               integer((int64_t)lzt__utf8_count(v->string->bytes, v->string->size), r);
    case LZT__KIND_LIST:
    case LZT__KIND_TUPLE: return integer(v->list->count, r);
    case LZT__KIND_DICT: return integer(v->dict->count, r);
    default: return refuse(ev, v, c, "length");
    }
}

static bool f_int(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    const lzt__value *otherwise = lzt__call_argument(c, 0, "default");
    char text[64], *end;
    *r = otherwise ? *otherwise : (lzt__value){LZT__KIND_INT, {0}};
    (void)ev;
    if (v->kind == LZT__KIND_INT || v->kind == LZT__KIND_BOOL)
        return integer(v->kind == LZT__KIND_INT ? v->integer : v->truth, r);
    if (v->kind == LZT__KIND_FLOAT) return fabs(v->real) < 9e18 ? integer((int64_t)v->real, r) : true;
    if (v->kind != LZT__KIND_STRING || v->string->size >= sizeof text) return true;
    memcpy(text, v->string->bytes, v->string->size);
    text[v->string->size] = 0;
    long long n = strtoll(text, &end, 10);
    if (end != text && !*end) return integer(n, r);
    double d = strtod(text, &end);
    if (end != text && !*end && fabs(d) < 9e18) return integer((int64_t)d, r);
    return true;
}

static bool f_float(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    const lzt__value *otherwise = lzt__call_argument(c, 0, "default");
    char text[64], *end;
    (void)ev;
    *r = otherwise ? *otherwise : (lzt__value){LZT__KIND_FLOAT, {.real = 0}};
    double d;
    if (lzt__value_number(v, &d)) {
        *r = (lzt__value){LZT__KIND_FLOAT, {.real = d}};
    } else if (v->kind == LZT__KIND_STRING && v->string->size && v->string->size < sizeof text) {
        memcpy(text, v->string->bytes, v->string->size);
        text[v->string->size] = 0;
        d = strtod(text, &end);
        if (!*end) *r = (lzt__value){LZT__KIND_FLOAT, {.real = d}};
    }
    return true;
}

static bool f_abs(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    *r = *v;
    if (v->kind == LZT__KIND_FLOAT)
        r->real = fabs(v->real);
    else if (v->kind == LZT__KIND_INT && v->integer != INT64_MIN)
        r->integer = v->integer < 0 ? -v->integer : v->integer;
    else
        return refuse(ev, v, c, "abs");
    return true;
}

/* ---- lists and dicts ---- */

static bool f_default(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    const lzt__value *otherwise = lzt__call_argument(c, 0, "default_value");
    bool use = v->kind == LZT__KIND_UNDEFINED || (flag_argument(c, 1, "boolean", false) && !lzt__value_truth(v));
    *r = *v;
    if (!use) return true;
    if (otherwise) *r = *otherwise;
    return otherwise || lzt__value_string(&ev->arena, "", 0, LZT__MARK_TEMPLATE, r) || lzt__eval_no_memory(ev);
}

static bool f_items(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    lzt__value self = *v;
    lzt__method m = {&self, "items"};
    if (v->kind == LZT__KIND_UNDEFINED)
        return lzt__value_list(&ev->arena, 0, LZT__KIND_LIST, r) || lzt__eval_no_memory(ev);
    if (v->kind != LZT__KIND_DICT) return refuse(ev, v, c, "items");
    return lzt__method_call(ev, &m, c, r);
}

static bool copy_list(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    lzt__list *list;
    if (!lzt__eval_items(ev, v, c->line, &list)) return false;
    if (!lzt__value_list(&ev->arena, list->count, LZT__KIND_LIST, r)) return lzt__eval_no_memory(ev);
    if (list->count) memcpy(r->list->item, list->item, list->count * sizeof *list->item);
    return true;
}

static bool f_first(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    lzt__list *list;
    if (!lzt__eval_items(ev, v, c->line, &list)) return false;
    *r = list->count ? list->item[0] : (lzt__value){LZT__KIND_UNDEFINED, {0}};
    return true;
}

static bool f_last(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    lzt__list *list;
    if (!lzt__eval_items(ev, v, c->line, &list)) return false;
    *r = list->count ? list->item[list->count - 1] : (lzt__value){LZT__KIND_UNDEFINED, {0}};
    return true;
}

static bool f_reverse(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    if (!copy_list(ev, v, c, r)) return false;
    lzt__list *l = r->list;
    for (uint32_t i = 0; i < l->count / 2; i++) {
        lzt__value x = l->item[i];
        l->item[i] = l->item[l->count - 1 - i];
        l->item[l->count - 1 - i] = x;
    }
    if (v->kind != LZT__KIND_STRING) return true;
    lzt__value list = *r;
    lzt__call none = {NULL, NULL, 0, c->line};
    return f_join(ev, &list, &none, r);
}

/* What sorting compares: text in lower case unless case counts. */
static bool sort_key(lzt__eval *ev, const lzt__value *v, bool case_sensitive, lzt__value *key)
{
    *key = *v;
    return v->kind != LZT__KIND_STRING || case_sensitive || lzt__string_case(ev, v->string, 'l', key);
}

/* What a sort works on: items and their keys, n of each. */
typedef struct sorting {
    lzt__value *item, *key;
} sorting;

/* Merges from[begin, middle) and from[middle, end), both sorted, into `to`; equals keep their order. */
static bool merge(lzt__eval *ev, const sorting *from, const sorting *to, const uint32_t cut[3], bool reverse,
                  uint32_t line)
{
    uint32_t a = cut[0], b = cut[1];
    for (uint32_t at = cut[0]; at < cut[2]; at++) {
        int order = a == cut[1];
        if (a < cut[1] && b < cut[2]) {
            if (!lzt__value_order(&from->key[a], &from->key[b], &order))
                return lzt__eval_fail(ev, line, "'%s' and '%s' cannot be ordered", lzt__kind_name(&from->key[a]),
                                      lzt__kind_name(&from->key[b]));
            if (reverse) order = (order < 0) - (order > 0);
        }
        uint32_t next = order > 0 ? b++ : a++;
        to->item[at] = from->item[next];
        to->key[at] = from->key[next];
    }
    return true;
}

/* Sorts items by keys, stably. */
static bool sort_by(lzt__eval *ev, lzt__list *items, lzt__value *key, bool reverse, uint32_t line)
{
    uint32_t n = items->count;
    lzt__value *room = lzt__arena_take(&ev->arena, 2 * ((uint64_t)n + 1) * sizeof *room);
    if (!room) return lzt__eval_no_memory(ev);
    sorting from = {items->item, key}, to = {room, room + n + 1};
    for (uint64_t width = 1; width < n; width *= 2) {
        if (!lzt__eval_spend(ev, n, line)) return false;
        for (uint64_t begin = 0; begin < n; begin += 2 * width) {
            uint64_t middle = begin + width < n ? begin + width : n, end = middle + width < n ? middle + width : n;
            const uint32_t cut[3] = {(uint32_t)begin, (uint32_t)middle, (uint32_t)end};
            if (!merge(ev, &from, &to, cut, reverse, line)) return false;
        }
        sorting other = from;
        from = to;
        to = other;
    }
    items->item = from.item;
    return true;
}

static bool f_dictsort(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    const lzt__string *by = string_argument(c, 1, "by");
    bool sensitive = flag_argument(c, 0, "case_sensitive", false), reverse = flag_argument(c, 2, "reverse", false);
    lzt__call none = {NULL, NULL, 0, c->line};
    if (v->kind != LZT__KIND_DICT) return refuse(ev, v, c, "dictsort");
    if (!f_items(ev, v, &none, r)) return false;
    uint32_t place = by && by->size == 5 ? 1 : 0;
    lzt__value *key = lzt__arena_take(&ev->arena, ((uint64_t)r->list->count + 1) * sizeof *key);
    if (!key) return lzt__eval_no_memory(ev);
    for (uint32_t i = 0; i < r->list->count; i++)
        if (!sort_key(ev, &r->list->item[i].list->item[place], sensitive, &key[i])) return false;
    return sort_by(ev, r->list, key, reverse, c->line);
}

/* item.a.b, as filters name attributes */
static bool attribute_of(lzt__eval *ev, const lzt__value *item, const lzt__string *path, uint32_t line, lzt__value *r)
{
    *r = *item;
    for (uint32_t begin = 0; begin <= path->size;) {
        uint32_t end = begin;
        while (end < path->size && path->bytes[end] != '.') end++;
        lzt__value name, from = *r;
        if (!lzt__value_part(&ev->arena, path, begin, end, &name)) return lzt__eval_no_memory(ev);
        if (!lzt__eval_item(ev, &from, &name, line, r)) return false;
        begin = end + 1;
    }
    return true;
}

static bool f_sort(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    const lzt__string *attribute = string_argument(c, 2, "attribute");
    bool reverse = flag_argument(c, 0, "reverse", false), sensitive = flag_argument(c, 1, "case_sensitive", false);
    if (!copy_list(ev, v, c, r)) return false;
    lzt__value *key = lzt__arena_take(&ev->arena, ((uint64_t)r->list->count + 1) * sizeof *key);
    if (!key) return lzt__eval_no_memory(ev);
    for (uint32_t i = 0; i < r->list->count; i++) {
        lzt__value x = r->list->item[i];
        if (attribute && !attribute_of(ev, &r->list->item[i], attribute, c->line, &x)) return false;
        if (!sort_key(ev, &x, sensitive, &key[i])) return false;
    }
    return sort_by(ev, r->list, key, reverse, c->line);
}

static bool f_unique(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    bool sensitive = flag_argument(c, 0, "case_sensitive", false);
    if (!copy_list(ev, v, c, r)) return false;
    lzt__value *key = lzt__arena_take(&ev->arena, ((uint64_t)r->list->count + 1) * sizeof *key);
    if (!key) return lzt__eval_no_memory(ev);
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->list->count; i++) {
        bool known = false;
        if (!sort_key(ev, &r->list->item[i], sensitive, &key[n])) return false;
        if (!lzt__eval_spend(ev, n, c->line)) return false;
        for (uint32_t k = 0; k < n && !known; k++)
            if (!lzt__eval_equal(ev, &key[k], &key[n], c->line, &known)) return false;
        if (!known) r->list->item[n++] = r->list->item[i];
    }
    r->list->count = n;
    return true;
}

static bool f_map(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    const lzt__string *attribute = string_argument(c, UINT32_MAX, "attribute"), *filter = string_argument(c, 0, NULL);
    const lzt__value *otherwise = lzt__call_argument(c, UINT32_MAX, "default");
    char name[64] = "";
    if (!copy_list(ev, v, c, r)) return false;
    if (!attribute && (!filter || filter->size >= sizeof name))
        return lzt__eval_fail(ev, c->line, "map takes a filter's name or an attribute");
    if (!attribute) memcpy(name, filter->bytes, filter->size);
    lzt__call rest = {c->value + 1, c->name + 1, c->count ? c->count - 1 : 0, c->line};
    if (!attribute && !lzt__jinja_has_filter(name))
        return lzt__eval_fail(ev, c->line, "the filter '%s' is not supported", name);
    for (uint32_t i = 0; i < r->list->count; i++) {
        lzt__value item = r->list->item[i];
        bool ok = attribute ? attribute_of(ev, &item, attribute, c->line, &r->list->item[i])
                            : lzt__filter_apply(ev, name, &item, &rest, &r->list->item[i]);
        if (!ok) return false;
        if (attribute && otherwise && r->list->item[i].kind == LZT__KIND_UNDEFINED) r->list->item[i] = *otherwise;
    }
    return true;
}

/* select, reject and their attr forms: what the test (truth without one) says of the item or of its attribute. */
static bool choose(lzt__eval *ev, const lzt__value *v, const lzt__call *c, bool keep, bool by_attribute, lzt__value *r)
{
    uint32_t skip = by_attribute ? 1 : 0, n = 0;
    const lzt__string *attribute = by_attribute ? string_argument(c, 0, NULL) : NULL,
                      *test = string_argument(c, skip, NULL);
    char name[64] = "";
    if (by_attribute && !attribute) return lzt__eval_fail(ev, c->line, "an attribute's name was expected");
    if (test && test->size >= sizeof name) return lzt__eval_fail(ev, c->line, "a test's name was expected");
    if (test) memcpy(name, test->bytes, test->size);
    if (test && !lzt__jinja_has_test(name)) return lzt__eval_fail(ev, c->line, "the test '%s' is not supported", name);
    if (!copy_list(ev, v, c, r)) return false;
    uint32_t used = skip + (test ? 1 : 0);
    lzt__call rest = {c->value + used, c->name + used, c->count > used ? c->count - used : 0, c->line};
    for (uint32_t i = 0; i < r->list->count; i++) {
        lzt__value x = r->list->item[i];
        if (attribute && !attribute_of(ev, &r->list->item[i], attribute, c->line, &x)) return false;
        bool result = lzt__value_truth(&x);
        if (test && !lzt__test_apply(ev, name, &x, &rest, &result)) return false;
        if (result == keep) r->list->item[n++] = r->list->item[i];
    }
    r->list->count = n;
    return true;
}

static bool f_select(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    return choose(ev, v, c, true, false, r);
}

static bool f_reject(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    return choose(ev, v, c, false, false, r);
}

static bool f_selectattr(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    return choose(ev, v, c, true, true, r);
}

static bool f_rejectattr(lzt__eval *ev, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    return choose(ev, v, c, false, true, r);
}

static const struct {
    const char *name;
    filter_fn *apply;
} filters[] = {{"string", f_string},
               {"trim", f_trim},
               {"upper", f_upper},
               {"lower", f_lower},
               {"capitalize", f_capitalize},
               {"safe", f_safe},
               {"replace", f_replace},
               {"join", f_join},
               {"tojson", f_tojson},
               {"indent", f_indent},
               {"length", f_length},
               {"count", f_length},
               {"int", f_int},
               {"float", f_float},
               {"abs", f_abs},
               {"default", f_default},
               {"d", f_default},
               {"items", f_items},
               {"list", copy_list},
               {"first", f_first},
               {"last", f_last},
               {"reverse", f_reverse},
               {"dictsort", f_dictsort},
               {"sort", f_sort},
               {"unique", f_unique},
               {"map", f_map},
               {"select", f_select},
               {"reject", f_reject},
               {"selectattr", f_selectattr},
               {"rejectattr", f_rejectattr}};

#define FILTER_COUNT (sizeof filters / sizeof filters[0])

bool lzt__jinja_has_filter(const char *name)
{
    for (size_t i = 0; i < FILTER_COUNT; i++)
        if (!strcmp(filters[i].name, name)) return true;
    return false;
}

bool lzt__filter_apply(lzt__eval *ev, const char *name, const lzt__value *v, const lzt__call *c, lzt__value *r)
{
    for (size_t i = 0; i < FILTER_COUNT; i++)
        if (!strcmp(filters[i].name, name)) {
            if (ev->depth++ > 600) return lzt__eval_fail(ev, c->line, "filters nest too deeply");
            bool ok = filters[i].apply(ev, v, c, r);
            ev->depth--;
            return ok;
        }
    return lzt__eval_fail(ev, c->line, "the filter '%s' is not supported", name);
}

/* ---- tests ---- */

static const char *const tests[] = {
    "defined",  "undefined", "none", "string", "number",   "integer", "float",       "boolean", "mapping",
    "iterable", "sequence",  "true", "false",  "odd",      "even",    "divisibleby", "equalto", "eq",
    "==",       "ne",        "!=",   "in",     "lt",       "<",       "gt",          ">",       "le",
    "<=",       "ge",        ">=",   "sameas", "callable", "lower",   "upper"};

bool lzt__jinja_has_test(const char *name)
{
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        if (!strcmp(tests[i], name)) return true;
    return false;
}

static bool is_one_of(const char *name, const char *a, const char *b)
{
    return !strcmp(name, a) || !strcmp(name, b);
}

static bool kind_test(const char *name, const lzt__value *v, bool *result)
{
    uint8_t k = v->kind;
    bool list = k == LZT__KIND_LIST || k == LZT__KIND_TUPLE, text = k == LZT__KIND_STRING, dict = k == LZT__KIND_DICT;
    if (!strcmp(name, "defined"))
        *result = k != LZT__KIND_UNDEFINED;
    else if (!strcmp(name, "undefined"))
        *result = k == LZT__KIND_UNDEFINED;
    else if (!strcmp(name, "none"))
        *result = k == LZT__KIND_NONE;
    else if (!strcmp(name, "string"))
        *result = text;
    else if (!strcmp(name, "number"))
        *result = k == LZT__KIND_INT || k == LZT__KIND_FLOAT || k == LZT__KIND_BOOL;
    else if (!strcmp(name, "integer"))
        *result = k == LZT__KIND_INT;
    else if (!strcmp(name, "float"))
        *result = k == LZT__KIND_FLOAT;
    else if (!strcmp(name, "boolean"))
        *result = k == LZT__KIND_BOOL;
    else if (!strcmp(name, "mapping"))
        *result = dict;
    else if (!strcmp(name, "iterable"))
        *result = list || text || dict || k == LZT__KIND_UNDEFINED || k == LZT__KIND_LOOP;
    else if (!strcmp(name, "sequence"))
        *result = list || text || dict || k == LZT__KIND_UNDEFINED;
    else if (!strcmp(name, "true"))
        *result = k == LZT__KIND_BOOL && v->truth;
    else if (!strcmp(name, "false"))
        *result = k == LZT__KIND_BOOL && !v->truth;
    else if (!strcmp(name, "callable"))
        *result = k >= LZT__KIND_MACRO && k != LZT__KIND_LOOP;
    else
        return false;
    return true;
}

static bool number_test(lzt__eval *ev, const char *name, const lzt__value *v, const lzt__call *c, bool *result)
{
    const lzt__value *by = lzt__call_argument(c, 0, "num");
    int64_t n = !strcmp(name, "divisibleby") ? (by && by->kind == LZT__KIND_INT ? by->integer : 0) : 2;
    if (v->kind != LZT__KIND_INT || !n) return refuse(ev, v, c, name);
    int64_t rest = n == -1 ? 0 : v->integer % n;
    *result = !strcmp(name, "odd") ? rest != 0 : rest == 0;
    return true;
}

static bool order_test(lzt__eval *ev, const char *name, const lzt__value *v, const lzt__value *other,
                       const lzt__call *c, bool *result)
{
    int order;
    if (!lzt__value_order(v, other, &order)) return refuse(ev, v, c, name);
    if (is_one_of(name, "lt", "<"))
        *result = order < 0;
    else if (is_one_of(name, "gt", ">"))
        *result = order > 0;
    else if (is_one_of(name, "le", "<="))
        *result = order <= 0;
    else
        *result = order >= 0;
    return true;
}

bool lzt__test_apply(lzt__eval *ev, const char *name, const lzt__value *v, const lzt__call *c, bool *result)
{
    const lzt__value *other = lzt__call_argument(c, 0, NULL);
    if (kind_test(name, v, result)) return true;
    if (!strcmp(name, "odd") || !strcmp(name, "even") || !strcmp(name, "divisibleby"))
        return number_test(ev, name, v, c, result);
    if (!strcmp(name, "lower") || !strcmp(name, "upper")) {
        lzt__value s, changed;
        if (!lzt__eval_string(ev, v, &s) || !lzt__string_case(ev, s.string, name[0], &changed)) return false;
        lzt__value opposite;
        if (!lzt__string_case(ev, s.string, name[0] == 'l' ? 'u' : 'l', &opposite)) return false;
        *result = lzt__value_equal(&s, &changed, NULL) && !lzt__value_equal(&s, &opposite, NULL);
        return true;
    }
    if (!other) return lzt__eval_fail(ev, c->line, "the test %s takes a value", name);
    if (!strcmp(name, "in")) return lzt__eval_contains(ev, v, other, c->line, result);
    if (!lzt__eval_equal(ev, v, other, c->line, result)) return false;
    if (is_one_of(name, "equalto", "eq") || !strcmp(name, "==")) return true;
    if (!strcmp(name, "sameas")) {
        *result = *result && v->kind == other->kind;
        return true;
    }
    if (is_one_of(name, "ne", "!=")) {
        *result = !*result;
        return true;
    }
    return order_test(ev, name, v, other, c, result);
}
