/* Who touched each byte of an arena last: the memory of the checked device.
 *
 * The arena is cut into intervals. Each remembers its last writer and, for each stream, the last work that read it
 * since. An access is a conflict with a remembered one when the new work's vector clock does not cover it. Earlier
 * readers of the same stream need not be remembered: whoever is ordered after the last is ordered after them.
 *
 * Cost: O(log intervals) an access plus the intervals it covers; a write leaves one interval behind.
 * Threads: one caller at a time.
 */
#ifndef LZT_DEV_SHADOW_H
#define LZT_DEV_SHADOW_H

#include "lazytrain/dev.h"

/* Work `sequence` of `stream`. name NULL: nobody. */
typedef struct shadow_work {
    const char *name; /* outlives the lzt_shadow */
    uint64_t sequence;
    uint32_t stream;
} shadow_work;

typedef struct lzt_shadow lzt_shadow;

/* earlier is not ordered before the work that is being noted; they overlap in bytes at offset. */
typedef void shadow_conflict_fn(void *ctx, const shadow_work *earlier, uint64_t offset, uint64_t bytes);

lzt_shadow *lzt__shadow_create(uint64_t bytes); /* NULL: no memory */
void lzt__shadow_destroy(lzt_shadow *shadow);   /* NULL is allowed */
/* Notes that work reads or writes [begin, end), inside the arena. clock[s]: the last sequence of stream s that is
 * ordered before work, its own for its own stream. False: no memory. */
bool lzt__shadow_note(lzt_shadow *shadow, uint64_t begin, uint64_t end, bool is_write, const shadow_work *work,
                      const uint64_t *clock, shadow_conflict_fn *conflict, void *ctx);
/* For tests. */
uint64_t lzt__shadow_interval_count(const lzt_shadow *shadow);

#endif
