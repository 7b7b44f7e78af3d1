/* A YAML document, or overrides, as a flat list of entries: dotted path, text, place. No schema is known here.
 *
 * Only what a config needs is accepted: one document that is a mapping, of mappings, scalars and sequences of scalars.
 * Anchors, aliases, tags, scalars of several lines and NUL bytes are refused; so is a key given twice in one mapping.
 * Keys that begin with x- are skipped with all they hold.
 */
#ifndef LZT_CONFIG_YAML_ENTRIES_H
#define LZT_CONFIG_YAML_ENTRIES_H

#include "lazytrain/config.h"

typedef enum lzt_entry_kind { LZT_ENTRY_SCALAR = 0, LZT_ENTRY_LIST, LZT_ENTRY_MAP } lzt_entry_kind;

typedef struct lzt_entry {
    lzt_entry_kind kind;
    char *path;  /* "memory.device_cap"; '-' as written */
    char *text;  /* of a scalar; NULL for null */
    char **item; /* [item_count] of a list */
    uint32_t item_count;
    uint32_t line; /* 1-based; 0: the command line */
    bool is_empty; /* a map that holds nothing, or a null that is written as nothing (`key:`) */
} lzt_entry;

typedef struct lzt_entries {
    lzt_entry *entry;
    uint32_t count, capacity;
} lzt_entries;

/* Appends the document's entries. name is for messages. Errors: LZT_ERR_USAGE with "name:line", LZT_ERR_NO_MEMORY. */
lzt_status lzt__entries_parse(lzt_entries *entries, const char *name, const char *text, size_t bytes, lzt_error *err);
/* Appends one override, a list when value has commas and is_list. */
lzt_status lzt__entries_add_override(lzt_entries *entries, const lzt_config_override *override, bool is_list,
                                     lzt_error *err);
void lzt__entries_fini(lzt_entries *entries);

#endif
