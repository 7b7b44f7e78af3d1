/* A team of threads that share one loop at a time: see team.h.
 *
 *     idle --run: generation++, broadcast--> running --last part done: signal--> idle
 */
#include "base/team.h"

#include "base/affinity.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct member {
    struct lzt_team *team;
    pthread_t thread;
    uint32_t part;
} member;

struct lzt_team {
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    uint64_t generation; /* lock: counts regions */
    uint32_t pending;    /* lock: parts that have not returned */
    bool stop;           /* lock */
    lzt_team_body *body; /* lock */
    void *arg;           /* lock */
    uint32_t size, started;
    member *members; /* [1..started] */
};

/* As the kernel has it (sched_setattr(2)); the C library has no name for it. */
typedef struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice_ns, deadline_ns, period_ns;
} scheduling;

enum { SLICE_NS = 100000 };

void lzt__team_short_slices(void)
{
    scheduling now = {.size = sizeof now};
    if (syscall(SYS_sched_getattr, 0, &now, sizeof now, 0) || now.policy != SCHED_OTHER) return;
    now.size = sizeof now;
    now.slice_ns = SLICE_NS;
    (void)syscall(SYS_sched_setattr, 0, &now, 0);
}

static void *member_main(void *p)
{
    member *self = p;
    lzt_team *team = self->team;
    uint64_t seen = 0;
    lzt__team_short_slices();
    pthread_mutex_lock(&team->lock);
    for (;;) {
        while (team->generation == seen && !team->stop) pthread_cond_wait(&team->start, &team->lock);
        if (team->stop) break;
        seen = team->generation;
        lzt_team_body *body = team->body;
        void *arg = team->arg;
        pthread_mutex_unlock(&team->lock);
        lzt__affinity_thread(self->part, team->size);
        body(arg, self->part, team->size);
        pthread_mutex_lock(&team->lock);
        if (--team->pending == 0) pthread_cond_signal(&team->done);
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

lzt_status lzt__team_create(uint32_t thread_count, lzt_team **out, lzt_error *err)
{
    assert(thread_count >= 1 && thread_count <= 1024);
    lzt_team *team = calloc(1, sizeof *team);
    member *members = calloc(thread_count, sizeof *members);
    if (!team || !members) {
        free(team);
        free(members);
        return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a team of %u threads", thread_count);
    }
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->start, NULL);
    pthread_cond_init(&team->done, NULL);
    team->size = thread_count;
    team->members = members;
    for (uint32_t part = 1; part < thread_count; part++) {
        members[part] = (member){.team = team, .part = part};
        int rc = pthread_create(&members[part].thread, NULL, member_main, &members[part]);
        if (rc) {
            lzt__team_destroy(team);
            return lzt_fail_os(err, LZT_ERR_NO_MEMORY, rc, NULL, "cannot start thread %u of %u", part, thread_count);
        }
        team->started = part;
    }
    *out = team;
    return LZT_OK;
}

void lzt__team_destroy(lzt_team *team)
{
    if (!team) return;
    pthread_mutex_lock(&team->lock);
    assert(team->pending == 0);
    team->stop = true;
    pthread_cond_broadcast(&team->start);
    pthread_mutex_unlock(&team->lock);
    for (uint32_t part = 1; part <= team->started; part++) pthread_join(team->members[part].thread, NULL);
    pthread_cond_destroy(&team->done);
    pthread_cond_destroy(&team->start);
    pthread_mutex_destroy(&team->lock);
    free(team->members);
    free(team);
}

uint32_t lzt__team_size(const lzt_team *team)
{
    return team->size;
}

void lzt__team_run(lzt_team *team, lzt_team_body *body, void *arg)
{
    if (team->size == 1) {
        body(arg, 0, 1);
        return;
    }
    lzt__affinity_look();
    lzt__affinity_thread(0, team->size);
    pthread_mutex_lock(&team->lock);
    assert(team->pending == 0);
    team->body = body;
    team->arg = arg;
    team->pending = team->size - 1;
    team->generation++;
    pthread_cond_broadcast(&team->start);
    pthread_mutex_unlock(&team->lock);
    body(arg, 0, team->size);
    pthread_mutex_lock(&team->lock);
    while (team->pending) pthread_cond_wait(&team->done, &team->lock);
    pthread_mutex_unlock(&team->lock);
}
