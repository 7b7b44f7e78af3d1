/* The collective contract's front: checks what every backend would have to check. See lazytrain/comm.h. */
#include "lazytrain/comm.h"

#include <assert.h>
#include <stdbool.h>

static bool can_reduce(lzt_dtype dtype, lzt_reduce reduce)
{
    if (reduce < 0 || reduce >= LZT_REDUCE_COUNT) return false;
    switch (dtype) {
    case LZT_DTYPE_F32:
    case LZT_DTYPE_BF16:
    case LZT_DTYPE_F16:
    case LZT_DTYPE_F64:
    case LZT_DTYPE_I32:
    case LZT_DTYPE_I64: return true;
    default: return false;
    }
}

static bool has_whole_bytes(lzt_dtype dtype)
{
    return dtype > LZT_DTYPE_NONE && dtype < LZT_DTYPE_COUNT && lzt_dtype_bits(dtype) % 8 == 0;
}

/* inner[count] is at inner_index elements of outer[outer_count], or apart from it; nothing wraps around. */
static bool lies_well(const void *outer, uint64_t outer_count, const void *inner, uint64_t inner_index, uint64_t count,
                      lzt_dtype dtype)
{
    uint64_t width = lzt_dtype_bytes(dtype), a = (uintptr_t)outer, b = (uintptr_t)inner;
    if (outer_count > UINT64_MAX / width) return false;
    if (b == a + inner_index * width) return true;
    return a + outer_count * width <= b || b + count * width <= a;
}

static lzt_status refuse(lzt_error *err, const char *what)
{
    return lzt_fail(err, LZT_ERR_INTERNAL, what, "arguments break the contract of lazytrain/comm.h");
}

void lzt_comm_destroy(lzt_comm *comm)
{
    if (comm) comm->ops->destroy(comm);
}

uint32_t lzt_comm_rank(const lzt_comm *comm)
{
    assert(comm->rank < comm->size);
    return comm->rank;
}

uint32_t lzt_comm_size(const lzt_comm *comm)
{
    return comm->size;
}

const char *lzt_comm_name(const lzt_comm *comm)
{
    return comm->ops->name(comm);
}

lzt_status lzt_comm_all_reduce(lzt_comm *comm, const void *from, void *to, uint64_t count, lzt_dtype dtype,
                               lzt_reduce reduce, void *native_stream, lzt_error *err)
{
    if (!can_reduce(dtype, reduce) || !lies_well(from, count, to, 0, count, dtype)) return refuse(err, "all_reduce");
    return comm->ops->all_reduce(comm, from, to, count, dtype, reduce, native_stream, err);
}

lzt_status lzt_comm_all_gather(lzt_comm *comm, const void *from, void *to, uint64_t count, lzt_dtype dtype,
                               void *native_stream, lzt_error *err)
{
    if (count > UINT64_MAX / comm->size || !has_whole_bytes(dtype) ||
        !lies_well(to, count * comm->size, from, count * comm->rank, count, dtype))
        return refuse(err, "all_gather");
    return comm->ops->all_gather(comm, from, to, count, dtype, native_stream, err);
}

lzt_status lzt_comm_reduce_scatter(lzt_comm *comm, const void *from, void *to, uint64_t count, lzt_dtype dtype,
                                   lzt_reduce reduce, void *native_stream, lzt_error *err)
{
    if (count > UINT64_MAX / comm->size || !can_reduce(dtype, reduce) ||
        !lies_well(from, count * comm->size, to, count * comm->rank, count, dtype))
        return refuse(err, "reduce_scatter");
    return comm->ops->reduce_scatter(comm, from, to, count, dtype, reduce, native_stream, err);
}

lzt_status lzt_comm_broadcast(lzt_comm *comm, void *data, uint64_t bytes, uint32_t root, void *native_stream,
                              lzt_error *err)
{
    if (root >= comm->size || (bytes && !data)) return refuse(err, "broadcast");
    return comm->ops->broadcast(comm, data, bytes, root, native_stream, err);
}

lzt_status lzt_comm_barrier(lzt_comm *comm, void *native_stream, lzt_error *err)
{
    return comm->ops->barrier(comm, native_stream, err);
}
