/* Inside a dataset: how a span of a file becomes ids, labels and the weights of their loss.
 *
 *     row_source.c which files        rowfile.c   where their rows are
 *     row_make.c   a row as JSON, made, cut and judged        row_text.c, row_tokens.c   made by one family of formats
 *     row_convert.c  or written as JSONL
 *     mix.c        which row stands where in an epoch         dataset.c   the index over all of it
 *     token_cache.c rows kept in a file                       dataset_cache.c   under which key, and when
 *
 * A producer appends to the dataset's row buffer and says nothing of truncation or dropping; row_make.c does that for
 * all of them alike.
 */
#ifndef LZT_DATA_DATASET_H
#define LZT_DATA_DATASET_H

#include "data/template/jinja_value.h"
#include "data/source/row_source.h"
#include "data/dataset/token_cache.h"
#include "data/loss_weight.h"
#include "lazytrain/data.h"
#include "lazytrain/template.h"
#include "lazytrain/tokenizer.h"

#include <xxhash.h>

typedef struct lzt__rowbuf {
    int32_t *ids, *labels; /* [count] */
    float *weights;        /* [count] of each label's loss; above 0 exactly where labels is not LZT_LABEL_NONE */
    uint64_t count, capacity;
    bool control_text; /* content spelled a control token */
    bool double_bos;   /* begins with two BOS */
} lzt__rowbuf;

/* Makes room for more tokens. */
lzt_status lzt__rowbuf_reserve(lzt__rowbuf *buf, uint64_t more, lzt_error *err);
/* Multiplies the weights by the row's own. */
lzt_status lzt__rowbuf_weigh(lzt__rowbuf *buf, float by, const char *where, lzt_error *err);

/* input_ids and, if there, labels and loss_weights of a row. where: "file:line". */
lzt_status lzt__row_pretokenised(const lzt__json *row, uint64_t vocabulary, const char *where, lzt__rowbuf *buf,
                                 lzt_error *err);

/* What rows of text are made with. */
typedef struct lzt__rowmaker {
    const lzt_tokenizer *tokenizer;
    lzt_encoder *encoder;
    lzt_template *chat;                       /* may be NULL */
    const char *query_field, *response_field; /* both or none */
    const lzt__rowshape *shape;               /* of the row in hand; NULL: by its fields */
    float weight;                             /* of the row in hand, by which those of its tokens are multiplied */
    lzt_loss_on loss_on;
    bool question; /* make what the row asks, with the generation prompt, and keep its answer apart */
    char *answer;  /* [answer_size] of the last question; NUL behind it */
    uint64_t answer_size;
    lzt__text *converted;    /* NULL, or where the conversation is written instead of being tokenised */
    float *wanted, *trained; /* scratch: weights by message and by token, 0: not trained */
    uint64_t wanted_capacity, trained_capacity;
    lzt__json_doc doc; /* JSON inside a JSON string */
} lzt__rowmaker;

void lzt__rowmaker_fini(lzt__rowmaker *maker);
/* A row of text in any format but the pre-tokenised one: text, messages, conversations, prompt and completion, question
 * and answer, instruction and output. */
lzt_status lzt__row_text(lzt__rowmaker *maker, const lzt__json *row, const char *where, lzt__rowbuf *buf,
                         lzt_error *err);

/* Turns a pre-tokenised row into its question: what stands before the last trained span, which is decoded. */
lzt_status lzt__row_ask_pretokenised(lzt__rowmaker *maker, const char *where, lzt__rowbuf *buf, lzt_error *err);

typedef struct lzt__entry {
    uint64_t row; /* counted over all sources */
    uint32_t tokens, trained;
} lzt__entry;

struct lzt_dataset {
    lzt_dataset_options o;
    char *path, *query_field, *response_field;
    lzt__sources sources;
    lzt__entry *index; /* [count] */
    double *weight;    /* [sources.rows] sums beside index, 0: as many as trained; NULL: so it is of all rows */
    uint64_t count;
    uint64_t *places; /* [sources.count] of an epoch; NULL: every row once */
    uint64_t *rows;   /* [sources.count] entries of each, beside places */
    uint64_t epoch_rows;
    XXH3_state_t *hash;       /* of the rows while the index is built; else NULL */
    XXH128_hash_t row_digest; /* unless lazy */
    lzt_dataset_report report;
    lzt__json_doc doc;
    lzt__rowbuf buf;
    lzt__rowmaker maker;
    lzt__text row_text;        /* a row that was not JSON, as JSON */
    lzt__token_cache *cache;   /* NULL: rows are made when they are read */
    lzt__token_writer *writer; /* NULL: nothing is being written */
    lzt__token_key key;
    char cache_path[4096], cache_note[256];
    lzt__text converted;    /* a row as normalised JSON */
    lzt_template *own_chat; /* an arena for conversations that are only converted; NULL until then */
};

#define LZT__LAZY_BYTES (UINT64_C(256) << 20) /* larger files are not read whole at open */

/* Hash of all that rows are made from: the rows' bytes, and every setting, tokenizer and template that changes a row.
 */
lzt_status lzt__dataset_settings_hash(const lzt_dataset *d, XXH128_hash_t *hash, lzt_error *err);
/* Opens the cache of this dataset's rows, or begins one; sources are open, no row has been looked into. */
lzt_status lzt__dataset_cache_find(lzt_dataset *d, lzt_error *err);
/* Writes the row that d->buf holds, where a cache is being written. facts->tokens: 0, or d->buf.count. Weights are
 * written where facts say that the row is weighted. */
void lzt__dataset_cache_keep(lzt_dataset *d, uint64_t row, const lzt__row_facts *facts);
/* Publishes what was written, and reads from it. */
lzt_status lzt__dataset_cache_finish(lzt_dataset *d, lzt_error *err);
void lzt__dataset_cache_close(lzt_dataset *d);

/* "file:line" of a row. */
void lzt__row_place(const lzt_dataset *d, uint64_t row, char *where, size_t size);
/* The row as a JSON object, in d->doc, and its own weight in d->maker. Errors: LZT_ERR_DATA (not an object, broken, no
 * weight), LZT_ERR_NO_MEMORY. */
lzt_status lzt__row_parse(lzt_dataset *d, uint64_t row, const char *where, lzt_error *err);

/* Makes the row in d->buf as it is, uncut. */
lzt_status lzt__row_fill(lzt_dataset *d, uint64_t row, lzt_error *err);

/* What the policies say about a row that could be read. */
typedef enum lzt__verdict { LZT__ROW_TRAINS, LZT__ROW_UNTRAINED, LZT__ROW_TOO_LONG, LZT__ROW_CUT_AWAY } lzt__verdict;

/* Makes the row in d->buf, cuts it and judges it. */
lzt_status lzt__row_make(lzt_dataset *d, uint64_t row, bool *was_cut, lzt__verdict *verdict, lzt_error *err);
/* The row as normalised JSON in d->converted. */
lzt_status lzt__row_convert(lzt_dataset *d, uint64_t row, lzt_error *err);
/* Appends {"messages": ..., "tools": ...}, or {"text": ...}. wanted[i]: weight of message i, 0: it is not trained. */
lzt_status lzt__convert_messages(lzt__text *out, lzt__arena *arena, const lzt__value *messages, const lzt__value *tools,
                                 const float *wanted, lzt_error *err);
lzt_status lzt__convert_text(lzt__text *out, const lzt__json *text, lzt_error *err);
/* Loss-bearing tokens of a row. */
uint64_t lzt__rowbuf_trained(const lzt__rowbuf *buf);

#endif
