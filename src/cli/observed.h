/* What a run sees of its machine: the times of its tasks, collected step by step into a profile. */
#ifndef LZT_CLI_OBSERVED_H
#define LZT_CLI_OBSERVED_H

#include "cli/session.h"
#include "lazytrain/profile.h"
#include "lazytrain/report.h"

typedef struct lzt_observer lzt_observer;

/* For the session's engine, which must be open. Borrows the session. */
lzt_status lzt_observer_create(const lzt_session *s, lzt_observer **observer, lzt_error *err);
void lzt_observer_destroy(lzt_observer *observer); /* NULL is allowed */
/* After each step; arg is the observer. Steps whose micro-batches are not full do not count. allocates nothing after
 * a program has run once */
void lzt_observer_step(void *arg, const lzt_step_metrics *metrics);
/* Medians over the last steps, as the run saw them: what lanes cost each other is in the times, so there are no
 * overlaps beside them. An empty profile when no full step was seen. */
lzt_status lzt_observer_profile(const lzt_observer *observer, lzt_profile *profile, lzt_error *err);
/* Whether that profile has all that the tasks of a step in midst of a run ask for; a run of few full steps may lack an
 * update. */
bool lzt_observer_saw_all(const lzt_observer *observer);

#endif
