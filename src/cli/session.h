/* From a config to something that runs: model, data, numerics, plan, device, engine. Shared by train, eval, generate
 * and bench.
 *
 * Ownership: lzt_session_close frees whatever open made, also after a failed open. */
#ifndef LZT_CLI_SESSION_H
#define LZT_CLI_SESSION_H

#include "lazytrain/auto_plan.h"
#include "lazytrain/config.h"
#include "lazytrain/profile.h"
#include "lazytrain/step_plan.h"
#include "lazytrain/run.h"
#include "lazytrain/template.h"
#include "lazytrain/tokenizer.h"
#include "lazytrain/train.h"

typedef struct lzt_session {
    const lzt_config *config; /* borrowed */
    lzt_model *model;
    const lzt_model_info *info;
    lzt_tokenizer *tokenizer; /* NULL: none was found */
    lzt_template *chat;       /* NULL: none was found; pairs then stand as they are */
    lzt_template *train_chat; /* the same again, for the thread that makes the training rows */
    char cache_dir[4096];     /* of kept rows */
    bool cache_large;         /* keep the rows of large files too: every row is made when they are opened */
    lzt_dataset *train, *eval;
    lzt_exam *exam; /* NULL: no answers are generated */
    lzt_batcher *batcher;
    lzt_kern *kern; /* NULL once the engine has it */
    lzt_numerics numerics;
    lzt_plan plan;
    bool *frozen;          /* [info->tensor_count] that the config freezes; NULL: none */
    lzt_auto_options caps; /* what plan and engine must fit */
    lzt_engine *engine;
    lzt_profile profile; /* of the machine, where has_profile */
    bool has_profile;
    char profile_path[4096];
    lzt_step_plan_result planned; /* where the plan was found from the profile */
    char device_text[128];        /* what times depend on beside the machine: "cpu avx2 own 2 threads, link 1 GB/s" */
} lzt_session;

/* The model directory of a run, refusing what cannot be trained. */
lzt_status lzt_session_open_model(lzt_session *s, const char *path, lzt_error *err);
/* The same for a dry run: weights are checked where they are, config.json is enough, and kernels may be missing. */
lzt_status lzt_session_open_model_to_plan(lzt_session *s, const char *path, lzt_error *err);
/* Its configuration alone: no weights are needed, whatever is done with it runs no model. */
lzt_status lzt_session_open_config(lzt_session *s, const char *path, lzt_error *err);
/* The tokenizer that path (or else the model's directory) holds; none is no error when path is NULL. */
lzt_status lzt_session_open_tokenizer(lzt_session *s, const char *path, lzt_error *err);
/* The chat template: a built-in one, a file, or (NULL) the model's own, which it need not have. */
lzt_status lzt_session_open_template(lzt_session *s, const char *name, lzt_error *err);
lzt_status lzt_session_open_dataset(lzt_session *s, const char *path, lzt_dataset **dataset, lzt_error *err);
/* Training data, evaluation data, and the batches that the config asks for. */
lzt_status lzt_session_open_data(lzt_session *s, lzt_error *err);
/* What the dataset's token cache has to say: always of a damaged one, else if all. */
void lzt_session_say_cache(const lzt_dataset *dataset, bool all);
/* Tokens of the largest micro-batch of rows rows that an evaluation of the dataset's first limit rows (0: all) has. */
lzt_status lzt_session_eval_capacity(lzt_dataset *dataset, uint64_t rows, uint64_t limit, uint64_t *tokens,
                                     lzt_error *err);
/* F32 or BF16: what text says, else the model directory's own, else F32. */
lzt_dtype lzt_session_dtype(const lzt_session *s, const char *text);
/* Kernels, and the numerics for micro-batches of up to capacity tokens. threads 0: the cores. */
lzt_status lzt_session_open_kernels(lzt_session *s, lzt_dtype dtype, uint64_t capacity, uint64_t micro_batches,
                                    bool training, lzt_error *err);
/* The profile that memory.profile names, or else output_dir's own, where it is there and was measured on a device like
 * this one; says so where it is left alone. After open_kernels. */
lzt_status lzt_session_open_profile(lzt_session *s, lzt_error *err);
/* The plan that memory.plan names; with auto and a profile, the best of the real step (session_step.h). */
lzt_status lzt_session_choose_plan(lzt_session *s, lzt_error *err);
/* Its parts for a plan file, whose numerics become the run's as far as they can hold its micro-batches: reading it,
 * and compiling the plan in hand to see that it fits the caps. */
lzt_status lzt_session_read_plan(lzt_session *s, const char *path, lzt_error *err);
lzt_status lzt_session_measure_plan(lzt_session *s, lzt_error *err);
/* A plan file with checkpoints on the drive needs a directory there: an error before anything is loaded. */
lzt_status lzt_session_check_spill(const lzt_config *config, lzt_error *err);
/* What the config's evaluations need: raises *capacity to their largest micro-batch, and opens the exam. */
lzt_status lzt_session_open_evaluation(lzt_session *s, uint64_t *capacity, lzt_error *err);
/* The questions of the dataset's first rows; raises *capacity to the longest. */
lzt_status lzt_session_open_exam(lzt_session *s, lzt_dataset *dataset, uint64_t rows, uint64_t max_new_tokens,
                                 const char *pattern, uint64_t *capacity, lzt_error *err);
/* The cache that an engine of this session gets: wanted, or the exam's, as far as it fits; without either none. */
lzt_status lzt_session_fit_cache(const lzt_session *s, const lzt_cache_shape *wanted, lzt_cache_shape *cache,
                                 lzt_error *err);
/* Device and engine, with the weights loaded. wanted: the cache to generate with, as far as it fits, or NULL: with an
 * exam its own, else none. */
lzt_status lzt_session_open_engine(lzt_session *s, const lzt_cache_shape *wanted, lzt_error *err);
void lzt_session_close(lzt_session *s);

#endif
