/* The automatic plan of a run whose machine has a profile: the real step's planner (lazytrain/step_plan.h). */
#ifndef LZT_CLI_SESSION_STEP_H
#define LZT_CLI_SESSION_STEP_H

#include "cli/session.h"

/* numerics.auto decides once: a run that goes on from a checkpoint computes as its plan.json says it began. True: those
 * numerics are s->numerics now. */
bool lzt_session_keep_numerics(lzt_session *s);

/* Finds s->plan on s->profile under the session's caps, within LZT_STEP_WORK_LIMIT; with numerics.auto, and where they
 * may be proposed, under the proposed numerics, which become s->numerics. *planned false, and a note: the profile lacks
 * a time, or the limit came before a plan; so it is to be found another way.
 * Errors: LZT_ERR_NO_PLAN "device_cap: needs at least N bytes". */
lzt_status lzt_session_plan_step(lzt_session *s, bool propose, bool *planned, lzt_error *err);

/* Says which profile the plan was found from, and how much of the list was looked at; nothing of other plans. */
void lzt_session_say_search(const lzt_session *s);

/* Says which other numerics would be faster, where the plan came from a profile and numerics.auto is off. */
lzt_status lzt_session_say_proposal(const lzt_session *s, lzt_error *err);

#endif
