/* The last step of a run as a trace: what ran when, beside what the program allows with the same durations. */
#ifndef LZT_CLI_STEP_TRACE_H
#define LZT_CLI_STEP_TRACE_H

#include "lazytrain/run.h"

/* Writes directory/trace-step-N.json: process "actual" from the engine's last training program, process "planned" from
 * simulating it. Does nothing before the first step. */
lzt_status lzt_step_trace_write(const lzt_engine *engine, const char *directory, uint64_t step, lzt_error *err);

#endif
