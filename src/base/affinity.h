/* One CPU for each thread of a compute team, while the machine is ours.
 *
 * Left to itself the scheduler may keep two threads of a team on one CPU for thousands of regions, once a copy lane ran
 * on the other at the wrong moment; each region then takes twice as long. Bound to a CPU each, they cannot. But where
 * others compute too, a bound thread waits for its CPU while the next one idles, and the team waits for it: then the
 * scheduler knows better. So threads are bound while other processes take less than a twelfth of one CPU, looked up
 * twice a second in /proc/stat, and free otherwise; also where that cannot be read, and where a team has more or fewer
 * threads than the process has CPUs. Nothing of this changes a result.
 *
 * Threads: any. The process's main thread is never bound: its CPUs are the process's, and what threads it creates
 * inherit.
 */
#ifndef LZT_BASE_AFFINITY_H
#define LZT_BASE_AFFINITY_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* Looks at the machine where the last look was half a second ago or more. blocks: no; allocates nothing. */
void lzt__affinity_look(void);

/* Changes whenever threads should be bound, or freed: odd while they should be bound. */
uint32_t lzt__affinity_turn(void);

/* Binds the calling thread to the part-th of the process's CPUs, or frees it, as it should be now; at once when
 * nothing has changed since it last called. */
void lzt__affinity_thread(uint32_t part, uint32_t part_count);

/* ---- what it decides by ---- */

/* Seconds that the CPUs of a set were idle, from the text of /proc/stat with ticks_per_s; false: one is missing. */
bool lzt__affinity_idle(const char *text, const cpu_set_t *cpus, double ticks_per_s, double *seconds);

/* Whether to bind, when other processes took `others` seconds of `elapsed`: less than 0.08 CPUs to begin, and more than
 * 0.15 to end. */
bool lzt__affinity_alone(bool bound, double others, double elapsed);

/* The CPUs of the part-th thread of part_count, of a process that has `all`: one, or all of them. False: threads stay
 * as they are, the parts are not as many as the CPUs. */
bool lzt__affinity_mask(bool bound, const cpu_set_t *all, uint32_t part, uint32_t part_count, cpu_set_t *mask);

#endif
