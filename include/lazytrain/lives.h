/* The lives of a program's objects: who makes each, who needs it when, where it is meanwhile, when its memory is free.
 *
 * A value that moves is several objects of a program, one a place: a boundary on the device, its copy on the host, the
 * copy that comes back. A life joins what copies join, so that a boundary that leaves and returns is one life of three
 * stays. Everything is derived from the program's own tables, by operands and copies and never by names, and every byte
 * that a copy moves belongs to exactly one stay: the sums are the counters of a run.
 *
 *     lzt_lives *lives;
 *     lzt_lives_create(program, &lives, &err);
 *     for (uint32_t i = 0; i < lives->life_count; i++) ... lives->life[i] ...
 *     lzt_lives_destroy(lives);
 *
 * Threads: plain data once made. Ownership: destroy frees it; names are the program's, which must live as long.
 */
#ifndef LAZYTRAIN_LIVES_H
#define LAZYTRAIN_LIVES_H

#include "lazytrain/step.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LZT_LIVES_NONE UINT32_MAX

/* One task's touch of a stay. */
typedef struct lzt_use {
    uint32_t task;
    uint8_t access; /* lzt_access */
    bool is_copy;   /* a copy out of the stay (READ) or into it (WRITE) */
    uint32_t other; /* copies: the stay at the other end */
    uint64_t bytes; /* touched; of a copy: moved, counted on its lane at the end that it fills */
} lzt_use;

/* An object in its place. */
typedef struct lzt_stay {
    uint32_t object;                /* of the program: space, offset, bytes, name */
    uint32_t first_use, use_count;  /* in program order */
    uint32_t first_task, last_task; /* its bytes are taken from the one to the other, both included */
    uint32_t next_object;           /* the next to take any of its bytes, or NONE; of a persistent object always NONE */
    uint32_t life;
} lzt_stay;

typedef struct lzt_life {
    uint32_t first_stay, stay_count; /* in the order of their first tasks; persistent ones first */
    uint32_t maker;                  /* the task that writes it first; NONE: it is there before the program begins */
    uint64_t bytes;                  /* of its largest stay */
} lzt_life;

typedef struct lzt_lives {
    const lzt_program_info *program; /* borrowed */
    lzt_life *life;                  /* [life_count] in the order of their first tasks */
    lzt_stay *stay;                  /* [stay_count] grouped by life; objects that no task touches have none */
    lzt_use *use;                    /* [use_count] grouped by stay */
    uint32_t life_count, stay_count, use_count;
    uint64_t moved_bytes[LZT_LANE_COUNT]; /* by the uses that are copies */
    uint64_t peak_bytes[LZT_SPACE_COUNT]; /* the highest byte that a use touches, plus one */
} lzt_lives;

/* Errors: LZT_ERR_NO_MEMORY. */
LZT_EXPORT lzt_status lzt_lives_create(const lzt_program *program, lzt_lives **lives, lzt_error *err);
LZT_EXPORT void lzt_lives_destroy(lzt_lives *lives); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
