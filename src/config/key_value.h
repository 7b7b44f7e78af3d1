/* One key's value: from text into its field of lzt_config, and back. */
#ifndef LZT_CONFIG_KEY_VALUE_H
#define LZT_CONFIG_KEY_VALUE_H

#include "config/schema.h"

/* Owns the strings that a config's fields point to. */
typedef struct lzt_strings {
    char **text;
    uint64_t count, capacity;
} lzt_strings;

/* A copy that lives as long as strings; NULL without memory. */
char *lzt__strings_add(lzt_strings *strings, const char *text);
/* Appends to list; false without memory. */
bool lzt__strings_append(lzt_strings *strings, lzt_text_list *list, const char *text);
void lzt__strings_fini(lzt_strings *strings);

/* Reads text (the schema's spelling aliases applied) into the key's field, checks its range. On false *why is a phrase
 * such as "is negative", written into why_text or static. A list takes one item and appends it. */
bool lzt__value_read(const lzt_key *key, const char *text, lzt_config *config, lzt_strings *strings, char *why,
                     size_t why_size);
/* The canonical text of the field, as a YAML value ("null" when unset). Returns false when text is too small. */
bool lzt__value_print(const lzt_key *key, const lzt_config *config, bool is_set, char *text, size_t size);
/* The field equals what the key's default gives. */
bool lzt__value_is_not_yet(const lzt_key *key, const char *text);

#endif
