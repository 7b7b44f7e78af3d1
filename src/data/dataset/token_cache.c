/* The file of made rows: see token_cache.h. */
#include "data/dataset/token_cache.h"

#include "base/staging.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

#define WRITE_BYTES (UINT64_C(1) << 20)

static const char magic[8] = "LZTROWS";

typedef struct trailer {
    char magic[8];
    uint64_t version, key[2], rows;
    uint64_t token_words; /* int32 before the records */
    uint64_t content[2];  /* hash of everything before the trailer */
    uint64_t own;         /* hash of the fields above */
} trailer;

struct lzt__token_cache {
    char *map;
    uint64_t bytes, rows;
    const int32_t *words;
    const lzt__row_facts *record; /* [rows] */
};

struct lzt__token_writer {
    lzt__staging staging;
    lzt__staging_file file;
    XXH3_state_t *hash;
    lzt__token_key key;
    lzt__row_facts *record; /* [rows] */
    uint64_t rows, words;
    char *buffer; /* [WRITE_BYTES] */
    uint64_t buffered;
    bool is_open; /* file */
};

void lzt__token_cache_path(const char *directory, lzt__token_key key, char *path, uint64_t size)
{
    snprintf(path, size, "%s/%016llx%016llx/rows", directory, (unsigned long long)key.word[1],
             (unsigned long long)key.word[0]);
}

static uint64_t hash_of_trailer(const trailer *t)
{
    return XXH3_64bits(t, offsetof(trailer, own));
}

/* ---- reading ---- */

static bool damaged(char damage[256], const char *what)
{
    snprintf(damage, 256, "%s", what);
    return false;
}

/* Of a row: always an even number, so that the records behind the rows are aligned to 8 bytes. */
static uint64_t words_of(const lzt__row_facts *r)
{
    uint64_t n = r->tokens;
    return r->facts & LZT__FACT_WEIGHTED ? 3 * n + n % 2 : 2 * n;
}

/* The records name only words that are there. */
static bool records_are_sound(const lzt__token_cache *c, uint64_t words)
{
    for (uint64_t i = 0; i < c->rows; i++) {
        const lzt__row_facts *r = &c->record[i];
        if (r->offset > words || words - r->offset < words_of(r) || r->trained > r->tokens) return false;
    }
    return true;
}

static bool is_sound(lzt__token_cache *c, lzt__token_key key, uint64_t rows, char damage[256])
{
    trailer t;
    if (c->bytes < sizeof t) return damaged(damage, "it is cut");
    memcpy(&t, c->map + c->bytes - sizeof t, sizeof t);
    if (memcmp(t.magic, magic, sizeof magic) || t.own != hash_of_trailer(&t))
        return damaged(damage, "its trailer is not what was written");
    if (t.version != LZT__TOKEN_CACHE_VERSION) return damaged(damage, "it is of another version");
    if (t.key[0] != key.word[0] || t.key[1] != key.word[1] || t.rows != rows)
        return damaged(damage, "it belongs to other rows");
    uint64_t content = c->bytes - sizeof t;
    if (t.token_words > content / 4 || (content - 4 * t.token_words) / sizeof(lzt__row_facts) != rows ||
        (content - 4 * t.token_words) % sizeof(lzt__row_facts))
        return damaged(damage, "its sizes do not add up");
    XXH128_hash_t hash = XXH3_128bits(c->map, content);
    if (hash.low64 != t.content[0] || hash.high64 != t.content[1])
        return damaged(damage, "its content is not what was written");
    c->rows = rows;
    c->words = (const int32_t *)c->map;
    c->record = (const lzt__row_facts *)(c->map + 4 * t.token_words); /* token_words is even: see words_of */
    return records_are_sound(c, t.token_words) || damaged(damage, "its records are wrong");
}

lzt_status lzt__token_cache_open(const char *directory, lzt__token_key key, uint64_t rows, lzt__token_cache **cache,
                                 char damage[256], lzt_error *err)
{
    char path[4096];
    struct stat st;
    const lzt_os *os = lzt__os_posix();
    *cache = NULL;
    damage[0] = 0;
    lzt__token_cache_path(directory, key, path, sizeof path);
    int fd = os->openat(os, AT_FDCWD, path, O_RDONLY, 0);
    if (fd < 0) {
        if (fd != -ENOENT && fd != -ENOTDIR) snprintf(damage, 256, "it cannot be opened: %s", strerror(-fd));
        return LZT_OK;
    }
    lzt__token_cache *c = calloc(1, sizeof *c);
    if (!c) {
        os->close(os, fd);
        return lzt_fail(err, LZT_ERR_NO_MEMORY, path, "no memory for a token cache");
    }
    bool ok = os->fstat(os, fd, &st) >= 0 && S_ISREG(st.st_mode) && st.st_size > 0;
    c->bytes = ok ? (uint64_t)st.st_size : 0;
    c->map = ok ? mmap(NULL, c->bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    os->close(os, fd);
    if (c->map == MAP_FAILED) {
        c->map = NULL;
        ok = damaged(damage, "it is empty, or cannot be mapped");
    }
    if (ok && is_sound(c, key, rows, damage))
        *cache = c;
    else
        lzt__token_cache_close(c);
    return LZT_OK;
}

void lzt__token_cache_close(lzt__token_cache *c)
{
    if (!c) return;
    if (c->map) munmap(c->map, c->bytes);
    free(c);
}

const lzt__row_facts *lzt__token_cache_row(const lzt__token_cache *c, uint64_t row)
{
    return row < c->rows && c->record[row].facts & LZT__FACT_KNOWN ? &c->record[row] : NULL;
}

const int32_t *lzt__token_cache_tokens(const lzt__token_cache *c, const lzt__row_facts *row)
{
    return c->words + row->offset;
}

const float *lzt__token_cache_weights(const lzt__token_cache *c, const lzt__row_facts *row)
{
    if (!(row->facts & LZT__FACT_WEIGHTED)) return NULL;
    return (const float *)(const void *)(c->words + row->offset + 2 * (uint64_t)row->tokens);
}

/* ---- writing ---- */

lzt_status lzt__token_writer_create(const char *directory, lzt__token_key key, uint64_t rows,
                                    lzt__token_writer **writer, lzt_error *err)
{
    char path[4096];
    *writer = NULL;
    lzt__token_cache_path(directory, key, path, sizeof path);
    *strrchr(path, '/') = 0;
    lzt__token_writer *w = calloc(1, sizeof *w);
    if (!w) return lzt_fail(err, LZT_ERR_NO_MEMORY, path, "no memory for a token cache");
    w->key = key;
    w->rows = rows;
    w->record = calloc(rows + 1, sizeof *w->record);
    w->buffer = malloc(WRITE_BYTES);
    w->hash = XXH3_createState();
    lzt_status s = w->record && w->buffer && w->hash
                       ? LZT_OK
                       : lzt_fail(err, LZT_ERR_NO_MEMORY, path, "no memory for a token cache");
    if (!s) s = lzt__staging_open(lzt__os_posix(), path, &w->staging, err);
    if (s) {
        XXH3_freeState(w->hash);
        free(w->record);
        free(w->buffer);
        free(w);
        return s;
    }
    XXH3_128bits_reset(w->hash);
    *writer = w;
    s = lzt__staging_create(&w->staging, "rows", &w->file, err);
    w->is_open = !s;
    w->file.hash = w->hash;
    if (s) {
        lzt__token_writer_destroy(w);
        *writer = NULL;
    }
    return s;
}

static lzt_status flush(lzt__token_writer *w, lzt_error *err)
{
    lzt_status s = w->buffered ? lzt__staging_write(&w->file, w->buffer, w->buffered, err) : LZT_OK;
    w->buffered = 0;
    return s;
}

static lzt_status put(lzt__token_writer *w, const void *data, uint64_t bytes, lzt_error *err)
{
    lzt_status s = LZT_OK;
    if (bytes > WRITE_BYTES - w->buffered) s = flush(w, err);
    if (s) return s;
    if (bytes > WRITE_BYTES) return lzt__staging_write(&w->file, data, bytes, err);
    memcpy(w->buffer + w->buffered, data, bytes);
    w->buffered += bytes;
    return LZT_OK;
}

lzt_status lzt__token_writer_add(lzt__token_writer *w, uint64_t row, const lzt__row_facts *facts, const int32_t *ids,
                                 const int32_t *labels, const float *weights, lzt_error *err)
{
    static const float padding = 0;
    uint64_t n = facts->tokens;
    bool weighted = facts->facts & LZT__FACT_WEIGHTED;
    lzt_status s = put(w, ids, n * sizeof *ids, err);
    if (!s) s = put(w, labels, n * sizeof *labels, err);
    if (!s && weighted) s = put(w, weights, n * sizeof *weights, err);
    if (!s && weighted && n % 2) s = put(w, &padding, sizeof padding, err);
    if (s) return s;
    w->record[row] = *facts;
    w->record[row].facts |= LZT__FACT_KNOWN;
    w->record[row].offset = w->words;
    w->words += words_of(facts);
    return LZT_OK;
}

lzt_status lzt__token_writer_publish(lzt__token_writer *w, lzt_error *err)
{
    trailer t = {.version = LZT__TOKEN_CACHE_VERSION,
                 .key = {w->key.word[0], w->key.word[1]},
                 .rows = w->rows,
                 .token_words = w->words};
    lzt_status s = flush(w, err);
    if (!s) s = lzt__staging_write(&w->file, w->record, w->rows * sizeof *w->record, err);
    if (s) return s;
    memcpy(t.magic, magic, sizeof magic);
    XXH128_hash_t hash = XXH3_128bits_digest(w->hash);
    t.content[0] = hash.low64;
    t.content[1] = hash.high64;
    t.own = hash_of_trailer(&t);
    s = lzt__staging_write(&w->file, &t, sizeof t, err);
    if (s) return s;
    w->is_open = false;
    s = lzt__staging_finish(&w->file, err);
    return s ? s : lzt__staging_publish(&w->staging, true, err);
}

void lzt__token_writer_destroy(lzt__token_writer *w)
{
    if (!w) return;
    if (w->is_open) lzt__staging_drop(&w->file);
    lzt__staging_close(&w->staging);
    XXH3_freeState(w->hash);
    free(w->record);
    free(w->buffer);
    free(w);
}
