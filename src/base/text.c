/* A growing piece of text: see text.h. */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(lzt__text *text, size_t more)
{
    if (text->failed) return false;
    if (text->bytes + more < text->capacity) return true;
    size_t capacity = text->capacity ? text->capacity : 1024;
    while (capacity <= text->bytes + more) capacity *= 2;
    char *grown = realloc(text->at, capacity);
    text->failed = !grown;
    if (!grown) return false;
    text->at = grown;
    text->capacity = capacity;
    return true;
}

void lzt__text_add_bytes(lzt__text *text, const char *data, size_t bytes)
{
    if (!reserve(text, bytes)) return;
    memcpy(text->at + text->bytes, data, bytes);
    text->bytes += bytes;
    text->at[text->bytes] = 0;
}

void lzt__text_add(lzt__text *text, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int bytes = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (bytes < 0) text->failed = true;
    if (bytes < 0 || !reserve(text, (size_t)bytes)) return;
    va_start(args, fmt);
    vsnprintf(text->at + text->bytes, (size_t)bytes + 1, fmt, args);
    va_end(args);
    text->bytes += (size_t)bytes;
}

void lzt__text_add_json_part(lzt__text *text, const char *data, size_t bytes)
{
    for (size_t i = 0, plain = 0; i <= bytes; i++) {
        unsigned char byte = i < bytes ? (unsigned char)data[i] : 0;
        if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
        lzt__text_add_bytes(text, data + plain, i - plain);
        plain = i + 1;
        if (i == bytes) return;
        lzt__text_add(text, byte < 0x20 ? "\\u%04x" : "\\%c", byte);
    }
}

void lzt__text_add_json(lzt__text *text, const char *string)
{
    lzt__text_add_bytes(text, "\"", 1);
    lzt__text_add_json_part(text, string, strlen(string));
    lzt__text_add_bytes(text, "\"", 1);
}

void lzt__text_pad(lzt__text *text, char byte, size_t count)
{
    if (!reserve(text, count)) return;
    memset(text->at + text->bytes, byte, count);
    text->bytes += count;
    text->at[text->bytes] = 0;
}

void lzt__text_free(lzt__text *text)
{
    free(text->at);
    *text = (lzt__text){0};
}
