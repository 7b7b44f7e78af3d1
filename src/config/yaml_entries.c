/* A YAML document as a flat list of entries: see yaml_entries.h. */
#include "config/yaml_entries.h"

#include "config/scalar.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { DEPTH_MAX = 8, ENTRY_MAX = 2000, ITEM_MAX = 4096, PATH_SIZE = 512 };

typedef struct reader {
    yaml_parser_t parser;
    lzt_entries *entries;
    const char *name;
    lzt_error *err;
} reader;

static lzt_status fail_at(reader *r, size_t line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static lzt_status fail_at(reader *r, size_t line, const char *fmt, ...)
{
    char where[480], message[900];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    snprintf(where, sizeof where, "%.440s:%zu", r->name, line + 1);
    return lzt_fail(r->err, LZT_ERR_USAGE, where, "%s", message);
}

static lzt_status no_memory(lzt_error *err)
{
    return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the config");
}

static lzt_status parser_failed(reader *r)
{
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR) return no_memory(r->err);
    size_t line = p->problem_mark.line;
    if (p->error == YAML_READER_ERROR) return fail_at(r, line, "the file is not text: %s", p->problem);
    return fail_at(r, line, "this is not YAML: %s", p->problem ? p->problem : "unknown error");
}

static lzt_status next(reader *r, yaml_event_t *event)
{
    return yaml_parser_parse(&r->parser, event) ? LZT_OK : parser_failed(r);
}

/* Refuses what a config has no use for. */
static lzt_status check_event(reader *r, const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    size_t line = event->start_mark.line;
    switch (event->type) {
    case YAML_ALIAS_EVENT: return fail_at(r, line, "YAML aliases (*name) are not allowed; write the value out");
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        if (memchr(event->data.scalar.value, 0, event->data.scalar.length))
            return fail_at(r, line, "a NUL byte is not allowed");
        if (memchr(event->data.scalar.value, '\n', event->data.scalar.length))
            return fail_at(r, line, "a value must stand on one line");
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
        break;
    default: break;
    }
    if (anchor) return fail_at(r, line, "YAML anchors (&name) are not allowed");
    if (tag) return fail_at(r, line, "YAML tags (!name) are not allowed; the schema types every value");
    return LZT_OK;
}

static lzt_status next_checked(reader *r, yaml_event_t *event)
{
    lzt_status status = next(r, event);
    if (status) return status;
    status = check_event(r, event);
    if (status) yaml_event_delete(event);
    return status;
}

static lzt_entry *append(lzt_entries *entries)
{
    if (entries->count == entries->capacity) {
        uint32_t capacity = entries->capacity ? entries->capacity * 2 : 64;
        lzt_entry *grown = realloc(entries->entry, capacity * sizeof *grown);
        if (!grown) return NULL;
        entries->entry = grown;
        entries->capacity = capacity;
    }
    lzt_entry *entry = &entries->entry[entries->count++];
    memset(entry, 0, sizeof *entry);
    return entry;
}

/* Adds an entry unless the document already has its path. */
static lzt_status add(reader *r, lzt_entry_kind kind, const char *path, size_t line, lzt_entry **out)
{
    lzt_entries *entries = r->entries;
    for (uint32_t i = 0; i < entries->count; i++)
        if (entries->entry[i].line && !strcmp(entries->entry[i].path, path))
            return fail_at(r, line, "%s is given twice: first on line %u, again here", path, entries->entry[i].line);
    if (entries->count >= ENTRY_MAX) return fail_at(r, line, "too many keys");
    lzt_entry *entry = append(entries);
    if (!entry) return no_memory(r->err);
    entry->kind = kind;
    entry->line = (uint32_t)line + 1;
    entry->path = strdup(path);
    *out = entry;
    return entry->path ? LZT_OK : no_memory(r->err);
}

/* Reads to the end of a node that has begun with *event. */
static lzt_status skip(reader *r, const yaml_event_t *event)
{
    int depth = event->type == YAML_MAPPING_START_EVENT || event->type == YAML_SEQUENCE_START_EVENT;
    while (depth) {
        yaml_event_t inner;
        lzt_status status = next_checked(r, &inner);
        if (status) return status;
        depth += inner.type == YAML_MAPPING_START_EVENT || inner.type == YAML_SEQUENCE_START_EVENT;
        depth -= inner.type == YAML_MAPPING_END_EVENT || inner.type == YAML_SEQUENCE_END_EVENT;
        yaml_event_delete(&inner);
    }
    return LZT_OK;
}

static lzt_status take_scalar(reader *r, const char *path, size_t line, const yaml_event_t *event)
{
    lzt_entry *entry;
    lzt_status status = add(r, LZT_ENTRY_SCALAR, path, line, &entry);
    if (status) return status;
    const char *text = (const char *)event->data.scalar.value;
    bool is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    entry->is_empty = is_plain && !*text;
    if (is_plain && lzt__scalar_is_null(text)) return LZT_OK;
    entry->text = strdup(text);
    return entry->text ? LZT_OK : no_memory(r->err);
}

static lzt_status take_item(reader *r, uint32_t index, const yaml_event_t *event)
{
    lzt_entry *entry = &r->entries->entry[index];
    if (event->type != YAML_SCALAR_EVENT)
        return fail_at(r, event->start_mark.line, "a list may hold single values only");
    if (entry->item_count >= ITEM_MAX) return fail_at(r, event->start_mark.line, "too many values in a list");
    char **grown = realloc(entry->item, (entry->item_count + 1) * sizeof *grown);
    if (!grown) return no_memory(r->err);
    entry->item = grown;
    grown[entry->item_count] = strdup((const char *)event->data.scalar.value);
    return grown[entry->item_count++] ? LZT_OK : no_memory(r->err);
}

static lzt_status take_sequence(reader *r, const char *path, size_t line)
{
    lzt_entry *entry;
    lzt_status status = add(r, LZT_ENTRY_LIST, path, line, &entry);
    uint32_t index = r->entries->count - 1;
    for (bool done = false; !status && !done;) {
        yaml_event_t event;
        if ((status = next_checked(r, &event))) return status;
        done = event.type == YAML_SEQUENCE_END_EVENT;
        if (!done) status = take_item(r, index, &event);
        yaml_event_delete(&event);
    }
    return status;
}

static lzt_status take_mapping(reader *r, const char *prefix, int depth);

static lzt_status take_value(reader *r, const char *path, size_t line, const yaml_event_t *event, int depth)
{
    lzt_entry *entry;
    lzt_status status;
    switch (event->type) {
    case YAML_SCALAR_EVENT: return take_scalar(r, path, line, event);
    case YAML_SEQUENCE_START_EVENT: return take_sequence(r, path, line);
    default: break;
    }
    assert(event->type == YAML_MAPPING_START_EVENT);
    status = add(r, LZT_ENTRY_MAP, path, line, &entry);
    if (status) return status;
    uint32_t index = r->entries->count - 1;
    status = take_mapping(r, path, depth + 1);
    r->entries->entry[index].is_empty = r->entries->count == index + 1;
    return status;
}

/* One key and its value. Returns with *done when the mapping has ended. */
static lzt_status take_pair(reader *r, const char *prefix, int depth, bool *done)
{
    yaml_event_t key, value;
    char path[PATH_SIZE];
    lzt_status status = next_checked(r, &key);
    if (status) return status;
    size_t line = key.start_mark.line;
    *done = key.type == YAML_MAPPING_END_EVENT;
    if (*done) goto cleanup;
    const char *name = (const char *)key.data.scalar.value;
    if (key.type != YAML_SCALAR_EVENT || !*name)
        status = fail_at(r, line, "a key must be a word");
    else if ((size_t)snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", name) >= sizeof path)
        status = fail_at(r, line, "this key is too long");
    if (status) goto cleanup;
    status = next_checked(r, &value);
    if (status) goto cleanup;
    status = strncmp(name, "x-", 2) ? take_value(r, path, line, &value, depth) : skip(r, &value);
    yaml_event_delete(&value);
cleanup:
    yaml_event_delete(&key);
    return status;
}

static lzt_status take_mapping(reader *r, const char *prefix, int depth)
{
    if (depth > DEPTH_MAX) return fail_at(r, r->parser.mark.line, "sections are nested too deeply");
    lzt_status status = LZT_OK;
    for (bool done = false; !status && !done;) status = take_pair(r, prefix, depth, &done);
    return status;
}

static lzt_status expect(reader *r, yaml_event_type_t type, const char *otherwise)
{
    yaml_event_t event;
    lzt_status status = next_checked(r, &event);
    if (status) return status;
    if (event.type != type) status = fail_at(r, event.start_mark.line, "%s", otherwise);
    yaml_event_delete(&event);
    return status;
}

/* STREAM-START (DOCUMENT-START mapping DOCUMENT-END)? STREAM-END */
static lzt_status take_document(reader *r)
{
    yaml_event_t event;
    lzt_status status = expect(r, YAML_STREAM_START_EVENT, "not a YAML stream");
    if (status || (status = next_checked(r, &event))) return status;
    yaml_event_type_t type = event.type;
    yaml_event_delete(&event);
    if (type == YAML_STREAM_END_EVENT) return LZT_OK; /* an empty file is an empty config */
    status = next_checked(r, &event);
    if (status) return status;
    bool is_null = event.type == YAML_SCALAR_EVENT && lzt__scalar_is_null((const char *)event.data.scalar.value);
    bool is_mapping = event.type == YAML_MAPPING_START_EVENT;
    if (!is_mapping && !is_null) status = fail_at(r, event.start_mark.line, "a config is a list of `key: value` lines");
    yaml_event_delete(&event);
    if (!status && is_mapping) status = take_mapping(r, "", 0);
    if (!status) status = expect(r, YAML_DOCUMENT_END_EVENT, "not a YAML document");
    if (!status) status = expect(r, YAML_STREAM_END_EVENT, "a config is one YAML document; a second one begins here");
    return status;
}

lzt_status lzt__entries_parse(lzt_entries *entries, const char *name, const char *text, size_t bytes, lzt_error *err)
{
    reader r = {.entries = entries, .name = name, .err = err};
    if (!yaml_parser_initialize(&r.parser)) return no_memory(err);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, bytes);
    lzt_status status = take_document(&r);
    yaml_parser_delete(&r.parser);
    return status;
}

/* Cuts text at its commas into the entry's items. "" and "[]" are the empty list. */
static bool split_items(lzt_entry *entry, const char *text)
{
    size_t length = strlen(text);
    if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    }
    for (const char *end = text + length; text < end;) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        const char *stop = comma ? comma : end;
        while (text < stop && *text == ' ') text++;
        char **grown = realloc(entry->item, (entry->item_count + 1) * sizeof *grown);
        if (!grown) return false;
        entry->item = grown;
        grown[entry->item_count] = strndup(text, (size_t)(stop - text));
        if (!grown[entry->item_count++]) return false;
        text = comma ? comma + 1 : end;
    }
    return true;
}

lzt_status lzt__entries_add_override(lzt_entries *entries, const lzt_config_override *override, bool is_list,
                                     lzt_error *err)
{
    lzt_entry *entry = append(entries);
    if (!entry) return no_memory(err);
    const char *text = override->value ? override->value : "true";
    entry->kind = is_list ? LZT_ENTRY_LIST : LZT_ENTRY_SCALAR;
    entry->path = strdup(override->key);
    bool ok = entry->path != NULL;
    if (is_list)
        ok = ok && split_items(entry, text);
    else if (!*text || !lzt__scalar_is_null(text))
        ok = ok && (entry->text = strdup(text)) != NULL;
    return ok ? LZT_OK : no_memory(err);
}

void lzt__entries_fini(lzt_entries *entries)
{
    for (uint32_t i = 0; i < entries->count; i++) {
        lzt_entry *entry = &entries->entry[i];
        for (uint32_t j = 0; j < entry->item_count; j++) free(entry->item[j]);
        free(entry->item);
        free(entry->path);
        free(entry->text);
    }
    free(entries->entry);
    *entries = (lzt_entries){0};
}
