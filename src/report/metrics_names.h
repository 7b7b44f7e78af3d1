/* The keys of metrics.jsonl: one table that both the writer and the reader walk. */
#ifndef LZT_REPORT_METRICS_NAMES_H
#define LZT_REPORT_METRICS_NAMES_H

#include "lazytrain/report.h"

typedef struct lzt_metrics_field {
    const char *key;
    size_t offset;
    enum { LZT_FIELD_UINT, LZT_FIELD_REAL, LZT_FIELD_BOOL } type;
} lzt_metrics_field;

/* An array of numbers written as an object of name: number. */
typedef struct lzt_metrics_group {
    const char *key;
    size_t offset;
    bool is_uint;
    const char *const *name; /* [count]; NULL where an element is not written */
    int count;
} lzt_metrics_group;

extern const lzt_metrics_field lzt__step_fields[], lzt__eval_fields[];
extern const int lzt__step_field_count, lzt__eval_field_count;
extern const lzt_metrics_group lzt__step_groups[];
extern const int lzt__step_group_count;

#endif
