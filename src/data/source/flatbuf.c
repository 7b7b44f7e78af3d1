/* FlatBuffers, checked: see flatbuf.h. */
#include "data/source/flatbuf.h"

static bool inside(lzt__flat *f, uint64_t at, uint64_t bytes)
{
    if (f->broken || at > f->size || bytes > f->size - at) f->broken = true;
    return !f->broken;
}

int64_t lzt__flat_integer(lzt__flat *f, uint64_t at, unsigned bytes)
{
    if (!inside(f, at, bytes)) return 0;
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++) v |= (uint64_t)f->at[at + i] << 8 * i;
    unsigned shift = 64 - 8 * bytes;
    return (int64_t)(v << shift) >> shift;
}

static uint64_t unsigned_at(lzt__flat *f, uint64_t at, unsigned bytes)
{
    uint64_t v = (uint64_t)lzt__flat_integer(f, at, bytes);
    return bytes == 8 ? v : v & ((UINT64_C(1) << 8 * bytes) - 1);
}

static void table_at(lzt__flat *f, uint64_t at, lzt__flat_table *t)
{
    *t = (lzt__flat_table){0};
    int64_t vtable = (int64_t)at - lzt__flat_integer(f, at, 4);
    if (vtable < 0) f->broken = true;
    if (f->broken) return;
    uint64_t vtable_bytes = unsigned_at(f, (uint64_t)vtable, 2), size = unsigned_at(f, (uint64_t)vtable + 2, 2);
    if (vtable_bytes < 4 || size < 4) f->broken = true;
    if (!inside(f, (uint64_t)vtable, vtable_bytes) || !inside(f, at, size)) return;
    *t = (lzt__flat_table){at, size, (uint64_t)vtable, vtable_bytes};
}

/* What an offset at a place points to. */
static uint64_t target(lzt__flat *f, uint64_t at)
{
    uint64_t distance = unsigned_at(f, at, 4);
    if (!inside(f, at, distance)) return 0;
    return at + distance;
}

void lzt__flat_root(lzt__flat *f, lzt__flat_table *t)
{
    table_at(f, target(f, 0), t);
}

/* Where a field of so many bytes lies; 0: absent. */
static uint64_t field(lzt__flat *f, const lzt__flat_table *t, unsigned id, unsigned bytes)
{
    uint64_t slot = 4 + 2 * (uint64_t)id;
    if (slot + 2 > t->vtable_bytes) return 0;
    uint64_t offset = unsigned_at(f, t->vtable + slot, 2);
    if (!offset) return 0;
    if (offset < 4 || offset + bytes > t->size) f->broken = true;
    return f->broken ? 0 : t->begin + offset;
}

int64_t lzt__flat_number(lzt__flat *f, const lzt__flat_table *t, unsigned id, unsigned bytes, int64_t otherwise)
{
    uint64_t at = field(f, t, id, bytes);
    return at ? lzt__flat_integer(f, at, bytes) : otherwise;
}

bool lzt__flat_child(lzt__flat *f, const lzt__flat_table *t, unsigned id, lzt__flat_table *child)
{
    uint64_t at = field(f, t, id, 4);
    *child = (lzt__flat_table){0};
    if (at) table_at(f, target(f, at), child);
    return at && !f->broken;
}

bool lzt__flat_elements(lzt__flat *f, const lzt__flat_table *t, unsigned id, unsigned element_bytes,
                        lzt__flat_vector *vector)
{
    uint64_t at = field(f, t, id, 4);
    *vector = (lzt__flat_vector){0};
    if (!at) return false;
    at = target(f, at);
    uint64_t count = unsigned_at(f, at, 4);
    if (!inside(f, at + 4, count * element_bytes)) return false;
    *vector = (lzt__flat_vector){at + 4, (uint32_t)count};
    return true;
}

void lzt__flat_element(lzt__flat *f, const lzt__flat_vector *vector, uint32_t index, lzt__flat_table *t)
{
    if (index >= vector->count) f->broken = true;
    table_at(f, f->broken ? 0 : target(f, vector->begin + 4 * (uint64_t)index), t);
}
