/* What the files of the checkpoint module share: the manifest, the list of versions, and the calls with their file
 * table given (for tests). */
#ifndef LZT_CKPT_INTERNAL_H
#define LZT_CKPT_INTERNAL_H

#include "base/os.h"
#include "base/safetensors.h"
#include "base/staging.h"
#include "lazytrain/ckpt.h"

#include <xxhash.h>

#define LZT__CKPT_FORMAT       "lazytrain-checkpoint"
#define LZT__CKPT_VERSION      1
#define LZT__CKPT_MANIFEST     "MANIFEST.json"
#define LZT__CKPT_TRAINER      "trainer.json"
#define LZT__CKPT_SHARD_FORMAT "state-%05u.safetensors"
#define LZT__CKPT_DIR_PREFIX   "step-"
#define LZT__CKPT_TEXT_MAX     (UINT64_C(64) << 20) /* of a manifest or trainer.json */

/* "master.", "exp_avg.", "exp_avg_sq." */
const char *lzt__ckpt_part_prefix(int part);

/* ---- the manifest ---- */

typedef struct lzt__ckpt_file {
    char name[64];
    uint64_t bytes;
    XXH128_hash_t hash;
} lzt__ckpt_file;

typedef struct lzt__ckpt_manifest {
    uint64_t step;
    lzt__ckpt_file *file;
    uint32_t file_count;
} lzt__ckpt_manifest;

lzt_status lzt__ckpt_manifest_add(lzt__ckpt_manifest *manifest, const char *name, uint64_t bytes, XXH128_hash_t hash,
                                  lzt_error *err);
/* Writes MANIFEST.json into the staging directory. */
lzt_status lzt__ckpt_manifest_write(const lzt__ckpt_manifest *manifest, const lzt__staging *staging, lzt_error *err);
/* Reads directory/MANIFEST.json and checks it against itself and the sizes of the files. */
lzt_status lzt__ckpt_manifest_read(const lzt_os *os, const char *directory, lzt__ckpt_manifest *manifest,
                                   lzt_error *err);
void lzt__ckpt_manifest_fini(lzt__ckpt_manifest *manifest);

/* ---- versions ---- */

/* The steps of root's step-N directories, highest first; to be freed. A root that is not there has none. */
lzt_status lzt__ckpt_steps(const lzt_os *os, const char *root, uint64_t **step, uint32_t *count, lzt_error *err);

/* "root/step-N", to be freed; NULL without memory. */
char *lzt__ckpt_directory(const char *root, uint64_t step);

/* Removes the oldest complete versions beyond keep. */
void lzt__ckpt_rotate(const lzt_os *os, const char *root, uint64_t keep, lzt_ckpt_note *note, void *arg);

/* ---- with the file table given ---- */

lzt_status lzt__ckpt_save(const lzt_os *os, const char *root, const lzt_ckpt_state *state,
                          const lzt_ckpt_options *options, lzt_error *err);
lzt_status lzt__ckpt_find_latest(const lzt_os *os, const char *root, lzt_ckpt_note *note, void *arg, lzt_ckpt **ckpt,
                                 lzt_error *err);
lzt_status lzt__ckpt_open(const lzt_os *os, const char *directory, lzt_ckpt **ckpt, lzt_error *err);
lzt_status lzt__ckpt_prune(const lzt_os *os, const char *root, uint64_t keep, bool dry_run, lzt_ckpt_note *note,
                           void *arg, lzt_error *err);

#endif
