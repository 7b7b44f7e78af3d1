/* JSON into a fixed buffer: see json_text.h. */
#include "report/json_text.h"

#include "base/real_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void put(lzt_json_text *json, const char *text, size_t length)
{
    if (json->overflow || length >= json->size - json->used) {
        json->overflow = true;
        return;
    }
    memcpy(json->text + json->used, text, length);
    json->used += length;
    json->text[json->used] = 0;
}

void lzt__jsontext_raw(lzt_json_text *json, const char *text)
{
    put(json, text, strlen(text));
}

/* Bytes of the valid UTF-8 sequence at p, or 0. */
static size_t sequence_length(const unsigned char *p)
{
    if (p[0] < 0x80) return 1;
    size_t length = p[0] >= 0xf0 && p[0] <= 0xf4 ? 4 : p[0] >= 0xe0 && p[0] <= 0xef ? 3 : p[0] >= 0xc2 ? 2 : 0;
    if (p[0] >= 0xf5) return 0;
    for (size_t i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] >= 0xa0)) return 0; /* overlong, surrogate */
    if ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] >= 0x90)) return 0; /* overlong, beyond U+10FFFF */
    return length;
}

static void put_quoted(lzt_json_text *json, const char *value)
{
    put(json, "\"", 1);
    for (const unsigned char *p = (const unsigned char *)value; *p;) {
        char escaped[8];
        size_t length = sequence_length(p);
        if (length == 0)
            put(json, "\xef\xbf\xbd", 3);
        else if (*p == '"' || *p == '\\')
            put(json, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\%c", *p));
        else if (*p < 0x20)
            put(json, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", *p));
        else
            put(json, (const char *)p, length);
        p += length ? length : 1;
    }
    put(json, "\"", 1);
}

static void put_key(lzt_json_text *json, const char *key)
{
    if (json->needs_comma) put(json, ",", 1);
    json->needs_comma = true;
    if (!key) return;
    put_quoted(json, key);
    put(json, ":", 1);
}

void lzt__jsontext_begin(lzt_json_text *json, const char *key, char bracket)
{
    put_key(json, key);
    put(json, &bracket, 1);
    json->needs_comma = false;
}

void lzt__jsontext_end(lzt_json_text *json, char bracket)
{
    put(json, &bracket, 1);
    json->needs_comma = true;
}

void lzt__jsontext_uint(lzt_json_text *json, const char *key, uint64_t value)
{
    char text[24];
    put_key(json, key);
    put(json, text, (size_t)snprintf(text, sizeof text, "%" PRIu64, value));
}

void lzt__jsontext_real(lzt_json_text *json, const char *key, double value)
{
    char text[LZT_REAL_TEXT];
    put_key(json, key);
    lzt__jsontext_raw(json, isfinite(value) ? lzt__real_text(value, text) : "null");
}

void lzt__jsontext_bool(lzt_json_text *json, const char *key, bool value)
{
    put_key(json, key);
    lzt__jsontext_raw(json, value ? "true" : "false");
}

void lzt__jsontext_string(lzt_json_text *json, const char *key, const char *value)
{
    put_key(json, key);
    put_quoted(json, value);
}
