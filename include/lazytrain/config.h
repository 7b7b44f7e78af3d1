/* The run's config: a YAML file and overrides, read by one schema into a plain struct.
 *
 *     lzt_config config;
 *     lzt_config_load("config.yaml", overrides, count, &config, &err);
 *     ... config.learning_rate ...
 *     lzt_config_write_resolved(&config, "out/config.resolved.yaml", &err);
 *     lzt_config_fini(&config);
 *
 * Keys are Hugging Face's, flat or in sections (model, data, training, optimizer, memory, logging), with the spellings
 * of other trainers as aliases; docs/config.md lists them all. Scalars are typed by the schema, never by YAML: 1e-5 is
 * a number, 70GiB a size, 1_000 an integer, and the locale has no effect. Refused with file and line: unknown keys
 * (with the nearest name), a key given twice, anchors, aliases and tags, values out of range, values of features that
 * do not exist yet. Keys that begin with x- are the user's own. null means "as if the key were absent". An explicit
 * zero is honoured or refused, never read as "unset".
 *
 * Threads: plain data after load. Ownership: fini frees every string of the struct.
 */
#ifndef LAZYTRAIN_CONFIG_H
#define LAZYTRAIN_CONFIG_H

#include "lazytrain/status.h"

#include <stdbool.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A count of steps, or a share of the run's steps. Both 0: zero steps. */
typedef struct lzt_steps {
    uint64_t steps;
    double ratio; /* 0 < ratio < 1, else 0 */
} lzt_steps;

/* ceil(ratio * total), or steps. */
LZT_EXPORT uint64_t lzt_steps_of(lzt_steps steps, uint64_t total);

typedef struct lzt_text_list {
    const char **item; /* [count] */
    uint64_t count;
} lzt_text_list;

typedef enum lzt_config_schedule {
    LZT_CONFIG_SCHEDULE_LINEAR = 0,
    LZT_CONFIG_SCHEDULE_COSINE,
    LZT_CONFIG_SCHEDULE_COSINE_WITH_MIN_LR,
    LZT_CONFIG_SCHEDULE_COSINE_WITH_RESTARTS,
    LZT_CONFIG_SCHEDULE_POLYNOMIAL,
    LZT_CONFIG_SCHEDULE_CONSTANT,
    LZT_CONFIG_SCHEDULE_CONSTANT_WITH_WARMUP,
    LZT_CONFIG_SCHEDULE_INVERSE_SQRT,
    LZT_CONFIG_SCHEDULE_WARMUP_STABLE_DECAY
} lzt_config_schedule;

typedef enum lzt_config_tier { LZT_CONFIG_TIER_AUTO = 0, LZT_CONFIG_TIER_CPU, LZT_CONFIG_TIER_NVME } lzt_config_tier;
typedef enum lzt_config_engine {
    LZT_CONFIG_ENGINE_AUTO = 0,
    LZT_CONFIG_ENGINE_URING,
    LZT_CONFIG_ENGINE_THREADS,
    LZT_CONFIG_ENGINE_CUFILE
} lzt_config_engine;
typedef enum lzt_config_nvme_mode { LZT_CONFIG_NVME_GDS = 0, LZT_CONFIG_NVME_CPU_STAGING } lzt_config_nvme_mode;
typedef enum lzt_config_master {
    LZT_CONFIG_MASTER_SPLIT = 0,
    LZT_CONFIG_MASTER_F32,
    LZT_CONFIG_MASTER_BF16_SR
} lzt_config_master;
typedef enum lzt_config_moments { LZT_CONFIG_MOMENTS_F32 = 0, LZT_CONFIG_MOMENTS_HYBRID_8BIT_ADAM } lzt_config_moments;
typedef enum lzt_config_grad_dtype {
    LZT_CONFIG_GRAD_AUTO = 0,
    LZT_CONFIG_GRAD_F32,
    LZT_CONFIG_GRAD_BF16
} lzt_config_grad_dtype;
/* The four below have the values of lzt_mix, lzt_bad_row, lzt_truncation and lzt_loss_on (lazytrain/data.h). */
typedef enum lzt_config_mix {
    LZT_CONFIG_MIX_CONCAT = 0,
    LZT_CONFIG_MIX_INTERLEAVE_UNDER,
    LZT_CONFIG_MIX_INTERLEAVE_OVER
} lzt_config_mix;
typedef enum lzt_config_bad_row { LZT_CONFIG_BAD_ROW_ERROR = 0, LZT_CONFIG_BAD_ROW_SKIP } lzt_config_bad_row;
typedef enum lzt_config_truncation {
    LZT_CONFIG_TRUNCATE_KEEP_START = 0,
    LZT_CONFIG_TRUNCATE_KEEP_ANSWER,
    LZT_CONFIG_TRUNCATE_DROP,
    LZT_CONFIG_TRUNCATE_ERROR
} lzt_config_truncation;
typedef enum lzt_config_loss_on {
    LZT_CONFIG_LOSS_ASSISTANT = 0,
    LZT_CONFIG_LOSS_LAST,
    LZT_CONFIG_LOSS_ALL
} lzt_config_loss_on;
typedef enum lzt_config_strategy {
    LZT_CONFIG_STRATEGY_AUTO = 0,
    LZT_CONFIG_STRATEGY_NO,
    LZT_CONFIG_STRATEGY_STEPS,
    LZT_CONFIG_STRATEGY_EPOCH
} lzt_config_strategy;

/* Texts are NULL when unset. Meanings in full: docs/config.md. */
typedef struct lzt_config {
    /* model and data */
    const char *model_name_or_path; /* directory */
    const char *tokenizer;          /* NULL: the model's */
    const char *output_dir;
    const char *dataset;      /* files and names of the registry, separated by commas */
    const char *eval_dataset; /* NULL: no evaluation */
    const char *dataset_dir;  /* of dataset_info.json */
    lzt_config_mix mix_strategy;
    lzt_text_list interleave_probs; /* as written */
    double *mix_weight;             /* [mix_weight_count] interleave_probs as numbers */
    uint64_t mix_weight_count;      /* 0: none are given */
    uint64_t max_seq_length;        /* tokens; 0: nothing is truncated */
    bool packing, group_by_length;
    const char *tokenized_path;               /* "auto", "none", or a directory */
    const char *chat_template;                /* key `template`; NULL: none */
    const char *query_field, *response_field; /* both or none */
    uint64_t max_samples;                     /* rows; 0: all */
    double val_size;                          /* share of rows or rows; 0: none */
    lzt_config_bad_row on_bad_row;
    lzt_text_list refuse_rows; /* of "untrained", "truncated", "double_bos" */
    lzt_config_truncation truncation;
    lzt_config_loss_on loss_on;
    bool train_on_prompt, mask_history; /* folded into loss_on */
    bool disable_shuffling, dataloader_drop_last;
    uint64_t eval_samples;        /* rows that answers are generated for; 0: none */
    uint64_t eval_loss_samples;   /* rows; 0: all */
    uint64_t eval_max_new_tokens; /* tokens */
    const char *answer_pattern;

    /* training */
    uint64_t per_device_train_batch_size, per_device_eval_batch_size; /* rows, >= 1 */
    uint64_t gradient_accumulation_steps;                             /* >= 1 */
    double num_train_epochs;                                          /* > 0 */
    int64_t max_steps;                                                /* -1: from num_train_epochs; else it wins */
    double learning_rate;
    lzt_config_schedule lr_scheduler_type;
    double lr_min, lr_min_rate; /* lr_scheduler_kwargs.min_lr, .min_lr_rate; at most one is not 0 */
    double lr_num_cycles;       /* 0: the schedule's own */
    double lr_power, lr_end;    /* polynomial */
    uint64_t lr_num_stable_steps, lr_num_decay_steps, lr_timescale; /* 0: the schedule's own */
    lzt_steps warmup_steps;
    double warmup_ratio; /* folded into warmup_steps */
    double weight_decay, adam_beta1, adam_beta2, adam_epsilon;
    double max_grad_norm; /* 0: off */
    const char *optim;    /* "adamw" */
    bool bf16, fp16;
    uint64_t seed, data_seed;     /* data_seed: seed unless given */
    uint64_t max_nonfinite_steps; /* in a row, >= 1 */
    const char *device;           /* cpu, cpu-checked, cuda, cuda:N */

    /* logging, evaluation, checkpoints */
    lzt_steps logging_steps; /* steps between printed lines; 0: none */
    lzt_config_strategy eval_strategy, save_strategy;
    lzt_steps eval_steps; /* 0: only at step 0, epoch ends and the end */
    bool eval_on_start;
    lzt_steps save_steps;      /* 0: no checkpoints */
    uint64_t save_total_limit; /* 0: unset, all are kept */
    bool save_final, save_only_model;
    const char *resume_from_checkpoint; /* "auto", "none", or a checkpoint's directory */

    struct {
        uint64_t device_cap, host_cap, nvme_cap; /* bytes; 0: none */
        const char *plan;                        /* auto, baseline, or a path */
        const char *profile;                     /* NULL: output_dir's own, if it is there */
        uint64_t checkpoint_interval;            /* layers, >= 1 */
        double link_gbps, nvme_gbps;             /* GB/s (10^9) in each direction; 0: not throttled */
        double compute_slowdown;                 /* >= 1 */
        lzt_text_list sync;                      /* of optimizer, nvme, checkpoint */
        lzt_config_tier state_tier, state_tier_weights, state_tier_gradients, state_tier_master, state_tier_moments;
        lzt_config_engine io_engine;
        lzt_config_nvme_mode lazy_nvme_mode;
        const char *lazy_nvme_offload_dir;
        uint64_t lazy_nvme_prefetch_distance; /* boundaries */
        bool lazy_nvme_gds_staging;
    } memory;
    struct {
        lzt_config_master master;
        lzt_config_moments moments;
        double eight_bit_fraction;
    } optimizer;
    lzt_text_list freeze; /* name globs */
    struct {
        uint64_t micro_batch_tokens, loss_chunk, threads, attention_tile; /* 0: unset */
        lzt_config_grad_dtype grad_dtype;
        bool propose; /* key `numerics.auto` */
    } numerics;

    lzt_text_list note; /* what the user should be told: keys without effect, by name */
    struct lzt_config_private *private_data;
} lzt_config;

/* One override, as written after `train CONFIG`: any spelling of a key ('-' for '_' too), and its text; a NULL value
 * means true. Lists are separated by commas. */
typedef struct lzt_config_override {
    const char *key, *value;
} lzt_config_override;

/* path may be NULL: defaults and overrides alone. Overrides win over the file. On failure *config holds nothing.
 * Errors: LZT_ERR_USAGE (where = "file:line" or "command line"), LZT_ERR_NO_MEMORY. blocks: reads the file */
LZT_EXPORT lzt_status lzt_config_load(const char *path, const lzt_config_override *override, int override_count,
                                      lzt_config *config, lzt_error *err);
/* The same for a dry run: values that a plan can be made with and a run cannot be executed with yet
 * (memory.lazy_nvme_*, optimizer.moments) are let through, each with a note. */
LZT_EXPORT lzt_status lzt_config_load_to_plan(const char *path, const lzt_config_override *override, int override_count,
                                              lzt_config *config, lzt_error *err);
/* The same as lzt_config_load from text[0..bytes-1], called name in messages. */
LZT_EXPORT lzt_status lzt_config_load_text(const char *name, const char *text, size_t bytes,
                                           const lzt_config_override *override, int override_count, lzt_config *config,
                                           lzt_error *err);
LZT_EXPORT void lzt_config_fini(lzt_config *config); /* a zeroed config is allowed */

/* LZT_ERR_USAGE unless the text key was set ("model_name_or_path", "dataset", "output_dir"). */
LZT_EXPORT lzt_status lzt_config_require(const lzt_config *config, const char *key, lzt_error *err);
/* Where the value of a canonical key came from: "config.yaml:12", "command line" or "default". The key must exist
 * (asserted). Borrowed from text. */
LZT_EXPORT const char *lzt_config_origin(const lzt_config *config, const char *key, char *text, size_t size);

/* Writes every key with its value and, as a comment, its origin; loading the file gives the same config. Replaces the
 * file atomically. Errors: LZT_ERR_STORAGE. blocks: yes */
LZT_EXPORT lzt_status lzt_config_write_resolved(const lzt_config *config, const char *path, lzt_error *err);
/* The same text to a stream. Errors: LZT_ERR_STORAGE. */
LZT_EXPORT lzt_status lzt_config_print_resolved(const lzt_config *config, FILE *out, lzt_error *err);

#ifdef __cplusplus
}
#endif
#endif
