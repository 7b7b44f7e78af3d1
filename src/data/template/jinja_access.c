/* What lies inside a value of the template language: attributes, items, slices, iteration, membership. */
#include "data/template/jinja_eval.h"

#include <stdio.h>
#include <string.h>

bool lzt__eval_undefined(lzt__eval *ev, const lzt__value *v, uint32_t line)
{
    return lzt__eval_fail(ev, line, "'%s' is undefined", v->name ? v->name : "value");
}

static bool loop_attribute(lzt__eval *ev, const lzt__loop *l, const char *name, uint32_t line, lzt__value *r)
{
    int64_t n = l->list->count, i = l->index;
    *r = (lzt__value){LZT__KIND_INT, {0}};
    if (!strcmp(name, "index"))
        r->integer = i + 1;
    else if (!strcmp(name, "index0"))
        r->integer = i;
    else if (!strcmp(name, "revindex"))
        r->integer = n - i;
    else if (!strcmp(name, "revindex0"))
        r->integer = n - i - 1;
    else if (!strcmp(name, "length"))
        r->integer = n;
    else if (!strcmp(name, "depth"))
        r->integer = l->depth;
    else if (!strcmp(name, "depth0"))
        r->integer = l->depth - 1;
    else if (!strcmp(name, "first"))
        *r = (lzt__value){LZT__KIND_BOOL, {.truth = i == 0}};
    else if (!strcmp(name, "last"))
        *r = (lzt__value){LZT__KIND_BOOL, {.truth = i + 1 == n}};
    else if (!strcmp(name, "previtem"))
        *r = i ? l->list->item[i - 1] : (lzt__value){LZT__KIND_UNDEFINED, {0}};
    else if (!strcmp(name, "nextitem"))
        *r = i + 1 < n ? l->list->item[i + 1] : (lzt__value){LZT__KIND_UNDEFINED, {0}};
    else
        return lzt__eval_fail(ev, line, "loop.%s is not supported", name);
    return true;
}

bool lzt__eval_attribute(lzt__eval *ev, const lzt__value *v, const char *name, uint32_t line, lzt__value *r)
{
    const lzt__value *found = NULL;
    *r = (lzt__value){LZT__KIND_UNDEFINED, {.name = name}};
    if (v->kind == LZT__KIND_UNDEFINED) return lzt__eval_undefined(ev, v, line);
    if (v->kind == LZT__KIND_LOOP) return loop_attribute(ev, v->any, name, line, r);
    if (v->kind == LZT__KIND_NAMESPACE) found = lzt__dict_find(v->dict, name);
    if (lzt__method_exists(v, name)) {
        lzt__method *m = lzt__eval_take(ev, sizeof *m);
        lzt__value *self = m ? lzt__eval_take(ev, sizeof *self) : NULL;
        if (!self) return false;
        *self = *v;
        *m = (lzt__method){self, name};
        *r = (lzt__value){LZT__KIND_METHOD, {.method = m}};
        return true;
    }
    if (v->kind == LZT__KIND_DICT) found = lzt__dict_find(v->dict, name);
    if (found) *r = *found;
    return true;
}

bool lzt__eval_index(const lzt__value *index, int64_t *i)
{
    if (index->kind == LZT__KIND_INT)
        *i = index->integer;
    else if (index->kind == LZT__KIND_BOOL)
        *i = index->truth;
    else
        return false;
    return true;
}

bool lzt__eval_item(lzt__eval *ev, const lzt__value *v, const lzt__value *index, uint32_t line, lzt__value *r)
{
    int64_t i;
    *r = (lzt__value){LZT__KIND_UNDEFINED, {0}};
    if (v->kind == LZT__KIND_UNDEFINED) return lzt__eval_undefined(ev, v, line);
    if (v->kind == LZT__KIND_DICT || v->kind == LZT__KIND_NAMESPACE) {
        const lzt__value *found = lzt__dict_get(v->dict, index);
        if (found && v->kind == LZT__KIND_DICT) *r = *found;
        if (found || index->kind != LZT__KIND_STRING) return true;
    }
    if ((v->kind == LZT__KIND_LIST || v->kind == LZT__KIND_TUPLE) && lzt__eval_index(index, &i)) {
        int64_t n = v->list->count;
        if (i < 0) i += n;
        if (i >= 0 && i < n) *r = v->list->item[i];
        return true;
    }
    if (v->kind == LZT__KIND_STRING && lzt__eval_index(index, &i)) {
        const lzt__string *s = v->string;
        if (!lzt__eval_spend(ev, s->size / LZT__EVAL_STEP_BYTES, line)) return false;
        int64_t n = (int64_t)lzt__utf8_count(s->bytes, s->size);
        if (i < 0) i += n;
        if (i < 0 || i >= n) return true;
        uint64_t begin = lzt__utf8_offset(s->bytes, s->size, (uint64_t)i);
        uint64_t end = lzt__utf8_offset(s->bytes, s->size, (uint64_t)i + 1);
        return lzt__value_part(&ev->arena, s, begin, end, r) || lzt__eval_no_memory(ev);
    }
    if (index->kind != LZT__KIND_STRING) return true;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)index->string->size, index->string->bytes);
    if (v->kind == LZT__KIND_LOOP) return loop_attribute(ev, v->any, name, line, r);
    return true;
}

bool lzt__eval_items(lzt__eval *ev, const lzt__value *v, uint32_t line, lzt__list **list)
{
    lzt__value r;
    if (v->kind == LZT__KIND_LIST || v->kind == LZT__KIND_TUPLE) {
        *list = v->list;
        return true;
    }
    uint64_t n = 0;
    if (v->kind == LZT__KIND_DICT)
        n = v->dict->count;
    else if (v->kind == LZT__KIND_STRING)
        n = lzt__utf8_count(v->string->bytes, v->string->size);
    else if (v->kind != LZT__KIND_UNDEFINED)
        return lzt__eval_fail(ev, line, "'%s' object is not iterable", lzt__kind_name(v));
    if (!lzt__value_list(&ev->arena, (uint32_t)n, LZT__KIND_LIST, &r)) return lzt__eval_no_memory(ev);
    *list = r.list;
    if (v->kind == LZT__KIND_DICT && n) memcpy(r.list->item, v->dict->key, n * sizeof *r.list->item);
    uint64_t at = 0;
    for (uint64_t i = 0; v->kind == LZT__KIND_STRING && i < n; i++) {
        uint32_t code;
        uint64_t size = lzt__utf8_get(v->string->bytes + at, v->string->size - at, &code);
        if (!lzt__value_part(&ev->arena, v->string, at, at + size, &r.list->item[i])) return lzt__eval_no_memory(ev);
        at += size;
    }
    return true;
}

bool lzt__eval_contains(lzt__eval *ev, const lzt__value *item, const lzt__value *in, uint32_t line, bool *result)
{
    *result = false;
    switch (in->kind) {
    case LZT__KIND_UNDEFINED: return true;
    case LZT__KIND_STRING:
        if (item->kind != LZT__KIND_STRING)
            return lzt__eval_fail(ev, line, "'in <string>' requires string as left operand, not %s",
                                  lzt__kind_name(item));
        if (!lzt__eval_spend(ev, in->string->size / LZT__EVAL_STEP_BYTES, line)) return false;
        *result = !item->string->size ||
                  (in->string->size >= item->string->size &&
                   memmem(in->string->bytes, in->string->size, item->string->bytes, item->string->size));
        return true;
    case LZT__KIND_DICT: *result = lzt__dict_get(in->dict, item) != NULL; return true;
    case LZT__KIND_LIST:
    case LZT__KIND_TUPLE:
        if (!lzt__eval_spend(ev, in->list->count, line)) return false;
        for (uint32_t i = 0; i < in->list->count && !*result; i++)
            if (!lzt__eval_equal(ev, &in->list->item[i], item, line, result)) return false;
        return true;
    default: return lzt__eval_fail(ev, line, "argument of type '%s' is not iterable", lzt__kind_name(in));
    }
}

static int64_t clamp(int64_t i, int64_t n, bool back)
{
    if (i < 0) i += n;
    if (i < 0) return back ? -1 : 0;
    if (i >= n) return back ? n - 1 : n;
    return i;
}

bool lzt__eval_slice(lzt__eval *ev, const lzt__value *v, const int64_t *first, const int64_t *stop, int64_t step,
                     uint32_t line, lzt__value *r)
{
    if (v->kind == LZT__KIND_UNDEFINED) return lzt__eval_undefined(ev, v, line);
    if (v->kind != LZT__KIND_STRING && v->kind != LZT__KIND_LIST && v->kind != LZT__KIND_TUPLE) {
        *r = (lzt__value){LZT__KIND_UNDEFINED, {0}};
        return true;
    }
    if (!step) return lzt__eval_fail(ev, line, "slice step cannot be zero");
    lzt__list *all;
    if (!lzt__eval_items(ev, v, line, &all)) return false;
    int64_t count = all->count, out = 0, begin, end;
    bool back = step < 0;
    begin = first ? clamp(*first, count, back) : back ? count - 1 : 0;
    end = stop ? clamp(*stop, count, back) : back ? -1 : count;
    if (v->kind == LZT__KIND_STRING && step == 1) {
        if (end < begin) end = begin;
        uint64_t a = lzt__utf8_offset(v->string->bytes, v->string->size, (uint64_t)begin);
        uint64_t b = lzt__utf8_offset(v->string->bytes, v->string->size, (uint64_t)end);
        return lzt__value_part(&ev->arena, v->string, a, b, r) || lzt__eval_no_memory(ev);
    }
    lzt__value list;
    if (!lzt__value_list(&ev->arena, (uint32_t)count, v->kind == LZT__KIND_TUPLE ? LZT__KIND_TUPLE : LZT__KIND_LIST,
                         &list))
        return lzt__eval_no_memory(ev);
    for (int64_t i = begin; back ? i > end : i < end; i += step) {
        list.list->item[out++] = all->item[i];
        if (step > count || step < -count) break;
    }
    list.list->count = (uint32_t)out;
    *r = list;
    if (v->kind != LZT__KIND_STRING) return true;
    lzt__out text = {0};
    bool ok = true;
    for (int64_t i = 0; ok && i < out; i++) ok = lzt__out_string(&text, list.list->item[i].string);
    ok = ok && lzt__out_value(&ev->arena, &text, r);
    lzt__out_free(&text);
    return ok || lzt__eval_no_memory(ev);
}
