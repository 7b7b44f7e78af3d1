/* Methods of strings, dicts and lists in the template language, and the string work that filters share. */
#include "data/template/jinja_eval.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static const char *const string_methods[] = {
    "split",   "rsplit",     "strip",   "lstrip",  "rstrip",     "startswith",   "endswith",
    "replace", "upper",      "lower",   "title",   "capitalize", "find",         "count",
    "join",    "splitlines", "isdigit", "isalpha", "isspace",    "removeprefix", "removesuffix"};
static const char *const dict_methods[] = {"items", "keys", "values", "get", "copy"};
static const char *const list_methods[] = {"index", "count"};
/* Python has these, the sandbox forbids them or we do not have them: naming them is not a look-up in the data. */
static const char *const other_dict_methods[] = {"pop", "popitem", "update", "setdefault", "clear", "fromkeys"};
static const char *const other_list_methods[] = {"append",  "extend", "insert", "pop",  "remove",
                                                 "reverse", "sort",   "copy",   "clear"};

#define HAS(list, name) has(list, sizeof list / sizeof list[0], name)

static bool has(const char *const *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(list[i], name)) return true;
    return false;
}

bool lzt__method_exists(const lzt__value *self, const char *name)
{
    switch (self->kind) {
    case LZT__KIND_STRING: return HAS(string_methods, name);
    case LZT__KIND_DICT: return HAS(dict_methods, name) || HAS(other_dict_methods, name);
    case LZT__KIND_LIST: return HAS(list_methods, name) || HAS(other_list_methods, name);
    case LZT__KIND_TUPLE: return HAS(list_methods, name);
    default: return false;
    }
}

/* ---- string work ---- */

static bool in_set(uint32_t code, const lzt__string *set)
{
    if (!set) return lzt__is_py_space(code);
    for (uint32_t i = 0; i < set->size;) {
        uint32_t c, n = lzt__utf8_get(set->bytes + i, set->size - i, &c);
        if (!n) return false;
        if (c == code) return true;
        i += n;
    }
    return false;
}

bool lzt__string_strip(lzt__eval *ev, const lzt__string *s, const lzt__string *characters, int sides, lzt__value *r)
{
    uint64_t begin = 0, end = s->size;
    uint32_t code, n;
    while (sides & 1 && begin < end && (n = lzt__utf8_get(s->bytes + begin, end - begin, &code)) &&
           in_set(code, characters))
        begin += n;
    while (sides & 2 && end > begin) {
        uint64_t at = end - 1;
        while (at > begin && ((unsigned char)s->bytes[at] & 0xc0) == 0x80) at--;
        if (!lzt__utf8_get(s->bytes + at, end - at, &code) || !in_set(code, characters)) break;
        end = at;
    }
    return lzt__value_part(&ev->arena, s, begin, end, r) || lzt__eval_no_memory(ev);
}

static bool put_part(lzt__out *out, const lzt__string *s, uint64_t begin, uint64_t end)
{
    lzt__string part = {s->bytes + begin, s->mark ? s->mark + begin : NULL, (uint32_t)(end - begin), s->marks, false};
    return lzt__out_string(out, &part);
}

static uint64_t find_from(const lzt__string *s, uint64_t at, const lzt__string *what)
{
    if (what->size > s->size - at) return UINT64_MAX;
    if (!what->size) return at;
    const char *found = memmem(s->bytes + at, s->size - at, what->bytes, what->size);
    return found ? (uint64_t)(found - s->bytes) : UINT64_MAX;
}

static bool finish(lzt__eval *ev, lzt__out *out, bool ok, lzt__value *r)
{
    ok = ok && lzt__out_value(&ev->arena, out, r);
    lzt__out_free(out);
    return ok || lzt__eval_no_memory(ev);
}

bool lzt__string_replace(lzt__eval *ev, const lzt__string *s, const lzt__string *from, const lzt__string *to,
                         int64_t count, lzt__value *r)
{
    lzt__out out = {0};
    uint64_t at = 0, found;
    bool ok = true;
    while (ok && count && at <= s->size && (found = find_from(s, at, from)) != UINT64_MAX) {
        uint32_t code, step = 0;
        if (!from->size) step = found < s->size ? lzt__utf8_get(s->bytes + found, s->size - found, &code) : 1;
        ok = put_part(&out, s, at, found) && lzt__out_string(&out, to);
        if (ok && !from->size && found < s->size) ok = put_part(&out, s, found, found + step);
        at = found + from->size + step;
        count -= count > 0;
    }
    if (ok && at < s->size) ok = put_part(&out, s, at, s->size);
    return finish(ev, &out, ok, r);
}

/* how: u upper, l lower, c capital first and the rest lower, t title */
bool lzt__string_case(lzt__eval *ev, const lzt__string *s, char how, lzt__value *r)
{
    lzt__out out = {0};
    bool ok = true, word = false;
    char bytes[4];
    for (uint32_t i = 0; ok && i < s->size;) {
        uint32_t code, n = lzt__utf8_get(s->bytes + i, s->size - i, &code);
        if (!n) break;
        bool up = how == 'u' || (how == 'c' && i == 0) || (how == 't' && !word);
        uint8_t mark = s->mark ? s->mark[i] : s->marks;
        word = utf8proc_toupper((utf8proc_int32_t)code) != (utf8proc_int32_t)code ||
               utf8proc_tolower((utf8proc_int32_t)code) != (utf8proc_int32_t)code;
        if (up && code == 0xdf) {
            ok = lzt__out_put(&out, how == 'u' ? "SS" : "Ss", 2, mark);
        } else {
            code = (uint32_t)(up ? utf8proc_toupper((utf8proc_int32_t)code) : utf8proc_tolower((utf8proc_int32_t)code));
            ok = lzt__out_put(&out, bytes, lzt__utf8_put(bytes, code), mark);
        }
        i += n;
    }
    return finish(ev, &out, ok, r);
}

/* ---- methods of strings ---- */

static bool add_part(lzt__eval *ev, lzt__value *list, uint32_t *room, const lzt__string *s, uint64_t begin,
                     uint64_t end)
{
    lzt__list *l = list->list;
    if (l->count == *room) {
        lzt__value grown;
        if (!lzt__value_list(&ev->arena, *room * 2 + 8, LZT__KIND_LIST, &grown)) return lzt__eval_no_memory(ev);
        if (l->count) memcpy(grown.list->item, l->item, l->count * sizeof *l->item);
        l->item = grown.list->item;
        *room = *room * 2 + 8;
    }
    return lzt__value_part(&ev->arena, s, begin, end, &l->item[l->count++]) || lzt__eval_no_memory(ev);
}

static uint64_t space_run(const lzt__string *s, uint64_t at, bool space)
{
    uint32_t code, n;
    while (at < s->size && (n = lzt__utf8_get(s->bytes + at, s->size - at, &code)) && lzt__is_py_space(code) == space)
        at += n;
    return at;
}

static bool split_space(lzt__eval *ev, const lzt__string *s, int64_t limit, lzt__value *r)
{
    uint32_t room = r->list->count = 0;
    for (uint64_t at = space_run(s, 0, true); at < s->size;) {
        uint64_t end = limit == 0 ? s->size : space_run(s, at, false);
        if (limit == 0) { /* the rest, without the space behind it */
            lzt__value rest;
            return lzt__string_strip(ev, s, NULL, 2, &rest) && add_part(ev, r, &room, s, at, rest.string->size);
        }
        if (!add_part(ev, r, &room, s, at, end)) return false;
        at = space_run(s, end, true);
        limit -= limit > 0;
    }
    return true;
}

static bool split(lzt__eval *ev, const lzt__string *s, const lzt__call *c, bool right, lzt__value *r)
{
    const lzt__value *sep = lzt__call_argument(c, 0, "sep"), *max = lzt__call_argument(c, 1, "maxsplit");
    int64_t limit = max && max->kind == LZT__KIND_INT ? max->integer : -1;
    uint32_t room = 0;
    if (!lzt__value_list(&ev->arena, 0, LZT__KIND_LIST, r)) return lzt__eval_no_memory(ev);
    if (!sep || sep->kind == LZT__KIND_NONE) {
        if (right && limit >= 0)
            return lzt__eval_fail(ev, c->line, "rsplit at white space with a limit is not supported");
        return split_space(ev, s, limit, r);
    }
    if (sep->kind != LZT__KIND_STRING || !sep->string->size)
        return lzt__eval_fail(ev, c->line, "the separator is empty or no string");
    int64_t cuts = 0;
    for (uint64_t at = 0, found; right && (found = find_from(s, at, sep->string)) != UINT64_MAX; cuts++)
        at = found + sep->string->size;
    int64_t skip = right && limit >= 0 && cuts > limit ? cuts - limit : 0;
    uint64_t begin = 0, at = 0, found;
    while ((found = find_from(s, at, sep->string)) != UINT64_MAX && (right || limit)) {
        at = found + sep->string->size;
        if (skip-- > 0) continue;
        if (!add_part(ev, r, &room, s, begin, found)) return false;
        begin = at;
        limit -= limit > 0 && !right;
    }
    return add_part(ev, r, &room, s, begin, s->size);
}

static bool split_lines(lzt__eval *ev, const lzt__string *s, lzt__value *r)
{
    uint32_t room = 0;
    if (!lzt__value_list(&ev->arena, 0, LZT__KIND_LIST, r)) return lzt__eval_no_memory(ev);
    for (uint64_t at = 0; at < s->size;) {
        uint64_t end = at;
        while (end < s->size && s->bytes[end] != '\n' && s->bytes[end] != '\r') end++;
        if (!add_part(ev, r, &room, s, at, end)) return false;
        at = end + (end + 1 < s->size && s->bytes[end] == '\r' && s->bytes[end + 1] == '\n' ? 2 : 1);
    }
    return true;
}

static bool has_affix(const lzt__string *s, const lzt__value *affix, bool start)
{
    if (affix->kind == LZT__KIND_TUPLE) {
        for (uint32_t i = 0; i < affix->list->count; i++)
            if (has_affix(s, &affix->list->item[i], start)) return true;
        return false;
    }
    if (affix->kind != LZT__KIND_STRING || affix->string->size > s->size) return false;
    return !memcmp(start ? s->bytes : s->bytes + s->size - affix->string->size, affix->string->bytes,
                   affix->string->size);
}

static bool all_are(const lzt__string *s, const char *what)
{
    for (uint32_t i = 0; i < s->size;) {
        uint32_t code, n = lzt__utf8_get(s->bytes + i, s->size - i, &code);
        utf8proc_category_t k = n ? utf8proc_category((utf8proc_int32_t)code) : UTF8PROC_CATEGORY_CN;
        bool ok = what[2] == 'd'   ? k == UTF8PROC_CATEGORY_ND
                  : what[2] == 'a' ? k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO
                                   : lzt__is_py_space(code);
        if (!n || !ok) return false;
        i += n;
    }
    return s->size > 0;
}

static bool count_in(const lzt__string *s, const lzt__string *what, bool find, lzt__value *r)
{
    int64_t n = 0;
    uint64_t at = 0, found = find_from(s, 0, what);
    *r = (lzt__value){LZT__KIND_INT, {0}};
    if (find) {
        r->integer = found == UINT64_MAX ? -1 : (int64_t)lzt__utf8_count(s->bytes, found);
        return true;
    }
    for (; what->size && (found = find_from(s, at, what)) != UINT64_MAX; n++) at = found + what->size;
    r->integer = what->size ? n : (int64_t)lzt__utf8_count(s->bytes, s->size) + 1;
    return true;
}

static bool join(lzt__eval *ev, const lzt__string *between, const lzt__value *items, uint32_t line, lzt__value *r)
{
    lzt__list *list;
    lzt__out out = {0};
    if (!lzt__eval_items(ev, items, line, &list)) return false;
    bool ok = true;
    for (uint32_t i = 0; ok && i < list->count; i++) {
        if (list->item[i].kind != LZT__KIND_STRING) {
            lzt__out_free(&out);
            return lzt__eval_fail(ev, line, "sequence item %u: expected str instance, %s found", i,
                                  lzt__kind_name(&list->item[i]));
        }
        ok = (!i || lzt__out_string(&out, between)) && lzt__out_string(&out, list->item[i].string);
    }
    return finish(ev, &out, ok, r);
}

static bool boolean(bool truth, lzt__value *r)
{
    *r = (lzt__value){LZT__KIND_BOOL, {.truth = truth}};
    return true;
}

static bool string_call(lzt__eval *ev, const lzt__string *s, const char *name, const lzt__call *c, lzt__value *r)
{
    const lzt__value *a = lzt__call_argument(c, 0, NULL), *b = lzt__call_argument(c, 1, NULL),
                     *n = lzt__call_argument(c, 2, "count");
    const lzt__string *text = a && a->kind == LZT__KIND_STRING ? a->string : NULL;
    if (!lzt__eval_spend(ev, s->size / LZT__EVAL_STEP_BYTES, c->line)) return false;
    if (!strcmp(name, "split") || !strcmp(name, "rsplit")) return split(ev, s, c, name[0] == 'r', r);
    if (!strcmp(name, "splitlines")) return split_lines(ev, s, r);
    if (!strcmp(name, "upper") || !strcmp(name, "lower") || !strcmp(name, "title") || !strcmp(name, "capitalize"))
        return lzt__string_case(ev, s, name[0], r);
    if (!strncmp(name, "is", 2)) return boolean(all_are(s, name), r);
    if (strstr(name, "strip")) {
        if (a && !text && a->kind != LZT__KIND_NONE) return lzt__eval_fail(ev, c->line, "%s takes a string", name);
        return lzt__string_strip(ev, s, text, name[0] == 'l' ? 1 : name[0] == 'r' ? 2 : 3, r);
    }
    if (!strcmp(name, "join")) return a ? join(ev, s, a, c->line, r) : lzt__eval_fail(ev, c->line, "join takes a list");
    bool tuple = a && a->kind == LZT__KIND_TUPLE && strstr(name, "swith");
    if (!text && !tuple) return lzt__eval_fail(ev, c->line, "%s takes a string", name);
    if (!strcmp(name, "startswith") || !strcmp(name, "endswith")) return boolean(has_affix(s, a, name[0] == 's'), r);
    if (!strcmp(name, "find") || !strcmp(name, "count")) return count_in(s, text, name[0] == 'f', r);
    if (!strcmp(name, "removeprefix") || !strcmp(name, "removesuffix")) {
        bool start = name[6] == 'p', found = has_affix(s, a, start);
        return lzt__value_part(&ev->arena, s, found && start ? text->size : 0,
                               found && !start ? s->size - text->size : s->size, r) ||
               lzt__eval_no_memory(ev);
    }
    if (!b || b->kind != LZT__KIND_STRING) return lzt__eval_fail(ev, c->line, "replace takes two strings");
    return lzt__string_replace(ev, s, text, b->string, n && n->kind == LZT__KIND_INT ? n->integer : -1, r);
}

/* ---- methods of dicts and lists ---- */

static bool dict_call(lzt__eval *ev, lzt__dict *d, const char *name, const lzt__call *c, lzt__value *r)
{
    if (!strcmp(name, "get")) {
        const lzt__value *key = lzt__call_argument(c, 0, NULL), *otherwise = lzt__call_argument(c, 1, NULL);
        if (!key) return lzt__eval_fail(ev, c->line, "get takes a key");
        const lzt__value *found = lzt__dict_get(d, key);
        *r = found ? *found : otherwise ? *otherwise : (lzt__value){LZT__KIND_NONE, {0}};
        return true;
    }
    if (c->count) return lzt__eval_fail(ev, c->line, "%s takes no arguments", name);
    if (!strcmp(name, "copy")) {
        *r = (lzt__value){LZT__KIND_DICT, {.dict = d}}; /* values never change */
        return true;
    }
    if (!lzt__value_list(&ev->arena, d->count, LZT__KIND_LIST, r)) return lzt__eval_no_memory(ev);
    for (uint32_t i = 0; i < d->count; i++) {
        lzt__value *item = &r->list->item[i];
        if (name[0] == 'k')
            *item = d->key[i];
        else if (name[0] == 'v')
            *item = d->value[i];
        else if (!lzt__value_list(&ev->arena, 2, LZT__KIND_TUPLE, item))
            return lzt__eval_no_memory(ev);
        if (name[0] != 'i') continue;
        item->list->item[0] = d->key[i];
        item->list->item[1] = d->value[i];
    }
    return true;
}

static bool list_call(lzt__eval *ev, const lzt__list *l, const char *name, const lzt__call *c, lzt__value *r)
{
    const lzt__value *what = lzt__call_argument(c, 0, NULL);
    int64_t n = 0;
    if (!what) return lzt__eval_fail(ev, c->line, "%s takes a value", name);
    if (!lzt__eval_spend(ev, l->count, c->line)) return false;
    *r = (lzt__value){LZT__KIND_INT, {0}};
    for (uint32_t i = 0; i < l->count; i++) {
        bool same;
        if (!lzt__eval_equal(ev, &l->item[i], what, c->line, &same)) return false;
        if (!same) continue;
        n++;
        r->integer = i;
        if (name[0] == 'i') return true;
    }
    if (name[0] == 'i') return lzt__eval_fail(ev, c->line, "the value is not in the list");
    r->integer = n;
    return true;
}

bool lzt__method_call(lzt__eval *ev, const lzt__method *m, const lzt__call *c, lzt__value *r)
{
    const lzt__value *self = m->self;
    if (self->kind == LZT__KIND_STRING) return string_call(ev, self->string, m->name, c, r);
    if (self->kind == LZT__KIND_DICT && HAS(dict_methods, m->name)) return dict_call(ev, self->dict, m->name, c, r);
    if (self->kind != LZT__KIND_DICT && HAS(list_methods, m->name)) return list_call(ev, self->list, m->name, c, r);
    return lzt__eval_fail(ev, c->line, "the method %s, which changes its %s, is not allowed", m->name,
                          lzt__kind_name(self));
}
