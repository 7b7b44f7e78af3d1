/* Training, evaluation and generation over an engine.
 *
 *     lzt_train_options options = LZT_TRAIN_OPTIONS_INIT;
 *     options.engine = engine; options.config = &config; options.train = batcher; ...
 *     lzt_train_run(&options, &outcome, &err);
 *
 * The loop runs steps from where the newest complete checkpoint stands, writes metrics, evaluates and saves when the
 * config says so, and stops cleanly when *stop becomes non-zero: the last whole step is saved and LZT_ERR_INTERRUPTED
 * comes back. A step whose gradient norm is not finite changes nothing but the counters.
 *
 * Threads: one, beside that of the feed, which alone uses options.train and its dataset while lzt_train_run runs;
 * whatever that dataset was opened with and that serves one thread (its template) must not be shared with options.eval.
 * Ownership: everything in the options is borrowed.
 */
#ifndef LAZYTRAIN_TRAIN_H
#define LAZYTRAIN_TRAIN_H

#include "lazytrain/config.h"
#include "lazytrain/report.h"
#include "lazytrain/run.h"

#include <signal.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- evaluation ---- */

typedef struct lzt_eval_result {
    double loss_sum;     /* of -log p over the loss-bearing tokens */
    uint64_t loss_count; /* of those */
    uint64_t rows;
    double seconds;
} lzt_eval_result;

/* The loss over every row of the dataset, rows a micro-batch; drains the engine first. rows x longest must fit the
 * engine's token capacity. stop may be NULL; when it becomes non-zero: LZT_ERR_INTERRUPTED. */
LZT_EXPORT lzt_status lzt_evaluate(lzt_engine *engine, lzt_dataset *dataset, uint64_t rows,
                                   const volatile sig_atomic_t *stop, lzt_eval_result *out, lzt_error *err);

/* ---- generation ---- */

/* Greedy continuation of prompt[count]: up to max_new ids into out, stopping at, and including, an end-of-sequence id.
 * count + max_new - 1 must fit the engine's token capacity. *made: how many. logits (may be NULL; needs an engine with
 * logits): those after the prompt, [vocabulary]. */
LZT_EXPORT lzt_status lzt_generate(lzt_engine *engine, const int32_t *prompt, uint64_t count, uint64_t max_new,
                                   int32_t *out, uint64_t *made, float *logits, lzt_error *err);

/* ---- training ---- */

typedef struct lzt_train_options {
    uint64_t struct_bytes;
    lzt_engine *engine;
    const lzt_config *config;
    lzt_batcher *train;
    lzt_dataset *eval; /* NULL: none */
    lzt_metrics *metrics;
    lzt_progress *progress;
    const volatile sig_atomic_t *stop;
    const char *dump_gradients; /* NULL, or a file for step 1's gradients */
    const char *checkpoints;    /* the directory of checkpoints, or NULL: none are written */
    uint64_t start_step;        /* where to go on, and what had happened by then */
    uint64_t applied_steps, nonfinite_steps, rows_seen;
    uint64_t cap_bytes[LZT_MEMORY_COUNT];
    void (*note)(void *arg, const char *line);
    void *note_arg;
    void (*stepped)(void *arg, const lzt_step_metrics *metrics); /* after each step; NULL: nobody looks */
    void *stepped_arg;
    double predicted_step_seconds; /* goes to the metrics of each step; 0: not predicted */
    uint64_t predicted_rss_bytes;
} lzt_train_options;

typedef struct lzt_train_outcome {
    uint64_t steps, applied_steps, nonfinite_steps;
    double last_loss, last_eval_loss; /* NaN: none */
    bool saved;                       /* interrupted: a checkpoint holds the last whole step */
} lzt_train_outcome;

/* Finds where the run is to go on (config.resume_from_checkpoint; checkpoints names the directory), loads that state
 * into the engine and fills start_step, applied_steps, nonfinite_steps and rows_seen; without a complete checkpoint
 * they are 0. The batches go on where those of the checkpoint ended: its epoch, window and pack are compared with ours.
 * Errors: LZT_ERR_USAGE (another setting, another order of batches), LZT_ERR_MODEL (a checkpoint asked for by name is
 * not whole, or belongs to another run), LZT_ERR_STORAGE. */
LZT_EXPORT lzt_status lzt_train_resume(lzt_train_options *options, lzt_error *err);

/* Errors: LZT_ERR_INTERRUPTED, LZT_ERR_NUMERICS (max_nonfinite_steps in a row), and those of data, device and disk. */
LZT_EXPORT lzt_status lzt_train_run(const lzt_train_options *options, lzt_train_outcome *outcome, lzt_error *err);

#ifdef __cplusplus
}
#endif
#endif
