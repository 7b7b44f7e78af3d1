/* What a probe measures for a run: the distinct work of its step programs, and the profile that comes of it. */
#ifndef LZT_CLI_PROBE_LIST_H
#define LZT_CLI_PROBE_LIST_H

#include "cli/session.h"
#include "lazytrain/price.h"
#include "lazytrain/profile.h"

/* Measures on the session's device (its throttles, not its caps) what its programs need, for micro-batches of `rows`
 * rows of equal length that fill the capacity. seconds: of each part. plan NULL: the session's numerics. say: talk
 * about it. The profile is added to. blocks: yes */
lzt_status lzt_probe_session(const lzt_session *s, uint64_t rows, double seconds, bool say, lzt_profile *profile,
                             lzt_error *err);

/* How a session's programs are priced from a profile. */
lzt_price_options lzt_session_price_options(const lzt_session *s, const lzt_profile *profile, uint64_t rows);

#endif
