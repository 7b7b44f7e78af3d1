/* The evaluator: see jinja_eval.h. Functions return false when an error has been noted in ev->status. */
#include "data/template/jinja_eval.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEPTH_MAX   150
#define STEPS_MAX   UINT64_C(5000000)
#define ARENA_BYTES (UINT64_C(1) << 30)
#define RANGE_MAX   100000

typedef enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE, FLOW_FAILED } flow;

/* A macro, and the body of a call block. */
typedef struct macro {
    const lzt__node *node, *parameters, *body;
    lzt__frame *frame;
} macro;

static bool evaluate(lzt__eval *ev, lzt__frame *f, const lzt__node *n, lzt__value *result);
static flow run_body(lzt__eval *ev, lzt__frame *f, const lzt__node *n);
static bool call_macro(lzt__eval *ev, const macro *m, const lzt__call *c, const lzt__value *caller, lzt__value *result);

bool lzt__eval_fail(lzt__eval *ev, uint32_t line, const char *fmt, ...)
{
    char text[900], where[600];
    if (ev->status) return false;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    snprintf(where, sizeof where, "%.500s:%u", ev->where, line);
    ev->status = lzt_fail(ev->err, LZT_ERR_DATA, where, "%s", text);
    return false;
}

bool lzt__eval_no_memory(lzt__eval *ev)
{
    if (!ev->status)
        ev->status =
            lzt_fail(ev->err, LZT_ERR_NO_MEMORY, ev->where, "no memory to render a template, or over its limit");
    return false;
}

bool lzt__eval_spend(lzt__eval *ev, uint64_t steps, uint32_t line)
{
    if (steps > ev->steps) {
        ev->steps = 0;
        return lzt__eval_fail(ev, line, "the template takes too many steps");
    }
    ev->steps -= steps;
    return true;
}

bool lzt__eval_equal(lzt__eval *ev, const lzt__value *a, const lzt__value *b, uint32_t line, bool *result)
{
    bool unknown;
    *result = lzt__value_equal(a, b, &unknown);
    return !unknown || lzt__eval_fail(ev, line, "values nest too deeply, or are too large, to be compared");
}

void *lzt__eval_take(lzt__eval *ev, uint64_t bytes)
{
    void *at = lzt__arena_take(&ev->arena, bytes);
    if (at)
        memset(at, 0, bytes);
    else
        lzt__eval_no_memory(ev);
    return at;
}

/* ---- variables ---- */

/* Scopes outlive the call that made them: a macro may carry one away. */
static lzt__frame *frame_below(lzt__eval *ev, lzt__frame *parent)
{
    lzt__frame *f = lzt__eval_take(ev, sizeof *f);
    if (f) f->parent = parent;
    return f;
}

static bool assign(lzt__eval *ev, lzt__frame *f, const char *name, lzt__value value)
{
    for (uint32_t i = 0; i < f->count; i++)
        if (f->variable[i].name == name) {
            f->variable[i].value = value;
            return true;
        }
    if (f->count == f->capacity) {
        uint32_t capacity = f->capacity * 2 + 8;
        lzt__variable *grown = lzt__eval_take(ev, capacity * sizeof *grown);
        if (!grown) return false;
        if (f->count) memcpy(grown, f->variable, f->count * sizeof *grown);
        f->variable = grown;
        f->capacity = capacity;
    }
    f->variable[f->count++] = (lzt__variable){name, value};
    return true;
}

static lzt__value look_up(const lzt__frame *f, const char *name)
{
    static const char *const functions[] = {"namespace", "raise_exception", "strftime_now", "range", "dict"};
    for (; f; f = f->parent)
        for (uint32_t i = 0; i < f->count; i++)
            if (f->variable[i].name == name) return f->variable[i].value;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (!strcmp(name, functions[i])) return (lzt__value){LZT__KIND_FUNCTION, {.name = functions[i]}};
    return (lzt__value){LZT__KIND_UNDEFINED, {.name = name}};
}

/* ---- output ---- */

static bool note_turn(lzt__eval *ev)
{
    if (ev->turn_count && ev->turn[ev->turn_count - 1].message == ev->message) return true;
    if (ev->turn_count == ev->turn_capacity) {
        uint32_t capacity = ev->turn_capacity * 2 + 32;
        lzt__turn *grown = realloc(ev->turn, capacity * sizeof *grown);
        if (!grown) return lzt__eval_no_memory(ev);
        ev->turn = grown;
        ev->turn_capacity = capacity;
    }
    ev->turn[ev->turn_count++] = (lzt__turn){ev->out.size, ev->message};
    return true;
}

static bool print(lzt__eval *ev, const lzt__value *v, uint32_t line)
{
    lzt__out *to = ev->to;
    uint64_t before = to->size;
    if (to == &ev->out && !note_turn(ev)) return false;
    if (v->kind >= LZT__KIND_NAMESPACE) return lzt__eval_fail(ev, line, "a %s cannot be printed", lzt__kind_name(v));
    if (!lzt__value_str(to, v, 0)) return lzt__eval_no_memory(ev);
    for (uint64_t i = before; ev->marks && i < to->size; i++) to->mark[i] |= ev->marks;
    return true;
}

/* Runs a body with its output captured. */
static bool capture(lzt__eval *ev, lzt__frame *f, const lzt__node *body, lzt__value *text)
{
    lzt__out mine = {0}, *before = ev->to;
    ev->to = &mine;
    flow how = run_body(ev, f, body);
    ev->to = before;
    bool ok = how != FLOW_FAILED && (lzt__out_value(&ev->arena, &mine, text) || lzt__eval_no_memory(ev));
    lzt__out_free(&mine);
    return ok;
}

bool lzt__eval_string(lzt__eval *ev, const lzt__value *v, lzt__value *result)
{
    if (v->kind == LZT__KIND_STRING) {
        *result = *v;
        return true;
    }
    lzt__out out = {0};
    bool ok = v->kind < LZT__KIND_NAMESPACE && lzt__value_str(&out, v, 0) && lzt__out_value(&ev->arena, &out, result);
    lzt__out_free(&out);
    return ok || lzt__eval_no_memory(ev);
}

/* ---- slices and operators ---- */

static bool slice_bound(lzt__eval *ev, lzt__frame *f, const lzt__node *n, bool *given, int64_t *bound)
{
    lzt__value v;
    *given = false;
    if (!n) return true;
    if (!evaluate(ev, f, n, &v)) return false;
    if (v.kind == LZT__KIND_NONE) return true;
    if (!lzt__eval_index(&v, bound)) return lzt__eval_fail(ev, n->line, "slice indices must be integers");
    *given = true;
    return true;
}

static bool slice(lzt__eval *ev, lzt__frame *f, const lzt__node *n, lzt__value *r)
{
    lzt__value v;
    bool has_begin, has_end, has_step;
    int64_t begin = 0, end = 0, step = 1;
    if (!evaluate(ev, f, n->a, &v) || !slice_bound(ev, f, n->b, &has_begin, &begin) ||
        !slice_bound(ev, f, n->c, &has_end, &end) || !slice_bound(ev, f, n->d, &has_step, &step))
        return false;
    return lzt__eval_slice(ev, &v, has_begin ? &begin : NULL, has_end ? &end : NULL, step, n->line, r);
}

static bool binary(lzt__eval *ev, lzt__frame *f, const lzt__node *n, lzt__value *r)
{
    lzt__value a, b;
    return evaluate(ev, f, n->a, &a) && evaluate(ev, f, n->b, &b) &&
           lzt__eval_binary(ev, (lzt__operator)n->op, &a, &b, n->line, r);
}

static bool compare(lzt__eval *ev, lzt__frame *f, const lzt__node *n, lzt__value *r)
{
    lzt__value left, right;
    bool result = true;
    if (!evaluate(ev, f, n->a, &left)) return false;
    for (const lzt__node *o = n->b; o && result; o = o->next) {
        if (!evaluate(ev, f, o->a, &right) ||
            !lzt__eval_compare(ev, (lzt__operator)o->op, &left, &right, o->line, &result))
            return false;
        left = right;
    }
    *r = (lzt__value){LZT__KIND_BOOL, {.truth = result}};
    return true;
}

static bool unary(lzt__eval *ev, lzt__frame *f, const lzt__node *n, lzt__value *r)
{
    return evaluate(ev, f, n->a, r) && lzt__eval_sign(ev, (lzt__operator)n->op, n->line, r);
}
/* ---- calls ---- */

const lzt__value *lzt__call_argument(const lzt__call *c, uint32_t place, const char *name)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (c->name[i] ? name && !strcmp(c->name[i], name) : i == place) return &c->value[i];
    return NULL;
}

static bool evaluate_arguments(lzt__eval *ev, lzt__frame *f, const lzt__node *list, uint32_t line, lzt__call *c)
{
    uint32_t n = 0;
    for (const lzt__node *a = list; a; a = a->next) n++;
    *c = (lzt__call){lzt__eval_take(ev, (n + 1) * sizeof *c->value), lzt__eval_take(ev, (n + 1) * sizeof *c->name), n,
                     line};
    if (!c->value || !c->name) return false;
    n = 0;
    for (const lzt__node *a = list; a; a = a->next, n++) {
        if (n && c->name[n - 1] && !a->name)
            return lzt__eval_fail(ev, line, "a positional argument follows one with a name");
        c->name[n] = a->name;
        if (!evaluate(ev, f, a->a, &c->value[n])) return false;
    }
    return true;
}

static bool make_namespace(lzt__eval *ev, const lzt__call *c, bool is_dict, lzt__value *r)
{
    if (!lzt__value_dict(&ev->arena, c->count + 4, r)) return lzt__eval_no_memory(ev);
    for (uint32_t i = 0; i < c->count; i++) {
        lzt__value key;
        if (!c->name[i]) {
            const lzt__value *from = &c->value[i];
            if (from->kind != LZT__KIND_DICT) return lzt__eval_fail(ev, c->line, "a mapping was expected");
            for (uint32_t k = 0; k < from->dict->count; k++)
                if (!lzt__dict_set(&ev->arena, r->dict, from->dict->key[k], from->dict->value[k]))
                    return lzt__eval_no_memory(ev);
            continue;
        }
        if (!is_dict && c->name[i][0] == '_')
            return lzt__eval_fail(ev, c->line, "a namespace cannot hold the name %s", c->name[i]);
        if (!lzt__value_string(&ev->arena, c->name[i], strlen(c->name[i]), LZT__MARK_TEMPLATE, &key) ||
            !lzt__dict_set(&ev->arena, r->dict, key, c->value[i]))
            return lzt__eval_no_memory(ev);
    }
    r->kind = is_dict ? LZT__KIND_DICT : LZT__KIND_NAMESPACE;
    return true;
}

static bool make_range(lzt__eval *ev, const lzt__call *c, lzt__value *r)
{
    int64_t v[3] = {0, 0, 1};
    if (!c->count || c->count > 3) return lzt__eval_fail(ev, c->line, "range takes one to three numbers");
    for (uint32_t i = 0; i < c->count; i++)
        if (!lzt__eval_index(&c->value[i], &v[c->count == 1 ? 1 : i]))
            return lzt__eval_fail(ev, c->line, "range takes integers");
    if (!v[2]) return lzt__eval_fail(ev, c->line, "range's step is zero");
    double length = ceil(((double)v[1] - (double)v[0]) / (double)v[2]);
    if (length > RANGE_MAX) return lzt__eval_fail(ev, c->line, "range is longer than %d", RANGE_MAX);
    uint32_t n = length > 0 ? (uint32_t)length : 0;
    if (!lzt__value_list(&ev->arena, n, LZT__KIND_LIST, r)) return lzt__eval_no_memory(ev);
    for (uint32_t i = 0; i < n; i++) {
        r->list->item[i] = (lzt__value){LZT__KIND_INT, {.integer = v[0]}};
        if (i + 1 < n) v[0] += v[2];
    }
    return true;
}

static bool now_text(lzt__eval *ev, const lzt__call *c, lzt__value *r)
{
    char format[128], text[256];
    if (c->count != 1 || c->value[0].kind != LZT__KIND_STRING || c->value[0].string->size >= sizeof format)
        return lzt__eval_fail(ev, c->line, "strftime_now takes a format");
    memcpy(format, c->value[0].string->bytes, c->value[0].string->size);
    format[c->value[0].string->size] = 0;
    time_t t = (time_t)ev->now;
    struct tm tm;
    localtime_r(&t, &tm);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t n = strftime(text, sizeof text, format, &tm);
#pragma GCC diagnostic pop
    char *copy = lzt__eval_take(ev, n + 1);
    if (!copy) return false;
    memcpy(copy, text, n);
    return lzt__value_string(&ev->arena, copy, n, LZT__MARK_TEMPLATE, r) || lzt__eval_no_memory(ev);
}

static bool call_function(lzt__eval *ev, const char *name, const lzt__call *c, lzt__value *r)
{
    if (!strcmp(name, "namespace")) return make_namespace(ev, c, false, r);
    if (!strcmp(name, "dict")) return make_namespace(ev, c, true, r);
    if (!strcmp(name, "range")) return make_range(ev, c, r);
    if (!strcmp(name, "strftime_now")) return now_text(ev, c, r);
    lzt__value text = {LZT__KIND_UNDEFINED, {0}};
    if (c->count && !lzt__eval_string(ev, &c->value[0], &text)) return false;
    bool has = text.kind == LZT__KIND_STRING;
    return lzt__eval_fail(ev, c->line, "the template refuses the conversation: %.*s", has ? (int)text.string->size : 0,
                          has ? text.string->bytes : "");
}

static bool call_value(lzt__eval *ev, const lzt__value *of, const lzt__call *c, const lzt__value *caller, lzt__value *r)
{
    if (ev->depth++ > DEPTH_MAX) return lzt__eval_fail(ev, c->line, "calls nest too deeply");
    bool ok;
    switch (of->kind) {
    case LZT__KIND_UNDEFINED: ok = lzt__eval_undefined(ev, of, c->line); break;
    case LZT__KIND_FUNCTION: ok = call_function(ev, of->name, c, r); break;
    case LZT__KIND_METHOD: ok = lzt__method_call(ev, of->method, c, r); break;
    case LZT__KIND_MACRO: ok = call_macro(ev, of->any, c, caller, r); break;
    case LZT__KIND_CALLER: ok = call_macro(ev, of->any, c, NULL, r); break;
    default: ok = lzt__eval_fail(ev, c->line, "'%s' object is not callable", lzt__kind_name(of));
    }
    ev->depth--;
    return ok;
}

static bool bind_parameters(lzt__eval *ev, lzt__frame *f, const macro *m, const lzt__call *c)
{
    uint32_t place = 0, used = 0;
    for (const lzt__node *p = m->parameters; p; p = p->next, place++) {
        const lzt__value *given = lzt__call_argument(c, place, p->name);
        lzt__value v = {LZT__KIND_UNDEFINED, {.name = p->name}};
        used += given != NULL;
        if (given)
            v = *given;
        else if (p->a && !evaluate(ev, f, p->a, &v))
            return false;
        if (!assign(ev, f, p->name, v)) return false;
    }
    if (used != c->count) return lzt__eval_fail(ev, c->line, "a macro is called with arguments that it does not take");
    return true;
}

static bool call_macro(lzt__eval *ev, const macro *m, const lzt__call *c, const lzt__value *caller, lzt__value *r)
{
    lzt__frame *f = frame_below(ev, m->frame);
    const char *name = lzt__jinja_name(ev->jinja, "caller");
    if (!f || !bind_parameters(ev, f, m, c)) return false;
    if (caller && name && !assign(ev, f, name, *caller)) return false;
    return capture(ev, f, m->body, r);
}

static bool make_macro(lzt__eval *ev, lzt__frame *f, const lzt__node *n, const lzt__node *parameters,
                       const lzt__node *body, lzt__kind kind, lzt__value *r)
{
    macro *m = lzt__eval_take(ev, sizeof *m);
    if (!m) return false;
    *m = (macro){n, parameters, body, f};
    *r = (lzt__value){(uint8_t)kind, {.any = m}};
    return true;
}

static bool call_node(lzt__eval *ev, lzt__frame *f, const lzt__node *n, const lzt__value *caller, lzt__value *r)
{
    lzt__value of;
    lzt__call c;
    if (!evaluate(ev, f, n->a, &of) || !evaluate_arguments(ev, f, n->b, n->line, &c)) return false;
    return call_value(ev, &of, &c, caller, r);
}

/* ---- expressions ---- */

static bool make_list(lzt__eval *ev, lzt__frame *f, const lzt__node *n, lzt__value *r)
{
    uint32_t count = 0;
    for (const lzt__node *i = n->a; i; i = i->next) count++;
    if (!lzt__value_list(&ev->arena, count, n->kind == LZT__NODE_LIST ? LZT__KIND_LIST : LZT__KIND_TUPLE, r))
        return lzt__eval_no_memory(ev);
    count = 0;
    for (const lzt__node *i = n->a; i; i = i->next)
        if (!evaluate(ev, f, i, &r->list->item[count++])) return false;
    return true;
}

static bool make_dict(lzt__eval *ev, lzt__frame *f, const lzt__node *n, lzt__value *r)
{
    if (!lzt__value_dict(&ev->arena, 4, r)) return lzt__eval_no_memory(ev);
    for (const lzt__node *p = n->a; p; p = p->next) {
        lzt__value key, value;
        if (!evaluate(ev, f, p->a, &key) || !evaluate(ev, f, p->b, &value)) return false;
        if (key.kind >= LZT__KIND_LIST)
            return lzt__eval_fail(ev, p->line, "unhashable type: '%s'", lzt__kind_name(&key));
        if (!lzt__dict_set(&ev->arena, r->dict, key, value)) return lzt__eval_no_memory(ev);
    }
    return true;
}

static bool apply_node(lzt__eval *ev, lzt__frame *f, const lzt__node *n, lzt__value *r)
{
    lzt__value v;
    lzt__call c;
    if (!evaluate(ev, f, n->a, &v) || !evaluate_arguments(ev, f, n->b, n->line, &c)) return false;
    if (n->kind == LZT__NODE_APPLY) return lzt__filter_apply(ev, n->name, &v, &c, r);
    bool result;
    if (!lzt__test_apply(ev, n->name, &v, &c, &result)) return false;
    *r = (lzt__value){LZT__KIND_BOOL, {.truth = result != (n->op == 1)}};
    return true;
}

static bool access_node(lzt__eval *ev, lzt__frame *f, const lzt__node *n, lzt__value *r)
{
    lzt__value v, index;
    if (!evaluate(ev, f, n->a, &v)) return false;
    if (n->kind == LZT__NODE_ATTRIBUTE) return lzt__eval_attribute(ev, &v, n->name, n->line, r);
    return evaluate(ev, f, n->b, &index) && lzt__eval_item(ev, &v, &index, n->line, r);
}

static bool evaluate_inner(lzt__eval *ev, lzt__frame *f, const lzt__node *n, lzt__value *r)
{
    switch (n->kind) {
    case LZT__NODE_CONST: *r = n->constant; return true;
    case LZT__NODE_NAME: *r = look_up(f, n->name); return true;
    case LZT__NODE_ATTRIBUTE:
    case LZT__NODE_ITEM: return access_node(ev, f, n, r);
    case LZT__NODE_SLICE: return slice(ev, f, n, r);
    case LZT__NODE_CALL: return call_node(ev, f, n, NULL, r);
    case LZT__NODE_APPLY:
    case LZT__NODE_TEST: return apply_node(ev, f, n, r);
    case LZT__NODE_UNARY: return unary(ev, f, n, r);
    case LZT__NODE_BINARY: return binary(ev, f, n, r);
    case LZT__NODE_AND: return evaluate(ev, f, n->a, r) && (!lzt__value_truth(r) || evaluate(ev, f, n->b, r));
    case LZT__NODE_OR: return evaluate(ev, f, n->a, r) && (lzt__value_truth(r) || evaluate(ev, f, n->b, r));
    case LZT__NODE_NOT:
        if (!evaluate(ev, f, n->a, r)) return false;
        *r = (lzt__value){LZT__KIND_BOOL, {.truth = !lzt__value_truth(r)}};
        return true;
    case LZT__NODE_COMPARE: return compare(ev, f, n, r);
    case LZT__NODE_CONDITION:
        if (!evaluate(ev, f, n->b, r)) return false;
        if (lzt__value_truth(r)) return evaluate(ev, f, n->a, r);
        *r = (lzt__value){LZT__KIND_UNDEFINED, {0}};
        return !n->c || evaluate(ev, f, n->c, r);
    case LZT__NODE_LIST:
    case LZT__NODE_TUPLE: return make_list(ev, f, n, r);
    case LZT__NODE_DICT: return make_dict(ev, f, n, r);
    default: return lzt__eval_fail(ev, n->line, "not an expression");
    }
}

static bool evaluate(lzt__eval *ev, lzt__frame *f, const lzt__node *n, lzt__value *r)
{
    if (!lzt__eval_spend(ev, 1, n->line)) return false;
    if (ev->depth++ > 4 * DEPTH_MAX) return lzt__eval_fail(ev, n->line, "the template nests too deeply");
    bool ok = evaluate_inner(ev, f, n, r);
    ev->depth--;
    return ok;
}

/* ---- statements ---- */

static bool assign_target(lzt__eval *ev, lzt__frame *f, const lzt__node *target, const lzt__value *v)
{
    if (target->kind == LZT__NODE_NAME) return assign(ev, f, target->name, *v);
    if (target->kind == LZT__NODE_ATTRIBUTE) {
        lzt__value space, key;
        if (!evaluate(ev, f, target->a, &space)) return false;
        if (space.kind != LZT__KIND_NAMESPACE)
            return lzt__eval_fail(ev, target->line, "cannot assign attribute on a non-namespace object");
        if (target->name[0] == '_')
            return lzt__eval_fail(ev, target->line, "a namespace cannot hold the name %s", target->name);
        if (lzt__value_string(&ev->arena, target->name, strlen(target->name), LZT__MARK_TEMPLATE, &key) &&
            lzt__dict_set(&ev->arena, space.dict, key, *v))
            return true;
        return lzt__eval_no_memory(ev);
    }
    lzt__list *items;
    if (!lzt__eval_items(ev, v, target->line, &items)) return false;
    uint32_t i = 0, n = 0;
    for (const lzt__node *t = target->a; t; t = t->next) n++;
    if (n != items->count) return lzt__eval_fail(ev, target->line, "%u values for %u names", items->count, n);
    for (const lzt__node *t = target->a; t; t = t->next)
        if (!assign_target(ev, f, t, &items->item[i++])) return false;
    return true;
}

/* The items for which the loop's condition holds. */
static bool filter_items(lzt__eval *ev, lzt__frame *f, const lzt__node *n, lzt__list **list)
{
    lzt__value kept, ok;
    if (!lzt__value_list(&ev->arena, (*list)->count, LZT__KIND_LIST, &kept)) return lzt__eval_no_memory(ev);
    kept.list->count = 0;
    for (uint32_t i = 0; i < (*list)->count; i++) {
        lzt__frame *inner = frame_below(ev, f);
        if (!inner || !assign_target(ev, inner, n->a, &(*list)->item[i]) || !evaluate(ev, inner, n->c, &ok))
            return false;
        if (lzt__value_truth(&ok)) kept.list->item[kept.list->count++] = (*list)->item[i];
    }
    *list = kept.list;
    return true;
}

static flow run_for(lzt__eval *ev, lzt__frame *f, const lzt__node *n)
{
    lzt__value v;
    lzt__list *list;
    if (!evaluate(ev, f, n->b, &v)) return FLOW_FAILED;
    if (!lzt__eval_items(ev, &v, n->line, &list) || (n->c && !filter_items(ev, f, n, &list))) return FLOW_FAILED;
    const char *name = lzt__jinja_name(ev->jinja, "loop");
    lzt__loop *loop = lzt__eval_take(ev, sizeof *loop);
    if (!loop) return FLOW_FAILED;
    *loop = (lzt__loop){list, 0, 1};
    int32_t before = ev->message;
    flow how = FLOW_ON;
    for (uint32_t i = 0; i < list->count && how != FLOW_FAILED && how != FLOW_BREAK; i++) {
        const lzt__value *item = &list->item[i];
        loop->index = i;
        if (!lzt__eval_spend(ev, 4, n->line)) return FLOW_FAILED; /* a scope is no small thing */
        lzt__frame *inner = frame_below(ev, f);
        if (!inner) return FLOW_FAILED;
        if (name && !assign(ev, inner, name, (lzt__value){LZT__KIND_LOOP, {.any = loop}})) return FLOW_FAILED;
        if (!assign_target(ev, inner, n->a, item)) return FLOW_FAILED;
        if (item->kind == LZT__KIND_DICT && item->dict->message >= 0) ev->message = item->dict->message;
        how = run_body(ev, inner, n->d);
        ev->message = before;
    }
    if (how == FLOW_FAILED) return how;
    if (!list->count && n->e) return run_body(ev, f, n->e);
    return FLOW_ON;
}

/* The text of a block through its filters: BLOCK stands for the text at the bottom of the chain. */
static bool filter_block(lzt__eval *ev, lzt__frame *f, const lzt__node *chain, const lzt__value *text, lzt__value *r)
{
    if (chain->kind == LZT__NODE_BLOCK) {
        *r = *text;
        return true;
    }
    lzt__value v;
    lzt__call c;
    if (chain->kind != LZT__NODE_APPLY) return lzt__eval_fail(ev, chain->line, "only filters are supported here");
    if (ev->depth++ > 4 * DEPTH_MAX) return lzt__eval_fail(ev, chain->line, "the template nests too deeply");
    bool ok = filter_block(ev, f, chain->a, text, &v) && evaluate_arguments(ev, f, chain->b, chain->line, &c) &&
              lzt__filter_apply(ev, chain->name, &v, &c, r);
    ev->depth--;
    return ok;
}

static bool run_set_block(lzt__eval *ev, lzt__frame *f, const lzt__node *n)
{
    lzt__value text, v;
    lzt__frame *inner = frame_below(ev, f);
    if (!inner || !capture(ev, inner, n->c, &text)) return false;
    if (n->b && !filter_block(ev, f, n->b, &text, &v)) return false;
    return assign_target(ev, f, n->a, n->b ? &v : &text);
}

static bool run_filter(lzt__eval *ev, lzt__frame *f, const lzt__node *n)
{
    lzt__value text, v;
    lzt__frame *inner = frame_below(ev, f);
    return inner && capture(ev, inner, n->b, &text) && filter_block(ev, f, n->a, &text, &v) && print(ev, &v, n->line);
}

static flow run_generation(lzt__eval *ev, lzt__frame *f, const lzt__node *n)
{
    lzt__frame *inner = frame_below(ev, f); /* as the body of a call block, it has a scope of its own */
    if (!inner) return FLOW_FAILED;
    uint8_t before = ev->marks;
    ev->marks |= LZT__MARK_GENERATED;
    flow how = run_body(ev, inner, n->a);
    ev->marks = before;
    return how;
}

static bool run_call_block(lzt__eval *ev, lzt__frame *f, const lzt__node *n)
{
    lzt__value caller, v;
    lzt__frame *kept = frame_below(ev, f);
    return kept && make_macro(ev, kept, n, n->b, n->c, LZT__KIND_CALLER, &caller) &&
           call_node(ev, f, n->a, &caller, &v) && print(ev, &v, n->line);
}

static flow run_if(lzt__eval *ev, lzt__frame *f, const lzt__node *n)
{
    lzt__value v;
    for (; n && n->kind == LZT__NODE_IF; n = n->c) {
        if (!evaluate(ev, f, n->a, &v)) return FLOW_FAILED;
        if (lzt__value_truth(&v)) return run_body(ev, f, n->b);
        if (!n->c || n->c->kind != LZT__NODE_IF || n->c->next) return run_body(ev, f, n->c);
    }
    return FLOW_ON;
}

static flow run_statement(lzt__eval *ev, lzt__frame *f, const lzt__node *n)
{
    lzt__value v;
    bool ok = true;
    switch (n->kind) {
    case LZT__NODE_TEXT: ok = print(ev, &n->constant, n->line); break;
    case LZT__NODE_PRINT: ok = evaluate(ev, f, n->a, &v) && print(ev, &v, n->line); break;
    case LZT__NODE_IF: return run_if(ev, f, n);
    case LZT__NODE_FOR: return run_for(ev, f, n);
    case LZT__NODE_SET: ok = evaluate(ev, f, n->b, &v) && assign_target(ev, f, n->a, &v); break;
    case LZT__NODE_SET_BLOCK: ok = run_set_block(ev, f, n); break;
    case LZT__NODE_MACRO:
        ok = make_macro(ev, f, n, n->a, n->b, LZT__KIND_MACRO, &v) && assign(ev, f, n->name, v);
        break;
    case LZT__NODE_CALL_BLOCK: ok = run_call_block(ev, f, n); break;
    case LZT__NODE_FILTER: ok = run_filter(ev, f, n); break;
    case LZT__NODE_GENERATION: return run_generation(ev, f, n);
    case LZT__NODE_BREAK: return FLOW_BREAK;
    case LZT__NODE_CONTINUE: return FLOW_CONTINUE;
    default: ok = lzt__eval_fail(ev, n->line, "not a statement");
    }
    return ok ? FLOW_ON : FLOW_FAILED;
}

static flow run_body(lzt__eval *ev, lzt__frame *f, const lzt__node *n)
{
    if (ev->depth++ > 4 * DEPTH_MAX) {
        lzt__eval_fail(ev, n ? n->line : 0, "the template nests too deeply");
        return FLOW_FAILED;
    }
    flow how = FLOW_ON;
    for (; n && how == FLOW_ON; n = n->next) how = run_statement(ev, f, n);
    ev->depth--;
    return how;
}

/* ---- the whole ---- */

void lzt__eval_begin(lzt__eval *ev, const lzt__jinja *jinja, const char *where)
{
    lzt__arena_reset(&ev->arena);
    ev->arena.limit = ARENA_BYTES;
    ev->jinja = jinja;
    ev->where = where;
    ev->out.size = 0;
    ev->out.value_count = 0;
    ev->to = &ev->out;
    ev->root = (lzt__frame){0};
    ev->marks = 0;
    ev->message = -1;
    ev->turn_count = 0;
    ev->depth = 0;
    ev->steps = STEPS_MAX;
    ev->status = LZT_OK;
}

void lzt__eval_free(lzt__eval *ev)
{
    lzt__arena_free(&ev->arena);
    lzt__out_free(&ev->out);
    free(ev->turn);
    *ev = (lzt__eval){0};
}

lzt_status lzt__eval_set(lzt__eval *ev, const char *name, lzt__value value, lzt_error *err)
{
    const char *interned = lzt__jinja_name(ev->jinja, name);
    ev->err = err;
    if (!interned) return LZT_OK;
    assign(ev, &ev->root, interned, value);
    return ev->status;
}

lzt_status lzt__eval_run(lzt__eval *ev, lzt_error *err)
{
    ev->err = err;
    run_body(ev, &ev->root, ev->jinja->body);
    return ev->status;
}
