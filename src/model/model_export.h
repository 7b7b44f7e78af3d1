/* The exporter with its file calls given, for tests. */
#ifndef LZT_MODEL_EXPORT_H
#define LZT_MODEL_EXPORT_H

#include "base/os.h"
#include "lazytrain/model.h"

lzt_status lzt__model_export(const lzt_os *os, const lzt_model *model, const char *out_directory, lzt_dtype dtype,
                             lzt_tensor_source *source, void *arg, lzt_error *err);

#endif
