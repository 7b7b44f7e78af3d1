/* lzt_metrics_open over any table of file calls, for tests that make them fail. */
#ifndef LZT_REPORT_METRICS_FILE_H
#define LZT_REPORT_METRICS_FILE_H

#include "base/os.h"
#include "lazytrain/report.h"

/* os must outlive the handle. */
lzt_status lzt__metrics_open(const lzt_os *os, const lzt_metrics_options *options, lzt_metrics **metrics,
                             lzt_error *err);

#endif
