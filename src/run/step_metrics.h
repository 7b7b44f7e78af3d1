/* From what the engine measured to what a step reports. */
#ifndef LZT_RUN_STEP_METRICS_H
#define LZT_RUN_STEP_METRICS_H

#include "lazytrain/feed.h"
#include "lazytrain/report.h"
#include "lazytrain/run.h"

enum { LZT_STEP_QUEUES = 6 };

/* Fills what follows from the account of a step that took step_seconds, data->wait_seconds of them to wait for batches.
 * queue[LZT_STEP_QUEUES] is the caller's and must live as long as *out. tokens_real must be set already. */
void lzt__step_metrics(const lzt_engine *engine, const lzt_account *account, double step_seconds,
                       const lzt_feed_stats *data, lzt_queue_metrics *queue, lzt_step_metrics *out);

#endif
