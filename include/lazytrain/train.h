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
    double loss_sum;     /* of weight * -log p over the loss-bearing tokens; the loss is loss_sum / loss_weight */
    double loss_weight;  /* of weight over those; loss_count where all are 1 */
    uint64_t loss_count; /* loss-bearing tokens */
    uint64_t rows;
    double seconds;
} lzt_eval_result;

/* The loss over the dataset's first limit rows (0: all of them), rows a micro-batch; drains the engine first. rows x
 * longest must fit the engine's token capacity. stop may be NULL; when it becomes non-zero: LZT_ERR_INTERRUPTED. */
LZT_EXPORT lzt_status lzt_evaluate(lzt_engine *engine, lzt_dataset *dataset, uint64_t rows, uint64_t limit,
                                   const volatile sig_atomic_t *stop, lzt_eval_result *out, lzt_error *err);

/* ---- generation ---- */

/* A prompt and its greedy continuation, which stops at, and includes, an end-of-sequence id. */
typedef struct lzt_sequence {
    const int32_t *prompt; /* [prompt_count] */
    uint64_t prompt_count;
    uint64_t max_new;
    int32_t *out;  /* [max_new] */
    uint64_t made; /* out: ids in out */
    bool ended;    /* out: by an end-of-sequence id */
} lzt_sequence;

typedef struct lzt_generate_result {
    uint64_t prompt_tokens, new_tokens;
    uint64_t prefills, decodes; /* programs run */
    double seconds;
} lzt_generate_result;

/* Continues all sequences[count], as many at a time as the engine's cache holds; drains the engine first. The ids of a
 * sequence do not depend on the others, nor on the cache's shape. prompt_count and prompt_count + max_new - 1 must be
 * within the cache's prompt_tokens and length. stop as above. result may be NULL. */
LZT_EXPORT lzt_status lzt_generate(lzt_engine *engine, lzt_sequence *sequences, uint64_t count,
                                   const volatile sig_atomic_t *stop, lzt_generate_result *result, lzt_error *err);

/* ---- exact match: answers generated to a dataset's questions, judged against its own ---- */

/* The questions of a dataset's first rows, made once; the dataset is not used afterwards. */
typedef struct lzt_exam lzt_exam;

typedef struct lzt_exam_options {
    uint64_t struct_bytes;
    lzt_dataset *dataset;
    const lzt_tokenizer *tokenizer; /* reads what is generated; must outlive the exam */
    const char *pattern;            /* of an answer within a text (Perl syntax, group 1 or the whole match); NULL: what
                                       follows `####` or `The answer is:` */
    uint64_t rows;                  /* 0: all */
    uint64_t max_new_tokens;
} lzt_exam_options;

#define LZT_EXAM_OPTIONS_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(lzt_exam_options), NULL, NULL, NULL, 0, 256                                                             \
    }

typedef struct lzt_exam_result {
    uint64_t answers;    /* rows asked */
    uint64_t right;      /* numbers equal, or the same trimmed string */
    uint64_t unanswered; /* the pattern found nothing in what was generated */
    uint64_t cut;        /* ended by max_new_tokens, or by the model's last position */
    lzt_generate_result generated;
    double seconds;
} lzt_exam_result;

/* Errors: LZT_ERR_USAGE (no tokenizer, a bad pattern), LZT_ERR_DATA (a row without a question; no row whose own answer
 * the pattern finds). blocks: reads the rows */
LZT_EXPORT lzt_status lzt_exam_create(const lzt_exam_options *options, lzt_exam **exam, lzt_error *err);
LZT_EXPORT void lzt_exam_destroy(lzt_exam *exam); /* NULL is allowed */
/* The cache that the exam asks for (lzt_cache_fit); sequences: at most so many at once. */
LZT_EXPORT void lzt_exam_cache(const lzt_exam *exam, lzt_cache_shape *wanted);
/* Rows whose own answer the pattern does not find: they can only be wrong. */
LZT_EXPORT uint64_t lzt_exam_unknown(const lzt_exam *exam);
/* Generates and judges. path: NULL, or a file that is replaced, one JSON object a row: row (its line), prompt,
 * generated, extracted (null: none), expected (null: none), right. */
LZT_EXPORT lzt_status lzt_exam_run(lzt_exam *exam, lzt_engine *engine, const char *path,
                                   const volatile sig_atomic_t *stop, lzt_exam_result *result, lzt_error *err);

/* ---- training ---- */

typedef struct lzt_train_options {
    uint64_t struct_bytes;
    lzt_engine *engine;
    const lzt_config *config;
    lzt_batcher *train;
    lzt_dataset *eval;   /* NULL: none */
    lzt_exam *exam;      /* NULL: no answers are generated */
    const char *answers; /* NULL, or the directory of step-N.jsonl, the generated answers */
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
/* The time that the template told in the rows of the checkpoint with which such a run would go on, for
 * lzt_template_set_time: a run that goes on another day must see the rows that it began with. false: there is none. */
LZT_EXPORT bool lzt_train_resume_time(const lzt_config *config, int64_t *seconds);

/* Errors: LZT_ERR_INTERRUPTED, LZT_ERR_NUMERICS (max_nonfinite_steps in a row), and those of data, device and disk. */
LZT_EXPORT lzt_status lzt_train_run(const lzt_train_options *options, lzt_train_outcome *outcome, lzt_error *err);

#ifdef __cplusplus
}
#endif
#endif
