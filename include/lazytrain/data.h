/* Training data: files of rows, the order in which an epoch visits them, and micro-batches ready for the device.
 *
 *     lzt_dataset_options options = LZT_DATASET_OPTIONS_INIT;
 *     options.path = "rows.jsonl";
 *     options.vocabulary = 49152;
 *     lzt_dataset_open(&options, &dataset, &err);
 *     lzt_batcher_options plan = LZT_BATCHER_OPTIONS_INIT;
 *     plan.micro_batch_rows = 8;
 *     lzt_batcher_create(dataset, &plan, &batcher, &err);
 *     for (step = 0; step < lzt_batcher_steps(batcher); step++)
 *         for (m = 0; m < lzt_batcher_micro_batches(batcher, step); m++)
 *             lzt_batcher_fill(batcher, step, m, &micro_batch, &err);
 *
 * A row is a list of token ids, of labels and of weights, as Hugging Face aligns them: label t is the id that position
 * t-1 predicts, or -100 where there is no loss; weight t is how much that loss counts, 0 where there is none, 1 unless
 * the row says otherwise. What a row is made from (pre-tokenised lists, text, a conversation through a chat template)
 * only changes how it is produced. The loss of a step is sum(w nll) / sum(w) over its global batch (ADR 0022).
 *
 * Files are mapped and only an index of rows is held; values are parsed when a row is read. Nothing here remembers a
 * position: order and batches are functions of (seed, epoch, index) and of the step, so resuming costs nothing.
 *
 * A dataset can be made of several sources: files, or names in a registry (docs/formats/data.md). Their rows are
 * numbered one source after the other; an epoch visits each once, or mixes the sources by weight.
 *
 * Threads: a dataset, and every batcher over it, is used by one thread at a time. Ownership: options are copied; a
 * tokenizer or template named in them must outlive the dataset, the dataset its batchers.
 * Errors name "file:line"; they are LZT_ERR_DATA unless said otherwise.
 */
#ifndef LAZYTRAIN_DATA_H
#define LAZYTRAIN_DATA_H

#include "lazytrain/status.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lzt_tokenizer lzt_tokenizer; /* lazytrain/tokenizer.h */
typedef struct lzt_template lzt_template;   /* lazytrain/template.h */
typedef struct lzt_dataset lzt_dataset;
typedef struct lzt_batcher lzt_batcher;

#define LZT_LABEL_NONE (-100) /* no loss on this token */

typedef enum lzt_bad_row {
    LZT_BAD_ROW_ERROR = 0, /* a row that cannot be read ends the run, naming its line */
    LZT_BAD_ROW_SKIP       /* it is left out and counted */
} lzt_bad_row;

/* What happens to a row longer than max_seq_length. */
typedef enum lzt_truncation {
    LZT_TRUNCATE_KEEP_START = 0, /* cut at the end; without a trained token left the row is dropped and counted */
    LZT_TRUNCATE_KEEP_ANSWER,    /* cut the tokens before the last trained span's end; a first BOS stays */
    LZT_TRUNCATE_DROP,           /* leave the row out and count it */
    LZT_TRUNCATE_ERROR           /* end, naming the line */
} lzt_truncation;

typedef enum lzt_loss_on {
    LZT_LOSS_ASSISTANT = 0, /* every assistant turn, or the response of a pair */
    LZT_LOSS_LAST,          /* the last assistant turn only */
    LZT_LOSS_ALL            /* every token but the first */
} lzt_loss_on;

/* Kinds of rows that a dataset may refuse instead of counting them. */
typedef enum lzt_refuse {
    LZT_REFUSE_UNTRAINED = 1,  /* no loss-bearing token, from the start or after truncation */
    LZT_REFUSE_TRUNCATED = 2,  /* longer than max_seq_length, whatever truncation makes of it */
    LZT_REFUSE_DOUBLE_BOS = 4, /* begins with two BOS */
} lzt_refuse;

/* Which rows of its sources an epoch of a dataset holds. w: a source's share of the weights, n: its rows. */
typedef enum lzt_mix {
    LZT_MIX_CONCAT = 0, /* every row of every source once */
    LZT_MIX_UNDER,      /* min(n / w) rows: the first source to run out ends the epoch; the next epoch goes on in the
                           others where this one stopped */
    LZT_MIX_OVER        /* max(n / w) rows: every row of every source at least once, those of the others again */
} lzt_mix;

/* Which side of a split by val_size a dataset is. */
typedef enum lzt_side { LZT_SIDE_TRAIN = 0, LZT_SIDE_VALIDATION } lzt_side;

typedef struct lzt_dataset_options {
    uint64_t struct_bytes;
    const char *path;        /* a file (JSONL, JSON array, CSV, Arrow; also .gz and .zst), a name in the registry, or
                                several of both separated by commas */
    uint64_t vocabulary;     /* rows of the embedding; an id outside 0..vocabulary-1 is an error. 0: not checked */
    uint64_t max_seq_length; /* tokens; 0: nothing is truncated */
    uint64_t max_samples;    /* rows of each source that are used, from the start; 0: all */
    const lzt_tokenizer *tokenizer; /* NULL: pre-tokenised rows only */
    lzt_template *chat;             /* for conversations and pairs; NULL: a pair is query + response as they stand */
    const char *query_field;        /* of pairs; both or none. NULL: detected (query/response, question/answer, */
    const char *response_field;     /* prompt/completion, instruction[/input]/output) */
    lzt_bad_row on_bad_row;
    lzt_truncation truncation;
    lzt_loss_on loss_on;
    bool lazy; /* open only indexes rows, which are looked into when first used; so it is with files above 256 MiB */
    const char *dataset_dir; /* of dataset_info.json; NULL: "data", where path names no file */
    lzt_mix mix;
    const double *weights; /* [weight_count] of the sources, in their order; NULL: equal. Used by UNDER and OVER */
    uint64_t weight_count; /* 0, or the sources' number */
    double val_size;       /* rows of the sources that are split off, chosen by split_seed: below 1 a share (rounded
                              up), else a number; 0: none */
    lzt_side side;         /* the side of the split that this dataset is */
    uint64_t split_seed;
    const char *cache_dir; /* rows that a tokenizer made are kept in a file below it, and taken from there; NULL: not */
    uint32_t refuse;       /* of lzt_refuse: the first such row ends the opening (of a lazy dataset: its first use) */
    bool cache_large;      /* also those of files above 256 MiB: open then makes every row */
} lzt_dataset_options;

#define LZT_DATASET_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(lzt_dataset_options), NULL, 0, 0, 0, NULL, NULL, NULL, NULL, LZT_BAD_ROW_ERROR,                         \
            LZT_TRUNCATE_KEEP_START, LZT_LOSS_ASSISTANT, false, NULL, LZT_MIX_CONCAT, NULL, 0, 0, LZT_SIDE_TRAIN, 0,   \
            NULL, 0, false                                                                                             \
    }

typedef enum lzt_cache_use {
    LZT_CACHE_OFF = 0,
    LZT_CACHE_USED,       /* the rows were there */
    LZT_CACHE_MADE,       /* they were made and kept */
    LZT_CACHE_REMADE,     /* the same; what was there was damaged: the note says how */
    LZT_CACHE_NOT_WRITTEN /* they were made, and could not be kept: the note says why */
} lzt_cache_use;

/* What became of the sources' rows. rows_in = rows_out + every dropped_*. A lazy dataset counts what was read so far.
 * Broken text has one rule in every format: an unpaired surrogate escape and a byte that is not part of valid UTF-8
 * become U+FFFD; a NUL (escaped in JSON, raw in CSV and Arrow) is a character like others. */
typedef struct lzt_dataset_report {
    uint64_t rows_in;           /* rows of the sources on this side of the split, blank lines not counted */
    uint64_t rows_out;          /* rows that train */
    uint64_t dropped_bad;       /* could not be read (on_bad_row: skip) */
    uint64_t dropped_too_long;  /* LZT_TRUNCATE_DROP */
    uint64_t dropped_cut;       /* no trained token left after truncation */
    uint64_t dropped_untrained; /* no trained token to begin with */
    uint64_t truncated;         /* cut and kept */
    uint64_t blank_lines;
    uint64_t replaced_text;      /* rows with lone surrogates or bytes that are not UTF-8, replaced by U+FFFD */
    uint64_t nul_text;           /* rows with a NUL in a text */
    uint64_t double_bos;         /* rows that begin with two BOS */
    uint64_t control_text;       /* rows whose content spells a control token (it stays text) */
    uint64_t first_dropped_line; /* line of the first row that was dropped for want of a trained token; 0: none */
    uint64_t first_bad_line;     /* line of the first row that could not be read; 0: none */
    const char *first_dropped_path, *first_bad_path; /* their files; NULL: none. Borrowed from the dataset */
    uint64_t split_off;                              /* rows on the other side of the split */
    bool lazy;                                       /* rows are looked into when first used */
    uint64_t tokens, trained_tokens, longest;        /* of rows_out */
    double loss_weight;                              /* the sum of their weights; trained_tokens where all are 1 */
    uint64_t weighted_rows, weighted_tokens;         /* with a weight that is neither 0 nor 1 */
    lzt_cache_use cache;
    const char *cache_path, *cache_note; /* NULL where cache is LZT_CACHE_OFF. Borrowed from the dataset */
} lzt_dataset_report;

/* Opens and checks the file. Unless lazy, every row is read once: broken rows, ids outside the vocabulary, and a file
 * without rows or without a single trained token are errors here. Errors also: LZT_ERR_STORAGE (cannot be read),
 * LZT_ERR_USAGE (options), LZT_ERR_NO_MEMORY. blocks: reads the file */
LZT_EXPORT lzt_status lzt_dataset_open(const lzt_dataset_options *options, lzt_dataset **dataset, lzt_error *err);
LZT_EXPORT void lzt_dataset_close(lzt_dataset *dataset); /* NULL is allowed */
/* Rows that train (of a lazy dataset: rows of the file; those without a trained token then measure 0 tokens). */
LZT_EXPORT uint64_t lzt_dataset_rows(const lzt_dataset *dataset);
/* Tokens of a row, and how many of them bear loss. Either may be NULL. Only a lazy dataset can fail here. */
LZT_EXPORT lzt_status lzt_dataset_measure(lzt_dataset *dataset, uint64_t row, uint32_t *tokens, uint32_t *trained,
                                          lzt_error *err);
/* The sum of a row's weights, in token order; as many as bear loss where all are 1. Fails where measure does. */
LZT_EXPORT lzt_status lzt_dataset_weigh(lzt_dataset *dataset, uint64_t row, double *weight, lzt_error *err);
/* The row's ids, labels and weights into arrays of as many elements as it measures; labels and weights may be NULL.
 * labels[0] is always LZT_LABEL_NONE: nothing predicts the first token. weights[i] is above 0 exactly where labels[i]
 * is an id. */
LZT_EXPORT lzt_status lzt_dataset_read(lzt_dataset *dataset, uint64_t row, int32_t *ids, int32_t *labels,
                                       float *weights, lzt_error *err);
/* What a row asks: its conversation up to the assistant's last turn, through the same template with the generation
 * prompt; of a pair the query; of a row of ids what stands before its last trained span. Never truncated. */
typedef struct lzt_question {
    const int32_t *ids; /* [count] the prompt */
    uint64_t count;
    const char *answer; /* [answer_size] the row's own answer as text, NUL-terminated */
    uint64_t answer_size;
} lzt_question;
/* Borrowed until the dataset's next call. Errors: the row has no question with an answer. */
LZT_EXPORT lzt_status lzt_dataset_question(lzt_dataset *dataset, uint64_t row, lzt_question *question, lzt_error *err);
/* The row as one line of JSON, whatever its format: {"messages": [...], "tools": [...]}, {"text": "..."}, or
 * {"input_ids": [...], "labels": [...]} (with "loss_weights" where one is neither 0 nor 1); needs neither tokenizer nor
 * template. *size 0: it cannot be read, and on_bad_row says skip. For a dataset that is opened lazily and only
 * converted: the report counts what was converted. Borrowed until the dataset's next call. */
LZT_EXPORT lzt_status lzt_dataset_convert(lzt_dataset *dataset, uint64_t row, const char **text, uint64_t *size,
                                          lzt_error *err);
/* 1-based line of the row in its file (of the element's first line in a JSON array; the row's number in Arrow). */
LZT_EXPORT uint64_t lzt_dataset_line(const lzt_dataset *dataset, uint64_t row);
/* Rows of an epoch: lzt_dataset_rows, or what the mix makes of it. */
LZT_EXPORT uint64_t lzt_dataset_epoch_rows(const lzt_dataset *dataset);
/* The row at place index (0..epoch_rows-1) of an epoch: a function of its arguments and of the sources' sizes, in
 * constant time and memory. Unless shuffled, sources alternate by their weights and rows come in file order. */
LZT_EXPORT uint64_t lzt_dataset_epoch_row(const lzt_dataset *dataset, uint64_t seed, bool shuffled, uint64_t epoch,
                                          uint64_t index);
/* false when every epoch holds the same rows */
LZT_EXPORT bool lzt_dataset_epochs_differ(const lzt_dataset *dataset);

/* One of a dataset's sources. */
typedef struct lzt_dataset_source {
    const char *name, *path; /* as path named it; its file. Borrowed */
    uint64_t rows_in;        /* rows of the file that are used, on this side of the split */
    uint64_t rows;           /* of lzt_dataset_rows */
    uint64_t rows_per_epoch;
    uint64_t blank_lines;
} lzt_dataset_source;

LZT_EXPORT uint64_t lzt_dataset_source_count(const lzt_dataset *dataset);
LZT_EXPORT void lzt_dataset_get_source(const lzt_dataset *dataset, uint64_t index, lzt_dataset_source *source);
LZT_EXPORT void lzt_dataset_get_report(const lzt_dataset *dataset, lzt_dataset_report *report);
/* The time that the dataset's template tells in its rows (lzt_template_asks_time); false: none. */
LZT_EXPORT bool lzt_dataset_tells_time(const lzt_dataset *dataset, int64_t *seconds);
/* Which rows a dataset trains on, as 32 hexadecimal digits each. rows: of the ids, labels and weights of all that
 * train, in their order, and of how many are each source's; "" of a lazy one, which does not know them. files: of the
 * bytes of the sources' rows and of whatever turns them into tokens; the same rows can come from other files. Any
 * thread. Errors: LZT_ERR_NO_MEMORY */
#define LZT_DIGEST_TEXT 33
LZT_EXPORT lzt_status lzt_dataset_digest(const lzt_dataset *dataset, char rows[LZT_DIGEST_TEXT],
                                         char files[LZT_DIGEST_TEXT], lzt_error *err);
LZT_EXPORT const char *lzt_dataset_path(const lzt_dataset *dataset);
/* max_seq_length: no row that trains is longer; 0: there is no bound. */
LZT_EXPORT uint64_t lzt_dataset_max_tokens(const lzt_dataset *dataset);
/* Rows are looked into when first used, so that the report is not complete. */
LZT_EXPORT bool lzt_dataset_is_lazy(const lzt_dataset *dataset);

typedef struct lzt_batcher_options {
    uint64_t struct_bytes;
    uint64_t seed;
    uint64_t micro_batch_rows; /* per_device_train_batch_size */
    uint64_t accumulation;     /* gradient_accumulation_steps: micro-batches of a full step */
    double epochs;             /* num_train_epochs; the last step of a fraction is counted whole */
    uint64_t max_steps;        /* 0: from epochs; else it wins, going on into further epochs as needed */
    bool disable_shuffling;    /* file order in every epoch */
    bool drop_last;            /* an epoch's incomplete last batch is left out; else it trains on fewer rows */
    bool packing;              /* rows share packs of pack_tokens, each a document; a batch counts packs */
    uint64_t pack_tokens;      /* max_seq_length */
    bool group_by_length;      /* rows of similar length share a batch, within windows of the epoch's order */
} lzt_batcher_options;

#define LZT_BATCHER_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(lzt_batcher_options), 42, 8, 1, 1.0, 0, false, false, false, 0, false                                   \
    }

/* One micro-batch in the layout of the kernel's descriptor: rows one after the other, without padding, each a document.
 * The caller owns the arrays; ids, position, target and weight hold capacity elements, document_begin capacity + 1. */
typedef struct lzt_micro_batch {
    uint64_t capacity;       /* in: tokens that fit */
    int32_t *ids;            /* [token_count] */
    int32_t *position;       /* [token_count] of the token in its document */
    int32_t *target;         /* [token_count] the id that the position predicts (the row's next label), or -1 */
    float *weight;           /* [token_count] of the target's loss: above 0, or 0 where target is -1 */
    int32_t *document_begin; /* [document_count + 1]; the last element is token_count */
    uint64_t token_count;    /* out: real tokens */
    uint64_t document_count; /* out */
    uint64_t loss_count;     /* out: targets that are not -1 */
    double loss_weight;      /* out: the sum of weight, added document by document; loss_count where all are 1 */
    uint64_t padded_count;   /* out: documents x longest, what a padding trainer would compute; packs x pack_tokens */
} lzt_micro_batch;

/* Bytes of a micro-batch's arrays, and a micro-batch over as many, aligned to 4. */
static inline uint64_t lzt_micro_batch_bytes(uint64_t capacity)
{
    return 4 * (5 * capacity + 1);
}
static inline lzt_micro_batch lzt_micro_batch_over(void *memory, uint64_t capacity)
{
    int32_t *at = (int32_t *)memory;
    lzt_micro_batch batch;
    batch.capacity = capacity;
    batch.ids = at;
    batch.position = at + capacity;
    batch.target = at + 2 * capacity;
    batch.weight = (float *)memory + 3 * capacity;
    batch.document_begin = at + 4 * capacity;
    batch.token_count = batch.document_count = batch.loss_count = batch.padded_count = 0;
    batch.loss_weight = 0;
    return batch;
}

/* Errors: LZT_ERR_USAGE (options; drop_last with fewer rows than a batch), and those of lzt_dataset_measure. */
LZT_EXPORT lzt_status lzt_batcher_create(lzt_dataset *dataset, const lzt_batcher_options *options,
                                         lzt_batcher **batcher, lzt_error *err);
LZT_EXPORT void lzt_batcher_destroy(lzt_batcher *batcher);                     /* NULL is allowed */
LZT_EXPORT const lzt_dataset *lzt_batcher_dataset(const lzt_batcher *batcher); /* borrowed */
/* Rows of an epoch. */
LZT_EXPORT uint64_t lzt_batcher_rows(const lzt_batcher *batcher);
LZT_EXPORT uint64_t lzt_batcher_steps(const lzt_batcher *batcher);
LZT_EXPORT uint64_t lzt_batcher_steps_per_epoch(const lzt_batcher *batcher);
/* Epochs done before the step starts, as a fraction: step / steps per epoch. step may be lzt_batcher_steps. Packs of a
 * lazy dataset are counted only as far as the run goes; the length of its last epoch is then an estimate. */
LZT_EXPORT double lzt_batcher_epoch(const lzt_batcher *batcher, uint64_t step);
/* Where a step's batch begins in the order of rows: a place among (epoch, window, pack). A window is 4,096 rows of the
 * epoch's order (grouped by length: as many as make whole batches; the last one fewer); unpacked, a pack is one row. It
 * is all that a run must remember of its data. */
typedef struct lzt_data_position {
    uint64_t epoch, window, pack;
} lzt_data_position;

/* In constant time from the tables; step may be lzt_batcher_steps. Any thread. */
LZT_EXPORT void lzt_batcher_position(const lzt_batcher *batcher, uint64_t step, lzt_data_position *position);
/* An epoch is whole after so many steps. Any thread. */
LZT_EXPORT bool lzt_batcher_ends_epoch(const lzt_batcher *batcher, uint64_t steps);
/* Largest rows x longest row over the micro-batches of all steps: the token capacity that the run needs. Epochs over a
 * lazy dataset count with max_seq_length for the longest row, where there is one. */
LZT_EXPORT uint64_t lzt_batcher_capacity(const lzt_batcher *batcher);
/* Packed: tokens of the document that a token lies in, on average (the sum of squared lengths over the sum of lengths,
 * over the first epoch's rows, as far as they are known): what its attention looks at. Unpacked: 0. */
LZT_EXPORT uint64_t lzt_batcher_document_tokens(const lzt_batcher *batcher);
/* Micro-batches of a step: accumulation, or fewer where an epoch ends. step < lzt_batcher_steps. */
LZT_EXPORT uint64_t lzt_batcher_micro_batches(const lzt_batcher *batcher, uint64_t step);
/* Loss-bearing tokens of the step's global batch, and the sum of their weights, added row by row in the batch's order.
 */
LZT_EXPORT lzt_status lzt_batcher_loss_count(lzt_batcher *batcher, uint64_t step, uint64_t *count, double *weight,
                                             lzt_error *err);
/* Fills micro-batch m of the step. LZT_ERR_USAGE when its tokens exceed the capacity. */
LZT_EXPORT lzt_status lzt_batcher_fill(lzt_batcher *batcher, uint64_t step, uint64_t m, lzt_micro_batch *out,
                                       lzt_error *err);

#ifdef __cplusplus
}
#endif
#endif
