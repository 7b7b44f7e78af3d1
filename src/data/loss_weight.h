/* Loss weights as rows write them (docs/adr/0022): one reading and one set of words for every place where a weight may
 * stand.
 *
 *     {"messages": [{"role": "assistant", "content": "...", "weight": 0.5}], "weight": 2}
 *     {"input_ids": [1, 2], "loss_weights": [0, 0.5], "loss_weight": 2}        question,answer,weight (CSV)
 *
 * A weight is 0 or a number that as F32 lies within LZT__WEIGHT_LEAST and MOST; a truth value is 1 or 0, null is as if
 * it were not there. A row's own multiplies those of its tokens.
 *
 * Threads: pure functions.
 */
#ifndef LZT_DATA_LOSS_WEIGHT_H
#define LZT_DATA_LOSS_WEIGHT_H

#include "base/jsontree.h"
#include "lazytrain/status.h"

#define LZT__WEIGHT_LEAST 1e-9
#define LZT__WEIGHT_MOST  1e9

/* The error for something that is no weight: "the `weight` of message 2 is -1, not a weight". what: who it is. */
lzt_status lzt__weight_refuse(const char *where, const char *what, const char *found, lzt_error *err);
/* Reads a node into *weight; null leaves it as it is. false: it is no weight, and found says what it is. */
bool lzt__weight_read(const lzt__json *node, float *weight, char found[48]);

/* Fields that say a weight, in the order in which they are read, so that the last one counts; NULL behind the last. */
extern const char *const lzt__weight_fields[];

/* The weight that a message says (number: from 1); *weight stays where it says none. */
lzt_status lzt__weight_of_message(const lzt__json *message, uint32_t number, const char *where, float *weight,
                                  lzt_error *err);
/* The weight that a row says for all its tokens; *weight stays where it says none. field: its name, NULL: one of
 * lzt__weight_fields. texts: NULL, or where all values are texts, as in CSV: they are then read as the JSON that they
 * spell, with this document as scratch; an empty one says nothing. */
lzt_status lzt__weight_of_row(const lzt__json *row, const char *field, lzt__json_doc *texts, const char *where,
                              float *weight, lzt_error *err);

/* by * weight[i] must be a weight for every i. what: "message" or "token", which the error counts from 1. */
lzt_status lzt__weights_allow(float by, const float *weight, uint64_t n, const char *what, const char *where,
                              lzt_error *err);

/* What the weights [n] of a row say. */
typedef struct lzt__weighing {
    double sum;        /* in token order */
    uint64_t weighted; /* tokens whose weight is neither 0 nor 1 */
} lzt__weighing;

lzt__weighing lzt__weigh(const float *weights, uint64_t n);

#endif
