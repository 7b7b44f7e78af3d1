/* The keys of metrics.jsonl: see metrics_names.h. docs/formats/metrics.md explains them. */
#include "report/metrics_names.h"

#include <assert.h>

static const char *const causes[LZT_CAUSE_COUNT] = {"compute",       "h2d",        "d2h",  "nvme_read", "nvme_write",
                                                    "cpu_optimizer", "checkpoint", "data", "other"};
static const char *const links[LZT_LINK_COUNT] = {"h2d", "d2h", "nvme_read", "nvme_write"};
static const char *const parts[LZT_PART_COUNT] = {"forward",   "backward", "clip",      "optimizer",
                                                  "zero_grad", "data",     "checkpoint"};
static const char *const memories[LZT_MEMORY_COUNT] = {"device", "host", "nvme"};

/* Busy lanes have no "other"; exposed causes have no "compute": that is what exposed means. */
static const char *const busy[LZT_CAUSE_COUNT] = {"compute",       "h2d",        "d2h",  "nvme_read", "nvme_write",
                                                  "cpu_optimizer", "checkpoint", "data", NULL};
static const char *const exposed[LZT_CAUSE_COUNT] = {
    NULL, "h2d", "d2h", "nvme_read", "nvme_write", "cpu_optimizer", "checkpoint", "data", "other"};

const char *lzt_cause_name(lzt_cause cause)
{
    assert((unsigned)cause < LZT_CAUSE_COUNT);
    return causes[cause];
}

const char *lzt_link_name(lzt_link link)
{
    assert((unsigned)link < LZT_LINK_COUNT);
    return links[link];
}

const char *lzt_part_name(lzt_part part)
{
    assert((unsigned)part < LZT_PART_COUNT);
    return parts[part];
}

const char *lzt_memory_name(lzt_memory memory)
{
    assert((unsigned)memory < LZT_MEMORY_COUNT);
    return memories[memory];
}

#define STEP(key, field, type)                                                                                         \
    {                                                                                                                  \
        key, offsetof(lzt_step_metrics, field), LZT_FIELD_##type                                                       \
    }
#define EVAL(key, field, type)                                                                                         \
    {                                                                                                                  \
        key, offsetof(lzt_eval_metrics, field), LZT_FIELD_##type                                                       \
    }
#define MEMORY(key, field, memory_)                                                                                    \
    {                                                                                                                  \
        key, offsetof(lzt_step_metrics, field) + memory_ * sizeof(uint64_t), LZT_FIELD_UINT                            \
    }

const lzt_metrics_field lzt__step_fields[] = {
    STEP("step", step, UINT),
    STEP("epoch", epoch, REAL),
    STEP("loss", loss, REAL),
    STEP("grad_norm", grad_norm, REAL),
    STEP("lr", lr, REAL),
    STEP("finite", finite, BOOL),
    STEP("skipped_steps", skipped_steps, UINT),
    STEP("nonfinite_steps", nonfinite_steps, UINT),
    STEP("step_seconds", step_seconds, REAL),
    STEP("tokens_padded", tokens_padded, UINT),
    STEP("tokens_real", tokens_real, UINT),
    STEP("tokens_loss", tokens_loss, UINT),
    STEP("loss_weight", loss_weight, REAL),
    STEP("model_flops", model_flops, REAL),
    STEP("hardware_flops", hardware_flops, REAL),
    MEMORY("peak_device_bytes", peak_bytes, LZT_MEMORY_DEVICE),
    MEMORY("planned_device_bytes", planned_bytes, LZT_MEMORY_DEVICE),
    MEMORY("cap_device_bytes", cap_bytes, LZT_MEMORY_DEVICE),
    MEMORY("peak_host_bytes", peak_bytes, LZT_MEMORY_HOST),
    MEMORY("planned_host_bytes", planned_bytes, LZT_MEMORY_HOST),
    MEMORY("cap_host_bytes", cap_bytes, LZT_MEMORY_HOST),
    MEMORY("peak_nvme_bytes", peak_bytes, LZT_MEMORY_NVME),
    MEMORY("planned_nvme_bytes", planned_bytes, LZT_MEMORY_NVME),
    MEMORY("cap_nvme_bytes", cap_bytes, LZT_MEMORY_NVME),
    STEP("rss_bytes", rss_bytes, UINT),
    STEP("predicted_step_seconds", predicted_step_seconds, REAL),
    STEP("predicted_rss_bytes", predicted_rss_bytes, UINT),
    STEP("layer_forwards", layer_forwards, UINT),
    STEP("weight_uploads", weight_uploads, UINT),
    STEP("data_waits", data_waits, UINT),
    STEP("data_wait_seconds", data_wait_seconds, REAL),
};
const int lzt__step_field_count = sizeof lzt__step_fields / sizeof lzt__step_fields[0];

const lzt_metrics_field lzt__eval_fields[] = {
    EVAL("step", step, UINT),
    EVAL("epoch", epoch, REAL),
    EVAL("eval_loss", eval_loss, REAL),
    EVAL("eval_tokens", eval_tokens, UINT),
    EVAL("eval_rows", eval_rows, UINT),
    EVAL("eval_loss_weight", eval_loss_weight, REAL),
    EVAL("eval_seconds", eval_seconds, REAL),
};
const int lzt__eval_field_count = sizeof lzt__eval_fields / sizeof lzt__eval_fields[0];

#define GROUP(key, field, is_uint_, names, count)                                                                      \
    {                                                                                                                  \
        key, offsetof(lzt_step_metrics, field), is_uint_, names, count                                                 \
    }

const lzt_metrics_group lzt__step_groups[] = {
    GROUP("bytes", link_bytes, true, links, LZT_LINK_COUNT),
    GROUP("busy_seconds", busy_seconds, false, busy, LZT_CAUSE_COUNT),
    GROUP("exposed_seconds", exposed_seconds, false, exposed, LZT_CAUSE_COUNT),
    GROUP("part_seconds", part_seconds, false, parts, LZT_PART_COUNT),
    GROUP("part_exposed_seconds", part_exposed_seconds, false, parts, LZT_PART_COUNT),
};
const int lzt__step_group_count = sizeof lzt__step_groups / sizeof lzt__step_groups[0];
