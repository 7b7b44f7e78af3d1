/* Learning-rate schedules: see lazytrain/optim.h. One function a family, each the factor on base_lr. */
#include "lazytrain/optim.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

static const char *const names[LZT_SCHEDULE_COUNT] = {
    [LZT_SCHEDULE_CONSTANT] = "constant",
    [LZT_SCHEDULE_CONSTANT_WITH_WARMUP] = "constant_with_warmup",
    [LZT_SCHEDULE_LINEAR] = "linear",
    [LZT_SCHEDULE_COSINE] = "cosine",
    [LZT_SCHEDULE_COSINE_WITH_RESTARTS] = "cosine_with_restarts",
    [LZT_SCHEDULE_COSINE_WITH_MIN_LR] = "cosine_with_min_lr",
    [LZT_SCHEDULE_INVERSE_SQRT] = "inverse_sqrt",
    [LZT_SCHEDULE_POLYNOMIAL] = "polynomial",
    [LZT_SCHEDULE_WARMUP_STABLE_DECAY] = "warmup_stable_decay",
};

const char *lzt_schedule_name(lzt_schedule_type type)
{
    assert(type >= 0 && type < LZT_SCHEDULE_COUNT);
    return names[type];
}

bool lzt_schedule_from_name(const char *name, lzt_schedule_type *type)
{
    for (int i = 0; i < LZT_SCHEDULE_COUNT; i++) {
        if (strcmp(name, names[i])) continue;
        *type = (lzt_schedule_type)i;
        return true;
    }
    return false;
}

static double at_least_0(double x)
{
    return x > 0 ? x : 0;
}

/* a - b, not below 1: the divisors of the formulas. */
static double span(uint64_t a, uint64_t b)
{
    return a > b ? (double)(a - b) : 1;
}

/* How much of the way from the end of the warm-up to the last step is done; above 1 past it. */
static double progress(const lzt_schedule *s, uint64_t step)
{
    return (double)(step - s->warmup_steps) / span(s->total_steps, s->warmup_steps);
}

static double min_ratio(const lzt_schedule *s)
{
    return s->min_lr > 0 ? s->min_lr / s->base_lr : s->min_lr_ratio;
}

static double cosine(double done, double cycles, double lowest)
{
    double factor = 0.5 * (1 + cos(pi * cycles * 2 * done));
    return at_least_0(factor * (1 - lowest) + lowest);
}

static double restarts(const lzt_schedule *s, uint64_t step)
{
    double done = progress(s, step), cycles = s->num_cycles > 0 ? s->num_cycles : 1;
    if (done >= 1) return 0;
    return at_least_0(0.5 * (1 + cos(pi * fmod(cycles * done, 1))));
}

static double inverse_sqrt(const lzt_schedule *s, uint64_t step)
{
    double scale = s->timescale ? (double)s->timescale : s->warmup_steps ? (double)s->warmup_steps : 10000;
    double shift = scale - (double)s->warmup_steps;
    return 1 / sqrt(((double)step + shift) / scale);
}

static double polynomial(const lzt_schedule *s, uint64_t step)
{
    if (step > s->total_steps) return s->lr_end / s->base_lr;
    double power = s->power > 0 ? s->power : 1;
    double range = s->base_lr - s->lr_end;
    return (range * pow(1 - progress(s, step), power) + s->lr_end) / s->base_lr;
}

/* Where the plateau ends and how long the decay is; both unset: the decay takes all that the warm-up leaves. */
static double stable_decay(const lzt_schedule *s, uint64_t step)
{
    uint64_t left = s->total_steps > s->warmup_steps ? s->total_steps - s->warmup_steps : 0;
    uint64_t stable = s->stable_steps, decay = s->decay_steps;
    if (!decay) decay = left > stable ? left - stable : 0;
    if (!stable) stable = left > decay ? left - decay : 0;
    uint64_t into = step - s->warmup_steps;
    if (into < stable) return 1;
    if (into < stable + decay)
        return cosine((double)(into - stable) / span(decay, 0), s->num_cycles > 0 ? s->num_cycles : 0.5, min_ratio(s));
    return min_ratio(s);
}

static double warmup(const lzt_schedule *s, uint64_t step)
{
    double factor = (double)step / (double)s->warmup_steps;
    if (s->type != LZT_SCHEDULE_WARMUP_STABLE_DECAY) return factor;
    return factor * (1 - min_ratio(s)) + min_ratio(s);
}

static double factor_of(const lzt_schedule *s, uint64_t step)
{
    double cycles = s->num_cycles > 0 ? s->num_cycles : 0.5;
    if (s->type == LZT_SCHEDULE_CONSTANT) return 1;
    if (step < s->warmup_steps) return warmup(s, step);
    switch (s->type) {
    case LZT_SCHEDULE_CONSTANT:
    case LZT_SCHEDULE_CONSTANT_WITH_WARMUP: return 1;
    case LZT_SCHEDULE_LINEAR:
        return at_least_0(((double)s->total_steps - (double)step) / span(s->total_steps, s->warmup_steps));
    case LZT_SCHEDULE_COSINE: return cosine(progress(s, step), cycles, 0);
    case LZT_SCHEDULE_COSINE_WITH_RESTARTS: return restarts(s, step);
    case LZT_SCHEDULE_COSINE_WITH_MIN_LR: return cosine(progress(s, step), cycles, min_ratio(s));
    case LZT_SCHEDULE_INVERSE_SQRT: return inverse_sqrt(s, step);
    case LZT_SCHEDULE_POLYNOMIAL: return polynomial(s, step);
    case LZT_SCHEDULE_WARMUP_STABLE_DECAY: return stable_decay(s, step);
    case LZT_SCHEDULE_COUNT: break;
    }
    assert(!"a schedule");
    return 0;
}

double lzt_schedule_lr(const lzt_schedule *schedule, uint64_t step)
{
    return schedule->base_lr * factor_of(schedule, step);
}
