/* Byte-pair encoding: see bpe.h. */
#include "data/tokenizer/bpe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define NO_PAIR UINT64_MAX

static uint32_t hash_text(const char *text, uint64_t size)
{
    return (uint32_t)XXH3_64bits(text, size);
}

static lzt_status grow_slots(lzt__vocab *v, uint32_t strings, lzt_error *err)
{
    uint32_t count = v->slot_count ? v->slot_count : 1024;
    while (count < 2 * (uint64_t)strings && count < 1u << 31) count *= 2;
    if (count == v->slot_count) return LZT_OK;
    uint32_t *slot = malloc((uint64_t)count * sizeof *slot);
    if (!slot) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a vocabulary");
    memset(slot, 0xff, (uint64_t)count * sizeof *slot);
    for (uint32_t i = 0; i < v->slot_count; i++) {
        uint32_t id = v->slot[i];
        if (id == LZT__BPE_NONE) continue;
        uint32_t at = hash_text(v->text + v->offset[id], v->size[id]) & (count - 1);
        while (slot[at] != LZT__BPE_NONE) at = (at + 1) & (count - 1);
        slot[at] = id;
    }
    free(v->slot);
    v->slot = slot;
    v->slot_count = count;
    return LZT_OK;
}

static lzt_status grow_ids(lzt__vocab *v, uint32_t count, lzt_error *err)
{
    if (count <= v->id_capacity) return LZT_OK;
    uint64_t capacity = (uint64_t)count + count / 2 + 64;
    uint32_t *offset = realloc(v->offset, capacity * sizeof *offset);
    if (offset) v->offset = offset;
    uint32_t *size = offset ? realloc(v->size, capacity * sizeof *size) : NULL;
    if (!size) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a vocabulary");
    v->size = size;
    v->id_capacity = (uint32_t)capacity;
    return LZT_OK;
}

static lzt_status grow_text(lzt__vocab *v, uint64_t bytes, lzt_error *err)
{
    if (bytes <= v->text_capacity) return LZT_OK;
    uint64_t capacity = bytes + bytes / 2 + 4096;
    if (capacity > UINT32_MAX) return lzt_fail(err, LZT_ERR_DATA, NULL, "the vocabulary is above 4 GiB");
    char *text = realloc(v->text, capacity);
    if (!text) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a vocabulary");
    v->text = text;
    v->text_capacity = capacity;
    return LZT_OK;
}

lzt_status lzt__vocab_reserve(lzt__vocab *v, uint32_t strings, uint64_t bytes, lzt_error *err)
{
    lzt_status s = grow_slots(v, strings, err);
    if (!s) s = grow_ids(v, strings, err);
    if (!s) s = grow_text(v, bytes, err);
    return s;
}

uint32_t lzt__vocab_find(const lzt__vocab *v, const char *text, uint64_t size)
{
    if (!v->slot_count) return LZT__BPE_NONE;
    for (uint32_t at = hash_text(text, size) & (v->slot_count - 1);; at = (at + 1) & (v->slot_count - 1)) {
        uint32_t id = v->slot[at];
        if (id == LZT__BPE_NONE) return LZT__BPE_NONE;
        if (v->size[id] == size && !memcmp(v->text + v->offset[id], text, size)) return id;
    }
}

lzt_status lzt__vocab_add(lzt__vocab *v, const char *text, uint32_t size, uint32_t id, bool *fresh, lzt_error *err)
{
    *fresh = false;
    if (id >= LZT__ID_LIMIT) return lzt_fail(err, LZT_ERR_DATA, NULL, "token id %u is above 2^24", id);
    if (id < v->id_count && v->size[id] != LZT__BPE_NONE) return LZT_OK;
    if (lzt__vocab_find(v, text, size) != LZT__BPE_NONE) return LZT_OK;
    lzt_status s = grow_slots(v, v->used + 1, err);
    if (!s) s = grow_ids(v, id + 1, err);
    if (!s) s = grow_text(v, v->text_size + size, err);
    if (s) return s;
    for (; v->id_count <= id; v->id_count++) v->size[v->id_count] = LZT__BPE_NONE;
    v->offset[id] = (uint32_t)v->text_size;
    v->size[id] = size;
    if (size) memcpy(v->text + v->text_size, text, size);
    v->text_size += size;
    uint32_t at = hash_text(text, size) & (v->slot_count - 1);
    while (v->slot[at] != LZT__BPE_NONE) at = (at + 1) & (v->slot_count - 1);
    v->slot[at] = id;
    v->used++;
    *fresh = true;
    return LZT_OK;
}

void lzt__vocab_free(lzt__vocab *v)
{
    free(v->text);
    free(v->offset);
    free(v->size);
    free(v->slot);
    *v = (lzt__vocab){0};
}

lzt_status lzt__bpe_init(lzt__bpe *b, uint64_t merges, lzt_error *err)
{
    uint32_t bits = 4;
    while ((UINT64_C(1) << bits) < 2 * merges) bits++;
    *b = (lzt__bpe){.merge_mask = (UINT64_C(1) << bits) - 1, .shift = 64 - bits};
    b->merge = malloc((b->merge_mask + 1) * sizeof *b->merge);
    if (!b->merge) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the merges");
    memset(b->merge, 0xff, (b->merge_mask + 1) * sizeof *b->merge);
    return LZT_OK;
}

static inline uint64_t place_of(const lzt__bpe *b, uint64_t pair)
{
    return (pair ^ pair >> 32) * UINT64_C(0x9e3779b97f4a7c15) >> b->shift;
}

void lzt__bpe_add(lzt__bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t whole)
{
    uint64_t pair = (uint64_t)left << 32 | right, at = place_of(b, pair);
    while (b->merge[at].pair != NO_PAIR && b->merge[at].pair != pair) at = (at + 1) & b->merge_mask;
    b->merge_count += b->merge[at].pair == NO_PAIR;
    assert(b->merge_count <= b->merge_mask);
    b->merge[at] = (lzt__merge){pair, (uint64_t)rank << 32 | whole};
}

void lzt__bpe_free(lzt__bpe *b)
{
    free(b->merge);
    *b = (lzt__bpe){0};
}

static inline uint64_t find_pair(const lzt__bpe *b, uint32_t left, uint32_t right)
{
    uint64_t pair = (uint64_t)left << 32 | right, at = place_of(b, pair);
    for (;; at = (at + 1) & b->merge_mask) {
        if (b->merge[at].pair == pair) return b->merge[at].value;
        if (b->merge[at].pair == NO_PAIR) return NO_PAIR;
    }
}

lzt_status lzt__bpe_scratch_reserve(lzt__bpe_scratch *s, uint64_t n, lzt_error *err)
{
    if (n <= s->capacity) return LZT_OK;
    uint64_t capacity = n + n / 2 + 256;
    lzt__bpe_scratch_free(s);
    s->symbol = malloc(capacity * sizeof *s->symbol);
    s->pair = malloc(capacity * sizeof *s->pair);
    s->next = malloc(capacity * sizeof *s->next);
    s->previous = malloc(capacity * sizeof *s->previous);
    s->heap = malloc(3 * capacity * sizeof *s->heap); /* n pairs at first, two more a merge */
    if (!s->symbol || !s->pair || !s->next || !s->previous || !s->heap) {
        lzt__bpe_scratch_free(s);
        return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a piece of text");
    }
    s->capacity = capacity;
    return LZT_OK;
}

void lzt__bpe_scratch_free(lzt__bpe_scratch *s)
{
    free(s->symbol);
    free(s->pair);
    free(s->next);
    free(s->previous);
    free(s->heap);
    *s = (lzt__bpe_scratch){0};
}

/* Short pieces: the lowest pair by a scan, leftmost first, the rest moved up. */
static uint32_t merge_short(const lzt__bpe *b, lzt__symbol *symbol, uint64_t *pair, uint32_t n)
{
    for (uint32_t i = 0; i + 1 < n; i++) pair[i] = find_pair(b, symbol[i].id, symbol[i + 1].id);
    while (n > 1) {
        uint32_t best = UINT32_MAX, at = 0;
        for (uint32_t i = 0; i + 1 < n; i++)
            if (pair[i] >> 32 < best) {
                best = (uint32_t)(pair[i] >> 32);
                at = i;
            }
        if (best == UINT32_MAX) break;
        symbol[at].id = (uint32_t)pair[at];
        n--;
        for (uint32_t i = at + 1; i < n; i++) {
            symbol[i] = symbol[i + 1];
            pair[i] = pair[i + 1];
        }
        if (at + 1 < n) pair[at] = find_pair(b, symbol[at].id, symbol[at + 1].id);
        if (at) pair[at - 1] = find_pair(b, symbol[at - 1].id, symbol[at].id);
    }
    return n;
}

static void sift_up(uint64_t *heap, uint64_t at)
{
    uint64_t x = heap[at];
    for (; at && heap[(at - 1) / 2] > x; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = x;
}

static void sift_down(uint64_t *heap, uint64_t count, uint64_t at)
{
    uint64_t x = heap[at];
    for (uint64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= x) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = x;
}

/* The heap holds rank << 32 | symbol; an entry is stale when the symbol's pair has another rank by now. */
static void offer(lzt__bpe_scratch *s, uint64_t *count, uint32_t at)
{
    if (s->pair[at] == NO_PAIR) return;
    s->heap[*count] = (s->pair[at] >> 32) << 32 | at;
    sift_up(s->heap, (*count)++);
}

static uint32_t merge_long(const lzt__bpe *b, lzt__bpe_scratch *s, uint32_t n)
{
    uint64_t heap_count = 0;
    for (uint32_t i = 0; i < n; i++) {
        s->next[i] = i + 1;
        s->previous[i] = i - 1; /* of the first: never read */
        s->pair[i] = i + 1 < n ? find_pair(b, s->symbol[i].id, s->symbol[i + 1].id) : NO_PAIR;
        offer(s, &heap_count, i);
    }
    while (heap_count) {
        uint64_t top = s->heap[0];
        s->heap[0] = s->heap[--heap_count];
        if (heap_count) sift_down(s->heap, heap_count, 0);
        uint32_t at = (uint32_t)top;
        if (s->pair[at] == NO_PAIR || s->pair[at] >> 32 != top >> 32) continue;
        uint32_t gone = s->next[at];
        s->symbol[at].id = (uint32_t)s->pair[at];
        s->pair[gone] = NO_PAIR;
        s->next[at] = s->next[gone];
        s->next[gone] = 0; /* marks it as gone */
        bool last = s->next[at] >= n;
        if (!last) s->previous[s->next[at]] = at;
        s->pair[at] = last ? NO_PAIR : find_pair(b, s->symbol[at].id, s->symbol[s->next[at]].id);
        offer(s, &heap_count, at);
        if (!at) continue;
        uint32_t before = s->previous[at];
        s->pair[before] = find_pair(b, s->symbol[before].id, s->symbol[at].id);
        offer(s, &heap_count, before);
    }
    uint32_t left = 0;
    for (uint32_t i = 0; i < n; i++)
        if (s->next[i]) s->symbol[left++] = s->symbol[i];
    return left;
}

uint32_t lzt__bpe_merge(const lzt__bpe *b, lzt__bpe_scratch *s, uint32_t n)
{
    assert(n <= s->capacity);
    return n <= 64 ? merge_short(b, s->symbol, s->pair, n) : merge_long(b, s, n);
}
