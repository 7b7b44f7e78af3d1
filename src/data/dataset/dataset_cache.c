/* A dataset and its token cache: the key, and what is found or made under it. See dataset.h, token_cache.h.
 *
 * The key is a hash of everything that the made rows depend on. What is left out is what does not change a row: mixing,
 * order, batches. A file counts with the bytes of its rows, which are hashed as they are found.
 */
#include "data/dataset/dataset.h"

#include "base/build_id.h"
#include "data/template/chat.h"
#include "data/tokenizer/tokenizer_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static void add(XXH3_state_t *h, const void *data, uint64_t size)
{
    XXH3_128bits_update(h, &size, sizeof size); /* so that neighbours cannot run into one another */
    XXH3_128bits_update(h, data, size);
}

static void add_text(XXH3_state_t *h, const char *text)
{
    uint64_t is_null = !text;
    add(h, &is_null, sizeof is_null);
    if (text) add(h, text, strlen(text));
}

static void add_options(XXH3_state_t *h, const lzt_dataset *d)
{
    const lzt_dataset_options *o = &d->o;
    const uint64_t numbers[] = {
        o->vocabulary,           o->max_seq_length,    o->max_samples,    (uint64_t)o->on_bad_row,
        (uint64_t)o->truncation, (uint64_t)o->loss_on, (uint64_t)o->side, o->val_size > 0 ? o->split_seed : 0};
    add(h, numbers, sizeof numbers);
    add(h, &o->val_size, sizeof o->val_size);
    add_text(h, d->query_field);
    add_text(h, d->response_field);
}

static void add_source(XXH3_state_t *h, const lzt__source *s)
{
    const uint64_t numbers[] = {(uint64_t)s->shape.formatting, s->shape.names_columns, (uint64_t)s->file.kind,
                                s->file.row_count};
    add(h, numbers, sizeof numbers);
    for (int i = 0; i < LZT__COLUMN_COUNT; i++) add_text(h, s->shape.column[i]);
    for (int i = 0; i < LZT__TAG_COUNT; i++) add_text(h, s->shape.tag[i]);
    add(h, s->file.content, sizeof s->file.content);
}

lzt_status lzt__dataset_settings_hash(const lzt_dataset *d, XXH128_hash_t *hash, lzt_error *err)
{
    XXH3_state_t *h = XXH3_createState();
    if (!h) return lzt_fail(err, LZT_ERR_NO_MEMORY, d->path, "no memory for a hash");
    uint64_t chat[2] = {0, 0};
    XXH3_128bits_reset(h);
    if (d->o.tokenizer) add(h, d->o.tokenizer->fingerprint, sizeof d->o.tokenizer->fingerprint);
    if (d->o.chat) lzt__chat_fingerprint(d->o.chat, chat);
    add(h, chat, sizeof chat);
    add_options(h, d);
    for (uint64_t i = 0; i < d->sources.count; i++) add_source(h, &d->sources.at[i]);
    *hash = XXH3_128bits_digest(h);
    XXH3_freeState(h);
    return LZT_OK;
}

/* Rows that another program made may be others: its version and its build are in the key. */
static lzt_status make_key(const lzt_dataset *d, lzt__token_key *key, lzt_error *err)
{
    XXH128_hash_t settings;
    lzt_status s = lzt__dataset_settings_hash(d, &settings, err);
    if (s) return s;
    const uint64_t all[] = {LZT__TOKEN_CACHE_VERSION, lzt__build_id(), settings.low64, settings.high64};
    XXH128_hash_t hash = XXH3_128bits_withSeed(all, sizeof all, XXH3_64bits(lzt_version(), strlen(lzt_version())));
    *key = (lzt__token_key){{hash.low64, hash.high64}};
    return LZT_OK;
}

/* The cache is a help, never a reason to fail: what goes wrong with it is told, and the rows are made without. */
static void give_up(lzt_dataset *d, const lzt_error *why)
{
    lzt__token_writer_destroy(d->writer);
    d->writer = NULL;
    d->report.cache = LZT_CACHE_NOT_WRITTEN;
    snprintf(d->cache_note, sizeof d->cache_note, "%.100s: %.140s", why->where, why->message);
}

static void describe(lzt_dataset *d, lzt_cache_use use)
{
    d->report.cache = use;
    d->report.cache_path = d->cache_path;
    d->report.cache_note = d->cache_note;
}

static lzt_status open_cache(lzt_dataset *d, lzt_error *err)
{
    return lzt__token_cache_open(d->o.cache_dir, d->key, d->sources.rows, &d->cache, d->cache_note, err);
}

lzt_status lzt__dataset_cache_find(lzt_dataset *d, lzt_error *err)
{
    lzt_error why = {0};
    if (!d->o.cache_dir || !d->o.tokenizer || !d->sources.rows) return LZT_OK;
    lzt_status s = make_key(d, &d->key, err);
    if (s) return s;
    lzt__token_cache_path(d->o.cache_dir, d->key, d->cache_path, sizeof d->cache_path);
    s = open_cache(d, err);
    if (s) return s;
    if (d->cache) {
        describe(d, LZT_CACHE_USED);
        d->o.lazy = d->report.lazy = false; /* every row is known */
        return LZT_OK;
    }
    if (d->o.lazy && !d->o.cache_large) return LZT_OK;
    d->o.lazy = d->report.lazy = false;
    describe(d, d->cache_note[0] ? LZT_CACHE_REMADE : LZT_CACHE_MADE);
    if (lzt__token_writer_create(d->o.cache_dir, d->key, d->sources.rows, &d->writer, &why)) give_up(d, &why);
    return LZT_OK;
}

void lzt__dataset_cache_keep(lzt_dataset *d, uint64_t row, const lzt__row_facts *facts)
{
    lzt_error why = {0};
    const lzt__rowbuf *b = &d->buf;
    if (d->writer && lzt__token_writer_add(d->writer, row, facts, b->ids, b->labels, b->weights, &why))
        give_up(d, &why);
}

lzt_status lzt__dataset_cache_finish(lzt_dataset *d, lzt_error *err)
{
    lzt_error why = {0};
    char damage[sizeof d->cache_note];
    if (!d->writer) return LZT_OK;
    if (lzt__token_writer_publish(d->writer, &why)) {
        give_up(d, &why);
        return LZT_OK;
    }
    lzt__token_writer_destroy(d->writer);
    d->writer = NULL;
    memcpy(damage, d->cache_note, sizeof damage); /* of the one that was there before */
    lzt_status s = open_cache(d, err);            /* another process may have replaced it: then rows are made anew */
    memcpy(d->cache_note, damage, sizeof damage);
    return s;
}

void lzt__dataset_cache_close(lzt_dataset *d)
{
    lzt__token_writer_destroy(d->writer);
    lzt__token_cache_close(d->cache);
}
