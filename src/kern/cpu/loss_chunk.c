/* One chunk of lm_head and cross-entropy, forward and backward at once.
 *
 * Only rows that bear loss are multiplied: they are gathered into scratch, and their gradients scattered back, so that
 * the prompts of instruction data cost nothing. With R such rows, in scratch:
 *
 *     rows int32[R], losses f64[R], h [R,H], dh [R,H], logits f32 [R,V] (overwritten by their gradient), product's own
 *
 *     logits = h w^T;   row by row: loss, dlogits;   dh = dlogits w;   dw (+)= dlogits^T h
 *
 * A row's loss and logit gradient are multiplied by its token's weight; one of 1 changes no bit of either. Rows are
 * independent and their losses are added in row order, so the result does not depend on the threads.
 */
#include "kern/cpu/gemm.h"
#include "kern/cpu/kern_cpu.h"
#include "kern/cpu/loss_rows_isa.h"

#include <assert.h>
#include <string.h>

typedef struct chunk {
    lzt_dtype dtype;
    uint64_t hidden, vocabulary;
    uint64_t begin, end, row_count; /* tokens of the chunk; those that bear loss */
    uint64_t capacity;              /* rows that there may be */
    const void *h, *w;
    void *dh;
    float *dw;
    bool first;
    float scale;
    const int32_t *target; /* of token 0 */
    const float *weight;   /* beside target */
    const lzt_loss_code *code;
    int32_t *rows;
    double *losses;
    char *packed_h, *packed_dh, *logits, *gemm;
    uint64_t gemm_bytes;
} chunk;

/* Offsets into scratch for as many rows as the chunk can have. */
typedef struct layout {
    uint64_t losses, h, dh, logits, gemm, total;
} layout;

static lzt_gemm logits_product(const chunk *c)
{
    return (lzt_gemm){.m = c->row_count,
                      .n = c->vocabulary,
                      .k = c->hidden,
                      .a = c->packed_h,
                      .b = c->w,
                      .c = c->logits,
                      .lda = c->hidden,
                      .ldb = c->hidden,
                      .ldc = c->vocabulary,
                      .a_dtype = c->dtype,
                      .b_dtype = c->dtype,
                      .c_dtype = LZT_DTYPE_F32,
                      .trans_b = true};
}

/* Row stride of the logit gradients: BF16 ones keep the rows of the F32 logits that they replace. */
static uint64_t gradient_stride(const chunk *c)
{
    return c->dtype == LZT_DTYPE_BF16 ? 2 * c->vocabulary : c->vocabulary;
}

static lzt_gemm dh_product(const chunk *c)
{
    return (lzt_gemm){.m = c->row_count,
                      .n = c->hidden,
                      .k = c->vocabulary,
                      .a = c->logits,
                      .b = c->w,
                      .c = c->packed_dh,
                      .lda = gradient_stride(c),
                      .ldb = c->hidden,
                      .ldc = c->hidden,
                      .a_dtype = c->dtype,
                      .b_dtype = c->dtype,
                      .c_dtype = c->dtype};
}

static lzt_gemm dw_product(const chunk *c)
{
    return (lzt_gemm){.m = c->vocabulary,
                      .n = c->hidden,
                      .k = c->row_count,
                      .a = c->logits,
                      .b = c->packed_h,
                      .c = c->dw,
                      .lda = gradient_stride(c),
                      .ldb = c->hidden,
                      .ldc = c->hidden,
                      .a_dtype = c->dtype,
                      .b_dtype = c->dtype,
                      .c_dtype = LZT_DTYPE_F32,
                      .trans_a = true,
                      .accumulate = !c->first,
                      .thin = c->capacity <= LZT_GEMM_THIN_K};
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t row_capacity(const lzt_kern_call *call)
{
    return call->dim[4] < call->dim[0] ? call->dim[4] : call->dim[0];
}

static layout scratch_layout(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    uint64_t rows = row_capacity(call);
    chunk c = {
        .dtype = call->dtype, .hidden = call->dim[1], .vocabulary = call->dim[2], .row_count = rows, .capacity = rows};
    uint64_t packed_bytes = lzt__scratch_align(rows * c.hidden * lzt_dtype_bytes(c.dtype));
    lzt_gemm logits = logits_product(&c), dh = dh_product(&c), dw = dw_product(&c);
    layout at;
    at.losses = lzt__scratch_align(4 * rows);
    at.h = at.losses + lzt__scratch_align(8 * rows);
    at.dh = at.h + packed_bytes;
    at.logits = at.dh + packed_bytes;
    at.gemm = at.logits + lzt__scratch_align(4 * rows * c.vocabulary);
    at.total = at.gemm + larger(lzt__gemm_scratch_bytes(kern, &logits),
                                larger(lzt__gemm_scratch_bytes(kern, &dh), lzt__gemm_scratch_bytes(kern, &dw)));
    return at;
}

uint64_t lzt__cpu_loss_chunk_scratch(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    return scratch_layout(kern, call).total;
}

static chunk open_chunk(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    const lzt_batch_header *batch = lzt__batch(call);
    layout at = scratch_layout(kern, call);
    char *scratch = call->scratch;
    chunk c = {.dtype = call->dtype,
               .hidden = call->dim[1],
               .vocabulary = call->dim[2],
               .begin = call->dim[3],
               .end = call->dim[3] + call->dim[4],
               .capacity = row_capacity(call),
               .h = call->ptr[1],
               .w = call->ptr[2],
               .dh = call->ptr[4],
               .dw = call->ptr[5],
               .first = call->dim[5] != 0,
               .scale = batch->loss_scale,
               .target = lzt_batch_target(batch, call->dim[0]),
               .weight = lzt_batch_weight(batch, call->dim[0]),
               .code = LZT_ISA_PICK(kern->build, lzt__loss_code),
               .rows = (int32_t *)scratch,
               .losses = (double *)(scratch + at.losses),
               .packed_h = scratch + at.h,
               .packed_dh = scratch + at.dh,
               .logits = scratch + at.logits,
               .gemm = scratch + at.gemm,
               .gemm_bytes = at.total - at.gemm};
    if (c.end > batch->token_count) c.end = batch->token_count;
    if (c.begin > c.end) c.begin = c.end;
    return c;
}

static lzt_status gather(chunk *c, lzt_error *err)
{
    uint64_t row_bytes = c->hidden * lzt_dtype_bytes(c->dtype);
    for (uint64_t t = c->begin; t < c->end; t++) {
        if (c->target[t] < 0) continue;
        if ((uint64_t)c->target[t] >= c->vocabulary)
            return lzt_fail(err, LZT_ERR_DATA, "loss_chunk", "token %llu has target %d; the vocabulary has %llu",
                            (unsigned long long)t, c->target[t], (unsigned long long)c->vocabulary);
        memcpy(c->packed_h + c->row_count * row_bytes, (const char *)c->h + t * row_bytes, row_bytes);
        c->rows[c->row_count++] = (int32_t)t;
    }
    return LZT_OK;
}

static void scatter(const chunk *c)
{
    uint64_t row_bytes = c->hidden * lzt_dtype_bytes(c->dtype), row = 0;
    for (uint64_t t = c->begin; t < c->end; t++) {
        char *to = (char *)c->dh + t * row_bytes;
        if (row < c->row_count && (uint64_t)c->rows[row] == t)
            memcpy(to, c->packed_dh + row++ * row_bytes, row_bytes);
        else
            memset(to, 0, row_bytes);
    }
}

static void loss_rows(void *arg, uint32_t part, uint32_t part_count)
{
    const chunk *c = arg;
    uint64_t begin, end;
    lzt__team_split(c->row_count, 1, part, part_count, &begin, &end);
    for (uint64_t r = begin; r < end; r++) {
        float weight = c->weight[c->rows[r]];
        double loss =
            c->code->row((float *)c->logits + r * c->vocabulary, c->vocabulary, (uint64_t)c->target[c->rows[r]],
                         c->dh || c->dw, c->dtype == LZT_DTYPE_BF16, weight * c->scale);
        c->losses[r] = (double)weight * loss;
    }
}

static lzt_status multiply(lzt_kern_cpu *kern, const chunk *c, lzt_gemm g, lzt_error *err)
{
    return lzt__gemm(kern, &g, c->gemm, c->gemm_bytes, err);
}

lzt_status lzt__cpu_loss_chunk(lzt_kern_cpu *kern, const lzt_kern_call *call, lzt_error *err)
{
    chunk c = open_chunk(kern, call);
    lzt_status status = gather(&c, err);
    if (!status) status = multiply(kern, &c, logits_product(&c), err);
    if (status) return status;
    lzt__team_run(kern->team, loss_rows, &c);
    double sum = 0;
    for (uint64_t r = 0; r < c.row_count; r++) sum += c.losses[r];
    double *loss = call->ptr[3];
    *loss = c.first ? sum : *loss + sum;
    if (c.dh && (status = multiply(kern, &c, dh_product(&c), err))) return status;
    if (c.dh) scatter(&c);
    /* without rows and not first there is nothing to add */
    if (c.dw && (c.row_count || c.first)) status = multiply(kern, &c, dw_product(&c), err);
    return status;
}
