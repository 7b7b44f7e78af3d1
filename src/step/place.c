/* Static placement: every object's offset in its arena, from its lifetime in program order.
 *
 * Two objects may share bytes when one's last task comes before the other's first. The problem is dynamic storage
 * allocation (NP-hard); greedy placement in order of falling size, each object into the tightest gap that is free over
 * its whole lifetime, comes within a few percent of the largest sum of live bytes on step programs. Placing in order of
 * appearance is tried as well, and the lower peak wins. Both are deterministic. Persistent objects lie below the base.
 */
#include "step/builder.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* An object in its place: bytes, and tasks. */
typedef struct placed {
    uint64_t begin, end;
    uint32_t first_task, last_task;
} placed;

typedef struct key {
    uint64_t bytes;
    uint32_t first_task, index;
} key;

static uint64_t align(uint64_t bytes)
{
    return (bytes + LZT_DEV_ALIGNMENT - 1) / LZT_DEV_ALIGNMENT * LZT_DEV_ALIGNMENT;
}

static int by_size(const void *a, const void *b)
{
    const key *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->index < y->index ? -1 : 1;
}

static int by_time(const void *a, const void *b)
{
    const key *x = a, *y = b;
    if (x->first_task != y->first_task) return x->first_task < y->first_task ? -1 : 1;
    return by_size(a, b);
}

/* The start of the tightest gap of at least bytes between those that live while o does, or past the last of them.
 * all[count] are sorted by where they begin. */
static uint64_t best_gap(const placed *all, uint32_t count, const lzt_object *o, uint64_t bytes)
{
    uint64_t cursor = 0, best = UINT64_MAX, best_room = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        if (all[i].last_task < o->first_task || all[i].first_task > o->last_task) continue;
        if (all[i].begin > cursor) {
            uint64_t room = all[i].begin - cursor;
            if (room >= bytes && room < best_room) best_room = room, best = cursor;
        }
        if (all[i].end > cursor) cursor = all[i].end;
    }
    return best == UINT64_MAX ? cursor : best;
}

/* Keeps all[count] sorted. Of those that begin alike the order does not matter to a gap. */
static void insert(placed *all, uint32_t count, placed one)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (all[middle].begin > one.begin)
            high = middle;
        else
            low = middle + 1;
    }
    memmove(all + low + 1, all + low, (count - low) * sizeof *all);
    all[low] = one;
}

/* Places the objects of keys[count] in that order into offsets[]; returns the peak above 0. Gives up where that is not
 * below another order's. */
static uint64_t place_in_order(const lzt_object *objects, const key *keys, uint32_t count, uint64_t other_peak,
                               placed *all, uint64_t *offsets)
{
    uint64_t peak = 0;
    for (uint32_t i = 0; i < count && peak < other_peak; i++) {
        const lzt_object *o = &objects[keys[i].index];
        uint64_t bytes = align(o->bytes), begin = best_gap(all, i, o, bytes);
        insert(all, i, (placed){begin, begin + bytes, o->first_task, o->last_task});
        offsets[keys[i].index] = begin;
        if (begin + bytes > peak) peak = begin + bytes;
    }
    return peak;
}

static void place_space(lzt_program *p, lzt_space space, uint64_t base, key *keys, placed *all, uint64_t *by_size_at,
                        uint64_t *by_time_at)
{
    uint32_t count = 0;
    uint64_t unlimited = base;
    for (uint32_t i = 0; i < p->info.object_count; i++) {
        lzt_object *o = &p->objects[i];
        if (o->space != space || o->persistent || o->first_task == UINT32_MAX) continue;
        keys[count++] = (key){o->bytes, o->first_task, i};
        o->unlimited_offset = unlimited;
        unlimited += align(o->bytes);
    }
    qsort(keys, count, sizeof *keys, by_size);
    uint64_t size_peak = place_in_order(p->objects, keys, count, UINT64_MAX, all, by_size_at);
    qsort(keys, count, sizeof *keys, by_time);
    uint64_t time_peak = place_in_order(p->objects, keys, count, size_peak, all, by_time_at);
    const uint64_t *best = size_peak <= time_peak ? by_size_at : by_time_at;
    for (uint32_t i = 0; i < count; i++) p->objects[keys[i].index].offset = base + best[keys[i].index];
    p->info.persistent_bytes[space] = base;
    /* The peak is the highest byte any task touches, to the byte: what the device will measure. */
    uint64_t peak = 0;
    for (uint32_t i = 0; i < p->info.operand_count; i++) {
        const lzt_operand *u = &p->operands[i];
        const lzt_object *o = &p->objects[u->object];
        uint64_t end = o->offset + u->offset + u->bytes;
        if (o->space == space && end > peak) peak = end;
    }
    p->info.peak_bytes[space] = peak;
}

lzt_status lzt__place(lzt_program *program, const uint64_t base_bytes[LZT_SPACE_COUNT], lzt_error *err)
{
    uint32_t count = program->info.object_count;
    key *keys = malloc((count + 1) * sizeof *keys);
    placed *all = malloc((count + 1) * sizeof *all);
    uint64_t *offsets = malloc(2 * (count + 1) * sizeof *offsets);
    lzt_status status = LZT_OK;
    if (!keys || !all || !offsets)
        status = lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to place %u objects", count);
    for (int space = 0; !status && space < LZT_SPACE_COUNT; space++)
        place_space(program, (lzt_space)space, base_bytes[space], keys, all, offsets, offsets + count);
    free(keys);
    free(all);
    free(offsets);
    return status;
}
