/* How much memory this process holds.
 *
 * Threads: any. blocks: no. */
#ifndef LZT_BASE_RESIDENT_H
#define LZT_BASE_RESIDENT_H

#include <stdint.h>

/* Resident bytes as the system counts them, shared pages included; 0: it does not say. */
uint64_t lzt__resident_bytes(void);

#endif
