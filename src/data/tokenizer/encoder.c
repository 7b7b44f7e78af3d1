/* Text to ids: the chain of tokenizer_parts.h, with a cache of short pieces. See lazytrain/tokenizer.h. */
#include "data/tokenizer/tokenizer_parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_BITS 15
#define CACHE_KEY  15 /* bytes of a cached piece */
#define CACHE_IDS  4

/* key: the piece's bytes, zeros, and in the last byte its size; count 0: free. */
typedef struct cached {
    uint64_t key[2];
    uint32_t id[CACHE_IDS];
} cached;

struct lzt_encoder {
    const lzt_tokenizer *t;
    cached *cache;
    uint8_t *cached_count; /* [1 << CACHE_BITS] */
    int32_t *ids;
    uint32_t *begin;
    uint64_t count, capacity;
    lzt__pieces pieces[2];
    lzt__split_scratch split;
    lzt__bpe_scratch bpe;
    lzt__traced text[2]; /* of normalisers */
    lzt__json_doc doc;   /* of encode_json */
};

/* A stretch of text between added tokens. origin: NULL where its bytes are the original's. */
typedef struct stretch {
    const char *bytes;
    const uint32_t *origin;
    uint32_t begin, end; /* of bytes */
} stretch;

static uint32_t origin_of(const stretch *s, uint32_t at)
{
    return s->origin ? s->origin[at] : at;
}

static lzt_status reserve(lzt_encoder *e, uint64_t more, lzt_error *err)
{
    if (e->capacity - e->count >= more) return LZT_OK;
    uint64_t capacity = e->count + more + e->count / 2 + 256;
    int32_t *ids = realloc(e->ids, capacity * sizeof *ids);
    if (ids) e->ids = ids;
    uint32_t *begin = ids ? realloc(e->begin, capacity * sizeof *begin) : NULL;
    if (!begin) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for token ids");
    e->begin = begin;
    e->capacity = capacity;
    return LZT_OK;
}

static inline void emit(lzt_encoder *e, uint32_t id, uint32_t begin)
{
    e->ids[e->count] = (int32_t)id;
    e->begin[e->count++] = begin;
}

/* ---- the models; each leaves its symbols in bpe.symbol ---- */

static uint32_t model_bytes(lzt_encoder *e, const char *text, uint32_t size)
{
    const lzt_tokenizer *t = e->t;
    uint32_t n = 0;
    if (t->ignore_merges) {
        uint32_t id = lzt__vocab_find(&t->vocab, text, size);
        if (id != LZT__BPE_NONE) {
            e->bpe.symbol[0] = (lzt__symbol){id, 0};
            return 1;
        }
    }
    for (uint32_t i = 0; i < size; i++) {
        uint32_t id = t->byte_id[(unsigned char)text[i]];
        if (id == LZT__BPE_NONE) id = t->unk;
        if (id != LZT__BPE_NONE) e->bpe.symbol[n++] = (lzt__symbol){id, i};
    }
    return lzt__bpe_merge(&t->bpe, &e->bpe, n);
}

/* An unknown character: its bytes if the vocabulary has all of them. */
static bool fall_back(lzt_encoder *e, const char *text, uint32_t size, uint32_t at, uint32_t *n)
{
    if (!e->t->byte_fallback) return false;
    for (uint32_t k = 0; k < size; k++)
        if (e->t->byte_id[(unsigned char)text[k]] == LZT__BPE_NONE) return false;
    for (uint32_t k = 0; k < size; k++)
        e->bpe.symbol[(*n)++] = (lzt__symbol){e->t->byte_id[(unsigned char)text[k]], at + k};
    return true;
}

/* The reference flushes a pending unknown only before a known symbol or at the end; bytes overtake it, and take its
 * place in the text: begins do not fall. */
static uint32_t model_characters(lzt_encoder *e, const char *text, uint32_t size)
{
    const lzt_tokenizer *t = e->t;
    uint32_t n = 0, length, pending = UINT32_MAX;
    if (t->ignore_merges) {
        uint32_t id = lzt__vocab_find(&t->vocab, text, size);
        if (id != LZT__BPE_NONE) {
            e->bpe.symbol[0] = (lzt__symbol){id, 0};
            return 1;
        }
    }
    for (uint32_t i = 0; i < size; i += length) {
        uint32_t code;
        length = lzt__utf8_next(text + i, &code);
        uint32_t id = lzt__vocab_find(&t->vocab, text + i, length);
        if (id != LZT__BPE_NONE) {
            if (pending != UINT32_MAX) e->bpe.symbol[n++] = (lzt__symbol){t->unk, pending};
            pending = UINT32_MAX;
            e->bpe.symbol[n++] = (lzt__symbol){id, i};
        } else if (fall_back(e, text + i, length, pending != UINT32_MAX ? pending : i, &n)) {
            if (pending != UINT32_MAX) pending += length;
        } else if (t->unk != LZT__BPE_NONE) {
            if (pending != UINT32_MAX && !t->fuse_unk) e->bpe.symbol[n++] = (lzt__symbol){t->unk, pending};
            if (pending == UINT32_MAX || !t->fuse_unk) pending = i;
        }
    }
    if (pending != UINT32_MAX) e->bpe.symbol[n++] = (lzt__symbol){t->unk, pending};
    return lzt__bpe_merge(&t->bpe, &e->bpe, n);
}

/* The user-defined piece that begins at text, longest first. */
static uint32_t user_defined(const lzt_tokenizer *t, const char *text, uint32_t size, uint32_t *id)
{
    const lzt__added *a = lzt__matcher_at(t, &t->normalised, text, size, 0, NULL, NULL);
    if (!a) return 0;
    *id = a->id;
    return a->match_size;
}

/* Merges stop at user-defined pieces, which are symbols as they stand. */
static uint32_t model_pieces(lzt_encoder *e, const char *text, uint32_t size)
{
    const lzt_tokenizer *t = e->t;
    uint32_t n = 0, length;
    for (uint32_t i = 0; i < size; i += length) {
        uint32_t code, id;
        if (t->normalised.count && (length = user_defined(t, text + i, size - i, &id))) {
            e->bpe.symbol[n++] = (lzt__symbol){id, i};
            continue;
        }
        length = lzt__utf8_next(text + i, &code);
        id = lzt__vocab_find(&t->vocab, text + i, length);
        if (id == LZT__BPE_NONE) {
            id = lzt__vocab_find(&t->characters, text + i, length);
            id = id == LZT__BPE_NONE ? LZT__BPE_NONE : t->character_base + id;
        }
        e->bpe.symbol[n++] = (lzt__symbol){id, i};
    }
    return lzt__bpe_merge(&t->bpe, &e->bpe, n);
}

/* Emits symbols of SentencePiece models: what is no piece becomes bytes, or one unknown a run. */
static lzt_status emit_pieces(lzt_encoder *e, const stretch *s, lzt__piece p, uint32_t n, lzt_error *err)
{
    const lzt_tokenizer *t = e->t;
    bool was_unknown = false;
    lzt_status status = reserve(e, (uint64_t)(p.end - p.begin) + 1, err);
    for (uint32_t i = 0; !status && i < n; i++) {
        lzt__symbol x = e->bpe.symbol[i];
        bool unknown = x.id >= t->vocab.id_count || x.id == t->unk;
        uint32_t end = i + 1 < n ? e->bpe.symbol[i + 1].begin : p.end - p.begin;
        if (!unknown) {
            emit(e, x.id, origin_of(s, p.begin + x.begin));
        } else if (t->byte_fallback) {
            for (uint32_t k = x.begin; k < end; k++)
                emit(e, t->byte_id[(unsigned char)s->bytes[p.begin + k]], origin_of(s, p.begin + k));
        } else if (!was_unknown) {
            emit(e, t->unk, origin_of(s, p.begin + x.begin));
        }
        was_unknown = unknown;
    }
    return status;
}

static lzt_status run_model(lzt_encoder *e, const stretch *s, lzt__piece p, lzt_error *err)
{
    const char *text = s->bytes + p.begin;
    uint32_t size = p.end - p.begin, n = 0;
    lzt_status status = lzt__bpe_scratch_reserve(&e->bpe, (uint64_t)size + 1, err);
    if (status) return status;
    switch (e->t->model) {
    case LZT__MODEL_BYTES: n = model_bytes(e, text, size); break;
    case LZT__MODEL_CHARACTERS: n = model_characters(e, text, size); break;
    case LZT__MODEL_PIECES: n = model_pieces(e, text, size); break;
    case LZT__MODEL_UNIGRAM:
        status = lzt__unigram_best(e->t, text, size, &e->bpe, &n, err);
        if (status) return status;
        break;
    }
    if (e->t->model >= LZT__MODEL_PIECES) return emit_pieces(e, s, p, n, err);
    status = reserve(e, n, err);
    for (uint32_t i = 0; !status && i < n; i++)
        emit(e, e->bpe.symbol[i].id, origin_of(s, p.begin + e->bpe.symbol[i].begin));
    return status;
}

/* ---- the cache of short pieces (byte-level models) ---- */

/* The piece's bytes, zeros, its size in the last byte. readable: bytes that may be read from text. */
static inline void make_key(const char *text, uint32_t size, uint64_t readable, uint64_t key[2])
{
    if (readable >= 16) {
        memcpy(key, text, 16);
        if (size < 8) {
            key[0] &= (UINT64_C(1) << 8 * size) - 1;
            key[1] = 0;
        } else {
            key[1] &= (UINT64_C(1) << 8 * (size - 8)) - 1;
        }
    } else {
        key[0] = key[1] = 0;
        memcpy(key, text, size);
    }
    key[1] |= (uint64_t)size << 56;
}

static inline uint32_t place_of(const uint64_t key[2])
{
    uint64_t h = (key[0] ^ key[1] * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd6e8feb86659fd93);
    return (uint32_t)((h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93) >> (64 - CACHE_BITS));
}

static inline void emit_cached(lzt_encoder *e, const cached *c, uint32_t count, const stretch *s, uint32_t begin)
{
    const lzt_tokenizer *t = e->t;
    for (uint32_t k = 0, at = begin; k < count; k++) {
        emit(e, c->id[k], origin_of(s, at));
        at += t->vocab.size[c->id[k]];
    }
}

static lzt_status encode_piece(lzt_encoder *e, const stretch *s, lzt__piece p, lzt_error *err)
{
    uint32_t size = p.end - p.begin;
    if (size > CACHE_KEY) return run_model(e, s, p, err);
    uint64_t key[2];
    make_key(s->bytes + p.begin, size, s->end - p.begin, key);
    uint32_t place = place_of(key);
    cached *c = &e->cache[place];
    if (e->cached_count[place] && c->key[0] == key[0] && c->key[1] == key[1]) {
        emit_cached(e, c, e->cached_count[place], s, p.begin);
        return LZT_OK;
    }
    uint64_t before = e->count;
    lzt_status status = run_model(e, s, p, err);
    uint64_t n = e->count - before;
    uint64_t covered = 0; /* cached begins are sums of sizes: not where bytes fell out or became unknown */
    for (uint64_t i = before; i < e->count; i++) covered += e->t->vocab.size[e->ids[i]];
    if (status || n > CACHE_IDS || !n || covered != size) return status;
    memcpy(c->key, key, sizeof key);
    memcpy(c->id, e->ids + before, n * sizeof *c->id);
    e->cached_count[place] = (uint8_t)n;
    return reserve(e, CACHE_IDS, err);
}

/* ---- splits ---- */

static lzt_status encode_pieces(lzt_encoder *e, const stretch *s, lzt_error *err)
{
    const lzt_tokenizer *t = e->t;
    lzt__pieces *from = &e->pieces[0], *to = &e->pieces[1];
    from->count = 0;
    lzt_status status = lzt__pieces_reserve(from, 1, err);
    if (status) return status;
    from->at[from->count++] = (lzt__piece){s->begin, s->end};
    for (uint32_t k = 0; k < t->split_count; k++) {
        to->count = 0;
        for (uint64_t i = 0; !status && i < from->count; i++)
            status = lzt__split_run(&t->split[k], t->unicode, s->bytes, from->at[i], &e->split, to, err);
        if (status) return status;
        lzt__pieces *other = from;
        from = to;
        to = other;
    }
    bool cache = t->model == LZT__MODEL_BYTES;
    for (uint64_t i = 0; !status && i < from->count; i++) {
        if (cache) status = reserve(e, CACHE_IDS, err);
        if (!status) status = cache ? encode_piece(e, s, from->at[i], err) : run_model(e, s, from->at[i], err);
    }
    return status;
}

static lzt_status to_text(const stretch *s, lzt__traced *out, uint64_t spare, lzt_error *err)
{
    uint32_t size = s->end - s->begin;
    lzt_status status = lzt__traced_reserve(out, size + spare, err);
    if (status) return status;
    memcpy(out->bytes, s->bytes + s->begin, size);
    for (uint32_t i = 0; i <= size; i++) out->origin[i] = origin_of(s, s->begin + i);
    out->size = size;
    return LZT_OK;
}

/* s becomes its normal form, in one of the encoder's buffers unless nothing changes. */
static lzt_status normalise(lzt_encoder *e, stretch *s, lzt_error *err)
{
    const lzt_tokenizer *t = e->t;
    if (!t->norm_count) return LZT_OK;
    if (t->norm_count == 1 && t->norm[0].kind == LZT__NORM_NFC &&
        lzt__unicode_is_nfc(t->unicode, s->bytes + s->begin, s->end - s->begin))
        return LZT_OK;
    lzt__traced *from = &e->text[0], *to = &e->text[1];
    lzt_status status = to_text(s, from, 16, err);
    if (!status) status = lzt__normalise(t, &e->split, &from, &to, err);
    if (status) return status;
    if (from->size > UINT32_MAX / 2) return lzt_fail(err, LZT_ERR_DATA, NULL, "a text above 2 GiB");
    *s = (stretch){from->bytes, from->origin, 0, (uint32_t)from->size};
    return LZT_OK;
}

#define METASPACE "\xe2\x96\x81"

/* The Metaspace and prefix-space steps change the stretch's text before it is split. */
static lzt_status encode_stretch(lzt_encoder *e, stretch s, lzt_error *err)
{
    const lzt_tokenizer *t = e->t;
    if (s.begin == s.end) return LZT_OK;
    bool space_first = s.bytes[s.begin] == ' ';
    if (!t->metaspace && !(t->prefix_space && !space_first)) return encode_pieces(e, &s, err);
    lzt__traced one = {0}, two = {0};
    lzt__traced *done = &one;
    lzt_status status = to_text(&s, &one, 16, err);
    if (!status && t->prefix_space) status = lzt__traced_prepend(&one, " ", 1, err);
    if (!status && t->metaspace) {
        status = lzt__traced_replace(&one, " ", 1, METASPACE, 3, &two, err);
        done = &two;
        bool starts = !status && two.size >= 3 && !memcmp(two.bytes, METASPACE, 3);
        bool wanted = t->metaspace == LZT__METASPACE_ALWAYS ||
                      (t->metaspace == LZT__METASPACE_FIRST && !s.origin && !s.begin) ||
                      (t->metaspace == LZT__METASPACE_FIRST && s.origin && !s.origin[s.begin]);
        if (!status && !starts && wanted) status = lzt__traced_prepend(&two, METASPACE, 3, err);
    }
    if (!status) {
        stretch changed = {done->bytes, done->origin, 0, (uint32_t)done->size};
        status = encode_pieces(e, &changed, err);
    }
    lzt__traced_free(&one);
    lzt__traced_free(&two);
    return status;
}

/* ---- added tokens ---- */

static bool is_space_at(const lzt_tokenizer *t, const char *text, uint32_t *size)
{
    uint32_t code;
    *size = lzt__utf8_next(text, &code);
    return t->unicode->flags[code] & LZT__CHAR_SPACE;
}

static uint32_t character_before(const char *text, uint32_t at)
{
    do at--;
    while (((unsigned char)text[at] & 0xc0) == 0x80);
    return at;
}

static bool is_word_at(const lzt_tokenizer *t, const char *text)
{
    uint32_t code;
    lzt__utf8_next(text, &code);
    return t->unicode->is_word[code / 8] >> code % 8 & 1;
}

/* A match [*begin, *end) grows over spaces, or is refused as part of a word. from: where the text before it begins. */
static bool accept(const lzt_tokenizer *t, const lzt__added *a, const stretch *s, uint32_t from, uint32_t *begin,
                   uint32_t *end)
{
    uint32_t n;
    if (a->single_word) {
        if (*begin > s->begin && is_word_at(t, s->bytes + character_before(s->bytes, *begin))) return false;
        if (*end < s->end && is_word_at(t, s->bytes + *end)) return false;
    }
    if (a->lstrip) {
        while (*begin > s->begin && is_space_at(t, s->bytes + character_before(s->bytes, *begin), &n))
            *begin = character_before(s->bytes, *begin);
        if (*begin < from) *begin = from;
    }
    if (a->rstrip)
        while (*end < s->end && is_space_at(t, s->bytes + *end, &n)) *end += n;
    return true;
}

typedef lzt_status stretch_fn(lzt_encoder *e, stretch s, const uint8_t *writer, lzt_error *err);

/* Cuts s at the matcher's tokens, emits these, and gives the text between them to next. */
static lzt_status cut_added(lzt_encoder *e, const lzt__matcher *m, stretch s, const uint8_t *writer, stretch_fn *next,
                            lzt_error *err)
{
    const lzt_tokenizer *t = e->t;
    uint32_t from = s.begin, at = s.begin;
    while (m->count && at < s.end) {
        while (at < s.end && !m->first[(unsigned char)s.bytes[at]]) at++;
        const lzt__added *a = at < s.end ? lzt__matcher_at(t, m, s.bytes, s.end, at, writer, s.origin) : NULL;
        if (!a) {
            at++;
            continue;
        }
        uint32_t begin = at, end = at + a->match_size;
        at = end;
        if (!accept(t, a, &s, from, &begin, &end)) continue;
        if (begin >= end) continue; /* nothing is left of it: the match before took the space */
        lzt_status status = begin > from ? next(e, (stretch){s.bytes, s.origin, from, begin}, writer, err) : LZT_OK;
        if (!status) status = reserve(e, 1, err);
        if (status) return status;
        emit(e, a->id, origin_of(&s, begin));
        from = end;
    }
    return from < s.end ? next(e, (stretch){s.bytes, s.origin, from, s.end}, writer, err) : LZT_OK;
}

static lzt_status after_normalised(lzt_encoder *e, stretch s, const uint8_t *writer, lzt_error *err)
{
    (void)writer;
    return encode_stretch(e, s, err);
}

static lzt_status after_raw(lzt_encoder *e, stretch s, const uint8_t *writer, lzt_error *err)
{
    lzt_status status = normalise(e, &s, err);
    if (status) return status;
    if (!e->t->normalised.count || e->t->model >= LZT__MODEL_PIECES) return encode_stretch(e, s, err);
    return cut_added(e, &e->t->normalised, s, writer, after_normalised, err);
}

static lzt_status after_raw_plain(lzt_encoder *e, stretch s, const uint8_t *writer, lzt_error *err)
{
    (void)writer;
    lzt_status status = normalise(e, &s, err);
    return status ? status : encode_stretch(e, s, err);
}

/* Eight ASCII bytes at a time; returns the place of the first byte that is not UTF-8, or size. */
static uint64_t valid_until(const char *text, uint64_t size)
{
    uint64_t i = 0, word;
    while (i < size) {
        if (size - i >= 8) {
            memcpy(&word, text + i, 8);
            if (!(word & UINT64_C(0x8080808080808080))) {
                i += 8;
                continue;
            }
        }
        uint32_t code, n = lzt__utf8_get(text + i, size - i, &code);
        if (!n) return i;
        i += n;
    }
    return size;
}

lzt_status lzt_encoder_encode(lzt_encoder *e, const char *text, uint64_t size, const uint8_t *writer, uint32_t flags,
                              lzt_encoding *encoding, lzt_error *err)
{
    const lzt_tokenizer *t = e->t;
    *encoding = (lzt_encoding){0};
    e->count = 0;
    if (size >= UINT32_MAX / 2) return lzt_fail(err, LZT_ERR_DATA, NULL, "a text above 2 GiB");
    uint64_t valid = valid_until(text, size);
    if (valid < size)
        return lzt_fail(err, LZT_ERR_DATA, NULL, "the text is not UTF-8 at byte %llu", (unsigned long long)valid + 1);
    lzt_status s = reserve(e, t->before_count + t->after_count + 16, err);
    bool special = flags & LZT_ENCODE_SPECIAL;
    for (uint32_t i = 0; !s && special && i < t->before_count; i++) emit(e, (uint32_t)t->before[i], 0);
    stretch all = {text, NULL, 0, (uint32_t)size};
    if (!s && size) {
        if (flags & LZT_ENCODE_ADDED)
            s = cut_added(e, &t->raw, all, writer, after_raw, err);
        else
            s = after_raw_plain(e, all, writer, err);
    }
    if (!s) s = reserve(e, t->after_count, err);
    for (uint32_t i = 0; !s && special && i < t->after_count; i++) emit(e, (uint32_t)t->after[i], (uint32_t)size);
    if (!s) *encoding = (lzt_encoding){e->ids, e->begin, e->count};
    return s;
}

lzt_status lzt_encoder_encode_json(lzt_encoder *e, const char *json, uint64_t size, uint32_t flags,
                                   lzt_encoding *encoding, lzt_error *err)
{
    *encoding = (lzt_encoding){0};
    lzt_status s = lzt__json_parse(&e->doc, json, size, NULL, err);
    if (s) return s;
    if (e->doc.node->type != LZT__JSON_STRING) return lzt_fail(err, LZT_ERR_DATA, NULL, "not a JSON string");
    return lzt_encoder_encode(e, e->doc.node->text, e->doc.node->size, NULL, flags, encoding, err);
}

lzt_status lzt_encoder_create(const lzt_tokenizer *tokenizer, lzt_encoder **encoder, lzt_error *err)
{
    lzt_encoder *e = *encoder = calloc(1, sizeof *e);
    if (e) {
        e->t = tokenizer;
        e->cache = malloc(sizeof *e->cache << CACHE_BITS);
        e->cached_count = calloc(1, UINT64_C(1) << CACHE_BITS);
    }
    if (e && e->cache && e->cached_count) return LZT_OK;
    lzt_encoder_destroy(e);
    *encoder = NULL;
    return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for an encoder");
}

void lzt_encoder_destroy(lzt_encoder *e)
{
    if (!e) return;
    free(e->cache);
    free(e->cached_count);
    free(e->ids);
    free(e->begin);
    free(e->pieces[0].at);
    free(e->pieces[1].at);
    lzt__json_free(&e->doc);
    lzt__split_scratch_free(&e->split);
    lzt__bpe_scratch_free(&e->bpe);
    lzt__traced_free(&e->text[0]);
    lzt__traced_free(&e->text[1]);
    free(e);
}
