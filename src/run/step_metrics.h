/* From what the engine measured to what a step reports. */
#ifndef LZT_RUN_STEP_METRICS_H
#define LZT_RUN_STEP_METRICS_H

#include "lazytrain/report.h"
#include "lazytrain/run.h"

enum { LZT_STEP_QUEUES = 5 };

/* Fills what follows from the account of a step that took step_seconds, data_seconds of them to prepare batches.
 * queue[LZT_STEP_QUEUES] is the caller's and must live as long as *out. tokens_real must be set already. */
void lzt__step_metrics(const lzt_engine *engine, const lzt_account *account, double step_seconds, double data_seconds,
                       lzt_queue_metrics *queue, lzt_step_metrics *out);

/* Resident bytes of this process. */
uint64_t lzt__resident_bytes(void);

#endif
