/* Matrix products by oneDNN (2.6 or a later 2.x), loaded at run time.
 *
 * The library is opened with dlopen, after OMP_WAIT_POLICY=passive and GOMP_SPINCOUNT=0 are set in the environment:
 * its OpenMP runtime reads them when it is loaded, and would otherwise spin on every core between products. A process
 * that already holds an OpenMP runtime without these settings is refused. The library stays loaded.
 *
 * A primitive (compiled code for one shape) is made at a shape's first use and kept, at most LZT_ONEDNN_PRIMITIVES of
 * them; the one unused for longest makes way. Scratch is the caller's. Threads: calls are serialised by a lock; the
 * products run on the caller and OpenMP's own team of `threads`.
 */
#ifndef LZT_KERN_CPU_ONEDNN_H
#define LZT_KERN_CPU_ONEDNN_H

#include "kern/cpu/gemm.h"
#include "base/isa_level.h"

typedef struct lzt_onednn lzt_onednn;

enum { LZT_ONEDNN_PRIMITIVES = 256 };

typedef struct lzt_onednn_stats {
    uint64_t runs, created, evicted;
    uint64_t refused; /* products that went to the own kernel: no primitive for them, or too little scratch */
} lzt_onednn_stats;

/* Errors: LZT_ERR_USAGE: built without it, the library is missing or too old, OpenMP would spin, or this process uses
 * it with a wider instruction set already. */
lzt_status lzt__onednn_open(lzt_isa isa, uint32_t threads, lzt_onednn **dnn, lzt_error *err);
void lzt__onednn_close(lzt_onednn *dnn); /* NULL is allowed */

/* The scratch that the product's primitive asks for, with room for those of smaller M; 0 where oneDNN has none. */
uint64_t lzt__onednn_scratch_bytes(lzt_onednn *dnn, const lzt_gemm *g);
/* *done false: oneDNN does not do this one (counted); nothing was written. */
lzt_status lzt__onednn_gemm(lzt_onednn *dnn, const lzt_gemm *g, void *scratch, uint64_t scratch_bytes, bool *done,
                            lzt_error *err);
lzt_onednn_stats lzt__onednn_stats(lzt_onednn *dnn);

#endif
