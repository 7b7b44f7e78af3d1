/* The CPU device's parts: the device (dev_cpu.c), its streams (dev_cpu_stream.c) and its links (dev_cpu_link.c).
 *
 * Locks: a stream's lock, a link's lock and the device's error_lock are leaves; none is held while another is taken or
 * while a work runs.
 */
#ifndef LZT_DEV_CPU_H
#define LZT_DEV_CPU_H

#include "base/clock.h"
#include "lazytrain/dev.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct cpu_device cpu_device;

/* One direction of the imitated bus. All copies of its lane share it. */
typedef struct cpu_link {
    pthread_mutex_t lock;
    double ns_per_byte; /* 0: not throttled */
    uint64_t epoch_ns;  /* free_ns counts from here, so that a double holds it exactly enough */
    double free_ns;     /* lock: when an ideal link would have finished what was given to it so far */
} cpu_link;

/* submitted ---ring---> completed. The work at completed + 1 is the one the thread waits for or runs. */
typedef struct cpu_stream {
    cpu_device *dev;
    uint32_t index;
    lzt_lane lane;
    cpu_link *link; /* of H2D and D2H streams, else NULL */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work_added; /* the stream's thread sleeps here on an empty ring */
    pthread_cond_t slot_freed; /* the submitter sleeps here on a full ring */
    pthread_cond_t progressed; /* waiters for a sequence sleep here */
    lzt_work **ring;           /* [slots] lock */
    uint32_t slots;
    _Atomic uint64_t submitted; /* written under lock */
    _Atomic uint64_t completed; /* written under lock */
    uint64_t wanted;            /* lock: the smallest sequence that somebody sleeps for; UINT64_MAX: nobody */
    bool submitter_sleeps;      /* lock */
    bool stop;                  /* lock */
    /* of the stream's thread alone */
    bool back_to_back;  /* nothing but throttled copies since the link was last idle: lateness is made up */
    int64_t stretch_ns; /* sleep still owed to compute_slowdown; negative after a late wake-up */
} cpu_stream;

struct cpu_device {
    lzt_dev base;
    char description[128];
    uint64_t cap_bytes[LZT_SPACE_COUNT], reserved_bytes[LZT_SPACE_COUNT];
    char *arena[LZT_SPACE_COUNT]; /* NULL: not reserved */
    double compute_slowdown;
    uint32_t queue_slots;
    lzt_dev_hooks hooks; /* begin NULL: none */
    cpu_link h2d, d2h;
    uint32_t stream_count;
    cpu_stream *stream[LZT_DEV_STREAMS_MAX];
    _Atomic uint64_t peak_bytes[LZT_SPACE_COUNT];
    _Atomic uint64_t copied_bytes[LZT_LANE_COUNT];
    _Atomic int failed; /* lzt_status of the first error; written under error_lock after error */
    pthread_mutex_t error_lock;
    lzt_error error;
};

/* Keeps the first error of the device; returns it, copied into *err (may be NULL). cause NULL: returns LZT_OK unless
 * the device has failed before. */
lzt_status lzt__cpu_device_fail(cpu_device *dev, const lzt_error *cause, lzt_error *err);

lzt_status lzt__cpu_stream_create(cpu_device *dev, lzt_lane lane, uint32_t index, cpu_stream **stream, lzt_error *err);
/* Lets the stream's thread end once its ring is empty. */
void lzt__cpu_stream_stop(cpu_stream *stream);
void lzt__cpu_stream_destroy(cpu_stream *stream); /* joins the stopped thread; NULL is allowed */
/* Appends; sleeps while the ring is full. Returns the work's sequence. */
uint64_t lzt__cpu_stream_push(cpu_stream *stream, lzt_work *work);
/* Sleeps until sequence has completed; true if it had to. */
bool lzt__cpu_stream_wait(cpu_stream *stream, uint64_t sequence);

void lzt__cpu_link_init(cpu_link *link, double bytes_per_s);
void lzt__cpu_link_fini(cpu_link *link);
/* Copies like memcpy, at the link's rate. back_to_back: the caller came straight from its previous copy on this link,
 * so that this one begins when that one should have ended. */
void lzt__cpu_link_copy(cpu_link *link, void *to, const void *from, uint64_t bytes, bool back_to_back);

#endif
