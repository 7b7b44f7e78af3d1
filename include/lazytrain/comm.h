/* The collective contract: what ranks do together.
 *
 * A communicator joins size ranks, numbered from 0; each holds one handle. A collective is called by every rank, in the
 * same order, with the same count, dtype and operation; it is complete on a rank when that rank's buffers hold the
 * result. Like an operator it knows nothing of plans or streams: the step program makes it the body of a work on a COMM
 * stream whose ranges declare the buffers.
 *
 *     lzt_comm_self_create(&comm, &err);                                           one rank
 *     lzt_comm_all_reduce(comm, grad, grad, count, LZT_DTYPE_F32, LZT_REDUCE_SUM, native_stream, &err);
 *
 * Buffers are memory of the rank's device, or host memory where the backend says so. counts are elements. Reductions of
 * BF16 and F16 are accumulated in F32 and rounded once; every reduction adds in the order of ranks, so that results do
 * not depend on timing or topology.
 *
 * native_stream: as in lzt_work_fn (NULL: on the CPU). On a CUDA stream a collective is launched and returns; on the
 * CPU it is complete when it returns.
 *
 * Threads: one collective at a time per communicator. Ownership: buffers are borrowed for the call (on CUDA: until the
 * stream has passed it). Errors: LZT_ERR_INTERNAL for arguments that break this contract; a rank that is lost makes
 * every later collective of every other rank fail.
 */
#ifndef LAZYTRAIN_COMM_H
#define LAZYTRAIN_COMM_H

#include "lazytrain/dtype.h"
#include "lazytrain/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lzt_reduce { LZT_REDUCE_SUM = 0, LZT_REDUCE_MAX, LZT_REDUCE_COUNT } lzt_reduce;

typedef struct lzt_comm lzt_comm;

/* What a backend implements. Every member is required. Arguments have been checked when a member is called. */
typedef struct lzt_comm_ops {
    void (*destroy)(lzt_comm *comm);
    const char *(*name)(const lzt_comm *comm); /* "self", "nccl", ... */
    lzt_status (*all_reduce)(lzt_comm *comm, const void *from, void *to, uint64_t count, lzt_dtype dtype,
                             lzt_reduce reduce, void *native_stream, lzt_error *err);
    lzt_status (*all_gather)(lzt_comm *comm, const void *from, void *to, uint64_t count, lzt_dtype dtype,
                             void *native_stream, lzt_error *err);
    lzt_status (*reduce_scatter)(lzt_comm *comm, const void *from, void *to, uint64_t count, lzt_dtype dtype,
                                 lzt_reduce reduce, void *native_stream, lzt_error *err);
    lzt_status (*broadcast)(lzt_comm *comm, void *data, uint64_t bytes, uint32_t root, void *native_stream,
                            lzt_error *err);
    lzt_status (*barrier)(lzt_comm *comm, void *native_stream, lzt_error *err);
} lzt_comm_ops;

struct lzt_comm {
    const lzt_comm_ops *ops; /* backends put their own struct around this one */
    uint32_t rank, size;     /* rank < size; constant */
};

/* A communicator of one rank: every collective is a copy. Host memory. Errors: LZT_ERR_NO_MEMORY. */
LZT_EXPORT lzt_status lzt_comm_self_create(lzt_comm **comm, lzt_error *err);
LZT_EXPORT void lzt_comm_destroy(lzt_comm *comm); /* NULL is allowed; of every rank */
LZT_EXPORT uint32_t lzt_comm_rank(const lzt_comm *comm);
LZT_EXPORT uint32_t lzt_comm_size(const lzt_comm *comm);
LZT_EXPORT const char *lzt_comm_name(const lzt_comm *comm);

/* to[count] = reduction over ranks of from[count], on every rank. dtype: F32, BF16, F16, F64, I32 or I64. from and to
 * are the same buffer, or do not overlap. blocks: until every rank has called (CPU) */
LZT_EXPORT lzt_status lzt_comm_all_reduce(lzt_comm *comm, const void *from, void *to, uint64_t count, lzt_dtype dtype,
                                          lzt_reduce reduce, void *native_stream, lzt_error *err);
/* to[size * count] = from[count] of rank 0, of rank 1, ... dtype: any of whole bytes. from is to + rank * count
 * elements, or does not overlap to. blocks: as above */
LZT_EXPORT lzt_status lzt_comm_all_gather(lzt_comm *comm, const void *from, void *to, uint64_t count, lzt_dtype dtype,
                                          void *native_stream, lzt_error *err);
/* to[count] = elements rank * count .. of the reduction over ranks of from[size * count]. dtype as in all_reduce. to is
 * from + rank * count elements, or does not overlap from. blocks: as above */
LZT_EXPORT lzt_status lzt_comm_reduce_scatter(lzt_comm *comm, const void *from, void *to, uint64_t count,
                                              lzt_dtype dtype, lzt_reduce reduce, void *native_stream, lzt_error *err);
/* data[bytes] of root to every rank. blocks: as above */
LZT_EXPORT lzt_status lzt_comm_broadcast(lzt_comm *comm, void *data, uint64_t bytes, uint32_t root, void *native_stream,
                                         lzt_error *err);
/* Returns (CUDA: lets the stream go on) when every rank has called. blocks: as above */
LZT_EXPORT lzt_status lzt_comm_barrier(lzt_comm *comm, void *native_stream, lzt_error *err);

#ifdef __cplusplus
}
#endif
#endif
