/* Dependencies, derived from overlapping byte ranges and never written by hand.
 *
 * Tasks are walked in program order over a map of each arena: a segment remembers its last writer and, per lane, its
 * last reader since. A read depends on the writer, a write on the writer and the readers. Lanes run in order, so of
 * several dependencies on one lane only the last counts, and a task's own lane needs none.
 *
 * What remains is reduced to the irreducible: a dependency is dropped when another one, or the task before it on its
 * own lane, already implies it. known[t][lane] is how many tasks of the lane have completed when t has.
 */
#include "step/builder.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NO_TASK UINT32_MAX

typedef struct segment {
    uint64_t begin, end;
    uint32_t writer;
    uint32_t reader[LZT_LANE_COUNT];
} segment;

typedef struct map {
    segment *segment; /* sorted, disjoint */
    uint32_t count, room;
} map;

typedef struct deriver {
    const lzt_program *program;
    bool unlimited; /* lay objects apart */
    map map[LZT_SPACE_COUNT];
    uint32_t *known;                    /* [task_count][LZT_LANE_COUNT] */
    uint32_t lane_last[LZT_LANE_COUNT]; /* the lane's latest task, or NO_TASK */
    uint32_t wanted[LZT_LANE_COUNT];    /* of the task in hand: the latest task per lane it depends on */
    uint32_t *out, out_count, out_room;
    bool failed;
} deriver;

static bool reserve(map *m, uint32_t more)
{
    if (m->count + more <= m->room) return true;
    uint32_t room = m->room ? m->room * 2 : 512;
    segment *bigger = realloc(m->segment, room * sizeof *bigger);
    if (!bigger) return false;
    m->segment = bigger;
    m->room = room;
    return true;
}

/* The first segment that ends after offset. */
static uint32_t find(const map *m, uint64_t offset)
{
    uint32_t low = 0, high = m->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (m->segment[middle].end > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void insert(map *m, uint32_t at, segment s)
{
    memmove(&m->segment[at + 1], &m->segment[at], (m->count - at) * sizeof s);
    m->segment[at] = s;
    m->count++;
}

static segment fresh(uint64_t begin, uint64_t end)
{
    segment s = {.begin = begin, .end = end, .writer = NO_TASK};
    for (int lane = 0; lane < LZT_LANE_COUNT; lane++) s.reader[lane] = NO_TASK;
    return s;
}

/* Cuts the map so that [begin, end) is covered by whole segments; returns the index of the first of them. */
static uint32_t cut(deriver *d, map *m, uint64_t begin, uint64_t end)
{
    uint32_t first = find(m, begin);
    if (!reserve(m, 4)) return d->failed = true, 0;
    if (first < m->count && m->segment[first].begin < begin) {
        segment left = m->segment[first];
        left.end = begin;
        m->segment[first].begin = begin;
        insert(m, first++, left);
    }
    uint64_t cursor = begin;
    for (uint32_t i = first; cursor < end; i++) {
        if (!reserve(m, 4)) return d->failed = true, 0;
        if (i == m->count || m->segment[i].begin > cursor) {
            uint64_t stop = i == m->count || m->segment[i].begin > end ? end : m->segment[i].begin;
            insert(m, i, fresh(cursor, stop));
        } else if (m->segment[i].end > end) {
            segment left = m->segment[i];
            left.end = end;
            m->segment[i].begin = end;
            insert(m, i, left);
        }
        cursor = m->segment[i].end;
    }
    return first;
}

static void want(deriver *d, uint32_t task)
{
    if (task == NO_TASK) return;
    lzt_lane lane = d->program->tasks[task].lane;
    if (d->wanted[lane] == NO_TASK || d->wanted[lane] < task) d->wanted[lane] = task;
}

static void access_range(deriver *d, uint32_t task, lzt_space space, uint64_t begin, uint64_t end, uint8_t access)
{
    map *m = &d->map[space];
    uint32_t first = cut(d, m, begin, end), last = first;
    if (d->failed) return;
    lzt_lane lane = d->program->tasks[task].lane;
    for (; last < m->count && m->segment[last].begin < end; last++) {
        segment *s = &m->segment[last];
        want(d, s->writer);
        if (access & LZT_ACCESS_WRITE)
            for (int k = 0; k < LZT_LANE_COUNT; k++) want(d, s->reader[k]);
        else
            s->reader[lane] = task;
    }
    if (!(access & LZT_ACCESS_WRITE)) return;
    m->segment[first] = fresh(begin, end);
    m->segment[first].writer = task;
    memmove(&m->segment[first + 1], &m->segment[last], (m->count - last) * sizeof *m->segment);
    m->count -= last - first - 1;
}

/* known of a predecessor is part of what the task knows. */
static bool implied(const deriver *d, uint32_t by, uint32_t task)
{
    const lzt_task *t = &d->program->tasks[task];
    return d->known[(uint64_t)by * LZT_LANE_COUNT + t->lane] > t->lane_index;
}

static bool emit(deriver *d, uint32_t task)
{
    if (d->out_count == d->out_room) {
        uint32_t room = d->out_room ? d->out_room * 2 : 1024;
        uint32_t *bigger = realloc(d->out, room * sizeof *bigger);
        if (!bigger) return false;
        d->out = bigger;
        d->out_room = room;
    }
    d->out[d->out_count++] = task;
    return true;
}

/* Keeps of the wanted dependencies the irreducible ones and works out what the task knows. */
static void reduce(deriver *d, uint32_t task)
{
    const lzt_task *t = &d->program->tasks[task];
    uint32_t *known = &d->known[(uint64_t)task * LZT_LANE_COUNT], before = d->lane_last[t->lane];
    if (before != NO_TASK) memcpy(known, &d->known[(uint64_t)before * LZT_LANE_COUNT], LZT_LANE_COUNT * sizeof *known);
    for (int a = 0; a < LZT_LANE_COUNT; a++) {
        uint32_t candidate = d->wanted[a];
        if (candidate == NO_TASK || a == (int)t->lane) continue;
        bool redundant = before != NO_TASK && implied(d, before, candidate);
        for (int b = 0; b < LZT_LANE_COUNT && !redundant; b++)
            redundant = b != a && d->wanted[b] != NO_TASK && implied(d, d->wanted[b], candidate);
        if (!redundant && !emit(d, candidate)) d->failed = true;
    }
    for (int a = 0; a < LZT_LANE_COUNT; a++) {
        if (d->wanted[a] == NO_TASK) continue;
        const uint32_t *theirs = &d->known[(uint64_t)d->wanted[a] * LZT_LANE_COUNT];
        for (int lane = 0; lane < LZT_LANE_COUNT; lane++)
            if (theirs[lane] > known[lane]) known[lane] = theirs[lane];
    }
    known[t->lane] = t->lane_index + 1;
    d->lane_last[t->lane] = task;
}

static void derive_task(deriver *d, uint32_t task)
{
    const lzt_program *p = d->program;
    const lzt_task *t = &p->tasks[task];
    for (int lane = 0; lane < LZT_LANE_COUNT; lane++) d->wanted[lane] = NO_TASK;
    /* All reads first: a range read and written by the same task must not depend on itself. */
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < t->operand_count && !d->failed; i++) {
            const lzt_operand *u = &p->operands[t->first_operand + i];
            const lzt_object *o = &p->objects[u->object];
            bool writes = u->access & LZT_ACCESS_WRITE;
            if (writes != (pass == 1)) continue;
            uint64_t begin = (d->unlimited ? o->unlimited_offset : o->offset) + u->offset;
            access_range(d, task, (lzt_space)o->space, begin, begin + u->bytes, u->access);
        }
    for (int lane = 0; lane < LZT_LANE_COUNT; lane++)
        if (d->wanted[lane] == task) d->wanted[lane] = NO_TASK;
    reduce(d, task);
}

static lzt_status derive(lzt_program *p, bool unlimited, uint32_t **out, uint32_t *out_count, lzt_error *err)
{
    deriver d = {.program = p, .unlimited = unlimited};
    d.known = calloc((uint64_t)p->info.task_count * LZT_LANE_COUNT + 1, sizeof *d.known);
    d.failed = !d.known;
    for (int lane = 0; lane < LZT_LANE_COUNT; lane++) d.lane_last[lane] = NO_TASK;
    for (uint32_t task = 0; task < p->info.task_count && !d.failed; task++) {
        uint32_t first = d.out_count;
        derive_task(&d, task);
        lzt_task *t = &p->tasks[task];
        if (unlimited)
            t->first_flow = first, t->flow_count = d.out_count - first;
        else
            t->first_dependency = first, t->dependency_count = d.out_count - first;
    }
    for (int space = 0; space < LZT_SPACE_COUNT; space++) free(d.map[space].segment);
    free(d.known);
    if (d.failed) {
        free(d.out);
        return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to derive dependencies");
    }
    *out = d.out;
    *out_count = d.out_count;
    return LZT_OK;
}

lzt_status lzt__depend(lzt_program *p, lzt_error *err)
{
    lzt_status status = derive(p, false, &p->dependencies, &p->info.dependency_count, err);
    if (!status) status = derive(p, true, &p->flows, &p->info.flow_count, err);
    p->info.dependency = p->dependencies;
    p->info.flow = p->flows;
    return status;
}
