/* A model as tables: layers, tensors, streaming units; read from a Hugging Face directory.
 *
 * lzt_model_open reads config.json (old and new spellings) and, when the directory holds weights, the safetensors
 * headers, strictly. Nothing here touches weight data except lzt_model_read_tensor. A model without weights (a bare
 * config.json) still has its tables: the planner and `model inspect` need no more.
 *
 *     lzt_model *model;
 *     lzt_model_open("models/smollm2-135m", LZT_MODEL_WANT_WEIGHTS, &model, &err);
 *     const lzt_model_info *info = lzt_model_get_info(model);
 *
 * Units. Weights move between host and device one unit at a time: unit 0 is the embedding, 1..N the decoder layers, N+1
 * the final norm, N+2 the head's table (absent when tied). A unit is one flat run of elements: tensors lie in the order
 * of their index, groups that one operator reads together (q,k,v; their biases; gate,up) without gaps, every group at a
 * multiple of LZT_UNIT_ALIGNMENT elements. The same layout holds for weights, gradients and moments.
 *
 * Threads: a model is immutable after open; read_tensor may be called from any thread. Ownership: close frees all.
 */
#ifndef LAZYTRAIN_MODEL_H
#define LAZYTRAIN_MODEL_H

#include "lazytrain/dtype.h"
#include "lazytrain/status.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LZT_UNIT_ALIGNMENT  UINT64_C(64)
#define LZT_TENSOR_RANK_MAX 4

typedef enum lzt_arch {
    LZT_ARCH_NONE = 0,
    LZT_ARCH_LLAMA,
    LZT_ARCH_MISTRAL,
    LZT_ARCH_QWEN2,
    LZT_ARCH_QWEN3,
    LZT_ARCH_QWEN3_5,
    LZT_ARCH_QWEN3_5_MOE,
    LZT_ARCH_QWEN3_MOE,
    LZT_ARCH_MIXTRAL,
    LZT_ARCH_GEMMA3,
    LZT_ARCH_GPT_OSS,
    LZT_ARCH_DEEPSEEK_V3,
    LZT_ARCH_COUNT
} lzt_arch;

typedef enum lzt_layer_kind {
    LZT_LAYER_FULL_ATTENTION = 0,
    LZT_LAYER_SLIDING_ATTENTION,
    LZT_LAYER_LINEAR_ATTENTION,
    LZT_LAYER_KIND_COUNT
} lzt_layer_kind;

typedef enum lzt_rope_type { LZT_ROPE_DEFAULT = 0, LZT_ROPE_LINEAR, LZT_ROPE_LLAMA3, LZT_ROPE_YARN } lzt_rope_type;

typedef enum lzt_role {
    LZT_ROLE_EMBED = 0,
    LZT_ROLE_INPUT_NORM,
    LZT_ROLE_Q,
    LZT_ROLE_K,
    LZT_ROLE_V,
    LZT_ROLE_Q_BIAS,
    LZT_ROLE_K_BIAS,
    LZT_ROLE_V_BIAS,
    LZT_ROLE_Q_NORM,
    LZT_ROLE_K_NORM,
    LZT_ROLE_O,
    LZT_ROLE_POST_NORM, /* before the MLP */
    LZT_ROLE_GATE,
    LZT_ROLE_UP,
    LZT_ROLE_DOWN,
    LZT_ROLE_FINAL_NORM,
    LZT_ROLE_HEAD,
    LZT_ROLE_OTHER, /* of layers whose kernels come later */
    LZT_ROLE_COUNT
} lzt_role;

typedef struct lzt_tensor {
    const char *name; /* Hugging Face's */
    lzt_role role;
    int32_t layer; /* decoder layer, or -1 */
    uint32_t unit;
    uint32_t rank;
    uint64_t shape[LZT_TENSOR_RANK_MAX];
    uint64_t element_count;
    uint64_t unit_offset; /* elements from the start of the unit */
    bool trainable;
    bool keep_f32;        /* A_log, dt_bias: whole in F32 whatever the weights are */
    lzt_dtype file_dtype; /* NONE when the directory has no weights */
} lzt_tensor;

typedef struct lzt_unit {
    uint32_t first_tensor, tensor_count; /* index into the tensor table */
    uint64_t element_count;              /* with the gaps, a multiple of LZT_UNIT_ALIGNMENT: length of the flat run */
    int32_t layer;                       /* decoder layer, or -1 */
} lzt_unit;

typedef struct lzt_layer {
    lzt_layer_kind kind;
    uint32_t unit;
    uint64_t parameters, parameters_active; /* active: experts by k / E, rounded down; the rest whole */
    uint64_t window;                        /* sliding window in tokens, 0: none */
    double forward_flops_per_token;         /* matrix products, without attention scores */
} lzt_layer;

typedef struct lzt_model_info {
    lzt_arch arch;
    const char *architecture; /* "LlamaForCausalLM" */
    const char *directory;
    uint64_t layer_count, hidden, intermediate, vocabulary;
    uint64_t query_heads, kv_heads, head_dim, rotary_dim;
    uint64_t max_positions;
    double norm_eps;
    bool tied, qkv_bias, qk_norm, norm_zero_centred;
    bool trainable_arch;       /* kernels exist: LLAMA, MISTRAL, QWEN2, QWEN3, without what they lack (see below) */
    const char *not_trainable; /* why trainable_arch is false (an architecture, a bias of o_proj, ...), or NULL */
    bool quantized; /* config.json has a quantization_config (ignored by plan and inspect, refused by train) */
    bool has_weights;
    lzt_dtype dtype; /* of the config ("dtype" or "torch_dtype"); NONE when it says nothing */
    lzt_rope_type rope_type;
    double rope_theta, rope_attention_factor;
    const float *inv_freq;                           /* [rotary_dim / 2] f32, after scaling */
    int32_t bos_id, eos_id[8], eos_id_count, pad_id; /* -1: none; eos from either file, pad from config.json */
    uint64_t parameters, parameters_active;
    uint64_t fingerprint;     /* hash of arch, shapes and numeric settings; not of the weights */
    const lzt_layer *layer;   /* [layer_count] */
    const lzt_tensor *tensor; /* [tensor_count], ordered by unit, then by place in it */
    const lzt_unit *unit;     /* [unit_count] */
    uint32_t tensor_count, unit_count;
} lzt_model_info;

typedef struct lzt_model lzt_model;

enum { LZT_MODEL_CONFIG_ONLY = 0, LZT_MODEL_WANT_WEIGHTS = 1 };

/* path: a model directory, or a config.json (CONFIG_ONLY). CONFIG_ONLY does not look at weight files. Errors:
 * LZT_ERR_MODEL with the file and the key, tensor or byte offset. With WANT_WEIGHTS every tensor of the tables must be
 * there with its shape; all missing ones are listed.
 */
LZT_EXPORT lzt_status lzt_model_open(const char *path, int want, lzt_model **model, lzt_error *err);
LZT_EXPORT void lzt_model_close(lzt_model *model); /* NULL is allowed */
LZT_EXPORT const lzt_model_info *lzt_model_get_info(const lzt_model *model);

/* Reads a tensor's elements as F32 (exact for F32, BF16, F16) into out[element_count]. blocks: on disk */
LZT_EXPORT lzt_status lzt_model_read_tensor(const lzt_model *model, uint32_t tensor_index, float *out, lzt_error *err);
/* Lets go of what is held of the source files (it comes back when read_tensor is called again). Today nothing is: files
 * are read with pread, so that one cut under us is an error and no SIGBUS, and closed between reads. */
LZT_EXPORT void lzt_model_drop_mappings(lzt_model *model);

/* What a decoder layer holds and does, from its tensors alone: for planning, and for layers whose operators do not
 * exist yet. Bytes and operations are a token's. The internals are what our own layers keep (see step.h's operators):
 * every input projection's output, the mixer's output, the residual after it, norm statistics in F32; a mixture of
 * experts by its active share. Working memory is what is live beside internals, boundaries, weights and gradients at
 * the widest point; a gated delta layer's chunk states (one of 64 tokens, in dtype) are in it. */
typedef struct lzt_layer_size {
    double internals_bytes, forward_work_bytes, backward_work_bytes;
    double forward_flops;      /* matrix products, the delta rule's included */
    double forward_pair_flops; /* of a query and a key that see each other; backward: 2.5 times as many */
} lzt_layer_size;

LZT_EXPORT void lzt_layer_get_size(const lzt_model_info *model, uint32_t layer, lzt_dtype dtype, lzt_layer_size *size);

/* A strict check of the directory beyond open: every file of the index, unlisted files noted, total_size; with data,
 * counts non-finite values. Messages go to the sink, one line each; returns the first error. */
typedef void lzt_note_fn(void *arg, const char *line);
LZT_EXPORT lzt_status lzt_model_verify(const char *path, bool with_data, lzt_note_fn *note, void *arg, lzt_error *err);

/* Where an exporter takes tensor values from: fills out[element_count] with F32 values of the tensor. */
typedef lzt_status lzt_tensor_source(void *arg, uint32_t tensor_index, float *out, lzt_error *err);

/* Writes a Hugging Face directory: the source's shard layout, tensors as dtype (F32, BF16, F16; keep_f32 ones as F32),
 * data area at a multiple of 4096 bytes, every other file of the source directory byte for byte (weights of other
 * formats and folders left out), config.json with its dtype set, index rebuilt. source NULL: the model's own weights.
 * Published by one rename: out_directory either is complete or what it was; an existing one is replaced if it is empty
 * or a model directory without folders. Fsynced. The model must have been opened with its weights. Needs memory for
 * the largest tensor in F32. Errors: LZT_ERR_STORAGE, LZT_ERR_MODEL; the source's own. blocks: on disk */
LZT_EXPORT lzt_status lzt_model_export(const lzt_model *model, const char *out_directory, lzt_dtype dtype,
                                       lzt_tensor_source *source, void *arg, lzt_error *err);

#ifdef __cplusplus
}
#endif
#endif
