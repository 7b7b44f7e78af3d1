/* What a run tells: metrics files, the progress line, tables, traces, and reading them back.
 *
 *     lzt_metrics_open(&options, &metrics, &err);            output_dir/metrics.jsonl, trainer_log.jsonl, tfevents
 *     lzt_step_metrics step = {.step = 1, .loss = ...};
 *     lzt_metrics_step(metrics, &step, &err);                 one line; allocates nothing
 *     lzt_progress_step(progress, &step);                     a bar on a terminal, plain lines elsewhere
 *
 * metrics.jsonl holds one strict JSON object a line, `schema` 1: a step's object has `step`, an evaluation's
 * `"event":"eval"`. A number that is not finite is null. Names and units are those of docs/formats/metrics.md.
 *
 * Threads: each handle is used by one thread at a time. Ownership: closing frees; inputs are only read.
 */
#ifndef LAZYTRAIN_REPORT_H
#define LAZYTRAIN_REPORT_H

#include "lazytrain/status.h"

#include <stdbool.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LZT_METRICS_SCHEMA 1

/* Lanes, and the causes of exposed time. The first eight have the values of lzt_lane (lazytrain/dev.h). */
typedef enum lzt_cause {
    LZT_CAUSE_COMPUTE = 0,
    LZT_CAUSE_H2D,
    LZT_CAUSE_D2H,
    LZT_CAUSE_NVME_READ,
    LZT_CAUSE_NVME_WRITE,
    LZT_CAUSE_CPU_OPTIMIZER,
    LZT_CAUSE_CHECKPOINT,
    LZT_CAUSE_DATA,
    LZT_CAUSE_OTHER,
    LZT_CAUSE_COUNT
} lzt_cause;

typedef enum lzt_link {
    LZT_LINK_H2D = 0,
    LZT_LINK_D2H,
    LZT_LINK_NVME_READ,
    LZT_LINK_NVME_WRITE,
    LZT_LINK_COUNT
} lzt_link;

/* Parts of a step, each as total time and as time exposed (with compute idle). */
typedef enum lzt_part {
    LZT_PART_FORWARD = 0,
    LZT_PART_BACKWARD,
    LZT_PART_CLIP,
    LZT_PART_OPTIMIZER,
    LZT_PART_ZERO_GRAD,
    LZT_PART_DATA,
    LZT_PART_CHECKPOINT,
    LZT_PART_COUNT
} lzt_part;

typedef enum lzt_memory { LZT_MEMORY_DEVICE = 0, LZT_MEMORY_HOST, LZT_MEMORY_NVME, LZT_MEMORY_COUNT } lzt_memory;

/* "h2d", "forward", "device", ... Never NULL. */
LZT_EXPORT const char *lzt_cause_name(lzt_cause cause);
LZT_EXPORT const char *lzt_link_name(lzt_link link);
LZT_EXPORT const char *lzt_part_name(lzt_part part);
LZT_EXPORT const char *lzt_memory_name(lzt_memory memory);

/* One background queue over a step: demand D (bytes that the step put in), capacity B (bytes per second while it
 * worked), period T (seconds of the step without the queue's own exposed wait), ratio D / (B T): above 1 it grows. */
typedef struct lzt_queue_metrics {
    const char *name;
    double demand, capacity, period_seconds, ratio; /* keys D, B, T, ratio */
    uint64_t depth_max;
} lzt_queue_metrics;

typedef struct lzt_step_metrics {
    uint64_t step; /* 1-based: steps done */
    double epoch;  /* after the step */
    double loss, grad_norm, lr;
    bool finite;                             /* loss and gradient norm were; else the step was skipped */
    uint64_t skipped_steps, nonfinite_steps; /* since the run began */
    double step_seconds;
    uint64_t tokens_padded, tokens_real, tokens_loss; /* of the step */
    double loss_weight;                       /* sum of the loss-bearing tokens' weights, by which loss divides */
    double model_flops, hardware_flops;       /* of the step; the second counts recomputation. 0: unknown */
    uint64_t peak_bytes[LZT_MEMORY_COUNT];    /* keys peak_device_bytes, ... */
    uint64_t planned_bytes[LZT_MEMORY_COUNT]; /* keys planned_device_bytes, ... */
    uint64_t cap_bytes[LZT_MEMORY_COUNT];     /* keys cap_device_bytes, ...; 0: none */
    uint64_t rss_bytes;
    double predicted_step_seconds; /* from the machine's profile, before the run began; 0: there was none */
    uint64_t predicted_rss_bytes;
    uint64_t layer_forwards, weight_uploads;
    uint64_t data_waits;      /* micro-batches that were not ready when the step asked for them */
    double data_wait_seconds; /* for those; exactly 0 without one */
    uint64_t link_bytes[LZT_LINK_COUNT];
    double busy_seconds[LZT_CAUSE_COUNT];    /* LZT_CAUSE_OTHER is not written */
    double exposed_seconds[LZT_CAUSE_COUNT]; /* LZT_CAUSE_COMPUTE is not written */
    double part_seconds[LZT_PART_COUNT], part_exposed_seconds[LZT_PART_COUNT];
    const lzt_queue_metrics *queue; /* [queue_count] */
    uint32_t queue_count;           /* at most LZT_QUEUE_MAX */
} lzt_step_metrics;

#define LZT_QUEUE_MAX 32

typedef struct lzt_eval_metrics {
    uint64_t step;
    double epoch, eval_loss;
    uint64_t eval_tokens, eval_rows;
    double eval_loss_weight; /* sum of the tokens' weights */
    double eval_seconds;
    bool has_exact_match;
    double exact_match; /* 0 to 1 */
    uint64_t answers, answers_right;
    uint64_t answers_none; /* no answer was found in the text */
    uint64_t answer_tokens;
    double answer_seconds;
} lzt_eval_metrics;

typedef struct lzt_metrics lzt_metrics;

typedef struct lzt_metrics_options {
    uint64_t struct_bytes;
    const char *output_dir; /* exists */
    bool resume;            /* keep what was written up to and including start_step, cut the rest; else start anew */
    uint64_t start_step;
    uint64_t total_steps;
    uint64_t logging_steps; /* trainer_log.jsonl has a line every so many steps; 0: none */
} lzt_metrics_options;

#define LZT_METRICS_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(lzt_metrics_options), NULL, false, 0, 0, 1                                                              \
    }

/* Opens the three files. Errors: LZT_ERR_STORAGE, LZT_ERR_NO_MEMORY. blocks: yes, on disk */
LZT_EXPORT lzt_status lzt_metrics_open(const lzt_metrics_options *options, lzt_metrics **metrics, lzt_error *err);
/* A line that could not be written whole is overwritten by the next one. Errors: LZT_ERR_STORAGE. blocks: on disk, not
 * for durability */
LZT_EXPORT lzt_status lzt_metrics_step(lzt_metrics *metrics, const lzt_step_metrics *step, lzt_error *err);
LZT_EXPORT lzt_status lzt_metrics_eval(lzt_metrics *metrics, const lzt_eval_metrics *eval, lzt_error *err);
/* The evaluation of this step is already in the (kept part of the) file. */
LZT_EXPORT bool lzt_metrics_has_eval(const lzt_metrics *metrics, uint64_t step);
/* Makes what was written durable; call it before a checkpoint is published. */
LZT_EXPORT lzt_status lzt_metrics_sync(lzt_metrics *metrics, lzt_error *err);
LZT_EXPORT void lzt_metrics_close(lzt_metrics *metrics); /* NULL is allowed */

/* The line that a person watches. On a terminal it is redrawn in place; elsewhere one line is printed every
 * logging_steps, never a carriage return. stream is the caller's, usually stderr. */
typedef struct lzt_progress {
    FILE *stream; /* NULL: silent */
    bool is_terminal, use_color;
    uint64_t total_steps, logging_steps;
    /* state: zero at the start */
    uint64_t steps_seen, drawn;
    double seconds_seen; /* of step_seconds since this process began */
} lzt_progress;

LZT_EXPORT void lzt_progress_step(lzt_progress *progress, const lzt_step_metrics *step);
LZT_EXPORT void lzt_progress_eval(lzt_progress *progress, const lzt_eval_metrics *eval);
/* Removes the bar, so that a message can be printed. */
LZT_EXPORT void lzt_progress_clear(lzt_progress *progress);
/* "00:05", "3:07:00"; "?" when not finite. Returns text. */
LZT_EXPORT const char *lzt_progress_duration(double seconds, char text[32]);

/* A text table: cells are filled row by row, columns are as wide as they need to be. */
typedef struct lzt_table lzt_table;
typedef struct lzt_table_column {
    const char *title;
    bool is_right; /* align right: numbers */
} lzt_table_column;

/* NULL without memory: the functions below then do nothing, and print says so. columns must outlive the table. */
LZT_EXPORT lzt_table *lzt_table_create(const lzt_table_column *columns, uint32_t column_count);
LZT_EXPORT void lzt_table_cell(lzt_table *table, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Errors: LZT_ERR_NO_MEMORY (also of an earlier call), LZT_ERR_STORAGE (stream). */
LZT_EXPORT lzt_status lzt_table_print(const lzt_table *table, FILE *stream, lzt_error *err);
LZT_EXPORT void lzt_table_destroy(lzt_table *table);

/* A trace in Chrome's JSON, for ui.perfetto.dev: one process per source (planned, actual), one thread per lane.
 * Events of a lane must not overlap (Perfetto would drop them). Times are shifted so that each process begins at 0. */
typedef struct lzt_trace_event {
    uint32_t lane;    /* index into the process's lanes */
    const char *name; /* what ran */
    uint64_t start_ns, end_ns;
} lzt_trace_event;

typedef struct lzt_trace_process {
    const char *name;             /* "actual", "planned" */
    const char *const *lane;      /* [lane_count] names */
    const lzt_trace_event *event; /* [event_count] any order */
    uint64_t event_count;
    uint32_t lane_count;
} lzt_trace_process;

/* Replaces path atomically. Errors: LZT_ERR_STORAGE, LZT_ERR_NO_MEMORY. blocks: yes */
LZT_EXPORT lzt_status lzt_trace_write(const char *path, const lzt_trace_process *process, uint32_t process_count,
                                      lzt_error *err);

/* A run read back from its metrics.jsonl. Steps are in file order. */
typedef struct lzt_run_history {
    lzt_step_metrics *step; /* [step_count] queue is NULL; absent numbers are 0, null ones NaN */
    lzt_eval_metrics *eval; /* [eval_count] */
    uint64_t step_count, eval_count;
} lzt_run_history;

/* path: a run directory, or a metrics.jsonl. A torn last line is ignored; anything else that is not a schema-1 object
 * is LZT_ERR_USAGE with file:line. blocks: yes */
LZT_EXPORT lzt_status lzt_run_history_read(const char *path, lzt_run_history *history, lzt_error *err);
LZT_EXPORT void lzt_run_history_fini(lzt_run_history *history); /* a zeroed one is allowed */

/* What a window of steps comes to. Means over the steps that are finite where a step may not be. */
typedef struct lzt_run_summary {
    uint64_t step_count, first_step, last_step; /* 0 steps: everything below is 0 */
    double loss_mean, loss_last;                /* NaN: no finite loss in the window */
    double step_seconds_median, step_seconds_min, step_seconds_max, seconds;
    double tokens_padded_per_second, tokens_real_per_second, tokens_loss_per_second;
    double busy_seconds[LZT_CAUSE_COUNT], exposed_seconds[LZT_CAUSE_COUNT]; /* mean a step */
    uint64_t link_bytes[LZT_LINK_COUNT];                                    /* sum */
    uint64_t peak_bytes[LZT_MEMORY_COUNT], rss_bytes;                       /* greatest */
    uint64_t nonfinite_steps;                                               /* in the window */
} lzt_run_summary;

/* Of the steps in first..last, or of the last `latest` steps of the run when that is not 0. Errors: NO_MEMORY. */
LZT_EXPORT lzt_status lzt_run_summarize(const lzt_run_history *history, uint64_t first, uint64_t last, uint64_t latest,
                                        lzt_run_summary *summary, lzt_error *err);

/* One HTML file that needs no network: summary, loss curves, step time by cause, memory. Replaces path atomically.
 * Errors: LZT_ERR_STORAGE, LZT_ERR_NO_MEMORY. blocks: yes */
LZT_EXPORT lzt_status lzt_run_write_html(const lzt_run_history *history, const char *title, const char *path,
                                         lzt_error *err);

#ifdef __cplusplus
}
#endif
#endif
