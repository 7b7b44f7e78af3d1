/* How long a step will take: see predict.h. A profile of the machine will say it better (lazytrain probe). */
#include "cli/predict.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

typedef struct rates {
    double flops_per_s, bytes_per_s; /* of compute, and of plain copies */
} rates;

enum { MEASURE_NS = 100000000, COPY_REPEATS = 5 };

/* One product of the model's own widths, again and again; the best counts: a small one is shorter than a thread's
 * wake-up, or a neighbour's time slice. */
static lzt_status measure_product(const lzt_session *s, double *flops_per_s, lzt_error *err)
{
    uint64_t tokens = s->numerics.micro_batch_tokens < 512 ? s->numerics.micro_batch_tokens : 512;
    uint64_t k = s->info->hidden, n = s->info->intermediate, e = lzt_dtype_bytes(s->numerics.dtype);
    lzt_kern_call call = {.op = LZT_OP_LINEAR_FWD, .dtype = s->numerics.dtype, .grad_dtype = s->numerics.grad_dtype};
    call.dim[0] = tokens;
    call.dim[1] = k;
    call.dim[2] = n;
    uint64_t scratch = lzt_kern_scratch_bytes(s->kern, &call);
    char *memory =
        aligned_alloc(64, (lzt_batch_bytes(tokens) + (tokens * k + n * k + tokens * n) * e + scratch + 1023) / 64 * 64);
    if (!memory) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to measure a product");
    memset(memory, 0, lzt_batch_bytes(tokens) + (tokens * k + n * k) * e);
    char *at = memory;
    *(lzt_batch_header *)at = (lzt_batch_header){.token_count = (uint32_t)tokens, .document_count = 1};
    call.ptr[0] = at;
    at += (lzt_batch_bytes(tokens) + 63) / 64 * 64;
    call.ptr[1] = at;
    call.ptr[2] = at += (tokens * k * e + 63) / 64 * 64;
    call.ptr[5] = at += (n * k * e + 63) / 64 * 64;
    call.scratch = at + (tokens * n * e + 63) / 64 * 64;
    call.scratch_bytes = scratch;
    lzt_status status = lzt_kern_run(s->kern, &call, NULL, err);
    uint64_t best_ns = UINT64_MAX, first = lzt__clock_ns(), begin = first;
    while (!status && begin - first < MEASURE_NS) {
        status = lzt_kern_run(s->kern, &call, NULL, err);
        uint64_t end = lzt__clock_ns();
        if (end - begin < best_ns) best_ns = end - begin;
        begin = end;
    }
    *flops_per_s = lzt_op_flops(&call, tokens) / lzt__clock_seconds(best_ns + 1);
    free(memory);
    return status;
}

static lzt_status measure_copy(double *bytes_per_s, lzt_error *err)
{
    size_t bytes = 32 << 20;
    char *memory = malloc(2 * bytes);
    if (!memory) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to measure a copy");
    memset(memory, 1, 2 * bytes);
    uint64_t best_ns = UINT64_MAX;
    for (int i = 0; i < COPY_REPEATS; i++) {
        uint64_t begin = lzt__clock_ns();
        memcpy(memory, memory + bytes, bytes);
        uint64_t taken = lzt__clock_ns() - begin;
        if (taken < best_ns) best_ns = taken;
    }
    *bytes_per_s = (double)bytes / lzt__clock_seconds(best_ns + 1);
    free(memory);
    return LZT_OK;
}

/* Of a kernel task with a full micro-batch. lzt_op_flops takes the tokens for one document: attention over rows of
 * equal length is that many times less. */
static double operations(const lzt_session *s, const lzt_program_info *p, const lzt_task *t)
{
    lzt_kern_call call = {.op = t->op, .dtype = t->dtype, .grad_dtype = t->grad_dtype};
    memcpy(call.dim, t->dim, sizeof call.dim);
    for (uint32_t i = 0; i < t->operand_count; i++) {
        const lzt_operand *u = &p->operand[t->first_operand + i];
        if (u->slot != LZT_SLOT_SCRATCH) call.ptr[u->slot] = &call; /* only whether it is there counts */
    }
    double flops = lzt_op_flops(&call, s->numerics.micro_batch_tokens);
    bool attention = t->op == LZT_OP_ATTENTION_FWD || t->op == LZT_OP_ATTENTION_BWD;
    return attention ? flops / (double)s->config->per_device_train_batch_size : flops;
}

static double task_seconds(const lzt_session *s, const lzt_program_info *p, const lzt_task *t, const rates *r)
{
    double bytes = 0, link = s->config->memory.link_gbps * 1e9;
    for (uint32_t i = 0; i < t->operand_count; i++) bytes += (double)p->operand[t->first_operand + i].bytes;
    if (!t->op && !t->host_op) return bytes / 2 / (link > 0 && link < r->bytes_per_s ? link : r->bytes_per_s);
    if (t->host_op) return bytes / (2 * r->bytes_per_s);
    double seconds = operations(s, p, t) / r->flops_per_s + bytes / (4 * r->bytes_per_s);
    return seconds * s->config->memory.compute_slowdown;
}

static lzt_status simulate(const lzt_session *s, lzt_variant variant, bool update, const rates *r, double *seconds,
                           lzt_error *err)
{
    lzt_state_layout *layout;
    lzt_program *program;
    lzt_status status = lzt_state_layout_create(s->info, &s->numerics, true, &layout, err);
    if (status) return status;
    lzt_step_options options = {.model = s->info,
                                .plan = &s->plan,
                                .layout = layout,
                                .kern = s->kern,
                                .variant = variant,
                                .update = update,
                                .micro_batches = s->caps.micro_batches};
    status = lzt_step_compile(&options, &program, err);
    lzt_state_layout_destroy(layout);
    if (status) return status;
    const lzt_program_info *p = lzt_program_get_info(program);
    double *each = malloc((p->task_count + 1) * sizeof *each);
    if (each) {
        for (uint32_t i = 0; i < p->task_count; i++) each[i] = task_seconds(s, p, &p->task[i], r);
        *seconds = lzt_program_simulate(program, each, false, NULL, NULL);
    }
    free(each);
    lzt_program_destroy(program);
    return each ? LZT_OK : lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to simulate a step");
}

lzt_status lzt_predict_step_seconds(const lzt_session *s, double *seconds, lzt_error *err)
{
    rates r;
    double part = 0;
    uint64_t m = s->caps.micro_batches;
    lzt_status status = measure_product(s, &r.flops_per_s, err);
    if (!status) status = measure_copy(&r.bytes_per_s, err);
    if (status) return status;
    if (m == 1) return simulate(s, LZT_VARIANT_SINGLE, true, &r, seconds, err);
    status = simulate(s, LZT_VARIANT_FIRST, true, &r, seconds, err);
    if (!status) status = simulate(s, LZT_VARIANT_LAST, false, &r, &part, err);
    *seconds += part;
    if (!status && m > 2) status = simulate(s, LZT_VARIANT_MIDDLE, false, &r, &part, err);
    if (m > 2) *seconds += part * (double)(m - 2);
    return status;
}
