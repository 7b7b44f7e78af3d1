/* From the text of `dataset` to open files: see row_source.h. */
#include "data/source/row_source.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define USUAL_DIRECTORY "data" /* where LLaMA-Factory looks when dataset_dir is not given */

static lzt_status no_memory(const char *names, lzt_error *err)
{
    return lzt_fail(err, LZT_ERR_NO_MEMORY, names, "no memory for the list of datasets");
}

static void source_fini(lzt__source *s)
{
    lzt__rowfile_close(&s->file);
    for (int i = 0; i < LZT__COLUMN_COUNT; i++) free(s->shape.column[i]);
    for (int i = 0; i < LZT__TAG_COUNT; i++) free(s->shape.tag[i]);
    free(s->name);
    free(s->path);
}

void lzt__sources_close(lzt__sources *sources)
{
    for (uint64_t i = 0; i < sources->count; i++) source_fini(&sources->at[i]);
    free(sources->at);
    *sources = (lzt__sources){0};
}

static lzt__source *add(lzt__sources *sources, const char *name, size_t size)
{
    lzt__source *grown = realloc(sources->at, (sources->count + 1) * sizeof *grown);
    if (!grown) return NULL;
    sources->at = grown;
    grown[sources->count] = (lzt__source){.name = strndup(name, size)};
    if (!grown[sources->count].name) return NULL;
    return &grown[sources->count++];
}

static bool is_file(const char *path)
{
    return !access(path, F_OK);
}

static lzt_status use_file(lzt__source *s, lzt_error *err)
{
    s->path = strdup(s->name);
    return s->path ? LZT_OK : no_memory(s->name, err);
}

/* A name of the registry if it is one there; else a file. */
static lzt_status find_one(lzt__source *s, const char *directory, lzt_error *err)
{
    bool found = false;
    lzt_status status = LZT_OK;
    if (directory)
        status = lzt__registry_find(directory, !is_file(s->name), s, &found, err);
    else if (!is_file(s->name) && is_file(USUAL_DIRECTORY "/dataset_info.json"))
        status = lzt__registry_find(USUAL_DIRECTORY, true, s, &found, err);
    return status || found ? status : use_file(s, err);
}

/* The next name of a list with commas: its begin and size without the spaces around it. */
static const char *next_name(const char *at, const char **name, size_t *size)
{
    const char *end = strchrnul(at, ',');
    *name = at + strspn(at, " \t");
    *size = *name < end ? (size_t)(end - *name) : 0;
    while (*size && ((*name)[*size - 1] == ' ' || (*name)[*size - 1] == '\t')) --*size;
    return *end ? end + 1 : NULL;
}

lzt_status lzt__sources_find(const char *names, const char *dataset_dir, lzt__sources *sources, lzt_error *err)
{
    *sources = (lzt__sources){0};
    lzt_status status = LZT_OK;
    const char *name = names;
    size_t size = strlen(names);
    bool whole = !strchr(names, ',') || is_file(names);
    for (const char *at = names; !status && at;) {
        at = whole ? NULL : next_name(at, &name, &size);
        lzt__source *s = size ? add(sources, name, size) : NULL;
        if (!size)
            status = lzt_fail(err, LZT_ERR_USAGE, "dataset", "\"%.200s\" has an empty name between commas", names);
        else
            status = s ? find_one(s, dataset_dir, err) : no_memory(names, err);
    }
    if (status) lzt__sources_close(sources);
    return status;
}

static lzt_status open_one(lzt__source *s, uint64_t max_rows, lzt_error *err)
{
    uint64_t most = s->samples && (!max_rows || s->samples < max_rows) ? s->samples : max_rows;
    lzt_status status = lzt__rowfile_open(s->path, most, &s->file, err);
    if (status || !s->samples || s->file.row_count == most) return status;
    lzt_fail(err, LZT_ERR_DATA, s->path, "the file has %llu rows, dataset_info.json asks for %llu",
             (unsigned long long)s->file.row_count, (unsigned long long)s->samples);
    return lzt_hint(err, "correct num_samples of \"%s\"", s->name);
}

lzt_status lzt__sources_open(lzt__sources *sources, uint64_t max_rows, lzt_error *err)
{
    for (uint64_t i = 0; i < sources->count; i++) {
        lzt__source *s = &sources->at[i];
        lzt_status status = open_one(s, max_rows, err);
        if (!status && !s->file.row_count && sources->count > 1)
            status = lzt_fail(err, LZT_ERR_DATA, s->path, "the dataset has no rows (%llu blank lines)",
                              (unsigned long long)s->file.blank_lines);
        if (status) return status;
        s->first = sources->rows;
        sources->rows += s->file.row_count;
        sources->bytes += s->file.size;
    }
    return LZT_OK;
}

lzt__source *lzt__sources_of(const lzt__sources *sources, uint64_t row)
{
    assert(row < sources->rows);
    uint64_t low = 0, high = sources->count - 1; /* the last one that begins at or before row */
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        if (sources->at[middle].first <= row)
            low = middle;
        else
            high = middle - 1;
    }
    return &sources->at[low];
}
