/* The program on a clock whose lanes share cores and memory.
 *
 * At any moment a lane runs at most one task. A task's remaining seconds pass at a rate that depends on which other
 * lanes are busy, so the clock goes from event to event: the end of a task, or the moment from which a lane may start
 * its next one.
 */
#include "step/builder.h"

#include <math.h>
#include <stdlib.h>

#define UNKNOWN (-1.0)

typedef struct lane_state {
    uint32_t task; /* the next or running one; UINT32_MAX: none left */
    bool running;
    double start;     /* of the next one, once everything before it is done; else UNKNOWN */
    double remaining; /* of the running one, in seconds alone */
    double free;      /* end of the one before */
} lane_state;

typedef struct clock_run {
    const lzt_program_info *p;
    const double *seconds;
    const lzt_contention *contention;
    uint32_t *next; /* [task_count] the following task of the lane */
    double *finish; /* [task_count] or UNKNOWN */
    lane_state lane[LZT_LANE_COUNT];
    double now;
} clock_run;

/* From when a lane's next task may run, or UNKNOWN. */
static double earliest(const clock_run *r, const lane_state *l)
{
    const lzt_task *t = &r->p->task[l->task];
    double at = l->free, handover = r->contention ? r->contention->handover_seconds : 0;
    for (uint32_t k = 0; k < t->dependency_count; k++) {
        double end = r->finish[r->p->dependency[t->first_dependency + k]];
        if (end < 0) return UNKNOWN;
        if (end + handover > at && end > l->free) at = end + handover;
    }
    return at;
}

static double slowdown(const clock_run *r, int lane)
{
    double factor = 1;
    for (int other = 0; r->contention && other < LZT_LANE_COUNT; other++)
        if (other != lane && r->lane[other].running) factor += r->contention->slowdown[lane][other] - 1;
    return factor > 1 ? factor : 1;
}

/* Starts what may start now. Returns the next event's time, or UNKNOWN when nothing is left. */
static double next_event(clock_run *r, double *start)
{
    double at = UNKNOWN;
    for (int i = 0; i < LZT_LANE_COUNT; i++) {
        lane_state *l = &r->lane[i];
        if (l->task == UINT32_MAX || l->running) continue;
        if (l->start < 0) l->start = earliest(r, l);
        if (l->start < 0) continue;
        if (l->start <= r->now) {
            l->running = true;
            l->remaining = r->seconds[l->task];
            if (start) start[l->task] = r->now;
        } else if (at < 0 || l->start < at) {
            at = l->start;
        }
    }
    for (int i = 0; i < LZT_LANE_COUNT; i++) {
        const lane_state *l = &r->lane[i];
        double end = r->now + l->remaining * slowdown(r, i);
        if (l->running && (at < 0 || end < at)) at = end;
    }
    return at;
}

/* Lets the clock go to `at`; tasks that are done by then end there. */
static void advance(clock_run *r, double at)
{
    double rate[LZT_LANE_COUNT];
    for (int i = 0; i < LZT_LANE_COUNT; i++) rate[i] = slowdown(r, i);
    for (int i = 0; i < LZT_LANE_COUNT; i++) {
        lane_state *l = &r->lane[i];
        if (!l->running) continue;
        if (r->now + l->remaining * rate[i] > at) {
            l->remaining -= (at - r->now) / rate[i];
            continue;
        }
        l->running = false;
        l->free = r->finish[l->task] = at;
        l->task = r->next[l->task];
        l->start = UNKNOWN;
    }
    r->now = at;
}

double lzt_program_simulate_shared(const lzt_program *program, const double *seconds, const lzt_contention *contention,
                                   double *start, double *end)
{
    const lzt_program_info *p = &program->info;
    uint32_t last[LZT_LANE_COUNT];
    clock_run r = {.p = p, .seconds = seconds, .contention = contention};
    r.finish = end ? end : malloc((p->task_count + 1) * sizeof *r.finish);
    r.next = malloc((p->task_count + 1) * sizeof *r.next);
    for (int i = 0; i < LZT_LANE_COUNT; i++) {
        r.lane[i] = (lane_state){.task = UINT32_MAX, .start = UNKNOWN};
        last[i] = UINT32_MAX;
    }
    for (uint32_t i = 0; r.finish && r.next && i < p->task_count; i++) {
        lzt_lane lane = p->task[i].lane;
        *(last[lane] == UINT32_MAX ? &r.lane[lane].task : &r.next[last[lane]]) = i;
        last[lane] = i;
        r.next[i] = UINT32_MAX;
        r.finish[i] = UNKNOWN;
    }
    double makespan = r.finish && r.next ? 0 : -1.0;
    for (double at; makespan >= 0 && (at = next_event(&r, start)) >= 0;) {
        advance(&r, at);
        makespan = r.now;
    }
    free(r.next);
    if (!end) free(r.finish);
    return makespan;
}
