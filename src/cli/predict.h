/* How long a step will take: the program on a clock with measured rates. */
#ifndef LZT_CLI_PREDICT_H
#define LZT_CLI_PREDICT_H

#include "cli/session.h"

/* The step's seconds under the session's plan, from the kernels' rate on one product and the copies' rate on one copy,
 * measured now (a tenth of a second each), and the config's throttles. */
lzt_status lzt_predict_step_seconds(const lzt_session *s, double *seconds, lzt_error *err);

#endif
