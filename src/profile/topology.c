/* The topology file, and what it leaves to each rank: see lazytrain/topology.h. */
#include "lazytrain/topology.h"

#include "base/os.h"
#include "profile/json_read.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define RATE_MAX  1e15
#define BYTES_MAX (UINT64_C(1) << 60)
#define NO_STORE  -1

/* ways: a bit for each that the kind carries; two pools of one layer must not carry one way of one rank. */
static const struct {
    const char *name;
    unsigned ways;
    int layer, store;
} kinds[LZT_KIND_COUNT] = {
    [LZT_KIND_GPU_LINK] = {"gpu_link", 1 << LZT_WAY_DOWN | 1 << LZT_WAY_UP, 0, LZT_STORE_GPU},
    [LZT_KIND_GPU_LINK_UP] = {"gpu_link_up", 1 << LZT_WAY_UP, 0, NO_STORE},
    [LZT_KIND_GPU_LINK_DOWN] = {"gpu_link_down", 1 << LZT_WAY_DOWN, 0, NO_STORE},
    [LZT_KIND_ROOT_COMPLEX] = {"root_complex", 1 << LZT_WAY_DOWN | 1 << LZT_WAY_UP, 1, NO_STORE},
    [LZT_KIND_SOCKET] = {"socket", 1 << LZT_WAY_DOWN | 1 << LZT_WAY_UP, 2, LZT_STORE_CPU},
    [LZT_KIND_NVME] = {"nvme", 1 << LZT_WAY_WRITE | 1 << LZT_WAY_READ, 3, LZT_STORE_NVME},
    [LZT_KIND_NVME_READ] = {"nvme_read", 1 << LZT_WAY_READ, 3, NO_STORE},
    [LZT_KIND_NVME_WRITE] = {"nvme_write", 1 << LZT_WAY_WRITE, 3, LZT_STORE_NVME},
    [LZT_KIND_NVLINK] = {"nvlink", 0, 4, NO_STORE},
};

const char *lzt_pool_kind_name(lzt_pool_kind kind)
{
    assert(kind >= 0 && kind < LZT_KIND_COUNT);
    return kinds[kind].name;
}

void lzt_topology_fini(lzt_topology *topology)
{
    for (uint64_t i = 0; i < topology->pool_count; i++) free(topology->pool[i].rank);
    free(topology->pool);
    memset(topology, 0, sizeof *topology);
}

/* ---- reading ---- */

static lzt_pool_kind read_kind(const lzt__json_node *item)
{
    const char *names[LZT_KIND_COUNT];
    lzt__json_node kind = lzt__json_member(item, "kind");
    for (int k = 0; k < LZT_KIND_COUNT; k++) names[k] = kinds[k].name;
    return (lzt_pool_kind)lzt__json_as_choice(&kind, names, LZT_KIND_COUNT);
}

static lzt_status read_ranks(const lzt__json_node *item, uint32_t world_size, lzt_topology_pool *pool, lzt_error *err)
{
    lzt__json_node list = lzt__json_member(item, "ranks");
    uint64_t count = lzt__json_length(&list, 1, LZT_TOPOLOGY_RANKS_MAX);
    if (!count) return list.reader->status;
    pool->rank = calloc(count, sizeof *pool->rank);
    if (!pool->rank) return lzt_fail(err, LZT_ERR_NO_MEMORY, "topology", "no memory for %" PRIu64 " ranks", count);
    for (uint64_t i = 0; i < count; i++) {
        lzt__json_node at = lzt__json_element(&list, i);
        uint32_t rank = (uint32_t)lzt__json_as_u64(&at, 0, UINT32_MAX);
        if (rank >= world_size)
            lzt__json_fail(&at, "is rank %u, but there are %u ranks: 0 to %u", rank, world_size, world_size - 1);
        for (uint64_t k = 0; k < i; k++)
            if (pool->rank[k] == rank) lzt__json_fail(&at, "is rank %u a second time", rank);
        if (list.reader->status) return list.reader->status;
        uint64_t to = i; /* kept in order */
        for (; to && pool->rank[to - 1] > rank; to--) pool->rank[to] = pool->rank[to - 1];
        pool->rank[to] = rank;
    }
    pool->rank_count = (uint32_t)count;
    return LZT_OK;
}

static bool has_rank(const lzt_topology_pool *pool, uint32_t rank)
{
    for (uint32_t i = 0; i < pool->rank_count; i++)
        if (pool->rank[i] == rank) return true;
    return false;
}

/* Two pools of one layer share no rank on a way that both carry: it would not be known which one the rank uses. */
static void check_overlap(const lzt__json_node *item, const lzt_topology *t, const lzt_topology_pool *pool)
{
    lzt__json_node name = lzt__json_member(item, "name"), ranks = lzt__json_member(item, "ranks");
    for (uint64_t i = 0; i < t->pool_count && !item->reader->status; i++) {
        const lzt_topology_pool *other = &t->pool[i];
        if (!strcmp(other->name, pool->name))
            lzt__json_fail(&name, "is \"%s\", as pools[%" PRIu64 "] is", pool->name, i);
        bool same_layer = kinds[other->kind].layer == kinds[pool->kind].layer;
        if (!same_layer || !(kinds[other->kind].ways & kinds[pool->kind].ways)) continue;
        for (uint32_t k = 0; k < pool->rank_count; k++)
            if (has_rank(other, pool->rank[k]))
                lzt__json_fail(&ranks, "overlap: rank %u is in pools[%" PRIu64 "] (%s, %s) already", pool->rank[k], i,
                               other->name, kinds[other->kind].name);
    }
}

static lzt_status read_pool(const lzt__json_node *item, lzt_topology *t, lzt_error *err)
{
    lzt_topology_pool *pool = &t->pool[t->pool_count];
    lzt__json_keys(item, "name kind bytes_per_second bytes? ranks");
    *pool = (lzt_topology_pool){.kind = read_kind(item)};
    lzt__json_text(item, "name", pool->name, sizeof pool->name);
    lzt__json_node name = lzt__json_member(item, "name");
    if (!item->reader->status && !pool->name[0]) lzt__json_fail(&name, "is empty");
    pool->bytes_per_s = (uint64_t)lzt__json_real(item, "bytes_per_second", 1, RATE_MAX);
    if (lzt__json_has(item, "bytes")) {
        lzt__json_node bytes = lzt__json_member(item, "bytes"); /* 80e9 is allowed, as for the rate */
        pool->bytes = (uint64_t)lzt__json_as_real(&bytes, 0, (double)BYTES_MAX);
    }
    if (item->reader->status) return item->reader->status;
    lzt_status status = read_ranks(item, t->world_size, pool, err);
    if (!status) check_overlap(item, t, pool);
    if (!status) status = item->reader->status;
    if (status)
        free(pool->rank);
    else
        t->pool_count++;
    return status;
}

static lzt_status read_topology(const lzt__json_node *root, lzt_topology *t, lzt_error *err)
{
    static const char *const format[] = {"lazytrain-topology"};
    lzt__json_keys(root, "format? version? pools");
    lzt__json_node list = lzt__json_member(root, "pools");
    if (lzt__json_has(root, "format")) {
        lzt__json_node name = lzt__json_member(root, "format");
        lzt__json_as_choice(&name, format, 1);
    }
    if (lzt__json_has(root, "version")) lzt__json_u64(root, "version", 1, 1);
    uint64_t count = lzt__json_length(&list, 1, LZT_TOPOLOGY_POOLS_MAX);
    if (root->reader->status) return root->reader->status;
    t->pool = calloc(count, sizeof *t->pool);
    if (!t->pool) return lzt_fail(err, LZT_ERR_NO_MEMORY, "topology", "no memory for %" PRIu64 " pools", count);
    lzt_status status = LZT_OK;
    for (uint64_t i = 0; i < count && !status; i++) {
        lzt__json_node item = lzt__json_element(&list, i);
        status = read_pool(&item, t, err);
    }
    return status;
}

lzt_status lzt_topology_parse(const char *text, uint64_t text_bytes, const char *where, uint32_t world_size,
                              lzt_topology *topology, lzt_error *err)
{
    lzt__json_reader reader;
    *topology = (lzt_topology){.world_size = world_size};
    if (world_size < 1 || world_size > LZT_TOPOLOGY_RANKS_MAX)
        return lzt_fail(err, LZT_ERR_USAGE, "world size", "is %u, must be 1 to %" PRIu64, world_size,
                        LZT_TOPOLOGY_RANKS_MAX);
    if (text_bytes > LZT_TOPOLOGY_BYTES_MAX)
        return lzt_fail(err, LZT_ERR_USAGE, where, "is larger than %" PRIu64 " bytes", LZT_TOPOLOGY_BYTES_MAX);
    lzt_status status = lzt__json_begin(&reader, text, text_bytes, where, LZT_ERR_USAGE, err);
    if (status) return status;
    lzt__json_node root = lzt__json_root(&reader);
    status = read_topology(&root, topology, err);
    lzt_status read = lzt__json_end(&reader);
    if (!status) status = read;
    if (status) lzt_topology_fini(topology);
    return status;
}

lzt_status lzt_topology_read(const char *path, uint32_t world_size, lzt_topology *topology, lzt_error *err)
{
    char *text = NULL;
    uint64_t text_bytes = 0;
    memset(topology, 0, sizeof *topology);
    lzt_status status = lzt__os_read_file(lzt__os_posix(), path, LZT_TOPOLOGY_BYTES_MAX, &text, &text_bytes, err);
    if (status == LZT_ERR_STORAGE && err) err->status = LZT_ERR_USAGE; /* the path comes from the user */
    if (status) return status == LZT_ERR_STORAGE ? LZT_ERR_USAGE : status;
    status = lzt_topology_parse(text, text_bytes, path, world_size, topology, err);
    free(text);
    return status;
}

/* ---- sharing ---- */

void lzt_topology_share_of(const lzt_topology *t, uint32_t rank, lzt_rank_share *share)
{
    assert(rank < t->world_size);
    *share = (lzt_rank_share){{0}, {-1, -1, -1, -1}, {0}, {-1, -1, -1}};
    for (uint64_t i = 0; i < t->pool_count; i++) {
        const lzt_topology_pool *pool = &t->pool[i];
        if (!has_rank(pool, rank)) continue;
        uint64_t rate = pool->bytes_per_s / pool->rank_count;
        if (!rate) rate = 1; /* a share of less than a byte a second is the slowest that can be said */
        for (int way = 0; way < LZT_WAY_COUNT; way++) {
            if (!(kinds[pool->kind].ways >> way & 1)) continue;
            if (share->narrowest[way] >= 0 && share->bytes_per_s[way] <= rate) continue;
            share->bytes_per_s[way] = rate;
            share->narrowest[way] = (int32_t)i;
        }
        int store = kinds[pool->kind].store;
        if (store == NO_STORE || !pool->bytes) continue;
        share->bytes[store] = pool->bytes / pool->rank_count;
        share->holder[store] = (int32_t)i;
    }
}
