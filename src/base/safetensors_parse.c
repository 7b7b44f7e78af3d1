/* The header of a safetensors file: grammar and checks; see safetensors.h.
 *
 * The grammar is fixed (an object of flat objects), so the parser is a row of functions without recursion. Strings are
 * unescaped in place: the text never grows.
 */
#include "base/safetensors.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

typedef struct cursor {
    char *at, *end, *begin;
    const char *where;
    lzt__st *st;
    lzt_error *err;
    uint64_t shapes_used, shapes_capacity;
    uint32_t entry_capacity;
} cursor;

typedef struct text {
    char *at;
    uint64_t bytes;
} text;

static lzt_status syntax(cursor *c, const char *what)
{
    return lzt_fail(c->err, LZT_ERR_MODEL, c->where, "header byte %llu: %s", (unsigned long long)(8 + c->at - c->begin),
                    what);
}

static void skip_space(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r')) c->at++;
}

static bool accept(cursor *c, char wanted)
{
    skip_space(c);
    if (c->at == c->end || *c->at != wanted) return false;
    c->at++;
    return true;
}

static lzt_status expect(cursor *c, char wanted)
{
    if (accept(c, wanted)) return LZT_OK;
    char what[32];
    snprintf(what, sizeof what, "expected '%c'", wanted);
    return syntax(c, what);
}

/* Bytes of the well-formed UTF-8 sequence at p (RFC 3629, table 3-7 of Unicode), or 0. */
static unsigned utf8_length(const unsigned char *p, uint64_t left)
{
    static const struct {
        unsigned char first_low, first_high, second_low, second_high;
        unsigned length;
    } rows[] = {{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
                {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
                {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    if (p[0] < 0x80) return 1;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (p[0] < rows[i].first_low || p[0] > rows[i].first_high) continue;
        if (left < rows[i].length || p[1] < rows[i].second_low || p[1] > rows[i].second_high) return 0;
        for (unsigned k = 2; k < rows[i].length; k++)
            if ((p[k] & 0xc0) != 0x80) return 0;
        return rows[i].length;
    }
    return 0;
}

static char *put_utf8(char *out, uint32_t code)
{
    if (code < 0x80) {
        *out++ = (char)code;
    } else if (code < 0x800) {
        *out++ = (char)(0xc0 | code >> 6);
        *out++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *out++ = (char)(0xe0 | code >> 12);
        *out++ = (char)(0x80 | (code >> 6 & 0x3f));
        *out++ = (char)(0x80 | (code & 0x3f));
    } else {
        *out++ = (char)(0xf0 | code >> 18);
        *out++ = (char)(0x80 | (code >> 12 & 0x3f));
        *out++ = (char)(0x80 | (code >> 6 & 0x3f));
        *out++ = (char)(0x80 | (code & 0x3f));
    }
    return out;
}

static bool read_hex4(cursor *c, uint32_t *value)
{
    if (c->end - c->at < 4) return false;
    *value = 0;
    for (int i = 0; i < 4; i++) {
        char digit = *c->at++;
        uint32_t n = digit >= '0' && digit <= '9'   ? (uint32_t)(digit - '0')
                     : digit >= 'a' && digit <= 'f' ? (uint32_t)(digit - 'a' + 10)
                     : digit >= 'A' && digit <= 'F' ? (uint32_t)(digit - 'A' + 10)
                                                    : 16;
        if (n == 16) return false;
        *value = *value << 4 | n;
    }
    return true;
}

/* After a backslash. */
static lzt_status read_escape(cursor *c, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (c->at == c->end) return syntax(c, "the string does not end");
    char kind = *c->at++;
    const char *known = kind ? strchr(from, kind) : NULL;
    if (known) {
        *(*out)++ = to[known - from];
        return LZT_OK;
    }
    uint32_t code = 0, low = 0;
    if (kind != 'u' || !read_hex4(c, &code)) return syntax(c, "not a JSON escape");
    if (code >= 0xd800 && code < 0xdc00) {
        if (c->end - c->at < 2 || c->at[0] != '\\' || c->at[1] != 'u') return syntax(c, "half a surrogate pair");
        c->at += 2;
        if (!read_hex4(c, &low) || low < 0xdc00 || low > 0xdfff) return syntax(c, "half a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
        return syntax(c, "half a surrogate pair");
    }
    if (!code) return syntax(c, "a NUL in a string");
    *out = put_utf8(*out, code);
    return LZT_OK;
}

static lzt_status read_string(cursor *c, text *string)
{
    lzt_status status = expect(c, '"');
    if (status) return status;
    char *out = c->at;
    string->at = out;
    for (;;) {
        if (c->at == c->end) return syntax(c, "the string does not end");
        unsigned char byte = (unsigned char)*c->at;
        if (byte == '"') break;
        if (byte < 0x20) return syntax(c, "a control character in a string");
        if (byte == '\\') {
            c->at++;
            status = read_escape(c, &out);
            if (status) return status;
            continue;
        }
        unsigned length = utf8_length((const unsigned char *)c->at, (uint64_t)(c->end - c->at));
        if (!length) return syntax(c, "not UTF-8");
        memmove(out, c->at, length);
        out += length;
        c->at += length;
    }
    c->at++;
    string->bytes = (uint64_t)(out - string->at);
    *out = 0; /* at the latest where the closing quote stood */
    return LZT_OK;
}

static bool is(const text *string, const char *word)
{
    return string->bytes == strlen(word) && !memcmp(string->at, word, string->bytes);
}

/* A whole number without sign, leading zeros, fraction or exponent. */
static lzt_status read_number(cursor *c, uint64_t *value)
{
    skip_space(c);
    const char *start = c->at;
    *value = 0;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9') {
        if (__builtin_mul_overflow(*value, UINT64_C(10), value) ||
            __builtin_add_overflow(*value, (uint64_t)(*c->at - '0'), value))
            return syntax(c, "a number beyond 64 bits");
        c->at++;
    }
    if (c->at == start) return syntax(c, "expected a whole number, 0 or above");
    if (*start == '0' && c->at - start > 1) return syntax(c, "a number with leading zeros");
    if (c->at < c->end && (*c->at == '.' || *c->at == 'e' || *c->at == 'E')) return syntax(c, "not a whole number");
    return LZT_OK;
}

static lzt_status grow_shapes(cursor *c)
{
    uint64_t capacity = c->shapes_capacity ? 2 * c->shapes_capacity : 64;
    uint64_t *grown = realloc(c->st->shapes, capacity * sizeof *grown);
    if (!grown) return lzt_fail(c->err, LZT_ERR_NO_MEMORY, c->where, "no memory for the header");
    c->st->shapes = grown;
    c->shapes_capacity = capacity;
    return LZT_OK;
}

static lzt_status push_dimension(cursor *c, uint64_t value)
{
    lzt_status status = c->shapes_used == c->shapes_capacity ? grow_shapes(c) : LZT_OK;
    if (!status) c->st->shapes[c->shapes_used++] = value;
    return status;
}

static lzt_status read_shape(cursor *c, lzt__st_entry *entry)
{
    lzt_status status = expect(c, '[');
    if (status) return status;
    entry->shape_index = c->shapes_used;
    entry->rank = 0;
    if (accept(c, ']')) return LZT_OK;
    do {
        uint64_t value;
        status = read_number(c, &value);
        if (status) return status;
        if (entry->rank++ == LZT__ST_RANK_MAX) return syntax(c, "a shape of more than 16 dimensions");
        status = push_dimension(c, value);
        if (status) return status;
    } while (accept(c, ','));
    return expect(c, ']');
}

static lzt_status read_offsets(cursor *c, lzt__st_entry *entry)
{
    lzt_status status = expect(c, '[');
    if (!status) status = read_number(c, &entry->begin);
    if (!status) status = expect(c, ',');
    if (!status) status = read_number(c, &entry->end);
    if (!status) status = expect(c, ']');
    return status;
}

static lzt_status bad_tensor(cursor *c, const char *name, const char *what)
{
    return lzt_fail(c->err, LZT_ERR_MODEL, c->where, "tensor \"%.200s\": %s", name, what);
}

/* end - begin must be the shape's bytes exactly. */
static lzt_status check_bytes(cursor *c, lzt__st_entry *entry)
{
    uint64_t count = 1, bits;
    const uint64_t *shape = c->st->shapes + entry->shape_index;
    bool overflow = false, empty = false;
    for (uint32_t i = 0; i < entry->rank; i++) {
        empty |= !shape[i];
        overflow |= __builtin_mul_overflow(count, shape[i], &count);
    }
    if (overflow && empty) overflow = false, count = 0;
    overflow |= __builtin_mul_overflow(count, (uint64_t)lzt_dtype_bits(entry->dtype), &bits);
    if (overflow) return bad_tensor(c, entry->name, "its shape is beyond 64 bits");
    if (bits % 8) return bad_tensor(c, entry->name, "it does not fill whole bytes");
    if (entry->end < entry->begin) return bad_tensor(c, entry->name, "its data ends before it begins");
    if (entry->end - entry->begin != bits / 8) {
        char what[160];
        snprintf(what, sizeof what, "its shape takes %llu bytes but data_offsets span %llu",
                 (unsigned long long)(bits / 8), (unsigned long long)(entry->end - entry->begin));
        return bad_tensor(c, entry->name, what);
    }
    entry->element_count = count;
    return LZT_OK;
}

static lzt_status read_dtype(cursor *c, lzt__st_entry *entry)
{
    text name;
    lzt_status status = read_string(c, &name);
    if (status) return status;
    entry->dtype = lzt_dtype_from_name(name.at, name.bytes);
    if (entry->dtype) return LZT_OK;
    char what[64];
    snprintf(what, sizeof what, "unknown dtype \"%.32s\"", name.at);
    return bad_tensor(c, entry->name, what);
}

static lzt_status read_tensor(cursor *c, lzt__st_entry *entry)
{
    enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4, ALL = 7 };
    unsigned seen = 0;
    lzt_status status = expect(c, '{');
    if (status) return status;
    do {
        text key;
        status = read_string(c, &key);
        if (!status) status = expect(c, ':');
        if (status) return status;
        unsigned bit = is(&key, "dtype") ? DTYPE : is(&key, "shape") ? SHAPE : is(&key, "data_offsets") ? OFFSETS : 0;
        if (!bit) return bad_tensor(c, entry->name, "a key that is none of dtype, shape, data_offsets");
        if (seen & bit) return bad_tensor(c, entry->name, "a key stands twice");
        seen |= bit;
        status = bit == DTYPE ? read_dtype(c, entry) : bit == SHAPE ? read_shape(c, entry) : read_offsets(c, entry);
        if (status) return status;
    } while (accept(c, ','));
    status = expect(c, '}');
    if (status) return status;
    if (seen != ALL) return bad_tensor(c, entry->name, "dtype, shape or data_offsets is missing");
    return check_bytes(c, entry);
}

/* An object of strings. Its keys are not looked at: duplicates among them do no harm to tensors. */
static lzt_status read_metadata(cursor *c)
{
    lzt_status status = expect(c, '{');
    if (status || accept(c, '}')) return status;
    do {
        text string;
        status = read_string(c, &string);
        if (!status) status = expect(c, ':');
        if (!status) status = read_string(c, &string);
        if (status) return status;
    } while (accept(c, ','));
    return expect(c, '}');
}

static lzt_status new_entry(cursor *c, lzt__st_entry **entry)
{
    if (c->st->count == c->entry_capacity) {
        uint32_t capacity = c->entry_capacity ? 2 * c->entry_capacity : 256;
        lzt__st_entry *grown = realloc(c->st->entry, capacity * sizeof *grown);
        if (!grown) return lzt_fail(c->err, LZT_ERR_NO_MEMORY, c->where, "no memory for the header");
        c->st->entry = grown;
        c->entry_capacity = capacity;
    }
    *entry = &c->st->entry[c->st->count];
    memset(*entry, 0, sizeof **entry);
    return LZT_OK;
}

static lzt_status read_member(cursor *c, bool *has_metadata)
{
    text key;
    lzt_status status = read_string(c, &key);
    if (!status) status = expect(c, ':');
    if (status) return status;
    if (is(&key, "__metadata__")) {
        if (*has_metadata) return syntax(c, "__metadata__ stands twice");
        *has_metadata = true;
        return read_metadata(c);
    }
    lzt__st_entry *entry = NULL;
    status = new_entry(c, &entry);
    if (status) return status;
    entry->name = key.at;
    status = read_tensor(c, entry);
    if (!status) c->st->count++;
    return status;
}

static lzt_status read_header(cursor *c)
{
    if (c->at == c->end || *c->at != '{') return syntax(c, "the header does not begin with '{'");
    c->at++;
    bool has_metadata = false;
    if (!accept(c, '}')) {
        do {
            lzt_status status = read_member(c, &has_metadata);
            if (status) return status;
        } while (accept(c, ','));
        lzt_status status = expect(c, '}');
        if (status) return status;
    }
    skip_space(c);
    return c->at == c->end ? LZT_OK : syntax(c, "text after the header");
}

typedef struct keyed {
    uint64_t key, second;
    uint32_t index;
    const char *name;
} keyed;

/* By key, then by second, then by name: equal hashes cost no more than n log n either. */
static int compare_keyed(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    if (x->second != y->second) return x->second < y->second ? -1 : 1;
    return x->name && y->name ? strcmp(x->name, y->name) : 0;
}

static lzt_status index_names(cursor *c, keyed *sorted)
{
    lzt__st *st = c->st;
    for (uint32_t i = 0; i < st->count; i++) {
        const char *name = st->entry[i].name;
        sorted[i] = (keyed){XXH3_64bits(name, strlen(name)), 0, i, name};
    }
    qsort(sorted, st->count, sizeof *sorted, compare_keyed);
    for (uint32_t i = 0; i < st->count; i++) {
        if (i && !compare_keyed(&sorted[i - 1], &sorted[i])) return bad_tensor(c, sorted[i].name, "it stands twice");
        st->by_name[i] = sorted[i].index;
        st->hash[i] = sorted[i].key;
    }
    return LZT_OK;
}

/* As most writers leave it. */
static bool is_sorted(const keyed *sorted, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        if (compare_keyed(&sorted[i - 1], &sorted[i]) > 0) return false;
    return true;
}

/* Sorted by offset, the tensors must follow each other from 0 to the end of the data. */
static lzt_status check_tiles(cursor *c, keyed *sorted, uint64_t data_bytes)
{
    const lzt__st *st = c->st;
    for (uint32_t i = 0; i < st->count; i++) sorted[i] = (keyed){st->entry[i].begin, st->entry[i].end, i, NULL};
    if (!is_sorted(sorted, st->count)) qsort(sorted, st->count, sizeof *sorted, compare_keyed);
    uint64_t at = 0;
    char what[160];
    for (uint32_t i = 0; i < st->count; i++) {
        if (sorted[i].key != at) {
            snprintf(what, sizeof what, "its data begins at byte %llu, but %s ends at %llu",
                     (unsigned long long)sorted[i].key, i ? "the tensor before" : "nothing before",
                     (unsigned long long)at);
            return bad_tensor(c, st->entry[sorted[i].index].name, what);
        }
        at = sorted[i].second;
    }
    if (at == data_bytes) return LZT_OK;
    const char *name = st->count ? st->entry[sorted[st->count - 1].index].name : "";
    return lzt_fail(c->err, LZT_ERR_MODEL, c->where,
                    "the tensors end at data byte %llu (\"%.200s\") but the file holds %llu: it is %s",
                    (unsigned long long)at, name, (unsigned long long)data_bytes,
                    at > data_bytes ? "cut" : "longer than its header says");
}

lzt_status lzt__st_parse(char *header, uint64_t bytes, uint64_t data_bytes, const char *where, lzt__st *st,
                         lzt_error *err)
{
    memset(st, 0, sizeof *st);
    st->header = header;
    st->data_bytes = data_bytes;
    cursor c = {.at = header, .begin = header, .end = header + bytes, .where = where, .st = st, .err = err};
    keyed *sorted = NULL;
    lzt_status status = grow_shapes(&c); /* so that an entry of rank 0 has a place, too */
    if (!status) status = read_header(&c);
    if (status) goto out;
    sorted = malloc((st->count + 1) * sizeof *sorted);
    st->by_name = malloc((st->count + 1) * sizeof *st->by_name);
    st->hash = malloc((st->count + 1) * sizeof *st->hash);
    if (!sorted || !st->by_name || !st->hash)
        status = lzt_fail(err, LZT_ERR_NO_MEMORY, where, "no memory for the header");
    if (!status) status = check_tiles(&c, sorted, data_bytes);
    if (!status) status = index_names(&c, sorted);
out:
    free(sorted);
    if (status) lzt__st_close(st);
    return status;
}

const lzt__st_entry *lzt__st_find(const lzt__st *st, const char *name)
{
    uint64_t hash = XXH3_64bits(name, strlen(name));
    uint32_t low = 0, high = st->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (st->hash[middle] < hash)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < st->count && st->hash[low] == hash; low++) {
        const lzt__st_entry *entry = &st->entry[st->by_name[low]];
        if (!strcmp(entry->name, name)) return entry;
    }
    return NULL;
}

void lzt__st_close(lzt__st *st)
{
    free(st->path);
    free(st->header);
    free(st->entry);
    free(st->shapes);
    free(st->by_name);
    free(st->hash);
    memset(st, 0, sizeof *st);
}
