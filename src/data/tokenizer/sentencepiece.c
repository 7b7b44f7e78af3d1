/* SentencePiece models: tokenizer.model, a protobuf, read field by field.
 *
 * ModelProto: 1 pieces {1 text, 2 score, 3 type}, 2 trainer {3 kind, 24 space as suffix, 35 byte fallback, 40 unk, 41
 * bos, 42 eos, 43 pad}, 3 normaliser {2 charsmap, 3 dummy prefix, 4 remove extra spaces, 5 escape spaces}. The charsmap
 * is a size, a double array over the sources, and the targets as terminated strings.
 */
#include "data/tokenizer/tokenizer_parts.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };

#define SPACE "\xe2\x96\x81"

/* One field of a protobuf message. */
typedef struct field {
    uint32_t number, wire;
    uint64_t value;   /* of wires 0, 1 and 5 */
    const char *text; /* of wire 2 */
    uint64_t size;
} field;

static bool varint(const char **at, const char *end, uint64_t *value)
{
    *value = 0;
    for (uint32_t shift = 0; *at < end && shift < 64; shift += 7) {
        unsigned char b = (unsigned char)*(*at)++;
        *value |= (uint64_t)(b & 127) << shift;
        if (b < 128) return true;
    }
    return false;
}

/* The next field; false at the end, *broken where the message is cut. */
static bool next_field(const char **at, const char *end, field *f, bool *broken)
{
    uint64_t key;
    if (*at == end) return false;
    *broken = true;
    if (!varint(at, end, &key)) return false;
    *f = (field){.number = (uint32_t)(key >> 3), .wire = key & 7};
    if (f->wire == 0) {
        if (!varint(at, end, &f->value)) return false;
    } else if (f->wire == 2) {
        if (!varint(at, end, &f->size) || f->size > (uint64_t)(end - *at)) return false;
        f->text = *at;
        *at += f->size;
    } else if (f->wire == 1 || f->wire == 5) {
        uint64_t n = f->wire == 1 ? 8 : 4;
        if ((uint64_t)(end - *at) < n) return false;
        memcpy(&f->value, *at, n);
        *at += n;
    } else {
        return false;
    }
    *broken = false;
    return true;
}

typedef struct trainer {
    uint64_t kind, suffix, byte_fallback;
    int32_t unk, bos, eos, pad;
} trainer;

static bool read_trainer(const field *f, trainer *t)
{
    bool broken = false;
    field x;
    for (const char *at = f->text, *end = at + f->size; next_field(&at, end, &x, &broken);) {
        if (x.number == 3) t->kind = x.value;
        if (x.number == 24) t->suffix = x.value;
        if (x.number == 35) t->byte_fallback = x.value;
        if (x.number == 40) t->unk = (int32_t)x.value;
        if (x.number == 41) t->bos = (int32_t)x.value;
        if (x.number == 42) t->eos = (int32_t)x.value;
        if (x.number == 43) t->pad = (int32_t)x.value;
    }
    return !broken;
}

static lzt_status read_charsmap(lzt_tokenizer *t, const char *text, uint64_t size, const char *where, lzt_error *err)
{
    uint32_t trie;
    lzt__charsmap *m = &t->charsmap;
    if (!size) return LZT_OK;
    if (size < 4) return lzt_fail(err, LZT_ERR_DATA, where, "the character map is cut");
    memcpy(&trie, text, 4);
    if (trie > size - 4 || trie % 4 || trie / 4 < 1 || text[size - 1])
        return lzt_fail(err, LZT_ERR_DATA, where, "the character map is broken");
    m->trie = malloc(trie);
    m->target = malloc(size - 4 - trie + 1);
    if (!m->trie || !m->target) return lzt_fail(err, LZT_ERR_NO_MEMORY, where, "no memory for the tokenizer");
    memcpy(m->trie, text + 4, trie);
    memcpy(m->target, text + 4 + trie, size - 4 - trie);
    m->trie_count = trie / 4;
    m->target_size = (uint32_t)(size - 4 - trie);
    return LZT_OK;
}

static lzt_status read_normaliser(lzt_tokenizer *t, const field *f, const char *where, lzt_error *err)
{
    bool broken = false;
    field x;
    lzt_status s = LZT_OK;
    for (const char *at = f->text, *end = at + f->size; !s && next_field(&at, end, &x, &broken);) {
        if (x.number == 2 && x.wire == 2 && !t->charsmap.trie) s = read_charsmap(t, x.text, x.size, where, err);
        if (x.number == 3) t->charsmap.dummy_prefix = x.value;
        if (x.number == 4) t->charsmap.remove_extra = x.value;
        if (x.number == 5) t->charsmap.escape = x.value;
    }
    return s || !broken ? s : lzt_fail(err, LZT_ERR_DATA, where, "the normaliser is cut");
}

static lzt_status read_piece(lzt_tokenizer *t, const field *f, uint32_t id, const char *where, lzt_error *err)
{
    bool broken = false, fresh;
    field x, text = {0};
    float score = 0;
    uint64_t type = NORMAL;
    for (const char *at = f->text, *end = at + f->size; next_field(&at, end, &x, &broken);) {
        if (x.number == 1 && x.wire == 2) text = x;
        if (x.number == 2 && x.wire == 5) memcpy(&score, &x.value, 4);
        if (x.number == 3) type = x.value;
    }
    if (broken || !text.size || text.size > 4096 || score != score || type < NORMAL || type > BYTE)
        return lzt_fail(err, LZT_ERR_DATA, where, "piece %u is broken", id);
    if (type == UNUSED)
        return lzt_fail(err, LZT_ERR_DATA, where, "piece %u is marked unused, which is not supported", id);
    t->score[id] = score;
    t->type[id] = (uint8_t)type;
    lzt_status s = lzt__vocab_add(&t->vocab, text.text, (uint32_t)text.size, id, &fresh, err);
    if (!s && !fresh) s = lzt_fail(err, LZT_ERR_DATA, where, "piece %u is there twice", id);
    if (!s && type == UNKNOWN) t->unk = id;
    if (!s && type == USER_DEFINED) {
        lzt__added a = {.id = id, .normalized = true};
        s = lzt__tokenizer_add(t, &a, text.text, (uint32_t)text.size, err);
    }
    if (text.size > t->longest_piece) t->longest_piece = (uint32_t)text.size;
    return s;
}

static lzt_status read_pieces(lzt_tokenizer *t, const char *text, uint64_t size, const char *where, lzt_error *err)
{
    uint32_t count = 0, id = 0;
    bool broken = false;
    field f;
    for (const char *at = text; next_field(&at, text + size, &f, &broken);) count += f.number == 1 && f.wire == 2;
    if (broken || !count) return lzt_fail(err, LZT_ERR_DATA, where, "not a SentencePiece model, or cut");
    t->score = calloc(count, sizeof *t->score);
    t->type = calloc(count, 1);
    if (!t->score || !t->type) return lzt_fail(err, LZT_ERR_NO_MEMORY, where, "no memory for the tokenizer");
    lzt_status s = LZT_OK;
    for (const char *at = text; !s && next_field(&at, text + size, &f, &broken);)
        if (f.number == 1 && f.wire == 2) s = read_piece(t, &f, id++, where, err);
    if (!s && t->unk == LZT__BPE_NONE) s = lzt_fail(err, LZT_ERR_DATA, where, "the model has no unknown piece");
    return s;
}

static lzt_status find_bytes(lzt_tokenizer *t, const char *where, lzt_error *err)
{
    char name[8];
    for (uint32_t b = 0; b < 256; b++) {
        snprintf(name, sizeof name, "<0x%02X>", b);
        t->byte_id[b] = lzt__vocab_find(&t->vocab, name, 6);
        if (t->byte_fallback && (t->byte_id[b] == LZT__BPE_NONE || t->type[t->byte_id[b]] != BYTE))
            return lzt_fail(err, LZT_ERR_DATA, where, "byte %u has no piece, but unknown text becomes bytes", b);
    }
    return LZT_OK;
}

static void set_scores(lzt_tokenizer *t)
{
    float low = FLT_MAX;
    for (uint32_t id = 0; id < t->vocab.id_count; id++)
        if (t->type[id] == NORMAL && t->score[id] < low) low = t->score[id];
    t->unk_score = low - 10.0f;
}

lzt_status lzt__load_sentencepiece(lzt_tokenizer *t, const char *text, uint64_t size, const char *where, lzt_error *err)
{
    trainer tr = {.kind = 1, .unk = 0, .bos = 1, .eos = 2, .pad = -1};
    bool broken = false;
    field f;
    t->charsmap.dummy_prefix = t->charsmap.remove_extra = t->charsmap.escape = true;
    lzt_status s = read_pieces(t, text, size, where, err);
    for (const char *at = text; !s && next_field(&at, text + size, &f, &broken);) {
        if (f.number == 2 && f.wire == 2 && !read_trainer(&f, &tr))
            s = lzt_fail(err, LZT_ERR_DATA, where, "the trainer's record is cut");
        if (f.number == 3 && f.wire == 2) s = read_normaliser(t, &f, where, err);
    }
    if (s) return s;
    if (tr.kind != 1 && tr.kind != 2)
        return lzt_fail(err, LZT_ERR_DATA, where, "SentencePiece model type %s is not supported",
                        tr.kind == 3   ? "word"
                        : tr.kind == 4 ? "char"
                                       : "(unknown)");
    t->charsmap.dummy_suffix = tr.suffix && t->charsmap.dummy_prefix;
    t->charsmap.dummy_prefix = t->charsmap.dummy_prefix && !tr.suffix;
    t->model = tr.kind == 2 ? LZT__MODEL_PIECES : LZT__MODEL_UNIGRAM;
    t->byte_fallback = tr.byte_fallback;
    t->norm[t->norm_count++].kind = LZT__NORM_CHARSMAP;
    t->bos = tr.bos;
    t->eos = tr.eos;
    t->pad = tr.pad;
    if (t->bos >= 0) t->before[t->before_count++] = t->bos;
    t->decode = LZT__DECODE_PIECES;
    t->strip = t->charsmap.dummy_prefix;
    set_scores(t);
    s = find_bytes(t, where, err);
    return s || t->model == LZT__MODEL_UNIGRAM ? s : lzt__tokenizer_score_merges(t, err);
}

/* ---- the normaliser ---- */

/* The longest rule at text: its source's bytes, *target its replacement; 0: none. A double array of darts-clone's. */
static uint64_t longest_rule(const lzt__charsmap *m, const char *text, uint64_t size, const char **target)
{
    uint64_t longest = 0;
    if (!m->trie) return 0;
    uint32_t unit = m->trie[0], node = (unit >> 10) << ((unit & 1u << 9) >> 6);
    for (uint64_t i = 0; i < size; i++) {
        uint8_t c = (uint8_t)text[i];
        node ^= c;
        if (node >= m->trie_count) break;
        unit = m->trie[node];
        if ((unit & (1u << 31 | 0xffu)) != c) break;
        node ^= (unit >> 10) << ((unit & 1u << 9) >> 6);
        if (!(unit >> 8 & 1)) continue;
        if (node >= m->trie_count) break;
        uint32_t value = m->trie[node] & 0x7fffffffu;
        if (value >= m->target_size) break;
        longest = i + 1;
        *target = m->target + value;
    }
    return longest;
}

/* What the text at `at` becomes, and how many of its bytes that takes. */
static uint64_t normal_prefix(const lzt_tokenizer *t, const lzt__traced *in, uint64_t at, const char **target,
                              uint64_t *target_size)
{
    const char *text = in->bytes + at;
    uint64_t size = in->size - at, n;
    uint32_t code;
    const lzt__added *a =
        t->normalised.count ? lzt__matcher_at(t, &t->normalised, in->bytes, in->size, at, NULL, NULL) : NULL;
    if (a)
        n = a->size;
    else if ((n = longest_rule(&t->charsmap, text, size, target))) {
        *target_size = strlen(*target);
        return n;
    } else
        n = lzt__utf8_next(text, &code);
    *target = text;
    *target_size = n;
    return n;
}

static void put(lzt__traced *out, const char *bytes, uint64_t size, uint32_t origin)
{
    for (uint64_t i = 0; i < size; i++) {
        out->origin[out->size] = origin;
        out->bytes[out->size++] = bytes[i];
    }
}

lzt_status lzt__charsmap_apply(const lzt_tokenizer *t, const lzt__traced *in, lzt__traced *out, lzt_error *err)
{
    const lzt__charsmap *m = &t->charsmap;
    const char *space = m->escape ? SPACE : " ", *target;
    uint64_t space_size = strlen(space), target_size, at = 0, n;
    out->size = 0;
    lzt_status s = lzt__traced_reserve(out, in->size * 3 + 16, err);
    while (!s && m->remove_extra && at < in->size) {
        n = normal_prefix(t, in, at, &target, &target_size);
        if (target_size != 1 || *target != ' ') break;
        at += n;
    }
    if (s) return s;
    if (at == in->size) {
        out->origin[0] = in->origin[in->size];
        return LZT_OK;
    }
    if (m->dummy_prefix) put(out, space, space_size, in->origin[at]);
    bool was_space = m->remove_extra;
    while (!s && at < in->size) {
        n = normal_prefix(t, in, at, &target, &target_size);
        for (; was_space && target_size && *target == ' '; target_size--) target++;
        s = lzt__traced_reserve(out, out->size + 3 * target_size + 16, err);
        for (uint64_t i = 0; !s && i < target_size; i++)
            put(out, target[i] == ' ' ? space : target + i, target[i] == ' ' ? space_size : 1, in->origin[at]);
        if (target_size) was_space = target[target_size - 1] == ' ';
        was_space = was_space && m->remove_extra;
        at += n;
    }
    while (!s && m->remove_extra && out->size >= space_size &&
           !memcmp(out->bytes + out->size - space_size, space, space_size))
        out->size -= space_size;
    if (!s && m->dummy_suffix) put(out, space, space_size, in->origin[in->size]);
    if (!s) out->origin[out->size] = in->origin[in->size];
    return s;
}

/* ---- unigram ---- */

/* Best score of a path that ends at a byte, and its last piece. */
typedef struct node {
    float score;
    uint32_t from, id;
} node;

static float piece_score(const lzt_tokenizer *t, uint32_t id, uint32_t size, float high)
{
    return t->type[id] == USER_DEFINED ? (float)((double)((float)size * high) - 0.1) : t->score[id];
}

static void offer(node *to, float score, uint32_t from, uint32_t id)
{
    if (to->id == LZT__BPE_NONE || score > to->score) *to = (node){score, from, id};
}

static void search(const lzt_tokenizer *t, const char *text, uint32_t size, float high, node *best)
{
    for (uint32_t i = 0, n; i < size; i += n) {
        uint32_t code, end = i;
        n = lzt__utf8_next(text + i, &code);
        bool single = false;
        while (end < size && end - i < t->longest_piece) {
            end += lzt__utf8_next(text + end, &code);
            uint32_t id = lzt__vocab_find(&t->vocab, text + i, end - i);
            if (id == LZT__BPE_NONE || (t->type[id] != NORMAL && t->type[id] != USER_DEFINED)) continue;
            offer(&best[end], best[i].score + piece_score(t, id, end - i, high), i, id);
            single = single || end - i == n;
        }
        if (!single) offer(&best[i + n], best[i].score + t->unk_score, i, t->unk);
    }
}

lzt_status lzt__unigram_best(const lzt_tokenizer *t, const char *text, uint32_t size, lzt__bpe_scratch *scratch,
                             uint32_t *count, lzt_error *err)
{
    float high = FLT_MIN; /* not the lowest number: so has the original, and its bonus depends on it */
    for (uint32_t id = 0; id < t->vocab.id_count; id++)
        if (t->type[id] == NORMAL && t->score[id] > high) high = t->score[id];
    node *best = malloc(((uint64_t)size + 1) * sizeof *best);
    if (!best) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a text");
    for (uint32_t i = 0; i <= size; i++) best[i] = (node){0, 0, LZT__BPE_NONE};
    search(t, text, size, high, best);
    uint32_t n = 0;
    for (uint32_t end = size; end; end = best[end].from)
        scratch->symbol[n++] = (lzt__symbol){best[end].id, best[end].from};
    for (uint32_t i = 0; i < n / 2; i++) {
        lzt__symbol x = scratch->symbol[i];
        scratch->symbol[i] = scratch->symbol[n - 1 - i];
        scratch->symbol[n - 1 - i] = x;
    }
    free(best);
    *count = n;
    return LZT_OK;
}
