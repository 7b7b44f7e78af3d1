/* The step program: a plan compiled into the tasks of one micro-batch, with every byte placed before the first step.
 *
 * A program is a list of tasks in program order. A task names its lane, its operator, and the ranges of objects that it
 * reads and writes. Nothing else orders tasks: program order defines the meaning, dependencies are derived from
 * overlapping ranges, and lanes run ahead of each other as far as those allow. Objects get their offsets from their
 * lifetimes in program order, so two objects may share bytes, and the resulting dependencies are derived like all
 * others.
 *
 *     lzt_step_options options = {.model = info, .plan = &plan, .variant = LZT_VARIANT_SINGLE, .kern = kern};
 *     lzt_step_layout_create(&options..., &layout, &err);    persistent host state, the same for every variant
 *     lzt_step_compile(&options, layout, &program, &err);
 *     lzt_step_simulate(program, seconds, false, &times);    or bind and run it (lazytrain/run.h)
 *
 * Variants. FIRST overwrites the host's gradients, MIDDLE and LAST add to them; LAST also takes the norm and the clip
 * factor. SINGLE is FIRST and LAST at once. With `update` a FIRST or SINGLE program begins with the optimizer of the
 * step before it, each unit's update ahead of its upload, so that the optimizer runs under the forward; DRAIN is that
 * update alone. EVALUATE stops after the loss. Generation is PREFILL and DECODE, both of which stop after the greedy
 * ids: PREFILL runs whole prompts and stores their keys and values in the cache, DECODE runs one token of each sequence
 * over it. The cache is an object of the device that outlives both, so its bytes are part of their peaks. A token gets
 * the same bits in either.
 *
 * Threads: a program is immutable once compiled. Ownership: destroy frees it.
 */
#ifndef LAZYTRAIN_STEP_H
#define LAZYTRAIN_STEP_H

#include "lazytrain/dev.h"
#include "lazytrain/kern.h"
#include "lazytrain/model.h"
#include "lazytrain/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lzt_variant {
    LZT_VARIANT_SINGLE = 0,
    LZT_VARIANT_FIRST,
    LZT_VARIANT_MIDDLE,
    LZT_VARIANT_LAST,
    LZT_VARIANT_EVALUATE,
    LZT_VARIANT_PREFILL,
    LZT_VARIANT_DECODE,
    LZT_VARIANT_DRAIN,
    LZT_VARIANT_COUNT
} lzt_variant;

/* Host operators: what the host lanes run. Operands in the order of ptr[], sizes in dim[]. */
typedef enum lzt_host_op {
    LZT_HOST_NONE = 0,
    LZT_HOST_GATHER,  /* out[n,H] = table rows of the batch's ids.  ptr: ids, table, out.  dim: H */
    LZT_HOST_SCATTER, /* gradient rows += dx rows by id, summed per id in f32 first.  ptr: ids, dx[n,H], gradient,
                         scratch. dim: H */
    LZT_HOST_ZERO,    /* ptr: gradient.  dim: bytes */
    LZT_HOST_ADD,     /* gradient += slab.  ptr: slab, gradient.  dim: elements */
    LZT_HOST_NORM,    /* partial[unit] = sum of squares.  ptr: gradient, partials.  dim: unit, elements */
    LZT_HOST_CLIP,    /* norm, clip factor, skip.  ptr: partials, scalars.  dim: units */
    LZT_HOST_ADAMW,   /* one unit.  ptr: gradient, master, exp_avg, exp_avg_sq, scalars.  dim: unit, elements */
    LZT_HOST_COUNT
} lzt_host_op;

LZT_EXPORT const char *lzt_host_op_name(lzt_host_op op);

/* What changes from step to step, in host memory. The run loop writes it between programs. */
typedef struct lzt_step_scalars {
    double lr, beta1, beta2, epsilon, weight_decay;
    double bias_correction1, bias_correction2; /* 1 - beta^t of the step being applied */
    double max_grad_norm;                      /* 0: no clipping */
    double grad_norm;                          /* out of CLIP: before clipping */
    double clip_factor;                        /* out of CLIP */
    uint64_t skip;                             /* out of CLIP: 1 when the norm is not finite; ADAMW then does nothing */
} lzt_step_scalars;

/* The persistent part of the host arena, the same for every variant. Offsets in bytes; "element" arrays follow the unit
 * layout of lazytrain/model.h. */
typedef struct lzt_state_unit {
    uint64_t element_count;
    uint64_t weight_offset;                     /* BF16 plans: uint16 hi[n]; F32 plans: float[n]. The upload's source */
    uint64_t low_offset;                        /* BF16 plans: int16 lo[n]; F32 plans: unused */
    uint64_t gradient_offset;                   /* grad_dtype[n]; the head's when tied lies in the embedding's */
    uint64_t exp_avg_offset, exp_avg_sq_offset; /* float[n] */
} lzt_state_unit;

typedef struct lzt_state_layout {
    lzt_state_unit *unit; /* [unit_count] */
    uint32_t unit_count;
    uint64_t descriptor_offset; /* lzt_batch_bytes(T): the micro-batch as it is uploaded */
    uint64_t ids_offset;        /* int32[1 + T]: token count, then the ids, for gather and scatter */
    uint64_t inv_freq_offset;   /* float[rotary_dim / 2] */
    uint64_t current_offset;    /* lzt_step_scalars of this step: CLIP writes it */
    uint64_t pending_offset;    /* lzt_step_scalars of the step that ADAMW applies */
    uint64_t partials_offset;   /* double[unit_count] */
    uint64_t result_offset;     /* what comes back: f64 loss sum, at 64 int32 ids[T] */
    uint64_t logits_offset;     /* PREFILL, DECODE with logits: float[V] of document 0 */
    uint64_t state_bytes;       /* weights, gradients and moments alone */
    uint64_t bytes;             /* all of it */
    bool training;              /* false: no gradients, no moments (eval, generate) */
} lzt_state_layout;

LZT_EXPORT lzt_status lzt_state_layout_create(const lzt_model_info *model, const lzt_numerics *numerics, bool training,
                                              lzt_state_layout **layout, lzt_error *err);
LZT_EXPORT void lzt_state_layout_destroy(lzt_state_layout *layout);

/* The key-value cache of generation: for each layer sequences x length keys, and as many values. */
typedef struct lzt_cache_shape {
    uint64_t sequences;     /* that decode at once; 0: no generation */
    uint64_t length;        /* positions of each: prompt and new tokens */
    uint64_t prompt_tokens; /* that one PREFILL holds: at least the longest prompt */
    bool keep_weights;      /* weights that the plan keeps on the device stay there from PREFILL through every DECODE */
} lzt_cache_shape;

typedef struct lzt_step_options {
    const lzt_model_info *model;
    const lzt_plan *plan;
    const lzt_state_layout *layout;
    const lzt_kern *kern; /* for its pure scratch sizes */
    lzt_variant variant;
    bool update;            /* FIRST, SINGLE: begin with the pending optimizer step */
    bool logits;            /* PREFILL, DECODE: bring the logits of document 0 back */
    lzt_cache_shape cache;  /* PREFILL, DECODE. sequences and prompt_tokens are at most micro_batch_tokens */
    uint64_t micro_batches; /* of a step: with more than one, kept weights have a place that outlives the program */
    const bool *frozen;     /* [tensor_count] NORM and ADAMW leave these out: what they touch, and take, is the others'.
                               Gradients, moments and copies stay as they are. NULL: none */
} lzt_step_options;

typedef struct lzt_object {
    const char *name;
    uint64_t bytes, offset;         /* within the arena of the space */
    uint64_t unlimited_offset;      /* where it would lie if nothing shared bytes */
    uint32_t first_task, last_task; /* lifetime in program order */
    uint8_t space;                  /* lzt_space */
    bool persistent;                /* outlives the program: a fixed offset */
} lzt_object;

typedef struct lzt_operand {
    uint32_t object;
    uint64_t offset, bytes; /* within the object */
    uint8_t access;         /* lzt_access */
    int8_t slot;            /* ptr index; LZT_SLOT_SCRATCH, _RANGE; copies: 0 source, 1 target */
} lzt_operand;

/* RANGE: touched beside the operand of a pointer; none of its own. */
enum { LZT_SLOT_SCRATCH = 100, LZT_SLOT_RANGE = 101 };

typedef struct lzt_task {
    const char *name;
    lzt_lane lane;
    lzt_op op;           /* compute tasks */
    lzt_host_op host_op; /* tasks of host lanes; a copy has neither */
    int32_t layer;       /* decoder layer, or -1 */
    int32_t iteration;   /* 0: this step; -1: the step before (its optimizer) */
    bool layer_forward;  /* one of these a layer forward: what `layer_forwards` counts */
    bool weight_upload;  /* one of these a decoder layer's upload */
    lzt_dtype dtype, grad_dtype;
    uint64_t dim[LZT_KERN_DIMS];
    double real[LZT_KERN_REALS];
    uint32_t first_operand, operand_count;
    uint32_t first_dependency, dependency_count; /* tasks it waits for: derived and irreducible, other lanes' only */
    uint32_t first_flow, flow_count;             /* the same if nothing shared bytes */
    uint32_t lane_index;                         /* ordinal within its lane, from 0 */
} lzt_task;

typedef struct lzt_program lzt_program;

typedef struct lzt_program_info {
    lzt_variant variant;
    const lzt_task *task;
    const lzt_object *object;
    const lzt_operand *operand;
    const uint32_t *dependency; /* task indices */
    const uint32_t *flow;
    uint32_t task_count, object_count, operand_count, dependency_count, flow_count;
    uint64_t peak_bytes[LZT_SPACE_COUNT];
    uint64_t persistent_bytes[LZT_SPACE_COUNT];
    uint64_t layer_forwards, weight_uploads;
    uint64_t link_bytes[LZT_LANE_COUNT]; /* copies by lane */
} lzt_program_info;

/* Errors: LZT_ERR_USAGE (a tier the runtime does not have, a plan of another model), LZT_ERR_NO_MEMORY. */
LZT_EXPORT lzt_status lzt_step_compile(const lzt_step_options *options, lzt_program **program, lzt_error *err);
LZT_EXPORT void lzt_program_destroy(lzt_program *program); /* NULL is allowed */
LZT_EXPORT const lzt_program_info *lzt_program_get_info(const lzt_program *program);

/* Proves a compiled program once more from its own tables: operands inside objects, live objects apart, every
 * conflicting pair ordered by lanes and dependencies, peaks as stated. Errors: LZT_ERR_INTERNAL with the pair. */
LZT_EXPORT lzt_status lzt_program_verify(const lzt_program *program, lzt_error *err);

/* Runs the program on a clock: start[i] and end[i] in seconds from durations seconds[task_count]. unlimited: only the
 * dependencies of data, as if nothing shared bytes. start and end may be NULL. Returns the makespan. */
LZT_EXPORT double lzt_program_simulate(const lzt_program *program, const double *seconds, bool unlimited, double *start,
                                       double *end);

/* How lanes get in each other's way. */
typedef struct lzt_contention {
    double handover_seconds;                         /* from a task's end to the start of one of another lane that
                                                        waited for it */
    double slowdown[LZT_LANE_COUNT][LZT_LANE_COUNT]; /* [a][b] >= 1: how many times as long a's task takes while b's
                                                         runs; what several lanes add, adds up */
} lzt_contention;

/* The same with lanes that share cores and memory: a task's seconds are those it takes alone, and pass the slower the
 * more lanes are busy beside it. contention NULL: none. Negative when memory is out. */
LZT_EXPORT double lzt_program_simulate_shared(const lzt_program *program, const double *seconds,
                                              const lzt_contention *contention, double *start, double *end);

/* What an instant without compute is put down to: a lane, or none of them. */
enum { LZT_IDLE_OTHER = LZT_LANE_COUNT, LZT_IDLE_COUNT };

/* What one or more program runs did; fields add up over the micro-batches of a step (lzt_account_add). */
typedef struct lzt_account {
    double seconds;                           /* from the first submit to the last completion */
    double busy_seconds[LZT_LANE_COUNT];      /* tasks running */
    double exposed_seconds[LZT_IDLE_COUNT];   /* no compute running, by what compute was waiting for */
    double forward_seconds, backward_seconds; /* of compute's: up to the loss, and after it */
    double host_seconds[LZT_HOST_COUNT];      /* of the host lanes', by operator */
    uint64_t bytes[LZT_LANE_COUNT];           /* copied; on host lanes read and written */
    uint64_t layer_forwards, weight_uploads;
    uint64_t programs;                    /* micro-batches */
    double queue_seconds[LZT_LANE_COUNT]; /* tasks submitted and ready but not started */
    uint64_t depth_max[LZT_LANE_COUNT];   /* most tasks of the lane ready or running at once */
} lzt_account;

/* What a run of the program did, from the start, end and ready times of its tasks (of work[task_count] only those are
 * read): busy lanes, and for each instant without compute between begin and end its one cause. scratch[task_count] is
 * overwritten. allocates nothing */
LZT_EXPORT void lzt_program_account(const lzt_program *program, const lzt_work *work, uint64_t begin_ns,
                                    uint64_t end_ns, uint32_t *scratch, lzt_account *account);
/* Sums b into a. */
LZT_EXPORT void lzt_account_add(lzt_account *a, const lzt_account *b);

#ifdef __cplusplus
}
#endif
#endif
