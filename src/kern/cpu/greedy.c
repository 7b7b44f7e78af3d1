/* The most likely next token of each document: logits of its last token, and the index of the largest.
 *
 * Documents go through the product in groups, so that scratch holds GROUP rows of logits and not one for each token.
 */
#include "kern/cpu/gemm.h"
#include "kern/cpu/kern_cpu.h"
#include "kern/cpu/loss_rows_isa.h"

#include <string.h>

enum { GROUP = 64 };

static uint64_t group_rows(const lzt_kern_call *call)
{
    return call->dim[0] < GROUP ? call->dim[0] : GROUP;
}

static lzt_gemm product(const lzt_kern_call *call, uint64_t rows, const void *h, float *logits)
{
    uint64_t hidden = call->dim[1], vocabulary = call->dim[2];
    return (lzt_gemm){.m = rows,
                      .n = vocabulary,
                      .k = hidden,
                      .a = h,
                      .b = call->ptr[2],
                      .c = logits,
                      .lda = hidden,
                      .ldb = hidden,
                      .ldc = vocabulary,
                      .a_dtype = call->dtype,
                      .b_dtype = call->dtype,
                      .c_dtype = LZT_DTYPE_F32,
                      .trans_b = true,
                      .rows_apart = true};
}

static uint64_t h_bytes(const lzt_kern_call *call)
{
    return lzt__scratch_align(group_rows(call) * call->dim[1] * lzt_dtype_bytes(call->dtype));
}

static uint64_t logit_bytes(const lzt_kern_call *call)
{
    return lzt__scratch_align(group_rows(call) * call->dim[2] * 4);
}

/* Scratch: the group's rows of h, its logits, the product's own. */
uint64_t lzt__cpu_greedy_scratch(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    lzt_gemm g = product(call, group_rows(call), NULL, NULL);
    return h_bytes(call) + logit_bytes(call) + lzt__gemm_scratch_bytes(kern, &g);
}

static lzt_status run_group(lzt_kern_cpu *kern, const lzt_kern_call *call, uint64_t first, uint64_t count,
                            lzt_error *err)
{
    char *h = call->scratch, *gemm = h + h_bytes(call) + logit_bytes(call);
    float *logits = call->ptr[4] ? (float *)call->ptr[4] + first * call->dim[2] : (float *)(h + h_bytes(call));
    const int32_t *document = lzt_batch_document(lzt__batch(call), call->dim[0]);
    uint64_t row_bytes = call->dim[1] * lzt_dtype_bytes(call->dtype);
    for (uint64_t d = 0; d < count; d++) {
        int32_t last = document[first + d + 1] - 1;
        if (last < 0 || (uint32_t)last >= lzt__batch(call)->token_count)
            return lzt_fail(err, LZT_ERR_INTERNAL, "greedy", "document %llu ends at token %d of %u",
                            (unsigned long long)(first + d), last + 1, lzt__batch(call)->token_count);
        memcpy(h + d * row_bytes, (const char *)call->ptr[1] + (uint64_t)last * row_bytes, row_bytes);
    }
    lzt_gemm g = product(call, count, h, logits);
    lzt_status status = lzt__gemm(kern, &g, gemm, call->scratch_bytes - (uint64_t)(gemm - (char *)call->scratch), err);
    if (status) return status;
    const lzt_loss_code *code = LZT_ISA_PICK(kern->build, lzt__loss_code);
    for (uint64_t d = 0; d < count; d++)
        ((int32_t *)call->ptr[3])[first + d] = (int32_t)code->argmax(logits + d * call->dim[2], call->dim[2]);
    return LZT_OK;
}

lzt_status lzt__cpu_greedy(lzt_kern_cpu *kern, const lzt_kern_call *call, lzt_error *err)
{
    uint64_t documents = lzt__batch(call)->document_count;
    if (documents > call->dim[0])
        return lzt_fail(err, LZT_ERR_INTERNAL, "greedy", "%llu documents in a batch of capacity %llu",
                        (unsigned long long)documents, (unsigned long long)call->dim[0]);
    for (uint64_t first = 0; first < documents; first += GROUP) {
        uint64_t count = documents - first < GROUP ? documents - first : GROUP;
        lzt_status status = run_group(kern, call, first, count, err);
        if (status) return status;
    }
    return LZT_OK;
}
