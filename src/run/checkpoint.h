/* The engine's side of checkpoints: its state as named tensors, and where a run stood. */
#ifndef LZT_RUN_CHECKPOINT_H
#define LZT_RUN_CHECKPOINT_H

#include "lazytrain/train.h"

typedef struct lzt_progress_state {
    uint64_t step, applied, nonfinite, rows_seen;
} lzt_progress_state;

/* Writes checkpoints/step-N atomically; nothing may be pending. blocks: on disk */
lzt_status lzt__checkpoint_save(const lzt_train_options *options, const lzt_progress_state *progress, lzt_error *err);

/* Step 1's gradients as one safetensors file: F32, Hugging Face's names. */
lzt_status lzt__gradients_write(lzt_engine *engine, const char *path, lzt_error *err);

/* The learning rate of the step after `applied` applied ones. */
double lzt__learning_rate(const lzt_config *config, uint64_t applied, uint64_t total);

#endif
