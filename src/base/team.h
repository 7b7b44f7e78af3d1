/* A team of threads that share one loop at a time.
 *
 * lzt__team_run calls body(arg, part, part_count) once for each part in 0..part_count-1, each on a thread of its own
 * (the caller is part 0), and returns when all have returned. Which element belongs to which part is up to the body;
 * kernels split by a fixed rule, so that results do not depend on timing. Waiting threads sleep (no spinning between
 * regions): on a small machine a spinning team starves the copy lanes. Which CPUs they run on: affinity.h.
 *
 * Threads: one lzt__team_run at a time per team, from any thread. Ownership: lzt__team_destroy joins the threads.
 */
#ifndef LZT_BASE_TEAM_H
#define LZT_BASE_TEAM_H

#include "lazytrain/status.h"

typedef struct lzt_team lzt_team;
typedef void lzt_team_body(void *arg, uint32_t part, uint32_t part_count);

/* thread_count: 1 to 1024; 1 makes no thread. Errors: LZT_ERR_NO_MEMORY. */
lzt_status lzt__team_create(uint32_t thread_count, lzt_team **team, lzt_error *err);
void lzt__team_destroy(lzt_team *team); /* NULL is allowed */
uint32_t lzt__team_size(const lzt_team *team);
/* blocks: until every part has returned; allocates nothing */
void lzt__team_run(lzt_team *team, lzt_team_body *body, void *arg);

/* Asks the scheduler for short time slices of the calling thread, and so of those that it creates: where other
 * processes take the cores too, it then runs soon after it is woken, instead of when the slice of the running one ends
 * (3 ms and more, some thousand times a step). Its share of the time stays what it was. A wish: kernels before 6.12
 * ignore it. The team's own threads have made it. */
void lzt__team_short_slices(void);

/* The half-open range of part among part_count equal parts of count items, in whole grains (the last part takes the
 * rest). */
static inline void lzt__team_split(uint64_t count, uint64_t grain, uint32_t part, uint32_t part_count, uint64_t *begin,
                                   uint64_t *end)
{
    uint64_t grains = (count + grain - 1) / grain;
    uint64_t b = grains * part / part_count * grain, e = grains * (part + 1) / part_count * grain;
    *begin = b < count ? b : count;
    *end = e < count ? e : count;
}

#endif
