/* The weight files of a model directory: one model.safetensors, or shards and their index.
 *
 * Only the files that the index lists are opened; only the tensors that it places in them are used. An unlisted
 * .safetensors file is never read.
 */
#ifndef LZT_MODEL_WEIGHTS_H
#define LZT_MODEL_WEIGHTS_H

#include "model_tables.h"
#include "base/safetensors.h"

#define LZT__MODEL_INDEX_NAME "model.safetensors.index.json"

/* Where a tensor of the tables lies. */
typedef struct lzt__model_place {
    const lzt__st *file;
    const lzt__st_entry *entry;
} lzt__model_place;

typedef struct lzt__model_shard {
    char *name; /* the file's, without the directory */
    lzt__st st;
} lzt__model_shard;

typedef struct lzt__model_weights {
    lzt__model_shard *shard;
    uint32_t shard_count;
    bool has_index;
    bool has_total_size;
    uint64_t total_size;        /* what the index says */
    struct json_t *map;         /* tensor name -> file name; NULL without an index */
    lzt__model_place *place;    /* [tensor_count] */
    lzt__model_place tied_head; /* a tied model's own copy of the head, or NULLs */
} lzt__model_weights;

/* Opens and checks every file. Errors: LZT_ERR_MODEL naming all missing shards, or file and place. */
lzt_status lzt__model_weights_open(const char *directory, lzt__model_weights *weights, lzt_error *err);
void lzt__model_weights_close(lzt__model_weights *weights);

/* The place of a stored tensor as the index sees it; entry NULL when there is none. */
lzt__model_place lzt__model_weights_find(const lzt__model_weights *weights, const char *name);

/* How these files spell names that config.json leaves open. */
lzt__model_spelling lzt__model_weights_spelling(const lzt__model_weights *weights, const lzt__model_config *config);

/* Finds every tensor of the tables, checks shapes and types, settles tied embeddings (both copies must be equal) and
 * fills file_dtype. Errors: LZT_ERR_MODEL listing the missing tensors. */
lzt_status lzt__model_weights_bind(lzt__model_weights *weights, const char *directory, const lzt__model_config *config,
                                   const lzt__model_spelling *spelling, lzt__model_tables *tables, lzt_error *err);

/* A growing list of names for one message: "a, b, c and 4 more". */
typedef struct lzt__model_name_list {
    char text[640];
    uint32_t count, shown;
} lzt__model_name_list;
void lzt__model_name_list_add(lzt__model_name_list *list, const char *name);
const char *lzt__model_name_list_end(lzt__model_name_list *list);

#endif
