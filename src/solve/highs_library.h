/* HiGHS, found at run time: the few functions of its C interface that we call. Nothing of it is needed to build. */
#ifndef LZT_SOLVE_HIGHS_LIBRARY_H
#define LZT_SOLVE_HIGHS_LIBRARY_H

#include "lazytrain/status.h"

#include <stdbool.h>

/* HighsInt is 32 bits wide in the libraries that we load; others are refused. */
typedef int lzt__highs_int;

/* From highs_c_api.h; stable since HiGHS 1.5, and not promised beyond 1. */
enum {
    LZT__HIGHS_MAJOR = 1,
    LZT__HIGHS_MINOR_MIN = 5,
    LZT__HIGHS_OPTIMAL = 7,
    LZT__HIGHS_INFEASIBLE = 8,
    LZT__HIGHS_TIME_LIMIT = 13,
    LZT__HIGHS_ROWWISE = 2,
    LZT__HIGHS_MINIMIZE = 1,
    LZT__HIGHS_CONTINUOUS = 0,
    LZT__HIGHS_INTEGER = 1
};

typedef struct lzt__highs_library {
    void *handle;
    const char *(*version)(void);
    void *(*create)(void);
    void (*destroy)(void *highs);
    lzt__highs_int (*int_bytes)(const void *highs);
    double (*infinity)(const void *highs);
    lzt__highs_int (*set_bool)(void *highs, const char *option, lzt__highs_int value);
    lzt__highs_int (*set_int)(void *highs, const char *option, lzt__highs_int value);
    lzt__highs_int (*set_double)(void *highs, const char *option, double value);
    lzt__highs_int (*set_string)(void *highs, const char *option, const char *value);
    lzt__highs_int (*pass_mip)(void *highs, lzt__highs_int cols, lzt__highs_int rows, lzt__highs_int nonzeros,
                               lzt__highs_int format, lzt__highs_int sense, double offset, const double *cost,
                               const double *lower, const double *upper, const double *row_lower,
                               const double *row_upper, const lzt__highs_int *start, const lzt__highs_int *index,
                               const double *value, const lzt__highs_int *integrality);
    lzt__highs_int (*set_solution)(void *highs, const double *col_value, const double *row_value,
                                   const double *col_dual, const double *row_dual);
    lzt__highs_int (*run)(void *highs);
    lzt__highs_int (*model_status)(const void *highs);
    lzt__highs_int (*get_double)(const void *highs, const char *info, double *value);
    lzt__highs_int (*get_solution)(const void *highs, double *col_value, double *col_dual, double *row_value,
                                   double *row_dual);
} lzt__highs_library;

/* Loads path, or where it is NULL $LZT_HIGHS, or what lies beside the program (../highs, ../../highs,
 * ../lib/lazytrain), or the system's.
 * Errors: LZT_ERR_USAGE with the file, who named it, what is wrong with it (no library, a function it lacks, its
 * version, its integers), and a way out. */
lzt_status lzt__highs_open(const char *path, lzt__highs_library *library, lzt_error *err);
/* Whether somebody named one: path, or $LZT_HIGHS. */
bool lzt__highs_is_named(const char *path);
void lzt__highs_close(lzt__highs_library *library);

#endif
