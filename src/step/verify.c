/* A second opinion on a compiled program, from its own tables and by plain means: every pair is looked at.
 *
 * It shares nothing with place.c and depend.c but the tables they wrote. Quadratic in tasks and objects: tests and
 * `check` run it, a training run does not.
 */
#include "lazytrain/step.h"
#include "step/builder.h"

#include <stdlib.h>
#include <string.h>

static lzt_status check_operands(const lzt_program_info *p, lzt_error *err)
{
    uint64_t peak[LZT_SPACE_COUNT] = {0};
    for (uint32_t i = 0; i < p->task_count; i++) {
        const lzt_task *t = &p->task[i];
        for (uint32_t k = 0; k < t->operand_count; k++) {
            const lzt_operand *u = &p->operand[t->first_operand + k];
            const lzt_object *o = &p->object[u->object];
            if (u->offset + u->bytes > o->bytes)
                return lzt_fail(err, LZT_ERR_INTERNAL, t->name, "operand %u reaches past %s", k, o->name);
            if (!o->persistent && (i < o->first_task || i > o->last_task))
                return lzt_fail(err, LZT_ERR_INTERNAL, t->name, "uses %s outside its lifetime", o->name);
            uint64_t end = o->offset + u->offset + u->bytes;
            if (end > peak[o->space]) peak[o->space] = end;
        }
    }
    for (int s = 0; s < LZT_SPACE_COUNT; s++)
        if (peak[s] != p->peak_bytes[s])
            return lzt_fail(err, LZT_ERR_INTERNAL, NULL, "the peak of space %d is %llu, the program says %llu", s,
                            (unsigned long long)peak[s], (unsigned long long)p->peak_bytes[s]);
    return LZT_OK;
}

static lzt_status check_objects(const lzt_program_info *p, lzt_error *err)
{
    for (uint32_t i = 0; i < p->object_count; i++) {
        const lzt_object *a = &p->object[i];
        if (a->first_task == UINT32_MAX) continue;
        if (!a->persistent && a->offset < p->persistent_bytes[a->space])
            return lzt_fail(err, LZT_ERR_INTERNAL, a->name, "lies among the persistent objects");
        for (uint32_t k = i + 1; k < p->object_count; k++) {
            const lzt_object *b = &p->object[k];
            if (a->space != b->space || b->first_task == UINT32_MAX || a->persistent || b->persistent) continue;
            bool same_time = a->first_task <= b->last_task && b->first_task <= a->last_task;
            bool same_place = a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
            if (same_time && same_place)
                return lzt_fail(err, LZT_ERR_INTERNAL, a->name, "shares bytes with %s while both live", b->name);
        }
    }
    return LZT_OK;
}

static bool conflict(const lzt_program_info *p, const lzt_task *a, const lzt_task *b)
{
    for (uint32_t i = 0; i < a->operand_count; i++) {
        const lzt_operand *x = &p->operand[a->first_operand + i];
        const lzt_object *xo = &p->object[x->object];
        uint64_t x_begin = xo->offset + x->offset, x_end = x_begin + x->bytes;
        for (uint32_t k = 0; k < b->operand_count; k++) {
            const lzt_operand *y = &p->operand[b->first_operand + k];
            const lzt_object *yo = &p->object[y->object];
            if (xo->space != yo->space || !((x->access | y->access) & LZT_ACCESS_WRITE)) continue;
            uint64_t y_begin = yo->offset + y->offset;
            if (x_begin < y_begin + y->bytes && y_begin < x_end) return true;
        }
    }
    return false;
}

/* known[i][lane]: how many tasks of the lane have completed when task i has. */
static void work_out_known(const lzt_program_info *p, uint32_t *known)
{
    uint32_t last[LZT_LANE_COUNT];
    memset(last, 0xff, sizeof last);
    for (uint32_t i = 0; i < p->task_count; i++) {
        const lzt_task *t = &p->task[i];
        uint32_t *mine = &known[(uint64_t)i * LZT_LANE_COUNT];
        for (uint32_t k = 0; k <= t->dependency_count; k++) {
            uint32_t from = k < t->dependency_count ? p->dependency[t->first_dependency + k] : last[t->lane];
            if (from == UINT32_MAX) continue;
            for (int lane = 0; lane < LZT_LANE_COUNT; lane++)
                if (known[(uint64_t)from * LZT_LANE_COUNT + lane] > mine[lane])
                    mine[lane] = known[(uint64_t)from * LZT_LANE_COUNT + lane];
        }
        mine[t->lane] = t->lane_index + 1;
        last[t->lane] = i;
    }
}

lzt_status lzt_program_verify(const lzt_program *program, lzt_error *err)
{
    const lzt_program_info *p = &program->info;
    lzt_status status = check_operands(p, err);
    if (!status) status = check_objects(p, err);
    if (status) return status;
    uint32_t *known = calloc((uint64_t)p->task_count * LZT_LANE_COUNT + 1, sizeof *known);
    if (!known) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to verify a program");
    work_out_known(p, known);
    for (uint32_t i = 0; i < p->task_count && !status; i++)
        for (uint32_t k = 0; k < i && !status; k++) {
            const lzt_task *before = &p->task[k], *after = &p->task[i];
            if (known[(uint64_t)i * LZT_LANE_COUNT + before->lane] > before->lane_index) continue;
            if (conflict(p, before, after))
                status =
                    lzt_fail(err, LZT_ERR_INTERNAL, after->name, "touches the bytes of %s, unordered", before->name);
        }
    free(known);
    return status;
}
