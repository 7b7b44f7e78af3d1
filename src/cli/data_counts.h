/* What became of a dataset's rows, in words and as JSON: for train, eval and the data commands. */
#ifndef LZT_CLI_DATA_COUNTS_H
#define LZT_CLI_DATA_COUNTS_H

#include "lazytrain/data.h"

#include <jansson.h>

/* Lines on stderr: sources, rows and tokens, and every count that is not zero. what: "data", "eval data". */
void lzt_data_say(const lzt_dataset *dataset, const char *what);
/* Of a dataset whose rows are looked into when they are used, once the run is over: what was found in them. Says
 * nothing of another. */
void lzt_data_say_lazy(const lzt_dataset *dataset, const char *what);
/* Sets the counts that every data command prints, as members of an object: rows_in, rows_out, dropped {reason: n},
 * truncated, blank_lines, replaced_text, nul_text, double_bos, control_text, split_off, first_bad_line and
 * first_dropped_line (0: none), first_bad and first_dropped ("file:line" or null), row_digest, and sources [{name,
 * path, rows_in, rows, rows_per_epoch}]. */
void lzt_data_put_counts(json_t *object, const lzt_dataset *dataset);

/* The digest of the rows that train (lzt_dataset_digest), or null of a dataset that does not know them. */
json_t *lzt_data_digest(const lzt_dataset *dataset);

/* A weight of the row is neither 0 nor 1. */
bool lzt_data_is_weighted(const float *weights, uint64_t count);

#endif
