/* The automatic plan of a run whose machine has a profile: the real step's planner (lazytrain/step_plan.h). */
#ifndef LZT_CLI_SESSION_STEP_H
#define LZT_CLI_SESSION_STEP_H

#include "cli/session.h"

/* Finds s->plan on s->profile under the session's caps; with numerics.auto, under the numerics that are proposed, which
 * become s->numerics. *planned false, and a note: the profile lacks a time, so the plan needs another way.
 * Errors: LZT_ERR_NO_PLAN "device_cap: needs at least N bytes". */
lzt_status lzt_session_plan_step(lzt_session *s, bool *planned, lzt_error *err);

/* Says which other numerics would be faster, where the plan came from a profile and numerics.auto is off. */
lzt_status lzt_session_say_proposal(const lzt_session *s, lzt_error *err);

#endif
