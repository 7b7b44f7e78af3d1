/* What config.json says, as numbers: the input of the tables (model_tables.c).
 *
 * lzt__model_config_parse takes the text of a config.json, so that it can be tested and fuzzed without files.
 * Everything in the result has been checked: sizes are positive and bounded, heads divide, the rope settings are
 * complete.
 */
#ifndef LZT_MODEL_CONFIG_H
#define LZT_MODEL_CONFIG_H

#include "lazytrain/model.h"

typedef struct lzt__model_rope {
    lzt_rope_type type;
    double theta, factor;
    double low_freq_factor, high_freq_factor; /* llama3 */
    double original_positions;                /* llama3, yarn */
    double beta_fast, beta_slow;              /* yarn */
    double mscale, mscale_all_dim;            /* yarn; 0: absent */
    double attention_factor;                  /* yarn; 0: to be computed */
    bool truncate;                            /* yarn */
    bool theta_is_default;                    /* config.json names no rope_theta */
    double partial;                           /* share of the head that turns */
} lzt__model_rope;

typedef struct lzt__model_layer_shape {
    lzt_layer_kind kind;
    uint64_t window;
    bool sparse; /* a mixture of experts instead of the dense MLP */
} lzt__model_layer_shape;

typedef struct lzt__model_config {
    lzt_arch arch;
    char architecture[64];
    bool wrapped; /* the text part of a multimodal model: its tensors are named under "language_model" */
    uint64_t layer_count, hidden, intermediate, vocabulary, query_heads, kv_heads, head_dim, rotary_dim, max_positions;
    double norm_eps;
    bool tied, qkv_bias, output_bias, mlp_bias, qk_norm, norm_zero_centred, quantized;
    uint64_t expert_count, experts_per_token, expert_intermediate, shared_intermediate; /* 0: none */
    uint64_t linear_key_heads, linear_value_heads, linear_key_dim, linear_value_dim, conv_kernel;
    uint64_t q_rank, kv_rank, nope_dim, value_dim; /* DeepSeek's latent attention; q_rank 0: a plain q_proj */
    lzt__model_rope rope;
    lzt__model_layer_shape *layer; /* [layer_count] */
    lzt_dtype dtype;
    int32_t bos_id, eos_id[8], eos_id_count, pad_id;
    char not_trainable[128]; /* "" when the kernels of today can train it */
} lzt__model_config;

/* Parses the text of a config.json; where names it in messages. On success the caller ends it with
 * lzt__model_config_fini. Errors: LZT_ERR_MODEL naming the key, LZT_ERR_NO_MEMORY. */
lzt_status lzt__model_config_parse(const char *text, size_t bytes, const char *where, lzt__model_config *config,
                                   lzt_error *err);
void lzt__model_config_fini(lzt__model_config *config);

/* Takes the end-of-text and padding ids of a generation_config.json, which generation prefers to config.json's. */
lzt_status lzt__model_config_generation(lzt__model_config *config, const char *text, size_t bytes, const char *where,
                                        lzt_error *err);

/* Inverse frequencies after scaling, out[rotary_dim / 2], and the factor that multiplies cos and sin. Computed in
 * double as transformers' modeling_rope_utils does in float. */
void lzt__model_inv_freq(const lzt__model_rope *rope, uint64_t rotary_dim, float *out, double *attention_factor);

#endif
