/* The summary of a data set: what became of its rows, how long they are, and what batches hold of them. */
#ifndef LZT_CLI_DATA_SUMMARY_H
#define LZT_CLI_DATA_SUMMARY_H

#include "lazytrain/data.h"

typedef struct lzt_summary_options {
    uint64_t batch_rows;  /* rows or packs of a step */
    uint64_t pack_tokens; /* of a pack; 0: packing is not looked at */
    bool packing, group_by_length;
    bool json;
} lzt_summary_options;

/* Looks into every row. Prints to stdout: a table, or one JSON object. */
lzt_status lzt_data_summary_print(lzt_dataset *dataset, const lzt_summary_options *options, lzt_error *err);

#endif
