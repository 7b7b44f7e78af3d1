/* The config's schedule as the optimizer's. */
#include "lazytrain/optim.h"
#include "run/checkpoint.h"

#include <assert.h>

static lzt_schedule_type type_of(lzt_config_schedule type)
{
    switch (type) {
    case LZT_CONFIG_SCHEDULE_LINEAR: return LZT_SCHEDULE_LINEAR;
    case LZT_CONFIG_SCHEDULE_COSINE: return LZT_SCHEDULE_COSINE;
    case LZT_CONFIG_SCHEDULE_COSINE_WITH_MIN_LR: return LZT_SCHEDULE_COSINE_WITH_MIN_LR;
    case LZT_CONFIG_SCHEDULE_COSINE_WITH_RESTARTS: return LZT_SCHEDULE_COSINE_WITH_RESTARTS;
    case LZT_CONFIG_SCHEDULE_POLYNOMIAL: return LZT_SCHEDULE_POLYNOMIAL;
    case LZT_CONFIG_SCHEDULE_CONSTANT: return LZT_SCHEDULE_CONSTANT;
    case LZT_CONFIG_SCHEDULE_CONSTANT_WITH_WARMUP: return LZT_SCHEDULE_CONSTANT_WITH_WARMUP;
    case LZT_CONFIG_SCHEDULE_INVERSE_SQRT: return LZT_SCHEDULE_INVERSE_SQRT;
    case LZT_CONFIG_SCHEDULE_WARMUP_STABLE_DECAY: return LZT_SCHEDULE_WARMUP_STABLE_DECAY;
    }
    assert(!"a schedule without a formula");
    return LZT_SCHEDULE_CONSTANT;
}

double lzt__learning_rate(const lzt_config *c, uint64_t applied, uint64_t total)
{
    lzt_schedule schedule = {.type = type_of(c->lr_scheduler_type),
                             .base_lr = c->learning_rate,
                             .total_steps = total,
                             .warmup_steps = lzt_steps_of(c->warmup_steps, total),
                             .num_cycles = c->lr_num_cycles,
                             .min_lr = c->lr_min,
                             .min_lr_ratio = c->lr_min_rate,
                             .lr_end = c->lr_end,
                             .power = c->lr_power,
                             .timescale = c->lr_timescale,
                             .stable_steps = c->lr_num_stable_steps,
                             .decay_steps = c->lr_num_decay_steps};
    return lzt_schedule_lr(&schedule, applied);
}
