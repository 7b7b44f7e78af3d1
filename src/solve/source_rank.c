/* One rank's options from its share of a topology: see lazytrain/solve.h. */
#include "lazytrain/solve.h"

#include <assert.h>

#define GIB 1073741824.0

static_assert((int)LZT_WAY_DOWN == LZT_POOL_D2H && (int)LZT_WAY_UP == LZT_POOL_H2D &&
                  (int)LZT_WAY_WRITE == LZT_POOL_NVME_WRITE && (int)LZT_WAY_READ == LZT_POOL_NVME_READ,
              "the ways of a topology are the pools of a problem");

static double least(double share, double option, bool is_stated)
{
    return is_stated && option < share ? option : share;
}

void lzt_source_for_rank(const lzt_source_options *base, const lzt_source_stated *stated, const lzt_rank_share *share,
                         lzt_source_options *o)
{
    *o = *base;
    double *const gbps[LZT_POOL_COUNT] = {&o->activation_d2h_bandwidth_gbps, &o->activation_h2d_bandwidth_gbps,
                                          &o->nvme_write_bandwidth_gbps, &o->nvme_read_bandwidth_gbps};
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++)
        if (share->bytes_per_s[pool])
            *gbps[pool] = least((double)share->bytes_per_s[pool] / 1e9, *gbps[pool], stated->bytes_per_s[pool]);
    if (share->bytes[LZT_STORE_GPU])
        o->peak_cap_gib = least((double)share->bytes[LZT_STORE_GPU] / GIB, o->peak_cap_gib, true);
    if (share->bytes[LZT_STORE_CPU])
        o->cpu_activation_budget_gib =
            least((double)share->bytes[LZT_STORE_CPU] / GIB, o->cpu_activation_budget_gib, stated->cpu_budget);
    if (share->bytes[LZT_STORE_NVME])
        o->nvme_activation_budget_gib =
            least((double)share->bytes[LZT_STORE_NVME] / GIB, o->nvme_activation_budget_gib, stated->nvme_budget);
}
