/* The best plan of the real step: candidates of a surrogate, compiled, priced and simulated.
 *
 * Beside the source's model (solve.h). What a layer, a boundary, a copy and the optimizer cost comes from a profile,
 * through the compiled program's own tasks (price.h), as a lzt_step_model. The surrogate adds these up: a placement
 * costs its longest lane, and holds its bytes at the head's moment. What stays on the device is chosen exactly (Pareto
 * labels over the kinds of layers, for internals and for weights; the boundaries by ternary search, their cost being
 * convex); which internals go to the host is relaxed to parts of layers, each resource charged the cheapest. The
 * minimum bounds every plan from below; it is the surrogate's own where the host has no room for internals. Candidates
 * are the surrogate's best placements over a ladder of memory budgets, each in a few depths of prefetching and orders
 * of layers. The ladder does not depend on the caps, and of the candidates that fit the fastest simulated one wins, the
 * smaller peak among equals. So more memory never makes a plan slower or, at equal speed, larger.
 *
 * Status. LZT_PLAN_OPTIMAL: the surrogate is solved, and no candidate that could win was left out. LZT_PLAN_FEASIBLE: a
 * limit came first. Either way bound_ps holds for all plans, of which the objective may be above it.
 *
 * Limits. work_limit counts what compiling and simulating candidates takes in tasks of their programs, so a slow or
 * busy machine gets the same plan as any other. time_limit_s reads the clock: what it cuts short depends on the machine
 * and the moment. Candidates come in one order, so that more of either never makes a plan slower.
 *
 * What the step program cannot execute is no candidate: boundaries and internals on nvme (lzt_step_advise prices them).
 *
 *     lzt_step_search *search;
 *     lzt_step_search_create(&options, &search, &err);          one for all budgets: what is simulated is remembered
 *     lzt_step_search_solve(search, &caps, &plan, &result, &err);
 *     lzt_step_search_destroy(search);
 *
 * Threads: one search by one thread at a time. Ownership: the plan is the caller's. Results depend on the profile, the
 * model, the numerics, the caps and the work limit alone, not on what was solved before, except where the time limit
 * cuts a search short. */
#ifndef LAZYTRAIN_STEP_PLAN_H
#define LAZYTRAIN_STEP_PLAN_H

#include "lazytrain/price.h"
#include "lazytrain/solve.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lzt_step_plan_options {
    uint64_t struct_bytes;
    const lzt_model_info *model;
    const lzt_kern *kern; /* for its pure scratch sizes */
    lzt_numerics numerics;
    uint64_t micro_batches;  /* of a step */
    const bool *frozen;      /* [tensor_count] not trained (lzt_step_options); NULL: none. Borrowed likewise */
    lzt_price_options price; /* its profile is borrowed while the search lives */
} lzt_step_plan_options;

/* What the program's commands allow a search where no limit was asked for: some seconds of a slow core, and the whole
 * list of candidates of the models that were tried (ADR 0016). */
#define LZT_STEP_WORK_LIMIT UINT64_C(3000000)

typedef struct lzt_step_caps {
    uint64_t device_bytes, host_bytes; /* 0: no cap */
    double time_limit_s;               /* by the clock; 0: none */
    uint64_t work_limit; /* tasks of compiled programs; no candidate is begun once they are that many. 0: none */
} lzt_step_caps;

typedef struct lzt_step_plan_result {
    lzt_plan_status status; /* OPTIMAL, FEASIBLE, INFEASIBLE, LIMIT */
    uint64_t objective_ps, bound_ps;
    double solve_seconds;
    lzt_plan_cut cut;                            /* FEASIBLE and LIMIT: which limit came first */
    uint64_t candidates, simulated;              /* in all; by this search so far */
    uint64_t work;                               /* of this call, in tasks, as if nothing were remembered */
    uint64_t least_bytes[LZT_STEP_MEMORY_COUNT]; /* INFEASIBLE: the least peak of any candidate, of each */
} lzt_step_plan_result;

typedef struct lzt_step_search lzt_step_search;

/* Compiles and prices two reference plans. Errors: what the profile lacks; LZT_ERR_NO_MEMORY. */
LZT_EXPORT lzt_status lzt_step_search_create(const lzt_step_plan_options *options, lzt_step_search **search,
                                             lzt_error *err);
LZT_EXPORT void lzt_step_search_destroy(lzt_step_search *search); /* NULL is allowed */
LZT_EXPORT const lzt_step_model *lzt_step_search_get_model(const lzt_step_search *search);

/* plan is zeroed unless the status is OPTIMAL or FEASIBLE. It has passed lzt_plan_check; its peaks are its programs'
 * own. An outcome is not an error. */
LZT_EXPORT lzt_status lzt_step_search_solve(lzt_step_search *search, const lzt_step_caps *caps, lzt_plan *plan,
                                            lzt_step_plan_result *result, lzt_error *err);

/* Puts a plan of the caller's through the same measure: objective, peaks, and the step model. plan->status stays. */
LZT_EXPORT lzt_status lzt_step_search_measure(lzt_step_search *search, const lzt_step_caps *caps, lzt_plan *plan,
                                              lzt_error *err);

/* The surrogate's bound under the caps: no plan takes less. UINT64_MAX: nothing fits. */
LZT_EXPORT uint64_t lzt_step_surrogate(const lzt_step_model *model, const uint64_t cap_bytes[LZT_STEP_MEMORY_COUNT]);

/* ---- advice: what more of each resource would buy, other numerics ---- */

typedef enum lzt_resource {
    LZT_RESOURCE_DEVICE = 0, /* one more GiB */
    LZT_RESOURCE_HOST,
    LZT_RESOURCE_H2D, /* one more GB/s */
    LZT_RESOURCE_D2H,
    LZT_RESOURCE_HOST_MEMORY, /* every host operator's */
    LZT_RESOURCE_COMPUTE,     /* a tenth more operations a second */
    LZT_RESOURCE_COUNT
} lzt_resource;

/* "device memory", "host memory", ...; "GiB", "GB/s", "10 %". Never NULL. */
LZT_EXPORT const char *lzt_resource_name(lzt_resource resource);
LZT_EXPORT const char *lzt_resource_unit(lzt_resource resource);

typedef struct lzt_numerics_proposal {
    lzt_numerics numerics;
    uint64_t micro_batches; /* of a step; the micro-batch's tokens are numerics' */
    uint64_t documents;     /* of a micro-batch */
    uint64_t objective_ps;
    uint64_t device_bytes;
} lzt_numerics_proposal;

typedef struct lzt_step_advice {
    lzt_resource binds;                   /* more of it shortens the step most; compute where nothing does */
    uint64_t more_ps[LZT_RESOURCE_COUNT]; /* the step with one more unit of each; the plan is found anew */
    bool capped[LZT_RESOURCE_COUNT];      /* false: there was no cap, or no rate, to raise */
    double internals_trip_ms;             /* of a layer, on average: the copies of its internals to the host and back */
    double internals_again_ms;            /* against making them again */
    double internals_drive_ms, boundary_drive_ms; /* the same to the drive and back, which no step program can do yet;
                                                     0: the profile has no drive */
} lzt_step_advice;

/* Solves again with each resource nudged; the caps' limits hold for each. */
LZT_EXPORT lzt_status lzt_step_advise(lzt_step_search *search, const lzt_step_caps *caps, const lzt_plan *plan,
                                      lzt_step_advice *advice, lzt_error *err);

enum { LZT_PROPOSE_LOSS_CHUNK = 1, LZT_PROPOSE_LAYER_SPLITS = 2, LZT_PROPOSE_MICRO_BATCHES = 4, LZT_PROPOSE_ALL = 7 };

/* The best numerics under the caps that are better than objective_ps by a thousandth (objective_ps 0: that fit): loss
 * chunks, then parts of a layer where the model's layers can be split, then smaller micro-batches, of those that `what`
 * allows (LZT_PROPOSE_*). What the profile has no times for is left out. proposal->objective_ps is 0 when there are
 * none. */
LZT_EXPORT lzt_status lzt_step_propose(const lzt_step_plan_options *options, const lzt_step_caps *caps, int what,
                                       uint64_t objective_ps, lzt_numerics_proposal *proposal, lzt_error *err);

#ifdef __cplusplus
}
#endif
#endif
