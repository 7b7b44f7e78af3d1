/* The source's problem as a mixed-integer programme in suffix form.
 *
 * Columns: for every boundary i its places gpu_i, cpu_i, nvme_i (binary), for every block (s, e) its edge y (its
 * integrality follows: the places cut the path into single edges), for every boundary k the load of the PCIe and of the
 * drive pools at boundaries >= k (running sums, so that no row is dense), for every pool its exposed milliseconds.
 * Sizes are counted in units of the largest boundary, exposure in milliseconds, so that tolerances are far below the
 * tie-break. */
#ifndef LZT_SOLVE_HIGHS_MODEL_H
#define LZT_SOLVE_HIGHS_MODEL_H

#include "solve/dp.h"
#include "solve/highs_library.h"

typedef struct lzt__highs_model {
    const lzt__solve_view *v;
    double unit_bytes, offset_ms;
    lzt__highs_int cols, rows, nonzeros;
    lzt__highs_int first_edge, first_load, first_exposed;
    lzt__highs_int edge_count, cols_max, rows_max, nonzeros_max;
    lzt__highs_int *edge_from, *edge_to; /* [edge_count] */
    double *cost, *lower, *upper;        /* [cols] */
    lzt__highs_int *integrality;         /* [cols] */
    double *row_lower, *row_upper;       /* [rows] */
    lzt__highs_int *start;               /* [rows + 1] */
    lzt__highs_int *index;               /* [nonzeros] */
    double *value;                       /* [nonzeros] */
} lzt__highs_model;

/* Errors: LZT_ERR_USAGE when the model would exceed 32-bit indices, LZT_ERR_NO_MEMORY. */
lzt_status lzt__highs_model_init(const lzt__solve_view *view, double infinity, lzt__highs_model *model, lzt_error *err);
void lzt__highs_model_fini(lzt__highs_model *model);

/* column[cols] of a placement. */
void lzt__highs_model_encode(const lzt__highs_model *model, const lzt_tier *boundary, double *column);
/* The placement of column values, rounded. */
void lzt__highs_model_decode(const lzt__highs_model *model, const double *column, lzt_tier *boundary);

#endif
