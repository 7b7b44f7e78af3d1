/* Where the time of a run went: busy lanes, and for each instant without compute its one cause.
 *
 * The cause of a gap before a compute task is found by walking back from the task that released it: while that task
 * ran, its lane is the cause; before that, whatever it was itself waiting for is, and so on back to the start of the
 * gap. The walk is the critical path, so the exposed times and compute's busy time add up to the whole.
 */
#include "lazytrain/step.h"

#include <string.h>

static double seconds(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) * 1e-9 : 0.0;
}

/* A run: the program's tables, its times, and for each task its predecessor on the lane, or UINT32_MAX. */
typedef struct history {
    const lzt_program_info *p;
    const lzt_work *work;
    uint32_t *before;
} history;

/* The task whose end released task i: the latest of its dependencies and its predecessor on the lane, or UINT32_MAX. */
static uint32_t released_by(const history *h, uint32_t i)
{
    const lzt_program_info *p = h->p;
    const lzt_task *t = &p->task[i];
    uint32_t latest = h->before[i];
    for (uint32_t k = 0; k < t->dependency_count; k++) {
        uint32_t d = p->dependency[t->first_dependency + k];
        if (latest == UINT32_MAX || h->work[d].end_ns > h->work[latest].end_ns) latest = d;
    }
    return latest;
}

/* Splits the gap [from, to) before compute task i among its causes. */
static void blame(const history *h, uint32_t i, uint64_t from, uint64_t to, lzt_account *a)
{
    const lzt_program_info *p = h->p;
    uint32_t at = released_by(h, i);
    while (to > from) {
        if (at == UINT32_MAX) break;
        const lzt_work *w = &h->work[at];
        if (w->end_ns < to) { /* released, but not yet started: the scheduler's own time */
            uint64_t stop = w->end_ns > from ? w->end_ns : from;
            a->exposed_seconds[LZT_IDLE_OTHER] += seconds(stop, to);
            to = stop;
        }
        lzt_lane lane = p->task[at].lane;
        if (to <= from || lane == LZT_LANE_COMPUTE) break;
        uint64_t start = w->start_ns > from ? w->start_ns : from;
        a->exposed_seconds[lane] += seconds(start, to);
        to = start < to ? start : to;
        at = released_by(h, at);
    }
    a->exposed_seconds[LZT_IDLE_OTHER] += seconds(from, to);
}

/* Most works of a lane that were ready or running at one moment: both times rise along a lane. */
static uint64_t depth(const history *h, lzt_lane lane)
{
    const lzt_program_info *p = h->p;
    uint64_t most = 0, open = 0;
    uint32_t first = 0;
    for (uint32_t i = 0; i < p->task_count; i++) {
        if (p->task[i].lane != lane) continue;
        open++;
        for (; first < i; first++) {
            if (p->task[first].lane != lane) continue;
            if (h->work[first].end_ns > h->work[i].ready_ns) break;
            open--;
        }
        if (open > most) most = open;
    }
    return most;
}

/* What a copy moves, or what a host task reads and writes. */
static uint64_t task_bytes(const lzt_program_info *p, const lzt_task *t)
{
    uint64_t bytes = 0;
    if (!t->op && !t->host_op && t->operand_count) return p->operand[t->first_operand].bytes;
    for (uint32_t i = 0; t->host_op && i < t->operand_count; i++) bytes += p->operand[t->first_operand + i].bytes;
    return bytes;
}

/* The last task up to which compute counts as forward: the end of the loss. */
static uint32_t last_loss(const lzt_program_info *p)
{
    uint32_t last = p->task_count;
    for (uint32_t i = 0; i < p->task_count; i++)
        if (p->task[i].op == LZT_OP_LOSS_CHUNK) last = i;
    return last;
}

void lzt_program_account(const lzt_program *program, const lzt_work *work, uint64_t begin_ns, uint64_t end_ns,
                         uint32_t *scratch, lzt_account *a)
{
    const lzt_program_info *p = lzt_program_get_info(program);
    const history h = {p, work, scratch};
    uint32_t last[LZT_LANE_COUNT];
    uint64_t compute_end = begin_ns;
    memset(last, 0xff, sizeof last);
    memset(a, 0, sizeof *a);
    a->seconds = seconds(begin_ns, end_ns);
    a->programs = p->variant != LZT_VARIANT_DRAIN;
    uint32_t latest = UINT32_MAX, forward_end = last_loss(p);
    for (uint32_t i = 0; i < p->task_count; i++) {
        lzt_lane lane = p->task[i].lane;
        const lzt_work *w = &work[i];
        a->host_seconds[p->task[i].host_op] += seconds(w->start_ns, w->end_ns);
        h.before[i] = last[lane];
        last[lane] = i;
        a->layer_forwards += p->task[i].layer_forward;
        a->weight_uploads += p->task[i].weight_upload;
        a->bytes[lane] += task_bytes(p, &p->task[i]);
        a->busy_seconds[lane] += seconds(w->start_ns, w->end_ns);
        a->queue_seconds[lane] += seconds(w->ready_ns, w->start_ns);
        if (latest == UINT32_MAX || w->end_ns > work[latest].end_ns) latest = i;
        if (lane != LZT_LANE_COMPUTE) continue;
        *(i <= forward_end ? &a->forward_seconds : &a->backward_seconds) += seconds(w->start_ns, w->end_ns);
        blame(&h, i, compute_end, w->start_ns, a);
        compute_end = w->end_ns;
    }
    /* The tail: after the last compute task until the last completion, seen from the task that ended last. */
    while (latest != UINT32_MAX && work[latest].end_ns > compute_end) {
        const lzt_work *w = &work[latest];
        uint64_t start = w->start_ns > compute_end ? w->start_ns : compute_end;
        a->exposed_seconds[p->task[latest].lane] += seconds(start, w->end_ns);
        uint32_t next = released_by(&h, latest);
        uint64_t stop = next == UINT32_MAX || work[next].end_ns < compute_end ? compute_end : work[next].end_ns;
        a->exposed_seconds[LZT_IDLE_OTHER] += seconds(stop, start);
        latest = next;
    }
    for (int lane = 0; lane < LZT_LANE_COUNT; lane++) a->depth_max[lane] = depth(&h, (lzt_lane)lane);
    double known = a->busy_seconds[LZT_LANE_COMPUTE];
    for (int cause = 0; cause < LZT_IDLE_COUNT; cause++) known += a->exposed_seconds[cause];
    if (a->seconds > known) a->exposed_seconds[LZT_IDLE_OTHER] += a->seconds - known;
}

void lzt_account_add(lzt_account *a, const lzt_account *b)
{
    a->seconds += b->seconds;
    a->layer_forwards += b->layer_forwards;
    a->weight_uploads += b->weight_uploads;
    a->programs += b->programs;
    a->forward_seconds += b->forward_seconds;
    a->backward_seconds += b->backward_seconds;
    for (int i = 0; i < LZT_HOST_COUNT; i++) a->host_seconds[i] += b->host_seconds[i];
    for (int i = 0; i < LZT_IDLE_COUNT; i++) a->exposed_seconds[i] += b->exposed_seconds[i];
    for (int i = 0; i < LZT_LANE_COUNT; i++) {
        a->busy_seconds[i] += b->busy_seconds[i];
        a->bytes[i] += b->bytes[i];
        a->queue_seconds[i] += b->queue_seconds[i];
        if (b->depth_max[i] > a->depth_max[i]) a->depth_max[i] = b->depth_max[i];
    }
}
