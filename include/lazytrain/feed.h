/* Batches made ahead of the steps that need them, on a thread of their own.
 *
 *     lzt_feed_options options = LZT_FEED_OPTIONS_INIT;
 *     options.batcher = batcher; options.first_step = 40; options.end_step = 100; options.token_capacity = 8192;
 *     lzt_feed_create(&options, &feed, &err);
 *     while (!(status = lzt_feed_next(feed, &fed, &err)) && fed.batch) run(fed.step, fed.batch);
 *
 *     producer   ──fill──> [ slot | slot | slot | slot ] ──next──> the step
 *                            ready: filled, not yet asked for; one slot is the caller's
 *
 * The thread reads, tokenises and packs through the batcher, step after step, until all slots are full; then it sleeps.
 * What it makes is what lzt_batcher_fill would make: order and content do not depend on timing. An error is kept and
 * comes back from the call that asks for that very micro-batch; all before it are good.
 *
 * Threads: while a feed lives its thread is the one that uses the batcher and its dataset; other threads may only ask
 * the batcher for what its tables hold (steps, epoch, micro_batches, position, rows). next, take_stats and destroy
 * belong to one thread. The feed's thread takes no signals. Ownership: the batcher is borrowed; a fed batch is borrowed
 * until the next call. The slots are allocated once.
 */
#ifndef LAZYTRAIN_FEED_H
#define LAZYTRAIN_FEED_H

#include "lazytrain/data.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lzt_feed lzt_feed;

typedef struct lzt_feed_options {
    uint64_t struct_bytes;
    lzt_batcher *batcher;
    uint64_t first_step, end_step; /* [first_step, end_step), at most lzt_batcher_steps */
    uint64_t token_capacity;       /* of a micro-batch, >= 1 */
    uint64_t depth;                /* slots, at least 2: one is the caller's, the others are ahead of it */
} lzt_feed_options;

#define LZT_FEED_OPTIONS_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(lzt_feed_options), NULL, 0, 0, 0, 8                                                                     \
    }

/* One micro-batch of a step. A step without a single loss-bearing token comes as one entry with loss_tokens 0. A
 * micro-batch without rows (a large file's rows are looked into as they come) holds one token that bears no loss. */
typedef struct lzt_fed {
    uint64_t step;
    uint64_t index, count;        /* micro-batch index of count */
    uint64_t loss_tokens;         /* of the whole step */
    double loss_weight;           /* the sum of their weights; loss_tokens where all are 1 */
    uint64_t rows;                /* documents of the micro-batch that are rows */
    double seconds;               /* that the thread worked for it */
    const lzt_micro_batch *batch; /* NULL: behind the last step */
} lzt_fed;

/* Starts the thread. Errors: LZT_ERR_USAGE (options), LZT_ERR_NO_MEMORY. */
LZT_EXPORT lzt_status lzt_feed_create(const lzt_feed_options *options, lzt_feed **feed, lzt_error *err);
/* The next micro-batch. Errors: those of lzt_batcher_fill and lzt_batcher_loss_count; the same one again if called
 * again. blocks: while none is ready, which is counted */
LZT_EXPORT lzt_status lzt_feed_next(lzt_feed *feed, lzt_fed *fed, lzt_error *err);
/* Stops and joins the thread; what was made and not taken is dropped. NULL is allowed. blocks: for the micro-batch in
 * hand */
LZT_EXPORT void lzt_feed_destroy(lzt_feed *feed);

/* Since the last call of take_stats. */
typedef struct lzt_feed_stats {
    uint64_t taken;      /* micro-batches */
    uint64_t waits;      /* calls of next that found none ready */
    double wait_seconds; /* of those calls; exactly 0 without one */
    double busy_seconds; /* that the thread worked for the micro-batches taken */
    uint64_t bytes;      /* of their arrays */
    uint64_t ready_max;  /* most micro-batches ready at a call */
} lzt_feed_stats;

LZT_EXPORT void lzt_feed_take_stats(lzt_feed *feed, lzt_feed_stats *stats);
/* Micro-batches ready now. Any thread. */
LZT_EXPORT uint64_t lzt_feed_ready(lzt_feed *feed);

#ifdef __cplusplus
}
#endif
#endif
