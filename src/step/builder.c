/* The compiler's workbench: see builder.h. */
#include "step/builder.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for one more element; false when memory is out. */
static bool grow(void *array, uint32_t count, uint32_t *room, size_t element_bytes)
{
    if (count < *room) return true;
    uint32_t wanted = *room ? *room * 2 : 256;
    void **place = array, *bigger = realloc(*place, wanted * element_bytes);
    if (!bigger) return false;
    *place = bigger;
    *room = wanted;
    return true;
}

__attribute__((format(printf, 2, 0))) __attribute__((format(printf, 2, 0))) static const char *
keep_name(lzt_builder *b, const char *format, va_list args)
{
    char text[96];
    vsnprintf(text, sizeof text, format, args);
    lzt_program *p = b->program;
    char *copy = strdup(text);
    if (!copy || !grow(&p->names, p->name_count, &b->name_room, sizeof *p->names)) {
        free(copy);
        b->failed = true;
        return "";
    }
    return p->names[p->name_count++] = copy;
}

/* The tokens that the program's batches hold. */
static uint64_t capacity_of(const lzt_step_options *options)
{
    uint64_t tokens = options->plan->numerics.micro_batch_tokens;
    if (options->variant == LZT_VARIANT_PREFILL) tokens = options->cache.prompt_tokens;
    if (options->variant == LZT_VARIANT_DECODE) tokens = options->cache.sequences;
    assert(tokens > 0 && tokens <= options->plan->numerics.micro_batch_tokens); /* the layout's room */
    return tokens;
}

lzt_status lzt__builder_init(lzt_builder *b, const lzt_step_options *options, lzt_error *err)
{
    const lzt_numerics *numerics = &options->plan->numerics;
    *b = (lzt_builder){.options = options,
                       .model = options->model,
                       .plan = options->plan,
                       .dtype = numerics->dtype,
                       .grad_dtype = numerics->grad_dtype,
                       .element_bytes = lzt_dtype_bytes(numerics->dtype),
                       .grad_bytes = lzt_dtype_bytes(numerics->grad_dtype),
                       .capacity = capacity_of(options)};
    b->program = calloc(1, sizeof *b->program);
    if (!b->program) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a step program");
    b->program->info.variant = options->variant;
    return LZT_OK;
}

lzt_status lzt__builder_finish(lzt_builder *b, lzt_program **program, lzt_error *err)
{
    if (b->failed) {
        lzt_program_destroy(b->program);
        return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the tables of a step program");
    }
    lzt_program *p = b->program;
    p->info.task = p->tasks;
    p->info.object = p->objects;
    p->info.operand = p->operands;
    *program = p;
    return LZT_OK;
}

static uint32_t add_object(lzt_builder *b, lzt_object object)
{
    lzt_program *p = b->program;
    if (!grow(&p->objects, p->info.object_count, &b->object_room, sizeof *p->objects)) {
        b->failed = true;
        return 0;
    }
    p->objects[p->info.object_count] = object;
    return p->info.object_count++;
}

uint32_t lzt__object(lzt_builder *b, lzt_space space, uint64_t bytes, const char *name_format, ...)
{
    assert(bytes > 0);
    va_list args;
    va_start(args, name_format);
    const char *name = keep_name(b, name_format, args);
    va_end(args);
    return add_object(b, (lzt_object){.name = name, .bytes = bytes, .first_task = UINT32_MAX, .space = space});
}

uint32_t lzt__persistent(lzt_builder *b, lzt_space space, uint64_t offset, uint64_t bytes, const char *name_format, ...)
{
    assert(offset % LZT_DEV_ALIGNMENT == 0);
    va_list args;
    va_start(args, name_format);
    const char *name = keep_name(b, name_format, args);
    va_end(args);
    lzt_object object = {.name = name,
                         .bytes = bytes,
                         .offset = offset,
                         .unlimited_offset = offset,
                         .first_task = UINT32_MAX,
                         .space = space,
                         .persistent = true};
    return add_object(b, object);
}

lzt_task *lzt__task(lzt_builder *b, lzt_lane lane, int32_t layer, const char *name_format, ...)
{
    static lzt_task nowhere; /* written only after memory ran out */
    va_list args;
    va_start(args, name_format);
    const char *name = keep_name(b, name_format, args);
    va_end(args);
    lzt_program *p = b->program;
    if (!grow(&p->tasks, p->info.task_count, &b->task_room, sizeof *p->tasks)) {
        b->failed = true;
        return &nowhere;
    }
    lzt_task *task = &p->tasks[p->info.task_count++];
    *task = (lzt_task){.name = name,
                       .lane = lane,
                       .layer = layer,
                       .dtype = b->dtype,
                       .grad_dtype = b->grad_dtype,
                       .first_operand = p->info.operand_count,
                       .lane_index = b->lane_count[lane]++};
    return task;
}

void lzt__use(lzt_builder *b, int slot, lzt_access access, uint32_t object, uint64_t offset, uint64_t bytes)
{
    lzt_program *p = b->program;
    if (b->failed || !grow(&p->operands, p->info.operand_count, &b->operand_room, sizeof *p->operands)) {
        b->failed = true;
        return;
    }
    assert(object < p->info.object_count && offset + bytes <= p->objects[object].bytes && bytes > 0);
    uint32_t task_index = p->info.task_count - 1;
    lzt_object *o = &p->objects[object];
    if (o->first_task == UINT32_MAX) o->first_task = task_index;
    o->last_task = task_index;
    p->operands[p->info.operand_count++] = (lzt_operand){object, offset, bytes, (uint8_t)access, (int8_t)slot};
    p->tasks[task_index].operand_count++;
}

void lzt__use_all(lzt_builder *b, int slot, lzt_access access, uint32_t object)
{
    if (b->failed) return;
    lzt__use(b, slot, access, object, 0, b->program->objects[object].bytes);
}

void lzt__scratch(lzt_builder *b)
{
    if (b->failed) return;
    const lzt_task *task = &b->program->tasks[b->program->info.task_count - 1];
    lzt_kern_call call = {.op = task->op, .dtype = task->dtype, .grad_dtype = task->grad_dtype};
    memcpy(call.dim, task->dim, sizeof call.dim);
    memcpy(call.real, task->real, sizeof call.real);
    /* The size may depend on which operands are there (a forward-only loss chunk needs less). */
    for (uint32_t i = 0; i < task->operand_count; i++) call.ptr[b->program->operands[task->first_operand + i].slot] = b;
    uint64_t bytes = lzt_kern_scratch_bytes(b->options->kern, &call);
    if (!bytes) return;
    uint32_t object = lzt__object(b, LZT_SPACE_DEVICE, bytes, "scratch");
    lzt__use_all(b, LZT_SLOT_SCRATCH, LZT_ACCESS_READ_WRITE, object);
}

lzt_task *lzt__copy(lzt_builder *b, lzt_lane lane, int32_t layer, uint32_t from, uint64_t from_offset, uint32_t to,
                    uint64_t to_offset, uint64_t bytes, const char *name_format, ...)
{
    char name[96];
    va_list args;
    va_start(args, name_format);
    vsnprintf(name, sizeof name, name_format, args);
    va_end(args);
    lzt_task *task = lzt__task(b, lane, layer, "%s", name);
    lzt__use(b, 0, LZT_ACCESS_READ, from, from_offset, bytes);
    lzt__use(b, 1, LZT_ACCESS_WRITE, to, to_offset, bytes);
    b->program->info.link_bytes[lane] += bytes;
    return task;
}

const lzt_tensor *lzt__tensor(const lzt_builder *b, uint32_t unit, lzt_role role)
{
    const lzt_unit *u = &b->model->unit[unit];
    for (uint32_t i = 0; i < u->tensor_count; i++)
        if (b->model->tensor[u->first_tensor + i].role == role) return &b->model->tensor[u->first_tensor + i];
    return NULL;
}

void lzt_program_destroy(lzt_program *program)
{
    if (!program) return;
    for (uint32_t i = 0; i < program->name_count; i++) free(program->names[i]);
    free(program->names);
    free(program->tasks);
    free(program->objects);
    free(program->operands);
    free(program->dependencies);
    free(program->flows);
    free(program);
}

const lzt_program_info *lzt_program_get_info(const lzt_program *program)
{
    return &program->info;
}
