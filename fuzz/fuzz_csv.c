/* Rows of a CSV file, against a second reader that takes the file in one pass: the same records, each the JSON object
 * of the header's names and the record's fields, or an error where a quote is out of place or a field too many or too
 * few. */
#include "base/text.h"
#include "data/source/arrow.h"
#include "base/jsontree.h"
#include "data/source/rowfile.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct field {
    char *text; /* [size] */
    uint64_t size;
} field;

typedef struct record {
    field *field; /* [count] */
    uint64_t count;
    bool broken; /* text behind a closing quote */
} record;

typedef struct table {
    record *record; /* [count] without blank ones */
    uint64_t count;
    bool open; /* ends inside quotes */
} table;

/* One field from *at on; stops on its comma or newline, or at the end. */
static field read_field(const char *text, uint64_t size, uint64_t *at, record *r, bool *open)
{
    field f = {malloc(size - *at + 1), 0};
    bool quoted = *at < size && text[*at] == '"';
    *open = quoted;
    for (*at += quoted; *at < size; ++*at) {
        char c = text[*at];
        if (*open && c == '"') {
            if (*at + 1 < size && text[*at + 1] == '"')
                f.text[f.size++] = text[++*at];
            else
                *open = false;
        } else if (!*open && (c == ',' || c == '\n')) {
            break;
        } else {
            bool ends = c == '\r' && (*at + 1 == size || text[*at + 1] == '\n');
            if (!*open && ends) continue; /* of the line */
            r->broken = r->broken || (quoted && !*open);
            f.text[f.size++] = c;
        }
    }
    return f;
}

static table read_table(const char *text, uint64_t size)
{
    table t = {calloc(size + 1, sizeof(record)), 0, false};
    for (uint64_t at = 0; at < size && !t.open; at++) {
        record *r = &t.record[t.count];
        uint64_t begin = at;
        r->field = malloc((size - at + 1) * sizeof *r->field);
        for (bool more = true; more; at += more) {
            r->field[r->count++] = read_field(text, size, &at, r, &t.open);
            more = at < size && text[at] == ',';
        }
        bool blank = true;
        for (uint64_t i = begin; i < at; i++) blank = blank && strchr(" \t\r", text[i]) && text[i];
        if (!blank) {
            t.count++;
            continue;
        }
        for (uint64_t i = 0; i < r->count; i++) free(r->field[i].text);
        free(r->field);
        *r = (record){0};
    }
    return t;
}

static void free_table(table *t)
{
    for (uint64_t i = 0; i < t->count; i++) {
        for (uint64_t k = 0; k < t->record[i].count; k++) free(t->record[i].field[k].text);
        free(t->record[i].field);
    }
    free(t->record);
}

static bool is_utf8(const field *f)
{
    uint32_t code, n;
    for (uint64_t i = 0; i < f->size; i += n)
        if (!(n = lzt__utf8_get(f->text + i, f->size - i, &code))) return false;
    return true;
}

static void same(const char *text, uint32_t size, const field *f)
{
    if (is_utf8(f)) assert(size == f->size && !memcmp(text, f->text, size));
}

static void check_row(const lzt__rowfile *file, uint64_t i, const record *header, const record *r, lzt__json_doc *doc,
                      lzt__text *scratch)
{
    const char *json;
    uint64_t size;
    lzt_error err = {0};
    lzt_status s = lzt__rowfile_json(file, i, "fuzz.csv", scratch, &json, &size, &err);
    bool good = !header->broken && !r->broken && header->count == r->count;
    assert(good == !s);
    if (s) {
        assert(err.message[0]);
        return;
    }
    s = lzt__json_parse(doc, json, size, "fuzz.csv", &err);
    assert(!s && doc->node->type == LZT__JSON_OBJECT && doc->node->size == r->count);
    const lzt__json *c = lzt__json_child(doc->node);
    for (uint64_t k = 0; k < r->count; k++, c = lzt__json_next(c)) {
        assert(c->type == LZT__JSON_STRING);
        same(c->key, c->key_size, &header->field[k]);
        same(c->text, c->size, &r->field[k]);
    }
}

/* What is known by its first bytes is not read as CSV, whatever its name. */
static bool is_foreign(const uint8_t *data, size_t size)
{
    static const char *const marks[] = {"\xff\xfe", "\xfe\xff", "PAR1"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (size >= strlen(marks[i]) && !memcmp(data, marks[i], strlen(marks[i]))) return true;
    return lzt__arrow_begins((const char *)data, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (is_foreign(data, size)) return 0;
    char path[64];
    snprintf(path, sizeof path, "/tmp/lzt-fuzz-%d.csv", (int)getpid());
    FILE *f = fopen(path, "wb");
    if (!f) return 0;
    fwrite(data, 1, size, f);
    fclose(f);
    lzt__rowfile file;
    lzt_error err = {0};
    if (size >= 3 && !memcmp(data, "\xef\xbb\xbf", 3)) data += 3, size -= 3;
    table t = read_table((const char *)data, size);
    if (lzt__rowfile_open(path, 0, &file, &err)) {
        assert(err.message[0] && t.open);
    } else {
        lzt__json_doc doc = {0};
        lzt__text scratch = {0};
        assert(!t.open && file.row_count == (t.count ? t.count - 1 : 0));
        for (uint64_t i = 0; i < file.row_count; i++)
            check_row(&file, i, &t.record[0], &t.record[i + 1], &doc, &scratch);
        lzt__json_free(&doc);
        lzt__text_free(&scratch);
        lzt__rowfile_close(&file);
    }
    free_table(&t);
    unlink(path);
    return 0;
}
