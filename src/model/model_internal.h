/* What a lzt_model is made of; shared by the files of the model module only. */
#ifndef LZT_MODEL_INTERNAL_H
#define LZT_MODEL_INTERNAL_H

#include "model_tables.h"
#include "model_weights.h"

struct lzt_model {
    lzt_model_info info;
    lzt__model_config config;
    lzt__model_spelling spelling;
    lzt__model_tables tables;
    lzt__model_weights weights; /* empty unless info.has_weights */
    char *directory;
    char *config_path;
    float *inv_freq;
};

#endif
