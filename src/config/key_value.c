/* One key's value: see key_value.h. */
#include "config/key_value.h"

#include "base/real_text.h"
#include "base/units.h"
#include "config/scalar.h"

#include <assert.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 4096 };

char *lzt__strings_add(lzt_strings *strings, const char *text)
{
    if (strings->count == strings->capacity) {
        uint64_t capacity = strings->capacity ? strings->capacity * 2 : 32;
        char **grown = realloc(strings->text, capacity * sizeof *grown);
        if (!grown) return NULL;
        strings->text = grown;
        strings->capacity = capacity;
    }
    char *copy = strdup(text);
    if (copy) strings->text[strings->count++] = copy;
    return copy;
}

bool lzt__strings_append(lzt_strings *strings, lzt_text_list *list, const char *text)
{
    const char *copy = lzt__strings_add(strings, text);
    const char **grown = copy ? realloc(list->item, (list->count + 1) * sizeof *grown) : NULL;
    if (!grown) return false;
    grown[list->count] = copy;
    list->item = grown;
    list->count++;
    return true;
}

void lzt__strings_fini(lzt_strings *strings)
{
    for (uint64_t i = 0; i < strings->count; i++) free(strings->text[i]);
    free(strings->text);
    *strings = (lzt_strings){0};
}

/* Calls word by word: copies the next of words separated by separator into word; false at the end. */
static bool next_word(const char **list, char separator, char *word, size_t size)
{
    if (!*list || !**list) return false;
    const char *end = strchrnul(*list, separator);
    snprintf(word, size, "%.*s", (int)(end - *list), *list);
    *list = *end ? end + 1 : end;
    return true;
}

/* text, or the word that the key says it stands for. */
static const char *canonical_word(const lzt_key *key, const char *text, char *buffer, size_t size)
{
    const char *list = key->value_alias;
    while (next_word(&list, ' ', buffer, size)) {
        char *equal = strchr(buffer, '=');
        assert(equal);
        *equal = 0;
        if (!strcasecmp(buffer, text)) return equal + 1;
    }
    return text;
}

static bool matches_any(const char *globs, const char *text)
{
    char glob[128];
    while (next_word(&globs, '|', glob, sizeof glob))
        if (!fnmatch(glob, text, 0)) return true;
    return false;
}

static int choice_index(const char *choices, const char *text)
{
    char word[64];
    for (int index = 0; next_word(&choices, '|', word, sizeof word); index++)
        if (!strcmp(word, text)) return index;
    return -1;
}

static void explain(char *why, size_t size, const char *text)
{
    snprintf(why, size, "%s", text);
}

static bool in_range(const lzt_key *key, double value, char *why, size_t size)
{
    char bound[32];
    const char *relation = NULL;
    double limit = key->min;
    if ((key->limits & LZT_LIMIT_MIN) && value < key->min) relation = "is below the least value";
    if ((key->limits & LZT_LIMIT_MIN_OPEN) && value <= key->min) relation = "is not above";
    if ((key->limits & LZT_LIMIT_MAX) && value > key->max) relation = "is above the greatest value";
    if ((key->limits & LZT_LIMIT_MAX_OPEN) && value >= key->max) relation = "is not below";
    if (!relation) return true;
    if (((key->limits & LZT_LIMIT_MAX) && value > key->max) ||
        ((key->limits & LZT_LIMIT_MAX_OPEN) && value >= key->max))
        limit = key->max;
    lzt__real_text(limit, bound);
    snprintf(why, size, "%s %s", relation, bound);
    return false;
}

/* A whole number of steps, or a ratio below 1. */
static bool read_steps(const char *text, lzt_steps *steps, const char **why)
{
    uint64_t whole;
    double real;
    *steps = (lzt_steps){0};
    if (lzt__scalar_uint(text, &whole, why)) {
        steps->steps = whole;
        return true;
    }
    if (!lzt__scalar_real(text, &real, why)) return false;
    *why = "is negative";
    if (real < 0) return false;
    if (real < 1) {
        steps->ratio = real;
        return true;
    }
    *why = "is neither a whole number of steps nor a ratio below 1";
    steps->steps = (uint64_t)(real < 1e15 ? real : 0);
    return (double)steps->steps == real;
}

static bool read_number(const lzt_key *key, const char *text, void *field, char *why, size_t size)
{
    const char *reason = "";
    double value = 0;
    bool ok;
    switch (key->type) {
    case LZT_KEY_UINT:
        ok = lzt__scalar_uint(text, field, &reason);
        value = ok ? (double)*(uint64_t *)field : 0;
        break;
    case LZT_KEY_INT:
        ok = lzt__scalar_int(text, field, &reason);
        value = ok ? (double)*(int64_t *)field : 0;
        break;
    case LZT_KEY_REAL:
        ok = lzt__scalar_real(text, field, &reason);
        value = ok ? *(double *)field : 0;
        break;
    case LZT_KEY_STEPS: ok = read_steps(text, field, &reason); break;
    default: ok = lzt__scalar_size(text, field, &reason); break;
    }
    if (!ok) explain(why, size, reason);
    return ok && in_range(key, value, why, size);
}

/* The code point at *p, which moves behind it; -1 when the bytes are not UTF-8. */
static int32_t next_code_point(const unsigned char **p)
{
    const unsigned char *s = *p;
    int length = *s < 0x80                  ? 1
                 : *s >= 0xf0 && *s <= 0xf4 ? 4
                 : *s >= 0xe0 && *s < 0xf0  ? 3
                 : *s >= 0xc2 && *s < 0xe0  ? 2
                                            : 0;
    static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (!length) return -1;
    int32_t code = length == 1 ? *s : *s & (0x7f >> length);
    for (int i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) return -1;
        code = code << 6 | (s[i] & 0x3f);
    }
    *p += length;
    return code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? -1 : code;
}

static bool is_utf8(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p;)
        if (next_code_point(&p) < 0) return false;
    return true;
}

static bool read_word(const lzt_key *key, const char *text, void *field, lzt_strings *strings, char *why, size_t size)
{
    int index = key->type == LZT_KEY_CHOICE ? choice_index(key->choices, text) : 0;
    bool ok = key->type == LZT_KEY_CHOICE ? index >= 0 : !key->choices || matches_any(key->choices, text);
    const char *fault = !*text ? "is empty" : strlen(text) > TEXT_BYTES_MAX ? "is too long" : NULL;
    if (!fault && !is_utf8(text)) fault = "is not UTF-8";
    if (ok && fault) {
        explain(why, size, fault);
        return false;
    }
    if (!ok) {
        snprintf(why, size, "is not one of %s", key->choices);
        return false;
    }
    if (key->type == LZT_KEY_NONE) return true;
    if (key->type == LZT_KEY_CHOICE) {
        memcpy(field, &index, sizeof index);
        return true;
    }
    explain(why, size, "does not fit into memory");
    if (key->type == LZT_KEY_LIST) return lzt__strings_append(strings, field, text);
    const char *copy = lzt__strings_add(strings, text);
    *(const char **)field = copy;
    return copy != NULL;
}

bool lzt__value_read(const lzt_key *key, const char *text, lzt_config *config, lzt_strings *strings, char *why,
                     size_t why_size)
{
    char buffer[128];
    const char *reason = "";
    void *field = (char *)config + key->offset;
    text = canonical_word(key, text, buffer, sizeof buffer);
    switch (key->type) {
    case LZT_KEY_BOOL:
        if (lzt__scalar_bool(text, field, &reason)) return true;
        explain(why, why_size, reason);
        return false;
    case LZT_KEY_TEXT:
    case LZT_KEY_CHOICE:
    case LZT_KEY_LIST:
    case LZT_KEY_NONE: return read_word(key, text, field, strings, why, why_size);
    default: return read_number(key, text, field, why, why_size);
    }
}

/* YAML reads the character as itself between double quotes: not a control, not a line break, not a byte order mark. */
static bool is_plain_character(int32_t code)
{
    return code >= 0x20 && code != 0x7f && !(code > 0x7f && code < 0xa0) && code != 0x2028 && code != 0x2029 &&
           code != 0xfeff && code != 0xfffe && code != 0xffff;
}

/* A text as a YAML scalar: plain where that is safe, else in double quotes. */
static bool print_text(const char *text, char *out, size_t size)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+";
    if (*text && *text != '-' && !text[strspn(text, safe)] && !lzt__scalar_is_null(text))
        return (size_t)snprintf(out, size, "%s", text) < size;
    size_t used = 0;
    if (size < 16) return false;
    out[used++] = '"';
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        const unsigned char *start = p;
        int32_t code = next_code_point(&p);
        assert(code >= 0);
        if (used + 16 > size) return false;
        if (code == '"' || code == '\\') out[used++] = '\\';
        if (!is_plain_character(code)) {
            used += (size_t)snprintf(out + used, size - used, "\\u%04x", (unsigned)code);
            continue;
        }
        memcpy(out + used, start, (size_t)(p - start));
        used += (size_t)(p - start);
    }
    out[used++] = '"';
    out[used] = 0;
    return true;
}

static bool print_list(const lzt_text_list *list, char *text, size_t size)
{
    size_t used = 0;
    for (uint64_t i = 0; i < list->count; i++) {
        if (used + 16 > size) return false;
        used += (size_t)snprintf(text + used, size - used, i ? ", " : "[");
        if (!print_text(list->item[i], text + used, size - used)) return false;
        used += strlen(text + used);
    }
    return (size_t)snprintf(text + used, size - used, list->count ? "]" : "[]") < size - used;
}

static void print_choice(const lzt_key *key, const void *field, char *text, size_t size)
{
    int index;
    const char *list = key->choices;
    memcpy(&index, field, sizeof index);
    for (int i = 0; i <= index; i++) {
        bool found = next_word(&list, '|', text, size);
        assert(found);
        (void)found;
    }
}

bool lzt__value_print(const lzt_key *key, const lzt_config *config, bool is_set, char *text, size_t size)
{
    const void *field = (const char *)config + key->offset;
    assert(size >= 64);
    if (!is_set) return snprintf(text, size, "null") > 0;
    switch (key->type) {
    case LZT_KEY_TEXT:
        return *(const char *const *)field ? print_text(*(const char *const *)field, text, size)
                                           : snprintf(text, size, "null") > 0;
    case LZT_KEY_LIST: return print_list(field, text, size);
    case LZT_KEY_BOOL: return snprintf(text, size, "%s", *(const bool *)field ? "true" : "false") > 0;
    case LZT_KEY_UINT: return snprintf(text, size, "%" PRIu64, *(const uint64_t *)field) > 0;
    case LZT_KEY_INT: return snprintf(text, size, "%" PRId64, *(const int64_t *)field) > 0;
    case LZT_KEY_REAL: lzt__real_text(*(const double *)field, text); return true;
    case LZT_KEY_SIZE: lzt__units_format_exact(*(const uint64_t *)field, text); return true;
    case LZT_KEY_CHOICE: print_choice(key, field, text, size); return true;
    case LZT_KEY_STEPS:
        if (((const lzt_steps *)field)->ratio > 0)
            lzt__real_text(((const lzt_steps *)field)->ratio, text);
        else
            snprintf(text, size, "%" PRIu64, ((const lzt_steps *)field)->steps);
        return true;
    case LZT_KEY_NONE: break;
    }
    return snprintf(text, size, "null") > 0;
}

bool lzt__value_is_not_yet(const lzt_key *key, const char *text)
{
    return key->not_yet && matches_any(key->not_yet, text);
}
