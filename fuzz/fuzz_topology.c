/* The topology file: whatever the text, parse ends with a topology or an error; every rank's share of one is in range.
 */
#include "lazytrain/topology.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { WORLD = 4 };
    lzt_topology topology;
    lzt_rank_share share;
    lzt_error err;
    if (lzt_topology_parse((const char *)data, size, "fuzz", WORLD, &topology, &err)) {
        assert(!topology.pool && !topology.pool_count);
        return 0;
    }
    assert(topology.pool_count);
    for (uint32_t rank = 0; rank < WORLD; rank++) {
        lzt_topology_share_of(&topology, rank, &share);
        for (int way = 0; way < LZT_WAY_COUNT; way++) {
            int32_t pool = share.narrowest[way];
            assert((pool < 0) == (share.bytes_per_s[way] == 0));
            assert(pool < 0 || share.bytes_per_s[way] <= topology.pool[pool].bytes_per_s);
        }
    }
    lzt_topology_fini(&topology);
    return 0;
}
