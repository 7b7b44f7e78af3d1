/* dataset_info.json: LLaMA-Factory's registry of data sets. See row_source.h and docs/formats/data.md.
 *
 *     {"math": {"file_name": "math.jsonl", "formatting": "alpaca", "columns": {"prompt": "q", "response": "a"}}}
 *
 * Only entries that are used are judged. Where an entry has neither formatting nor columns nor tags, each row's format
 * is told by its fields, as it is for a file.
 */
#include "base/os.h"
#include "base/jsontree.h"
#include "data/source/row_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX (UINT64_C(64) << 20)

static const char *const column_names[LZT__COLUMN_COUNT] = {"prompt", "query",    "response", "history",
                                                            "system", "messages", "tools",    "weight"};
static const char *const column_usual[LZT__COLUMN_COUNT] = {"instruction", "input",         "output", NULL,
                                                            NULL,          "conversations", NULL,     NULL};
static const char *const tag_names[LZT__TAG_COUNT] = {"role_tag",        "content_tag",  "user_tag",  "assistant_tag",
                                                      "observation_tag", "function_tag", "system_tag"};
static const char *const tag_usual[2][LZT__TAG_COUNT] = {
    {"from", "value", "human", "gpt", "observation", "function_call", "system"},
    {"role", "content", "user", "assistant", "tool", "function_call", "system"}};

/* Members of an entry that ask for what is not done here, and why not. */
static const struct {
    const char *key, *why;
} refused[] = {{"hf_hub_url", "there is no network: download the data set and name its file as file_name"},
               {"ms_hub_url", "there is no network: download the data set and name its file as file_name"},
               {"om_hub_url", "there is no network: download the data set and name its file as file_name"},
               {"cloud_file_name", "there is no network: download the file and name it as file_name"},
               {"script_url", "scripts of data sets are not run: name the file it makes as file_name"},
               {"subset", "there is no network: download that subset and name its file as file_name"}};
static const char *const known[] = {"file_name",   "formatting", "columns", "tags",
                                    "num_samples", "split",      "ranking", "file_sha1"};

typedef struct reading {
    const char *where; /* of the registry */
    lzt__source *source;
    lzt_error *err;
} reading;

static lzt_status fail(const reading *r, const char *key, const char *what)
{
    return lzt_fail(r->err, LZT_ERR_USAGE, r->where, "\"%s\": %s %s", r->source->name, key, what);
}

static lzt_status copy(const reading *r, const char *text, size_t size, char **to)
{
    *to = strndup(text, size);
    return *to ? LZT_OK : lzt_fail(r->err, LZT_ERR_NO_MEMORY, r->where, "no memory for an entry");
}

static bool is_one_of(const lzt__json *member, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (member->key_size == strlen(names[i]) && !memcmp(member->key, names[i], member->key_size)) return true;
    return false;
}

/* Members of columns or tags into fields; names that are not there get their usual value, or none. */
static lzt_status take_names(const reading *r, const char *key, const lzt__json *map, const char *const *names,
                             const char *const *usual, int count, char **field)
{
    lzt_status s = LZT_OK;
    if (map && map->type != LZT__JSON_OBJECT) return fail(r, key, "is not an object of names");
    const lzt__json *m = map ? lzt__json_child(map) : NULL;
    for (uint32_t i = 0; map && i < map->size; i++, m = lzt__json_next(m))
        if (!is_one_of(m, names, (size_t)count))
            return lzt_fail(r->err, LZT_ERR_USAGE, r->where, "\"%s\": %s has \"%.*s\", which is not supported",
                            r->source->name, key, (int)(m->key_size > 60 ? 60 : m->key_size), m->key);
    for (int i = 0; !s && i < count; i++) {
        const lzt__json *given = lzt__json_get(map, names[i]);
        if (given && given->type != LZT__JSON_NULL && given->type != LZT__JSON_STRING)
            s = fail(r, names[i], "is not the name of a field");
        else if (given && given->type == LZT__JSON_STRING)
            s = copy(r, given->text, given->size, &field[i]);
        else if (!given && usual[i])
            s = copy(r, usual[i], strlen(usual[i]), &field[i]);
    }
    return s;
}

static lzt_status take_formatting(const reading *r, const lzt__json *entry)
{
    static const char *const names[] = {"alpaca", "sharegpt", "openai"};
    lzt__rowshape *shape = &r->source->shape;
    const lzt__json *formatting = lzt__json_get(entry, "formatting");
    bool shaped = lzt__json_get(entry, "columns") || lzt__json_get(entry, "tags");
    shape->formatting = shaped ? LZT__FORMAT_ALPACA : LZT__FORMAT_DETECTED;
    if (!formatting) return LZT_OK;
    for (int i = 0; i < 3; i++)
        if (lzt__json_is_string(formatting, names[i])) {
            shape->formatting = (lzt__formatting)(LZT__FORMAT_ALPACA + i);
            return LZT_OK;
        }
    fail(r, "formatting", "is none that is known");
    return lzt_hint(r->err, "alpaca, sharegpt or openai");
}

/* A table that names some columns has no others, but for those without which there is no row. */
static void usual_columns(const lzt__json *columns, lzt__formatting formatting, const char *usual[LZT__COLUMN_COUNT])
{
    for (int i = 0; i < LZT__COLUMN_COUNT; i++) {
        bool needed = formatting == LZT__FORMAT_ALPACA ? i == LZT__COLUMN_PROMPT : i == LZT__COLUMN_MESSAGES;
        usual[i] = !columns || needed ? column_usual[i] : NULL;
    }
    if (formatting == LZT__FORMAT_OPENAI) usual[LZT__COLUMN_MESSAGES] = "messages";
}

static lzt_status take_shape(const reading *r, const lzt__json *entry)
{
    lzt__rowshape *shape = &r->source->shape;
    const lzt__json *columns = lzt__json_get(entry, "columns");
    const char *usual[LZT__COLUMN_COUNT];
    lzt_status s = take_formatting(r, entry);
    if (s || shape->formatting == LZT__FORMAT_DETECTED) return s;
    usual_columns(columns, shape->formatting, usual);
    shape->names_columns = columns != NULL;
    s = take_names(r, "columns", columns, column_names, usual, LZT__COLUMN_COUNT, shape->column);
    bool openai = shape->formatting == LZT__FORMAT_OPENAI;
    if (!s)
        s = take_names(r, "tags", lzt__json_get(entry, "tags"), tag_names, tag_usual[openai], LZT__TAG_COUNT,
                       shape->tag);
    for (int i = 0; !s && openai && i < LZT__TAG_COUNT; i++)
        if (!shape->tag[i] || strcmp(shape->tag[i], tag_usual[1][i])) {
            s = fail(r, tag_names[i], "differs from OpenAI's");
            lzt_hint(r->err, "use formatting: sharegpt for messages with other names");
        }
    return s;
}

static lzt_status refuse_members(const reading *r, const lzt__json *entry)
{
    const lzt__json *m = lzt__json_child(entry), *split = lzt__json_get(entry, "split");
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const lzt__json *found = lzt__json_get(entry, refused[i].key);
        if (!found || found->type == LZT__JSON_NULL) continue;
        fail(r, refused[i].key, "is not supported");
        return lzt_hint(r->err, "%s", refused[i].why);
    }
    if (split && split->type != LZT__JSON_NULL && !lzt__json_is_string(split, "train")) {
        fail(r, "split", "is not supported");
        return lzt_hint(r->err, "a file has one split; there is no network to fetch another from");
    }
    if (lzt__json_flag(entry, "ranking", false))
        return fail(r, "ranking", "is not supported: only supervised training exists");
    for (uint32_t i = 0; i < entry->size; i++, m = lzt__json_next(m)) {
        bool named = is_one_of(m, known, sizeof known / sizeof known[0]);
        for (size_t k = 0; k < sizeof refused / sizeof refused[0]; k++)
            named = named || is_one_of(m, &refused[k].key, 1);
        if (named) continue;
        lzt_fail(r->err, LZT_ERR_USAGE, r->where, "\"%s\" has the unknown member \"%.*s\"", r->source->name,
                 (int)(m->key_size > 60 ? 60 : m->key_size), m->key);
        return lzt_hint(r->err, "known are file_name, formatting, columns, tags, num_samples, split and ranking");
    }
    return LZT_OK;
}

static lzt_status take_samples(const reading *r, const lzt__json *entry)
{
    const lzt__json *samples = lzt__json_get(entry, "num_samples");
    int64_t n;
    if (!samples || samples->type == LZT__JSON_NULL) return LZT_OK;
    if (!lzt__json_integer(samples, &n) || n < 1) return fail(r, "num_samples", "is not a number of rows");
    r->source->samples = (uint64_t)n;
    return LZT_OK;
}

static lzt_status take_entry(const reading *r, const char *directory, const lzt__json *entry)
{
    const lzt__json *file = lzt__json_get(entry, "file_name");
    if (entry->type != LZT__JSON_OBJECT) return fail(r, "the entry", "is not an object");
    lzt_status s = refuse_members(r, entry);
    if (s) return s;
    if (!file || file->type != LZT__JSON_STRING || !file->size) return fail(r, "file_name", "is missing");
    if (file->text[0] == '/') {
        s = copy(r, file->text, file->size, &r->source->path);
    } else if (asprintf(&r->source->path, "%s/%.*s", directory, (int)file->size, file->text) < 0) {
        r->source->path = NULL;
        s = lzt_fail(r->err, LZT_ERR_NO_MEMORY, r->where, "no memory for an entry");
    }
    if (!s) s = take_samples(r, entry);
    return s ? s : take_shape(r, entry);
}

/* The names of a registry, as far as they fit. */
static lzt_status unknown(const reading *r, const lzt__json *root)
{
    char list[400] = "";
    size_t used = 0;
    const lzt__json *m = lzt__json_child(root);
    for (uint32_t i = 0; i < root->size; i++, m = lzt__json_next(m)) {
        if (used + m->key_size + 8 > sizeof list) {
            used += (size_t)snprintf(list + used, sizeof list - used, ", ...");
            break;
        }
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%.*s", i ? ", " : "", (int)m->key_size, m->key);
    }
    lzt_fail(r->err, LZT_ERR_USAGE, r->where, "there is no data set \"%.200s\"", r->source->name);
    return lzt_hint(r->err, "%s%s", used ? "there are: " : "it has no entries", list);
}

static lzt_status find(const reading *r, const char *directory, bool required, const lzt__json *root, bool *found)
{
    const lzt__json *entry = lzt__json_get(root, r->source->name);
    if (root->type != LZT__JSON_OBJECT)
        return lzt_fail(r->err, LZT_ERR_DATA, r->where, "is not an object of data sets");
    *found = entry != NULL;
    if (entry) return take_entry(r, directory, entry);
    return required ? unknown(r, root) : LZT_OK;
}

lzt_status lzt__registry_find(const char *directory, bool required, lzt__source *source, bool *found, lzt_error *err)
{
    char where[480], *text;
    uint64_t size;
    lzt__json_doc doc = {0};
    snprintf(where, sizeof where, "%s/dataset_info.json", directory);
    *found = false;
    lzt_status s = lzt__os_read_file(lzt__os_posix(), where, FILE_BYTES_MAX, &text, &size, err);
    if (s == LZT_ERR_STORAGE && err) err->status = LZT_ERR_DATA;
    if (s) return s == LZT_ERR_STORAGE ? LZT_ERR_DATA : s;
    uint64_t begin = size >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
    s = lzt__json_parse(&doc, text + begin, size - begin, where, err);
    const reading r = {where, source, err};
    if (!s) s = find(&r, directory, required, doc.node, found);
    lzt__json_free(&doc);
    free(text);
    return s;
}
