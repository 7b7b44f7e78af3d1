/* JSON written into a buffer of fixed size, without allocation.
 *
 *     lzt_json_text json = {buffer, sizeof buffer};
 *     lzt__jsontext_begin(&json, NULL, '{');
 *     lzt__jsontext_uint(&json, "step", 3);
 *     lzt__jsontext_end(&json, '}');
 *
 * key is NULL in arrays and at the top. A number that is not finite becomes null. Strings are escaped; bytes that are
 * not UTF-8 become U+FFFD. What does not fit sets `overflow`, and the text is then unusable.
 */
#ifndef LZT_REPORT_JSON_TEXT_H
#define LZT_REPORT_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lzt_json_text {
    char *text; /* ends with NUL unless overflow */
    size_t size, used;
    bool overflow;
    bool needs_comma;
} lzt_json_text;

void lzt__jsontext_begin(lzt_json_text *json, const char *key, char bracket); /* '{' or '[' */
void lzt__jsontext_end(lzt_json_text *json, char bracket);                    /* '}' or ']' */
void lzt__jsontext_uint(lzt_json_text *json, const char *key, uint64_t value);
void lzt__jsontext_real(lzt_json_text *json, const char *key, double value);
void lzt__jsontext_bool(lzt_json_text *json, const char *key, bool value);
void lzt__jsontext_string(lzt_json_text *json, const char *key, const char *value);
/* Bytes as they are, such as a newline after the last bracket. */
void lzt__jsontext_raw(lzt_json_text *json, const char *text);

#endif
