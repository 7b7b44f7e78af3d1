/* What the engine's files share: see lazytrain/run.h. */
#ifndef LZT_RUN_ENGINE_H
#define LZT_RUN_ENGINE_H

#include "lazytrain/optim.h"
#include "lazytrain/run.h"

#define LZT_HOST_PTRS 6

/* A host task bound to memory: what lzt__host_call gets. */
typedef struct lzt_host_call {
    struct lzt_engine *engine;
    lzt_host_op op;
    void *ptr[LZT_HOST_PTRS];
    uint64_t dim[2];
} lzt_host_call;

/* A kernel task bound to memory. */
typedef struct lzt_bound_call {
    lzt_kern *kern;
    lzt_kern_call call;
} lzt_bound_call;

/* A program bound to the engine's device: one work for each task. Everything is allocated here, nothing in a step. */
typedef struct lzt_bound {
    lzt_program *program;
    lzt_work *work;           /* [task_count] */
    lzt_range *range;         /* [operand_count] */
    lzt_wait *wait;           /* [dependency_count]; sequences are filled in at each submit */
    uint64_t *sequence;       /* [task_count] of the last submit */
    lzt_bound_call *kernel;   /* [task_count] those of compute tasks */
    lzt_host_call *host_call; /* [task_count] those of host tasks */
    uint64_t begin_ns, end_ns;
} lzt_bound;

struct lzt_engine {
    const lzt_model *model;
    const lzt_model_info *info;
    lzt_plan plan;
    lzt_state_layout *layout;
    lzt_dev *dev;
    lzt_kern *kern;
    lzt_optim *optim; /* of the optimizer lane */
    uint32_t stream[LZT_LANE_COUNT];
    uint64_t submitted[LZT_LANE_COUNT];
    lzt_bound *bound[LZT_VARIANT_COUNT][2]; /* [variant][with update] */
    uint64_t planned_bytes[LZT_SPACE_COUNT];
    bool training;
    lzt_cache_shape cache;
    bool cache_stands;  /* since the last PREFILL nothing but generation has run */
    bool pending;       /* gradients wait for their optimizer step */
    bool pending_moved; /* its scalars are where ADAMW reads them */
    bool *frozen;       /* [tensor_count] */
};

/* bind.c */
lzt_status lzt__bind(lzt_engine *engine, lzt_program *program, int32_t drop_dependency, lzt_bound **bound,
                     lzt_error *err);
void lzt__bound_destroy(lzt_bound *bound); /* the program too; NULL is allowed */

/* host_ops.c: the body of every host task. */
lzt_status lzt__host_call(void *arg, void *native_stream, lzt_error *err);

/* The host arena at an offset. */
static inline void *lzt__host(const lzt_engine *engine, uint64_t offset)
{
    return lzt_dev_address(engine->dev, LZT_SPACE_HOST, offset);
}

#endif
