/* config.json with another element type: see model_config_dtype.h.
 *
 * A parser that writes its tree out again would change number formats and spacing, so this walks over the text, which
 * is known to be valid, and follows nothing but strings and depth.
 */
#include "model_config_dtype.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

typedef struct walk {
    const char *at, *end;
    const char *copied; /* everything before it is in out */
    int depth;
    bool in_text_config, next_is_text_config, found;
    const char *value; /* what to write, with quotes */
    lzt__text *out;
} walk;

static const char *name_of(lzt_dtype dtype)
{
    switch (dtype) {
    case LZT_DTYPE_F32: return "\"float32\"";
    case LZT_DTYPE_BF16: return "\"bfloat16\"";
    case LZT_DTYPE_F16: return "\"float16\"";
    default: assert(!"not a dtype of weights"); return "null";
    }
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && is_space(*at)) at++;
    return at;
}

/* at: an opening quote; returns what follows the closing one. */
static const char *skip_string(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\') at++;
    return at < end ? at + 1 : end;
}

static const char *skip_scalar(const char *at, const char *end)
{
    if (at < end && *at == '"') return skip_string(at, end);
    while (at < end && !is_space(*at) && !strchr(",}]", *at)) at++;
    return at;
}

static bool is_key(const char *from, const char *to, const char *name)
{
    size_t length = strlen(name);
    return (size_t)(to - from) == length + 2 && !memcmp(from + 1, name, length);
}

static void visit_string(walk *w)
{
    const char *key = w->at, *after = skip_string(key, w->end);
    w->at = skip_space(after, w->end);
    if (w->at == w->end || *w->at != ':') return; /* a value */
    w->at = skip_space(w->at + 1, w->end);
    if (w->depth == 1) w->next_is_text_config = is_key(key, after, "text_config");
    bool here = w->depth == 1 || (w->depth == 2 && w->in_text_config);
    if (!here || !(is_key(key, after, "dtype") || is_key(key, after, "torch_dtype"))) return;
    lzt__text_add_bytes(w->out, w->copied, (size_t)(w->at - w->copied));
    lzt__text_add(w->out, "%s", w->value);
    w->at = w->copied = skip_scalar(w->at, w->end);
    w->found = true;
}

static void visit(walk *w)
{
    switch (*w->at) {
    case '"': visit_string(w); return;
    case '{':
    case '[':
        w->depth++;
        if (w->depth == 2) w->in_text_config = w->next_is_text_config && *w->at == '{';
        break;
    case '}':
    case ']':
        if (w->depth == 2) w->in_text_config = w->next_is_text_config = false;
        w->depth--;
        break;
    default: break;
    }
    w->at++;
}

void lzt__model_config_set_dtype(const char *text, size_t bytes, lzt_dtype dtype, lzt__text *out)
{
    walk w = {.at = text, .end = text + bytes, .copied = text, .value = name_of(dtype), .out = out};
    size_t before = out->bytes;
    while (w.at < w.end) visit(&w);
    lzt__text_add_bytes(out, w.copied, (size_t)(w.end - w.copied));
    if (w.found || out->failed) return;
    /* Neither key: a new member in front, spaced like the one that was first. */
    const char *brace = memchr(text, '{', bytes);
    const char *first = brace + 1, *member = skip_space(first, w.end);
    out->bytes = before;
    lzt__text_add_bytes(out, text, (size_t)(first - text));
    lzt__text_add_bytes(out, first, (size_t)(member - first));
    lzt__text_add(out, "\"dtype\": %s,", w.value);
    lzt__text_add_bytes(out, first, (size_t)(w.end - first));
}
