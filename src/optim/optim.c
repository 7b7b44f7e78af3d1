/* The optimizer's handle: cuts arrays into parts for its team. See lazytrain/optim.h.
 *
 * Parts are whole grains of 4,096 elements; short arrays stay on the calling thread, for which waking the others would
 * take longer. Neither changes a result.
 */
#include "lazytrain/optim.h"

#include "base/team.h"
#include "optim/optim_code.h"

#include <assert.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { GRAIN = 4096, ALONE_MAX = 32768, SUM_BLOCKS = 1024, THREADS_MAX = 1024 };

struct lzt_optim {
    lzt_team *team;
    const lzt_optim_code *code;
    char description[64];
};

static uint32_t default_threads(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) return 1;
    uint32_t cores = (uint32_t)CPU_COUNT(&set);
    return cores < THREADS_MAX ? cores : THREADS_MAX;
}

lzt_status lzt_optim_create(const lzt_optim_options *options, lzt_optim **out, lzt_error *err)
{
    lzt_isa isa;
    if (options->struct_bytes != sizeof *options)
        return lzt_fail(err, LZT_ERR_USAGE, "lzt_optim_options", "struct_bytes is %llu, not %zu",
                        (unsigned long long)options->struct_bytes, sizeof *options);
    if (options->threads > THREADS_MAX)
        return lzt_fail(err, LZT_ERR_USAGE, "threads", "%u threads; at most %d", options->threads, THREADS_MAX);
    lzt_status status = lzt__isa_choose(options->isa, &isa, err);
    if (status) return status;
    lzt_optim *optim = calloc(1, sizeof *optim);
    if (!optim) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for an optimizer");
    uint32_t threads = options->threads ? options->threads : default_threads();
    status = lzt__team_create(threads, &optim->team, err);
    if (status) {
        free(optim);
        return status;
    }
    optim->code = LZT_ISA_PICK(lzt__isa_build(isa), lzt__optim_code);
    snprintf(optim->description, sizeof optim->description, "%s %u thread%s", lzt__isa_name(isa), threads,
             threads == 1 ? "" : "s");
    *out = optim;
    return LZT_OK;
}

void lzt_optim_destroy(lzt_optim *optim)
{
    if (!optim) return;
    lzt__team_destroy(optim->team);
    free(optim);
}

const char *lzt_optim_description(const lzt_optim *optim)
{
    return optim->description;
}

/* ---- loops over parts */

/* One call, cut into parts; which members are used depends on the body. */
typedef struct job {
    const lzt_optim_code *code;
    uint64_t count;
    lzt_dtype dtype, source_dtype;
    const lzt_optim_run *run;
    const lzt_adamw_coef *coef;
    const void *from, *from2;
    void *to, *to2;
    double *block_sum; /* [ceil(count / SQNORM_BLOCK)] */
} job;

static void spread(lzt_optim *optim, lzt_team_body *body, job *j)
{
    j->code = optim->code;
    if (j->count <= ALONE_MAX)
        body(j, 0, 1);
    else
        lzt__team_run(optim->team, body, j);
}

static void adamw_part(void *arg, uint32_t part, uint32_t part_count)
{
    job *j = arg;
    uint64_t begin, end;
    lzt__team_split(j->count, GRAIN, part, part_count, &begin, &end);
    j->code->adamw(j->run, j->coef, begin, end);
}

static void check_run(const lzt_optim_run *run)
{
    assert(run->master == LZT_MASTER_SPLIT || run->master == LZT_MASTER_F32);
    assert(run->grad_dtype == LZT_DTYPE_F32 || run->grad_dtype == LZT_DTYPE_BF16);
    assert(run->weight && run->grad && run->m && run->v);
    assert((run->master == LZT_MASTER_SPLIT) == (run->low != NULL));
    assert(run->master == LZT_MASTER_F32 || !run->bf16_copy);
}

void lzt_optim_adamw(lzt_optim *optim, const lzt_optim_run *run, const lzt_optim_step *step)
{
    if (step->skip || !run->count) return;
    check_run(run);
    assert(step->bias_correction1 > 0 && step->bias_correction2 > 0);
    const lzt_adamw_coef coef = {
        .clip = (float)step->clip_factor,
        .keep = (float)(1 - step->lr * run->weight_decay),
        .take1 = (float)(1 - step->beta1),
        .keep2 = (float)step->beta2,
        .take2 = (float)(1 - step->beta2),
        .root_c2 = (float)sqrt(step->bias_correction2),
        .eps = (float)step->eps,
        .rate = (float)(step->lr / step->bias_correction1),
    };
    job j = {.count = run->count, .run = run, .coef = &coef};
    spread(optim, adamw_part, &j);
}

static void sqnorm_part(void *arg, uint32_t part, uint32_t part_count)
{
    job *j = arg;
    uint64_t begin, end;
    lzt__team_split(j->count, SQNORM_BLOCK, part, part_count, &begin, &end);
    for (uint64_t i = begin; i < end; i += SQNORM_BLOCK) {
        uint64_t count = end - i < SQNORM_BLOCK ? end - i : SQNORM_BLOCK;
        j->block_sum[i / SQNORM_BLOCK] = j->dtype == LZT_DTYPE_BF16
                                             ? j->code->sqnorm_bf16((const uint16_t *)j->from + i, count)
                                             : j->code->sqnorm_f32((const float *)j->from + i, count);
    }
}

double lzt_optim_sqnorm(lzt_optim *optim, lzt_dtype dtype, const void *values, uint64_t count)
{
    assert(dtype == LZT_DTYPE_F32 || dtype == LZT_DTYPE_BF16);
    double sum = 0, block_sum[SUM_BLOCKS];
    uint64_t window = (uint64_t)SUM_BLOCKS * SQNORM_BLOCK;
    for (uint64_t at = 0; at < count; at += window) {
        uint64_t n = count - at < window ? count - at : window;
        job j = {.count = n,
                 .dtype = dtype,
                 .from = (const char *)values + at * lzt_dtype_bytes(dtype),
                 .block_sum = block_sum};
        spread(optim, sqnorm_part, &j);
        for (uint64_t b = 0; b < (n + SQNORM_BLOCK - 1) / SQNORM_BLOCK; b++) sum += block_sum[b];
    }
    return sum;
}

static void add_part(void *arg, uint32_t part, uint32_t part_count)
{
    job *j = arg;
    uint64_t begin, end;
    lzt__team_split(j->count, GRAIN, part, part_count, &begin, &end);
    if (j->dtype == LZT_DTYPE_BF16)
        j->code->add_bf16((uint16_t *)j->to + begin, (const uint16_t *)j->from + begin, end - begin);
    else if (j->source_dtype == LZT_DTYPE_BF16)
        j->code->add_f32_bf16((float *)j->to + begin, (const uint16_t *)j->from + begin, end - begin);
    else
        j->code->add_f32((float *)j->to + begin, (const float *)j->from + begin, end - begin);
}

void lzt_optim_add(lzt_optim *optim, lzt_dtype target_dtype, void *target, lzt_dtype source_dtype, const void *source,
                   uint64_t count)
{
    assert(target_dtype == LZT_DTYPE_F32 || target_dtype == LZT_DTYPE_BF16);
    assert(source_dtype == target_dtype || source_dtype == LZT_DTYPE_BF16);
    job j = {.count = count, .dtype = target_dtype, .source_dtype = source_dtype, .to = target, .from = source};
    spread(optim, add_part, &j);
}

static void split_part(void *arg, uint32_t part, uint32_t part_count)
{
    job *j = arg;
    uint64_t begin, end;
    lzt__team_split(j->count, GRAIN, part, part_count, &begin, &end);
    j->code->split((const float *)j->from + begin, (uint16_t *)j->to + begin, (int16_t *)j->to2 + begin, end - begin);
}

void lzt_optim_split(lzt_optim *optim, const float *weight, uint16_t *high, int16_t *low, uint64_t count)
{
    job j = {.count = count, .from = weight, .to = high, .to2 = low};
    spread(optim, split_part, &j);
}

static void join_part(void *arg, uint32_t part, uint32_t part_count)
{
    job *j = arg;
    uint64_t begin, end;
    lzt__team_split(j->count, GRAIN, part, part_count, &begin, &end);
    j->code->join((const uint16_t *)j->from + begin, (const int16_t *)j->from2 + begin, (float *)j->to + begin,
                  end - begin);
}

void lzt_optim_join(lzt_optim *optim, const uint16_t *high, const int16_t *low, float *weight, uint64_t count)
{
    job j = {.count = count, .from = high, .from2 = low, .to = weight};
    spread(optim, join_part, &j);
}

/* ---- scalars */

void lzt_optim_step_init(lzt_optim_step *step, double lr, double beta1, double beta2, double eps, uint64_t t)
{
    assert(t >= 1 && beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1);
    *step = (lzt_optim_step){.lr = lr,
                             .clip_factor = 1,
                             .beta1 = beta1,
                             .beta2 = beta2,
                             .eps = eps,
                             .bias_correction1 = 1 - pow(beta1, (double)t),
                             .bias_correction2 = 1 - pow(beta2, (double)t)};
}

double lzt_optim_clip_factor(double norm, double max_norm)
{
    if (max_norm <= 0) return 1;
    double factor = max_norm / (norm + 1e-6);
    return factor < 1 ? factor : 1;
}
