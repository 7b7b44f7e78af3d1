/* Names of operators, as metrics and traces spell them. */
#include "lazytrain/kern.h"

static const char *const names[LZT_OP_COUNT] = {
    [LZT_OP_NONE] = "none",
    [LZT_OP_ROPE_TABLE] = "rope_table",
    [LZT_OP_RMSNORM_FWD] = "rmsnorm_fwd",
    [LZT_OP_RMSNORM_BWD] = "rmsnorm_bwd",
    [LZT_OP_LINEAR_FWD] = "linear_fwd",
    [LZT_OP_LINEAR_BWD_X] = "linear_bwd_x",
    [LZT_OP_LINEAR_BWD_W] = "linear_bwd_w",
    [LZT_OP_HEAD_NORM_FWD] = "head_norm_fwd",
    [LZT_OP_HEAD_NORM_BWD] = "head_norm_bwd",
    [LZT_OP_ROPE] = "rope",
    [LZT_OP_ATTENTION_FWD] = "attention_fwd",
    [LZT_OP_ATTENTION_BWD] = "attention_bwd",
    [LZT_OP_SWIGLU_FWD] = "swiglu_fwd",
    [LZT_OP_SWIGLU_BWD] = "swiglu_bwd",
    [LZT_OP_LOSS_CHUNK] = "loss_chunk",
    [LZT_OP_CAST] = "cast",
    [LZT_OP_GREEDY] = "greedy",
    [LZT_OP_LAYER_FWD] = "layer_fwd",
    [LZT_OP_LAYER_BWD] = "layer_bwd",
    [LZT_OP_CACHE_STORE] = "cache_store",
    [LZT_OP_ATTENTION_CACHED] = "attention_cached",
};

const char *lzt_op_name(lzt_op op)
{
    return op >= 0 && op < LZT_OP_COUNT ? names[op] : "unknown";
}
