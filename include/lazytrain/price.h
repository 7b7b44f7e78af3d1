/* What a step program costs on a machine: durations of its tasks from a profile, and the step's time from those.
 *
 * Every task has an entry of the profile, named by what decides its time; the same function names it when it is
 * measured (lazytrain probe, probe --from-run) and when it is priced:
 *
 *     kernel task   TIME  "linear_fwd.bf16.576x1536"   operator, dtype, sizes; size: tokens (or elements, for casts)
 *                   TIME  "attention_fwd.bf16.9x3x64.doc256"     heads, kv heads, head size; tokens of a document
 *                   TIME  "loss_chunk.bf16.576x49152.first"      size: tokens of the chunk
 *     copy          RATE  "h2d", "d2h"                 size: bytes of the copy
 *     host task     RATE  "adamw.bf16.f32"             operator, weight dtype, gradient dtype; size: bytes touched
 *
 * Lanes may share cores and memory (on the CPU device they do). TIME "overlap.A" is a piece of lane A's work alone and
 * "overlap.A.B" the same while lane B is busy; their ratio is how much longer A's tasks take meanwhile. TIME "handover"
 * is the time from the end of a task to the start of one of another lane that waited for it. Both are optional:
 * without them lanes do not disturb each other, and tasks start at once.
 *
 *     lzt_price_options options = {sizeof options, &profile, tokens, documents, directory};
 *     lzt_price_tasks(program, &options, seconds, &err);
 *     lzt_price_contention(&profile, &contention, &err);
 *     lzt_program_simulate_shared(program, seconds, &contention, start, end);
 *
 * Layers whose kernels do not exist (LAYER_FWD, LAYER_BWD) are priced by a TIME "layer_fwd.bf16.linear_attention";
 * without one, by their floating-point operations at the rate that the profile's linear products reach.
 *
 * Packed documents (document_tokens) are seldom of a length that was measured: attention is then priced from the
 * nearest measured length, by the quotient of its operations. Shorter documents reach fewer operations a second than
 * longer ones, so this errs low where the measured length is longer; sliding windows shorter than a document make it
 * err high.
 *
 * Threads: pure. Ownership: the caller's arrays.
 */
#ifndef LAZYTRAIN_PRICE_H
#define LAZYTRAIN_PRICE_H

#include "lazytrain/profile.h"
#include "lazytrain/step.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A profile that gives a task more seconds, or makes a lane more times slower beside another, is refused: what is added
 * up from it would mean nothing, and pass what clocks and plans hold. */
#define LZT_PRICE_SECONDS_MAX  1e4
#define LZT_PRICE_SLOWDOWN_MAX 1e3

typedef struct lzt_price_options {
    uint64_t struct_bytes;
    const lzt_profile *profile; /* not needed to name entries */
    uint64_t tokens;            /* of the micro-batch; 0: the program's capacity */
    uint64_t documents;         /* rows of equal length that it consists of; 0: one */
    uint64_t document_tokens;   /* that attention looks at, where rows are packed of shorter documents: a mean, of which
                                   a measured length may be far; 0: tokens / documents */
    const char *model_directory; /* for the way out that an error names; NULL: "MODEL" */
} lzt_price_options;

/* The entry that holds a task's time: kind, name and size; median, min, max and count stay zero. False: the task takes
 * no time of its own (the clip factor; a chunk with no tokens). */
LZT_EXPORT bool lzt_price_entry(const lzt_program_info *program, const lzt_task *task, const lzt_price_options *options,
                                lzt_measurement *entry);

/* Seconds of a piece of work: linear in size between measured sizes, and in proportion beyond; a RATE below the least
 * size measured takes as long as that size. False: the name is not there, or, for a TIME, the nearest size is more than
 * twice or less than half of this one. */
LZT_EXPORT bool lzt_price_seconds(const lzt_profile *profile, lzt_measure kind, const char *name, uint64_t size,
                                  double *seconds);

/* Floating-point operations per second that the profile's linear products of a dtype reach, all together; 0: none were
 * measured. */
LZT_EXPORT double lzt_price_flops_per_s(const lzt_profile *profile, lzt_dtype dtype);

/* seconds[task_count]. Errors: LZT_ERR_USAGE naming the entry that the profile lacks; the hint is the command that
 * measures it. */
LZT_EXPORT lzt_status lzt_price_tasks(const lzt_program *program, const lzt_price_options *options, double *seconds,
                                      lzt_error *err);

/* Errors: LZT_ERR_USAGE (an overlap without its own work alone, a quotient that is not finite). */
LZT_EXPORT lzt_status lzt_price_contention(const lzt_profile *profile, lzt_contention *contention, lzt_error *err);

/* The step as simulated: programs of a step one after the other, the pending update included. */
typedef struct lzt_step_price {
    double seconds;
    lzt_account account; /* of all its programs: busy and exposed times, bytes */
} lzt_step_price;

/* Compiles and prices the programs of one step: SINGLE with its update, or FIRST with it, MIDDLE and LAST. Of *step,
 * variant and update are not read. Errors: those of compiling and pricing. */
LZT_EXPORT lzt_status lzt_price_step(const lzt_step_options *step, const lzt_price_options *options,
                                     lzt_step_price *price, lzt_error *err);

/* One compiled program: start, end [task_count] and account may be NULL. Returns its seconds through *seconds. */
LZT_EXPORT lzt_status lzt_price_program(const lzt_program *program, const lzt_price_options *options, double *start,
                                        double *end, lzt_account *account, double *seconds, lzt_error *err);

#ifdef __cplusplus
}
#endif
#endif
