/* The device contract's thin front: see lazytrain/dev.h. */
#include "lazytrain/dev.h"

#include <assert.h>
#include <string.h>

const char *lzt_lane_name(lzt_lane lane)
{
    static const char *const names[LZT_LANE_COUNT] = {
        [LZT_LANE_COMPUTE] = "compute",
        [LZT_LANE_H2D] = "h2d",
        [LZT_LANE_D2H] = "d2h",
        [LZT_LANE_NVME_READ] = "nvme_read",
        [LZT_LANE_NVME_WRITE] = "nvme_write",
        [LZT_LANE_CPU_OPTIMIZER] = "cpu_optimizer",
        [LZT_LANE_CHECKPOINT] = "checkpoint",
        [LZT_LANE_DATA] = "data",
        [LZT_LANE_COMM] = "comm",
    };
    assert(lane >= 0 && lane < LZT_LANE_COUNT);
    return names[lane];
}

void lzt_dev_destroy(lzt_dev *dev)
{
    if (dev) dev->ops->destroy(dev);
}

void lzt_dev_get_info(const lzt_dev *dev, lzt_dev_info *info)
{
    memset(info, 0, sizeof *info);
    dev->ops->info(dev, info);
}

lzt_status lzt_dev_reserve(lzt_dev *dev, lzt_space space, uint64_t bytes, lzt_error *err)
{
    assert(space >= 0 && space < LZT_SPACE_COUNT);
    return dev->ops->reserve(dev, space, bytes, err);
}

void *lzt_dev_address(const lzt_dev *dev, lzt_space space, uint64_t offset)
{
    assert(space >= 0 && space < LZT_SPACE_COUNT);
    return dev->ops->address(dev, space, offset);
}

lzt_status lzt_dev_stream_create(lzt_dev *dev, lzt_lane lane, uint32_t *stream, lzt_error *err)
{
    assert(lane >= 0 && lane < LZT_LANE_COUNT);
    return dev->ops->stream_create(dev, lane, stream, err);
}

lzt_status lzt_dev_submit(lzt_dev *dev, uint32_t stream, lzt_work *work, uint64_t *sequence, lzt_error *err)
{
    assert(work && work->name);
    return dev->ops->submit(dev, stream, work, sequence, err);
}

lzt_status lzt_dev_wait(lzt_dev *dev, uint32_t stream, uint64_t sequence, lzt_error *err)
{
    return dev->ops->wait(dev, stream, sequence, err);
}

uint64_t lzt_dev_finding_count(const lzt_dev *dev)
{
    return dev->ops->finding_count ? dev->ops->finding_count(dev) : 0;
}

bool lzt_dev_finding(const lzt_dev *dev, uint64_t index, lzt_finding *finding)
{
    return dev->ops->finding && dev->ops->finding(dev, index, finding);
}
