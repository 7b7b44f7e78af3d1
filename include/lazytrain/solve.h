/* Finding plans: the source's inputs become a problem, a solver places its boundaries, the checker confirms.
 *
 *     lzt_source_options options = LZT_SOURCE_OPTIONS_INIT;
 *     options.cpu_activation_budget_gib = 14;
 *     lzt_source_plan(model_info, &options, &solve_options, &plan, &result, &err);
 *     if (result.status == LZT_PLAN_INFEASIBLE) puts(result.reason);
 *
 * An outcome (optimal, feasible within the limit, infeasible, limit reached without a plan) is not an error; an error
 * is a malformed input or no memory. Results do not depend on the machine, the run or the thread count, except where a
 * time limit cuts a search short.
 *
 * Threads: pure functions, each call on its own data. HiGHS runs in a child process of the call, which has ended when
 * the call returns (ADR 0023). blocks: until solved or the time limit; HiGHS is stopped LZT_SOLVE_GRACE_S after it.
 */
#ifndef LAZYTRAIN_SOLVE_H
#define LAZYTRAIN_SOLVE_H

#include "lazytrain/model.h"
#include "lazytrain/plan.h"
#include "lazytrain/problem.h"
#include "lazytrain/topology.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lzt_solver {
    LZT_SOLVER_AUTO = 0, /* dp where all boundaries have one size, else highs if this machine has it, else dp */
    LZT_SOLVER_DP,       /* dynamic programme over boundaries; exact */
    LZT_SOLVER_HIGHS     /* mixed-integer programme in suffix form, by the HiGHS library found at run time */
} lzt_solver;

/* Seconds after the time limit in which HiGHS may still answer: it looks at the clock only now and then. */
#define LZT_SOLVE_GRACE_S 0.5

typedef struct lzt_solve_options {
    uint64_t struct_bytes; /* sizeof this struct */
    lzt_solver solver;
    double time_limit_s;       /* building the model included, LZT_SOLVE_GRACE_S apart; 0: none */
    const char *highs_library; /* path of libhighs.so; NULL: $LZT_HIGHS, beside the program, the system's */
    uint64_t label_limit;      /* dp: states kept before it gives up exactness; 0: 64 million */
    bool cold_start;           /* highs: begin without the dp's placement (the solvers' tests) */
} lzt_solve_options;

#define LZT_SOLVE_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(lzt_solve_options), LZT_SOLVER_AUTO, 60.0, NULL, 0, false                                               \
    }

typedef struct lzt_solve_result {
    lzt_plan_status status;
    char solver[16]; /* the one that answered: "dp", "highs" */
    uint64_t objective_ps, bound_ps;
    double solve_seconds; /* from the problem to the proven placement */
    /* infeasible: what binds */
    lzt_tier resource;      /* the budget that is cheapest to raise */
    uint64_t missing_bytes; /* by this much; 0 when no budget is at fault (locks) */
    char reason[512];       /* one sentence, naming both */
    char way_out[512];      /* the other budgets that would do, or "" */
} lzt_solve_result;

/* Places the boundaries of a problem. boundary[N + 1] is written when status is optimal or feasible. The result has
 * passed the checker, and objective_ps is the checker's.
 * Errors: LZT_ERR_USAGE (malformed problem; HiGHS asked for and absent), LZT_ERR_NO_MEMORY, LZT_ERR_INTERNAL (HiGHS
 * crashed). */
LZT_EXPORT lzt_status lzt_solve(const lzt_problem *problem, const lzt_solve_options *options, lzt_tier *boundary,
                                lzt_solve_result *result, lzt_error *err);

/* Whether HiGHS can be loaded; version (may be NULL) gets "1.15.1". path as in lzt_solve_options.highs_library. */
LZT_EXPORT bool lzt_solve_has_highs(const char *path, char version[32]);

/* The options of the source's solver, under its names; memory in GiB (it writes GB), bandwidth in 10^9 B/s, times in
 * ms. The initialiser holds the values of the source's own command; budgets are 0 and switches off. */
typedef struct lzt_source_options {
    uint64_t struct_bytes;
    uint64_t batch_size, max_seq_len, dtype_bytes;
    double peak_cap_gib, baseline_peak_gib;
    uint64_t baseline_checkpoint_interval, max_segment_layers;
    double cpu_activation_budget_gib;
    bool enable_nvme_offload;
    double nvme_activation_budget_gib;
    bool cpu_staging; /* nvme-transfer-mode; false: gds */
    double layer_recompute_ms;
    double linear_recompute_ratio; /* of a linear-attention layer's time to layer_recompute_ms */
    bool enable_overlap_aware_offload, enable_overlap_aware_nvme;
    double activation_comm_capacity_fraction, activation_comm_window_ms_scale;
    double nvme_comm_capacity_fraction, nvme_comm_window_ms_scale;
    double activation_h2d_bandwidth_gbps, activation_d2h_bandwidth_gbps;
    double nvme_read_bandwidth_gbps, nvme_write_bandwidth_gbps;
    bool include_param_grad_pcie;
    const char *optimizer_state_mode; /* "hybrid_8bit_adam", ... ; NULL: no annotation */
    double optimizer_max_8bit_fraction, optimizer_alpha_step_sec;
    double optimizer_fast_grad_clip_saving_sec, optimizer_full_8bit_extra_step_sec;
    double hidden_nvme_offload_tiebreak_ms, checkpoint_penalty;
    const char *reference_schedule; /* a plan.json, or JSON with selected_edges and gpu_checkpoints; NULL: none */
    bool lock_reference_edges, lock_reference_gpu_checkpoints;
} lzt_source_options;

#define LZT_SOURCE_OPTIONS_INIT                                                                                        \
    {                                                                                                                  \
        .struct_bytes = sizeof(lzt_source_options), .batch_size = 72, .max_seq_len = 1024, .dtype_bytes = 2,           \
        .peak_cap_gib = 70, .baseline_peak_gib = 60.4, .baseline_checkpoint_interval = 4, .max_segment_layers = 4,     \
        .layer_recompute_ms = 20, .linear_recompute_ratio = 0.7, .activation_comm_capacity_fraction = 1,               \
        .activation_comm_window_ms_scale = 5, .nvme_comm_capacity_fraction = 1, .nvme_comm_window_ms_scale = 5,        \
        .activation_h2d_bandwidth_gbps = 12, .activation_d2h_bandwidth_gbps = 12, .nvme_read_bandwidth_gbps = 2.83,    \
        .nvme_write_bandwidth_gbps = 3.35, .optimizer_state_mode = "hybrid_8bit_adam",                                 \
        .optimizer_max_8bit_fraction = 0.02, .optimizer_alpha_step_sec = 119.18,                                       \
        .optimizer_fast_grad_clip_saving_sec = 18, .optimizer_full_8bit_extra_step_sec = 123,                          \
        .hidden_nvme_offload_tiebreak_ms = 0.001, .checkpoint_penalty = 1e-5                                           \
    }

/* Which of the options were stated, and so bound a rank's share of a topology; the others give way to it. */
typedef struct lzt_source_stated {
    bool bytes_per_s[LZT_POOL_COUNT]; /* the bandwidths */
    bool cpu_budget, nvme_budget;
} lzt_source_stated;

/* The options of one rank that has its share of a topology's pools: each bandwidth and budget is the share where the
 * topology has one, and no more than the option where that was stated; the peak cap is at most the GPU's memory. */
LZT_EXPORT void lzt_source_for_rank(const lzt_source_options *base, const lzt_source_stated *stated,
                                    const lzt_rank_share *share, lzt_source_options *options);

/* The problem that the source's options describe for a model. A GPU budget below zero is a budget of 0.
 * Errors: LZT_ERR_USAGE with the option's name. */
LZT_EXPORT lzt_status lzt_source_problem(const lzt_model_info *model, const lzt_source_options *options,
                                         lzt_problem *problem, lzt_error *err);

/* Sets the problem's locks from a reference schedule. Errors: LZT_ERR_USAGE with file and key. blocks: on disk */
LZT_EXPORT lzt_status lzt_source_reference(const char *path, bool lock_edges, bool lock_gpu, lzt_problem *problem,
                                           lzt_error *err);

/* Problem, solution and plan in one. *plan is filled when result->status is optimal or feasible, else zeroed. */
LZT_EXPORT lzt_status lzt_source_plan(const lzt_model_info *model, const lzt_source_options *options,
                                      const lzt_solve_options *solve, lzt_plan *plan, lzt_solve_result *result,
                                      lzt_error *err);

#ifdef __cplusplus
}
#endif
#endif
