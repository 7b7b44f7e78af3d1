/* The interval map of the checked device: see dev_shadow.h.
 *
 * A treap of disjoint intervals that cover the arena, ordered by begin. Noting an access cuts intervals at its two
 * ends, splits off the tree of those between, works on them as a list, and joins the trees again. Nodes and readers
 * live in pools and are named by index; index 0 is none.
 */
#include "dev/checked/dev_shadow.h"

#include <assert.h>
#include <stdlib.h>

typedef struct interval {
    uint64_t begin, end;
    shadow_work writer;
    uint32_t readers; /* list in rising order of streams */
    uint32_t left, right, priority;
} interval;

typedef struct reader {
    shadow_work work;
    uint32_t next;
} reader;

struct lzt_shadow {
    interval *node;
    reader *reader;
    uint32_t *list; /* [node_capacity] the intervals an access covers */
    uint32_t node_count, node_capacity, node_free, reader_count, reader_capacity, reader_free;
    uint32_t root, random, used;
};

/* ---- pools */

/* Room for spare more nodes. False: no memory. */
static bool grow_nodes(lzt_shadow *s, uint32_t spare)
{
    if (s->node_capacity - s->used > spare + 1) return true;
    uint32_t capacity = s->node_capacity * 2 + spare + 2;
    interval *node = realloc(s->node, capacity * sizeof *node);
    if (node) s->node = node;
    uint32_t *list = realloc(s->list, capacity * sizeof *list);
    if (list) s->list = list;
    if (!node || !list) return false;
    s->node_capacity = capacity;
    return true;
}

static uint32_t new_node(lzt_shadow *s)
{
    uint32_t i = s->node_free;
    if (i)
        s->node_free = s->node[i].left;
    else
        i = s->node_count++;
    assert(i < s->node_capacity);
    s->used++;
    s->random ^= s->random << 13;
    s->random ^= s->random >> 17;
    s->random ^= s->random << 5;
    s->node[i] = (interval){.priority = s->random};
    return i;
}

/* 0: no memory */
static uint32_t new_reader(lzt_shadow *s, shadow_work work, uint32_t next)
{
    uint32_t i = s->reader_free;
    if (i) {
        s->reader_free = s->reader[i].next;
    } else {
        if (s->reader_count == s->reader_capacity) {
            uint32_t capacity = s->reader_capacity * 2 + 64;
            reader *grown = realloc(s->reader, capacity * sizeof *grown);
            if (!grown) return 0;
            s->reader = grown;
            s->reader_capacity = capacity;
        }
        i = s->reader_count++;
    }
    s->reader[i] = (reader){work, next};
    return i;
}

static void free_readers(lzt_shadow *s, uint32_t first)
{
    while (first) {
        uint32_t next = s->reader[first].next;
        s->reader[first].next = s->reader_free;
        s->reader_free = first;
        first = next;
    }
}

static void free_node(lzt_shadow *s, uint32_t i)
{
    free_readers(s, s->node[i].readers);
    s->node[i].left = s->node_free;
    s->node_free = i;
    s->used--;
}

/* ---- treap */

/* Intervals that begin before key go to *left, the others to *right. */
static void split(lzt_shadow *s, uint32_t t, uint64_t key, uint32_t *left, uint32_t *right)
{
    if (!t) {
        *left = *right = 0;
    } else if (s->node[t].begin < key) {
        split(s, s->node[t].right, key, &s->node[t].right, right);
        *left = t;
    } else {
        split(s, s->node[t].left, key, left, &s->node[t].left);
        *right = t;
    }
}

static uint32_t join(lzt_shadow *s, uint32_t left, uint32_t right)
{
    if (!left || !right) return left ? left : right;
    if (s->node[left].priority > s->node[right].priority) {
        s->node[left].right = join(s, s->node[left].right, right);
        return left;
    }
    s->node[right].left = join(s, left, s->node[right].left);
    return right;
}

static uint32_t find(const lzt_shadow *s, uint64_t offset)
{
    uint32_t t = s->root;
    while (t && (offset < s->node[t].begin || offset >= s->node[t].end))
        t = offset < s->node[t].begin ? s->node[t].left : s->node[t].right;
    return t;
}

/* A copy of a list of readers. False: no memory (and nothing made). */
static bool copy_readers(lzt_shadow *s, uint32_t from, uint32_t *copy)
{
    uint32_t first = 0, last = 0;
    for (uint32_t r = from; r; r = s->reader[r].next) {
        uint32_t made = new_reader(s, s->reader[r].work, 0);
        if (!made) {
            free_readers(s, first);
            return false;
        }
        if (last)
            s->reader[last].next = made;
        else
            first = made;
        last = made;
    }
    *copy = first;
    return true;
}

/* Makes an interval begin at offset. False: no memory. */
static bool cut(lzt_shadow *s, uint64_t offset)
{
    uint32_t old = find(s, offset), left, right, copy;
    if (!old || s->node[old].begin == offset) return true;
    if (!copy_readers(s, s->node[old].readers, &copy)) return false;
    uint32_t fresh = new_node(s);
    s->node[fresh].begin = offset;
    s->node[fresh].end = s->node[old].end;
    s->node[fresh].writer = s->node[old].writer;
    s->node[fresh].readers = copy;
    s->node[old].end = offset;
    split(s, s->root, offset, &left, &right);
    s->root = join(s, join(s, left, fresh), right);
    return true;
}

static uint32_t flatten(lzt_shadow *s, uint32_t t, uint32_t count)
{
    if (!t) return count;
    count = flatten(s, s->node[t].left, count);
    uint32_t right = s->node[t].right;
    s->list[count++] = t;
    s->node[t].left = 0;
    count = flatten(s, right, count);
    s->node[t].right = 0;
    return count;
}

/* ---- accesses */

static bool covers(const uint64_t *clock, const shadow_work *earlier)
{
    return !earlier->name || clock[earlier->stream] >= earlier->sequence;
}

static void judge(const lzt_shadow *s, const interval *i, bool is_write, const uint64_t *clock,
                  shadow_conflict_fn *conflict, void *ctx)
{
    if (!covers(clock, &i->writer)) conflict(ctx, &i->writer, i->begin, i->end - i->begin);
    for (uint32_t r = is_write ? i->readers : 0; r; r = s->reader[r].next)
        if (!covers(clock, &s->reader[r].work)) conflict(ctx, &s->reader[r].work, i->begin, i->end - i->begin);
}

static bool add_reader(lzt_shadow *s, uint32_t node, const shadow_work *work)
{
    uint32_t previous = 0, r = s->node[node].readers;
    while (r && s->reader[r].work.stream < work->stream) {
        previous = r;
        r = s->reader[r].next;
    }
    if (r && s->reader[r].work.stream == work->stream) {
        s->reader[r].work = *work;
        return true;
    }
    uint32_t made = new_reader(s, *work, r);
    if (!made) return false;
    if (previous)
        s->reader[previous].next = made;
    else
        s->node[node].readers = made;
    return true;
}

static bool is_same_work(const shadow_work *a, const shadow_work *b)
{
    return a->name == b->name && a->sequence == b->sequence && a->stream == b->stream;
}

static bool is_same_state(const lzt_shadow *s, const interval *a, const interval *b)
{
    if (!is_same_work(&a->writer, &b->writer)) return false;
    uint32_t p = a->readers, q = b->readers;
    for (; p && q; p = s->reader[p].next, q = s->reader[q].next)
        if (!is_same_work(&s->reader[p].work, &s->reader[q].work)) return false;
    return !p && !q;
}

/* The first interval of the list takes all: written by work, read by nobody since. */
static uint32_t note_write(lzt_shadow *s, uint32_t count, const shadow_work *work)
{
    interval *all = &s->node[s->list[0]];
    all->end = s->node[s->list[count - 1]].end;
    for (uint32_t i = 1; i < count; i++) free_node(s, s->list[i]);
    free_readers(s, all->readers);
    all->readers = 0;
    all->writer = *work;
    return s->list[0];
}

/* Adds the reader to each; neighbours that have become equal melt. */
static bool note_read(lzt_shadow *s, uint32_t count, const shadow_work *work, uint32_t *tree)
{
    bool good = true;
    uint32_t last = 0;
    *tree = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t t = s->list[i];
        good &= add_reader(s, t, work);
        if (last && is_same_state(s, &s->node[last], &s->node[t])) {
            s->node[last].end = s->node[t].end;
            free_node(s, t);
        } else {
            if (last) *tree = join(s, *tree, last);
            last = t;
        }
    }
    *tree = join(s, *tree, last);
    return good;
}

bool lzt__shadow_note(lzt_shadow *s, uint64_t begin, uint64_t end, bool is_write, const shadow_work *work,
                      const uint64_t *clock, shadow_conflict_fn *conflict, void *ctx)
{
    if (begin == end) return true;
    assert(begin < end && work->name);
    if (!grow_nodes(s, 2) || !cut(s, begin) || !cut(s, end)) return false;
    uint32_t left, middle, right;
    split(s, s->root, begin, &left, &middle);
    split(s, middle, end, &middle, &right);
    uint32_t count = flatten(s, middle, 0);
    assert(count && s->node[s->list[0]].begin == begin && s->node[s->list[count - 1]].end == end);
    for (uint32_t i = 0; i < count; i++) judge(s, &s->node[s->list[i]], is_write, clock, conflict, ctx);
    bool good = true;
    if (is_write)
        middle = note_write(s, count, work);
    else
        good = note_read(s, count, work, &middle);
    s->root = join(s, join(s, left, middle), right);
    return good;
}

lzt_shadow *lzt__shadow_create(uint64_t bytes)
{
    lzt_shadow *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->random = 2463534242u;
    s->node_count = s->reader_count = 1;
    s->reader = malloc(64 * sizeof *s->reader);
    s->reader_capacity = 64;
    if (!s->reader || !grow_nodes(s, 62)) {
        lzt__shadow_destroy(s);
        return NULL;
    }
    if (bytes) {
        s->root = new_node(s);
        s->node[s->root].end = bytes;
    }
    return s;
}

void lzt__shadow_destroy(lzt_shadow *s)
{
    if (!s) return;
    free(s->node);
    free(s->reader);
    free(s->list);
    free(s);
}

uint64_t lzt__shadow_interval_count(const lzt_shadow *s)
{
    return s->used;
}
