/* The program on a clock: lanes in order, tasks as soon as their lane and their dependencies allow. */
#include "lazytrain/step.h"
#include "step/builder.h"

#include <stdlib.h>

double lzt_program_simulate(const lzt_program *program, const double *seconds, bool unlimited, double *start,
                            double *end)
{
    const lzt_program_info *p = &program->info;
    double lane_free[LZT_LANE_COUNT] = {0}, makespan = 0;
    double *finish = end ? end : malloc((p->task_count + 1) * sizeof *finish);
    if (!finish) return -1.0;
    for (uint32_t i = 0; i < p->task_count; i++) {
        const lzt_task *t = &p->task[i];
        const uint32_t *dependency = unlimited ? p->flow + t->first_flow : p->dependency + t->first_dependency;
        uint32_t count = unlimited ? t->flow_count : t->dependency_count;
        double at = lane_free[t->lane];
        for (uint32_t k = 0; k < count; k++)
            if (finish[dependency[k]] > at) at = finish[dependency[k]];
        if (start) start[i] = at;
        finish[i] = lane_free[t->lane] = at + seconds[i];
        if (finish[i] > makespan) makespan = finish[i];
    }
    if (!end) free(finish);
    return makespan;
}
