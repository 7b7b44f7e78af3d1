/* Rows made once and kept: a file that holds what every row of a dataset became, named by a hash of all that matters.
 *
 *     DIRECTORY/KEY/rows       one file a key; the directory appears whole or not at all (base/staging.h)
 *
 *     | ids of row, labels of row | ids, labels, weights | ... | records [rows] | trailer |
 *       int32                       float: weighted rows         32 bytes each     magic, version, key, counts, hashes
 *
 * Weights stand only behind the labels of a row that has one which is neither 0 nor 1, then padded to an even number of
 * words; of all other rows labels say them.
 *
 * Writing is sequential, so that a data set may be larger than memory; only the records are held. Reading maps the
 * file, after its hash has been compared: a file that is not what was written is damaged, and damaged is not an error
 * but a reason to make the rows anew. The content is host-endian: the cache never leaves the machine's own kind.
 *
 * Threads: a reader is read-only and may be shared; a writer belongs to one thread. Processes: any number may read and
 * write one key at once; each writes its own copy, the last to publish stays.
 */
#ifndef LZT_DATA_TOKEN_CACHE_H
#define LZT_DATA_TOKEN_CACHE_H

#include "lazytrain/status.h"

#include <stdbool.h>

/* Changes whenever the file's layout or the meaning of a record does. */
#define LZT__TOKEN_CACHE_VERSION 3

typedef struct lzt__token_key {
    uint64_t word[2];
} lzt__token_key;

typedef enum lzt__row_fact {
    LZT__FACT_CUT = 1,         /* truncated */
    LZT__FACT_REPLACED = 2,    /* text had what is not Unicode */
    LZT__FACT_NUL = 4,         /* text had a NUL */
    LZT__FACT_CONTROL = 8,     /* content spelled a control token */
    LZT__FACT_DOUBLE_BOS = 16, /* begins with two BOS */
    LZT__FACT_BAD = 32,        /* could not be read, and is skipped */
    LZT__FACT_KNOWN = 64,      /* the row was looked into at all */
    LZT__FACT_WEIGHTED = 128   /* weights follow the labels */
} lzt__row_fact;

/* What became of a row. */
typedef struct lzt__row_facts {
    uint64_t offset;          /* of its ids, in int32; its labels follow */
    uint32_t tokens, trained; /* of a row that trains; else 0 */
    uint32_t verdict;         /* of dataset.h */
    uint32_t facts;           /* of lzt__row_fact */
    uint64_t digest;          /* hash of ids, labels and weights; 0 of a row that does not train */
} lzt__row_facts;

/* ---- reading ---- */

typedef struct lzt__token_cache lzt__token_cache;

/* *cache is NULL where there is none that can be used; damage[0] is then not 0 if there is one that is damaged, and
 * says how. rows: of the sources. Errors: LZT_ERR_NO_MEMORY. blocks: reads the file */
lzt_status lzt__token_cache_open(const char *directory, lzt__token_key key, uint64_t rows, lzt__token_cache **cache,
                                 char damage[256], lzt_error *err);
void lzt__token_cache_close(lzt__token_cache *cache); /* NULL is allowed */
/* Borrowed. NULL: the row was not looked into. */
const lzt__row_facts *lzt__token_cache_row(const lzt__token_cache *cache, uint64_t row);
/* [2 * tokens]: ids, then labels. Borrowed. */
const int32_t *lzt__token_cache_tokens(const lzt__token_cache *cache, const lzt__row_facts *row);

/* [tokens] of each label's loss; NULL: of 1 where the row is trained. Borrowed. */
const float *lzt__token_cache_weights(const lzt__token_cache *cache, const lzt__row_facts *row);

/* ---- writing ---- */

typedef struct lzt__token_writer lzt__token_writer;

/* Errors: LZT_ERR_STORAGE, LZT_ERR_NO_MEMORY. */
lzt_status lzt__token_writer_create(const char *directory, lzt__token_key key, uint64_t rows,
                                    lzt__token_writer **writer, lzt_error *err);
/* Each row at most once, in any order. facts->offset is ignored. ids and labels: [facts->tokens]; so are weights, which
 * are read where facts say LZT__FACT_WEIGHTED. */
lzt_status lzt__token_writer_add(lzt__token_writer *writer, uint64_t row, const lzt__row_facts *facts,
                                 const int32_t *ids, const int32_t *labels, const float *weights, lzt_error *err);
/* Makes it durable and publishes it. destroy must still be called. */
lzt_status lzt__token_writer_publish(lzt__token_writer *writer, lzt_error *err);
/* Removes what was not published. NULL is allowed. */
void lzt__token_writer_destroy(lzt__token_writer *writer);

/* "DIRECTORY/KEY/rows" */
void lzt__token_cache_path(const char *directory, lzt__token_key key, char *path, uint64_t size);

#endif
