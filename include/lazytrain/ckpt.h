/* Checkpoints: versions of a run's whole state, each complete or not there.
 *
 *     ROOT/step-N/state-0000i.safetensors   master.NAME, exp_avg.NAME, exp_avg_sq.NAME, F32, whole tensors by name
 *                 trainer.json              where the run stood, and the caller's own fields
 *                 MANIFEST.json             size and XXH3-128 of each file, and of itself; written last
 *
 * A version is written beside its place and published by one rename after everything in it is on disk, so that whatever
 * happens there is the newest complete version and nothing half. No file says which is the newest: it is the highest
 * step whose manifest and hashes verify. The format knows neither slots nor ranks, only names and shapes.
 *
 *     lzt_ckpt_save("out/checkpoints", &state, &options, &err);
 *
 *     lzt_ckpt_find_latest("out/checkpoints", note, arg, &ckpt, &err);
 *     if (ckpt) lzt_ckpt_load(ckpt, tensors, tensor_count, sink, arg, &err);
 *
 * Threads: one thread a call; a lzt_ckpt is immutable after open. Ownership: all arguments are borrowed for the call.
 * All functions block on disk. Errors: LZT_ERR_STORAGE for what the system refuses (full disk included),
 * LZT_ERR_MODEL for a version that is not whole or not of this model.
 */
#ifndef LAZYTRAIN_CKPT_H
#define LAZYTRAIN_CKPT_H

#include "lazytrain/status.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lzt_ckpt_part {
    LZT_CKPT_MASTER = 0,
    LZT_CKPT_EXP_AVG,
    LZT_CKPT_EXP_AVG_SQ,
    LZT_CKPT_PART_COUNT
} lzt_ckpt_part;

typedef struct lzt_ckpt_tensor {
    const char *name; /* unique */
    uint32_t rank;
    const uint64_t *shape; /* [rank] */
    uint64_t element_count;
    bool has_moments; /* false: the master alone (frozen) */
} lzt_ckpt_tensor;

/* Fills out[element_count] with one part of a tensor. Called once for each, in no order that matters. */
typedef lzt_status lzt_ckpt_source(void *arg, uint32_t tensor, int part, float *out, lzt_error *err);
/* Takes one part of a tensor; in[element_count] is valid during the call. */
typedef lzt_status lzt_ckpt_sink(void *arg, uint32_t tensor, int part, const float *in, lzt_error *err);
/* One line about a version that is skipped, removed or cannot be. */
typedef void lzt_ckpt_note(void *arg, const char *line);

typedef struct lzt_ckpt_state {
    uint64_t struct_bytes;
    uint64_t step;            /* whole steps done: names the version */
    uint64_t applied_steps;   /* of those, steps that changed the weights: Adam's count and the schedule's */
    uint64_t nonfinite_steps; /* of those, steps that were skipped */
    uint64_t rows_seen;
    double epoch;
    uint64_t seed;
    uint64_t model_fingerprint; /* lzt_model_info's */
    const char *config_json;    /* a JSON object: what must be equal on resume, schedule inputs; NULL: {} */
    const lzt_ckpt_tensor *tensor;
    uint32_t tensor_count;
    lzt_ckpt_source *source;
    void *arg;
} lzt_ckpt_state;

#define LZT_CKPT_STATE_INIT                                                                                            \
    {                                                                                                                  \
        .struct_bytes = sizeof(lzt_ckpt_state)                                                                         \
    }

typedef struct lzt_ckpt_options {
    uint64_t struct_bytes;
    uint64_t save_total_limit; /* complete versions kept, at least 1; 0: all */
    uint64_t shard_bytes;      /* a state file is closed once it holds this much; 0: 4 GiB */
    lzt_ckpt_note *note;       /* may be NULL */
    void *note_arg;
} lzt_ckpt_options;

#define LZT_CKPT_OPTIONS_INIT                                                                                          \
    {                                                                                                                  \
        .struct_bytes = sizeof(lzt_ckpt_options)                                                                       \
    }

/* Writes and publishes root/step-N; one of the same step is replaced. Needs memory for the largest tensor in F32. After
 * an error no version has changed and nothing of the new one is left. Then removes the oldest complete versions beyond
 * save_total_limit; one that cannot be removed is a note, not an error. options may be NULL. */
LZT_EXPORT lzt_status lzt_ckpt_save(const char *root, const lzt_ckpt_state *state, const lzt_ckpt_options *options,
                                    lzt_error *err);

typedef struct lzt_ckpt lzt_ckpt;

typedef struct lzt_ckpt_info {
    const char *directory;
    uint64_t step, applied_steps, nonfinite_steps, rows_seen, seed, model_fingerprint;
    double epoch;
    const char *config_json; /* as saved, in canonical form: sorted keys, no spaces */
    uint64_t bytes;          /* of all files */
    uint32_t file_count;
    uint32_t tensor_count; /* stored: parts count apart */
} lzt_ckpt_info;

/* Opens the newest version that is whole, every byte of it hashed; *ckpt is NULL when there is none. Notes say which
 * newer ones were skipped and why. Removes what killed writers left behind. A root that is not there is good. */
LZT_EXPORT lzt_status lzt_ckpt_find_latest(const char *root, lzt_ckpt_note *note, void *arg, lzt_ckpt **ckpt,
                                           lzt_error *err);
/* Opens one version by its directory, every byte of it hashed. Errors: LZT_ERR_MODEL when it is not whole. */
LZT_EXPORT lzt_status lzt_ckpt_open(const char *directory, lzt_ckpt **ckpt, lzt_error *err);
LZT_EXPORT void lzt_ckpt_close(lzt_ckpt *ckpt); /* NULL is allowed */
LZT_EXPORT const lzt_ckpt_info *lzt_ckpt_get_info(const lzt_ckpt *ckpt);

/* Feeds every part of every tensor to the sink. Before the first call it is certain that the version holds exactly
 * these names, shapes and parts; the bytes are hashed once more on the way, so that a change since open is an error
 * (after which the sink has seen parts of it). */
LZT_EXPORT lzt_status lzt_ckpt_load(const lzt_ckpt *ckpt, const lzt_ckpt_tensor *tensor, uint32_t tensor_count,
                                    lzt_ckpt_sink *sink, void *arg, lzt_error *err);
/* One part of one tensor into out[element_count]. Errors: LZT_ERR_MODEL when there is none of this size. */
LZT_EXPORT lzt_status lzt_ckpt_read(const lzt_ckpt *ckpt, const char *name, lzt_ckpt_part part, float *out,
                                    uint64_t element_count, lzt_error *err);

/* One version as `ckpt ls` shows it. */
typedef struct lzt_ckpt_version {
    uint64_t step, bytes;
    bool is_complete;    /* the manifest is whole and the files have its sizes; hashes are not read */
    const char *problem; /* what is wrong, or "" */
    const char *directory;
} lzt_ckpt_version;
typedef lzt_status lzt_ckpt_visit(void *arg, const lzt_ckpt_version *version, lzt_error *err);

/* Calls visit for every root/step-N, the newest first; ends with the first error it returns. */
LZT_EXPORT lzt_status lzt_ckpt_list(const char *root, lzt_ckpt_visit *visit, void *arg, lzt_error *err);

/* Removes all versions but the newest `keep` (at least 1) complete ones; those that are not complete go, too, if a
 * complete one stays. note gets one line for each; dry_run: says so and removes nothing. */
LZT_EXPORT lzt_status lzt_ckpt_prune(const char *root, uint64_t keep, bool dry_run, lzt_ckpt_note *note, void *arg,
                                     lzt_error *err);

#ifdef __cplusplus
}
#endif
#endif
