/* Inside the real step's planner: costs, surrogate, candidates. */
#ifndef LZT_SOLVE_STEP_SEARCH_H
#define LZT_SOLVE_STEP_SEARCH_H

#include "lazytrain/step_plan.h"

/* ---- step_costs.c ---- */

/* The step as a model: from two compiled, priced programs, so that the sums of any plan are its own program's. */
lzt_status lzt__step_costs(const lzt_step_plan_options *options, lzt_step_model *model, lzt_error *err);

/* ---- step_surrogate.c ---- */

enum { LZT__STEP_CLASSES = 8 };

/* Layers alike in all that counts; the candidates say how many of each class. */
typedef struct lzt__step_classes {
    uint32_t count;
    uint32_t size[LZT__STEP_CLASSES];
    uint8_t *of; /* [layer_count] */
} lzt__step_classes;

lzt_status lzt__step_classes_create(const lzt_step_model *model, lzt__step_classes *classes, lzt_error *err);
void lzt__step_classes_fini(lzt__step_classes *classes);

/* How many layers of each class keep what, and where the boundaries go: what a placement's sums depend on. */
typedef struct lzt__step_shape {
    uint16_t internals[LZT__STEP_CLASSES], weights[LZT__STEP_CLASSES];
    uint16_t hosted[LZT__STEP_CLASSES];      /* internals on the host */
    uint32_t on_device, on_host, recomputed; /* of the inner boundaries */
    bool first_on_device;                    /* boundary 0; else made again from the ids */
} lzt__step_shape;

typedef struct lzt__step_surrogate lzt__step_surrogate;

/* Pareto sets of internals and of weights: fewest bytes for what they save. */
lzt_status lzt__step_surrogate_create(const lzt_step_model *model, const lzt__step_classes *classes,
                                      lzt__step_surrogate **surrogate, lzt_error *err);
void lzt__step_surrogate_destroy(lzt__step_surrogate *surrogate);

/* What a minimum is of: the longest lane (a bound), or each window's longest lane and a little for traffic, which would
 * rather not run (a rank). */
typedef enum lzt__step_goal { LZT__STEP_BOUND, LZT__STEP_RANK } lzt__step_goal;

/* No placement under the caps takes less (UINT64_MAX: none fits). cap 0 is 0 bytes here. */
uint64_t lzt__step_bound(const lzt__step_surrogate *surrogate, const uint64_t cap_bytes[LZT_STEP_MEMORY_COUNT]);
/* A good shape under the caps, and its value (UINT64_MAX: none fits): the least of those with every thin-th label of
 * each Pareto set. hosting: internals may go to the host, and as few boundaries as can be are made again; else none
 * do. */
uint64_t lzt__step_minimum(const lzt__step_surrogate *surrogate, const uint64_t cap_bytes[LZT_STEP_MEMORY_COUNT],
                           lzt__step_goal goal, bool hosting, uint32_t thin, lzt__step_shape *shape);
/* Sends internals to the host: of so many quarters of the layers that serve the rank best with the rest of the shape
 * as it is. */
void lzt__step_host(const lzt__step_surrogate *surrogate, uint32_t quarters, lzt__step_shape *shape);
/* The device bytes of a step that keeps everything. */
uint64_t lzt__step_everything(const lzt_step_model *model);

/* ---- step_candidates.c ---- */

typedef enum lzt__step_order { LZT__STEP_LATE, LZT__STEP_SPREAD } lzt__step_order;

typedef struct lzt__step_candidate {
    lzt__step_shape shape;
    lzt__step_order order; /* which layers of a class keep theirs: the last, or evenly spread ones */
    uint32_t prefetch, slots, stages;
    /* what its placement adds up to, whatever the caps */
    uint64_t rank_ps, bound_ps, least_bytes[LZT_STEP_MEMORY_COUNT];
    /* what its programs said: of the step; then of all that a run has, evaluation too */
    enum { LZT__STEP_NEW, LZT__STEP_SIMULATED, LZT__STEP_MEASURED } state;
    uint64_t ps, step_bytes[LZT_STEP_MEMORY_COUNT], peak_bytes[LZT_STEP_MEMORY_COUNT];
    uint64_t waits_ps[LZT_STEP_LANE_COUNT];
    uint64_t step_work, run_work; /* tasks that were compiled for each */
} lzt__step_candidate;

/* All of them, by rank. */
lzt_status lzt__step_candidates(const lzt_step_model *model, const lzt__step_classes *classes,
                                const lzt__step_surrogate *surrogate, lzt__step_candidate **list, uint32_t *count,
                                lzt_error *err);
/* Writes a candidate's placement into a plan of the same layers. */
void lzt__step_place(const lzt_step_model *model, const lzt__step_classes *classes, const lzt__step_candidate *c,
                     lzt_plan *plan);

/* ---- step_search.c ---- */

const lzt_step_plan_options *lzt__step_search_options(const lzt_step_search *search);

#endif
