/* The rope settings of a config.json; part of model_config.c. */
#ifndef LZT_MODEL_CONFIG_ROPE_H
#define LZT_MODEL_CONFIG_ROPE_H

#include "model_config.h"
#include "model_json.h"

/* Reads rope_theta, rope_scaling, rope_parameters and their nested and per-layer-type spellings from j->object.
 * default_theta, default_partial: the family's. A second, conflicting value is an error, as is an unknown type. */
void lzt__model_config_rope(lzt__model_json *j, lzt_arch arch, double default_theta, double default_partial,
                            uint64_t max_positions, lzt__model_rope *rope);

#endif
