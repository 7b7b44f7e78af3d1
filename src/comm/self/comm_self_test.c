/* One rank: collectives copy, in place too, and what breaks the contract is refused without touching the buffers.
 *
 * The front's placement rules for more than one rank are tested on a made-up communicator of three.
 */
#include "lazytrain/comm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

static lzt_comm *make(void)
{
    lzt_comm *comm;
    assert_int_equal(lzt_comm_self_create(&comm, NULL), LZT_OK);
    return comm;
}

static void one_rank_copies(void **state)
{
    (void)state;
    lzt_comm *comm = make();
    assert_int_equal(lzt_comm_rank(comm), 0);
    assert_int_equal(lzt_comm_size(comm), 1);
    assert_string_equal(lzt_comm_name(comm), "self");
    const float from[4] = {1, -2, 3.5f, 4};
    float to[4] = {0};
    assert_int_equal(lzt_comm_all_reduce(comm, from, to, 4, LZT_DTYPE_F32, LZT_REDUCE_SUM, NULL, NULL), LZT_OK);
    assert_memory_equal(from, to, sizeof to);
    memset(to, 0, sizeof to);
    assert_int_equal(lzt_comm_reduce_scatter(comm, from, to, 3, LZT_DTYPE_F32, LZT_REDUCE_MAX, NULL, NULL), LZT_OK);
    assert_memory_equal(from, to, 12);
    assert_true(to[3] == 0);
    memset(to, 0, sizeof to);
    assert_int_equal(lzt_comm_all_gather(comm, from, to, 7, LZT_DTYPE_U16, NULL, NULL), LZT_OK);
    assert_memory_equal(from, to, 14);
    assert_int_equal(lzt_comm_all_reduce(comm, to, to, 4, LZT_DTYPE_BF16, LZT_REDUCE_SUM, NULL, NULL), LZT_OK);
    assert_int_equal(lzt_comm_all_reduce(comm, NULL, NULL, 0, LZT_DTYPE_F32, LZT_REDUCE_SUM, NULL, NULL), LZT_OK);
    assert_int_equal(lzt_comm_broadcast(comm, to, sizeof to, 0, NULL, NULL), LZT_OK);
    assert_int_equal(lzt_comm_barrier(comm, NULL, NULL), LZT_OK);
    lzt_comm_destroy(comm);
    lzt_comm_destroy(NULL);
}

static void broken_calls_are_refused(void **state)
{
    (void)state;
    lzt_comm *comm = make();
    float x[4] = {1, 2, 3, 4};
    lzt_error err;
    assert_int_equal(lzt_comm_all_reduce(comm, x, x + 1, 3, LZT_DTYPE_F32, LZT_REDUCE_SUM, NULL, &err),
                     LZT_ERR_INTERNAL);
    assert_string_equal(err.where, "all_reduce");
    assert_int_equal(lzt_comm_all_reduce(comm, x, x, 3, LZT_DTYPE_U8, LZT_REDUCE_SUM, NULL, &err), LZT_ERR_INTERNAL);
    assert_int_equal(lzt_comm_all_reduce(comm, x, x, 3, LZT_DTYPE_F32, LZT_REDUCE_COUNT, NULL, &err), LZT_ERR_INTERNAL);
    assert_int_equal(lzt_comm_all_gather(comm, x, x + 2, 3, LZT_DTYPE_F32, NULL, &err), LZT_ERR_INTERNAL);
    assert_int_equal(lzt_comm_all_gather(comm, x, x, 3, LZT_DTYPE_NONE, NULL, &err), LZT_ERR_INTERNAL);
    assert_int_equal(lzt_comm_reduce_scatter(comm, x, x, UINT64_MAX / 2, LZT_DTYPE_F32, LZT_REDUCE_SUM, NULL, &err),
                     LZT_ERR_INTERNAL);
    assert_int_equal(lzt_comm_broadcast(comm, x, 4, 1, NULL, &err), LZT_ERR_INTERNAL);
    assert_string_equal(err.where, "broadcast");
    assert_true(x[0] == 1 && x[1] == 2 && x[2] == 3 && x[3] == 4);
    lzt_comm_destroy(comm);
}

static void placements_of_three_ranks(void **state)
{
    (void)state;
    lzt_comm *self = make(), three = {.ops = self->ops, .rank = 1, .size = 3};
    float x[12] = {0};
    assert_int_equal(lzt_comm_all_gather(&three, x + 4, x, 4, LZT_DTYPE_F32, NULL, NULL), LZT_OK); /* in place */
    assert_int_equal(lzt_comm_all_gather(&three, x, x, 4, LZT_DTYPE_F32, NULL, NULL), LZT_ERR_INTERNAL);
    assert_int_equal(lzt_comm_reduce_scatter(&three, x, x + 4, 4, LZT_DTYPE_F32, LZT_REDUCE_SUM, NULL, NULL), LZT_OK);
    assert_int_equal(lzt_comm_reduce_scatter(&three, x, x + 8, 4, LZT_DTYPE_F32, LZT_REDUCE_SUM, NULL, NULL),
                     LZT_ERR_INTERNAL);
    lzt_comm_destroy(self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_copies),
        cmocka_unit_test(broken_calls_are_refused),
        cmocka_unit_test(placements_of_three_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
