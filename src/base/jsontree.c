/* JSON into a flat tree: see jsontree.h. */
#include "base/jsontree.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct lzt__json_block {
    lzt__json_block *next;
    uint64_t used, capacity;
    char bytes[];
};

typedef struct parser {
    lzt__json_doc *doc;
    const char *text;
    uint64_t size, at;
    const char *where;
    lzt_error *err;
    uint32_t open[LZT__JSON_DEPTH_MAX]; /* indices of the containers around the cursor */
    uint32_t depth;
} parser;

uint32_t lzt__utf8_put(char *out, uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 63));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 63));
        out[2] = (char)(0x80 | (code & 63));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 63));
    out[2] = (char)(0x80 | (code >> 6 & 63));
    out[3] = (char)(0x80 | (code & 63));
    return 4;
}

uint32_t lzt__utf8_get(const char *text, uint64_t size, uint32_t *code)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *t = (const unsigned char *)text;
    if (!size) return 0;
    uint32_t c = t[0], n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    if (n == 1) {
        *code = c;
        return 1;
    }
    if (!n || n > size) return 0;
    c &= 0x7fu >> n;
    for (uint32_t i = 1; i < n; i++) {
        if ((t[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (t[i] & 63u);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0;
    *code = c;
    return n;
}

static lzt_status bad(parser *p, const char *what)
{
    p->doc->at = p->at;
    return lzt_fail(p->err, LZT_ERR_DATA, p->where, "not valid JSON: %s at byte %llu", what,
                    (unsigned long long)p->at + 1);
}

static char *room(lzt__json_doc *doc, uint64_t bytes)
{
    lzt__json_block *b = doc->block;
    if (b && b->capacity - b->used >= bytes) return b->bytes + b->used;
    uint64_t capacity = bytes > 65536 ? bytes : 65536;
    b = malloc(sizeof *b + capacity);
    if (!b) return NULL;
    *b = (lzt__json_block){doc->block, 0, capacity};
    doc->block = b;
    return b->bytes;
}

static lzt__json *node_add(lzt__json_doc *doc, lzt__json_type type)
{
    if (doc->node_count == doc->node_capacity) {
        if (doc->node_capacity >= UINT32_MAX / 2) return NULL;
        uint32_t capacity = doc->node_capacity ? doc->node_capacity * 2 : 64;
        lzt__json *node = realloc(doc->node, capacity * sizeof *node);
        if (!node) return NULL;
        doc->node = node;
        doc->node_capacity = capacity;
    }
    lzt__json *node = &doc->node[doc->node_count++];
    *node = (lzt__json){.type = (uint8_t)type, .skip = 1};
    return node;
}

static int hex4(const char *t)
{
    int v = 0;
    for (int i = 0; i < 4; i++) {
        int c = (unsigned char)t[i];
        int d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (d < 0) return -1;
        v = v << 4 | d;
    }
    return v;
}

/* Decodes one escape at text[at] = '\\' into out; returns its end, or 0 when it is malformed. */
static uint64_t escape(parser *p, uint64_t at, uint64_t end, char *out, uint64_t *used)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (at + 1 >= end) return 0;
    const char *found = p->text[at + 1] ? strchr(from, p->text[at + 1]) : NULL;
    if (found) {
        out[(*used)++] = to[found - from];
        return at + 2;
    }
    if (p->text[at + 1] != 'u' || at + 6 > end) return 0;
    int high = hex4(p->text + at + 2);
    if (high < 0) return 0;
    uint32_t code = (uint32_t)high;
    uint64_t next = at + 6;
    if (code >= 0xd800 && code < 0xdc00 && next + 6 <= end && p->text[next] == '\\' && p->text[next + 1] == 'u') {
        int low = hex4(p->text + next + 2);
        if (low >= 0xdc00 && low < 0xe000) {
            code = 0x10000 + ((code - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
            next += 6;
        }
    }
    if (code >= 0xd800 && code < 0xe000) {
        code = 0xfffd;
        p->doc->replaced++;
    }
    p->doc->nuls += code == 0;
    *used += lzt__utf8_put(out + *used, code);
    return next;
}

/* text[begin..end) holds escapes or non-ASCII: copy, decode, replace what is not UTF-8. */
static lzt_status decode(parser *p, uint64_t begin, uint64_t end, const char **text, uint32_t *size)
{
    char *out = room(p->doc, 3 * (end - begin) + 4);
    if (!out) return lzt_fail(p->err, LZT_ERR_NO_MEMORY, p->where, "no memory for a string");
    uint64_t used = 0;
    for (uint64_t i = begin; i < end;) {
        uint32_t code, n;
        if (p->text[i] == '\\') {
            p->at = i;
            if (!(i = escape(p, i, end, out, &used))) return bad(p, "an unknown escape");
        } else if ((n = lzt__utf8_get(p->text + i, end - i, &code))) {
            for (uint32_t k = 0; k < n; k++) out[used++] = p->text[i++];
        } else {
            p->doc->replaced++;
            used += lzt__utf8_put(out + used, 0xfffd);
            i++;
        }
    }
    p->doc->block->used += used;
    *text = out;
    *size = (uint32_t)used;
    return LZT_OK;
}

/* true when text[begin..end) is valid UTF-8 */
static bool is_utf8(const char *text, uint64_t begin, uint64_t end)
{
    for (uint64_t i = begin; i < end;) {
        uint32_t code, n = lzt__utf8_get(text + i, end - i, &code);
        if (!n) return false;
        i += n;
    }
    return true;
}

/* The cursor stands on the opening quote. */
static lzt_status string(parser *p, const char **text, uint32_t *size)
{
    uint64_t begin = p->at + 1, i = begin;
    bool plain = true, ascii = true;
    for (;; i++) {
        if (i >= p->size) return bad(p, "a string without its end");
        unsigned char c = (unsigned char)p->text[i];
        if (c == '"') break;
        if (c == '\\') {
            plain = false;
            i++;
        } else if (c < 0x20) {
            p->at = i;
            return bad(p, "a control character inside a string");
        } else if (c >= 0x80) {
            ascii = false;
        }
    }
    if (i - begin > UINT32_MAX / 4) return bad(p, "a string above 1 GiB");
    if (plain && (ascii || is_utf8(p->text, begin, i))) {
        *text = p->text + begin;
        *size = (uint32_t)(i - begin);
    } else {
        lzt_status s = decode(p, begin, i, text, size);
        if (s) return s;
    }
    p->at = i + 1;
    return LZT_OK;
}

static void space(parser *p)
{
    while (p->at < p->size) {
        char c = p->text[p->at];
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return;
        p->at++;
    }
}

static uint64_t digits(parser *p)
{
    uint64_t begin = p->at;
    while (p->at < p->size && p->text[p->at] >= '0' && p->text[p->at] <= '9') p->at++;
    return p->at - begin;
}

static lzt_status number(parser *p, lzt__json *node)
{
    uint64_t begin = p->at;
    node->is_integer = true;
    if (p->text[p->at] == '-') p->at++;
    bool zero = p->at < p->size && p->text[p->at] == '0';
    uint64_t n = digits(p);
    if (!n || (zero && n > 1)) return bad(p, "a malformed number");
    if (p->at < p->size && p->text[p->at] == '.') {
        node->is_integer = false;
        p->at++;
        if (!digits(p)) return bad(p, "a malformed number");
    }
    if (p->at < p->size && (p->text[p->at] | 32) == 'e') {
        node->is_integer = false;
        p->at++;
        if (p->at < p->size && (p->text[p->at] == '+' || p->text[p->at] == '-')) p->at++;
        if (!digits(p)) return bad(p, "a malformed number");
    }
    node->text = p->text + begin;
    node->size = (uint32_t)(p->at - begin);
    return LZT_OK;
}

static bool word(parser *p, const char *w)
{
    uint64_t n = strlen(w);
    if (p->size - p->at < n || memcmp(p->text + p->at, w, n)) return false;
    p->at += n;
    return true;
}

/* What Python and Arrow have for numbers that JSON has not. */
static bool not_finite(parser *p, lzt__json *node)
{
    uint64_t begin = p->at;
    if (!p->doc->not_finite || !(word(p, "NaN") || word(p, "Infinity") || word(p, "-Infinity"))) return false;
    node->text = p->text + begin;
    node->size = (uint32_t)(p->at - begin);
    return true;
}

/* One value; a container is only opened here. key belongs to the enclosing object, or is NULL. */
static lzt_status value(parser *p, const char *key, uint32_t key_size)
{
    if (p->at >= p->size) return bad(p, "the text ends early");
    lzt__json *node = node_add(p->doc, LZT__JSON_NULL);
    if (!node) return lzt_fail(p->err, LZT_ERR_NO_MEMORY, p->where, "no memory for a JSON tree");
    node->key = key;
    node->key_size = key_size;
    char c = p->text[p->at];
    if (c == '"') {
        node->type = LZT__JSON_STRING;
        return string(p, &node->text, &node->size);
    }
    if (c == '{' || c == '[') {
        if (p->depth == LZT__JSON_DEPTH_MAX) return bad(p, "brackets nest deeper than 200");
        node->type = c == '{' ? LZT__JSON_OBJECT : LZT__JSON_ARRAY;
        p->open[p->depth++] = p->doc->node_count - 1;
        p->at++;
        return LZT_OK;
    }
    if (not_finite(p, node)) return LZT_OK;
    if (c == '-' || (c >= '0' && c <= '9')) {
        node->type = LZT__JSON_NUMBER;
        return number(p, node);
    }
    if (word(p, "true"))
        node->type = LZT__JSON_TRUE;
    else if (word(p, "false"))
        node->type = LZT__JSON_FALSE;
    else if (!word(p, "null"))
        return bad(p, "an unexpected character");
    return LZT_OK;
}

static lzt_status member(parser *p)
{
    const char *key;
    uint32_t key_size;
    if (p->at >= p->size || p->text[p->at] != '"') return bad(p, "a key in quotes was expected");
    lzt_status s = string(p, &key, &key_size);
    if (s) return s;
    space(p);
    if (p->at >= p->size || p->text[p->at] != ':') return bad(p, "a colon was expected");
    p->at++;
    space(p);
    return value(p, key, key_size);
}

/* After a value or an opening bracket: closes containers, or reads the next element. */
static lzt_status step(parser *p)
{
    uint32_t top = p->open[p->depth - 1];
    lzt__json *node = &p->doc->node[top];
    bool object = node->type == LZT__JSON_OBJECT;
    space(p);
    if (p->at >= p->size) return bad(p, "the text ends early");
    if (p->text[p->at] == (object ? '}' : ']')) {
        node->skip = p->doc->node_count - top;
        p->depth--;
        p->at++;
        return LZT_OK;
    }
    if (node->size) {
        if (p->text[p->at] != ',') return bad(p, "a comma was expected");
        p->at++;
        space(p);
    }
    node->size++;
    return object ? member(p) : value(p, NULL, 0);
}

static void blocks_free(lzt__json_doc *doc)
{
    while (doc->block) {
        lzt__json_block *next = doc->block->next;
        free(doc->block);
        doc->block = next;
    }
}

lzt_status lzt__json_parse(lzt__json_doc *doc, const char *text, uint64_t size, const char *where, lzt_error *err)
{
    parser p = {.doc = doc, .text = text, .size = size, .where = where, .err = err};
    if (doc->block && !doc->block->next)
        doc->block->used = 0; /* the usual row needs one block: keep it */
    else
        blocks_free(doc);
    doc->node_count = 0;
    doc->replaced = doc->nuls = 0;
    space(&p);
    lzt_status s = value(&p, NULL, 0);
    while (!s && p.depth) s = step(&p);
    if (s) return s;
    space(&p);
    if (p.at != size) return bad(&p, "text after the value");
    assert(doc->node[0].skip == doc->node_count);
    return LZT_OK;
}

void lzt__json_free(lzt__json_doc *doc)
{
    blocks_free(doc);
    free(doc->node);
    *doc = (lzt__json_doc){0};
}

const lzt__json *lzt__json_get(const lzt__json *object, const char *key)
{
    if (!object || object->type != LZT__JSON_OBJECT) return NULL;
    const lzt__json *found = NULL, *c = lzt__json_child(object);
    uint64_t n = strlen(key);
    for (uint32_t i = 0; i < object->size; i++, c = lzt__json_next(c))
        if (c->key_size == n && !memcmp(c->key, key, n)) found = c;
    return found;
}

bool lzt__json_is_string(const lzt__json *node, const char *text)
{
    return node && node->type == LZT__JSON_STRING && node->size == strlen(text) &&
           !memcmp(node->text, text, node->size);
}

bool lzt__json_integer(const lzt__json *node, int64_t *value)
{
    if (!node || node->type != LZT__JSON_NUMBER || !node->is_integer) return false;
    bool negative = node->text[0] == '-';
    uint64_t v = 0, limit = (uint64_t)INT64_MAX;
    for (uint32_t i = negative; i < node->size; i++) {
        uint64_t d = (uint64_t)(node->text[i] - '0');
        if (v > (limit - d) / 10) return false;
        v = v * 10 + d;
    }
    *value = negative ? -(int64_t)v : (int64_t)v;
    return true;
}

bool lzt__json_flag(const lzt__json *object, const char *key, bool otherwise)
{
    const lzt__json *m = lzt__json_get(object, key);
    if (!m || m->type == LZT__JSON_NULL) return otherwise;
    return m->type == LZT__JSON_TRUE;
}
