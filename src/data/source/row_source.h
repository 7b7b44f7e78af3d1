/* Sources of rows: the files that a config's `dataset` names, and how each of them names its fields.
 *
 * names is one file or several, or names in DATASET_DIR/dataset_info.json (LLaMA-Factory's registry), separated by
 * commas. A text that is a file as a whole is that file, commas or not.
 *
 * Threads: plain data once open. Ownership: close frees everything.
 */
#ifndef LZT_DATA_ROW_SOURCE_H
#define LZT_DATA_ROW_SOURCE_H

#include "data/source/rowfile.h"

typedef enum lzt__formatting {
    LZT__FORMAT_DETECTED = 0, /* each row by its fields */
    LZT__FORMAT_ALPACA,
    LZT__FORMAT_SHAREGPT,
    LZT__FORMAT_OPENAI
} lzt__formatting;

enum {
    LZT__COLUMN_PROMPT,
    LZT__COLUMN_QUERY,
    LZT__COLUMN_RESPONSE,
    LZT__COLUMN_HISTORY,
    LZT__COLUMN_SYSTEM,
    LZT__COLUMN_MESSAGES,
    LZT__COLUMN_TOOLS,
    LZT__COLUMN_WEIGHT,
    LZT__COLUMN_COUNT
};

enum {
    LZT__TAG_ROLE,
    LZT__TAG_CONTENT,
    LZT__TAG_USER,
    LZT__TAG_ASSISTANT,
    LZT__TAG_OBSERVATION,
    LZT__TAG_FUNCTION,
    LZT__TAG_SYSTEM,
    LZT__TAG_COUNT
};

/* How a source's rows are to be read. Names are those of fields and of roles; NULL: there is no such field. */
typedef struct lzt__rowshape {
    lzt__formatting formatting;
    char *column[LZT__COLUMN_COUNT];
    char *tag[LZT__TAG_COUNT];
    bool names_columns; /* the registry names some, so that there are no others */
} lzt__rowshape;

typedef struct lzt__source {
    char *name;       /* as it was given */
    char *path;       /* of its file */
    uint64_t samples; /* rows that the registry asks for, from the start; 0: all */
    lzt__rowshape shape;
    lzt__rowfile file;
    uint64_t first; /* number of its first row, counted over all sources */
    uint64_t begin; /* the dataset's index: its entries are begin .. begin + rows - 1 */
    uint64_t rows, rows_in;
} lzt__source;

typedef struct lzt__sources {
    lzt__source *at; /* [count] */
    uint64_t count;
    uint64_t rows; /* of all files */
    uint64_t bytes;
} lzt__sources;

/* Finds the sources, without opening their files. Errors: LZT_ERR_USAGE (an unknown name, with those there are; an
 * entry that asks for what does not exist here), LZT_ERR_DATA (no such file, a broken registry), LZT_ERR_NO_MEMORY. On
 * error nothing is to be closed. dataset_dir: NULL, or the registry's directory */
lzt_status lzt__sources_find(const char *names, const char *dataset_dir, lzt__sources *sources, lzt_error *err);
/* Opens their files, of each at most max_rows rows (0: all). Errors: as lzt__rowfile_open, and LZT_ERR_DATA where a
 * file has fewer rows than the registry says. blocks: reads the files */
lzt_status lzt__sources_open(lzt__sources *sources, uint64_t max_rows, lzt_error *err);
void lzt__sources_close(lzt__sources *sources);
/* The source of row 0 .. rows-1. */
lzt__source *lzt__sources_of(const lzt__sources *sources, uint64_t row);

/* What registry.c fills in for source->name. where: of the registry. */
lzt_status lzt__registry_find(const char *directory, bool required, lzt__source *source, bool *found, lzt_error *err);

#endif
