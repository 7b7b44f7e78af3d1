/* Which row stands at which place of an epoch, when an epoch mixes several sources by weight.
 *
 * Source k has count[k] places of an epoch, spread evenly over it: its j-th place is where (2 j + 1) / (2 count[k])
 * falls among those of all sources. Over the epochs a source's places walk through its rows, pass after pass, each pass
 * in an order of its own; so no row is seen twice before all have been seen.
 *
 * Threads: pure functions.
 */
#ifndef LZT_DATA_MIX_H
#define LZT_DATA_MIX_H

#include "lazytrain/data.h"

/* Places of each source in an epoch: count[k] from its rows[k] >= 1 and weight[k] (NULL: equal); *places is their sum.
 * under: the epoch ends with the first source that runs out; else all rows of every source are in it. Errors:
 * LZT_ERR_USAGE (a weight that is not above 0, an epoch beyond 2^48 rows). */
lzt_status lzt__mix_counts(const uint64_t *rows, const double *weight, uint64_t sources, bool under, uint64_t *count,
                           uint64_t *places, lzt_error *err);
/* The source at a place, and the place's number among that source's own. */
uint64_t lzt__mix_place(const uint64_t *count, uint64_t sources, uint64_t place, uint64_t *own);
/* The row (0 .. rows-1) of source k at its place `own` of an epoch that has count such places. */
uint64_t lzt__mix_row(uint64_t seed, bool shuffled, uint64_t k, uint64_t rows, uint64_t count, uint64_t epoch,
                      uint64_t own);

#endif
