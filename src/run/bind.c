/* Binding: a program's tasks become works of one device, with addresses in place of offsets. */
#include "run/engine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static lzt_status run_kernel(void *arg, void *native_stream, lzt_error *err)
{
    lzt_bound_call *bound = arg;
    return lzt_kern_run(bound->kern, &bound->call, native_stream, err);
}

static void bind_kernel(const lzt_engine *engine, const lzt_program_info *p, const lzt_task *t, lzt_bound_call *out)
{
    *out = (lzt_bound_call){.kern = engine->kern};
    lzt_kern_call *call = &out->call;
    call->op = t->op;
    call->dtype = t->dtype;
    call->grad_dtype = t->grad_dtype;
    memcpy(call->dim, t->dim, sizeof call->dim);
    memcpy(call->real, t->real, sizeof call->real);
    for (uint32_t i = 0; i < t->operand_count; i++) {
        const lzt_operand *u = &p->operand[t->first_operand + i];
        const lzt_object *o = &p->object[u->object];
        assert(o->space == LZT_SPACE_DEVICE); /* nothing computes on host memory */
        void *address = lzt_dev_address(engine->dev, LZT_SPACE_DEVICE, o->offset + u->offset);
        if (u->slot == LZT_SLOT_SCRATCH) {
            call->scratch = address;
            call->scratch_bytes = u->bytes;
        } else {
            call->ptr[u->slot] = address;
        }
    }
}

static void bind_host(lzt_engine *engine, const lzt_program_info *p, const lzt_task *t, lzt_host_call *out)
{
    *out = (lzt_host_call){.engine = engine, .op = t->host_op, .dim = {t->dim[0], t->dim[1]}};
    for (uint32_t i = 0; i < t->operand_count; i++) {
        const lzt_operand *u = &p->operand[t->first_operand + i];
        const lzt_object *o = &p->object[u->object];
        assert(o->space == LZT_SPACE_HOST);
        if (u->slot == LZT_SLOT_RANGE) continue;
        assert(u->slot < LZT_HOST_PTRS);
        out->ptr[u->slot] = lzt_dev_address(engine->dev, LZT_SPACE_HOST, o->offset + u->offset);
    }
}

static void bind_task(lzt_engine *engine, lzt_bound *bound, uint32_t index, int32_t drop_dependency)
{
    const lzt_program_info *p = lzt_program_get_info(bound->program);
    const lzt_task *t = &p->task[index];
    lzt_work *work = &bound->work[index];
    for (uint32_t i = 0; i < t->operand_count; i++) {
        const lzt_operand *u = &p->operand[t->first_operand + i];
        const lzt_object *o = &p->object[u->object];
        bound->range[t->first_operand + i] = (lzt_range){o->offset + u->offset, u->bytes, o->space, u->access};
    }
    uint32_t waits = 0;
    for (uint32_t i = 0; i < t->dependency_count; i++) {
        uint32_t dependency = t->first_dependency + i;
        if ((int64_t)dependency == drop_dependency) continue;
        bound->wait[t->first_dependency + waits++].stream = engine->stream[p->task[p->dependency[dependency]].lane];
    }
    *work = (lzt_work){.name = t->name,
                       .range = &bound->range[t->first_operand],
                       .wait = &bound->wait[t->first_dependency],
                       .range_count = t->operand_count,
                       .wait_count = waits};
    if (t->op) {
        bind_kernel(engine, p, t, &bound->kernel[index]);
        work->call = run_kernel;
        work->arg = &bound->kernel[index];
    } else if (t->host_op) {
        bind_host(engine, p, t, &bound->host_call[index]);
        work->call = lzt__host_call;
        work->arg = &bound->host_call[index];
    }
}

lzt_status lzt__bind(lzt_engine *engine, lzt_program *program, int32_t drop_dependency, lzt_bound **out, lzt_error *err)
{
    const lzt_program_info *p = lzt_program_get_info(program);
    lzt_bound *bound = calloc(1, sizeof *bound);
    if (!bound) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to bind a program");
    uint64_t tasks = p->task_count + 1;
    bound->work = calloc(tasks, sizeof *bound->work);
    bound->range = calloc((uint64_t)p->operand_count + 1, sizeof *bound->range);
    bound->wait = calloc((uint64_t)p->dependency_count + 1, sizeof *bound->wait);
    bound->sequence = calloc(tasks, sizeof *bound->sequence);
    bound->kernel = calloc(tasks, sizeof *bound->kernel);
    bound->host_call = calloc(tasks, sizeof *bound->host_call);
    if (!bound->work || !bound->range || !bound->wait || !bound->sequence || !bound->kernel || !bound->host_call) {
        lzt__bound_destroy(bound);
        return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to bind %u tasks", p->task_count);
    }
    bound->program = program;
    for (uint32_t i = 0; i < p->task_count; i++) bind_task(engine, bound, i, drop_dependency);
    *out = bound;
    return LZT_OK;
}

void lzt__bound_destroy(lzt_bound *bound)
{
    if (!bound) return;
    lzt_program_destroy(bound->program);
    free(bound->work);
    free(bound->range);
    free(bound->wait);
    free(bound->sequence);
    free(bound->kernel);
    free(bound->host_call);
    free(bound);
}
