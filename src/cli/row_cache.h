/* data tokenize --config: the rows of a config made and kept, before a run asks for them. */
#ifndef LZT_CLI_ROW_CACHE_H
#define LZT_CLI_ROW_CACHE_H

#include "lazytrain/status.h"

#include <stdbool.h>

/* Opens the config's data as training would, files of any size, and says what became of them. */
lzt_status lzt_row_cache_build(const char *config_path, bool json, lzt_error *err);

#endif
