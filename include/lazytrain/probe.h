/* Measures the machine into a profile, through the same device and kernels that training uses.
 *
 * What is measured is a list of work that the caller takes from a compiled step program (lazytrain/price.h names each
 * entry), so that a profile holds exactly what pricing will ask for, at the sizes that will run, in the order in which
 * a layer runs. Every figure is taken on the device as it will be used: its throttles are part of it.
 *
 *     lzt_probe_options options = LZT_PROBE_OPTIONS_INIT;
 *     options.dev = dev; options.kern = kern; options.kernel = list; ...
 *     lzt_probe_run(&options, &profile, &err);
 *     lzt_probe_drive(&drive, &profile, &err);                  reads and writes of a directory's drive
 *
 * Entries beside the list's own: RATE "h2d", "d2h" (and "_both" behind it: while the other direction runs) by size of
 * copy, "host_memory" (one thread's memcpy), "nvme_read", "nvme_write"; TIME "handover", "overlap.A", "overlap.A.B"
 * (lazytrain/price.h).
 *
 * Threads: one. Ownership: everything in the options is borrowed but the device. blocks: for about the seconds asked
 * for, a few times over.
 */
#ifndef LAZYTRAIN_PROBE_H
#define LAZYTRAIN_PROBE_H

#include "lazytrain/dev.h"
#include "lazytrain/kern.h"
#include "lazytrain/profile.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An operand of a kernel call: bytes of a buffer. Calls that share a buffer share its memory, as in a step. */
typedef struct lzt_probe_operand {
    uint32_t buffer;
    int slot; /* ptr index; negative: scratch */
    uint64_t offset, bytes;
} lzt_probe_operand;

typedef struct lzt_probe_kernel {
    lzt_measurement entry; /* kind, name and size: where the result goes */
    lzt_kern_call call;    /* without its pointers */
    const lzt_probe_operand *operand;
    uint32_t operand_count;
} lzt_probe_kernel;

typedef enum lzt_probe_host_work {
    LZT_PROBE_ADAMW = 0,
    LZT_PROBE_NORM,
    LZT_PROBE_ADD,
    LZT_PROBE_ZERO,
    LZT_PROBE_GATHER, /* rows of the batch's ids from a table, and the same back as gradients */
    LZT_PROBE_SCATTER
} lzt_probe_host_work;

typedef struct lzt_probe_host {
    lzt_measurement entry; /* a RATE: size is the bytes that a piece touches */
    lzt_probe_host_work work;
    lzt_dtype dtype, grad_dtype;
    uint64_t elements;                  /* ADAMW, NORM, ADD; ZERO: bytes */
    uint64_t rows, columns, table_rows; /* GATHER, SCATTER */
} lzt_probe_host;

typedef struct lzt_probe_options {
    uint64_t struct_bytes;
    lzt_dev *dev;                   /* fresh: nothing reserved, no streams. Owned, also on failure */
    lzt_kern *kern;                 /* borrowed */
    uint32_t threads;               /* of the optimizer lane */
    uint64_t tokens, documents;     /* of the micro-batch: what every descriptor says */
    const lzt_probe_kernel *kernel; /* [kernel_count] in the order in which they run */
    const uint64_t *buffer_bytes;   /* [buffer_count] */
    uint32_t kernel_count, buffer_count;
    uint32_t descriptor;        /* the buffer that holds the micro-batch's descriptor */
    const lzt_probe_host *host; /* [host_count] */
    uint32_t host_count;
    const uint64_t *copy_bytes; /* [copy_count] sizes of copies, rising */
    uint32_t copy_count;
    uint64_t pair_copy_bytes; /* of the copies beside which other lanes are measured, about; as an upload of weights */
    double seconds;           /* for each part: kernels, copies, host work, each pair of lanes */
    void (*say)(void *arg, const char *line); /* what is being measured; NULL: silent */
    void *say_arg;
} lzt_probe_options;

#define LZT_PROBE_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        .struct_bytes = sizeof(lzt_probe_options), .seconds = 1.0                                                      \
    }

/* Adds what it measures to the profile (which begins zeroed or measured), and says there what it was measured on.
 * Errors: LZT_ERR_NO_MEMORY, LZT_ERR_NO_PLAN (the device's cap is too small for one layer), and those of the device. */
LZT_EXPORT lzt_status lzt_probe_run(const lzt_probe_options *options, lzt_profile *profile, lzt_error *err);

typedef struct lzt_probe_drive_options {
    uint64_t struct_bytes;
    const char *directory; /* on the drive; a file is made there, unlinked at once, and gone afterwards */
    uint64_t file_bytes;   /* whole pairs of 8 MiB blocks; at most half of what is free */
    double seconds;        /* in all, about; filling the file comes on top */
} lzt_probe_drive_options;

#define LZT_PROBE_DRIVE_OPTIONS_INIT                                                                                   \
    {                                                                                                                  \
        sizeof(lzt_probe_drive_options), NULL, UINT64_C(256) << 20, 4.0                                                \
    }

/* RATE by block size: "nvme_read.depth1", ".depth4", ".depth16" and the fastest of them as "nvme_read"; the same for
 * "nvme_write"; "nvme_read_both", "nvme_write_both" while the other runs; "nvme_read.warm" out of the page cache. All
 * but the last are direct (O_DIRECT) where the filesystem allows it; profile->drive says which engine and way it was.
 * Errors: LZT_ERR_STORAGE (too little space, what the drive refuses), LZT_ERR_NO_MEMORY. */
LZT_EXPORT lzt_status lzt_probe_drive(const lzt_probe_drive_options *options, lzt_profile *profile, lzt_error *err);

#ifdef __cplusplus
}
#endif
#endif
