/* A bounded ring of micro-batches between one producer thread and the step loop: see lazytrain/feed.h.
 *
 *     made     slots filled so far          made - taken      ready
 *     taken    slots handed out so far      made - returned   <= depth
 *     returned slots given back             taken - returned  0 or 1: the caller's
 *
 * Slot i % depth is the producer's from returned + depth > i until made > i, then the caller's. Only the three counters
 * are shared; they change under the lock, which also publishes the slot's content.
 */
#include "lazytrain/feed.h"

#include "base/clock.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

typedef struct slot {
    lzt_fed fed;
    lzt_micro_batch batch;
} slot;

struct lzt_feed {
    lzt_feed_options o;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ready, room;
    uint64_t made, taken, returned; /* lock */
    bool ended, stop;               /* lock: nothing more comes; the owner wants no more */
    lzt_status status;              /* lock: why it ended */
    lzt_error error;                /* lock */
    slot *slot;                     /* [depth] */
    char *memory;
    lzt_feed_stats stats; /* the caller's */
};

/* ---- the producer ---- */

/* The slot to fill; NULL when the owner wants no more. */
static slot *wait_for_room(lzt_feed *f)
{
    pthread_mutex_lock(&f->lock);
    while (f->made - f->returned == f->o.depth && !f->stop) pthread_cond_wait(&f->room, &f->lock);
    slot *s = f->stop ? NULL : &f->slot[f->made % f->o.depth];
    pthread_mutex_unlock(&f->lock);
    return s;
}

static void publish(lzt_feed *f)
{
    pthread_mutex_lock(&f->lock);
    f->made++;
    pthread_cond_signal(&f->ready);
    pthread_mutex_unlock(&f->lock);
}

static void end(lzt_feed *f, lzt_status status, const lzt_error *why)
{
    pthread_mutex_lock(&f->lock);
    f->ended = true;
    f->status = status;
    if (status) f->error = *why;
    pthread_cond_signal(&f->ready);
    pthread_mutex_unlock(&f->lock);
}

/* A micro-batch must hold a token; this one bears no loss. */
static void stand_in(lzt_micro_batch *batch)
{
    batch->ids[0] = batch->position[0] = 0;
    batch->target[0] = -1;
    batch->weight[0] = 0;
    batch->document_begin[0] = 0;
    batch->document_begin[1] = 1;
    batch->token_count = batch->document_count = batch->padded_count = 1;
    batch->loss_count = 0;
    batch->loss_weight = 0;
}

static lzt_status fill(lzt_feed *f, uint64_t step, uint64_t m, slot *s, lzt_error *err)
{
    lzt_status status = LZT_OK;
    s->batch.token_count = s->batch.document_count = 0;
    if (s->fed.loss_tokens) status = lzt_batcher_fill(f->o.batcher, step, m, &s->batch, err);
    s->fed.rows = s->batch.document_count;
    if (!s->batch.token_count) stand_in(&s->batch);
    return status;
}

/* All micro-batches of a step. Returns LZT_ERR_INTERRUPTED when the owner wants no more. */
static lzt_status make_step(lzt_feed *f, uint64_t step, lzt_error *err)
{
    uint64_t count = lzt_batcher_micro_batches(f->o.batcher, step), loss_tokens = 0, begin = lzt__clock_ns();
    double loss_weight = 0;
    lzt_status status = lzt_batcher_loss_count(f->o.batcher, step, &loss_tokens, &loss_weight, err);
    uint64_t spent = lzt__clock_ns() - begin;
    if (!loss_tokens) count = 1;
    for (uint64_t m = 0; !status && m < count; m++) {
        slot *s = wait_for_room(f);
        if (!s) return LZT_ERR_INTERRUPTED;
        begin = lzt__clock_ns();
        s->fed = (lzt_fed){.step = step,
                           .index = m,
                           .count = count,
                           .loss_tokens = loss_tokens,
                           .loss_weight = loss_weight,
                           .batch = &s->batch};
        status = fill(f, step, m, s, err);
        s->fed.seconds = lzt__clock_seconds(spent + lzt__clock_ns() - begin);
        spent = 0;
        if (!status) publish(f);
    }
    return status;
}

static void *produce(void *arg)
{
    lzt_feed *f = arg;
    lzt_error why = {0};
    lzt_status status = LZT_OK;
    for (uint64_t step = f->o.first_step; !status && step < f->o.end_step; step++) status = make_step(f, step, &why);
    end(f, status, &why);
    return NULL;
}

/* ---- the owner ---- */

static lzt_status check(const lzt_feed_options *o, lzt_error *err)
{
    if (o->struct_bytes != sizeof *o) return lzt_fail(err, LZT_ERR_USAGE, "feed", "options of another version");
    if (!o->batcher || o->depth < 2 || !o->token_capacity || o->end_step < o->first_step ||
        o->end_step > lzt_batcher_steps(o->batcher))
        return lzt_fail(err, LZT_ERR_USAGE, "feed", "steps, depth or capacity are out of range");
    return LZT_OK;
}

static lzt_status allocate(lzt_feed *f, lzt_error *err)
{
    uint64_t each = lzt_micro_batch_bytes(f->o.token_capacity);
    f->slot = calloc(f->o.depth, sizeof *f->slot);
    f->memory = calloc(f->o.depth, each);
    if (!f->slot || !f->memory) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for batches made ahead");
    for (uint64_t i = 0; i < f->o.depth; i++)
        f->slot[i].batch = lzt_micro_batch_over(f->memory + i * each, f->o.token_capacity);
    return LZT_OK;
}

/* Signals are for the thread that runs the steps. */
static int start(lzt_feed *f)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&f->thread, NULL, produce, f);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static void dispose(lzt_feed *f)
{
    pthread_cond_destroy(&f->ready);
    pthread_cond_destroy(&f->room);
    pthread_mutex_destroy(&f->lock);
    free(f->slot);
    free(f->memory);
    free(f);
}

lzt_status lzt_feed_create(const lzt_feed_options *options, lzt_feed **feed, lzt_error *err)
{
    *feed = NULL;
    lzt_status status = check(options, err);
    if (status) return status;
    lzt_feed *f = calloc(1, sizeof *f);
    if (!f) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a feed");
    f->o = *options;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->ready, NULL);
    pthread_cond_init(&f->room, NULL);
    status = allocate(f, err);
    int rc = status ? 0 : start(f);
    if (rc) status = lzt_fail_os(err, LZT_ERR_NO_MEMORY, rc, NULL, "cannot start the data thread");
    if (status) {
        dispose(f);
        return status;
    }
    *feed = f;
    return LZT_OK;
}

void lzt_feed_destroy(lzt_feed *f)
{
    if (!f) return;
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_cond_signal(&f->room);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->thread, NULL);
    dispose(f);
}

/* Under the lock: gives back what the caller had, and sleeps until something is ready or nothing more comes. */
static void wait_until_ready(lzt_feed *f)
{
    f->returned = f->taken;
    pthread_cond_signal(&f->room);
    uint64_t ready = f->made - f->taken;
    if (ready > f->stats.ready_max) f->stats.ready_max = ready;
    if (ready || f->ended) return;
    uint64_t begin = lzt__clock_ns();
    f->stats.waits++;
    while (f->made == f->taken && !f->ended) pthread_cond_wait(&f->ready, &f->lock);
    f->stats.wait_seconds += lzt__clock_seconds(lzt__clock_ns() - begin);
}

lzt_status lzt_feed_next(lzt_feed *f, lzt_fed *fed, lzt_error *err)
{
    lzt_status status = LZT_OK;
    *fed = (lzt_fed){0};
    pthread_mutex_lock(&f->lock);
    wait_until_ready(f);
    if (f->made > f->taken) {
        *fed = f->slot[f->taken++ % f->o.depth].fed;
    } else {
        status = f->status;
        if (status && err) *err = f->error;
    }
    pthread_mutex_unlock(&f->lock);
    if (!fed->batch) return status;
    f->stats.taken++;
    f->stats.busy_seconds += fed->seconds;
    f->stats.bytes += (4 * fed->batch->token_count + fed->batch->document_count + 1) * sizeof(int32_t);
    return LZT_OK;
}

void lzt_feed_take_stats(lzt_feed *f, lzt_feed_stats *stats)
{
    *stats = f->stats;
    f->stats = (lzt_feed_stats){0};
}

uint64_t lzt_feed_ready(lzt_feed *f)
{
    pthread_mutex_lock(&f->lock);
    uint64_t ready = f->made - f->taken;
    pthread_mutex_unlock(&f->lock);
    return ready;
}
