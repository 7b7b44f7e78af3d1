/* Floating-point operations of an operator call, a multiply-add counted as two.
 *
 * Matrix products are exact. Attention counts the pairs of a single document of n tokens inside its window: documents
 * are known only to the batch. Elementwise operators count their multiplies and adds per element, exp as one.
 */
#include "lazytrain/kern.h"

/* pairs (query, key) of n tokens that see each other causally within the window (0: none) */
static double attention_pairs(double n, double window)
{
    if (window <= 0 || window >= n) return n * (n + 1) / 2;
    return window * (window + 1) / 2 + (n - window) * window;
}

static double chunk_rows(const lzt_kern_call *call, uint64_t tokens)
{
    uint64_t begin = call->dim[3], count = call->dim[4];
    if (tokens <= begin) return 0;
    return (double)(tokens - begin < count ? tokens - begin : count);
}

double lzt_op_flops(const lzt_kern_call *call, uint64_t token_count)
{
    double n = (double)token_count, d[LZT_KERN_DIMS];
    for (int i = 0; i < LZT_KERN_DIMS; i++) d[i] = (double)call->dim[i];
    switch (call->op) {
    case LZT_OP_RMSNORM_FWD: return n * d[1] * 4;
    case LZT_OP_RMSNORM_BWD: return n * d[1] * 8;
    case LZT_OP_LINEAR_FWD:
    case LZT_OP_LINEAR_BWD_X:
    case LZT_OP_LINEAR_BWD_W: return 2 * n * d[1] * d[2];
    case LZT_OP_HEAD_NORM_FWD: return n * (d[1] + d[2]) * d[3] * 4;
    case LZT_OP_HEAD_NORM_BWD: return n * (d[1] + d[2]) * d[3] * 8;
    case LZT_OP_ROPE: return n * d[1] * d[3] * 3;
    case LZT_OP_ATTENTION_FWD: return 4 * d[1] * d[3] * attention_pairs(n, d[7]);
    case LZT_OP_ATTENTION_BWD: return 10 * d[1] * d[3] * attention_pairs(n, d[7]);
    case LZT_OP_SWIGLU_FWD: return n * d[1] * 4;
    case LZT_OP_SWIGLU_BWD: return n * d[1] * 10;
    case LZT_OP_LOSS_CHUNK:
        return 2 * chunk_rows(call, token_count) * d[1] * d[2] * (1 + (call->ptr[4] != NULL) + (call->ptr[5] != NULL));
    case LZT_OP_GREEDY: return 2 * d[1] * d[2];
    case LZT_OP_LAYER_FWD:
    case LZT_OP_LAYER_BWD: return n * call->real[0] + call->real[1] * attention_pairs(n, d[2]);
    case LZT_OP_ATTENTION_CACHED: return 4 * n * d[1] * d[3] * (d[7] > 0 && d[7] < d[6] ? d[7] : d[6]);
    case LZT_OP_CACHE_STORE:
    case LZT_OP_ROPE_TABLE:
    case LZT_OP_CAST:
    case LZT_OP_NONE:
    case LZT_OP_COUNT: break;
    }
    return 0;
}
