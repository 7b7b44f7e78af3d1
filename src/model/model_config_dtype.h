/* config.json with another element type, every other byte kept. */
#ifndef LZT_MODEL_CONFIG_DTYPE_H
#define LZT_MODEL_CONFIG_DTYPE_H

#include "base/text.h"
#include "lazytrain/dtype.h"

/* Appends to out the text of a config.json (valid JSON, an object) with the values of "dtype" and "torch_dtype", at the
 * top and in "text_config", set to dtype's name in transformers; "dtype" is added where there is neither. */
void lzt__model_config_set_dtype(const char *text, size_t bytes, lzt_dtype dtype, lzt__text *out);

#endif
