/* The compiler's workbench: grows the tables of a program while tasks are emitted in program order.
 *
 * Emitters call lzt__task (or lzt__copy), then lzt__use for each operand. A failed allocation is remembered and
 * reported once, by lzt__builder_finish; emitters need not check. Objects get offsets later (place.c), dependencies
 * after that (depend.c).
 */
#ifndef LZT_STEP_BUILDER_H
#define LZT_STEP_BUILDER_H

#include "lazytrain/step.h"

struct lzt_program {
    lzt_program_info info;
    lzt_task *tasks;
    lzt_object *objects;
    lzt_operand *operands;
    uint32_t *dependencies, *flows;
    char **names; /* [name_count] owned strings */
    uint32_t name_count;
};

typedef struct lzt_builder {
    const lzt_step_options *options;
    const lzt_model_info *model;
    const lzt_plan *plan;
    lzt_dtype dtype, grad_dtype;
    uint64_t element_bytes, grad_bytes; /* of dtype and grad_dtype */
    uint64_t capacity;                  /* T: tokens of a micro-batch */
    lzt_program *program;
    uint32_t task_room, object_room, operand_room, name_room;
    uint32_t lane_count[LZT_LANE_COUNT];
    bool failed; /* out of memory */
} lzt_builder;

#define LZT_NO_OBJECT UINT32_MAX

lzt_status lzt__builder_init(lzt_builder *b, const lzt_step_options *options, lzt_error *err);
/* Hands the program over (or frees it, on failure). */
lzt_status lzt__builder_finish(lzt_builder *b, lzt_program **program, lzt_error *err);

/* A new object of the space, alive from the first to the last task that uses it. */
uint32_t lzt__object(lzt_builder *b, lzt_space space, uint64_t bytes, const char *name_format, ...)
    __attribute__((format(printf, 4, 5)));
/* An object at a fixed offset that outlives the program. */
uint32_t lzt__persistent(lzt_builder *b, lzt_space space, uint64_t offset, uint64_t bytes, const char *name_format, ...)
    __attribute__((format(printf, 5, 6)));

/* Begins a task; the operands that follow belong to it. The pointer is valid until the next task. Never NULL. */
lzt_task *lzt__task(lzt_builder *b, lzt_lane lane, int32_t layer, const char *name_format, ...)
    __attribute__((format(printf, 4, 5)));
/* A range of an object as operand `slot` of the task in hand. */
void lzt__use(lzt_builder *b, int slot, lzt_access access, uint32_t object, uint64_t offset, uint64_t bytes);
/* The whole object. */
void lzt__use_all(lzt_builder *b, int slot, lzt_access access, uint32_t object);
/* Ends a compute task: gives it the scratch that the kernels ask for. */
void lzt__scratch(lzt_builder *b);
/* A copy task of bytes from one object to another. */
lzt_task *lzt__copy(lzt_builder *b, lzt_lane lane, int32_t layer, uint32_t from, uint64_t from_offset, uint32_t to,
                    uint64_t to_offset, uint64_t bytes, const char *name_format, ...)
    __attribute__((format(printf, 9, 10)));

/* The tensor of a unit with the role, or NULL. */
const lzt_tensor *lzt__tensor(const lzt_builder *b, uint32_t unit, lzt_role role);

/* place.c: offsets of all objects that are not persistent, in both ways. */
lzt_status lzt__place(lzt_program *program, const uint64_t base_bytes[LZT_SPACE_COUNT], lzt_error *err);
/* depend.c: the dependencies of every task, in both ways. */
lzt_status lzt__depend(lzt_program *program, lzt_error *err);

#endif
