/* A number that changes when the program's code does: a hash of the linker's build id, for keys of what the program has
 * made and may find again. 0 where the object has none. Threads: any. blocks: no */
#ifndef LZT_BASE_BUILD_ID_H
#define LZT_BASE_BUILD_ID_H

#include <stdint.h>

uint64_t lzt__build_id(void);

#endif
