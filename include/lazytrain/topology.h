/* The topology: the resources that several GPUs share, as pools. Plain data, a JSON file that a person writes.
 *
 *     {"pools": [
 *       {"name": "gpu0",  "kind": "gpu_link",     "bytes_per_second": 25e9, "bytes": 85899345920,   "ranks": [0]},
 *       {"name": "gpu1",  "kind": "gpu_link",     "bytes_per_second": 25e9, "bytes": 85899345920,   "ranks": [1]},
 *       {"name": "root0", "kind": "root_complex", "bytes_per_second": 40e9, "bytes": 0,             "ranks": [0, 1]},
 *       {"name": "node0", "kind": "socket",       "bytes_per_second": 150e9, "bytes": 274877906944, "ranks": [0, 1]},
 *       {"name": "nvme0", "kind": "nvme",         "bytes_per_second": 3e9,  "bytes": 1099511627776, "ranks": [0, 1]}
 *     ]}
 *
 * A rank is a GPU. A pool is shared equally by its ranks: each may count on bytes_per_second / ranks in each direction,
 * and on bytes / ranks of its capacity (0 or absent: not stated, no limit). What a rank moves passes through all pools
 * on its way, so the least share is its rate. A rank that no pool of a way names has no limit there.
 *
 *     lzt_topology topology;
 *     lzt_topology_read("node.json", 2, &topology, &err);
 *     lzt_topology_share_of(&topology, 1, &share);
 *     lzt_topology_fini(&topology);
 *
 * Threads: plain data. Ownership: fini frees what read made.
 */
#ifndef LAZYTRAIN_TOPOLOGY_H
#define LAZYTRAIN_TOPOLOGY_H

#include "lazytrain/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LZT_TOPOLOGY_BYTES_MAX (UINT64_C(4) << 20) /* a larger file is refused */
#define LZT_TOPOLOGY_POOLS_MAX UINT64_C(4096)
#define LZT_TOPOLOGY_RANKS_MAX UINT64_C(4096)

/* Direction by direction: what a pool of the kind carries, and what its bytes hold. */
typedef enum lzt_pool_kind {
    LZT_KIND_GPU_LINK = 0, /* one GPU's PCIe link: up and down; bytes: the GPU's memory */
    LZT_KIND_GPU_LINK_UP,  /* the same where the directions differ: host to GPU */
    LZT_KIND_GPU_LINK_DOWN,
    LZT_KIND_ROOT_COMPLEX, /* what the links below a root complex, or a switch, share: up and down */
    LZT_KIND_SOCKET,       /* a CPU socket's memory: up and down; bytes: CPU memory for activations */
    LZT_KIND_NVME,         /* one drive: read and write; bytes: its space for activations */
    LZT_KIND_NVME_READ,
    LZT_KIND_NVME_WRITE,
    LZT_KIND_NVLINK, /* between GPUs: checked and shown; the plan of a rank moves nothing there */
    LZT_KIND_COUNT
} lzt_pool_kind;

/* "gpu_link", "gpu_link_up", "gpu_link_down", "root_complex", "socket", "nvme", "nvme_read", "nvme_write", "nvlink".
 * Never NULL. */
LZT_EXPORT const char *lzt_pool_kind_name(lzt_pool_kind kind);

typedef struct lzt_topology_pool {
    char name[64];
    lzt_pool_kind kind;
    uint64_t bytes_per_s; /* in each direction: >= 1 */
    uint64_t bytes;       /* 0: not stated */
    uint32_t *rank;       /* [rank_count] increasing */
    uint32_t rank_count;  /* >= 1 */
} lzt_topology_pool;

typedef struct lzt_topology {
    lzt_topology_pool *pool; /* [pool_count] in the file's order */
    uint64_t pool_count;
    uint32_t world_size;
} lzt_topology;

/* What a rank may count on. Ways in the order of lzt_pool (lazytrain/problem.h), tiers in that of lzt_tier. */
enum { LZT_WAY_DOWN = 0, LZT_WAY_UP, LZT_WAY_WRITE, LZT_WAY_READ, LZT_WAY_COUNT };
enum { LZT_STORE_GPU = 0, LZT_STORE_CPU, LZT_STORE_NVME, LZT_STORE_COUNT };

typedef struct lzt_rank_share {
    uint64_t bytes_per_s[LZT_WAY_COUNT]; /* the least share on the way, rounded down; 0: no pool on it */
    int32_t narrowest[LZT_WAY_COUNT];    /* the pool that has it; -1: none */
    uint64_t bytes[LZT_STORE_COUNT];     /* rounded down; 0: not stated */
    int32_t holder[LZT_STORE_COUNT];     /* the pool that has them; -1: none */
} lzt_rank_share;

/* Reads a topology for world_size ranks. Strict: an unknown key or kind, a name used twice, a rate below one byte per
 * second, a rank twice in a pool, in two pools that carry the same way (but nvlink), or not below world_size is
 * LZT_ERR_USAGE with the file and the place. On error *topology is zeroed. blocks: on disk */
LZT_EXPORT lzt_status lzt_topology_read(const char *path, uint32_t world_size, lzt_topology *topology, lzt_error *err);
/* The same from memory; where names the text in messages. */
LZT_EXPORT lzt_status lzt_topology_parse(const char *text, uint64_t text_bytes, const char *where, uint32_t world_size,
                                         lzt_topology *topology, lzt_error *err);
LZT_EXPORT void lzt_topology_fini(lzt_topology *topology); /* a zeroed topology is allowed */

/* rank < world_size. */
LZT_EXPORT void lzt_topology_share_of(const lzt_topology *topology, uint32_t rank, lzt_rank_share *share);

#ifdef __cplusplus
}
#endif
#endif
