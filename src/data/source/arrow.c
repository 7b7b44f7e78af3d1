/* Finds the schema and the batches of an Arrow IPC file: see arrow.h. */
#include "data/source/arrow_parts.h"
#include "data/source/flatbuf.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC       "ARROW1"
#define MAGIC_BYTES 6
#define FIELDS_MAX  4096

/* Numbers of fields in the format's FlatBuffers. */
enum { MESSAGE_HEADER_TYPE = 1, MESSAGE_HEADER = 2, MESSAGE_BODY_LENGTH = 3 };
enum { HEADER_SCHEMA = 1, HEADER_DICTIONARY = 2, HEADER_BATCH = 3 };
enum { SCHEMA_ENDIANNESS = 0, SCHEMA_FIELDS = 1 };
enum { FIELD_NAME = 0, FIELD_TYPE_TYPE = 2, FIELD_TYPE = 3, FIELD_DICTIONARY = 4, FIELD_CHILDREN = 5 };
enum { BATCH_LENGTH = 0, BATCH_NODES = 1, BATCH_BUFFERS = 2, BATCH_COMPRESSION = 3 };

static const char *const type_names[LZT__ARROW_TYPE_COUNT] = {"none",
                                                              "null",
                                                              "int",
                                                              "float",
                                                              "binary",
                                                              "utf8",
                                                              "bool",
                                                              "decimal",
                                                              "date",
                                                              "time",
                                                              "timestamp",
                                                              "interval",
                                                              "list",
                                                              "struct",
                                                              "union",
                                                              "fixed-size binary",
                                                              "fixed-size list",
                                                              "map",
                                                              "duration",
                                                              "large binary",
                                                              "large utf8",
                                                              "large list",
                                                              "run-end encoded",
                                                              "binary view",
                                                              "utf8 view",
                                                              "list view",
                                                              "large list view"};

typedef struct walk {
    lzt__arrow *a;
    const char *path;
    const uint8_t *bytes;
    uint64_t size, at; /* at: of the message in hand */
    lzt_error *err;
} walk;

/* One message: its FlatBuffer and its body. */
typedef struct message {
    lzt__flat flat;
    lzt__flat_table header;
    int64_t type;
    const uint8_t *body;
    uint64_t body_size;
} message;

static lzt_status broken(const walk *w, const char *what)
{
    return lzt_fail(w->err, LZT_ERR_DATA, w->path, "broken Arrow data: %s in the message at byte %llu", what,
                    (unsigned long long)w->at);
}

static lzt_status no_memory(const walk *w)
{
    return lzt_fail(w->err, LZT_ERR_NO_MEMORY, w->path, "no memory for the batches of an Arrow file");
}

/* ---- the schema ---- */

static lzt_status refuse_column(const walk *w, const char *name, const char *what)
{
    lzt_fail(w->err, LZT_ERR_DATA, w->path, "column \"%.100s\" is %s, which is not read", name, what);
    return lzt_hint(w->err, "drop or cast it, or write the data set as JSONL: dataset.to_json(\"rows.jsonl\")");
}

/* Sets type and width; a type that is not read is refused by its name. */
static lzt_status take_type(const walk *w, lzt__flat *flat, const lzt__flat_table *table, lzt__arrow_field *f)
{
    lzt__flat_table type, dictionary;
    int64_t number = lzt__flat_number(flat, table, FIELD_TYPE_TYPE, 1, 0) & 255;
    lzt__flat_child(flat, table, FIELD_TYPE, &type);
    f->type = (uint8_t)number;
    if (lzt__flat_child(flat, table, FIELD_DICTIONARY, &dictionary))
        return refuse_column(w, f->name, "dictionary-encoded");
    switch (number) {
    case LZT__ARROW_NULL:
    case LZT__ARROW_BOOL:
    case LZT__ARROW_STRUCT: return LZT_OK;
    case LZT__ARROW_UTF8:
    case LZT__ARROW_LIST: f->bytes = 4; return LZT_OK;
    case LZT__ARROW_LARGE_UTF8:
    case LZT__ARROW_LARGE_LIST: f->bytes = 8; return LZT_OK;
    case LZT__ARROW_INT: {
        int64_t bits = lzt__flat_number(flat, &type, 0, 4, 0);
        f->is_signed = lzt__flat_number(flat, &type, 1, 1, 0) != 0;
        f->bytes = (uint8_t)(bits / 8);
        return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? LZT_OK : broken(w, "an integer of no width");
    }
    case LZT__ARROW_FLOAT: {
        int64_t precision = lzt__flat_number(flat, &type, 0, 2, 0);
        f->bytes = precision == 2 ? 8 : 4;
        return precision == 1 || precision == 2 ? LZT_OK : refuse_column(w, f->name, "of half floats");
    }
    default:
        return refuse_column(w, f->name, number < LZT__ARROW_TYPE_COUNT ? type_names[number] : "of an unknown type");
    }
}

static lzt_status take_name(const walk *w, lzt__flat *flat, const lzt__flat_table *table, char **name)
{
    lzt__flat_vector text;
    lzt__flat_elements(flat, table, FIELD_NAME, 1, &text);
    *name = strndup((const char *)flat->at + text.begin, text.count);
    return *name ? LZT_OK : no_memory(w);
}

static lzt_status take_field(const walk *w, lzt__flat *flat, const lzt__flat_table *table, unsigned depth)
{
    lzt__arrow *a = w->a;
    if (a->field_count == FIELDS_MAX) return broken(w, "over 4096 fields");
    if (a->field_count == a->field_capacity) {
        uint32_t capacity = a->field_capacity ? 2 * a->field_capacity : 16;
        lzt__arrow_field *grown = realloc(a->field, capacity * sizeof *grown);
        if (!grown) return no_memory(w);
        a->field = grown;
        a->field_capacity = capacity;
    }
    uint32_t index = a->field_count++;
    a->field[index] = (lzt__arrow_field){0};
    lzt__flat_vector children;
    lzt__flat_table child;
    lzt_status s = take_name(w, flat, table, &a->field[index].name);
    if (!s) s = take_type(w, flat, table, &a->field[index]);
    if (s) return s;
    lzt__flat_elements(flat, table, FIELD_CHILDREN, 4, &children);
    uint8_t type = a->field[index].type;
    bool list = type == LZT__ARROW_LIST || type == LZT__ARROW_LARGE_LIST;
    if (list ? children.count != 1 : type != LZT__ARROW_STRUCT && children.count)
        return broken(w, "a field with another number of children than its type has");
    if (children.count && depth == LZT__ARROW_DEPTH_MAX)
        return refuse_column(w, a->field[index].name, "nested too deeply");
    for (uint32_t i = 0; !s && !flat->broken && i < children.count; i++) {
        lzt__flat_element(flat, &children, i, &child);
        s = take_field(w, flat, &child, depth + 1);
    }
    a->field[index].children = children.count;
    a->field[index].skip = a->field_count - index;
    return s;
}

static lzt_status take_schema(const walk *w, message *m)
{
    lzt__flat_vector fields;
    lzt__flat_table field;
    lzt_status s = LZT_OK;
    if (lzt__flat_number(&m->flat, &m->header, SCHEMA_ENDIANNESS, 2, 0))
        return lzt_fail(w->err, LZT_ERR_DATA, w->path, "the Arrow file is big-endian, which is not read");
    lzt__flat_elements(&m->flat, &m->header, SCHEMA_FIELDS, 4, &fields);
    for (uint32_t i = 0; !s && !m->flat.broken && i < fields.count; i++) {
        lzt__flat_element(&m->flat, &fields, i, &field);
        s = take_field(w, &m->flat, &field, 1);
    }
    w->a->columns = fields.count;
    return s || !m->flat.broken ? s : broken(w, "an offset that leads out of it");
}

/* ---- batches ---- */

/* The nodes and buffers of a batch, in the order in which fields take them. */
typedef struct taking {
    message *m;
    lzt__flat_vector nodes, buffers;
    uint32_t node, buffer;
} taking;

/* The next buffer, which must hold need bytes. */
static lzt_status take_buffer(const walk *w, taking *t, uint64_t need, lzt__arrow_buffer *b)
{
    if (t->buffer == t->buffers.count) return broken(w, "fewer buffers than its columns need");
    uint64_t at = t->buffers.begin + 16 * (uint64_t)t->buffer++;
    int64_t offset = lzt__flat_integer(&t->m->flat, at, 8), size = lzt__flat_integer(&t->m->flat, at + 8, 8);
    if (offset < 0 || size < 0 || (uint64_t)offset > t->m->body_size ||
        (uint64_t)size > t->m->body_size - (uint64_t)offset)
        return broken(w, "a buffer beyond the body");
    if ((uint64_t)size < need) return broken(w, "a buffer that is too short for its column");
    *b = (lzt__arrow_buffer){t->m->body + offset, (uint64_t)size};
    return LZT_OK;
}

/* The buffers of field index, and of its children; want: the values it must have, or UINT64_MAX. */
static lzt_status take_column(const walk *w, taking *t, uint32_t index, uint64_t want, lzt__arrow_column *column)
{
    const lzt__arrow_field *f = &w->a->field[index];
    lzt__arrow_column *c = &column[index];
    if (t->node == t->nodes.count) return broken(w, "fewer nodes than it has columns");
    uint64_t at = t->nodes.begin + 16 * (uint64_t)t->node++;
    int64_t length = lzt__flat_integer(&t->m->flat, at, 8), nulls = lzt__flat_integer(&t->m->flat, at + 8, 8);
    if (length < 0 || nulls < 0 || nulls > length || (want != UINT64_MAX && (uint64_t)length != want))
        return broken(w, "a column with another number of values than the batch has rows");
    if (length > INT64_MAX / 16) return broken(w, "a column of too many values");
    c->length = (uint64_t)length;
    if (f->type == LZT__ARROW_NULL) return LZT_OK;
    uint64_t bits = (c->length + 7) / 8;
    bool offsets = f->type == LZT__ARROW_UTF8 || f->type == LZT__ARROW_LARGE_UTF8 || f->type == LZT__ARROW_LIST ||
                   f->type == LZT__ARROW_LARGE_LIST;
    bool list = f->type == LZT__ARROW_LIST || f->type == LZT__ARROW_LARGE_LIST;
    lzt_status s = take_buffer(w, t, nulls ? bits : 0, &c->validity);
    if (!nulls) c->validity.size = 0;
    if (!s && offsets) s = take_buffer(w, t, c->length ? (c->length + 1) * f->bytes : 0, &c->offsets);
    if (!s && f->type != LZT__ARROW_STRUCT && !list)
        s = take_buffer(w, t, offsets ? 0 : f->type == LZT__ARROW_BOOL ? bits : c->length * f->bytes, &c->data);
    uint32_t child = index + 1;
    for (uint32_t i = 0; !s && i < f->children; i++, child += w->a->field[child].skip)
        s = take_column(w, t, child, list ? UINT64_MAX : c->length, column);
    return s;
}

static lzt_status grow_batches(const walk *w)
{
    lzt__arrow *a = w->a;
    if (a->batch_count < a->batch_capacity) return LZT_OK;
    uint64_t capacity = a->batch_capacity ? 2 * a->batch_capacity : 16;
    lzt__arrow_batch *batch = realloc(a->batch, capacity * sizeof *batch);
    if (batch) a->batch = batch;
    lzt__arrow_column *column = batch ? realloc(a->column, (capacity * a->field_count + 1) * sizeof *column) : NULL;
    if (!column) return no_memory(w);
    a->column = column;
    a->batch_capacity = capacity;
    return LZT_OK;
}

static lzt_status take_batch(const walk *w, message *m)
{
    static const char *const codecs[] = {"lz4", "zstd"};
    lzt__arrow *a = w->a;
    lzt__flat_table compression;
    taking t = {.m = m};
    int64_t length = lzt__flat_number(&m->flat, &m->header, BATCH_LENGTH, 8, 0);
    if (lzt__flat_child(&m->flat, &m->header, BATCH_COMPRESSION, &compression)) {
        int64_t codec = lzt__flat_number(&m->flat, &compression, 0, 1, 0);
        lzt_fail(w->err, LZT_ERR_DATA, w->path, "the Arrow file's buffers are compressed (%s), which is not read",
                 codec == 0 || codec == 1 ? codecs[codec] : "an unknown codec");
        return lzt_hint(w->err, "write it without compression, or compress the whole file: zstd rows.arrow");
    }
    lzt__flat_elements(&m->flat, &m->header, BATCH_NODES, 16, &t.nodes);
    lzt__flat_elements(&m->flat, &m->header, BATCH_BUFFERS, 16, &t.buffers);
    if (length < 0) return broken(w, "a negative number of rows");
    lzt_status s = grow_batches(w);
    if (s) return s;
    lzt__arrow_column *column = a->column + a->batch_count * a->field_count;
    memset(column, 0, a->field_count * sizeof *column);
    uint32_t index = 0;
    for (uint32_t i = 0; !s && i < a->columns; i++, index += a->field[index].skip)
        s = take_column(w, &t, index, (uint64_t)length, column);
    if (!s && (t.node != t.nodes.count || t.buffer != t.buffers.count))
        s = broken(w, "more buffers than its columns have");
    if (!s && m->flat.broken) s = broken(w, "an offset that leads out of it");
    if (s || !length) return s;
    a->batch[a->batch_count++] = (lzt__arrow_batch){a->rows, (uint64_t)length};
    a->rows += (uint64_t)length;
    return LZT_OK;
}

/* ---- messages ---- */

/* Reads the message at w->at and moves behind it; *end: it was the end mark. */
static lzt_status next_message(walk *w, message *m, bool *end)
{
    lzt__flat all = {w->bytes, w->size, false};
    lzt__flat_table root;
    *end = false;
    if (w->at == w->size) {
        lzt_fail(w->err, LZT_ERR_DATA, w->path, "the Arrow stream ends at byte %llu without its end mark",
                 (unsigned long long)w->at);
        return lzt_hint(w->err, "the file was cut, or its writer was not closed");
    }
    int64_t mark = lzt__flat_integer(&all, w->at, 4), length = lzt__flat_integer(&all, w->at + 4, 4);
    if (all.broken) return broken(w, "an early end");
    if (mark != -1) return broken(w, "no message mark (was it written before Arrow 0.15?)");
    *end = length == 0;
    if (*end) {
        w->at += 8;
        return LZT_OK;
    }
    if (length < 0 || (uint64_t)length > w->size - w->at - 8) return broken(w, "an early end");
    *m = (message){.flat = {w->bytes + w->at + 8, (uint64_t)length, false}};
    lzt__flat_root(&m->flat, &root);
    m->type = lzt__flat_number(&m->flat, &root, MESSAGE_HEADER_TYPE, 1, 0);
    int64_t body = lzt__flat_number(&m->flat, &root, MESSAGE_BODY_LENGTH, 8, 0);
    lzt__flat_child(&m->flat, &root, MESSAGE_HEADER, &m->header);
    uint64_t begin = w->at + 8 + (uint64_t)length;
    if (m->flat.broken || !m->header.size) return broken(w, "an offset that leads out of it");
    if (body < 0 || (uint64_t)body > w->size - begin) return broken(w, "an early end of the body");
    m->body = w->bytes + begin;
    m->body_size = (uint64_t)body;
    return LZT_OK;
}

static lzt_status walk_stream(walk *w, uint64_t max_rows)
{
    message m;
    bool end = false;
    lzt_status s = next_message(w, &m, &end);
    if (!s && (end || m.type != HEADER_SCHEMA)) s = broken(w, "no schema");
    if (!s) s = take_schema(w, &m);
    while (!s && !(max_rows && w->a->rows >= max_rows)) {
        w->at = (uint64_t)(m.body - w->bytes) + m.body_size;
        s = next_message(w, &m, &end);
        if (s || end) break;
        if (m.type == HEADER_BATCH)
            s = take_batch(w, &m);
        else
            s = m.type == HEADER_DICTIONARY
                    ? lzt_fail(w->err, LZT_ERR_DATA, w->path, "the Arrow file has dictionaries, which are not read")
                    : broken(w, "neither schema nor rows");
    }
    if (!s && !end) w->at = (uint64_t)(m.body - w->bytes) + m.body_size;
    w->a->bytes = w->at;
    if (max_rows && w->a->rows > max_rows) w->a->rows = max_rows;
    return s;
}

static bool is_file(const uint8_t *bytes, uint64_t size)
{
    return size >= MAGIC_BYTES && !memcmp(bytes, MAGIC, MAGIC_BYTES);
}

/* What follows the end mark: nothing in a stream; a footer and the magic in a file. */
static lzt_status check_tail(walk *w, bool file)
{
    bool magic = w->size - w->at >= MAGIC_BYTES && is_file(w->bytes + w->size - MAGIC_BYTES, MAGIC_BYTES);
    if (file && !magic) return broken(w, "a cut footer");
    if (!file && w->at != w->size) return broken(w, "data behind the end mark");
    return LZT_OK;
}

bool lzt__arrow_begins(const char *bytes, uint64_t size)
{
    return size >= 8 && (!memcmp(bytes, "\xff\xff\xff\xff", 4) || is_file((const uint8_t *)bytes, size));
}

lzt_status lzt__arrow_open(const char *bytes, uint64_t size, uint64_t max_rows, const char *path, lzt__arrow **arrow,
                           lzt_error *err)
{
    walk w = {.a = calloc(1, sizeof *w.a), .path = path, .bytes = (const uint8_t *)bytes, .size = size, .err = err};
    bool file = is_file(w.bytes, size), stopped;
    *arrow = NULL;
    if (!w.a) return no_memory(&w);
    w.at = file ? 8 : 0;
    lzt_status s = walk_stream(&w, max_rows);
    stopped = max_rows && w.a->rows == max_rows;
    if (!s && !stopped) s = check_tail(&w, file);
    if (s) {
        lzt__arrow_close(w.a);
        return s;
    }
    *arrow = w.a;
    return LZT_OK;
}

void lzt__arrow_close(lzt__arrow *a)
{
    if (!a) return;
    for (uint32_t i = 0; i < a->field_count; i++) free(a->field[i].name);
    free(a->field);
    free(a->batch);
    free(a->column);
    free(a);
}

uint64_t lzt__arrow_rows(const lzt__arrow *a)
{
    return a->rows;
}

uint64_t lzt__arrow_bytes(const lzt__arrow *a)
{
    return a->bytes;
}
