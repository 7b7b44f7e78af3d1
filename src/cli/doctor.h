/* The doctor: what would fail before step 1, each with its way out.
 *
 * The machine's checks ask a table of facts (doctor_facts.h) and know what a run needs; the config's own checks open
 * what a run would open. A check that does not apply (no drive is used, no config is given) says so and is good. */
#ifndef LZT_CLI_DOCTOR_H
#define LZT_CLI_DOCTOR_H

#include "cli/doctor_facts.h"
#include "cli/session.h"

typedef enum lzt_verdict {
    LZT_VERDICT_OK = 0,
    LZT_VERDICT_WARN, /* a run would start, and be slower or in somebody's way */
    LZT_VERDICT_FAIL  /* a run would end before step 1, with status */
} lzt_verdict;

typedef struct lzt_check {
    const char *name; /* "memlock" */
    lzt_verdict verdict;
    lzt_status status; /* FAIL: a run's; its exit code is the doctor's */
    char detail[768], fix[640];
} lzt_check;

enum { LZT_CHECKS_MAX = 24 };

typedef struct lzt_checks {
    lzt_check check[LZT_CHECKS_MAX];
    int count;
} lzt_checks;

/* What a run needs of the machine. Zeroed: a machine without a config, in the working directory. */
typedef struct lzt_needs {
    const char *output_dir, *spill_dir; /* NULL: the working directory; no drive */
    uint64_t memory_bytes;              /* device arena of the CPU device, host arena */
    uint64_t locked_bytes;              /* pinned memory and registered buffers; 0: not known */
    uint64_t output_bytes, spill_bytes; /* on the disk */
    bool wants_uring;                   /* asked for by name */
} lzt_needs;

/* Starts a check; the pointer is good until the next one. Detail: what was found. */
lzt_check *lzt_checks_add(lzt_checks *checks, const char *name, lzt_verdict verdict, lzt_status status,
                          const char *detail_format, ...) __attribute__((format(printf, 5, 6)));
/* Its way out. */
void lzt_check_fix(lzt_check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* memlock, ram, disk_space, tmpfs, o_direct, owner, lock, io_uring, clock_source, gds: always all ten, in this order.
 */
void lzt_doctor_machine(const lzt_facts *facts, const lzt_needs *needs, lzt_checks *checks);

/* config, model_files, data, plan: what train would refuse, and what the machine's checks then need to know. The
 * session holds the config as loaded to plan; given are the command line's overrides. */
void lzt_doctor_config(const char *path, const lzt_config_override *given, int given_count, lzt_session *session,
                       lzt_needs *needs, lzt_checks *checks);

#endif
