/* One rank alone: the reduction of one value is the value. See lazytrain/comm.h. */
#include "lazytrain/comm.h"

#include <stdlib.h>
#include <string.h>

static void self_destroy(lzt_comm *comm)
{
    free(comm);
}

static const char *self_name(const lzt_comm *comm)
{
    (void)comm;
    return "self";
}

static lzt_status copy(const void *from, void *to, uint64_t count, lzt_dtype dtype)
{
    if (from != to && count) memcpy(to, from, count * lzt_dtype_bytes(dtype));
    return LZT_OK;
}

static lzt_status self_reduce(lzt_comm *comm, const void *from, void *to, uint64_t count, lzt_dtype dtype,
                              lzt_reduce reduce, void *native_stream, lzt_error *err)
{
    (void)comm, (void)reduce, (void)native_stream, (void)err;
    return copy(from, to, count, dtype);
}

static lzt_status self_gather(lzt_comm *comm, const void *from, void *to, uint64_t count, lzt_dtype dtype,
                              void *native_stream, lzt_error *err)
{
    (void)comm, (void)native_stream, (void)err;
    return copy(from, to, count, dtype);
}

static lzt_status self_broadcast(lzt_comm *comm, void *data, uint64_t bytes, uint32_t root, void *native_stream,
                                 lzt_error *err)
{
    (void)comm, (void)data, (void)bytes, (void)root, (void)native_stream, (void)err;
    return LZT_OK;
}

static lzt_status self_barrier(lzt_comm *comm, void *native_stream, lzt_error *err)
{
    (void)comm, (void)native_stream, (void)err;
    return LZT_OK;
}

static const lzt_comm_ops self_ops = {
    .destroy = self_destroy,
    .name = self_name,
    .all_reduce = self_reduce,
    .all_gather = self_gather,
    .reduce_scatter = self_reduce,
    .broadcast = self_broadcast,
    .barrier = self_barrier,
};

lzt_status lzt_comm_self_create(lzt_comm **out, lzt_error *err)
{
    lzt_comm *comm = malloc(sizeof *comm);
    if (!comm) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a communicator");
    *comm = (lzt_comm){.ops = &self_ops, .rank = 0, .size = 1};
    *out = comm;
    return LZT_OK;
}
