/* The lives of a program's objects, from its tables alone: see lazytrain/lives.h.
 *
 *     operands ──> first, last, uses of each object
 *     copies   ──> union of the objects that hold one value
 *     offsets  ──> who takes the bytes next
 */
#include "lazytrain/lives.h"

#include <assert.h>
#include <stdlib.h>

/* What sorts a stay into its place. */
typedef struct key {
    uint32_t life_first, root; /* the life's first task, and its representative */
    uint32_t is_transient, first, object;
} key;

typedef struct tables {
    const lzt_program_info *p;
    uint32_t *parent;               /* [objects] union-find */
    uint32_t *first, *last, *count; /* [objects] tasks, uses */
    uint32_t *life_first;           /* [objects] by representative */
    uint32_t *stay_of;              /* [objects] */
    key *keys;                      /* [stays] */
} tables;

static bool is_copy(const lzt_task *t)
{
    return !t->op && !t->host_op;
}

static uint32_t root_of(const tables *t, uint32_t object)
{
    while (t->parent[object] != object) object = t->parent[object] = t->parent[t->parent[object]];
    return object;
}

/* The operand of a copy in the slot: 0 source, 1 target. */
static const lzt_operand *copy_end(const lzt_program_info *p, const lzt_task *task, int slot)
{
    for (uint32_t i = 0; i < task->operand_count; i++)
        if (p->operand[task->first_operand + i].slot == slot) return &p->operand[task->first_operand + i];
    assert(!"a copy without its two operands");
    return NULL;
}

static void scan(tables *t)
{
    const lzt_program_info *p = t->p;
    for (uint32_t i = 0; i < p->object_count; i++) {
        t->parent[i] = i;
        t->first[i] = t->life_first[i] = t->stay_of[i] = LZT_LIVES_NONE;
    }
    for (uint32_t k = 0; k < p->task_count; k++) {
        const lzt_task *task = &p->task[k];
        for (uint32_t i = 0; i < task->operand_count; i++) {
            uint32_t object = p->operand[task->first_operand + i].object;
            if (!t->count[object]++) t->first[object] = k;
            t->last[object] = k;
        }
        if (!is_copy(task)) continue;
        uint32_t from = root_of(t, copy_end(p, task, 0)->object), to = root_of(t, copy_end(p, task, 1)->object);
        t->parent[from > to ? from : to] = from > to ? to : from;
    }
    for (uint32_t i = 0; i < p->object_count; i++) {
        uint32_t root = root_of(t, i);
        if (t->count[i] && t->first[i] < t->life_first[root]) t->life_first[root] = t->first[i];
    }
}

static int by_life(const void *a, const void *b)
{
    const key *x = a, *y = b;
    const uint32_t left[] = {x->life_first, x->root, x->is_transient, x->first, x->object};
    const uint32_t right[] = {y->life_first, y->root, y->is_transient, y->first, y->object};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        if (left[i] != right[i]) return left[i] < right[i] ? -1 : 1;
    return 0;
}

/* Stays in order, with the room for their uses; lives over them. */
static void lay_out(tables *t, lzt_lives *out)
{
    uint32_t root = LZT_LIVES_NONE;
    for (uint32_t i = 0; i < t->p->object_count; i++) {
        if (!t->count[i]) continue;
        uint32_t of = root_of(t, i);
        t->keys[out->stay_count++] = (key){t->life_first[of], of, !t->p->object[i].persistent, t->first[i], i};
    }
    qsort(t->keys, out->stay_count, sizeof *t->keys, by_life);
    for (uint32_t s = 0; s < out->stay_count; s++) {
        uint32_t object = t->keys[s].object;
        const lzt_object *o = &t->p->object[object];
        if (t->keys[s].root != root)
            out->life[out->life_count++] = (lzt_life){.first_stay = s, .maker = t->keys[s].life_first};
        root = t->keys[s].root;
        lzt_life *life = &out->life[out->life_count - 1];
        life->stay_count++;
        if (o->bytes > life->bytes) life->bytes = o->bytes;
        t->stay_of[object] = s;
        out->stay[s] = (lzt_stay){.object = object,
                                  .first_use = out->use_count,
                                  .first_task = t->first[object],
                                  .last_task = t->last[object],
                                  .next_object = LZT_LIVES_NONE,
                                  .life = out->life_count - 1};
        out->use_count += t->count[object];
    }
}

/* In program order, so each stay's uses are. */
static void fill_uses(const tables *t, lzt_lives *out)
{
    const lzt_program_info *p = t->p;
    for (uint32_t k = 0; k < p->task_count; k++) {
        const lzt_task *task = &p->task[k];
        for (uint32_t i = 0; i < task->operand_count; i++) {
            const lzt_operand *u = &p->operand[task->first_operand + i];
            const lzt_object *o = &p->object[u->object];
            lzt_stay *stay = &out->stay[t->stay_of[u->object]];
            lzt_use *use = &out->use[stay->first_use + stay->use_count++];
            *use = (lzt_use){k, u->access, is_copy(task), LZT_LIVES_NONE, u->bytes};
            if (use->is_copy) use->other = t->stay_of[copy_end(p, task, !u->slot)->object];
            if (use->is_copy && u->slot == 1) out->moved_bytes[task->lane] += u->bytes;
            uint64_t end = o->offset + u->offset + u->bytes;
            if (end > out->peak_bytes[o->space]) out->peak_bytes[o->space] = end;
            lzt_life *life = &out->life[stay->life];
            if (life->maker == k && o->persistent && u->access & LZT_ACCESS_READ) life->maker = LZT_LIVES_NONE;
        }
    }
}

static void find_next(const tables *t, lzt_lives *out)
{
    const lzt_program_info *p = t->p;
    for (uint32_t s = 0; s < out->stay_count; s++) {
        lzt_stay *stay = &out->stay[s];
        const lzt_object *o = &p->object[stay->object];
        uint32_t next_first = LZT_LIVES_NONE;
        if (o->persistent) continue;
        for (uint32_t k = 0; k < out->stay_count; k++) {
            const lzt_object *other = &p->object[out->stay[k].object];
            if (other->space != o->space || other->persistent || out->stay[k].first_task <= stay->last_task) continue;
            if (other->offset >= o->offset + o->bytes || o->offset >= other->offset + other->bytes) continue;
            if (out->stay[k].first_task >= next_first) continue;
            next_first = out->stay[k].first_task;
            stay->next_object = out->stay[k].object;
        }
    }
}

static void free_tables(tables *t)
{
    void *all[] = {t->parent, t->first, t->last, t->count, t->life_first, t->stay_of, t->keys};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

lzt_status lzt_lives_create(const lzt_program *program, lzt_lives **lives, lzt_error *err)
{
    const lzt_program_info *p = lzt_program_get_info(program);
    size_t n = (size_t)p->object_count + 1;
    tables t = {.p = p,
                .parent = calloc(n, sizeof *t.parent),
                .first = calloc(n, sizeof *t.first),
                .last = calloc(n, sizeof *t.last),
                .count = calloc(n, sizeof *t.count),
                .life_first = calloc(n, sizeof *t.life_first),
                .stay_of = calloc(n, sizeof *t.stay_of),
                .keys = calloc(n, sizeof *t.keys)};
    lzt_lives *out = calloc(1, sizeof *out);
    if (out) {
        out->program = p;
        out->life = calloc(n, sizeof *out->life);
        out->stay = calloc(n, sizeof *out->stay);
        out->use = calloc((size_t)p->operand_count + 1, sizeof *out->use);
    }
    bool have = t.parent && t.first && t.last && t.count && t.life_first && t.stay_of && t.keys;
    if (!have || !out || !out->life || !out->stay || !out->use) {
        free_tables(&t);
        lzt_lives_destroy(out);
        return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the lives of %u objects", p->object_count);
    }
    scan(&t);
    lay_out(&t, out);
    fill_uses(&t, out);
    find_next(&t, out);
    free_tables(&t);
    *lives = out;
    return LZT_OK;
}

void lzt_lives_destroy(lzt_lives *lives)
{
    if (!lives) return;
    free(lives->life);
    free(lives->stay);
    free(lives->use);
    free(lives);
}
