/* A growing piece of text with one sticky error: for writers of JSON headers and manifests.
 *
 *     lzt__text text = {0};
 *     lzt__text_add(&text, "{\"a\":%d,\"b\":", 1);
 *     lzt__text_add_json(&text, name);
 *     if (text.failed) no memory; else use text.at, text.bytes
 *     lzt__text_free(&text);
 */
#ifndef LZT_BASE_TEXT_H
#define LZT_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct lzt__text {
    char *at; /* ends in NUL unless empty */
    size_t bytes, capacity;
    bool failed; /* no memory; all later calls do nothing */
} lzt__text;

void lzt__text_add(lzt__text *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void lzt__text_add_bytes(lzt__text *text, const char *data, size_t bytes);
/* A UTF-8 string as a JSON string, with its quotes. */
void lzt__text_add_json(lzt__text *text, const char *string);
/* Bytes of a JSON string without its quotes: NUL and other control characters are escaped, all else goes as it is. */
void lzt__text_add_json_part(lzt__text *text, const char *data, size_t bytes);
/* count times the same byte. */
void lzt__text_pad(lzt__text *text, char byte, size_t count);
void lzt__text_free(lzt__text *text);

#endif
