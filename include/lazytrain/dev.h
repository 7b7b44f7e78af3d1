/* The device contract: memory, streams, work in order, completion by sequence number.
 *
 * A device owns two arenas, one per memory space (its own memory, and host memory it can copy to and from), and a set
 * of streams. A stream runs the works submitted to it one after the other. Each work gets the stream's next sequence
 * number (1, 2, ...); another stream, or the host, waits for "stream s has completed sequence n". That is the only
 * ordering primitive: CUDA implements it with events or stream memory operations, the CPU device with condition
 * variables.
 *
 *     lzt_dev_cpu_create(&options, &dev, &err);
 *     lzt_dev_reserve(dev, LZT_SPACE_DEVICE, bytes, &err);       once; refused when bytes exceed the cap
 *     lzt_dev_stream_create(dev, LZT_LANE_COMPUTE, &compute, &err);
 *     lzt_dev_submit(dev, compute, &work, &sequence, &err);      returns at once, or waits for a free queue slot
 *     lzt_dev_wait(dev, compute, sequence, &err);                blocks the caller
 *
 * A work declares every byte range that it touches. Plain devices check that ranges lie inside the reserved arenas and
 * keep the high-water mark; the checked device (lzt_dev_checked_create) proves from the declarations that every
 * conflicting pair is ordered by waits, and that no byte outside them is touched.
 *
 * Failure: the first error of the device stays (a failed work, or a refused submit). Works that have not started by
 * then are completed, in order, without being run; every later submit and wait returns that error. So nothing ever
 * blocks for good, and after the wait for a stream's last sequence nothing of that stream is running, failed or not.
 *
 * Threads: one thread submits, reserves and makes streams; any thread may wait and query. Ownership: a submitted work,
 * its ranges and its argument belong to the device until the work's sequence has completed; the submitter must not
 * touch them before.
 */
#ifndef LAZYTRAIN_DEV_H
#define LAZYTRAIN_DEV_H

#include "lazytrain/status.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lzt_space {
    LZT_SPACE_DEVICE = 0, /* HBM; on the CPU device a mapping of its own */
    LZT_SPACE_HOST = 1,   /* pinned host memory */
    LZT_SPACE_COUNT
} lzt_space;

typedef enum lzt_access { LZT_ACCESS_READ = 1, LZT_ACCESS_WRITE = 2, LZT_ACCESS_READ_WRITE = 3 } lzt_access;

/* Lane kinds of the step program. COMPUTE, H2D and D2H are device streams; the others are host threads of the device.
 */
typedef enum lzt_lane {
    LZT_LANE_COMPUTE = 0,
    LZT_LANE_H2D,
    LZT_LANE_D2H,
    LZT_LANE_NVME_READ,
    LZT_LANE_NVME_WRITE,
    LZT_LANE_CPU_OPTIMIZER,
    LZT_LANE_CHECKPOINT,
    LZT_LANE_DATA,
    LZT_LANE_COMM,
    LZT_LANE_COUNT
} lzt_lane;

/* "compute", "h2d", ... as metrics and traces spell them. Never NULL. */
LZT_EXPORT const char *lzt_lane_name(lzt_lane lane);

/* Objects begin at multiples of this in either arena, so that the checked device can protect them page by page. */
#define LZT_DEV_ALIGNMENT UINT64_C(4096)

/* Streams a device can have. */
#define LZT_DEV_STREAMS_MAX 64

typedef struct lzt_range {
    uint64_t offset, bytes; /* within the arena of the space */
    uint8_t space;          /* lzt_space */
    uint8_t access;         /* lzt_access */
} lzt_range;

/* "stream has completed sequence"; sequence 0 is always complete. The sequence must have been submitted already (so no
 * cycle of waits can be built). */
typedef struct lzt_wait {
    uint32_t stream;
    uint64_t sequence;
} lzt_wait;

/* The body of a call. native_stream is the backend's stream handle (NULL on the CPU device and for host lanes). A call
 * on a device stream launches there and returns; on a host lane it does its work before it returns. */
typedef lzt_status lzt_work_fn(void *arg, void *native_stream, lzt_error *err);

typedef struct lzt_work {
    const char *name;       /* for reports; lives as long as the work */
    const lzt_range *range; /* [range_count] every byte the work reads or writes; for a copy: source (READ), then target
                               (WRITE), of equal sizes and disjoint */
    const lzt_wait *wait;   /* [wait_count] what must have completed before it starts */
    uint32_t range_count, wait_count;
    lzt_work_fn *call; /* NULL: copy range[0] to range[1]; throttled and counted by the lane of its stream */
    void *arg;
    /* Out, valid once completed: nanoseconds of the device's clock (CLOCK_MONOTONIC on the CPU device). ready: all
     * waits were satisfied and the stream was free. A work that was not run has three equal times. */
    uint64_t ready_ns, start_ns, end_ns;
} lzt_work;

typedef struct lzt_dev lzt_dev;

typedef struct lzt_dev_info {
    const char *name;                    /* "cpu", "cpu-checked", "cuda:0" */
    char description[128];               /* the hardware, for result files */
    uint64_t cap_bytes[LZT_SPACE_COUNT]; /* 0: no cap */
    uint64_t reserved_bytes[LZT_SPACE_COUNT];
    uint64_t peak_bytes[LZT_SPACE_COUNT];  /* highest byte that a started work has declared, plus one */
    uint64_t copied_bytes[LZT_LANE_COUNT]; /* by copies on each lane since creation */
    bool checked;                          /* declarations are verified */
} lzt_dev_info;

/* One finding of a checked device. */
typedef enum lzt_finding_kind {
    LZT_FINDING_UNORDERED, /* two works touch the same bytes, at least one writes, and no wait orders them */
    LZT_FINDING_UNDECLARED /* a work touched arena memory that it had not declared */
} lzt_finding_kind;

typedef struct lzt_finding {
    lzt_finding_kind kind;
    char first[96], second[96]; /* task names in submission order; second is "" for an undeclared access, whose first is
                                   "(host)" when the submitting thread touched the arena itself */
    uint8_t space;
    bool is_write;          /* of second, or of the undeclared access */
    uint64_t offset, bytes; /* the overlap, or the faulting byte (bytes 1) */
} lzt_finding;

/* Called around each work that runs (not around one that is skipped after a failure), on the thread that runs it: begin
 * after the waits, before start_ns; end after end_ns, before the sequence completes. For the checked device. */
typedef struct lzt_dev_hooks {
    void *ctx;
    void (*begin)(void *ctx, uint32_t stream, uint64_t sequence, const lzt_work *work);
    void (*end)(void *ctx, uint32_t stream, uint64_t sequence, const lzt_work *work);
} lzt_dev_hooks;

/* What a backend implements. Every member is required except where noted. */
typedef struct lzt_dev_ops {
    void (*destroy)(lzt_dev *dev);
    void (*info)(const lzt_dev *dev, lzt_dev_info *info);
    lzt_status (*reserve)(lzt_dev *dev, lzt_space space, uint64_t bytes, lzt_error *err);
    void *(*address)(const lzt_dev *dev, lzt_space space, uint64_t offset);
    lzt_status (*stream_create)(lzt_dev *dev, lzt_lane lane, uint32_t *stream, lzt_error *err);
    lzt_status (*submit)(lzt_dev *dev, uint32_t stream, lzt_work *work, uint64_t *sequence, lzt_error *err);
    lzt_status (*wait)(lzt_dev *dev, uint32_t stream, uint64_t sequence, lzt_error *err);
    /* optional (NULL on unchecked devices): number of findings since creation, and finding index */
    uint64_t (*finding_count)(const lzt_dev *dev);
    bool (*finding)(const lzt_dev *dev, uint64_t index, lzt_finding *finding);
    /* optional (NULL: this device cannot be delayed or protected by a checked device): installs the hooks, before the
     * first work; the struct is copied */
    void (*set_hooks)(lzt_dev *dev, const lzt_dev_hooks *hooks);
} lzt_dev_ops;

struct lzt_dev {
    const lzt_dev_ops *ops; /* backends put their own struct around this one */
};

typedef struct lzt_dev_cpu_options {
    uint64_t struct_bytes;     /* sizeof this struct */
    uint64_t device_cap_bytes; /* 0: no cap */
    uint64_t host_cap_bytes;   /* 0: no cap */
    double h2d_bytes_per_s;    /* 0: not throttled; else copies on H2D streams share a link of this rate: they sleep, in
                                  chunks of 1 MiB, until an ideal link would be done (late wake-ups are made up) */
    double d2h_bytes_per_s;
    double compute_slowdown; /* >= 1: every work on a compute stream is stretched by this factor, by sleeping */
    uint32_t queue_slots;    /* works a stream may hold; 0: 4096 */
} lzt_dev_cpu_options;

#define LZT_DEV_CPU_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(lzt_dev_cpu_options), 0, 0, 0.0, 0.0, 1.0, 0                                                            \
    }

/* The CPU device: arenas are anonymous mappings, streams are threads. Errors: LZT_ERR_USAGE (options), NO_MEMORY. */
LZT_EXPORT lzt_status lzt_dev_cpu_create(const lzt_dev_cpu_options *options, lzt_dev **dev, lzt_error *err);

typedef struct lzt_dev_checked_options {
    uint64_t struct_bytes;
    uint64_t seed;         /* of the random delays: a work's delay depends on seed, stream and sequence alone */
    uint32_t delay_us_max; /* before a work starts: uniform in 0..max; 0: none */
    bool protect;          /* device pages that no running work has declared are out of reach (works run one at a
                              time, so that the pages open at any moment are exactly one work's) */
    bool ignore_order;     /* do not look for unordered pairs (to see what a missing wait does to the numbers) */
} lzt_dev_checked_options;

#define LZT_DEV_CHECKED_OPTIONS_INIT                                                                                   \
    {                                                                                                                  \
        sizeof(lzt_dev_checked_options), 1, 200, true, false                                                           \
    }

/* Wraps inner and owns it (also on failure). inner must be fresh: nothing reserved, no streams. Findings do not stop
 * the run; ask finding_count at the end. Order is judged when a work is submitted, from the declared ranges and the
 * waits alone, so findings do not depend on timing: works of one stream are ordered, a wait orders, and lzt_dev_wait on
 * the submitting thread orders everything it submits later. A pair of names is reported once. An undeclared access is
 * reported once for each work name and kind of access, and allowed to go on. submit allocates here (a debugging
 * device).
 *
 * protect installs a SIGSEGV handler for the process, if it is not there, which passes foreign faults on to the handler
 * before it. Under AddressSanitizer the undeclared bytes of open pages are poisoned as well; touching those
 * ends the process with ASan's report.
 * Errors: LZT_ERR_USAGE (protect or delays with a device that has no hooks), NO_MEMORY. */
LZT_EXPORT lzt_status lzt_dev_checked_create(const lzt_dev_checked_options *options, lzt_dev *inner, lzt_dev **dev,
                                             lzt_error *err);

/* Waits for all works, then frees everything. NULL is allowed. blocks: yes */
LZT_EXPORT void lzt_dev_destroy(lzt_dev *dev);
LZT_EXPORT void lzt_dev_get_info(const lzt_dev *dev, lzt_dev_info *info);
/* Makes the arena of the space, once per space, zeroed; pages are touched lazily. LZT_ERR_NO_PLAN when bytes exceed the
 * cap, LZT_ERR_NO_MEMORY when the system refuses. Offset 0 lies on a 2 MiB boundary. */
LZT_EXPORT lzt_status lzt_dev_reserve(lzt_dev *dev, lzt_space space, uint64_t bytes, lzt_error *err);
/* For binding operands and, in LZT_SPACE_HOST between works, for the host's own access. Borrowed; asserts that offset
 * lies in the reserved arena or at its end. */
LZT_EXPORT void *lzt_dev_address(const lzt_dev *dev, lzt_space space, uint64_t offset);
/* stream: 0, 1, ... in order of creation; destroyed with the device. Errors: LZT_ERR_INTERNAL (more than
 * LZT_DEV_STREAMS_MAX), NO_MEMORY (the system gives no thread). */
LZT_EXPORT lzt_status lzt_dev_stream_create(lzt_dev *dev, lzt_lane lane, uint32_t *stream, lzt_error *err);
/* Returns the first error of the device (also of an earlier work) and then submits nothing more. sequence may be NULL.
 * A failed submit never runs the work. LZT_ERR_INTERNAL naming the work: a range outside the reserved arena, a
 * malformed copy, a wait for what was not submitted. allocates nothing. blocks: while the stream's queue is full */
LZT_EXPORT lzt_status lzt_dev_submit(lzt_dev *dev, uint32_t stream, lzt_work *work, uint64_t *sequence, lzt_error *err);
/* Blocks until the stream has completed sequence; then returns the first error of the device, if any work has failed by
 * then (of whatever stream). LZT_ERR_INTERNAL when sequence was not submitted. */
LZT_EXPORT lzt_status lzt_dev_wait(lzt_dev *dev, uint32_t stream, uint64_t sequence, lzt_error *err);
/* 0 on unchecked devices */
LZT_EXPORT uint64_t lzt_dev_finding_count(const lzt_dev *dev);
LZT_EXPORT bool lzt_dev_finding(const lzt_dev *dev, uint64_t index, lzt_finding *finding);

#ifdef __cplusplus
}
#endif
#endif
