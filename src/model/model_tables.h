/* From numbers to tables: layers, tensors and units in the order of lazytrain/model.h. */
#ifndef LZT_MODEL_TABLES_H
#define LZT_MODEL_TABLES_H

#include "model_config.h"

/* How the weight files spell what config.json leaves open. */
typedef struct lzt__model_spelling {
    const char *prefix; /* "model.", "model.language_model." or "language_model.model." */
    const char *head;   /* "lm_head.weight" or "language_model.lm_head.weight" */
    bool fused_experts; /* Qwen3.5-MoE, Qwen3-MoE: experts.gate_up_proj for all experts together */
} lzt__model_spelling;

typedef struct lzt__model_tables {
    lzt_layer *layer;
    lzt_tensor *tensor;
    lzt_unit *unit;
    uint64_t layer_count;
    uint32_t tensor_count, unit_count, tensor_capacity;
    uint64_t parameters, parameters_active;
} lzt__model_tables;

/* The spelling of published files of the architecture; weights may show another (model_weights.c). */
lzt__model_spelling lzt__model_spelling_default(const lzt__model_config *config);

/* Errors: LZT_ERR_MODEL when the sizes multiply beyond what can be counted, LZT_ERR_NO_MEMORY. */
lzt_status lzt__model_tables_build(const lzt__model_config *config, const lzt__model_spelling *spelling,
                                   const char *where, lzt__model_tables *tables, lzt_error *err);
void lzt__model_tables_fini(lzt__model_tables *tables);

#endif
