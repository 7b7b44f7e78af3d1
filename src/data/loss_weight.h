/* Loss weights of messages, rows and tokens (docs/adr/0022): which numbers are weights, and what those of a row say.
 *
 * Threads: pure functions.
 */
#ifndef LZT_DATA_LOSS_WEIGHT_H
#define LZT_DATA_LOSS_WEIGHT_H

#include "base/jsontree.h"

/* A weight as rows hold it: 0, or a number that as F32 lies within these. */
#define LZT__WEIGHT_LEAST 1e-9
#define LZT__WEIGHT_MOST  1e9
#define LZT__WEIGHT_HINT                                                                                               \
    "a weight is 0 (no loss) or a number from 1e-9 to 1e9; correct it, or leave such rows out with on_bad_row: skip"
/* false: value (NaN included) is no weight. */
bool lzt__weight_of(double value, float *weight);
/* Whether a number that is written as not 0 reads as 0, as 1e-400 does: it is no weight either. */
bool lzt__weight_vanishes(const lzt__json *node);
/* What the weights [n] of a row say. */
typedef struct lzt__weighing {
    double sum;        /* in token order */
    uint64_t weighted; /* tokens whose weight is neither 0 nor 1 */
} lzt__weighing;

lzt__weighing lzt__weigh(const float *weights, uint64_t n);

#endif
