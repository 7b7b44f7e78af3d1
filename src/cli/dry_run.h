/* train --dry-run: what a run would need and how long it would take, without running it.
 *
 * Two ways lead there. A plan that this version can execute is compiled, and its step simulated. A plan of the source's
 * model, or of a model whose kernels do not exist yet, is judged by its own model: config.json, the plan file and the
 * caps are all that is read. Caps that the config states are believed, whatever this machine has. */
#ifndef LZT_CLI_DRY_RUN_H
#define LZT_CLI_DRY_RUN_H

#include "cli/session.h"

typedef struct lzt_outlook {
    double step_seconds;
    const char *step_from; /* where step_seconds comes from, in words */
    uint64_t device_bytes, host_bytes, nvme_bytes;
    uint64_t rss_bytes; /* resident memory of the run; 0: not predicted */
    uint64_t steps;     /* of the run; 0: not known without the data */
    /* the drive */
    uint64_t spill_bytes_a_step; /* written */
    uint64_t checkpoint_bytes;   /* of one version */
    uint64_t checkpoints_kept;   /* at most at once, the one being written included */
    uint64_t checkpoints_made;   /* over the run */
    uint64_t final_bytes;        /* output_dir/final */
    uint64_t disk_bytes;         /* all of it: checkpoints, final, spill */
    uint64_t disk_free_bytes;    /* where output_dir will be; 0: not known */
    double ssd_bytes_a_day;
} lzt_outlook;

/* Resolves, plans and prints. No plan, or a cap that is too small: LZT_ERR_NO_PLAN, after "fits: no". */
lzt_status lzt_dry_run(lzt_session *session, bool json, lzt_error *err);

/* The same without printing: opens, plans, fills *outlook. timed false: nothing is measured or simulated, and the
 * step's time stays 0. Errors are those of a run; LZT_ERR_NO_PLAN when nothing fits. */
lzt_status lzt_dry_run_look(lzt_session *session, bool timed, lzt_outlook *outlook, lzt_error *err);

/* path is one file, and is not there: a dry run then takes the config's word for the length of sequences. */
bool lzt_dry_run_lacks(const lzt_config *config, const char *path);

/* What the outlook says of the drive, from step_seconds, steps, nvme_bytes and spill_bytes_a_step: shared by both ways.
 */
void lzt_outlook_disk(const lzt_session *session, lzt_outlook *outlook);

/* The outlook of a plan of the source's model: memory and drive by that model; the step's time by simulation where the
 * session has a profile that prices it, else by the plan's own layer times. Errors: LZT_ERR_USAGE (the plan breaks its
 * own constraints), LZT_ERR_NO_PLAN (a cap is too small). */
lzt_status lzt_outlook_source(lzt_session *session, lzt_outlook *outlook, lzt_error *err);

#endif
