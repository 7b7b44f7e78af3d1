/* Operators of the template language on values: arithmetic, text, comparisons; Python's results, within 64 bits. */
#include "data/template/jinja_eval.h"

#include <math.h>
#include <string.h>

static bool is_number(const lzt__value *v)
{
    return v->kind == LZT__KIND_INT || v->kind == LZT__KIND_FLOAT || v->kind == LZT__KIND_BOOL;
}

static double real_of(const lzt__value *v)
{
    return v->kind == LZT__KIND_FLOAT ? v->real : v->kind == LZT__KIND_INT ? (double)v->integer : v->truth;
}

static int64_t floor_divide(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return a % b && (a < 0) != (b < 0) ? q - 1 : q;
}

static int64_t floor_remainder(int64_t a, int64_t b)
{
    int64_t rest = b == -1 ? 0 : a % b;
    return rest && (rest < 0) != (b < 0) ? rest + b : rest;
}

static bool integer_operator(lzt__eval *ev, lzt__operator op, int64_t a, int64_t b, uint32_t line, lzt__value *r)
{
    bool over = false;
    *r = (lzt__value){LZT__KIND_INT, {0}};
    if ((op == LZT__OP_FLOOR_DIVIDE || op == LZT__OP_MODULO || op == LZT__OP_DIVIDE) && !b)
        return lzt__eval_fail(ev, line, "division by zero");
    switch (op) {
    case LZT__OP_ADD: over = __builtin_add_overflow(a, b, &r->integer); break;
    case LZT__OP_SUBTRACT: over = __builtin_sub_overflow(a, b, &r->integer); break;
    case LZT__OP_MULTIPLY: over = __builtin_mul_overflow(a, b, &r->integer); break;
    case LZT__OP_DIVIDE: *r = (lzt__value){LZT__KIND_FLOAT, {.real = (double)a / (double)b}}; break;
    case LZT__OP_FLOOR_DIVIDE:
        over = a == INT64_MIN && b == -1;
        if (!over) r->integer = floor_divide(a, b);
        break;
    case LZT__OP_MODULO: r->integer = floor_remainder(a, b); break;
    default:
        if (b < 0) return lzt__eval_fail(ev, line, "a negative power is not supported");
        r->integer = 1;
        if (a == -1) b &= 1;
        for (int64_t i = 0; i < b && !over && i < 64; i++) over = __builtin_mul_overflow(r->integer, a, &r->integer);
        if (b > 63 && a != 0 && a != 1) over = true;
    }
    return !over || lzt__eval_fail(ev, line, "the number is beyond 64 bits");
}

static bool real_operator(lzt__eval *ev, lzt__operator op, double a, double b, uint32_t line, lzt__value *r)
{
    *r = (lzt__value){LZT__KIND_FLOAT, {0}};
    if ((op == LZT__OP_FLOOR_DIVIDE || op == LZT__OP_MODULO || op == LZT__OP_DIVIDE) && b == 0)
        return lzt__eval_fail(ev, line, "division by zero");
    switch (op) {
    case LZT__OP_ADD: r->real = a + b; break;
    case LZT__OP_SUBTRACT: r->real = a - b; break;
    case LZT__OP_MULTIPLY: r->real = a * b; break;
    case LZT__OP_DIVIDE: r->real = a / b; break;
    case LZT__OP_FLOOR_DIVIDE: r->real = floor(a / b); break;
    case LZT__OP_MODULO: r->real = a - floor(a / b) * b; break;
    default: r->real = pow(a, b); break;
    }
    return true;
}

/* markupsafe: what is added to markup is escaped. */
static bool escaped(lzt__out *out, const lzt__string *s)
{
    static const char from[] = "&<>\"'";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
    bool ok = true;
    for (uint32_t i = 0; ok && i < s->size; i++) {
        uint8_t mark = s->mark ? s->mark[i] : s->marks;
        const char *found = s->bytes[i] ? strchr(from, s->bytes[i]) : NULL;
        ok = found ? lzt__out_put(out, to[found - from], strlen(to[found - from]), mark)
                   : lzt__out_put(out, s->bytes + i, 1, mark);
    }
    return ok;
}

static bool add_strings(lzt__eval *ev, const lzt__string *a, const lzt__string *b, lzt__value *r)
{
    lzt__out out = {0};
    bool markup = a->is_markup || b->is_markup;
    bool ok = (markup && !a->is_markup ? escaped(&out, a) : lzt__out_string(&out, a)) &&
              (markup && !b->is_markup ? escaped(&out, b) : lzt__out_string(&out, b)) &&
              lzt__out_value(&ev->arena, &out, r);
    if (ok) r->string->is_markup = markup;
    lzt__out_free(&out);
    return ok || lzt__eval_no_memory(ev);
}

static bool add_lists(lzt__eval *ev, const lzt__value *a, const lzt__value *b, lzt__value *r)
{
    uint32_t n = a->list->count, m = b->list->count;
    if (!lzt__value_list(&ev->arena, n + m, (lzt__kind)a->kind, r)) return lzt__eval_no_memory(ev);
    memcpy(r->list->item, a->list->item, n * sizeof *r->list->item);
    memcpy(r->list->item + n, b->list->item, m * sizeof *r->list->item);
    return true;
}

static bool repeat(lzt__eval *ev, const lzt__string *s, int64_t times, lzt__value *r)
{
    lzt__out out = {0};
    bool ok = true;
    if (times > 0 && s->size && (uint64_t)times > (UINT64_C(1) << 24) / s->size) return lzt__eval_no_memory(ev);
    for (int64_t i = 0; ok && i < times; i++) ok = lzt__out_string(&out, s);
    ok = ok && lzt__out_value(&ev->arena, &out, r);
    lzt__out_free(&out);
    return ok || lzt__eval_no_memory(ev);
}

static bool concat(lzt__eval *ev, const lzt__value *a, const lzt__value *b, uint32_t line, lzt__value *r)
{
    lzt__out out = {0};
    if (a->kind >= LZT__KIND_NAMESPACE || b->kind >= LZT__KIND_NAMESPACE)
        return lzt__eval_fail(ev, line, "~ needs values that can be printed");
    bool ok = lzt__value_str(&out, a, 0) && lzt__value_str(&out, b, 0) && lzt__out_value(&ev->arena, &out, r);
    lzt__out_free(&out);
    return ok || lzt__eval_no_memory(ev);
}

bool lzt__eval_binary(lzt__eval *ev, lzt__operator op, const lzt__value *a, const lzt__value *b, uint32_t line,
                      lzt__value *r)
{
    static const char *const sign[] = {"+", "-", "*", "/", "//", "%", "**"};
    if (op == LZT__OP_CONCAT) return concat(ev, a, b, line, r);
    if (a->kind == LZT__KIND_UNDEFINED) return lzt__eval_undefined(ev, a, line);
    if (b->kind == LZT__KIND_UNDEFINED) return lzt__eval_undefined(ev, b, line);
    if (is_number(a) && is_number(b)) {
        if (a->kind == LZT__KIND_FLOAT || b->kind == LZT__KIND_FLOAT)
            return real_operator(ev, op, real_of(a), real_of(b), line, r);
        return integer_operator(ev, op, a->kind == LZT__KIND_INT ? a->integer : a->truth,
                                b->kind == LZT__KIND_INT ? b->integer : b->truth, line, r);
    }
    if (op == LZT__OP_ADD && a->kind == LZT__KIND_STRING && b->kind == LZT__KIND_STRING)
        return add_strings(ev, a->string, b->string, r);
    if (op == LZT__OP_ADD && a->kind == b->kind && (a->kind == LZT__KIND_LIST || a->kind == LZT__KIND_TUPLE))
        return add_lists(ev, a, b, r);
    if (op == LZT__OP_MULTIPLY && a->kind == LZT__KIND_STRING && b->kind == LZT__KIND_INT)
        return repeat(ev, a->string, b->integer, r);
    return lzt__eval_fail(ev, line, "unsupported operand types for %s: '%s' and '%s'", sign[op], lzt__kind_name(a),
                          lzt__kind_name(b));
}

bool lzt__eval_compare(lzt__eval *ev, lzt__operator op, const lzt__value *a, const lzt__value *b, uint32_t line,
                       bool *result)
{
    int order;
    if (op == LZT__OP_EQUAL || op == LZT__OP_DIFFERENT) {
        if (!lzt__eval_equal(ev, a, b, line, result)) return false;
        *result = *result == (op == LZT__OP_EQUAL);
        return true;
    }
    if (op >= LZT__OP_IN) {
        if (!lzt__eval_contains(ev, a, b, line, result)) return false;
        *result = *result == (op == LZT__OP_IN);
        return true;
    }
    if (a->kind == LZT__KIND_UNDEFINED) return lzt__eval_undefined(ev, a, line);
    if (b->kind == LZT__KIND_UNDEFINED) return lzt__eval_undefined(ev, b, line);
    if (!lzt__value_order(a, b, &order))
        return lzt__eval_fail(ev, line, "'%s' and '%s' cannot be ordered", lzt__kind_name(a), lzt__kind_name(b));
    *result = op == LZT__OP_LESS         ? order < 0
              : op == LZT__OP_LESS_EQUAL ? order <= 0
              : op == LZT__OP_GREATER    ? order > 0
                                         : order >= 0;
    return true;
}

bool lzt__eval_sign(lzt__eval *ev, lzt__operator op, uint32_t line, lzt__value *r)
{
    if (r->kind == LZT__KIND_UNDEFINED) return lzt__eval_undefined(ev, r, line);
    if (!is_number(r)) return lzt__eval_fail(ev, line, "bad operand type for a sign: '%s'", lzt__kind_name(r));
    if (r->kind == LZT__KIND_BOOL) *r = (lzt__value){LZT__KIND_INT, {.integer = r->truth}};
    if (op == LZT__OP_ADD) return true;
    if (r->kind == LZT__KIND_FLOAT)
        r->real = -r->real;
    else if (r->integer == INT64_MIN)
        return lzt__eval_fail(ev, line, "the number is beyond 64 bits");
    else
        r->integer = -r->integer;
    return true;
}
