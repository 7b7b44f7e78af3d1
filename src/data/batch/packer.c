/* Best-fit decreasing: see packer.h.
 *
 * Packs are found by the room they have left: a list of packs for each room, and a bitmap of the rooms that have any,
 * so that the best fit is the first set bit at or above a document's length.
 */
#include "data/batch/packer.h"
#include "base/rng.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

typedef struct rooms {
    uint64_t *bit;  /* [capacity / 64 + 1] */
    uint32_t *head; /* [capacity + 1] first pack with this room */
    uint32_t next[LZT__PACK_WINDOW];
    uint64_t words;
} rooms;

static void give(rooms *r, uint64_t room, uint32_t pack)
{
    r->next[pack] = r->head[room];
    r->head[room] = pack;
    r->bit[room / 64] |= UINT64_C(1) << room % 64;
}

/* The pack of the least room that is at least length, taken out of its list; NONE: there is none. */
static uint32_t take(rooms *r, uint64_t length, uint64_t *room)
{
    uint64_t word = length / 64, bits = r->bit[word] & (~UINT64_C(0) << length % 64);
    while (!bits) {
        if (++word == r->words) return NONE;
        bits = r->bit[word];
    }
    *room = word * 64 + (uint64_t)__builtin_ctzll(bits);
    uint32_t pack = r->head[*room];
    r->head[*room] = r->next[pack];
    if (r->head[*room] == NONE) r->bit[word] &= bits - 1;
    return pack;
}

typedef struct item {
    uint32_t length, index;
} item;

static int longest_first(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* pack_of[i] for the sorted items; returns how many packs there are. */
static uint32_t fit(rooms *r, const item *items, uint32_t n, uint64_t capacity, uint32_t *pack_of)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        assert(items[i].length <= capacity);
        uint64_t room = capacity;
        uint32_t pack = take(r, items[i].length, &room);
        if (pack == NONE) {
            pack = count++;
            room = capacity;
        }
        pack_of[i] = pack;
        if (room > items[i].length) give(r, room - items[i].length, pack);
    }
    return count;
}

static void lay_out(const item *items, uint32_t n, const uint32_t *pack_of, lzt__packs *packs)
{
    memset(packs->begin, 0, ((uint64_t)packs->count + 1) * sizeof *packs->begin);
    for (uint32_t i = 0; i < n; i++) packs->begin[pack_of[i] + 1]++;
    for (uint32_t p = 0; p < packs->count; p++) packs->begin[p + 1] += packs->begin[p];
    for (uint32_t i = n; i-- > 0;) /* from behind: begin serves as the cursor and ends where it should */
        packs->item[--packs->begin[pack_of[i] + 1]] = items[i].index;
    memmove(packs->begin, packs->begin + 1, packs->count * sizeof *packs->begin);
    packs->begin[packs->count] = n;
}

lzt_status lzt__pack(const uint32_t *length, uint32_t n, uint64_t capacity, lzt__packs *packs, lzt_error *err)
{
    assert(n <= LZT__PACK_WINDOW);
    rooms *r = malloc(sizeof *r);
    item *items = malloc(((uint64_t)n + 1) * sizeof *items);
    uint32_t *pack_of = malloc(((uint64_t)n + 1) * sizeof *pack_of), used = 0;
    uint64_t words = capacity / 64 + 1;
    uint64_t *bit = calloc(words, sizeof *bit);
    uint32_t *head = malloc((capacity + 1) * sizeof *head);
    bool ok = r && items && pack_of && bit && head;
    if (ok) {
        r->bit = bit;
        r->head = head;
        r->words = words;
        memset(head, 0xff, (capacity + 1) * sizeof *head);
        for (uint32_t i = 0; i < n; i++)
            if (length[i]) items[used++] = (item){length[i], i};
        qsort(items, used, sizeof *items, longest_first);
        packs->count = fit(r, items, used, capacity, pack_of);
        lay_out(items, used, pack_of, packs);
    }
    free(r);
    free(items);
    free(pack_of);
    free(bit);
    free(head);
    return ok ? LZT_OK : lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to pack a window");
}

lzt_status lzt__packs_shuffle(lzt__packs *packs, uint64_t seed, uint64_t epoch, uint64_t window, lzt_error *err)
{
    lzt__packs *old = malloc(sizeof *old);
    if (!old) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to pack a window");
    *old = *packs;
    uint64_t name = lzt__rng_u64(seed, epoch, window); /* a permutation of its own for each window */
    uint32_t at = 0;
    for (uint32_t p = 0; p < old->count; p++) {
        uint32_t from = (uint32_t)lzt__rng_permute(name, epoch, old->count, p),
                 n = old->begin[from + 1] - old->begin[from];
        packs->begin[p] = at;
        memcpy(packs->item + at, old->item + old->begin[from], n * sizeof *packs->item);
        at += n;
    }
    packs->begin[old->count] = at;
    free(old);
    return LZT_OK;
}
