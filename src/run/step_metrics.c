/* From what the engine measured to what a step reports: see step_metrics.h. */
#include "run/step_metrics.h"

#include "base/resident.h"

/* Matrix products of one forward over tokens: the decoder layers', and the head's. */
static double forward_flops(const lzt_model_info *m, uint64_t tokens)
{
    double layers = 0;
    for (uint64_t l = 0; l < m->layer_count; l++) layers += m->layer[l].forward_flops_per_token;
    return (layers + 2.0 * (double)m->hidden * (double)m->vocabulary) * (double)tokens;
}

static void set_flops(const lzt_model_info *m, uint64_t layer_forwards, uint64_t micro_batches, lzt_step_metrics *out)
{
    double head = 2.0 * (double)m->hidden * (double)m->vocabulary * (double)out->tokens_real;
    double forward = forward_flops(m, out->tokens_real), layers = forward - head;
    double extra = (double)layer_forwards / (double)(m->layer_count * micro_batches) - 1.0;
    out->model_flops = 3.0 * forward;
    out->hardware_flops = out->model_flops + (extra > 0 ? extra * layers : 0.0);
}

static void set_queue(const char *name, const lzt_account *a, lzt_lane lane, double exposed, double step_seconds,
                      lzt_queue_metrics *queue)
{
    double busy = a->busy_seconds[lane], demand = (double)a->bytes[lane];
    *queue = (lzt_queue_metrics){.name = name,
                                 .demand = demand,
                                 .capacity = busy > 0 ? demand / busy : 0,
                                 .period_seconds = step_seconds - exposed,
                                 .depth_max = a->depth_max[lane]};
    queue->ratio = queue->period_seconds > 0 ? busy / queue->period_seconds : 0;
}

/* Lanes and causes have the same numbers (lazytrain/report.h), but for "other". */
static void set_times(const lzt_account *a, double step_seconds, const lzt_feed_stats *data, lzt_step_metrics *out)
{
    double known = data->wait_seconds;
    for (int cause = 0; cause < LZT_CAUSE_OTHER; cause++) {
        out->busy_seconds[cause] = a->busy_seconds[cause];
        out->exposed_seconds[cause] = cause == LZT_CAUSE_COMPUTE ? 0 : a->exposed_seconds[cause];
        known += cause == LZT_CAUSE_COMPUTE ? a->busy_seconds[cause] : a->exposed_seconds[cause];
    }
    out->exposed_seconds[LZT_CAUSE_DATA] += data->wait_seconds;
    out->busy_seconds[LZT_CAUSE_DATA] += data->busy_seconds;
    out->data_waits = data->waits;
    out->data_wait_seconds = data->wait_seconds;
    out->exposed_seconds[LZT_CAUSE_OTHER] = step_seconds > known ? step_seconds - known : 0;
}

static void set_parts(const lzt_account *a, lzt_step_metrics *out)
{
    out->part_seconds[LZT_PART_FORWARD] = a->forward_seconds;
    out->part_seconds[LZT_PART_BACKWARD] = a->backward_seconds;
    out->part_seconds[LZT_PART_CLIP] = a->host_seconds[LZT_HOST_NORM] + a->host_seconds[LZT_HOST_CLIP];
    out->part_seconds[LZT_PART_OPTIMIZER] = a->host_seconds[LZT_HOST_ADAMW];
    out->part_seconds[LZT_PART_ZERO_GRAD] = a->host_seconds[LZT_HOST_ZERO];
    out->part_seconds[LZT_PART_DATA] = out->busy_seconds[LZT_CAUSE_DATA];
    /* The optimizer lane's exposed wait, shared out by how long each of its operators ran. */
    double lane = a->busy_seconds[LZT_LANE_CPU_OPTIMIZER];
    double share = lane > 0 ? a->exposed_seconds[LZT_LANE_CPU_OPTIMIZER] / lane : 0;
    static const lzt_part host_parts[] = {LZT_PART_CLIP, LZT_PART_OPTIMIZER, LZT_PART_ZERO_GRAD};
    for (size_t i = 0; i < sizeof host_parts / sizeof *host_parts; i++)
        out->part_exposed_seconds[host_parts[i]] = share * out->part_seconds[host_parts[i]];
    out->part_exposed_seconds[LZT_PART_DATA] = out->exposed_seconds[LZT_CAUSE_DATA];
}

/* Batches made ahead: what the step took, at the rate at which the feed's thread makes them. */
static void set_feed(const lzt_feed_stats *data, double step_seconds, lzt_queue_metrics *queue)
{
    *queue = (lzt_queue_metrics){.name = "batches",
                                 .demand = (double)data->bytes,
                                 .capacity = data->busy_seconds > 0 ? (double)data->bytes / data->busy_seconds : 0,
                                 .period_seconds = step_seconds - data->wait_seconds,
                                 .depth_max = data->ready_max};
    queue->ratio = queue->period_seconds > 0 ? data->busy_seconds / queue->period_seconds : 0;
}

void lzt__step_metrics(const lzt_engine *engine, const lzt_account *a, double step_seconds, const lzt_feed_stats *data,
                       lzt_queue_metrics *queue, lzt_step_metrics *out)
{
    static const struct {
        const char *name;
        lzt_lane lane;
    } queues[LZT_STEP_QUEUES - 1] = {{"h2d", LZT_LANE_H2D},
                                     {"d2h", LZT_LANE_D2H},
                                     {"cpu_optimizer", LZT_LANE_CPU_OPTIMIZER},
                                     {"data", LZT_LANE_DATA},
                                     {"checkpoint", LZT_LANE_CHECKPOINT}};
    lzt_engine_info info;
    lzt_dev_info device;
    lzt_engine_get_info(engine, &info);
    lzt_dev_get_info(lzt_engine_dev(engine), &device);
    out->step_seconds = step_seconds;
    set_times(a, step_seconds, data, out);
    set_parts(a, out);
    uint64_t micro_batches = a->programs ? a->programs : 1;
    set_flops(info.model, a->layer_forwards, micro_batches, out);
    out->layer_forwards = a->layer_forwards;
    out->weight_uploads = a->weight_uploads;
    out->link_bytes[LZT_LINK_H2D] = a->bytes[LZT_LANE_H2D];
    out->link_bytes[LZT_LINK_D2H] = a->bytes[LZT_LANE_D2H];
    out->peak_bytes[LZT_MEMORY_DEVICE] = device.peak_bytes[LZT_SPACE_DEVICE];
    out->peak_bytes[LZT_MEMORY_HOST] = device.peak_bytes[LZT_SPACE_HOST];
    out->planned_bytes[LZT_MEMORY_DEVICE] = info.planned_bytes[LZT_SPACE_DEVICE];
    out->planned_bytes[LZT_MEMORY_HOST] = info.planned_bytes[LZT_SPACE_HOST];
    out->rss_bytes = lzt__resident_bytes();
    for (int i = 0; i < LZT_STEP_QUEUES - 1; i++)
        set_queue(queues[i].name, a, queues[i].lane, a->exposed_seconds[queues[i].lane], step_seconds, &queue[i]);
    set_feed(data, step_seconds, &queue[LZT_STEP_QUEUES - 1]);
    out->queue = queue;
    out->queue_count = LZT_STEP_QUEUES;
}
