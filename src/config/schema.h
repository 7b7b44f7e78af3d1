/* The config's schema: one table from which reading, checking, the resolved config and docs/config.md are made. */
#ifndef LZT_CONFIG_SCHEMA_H
#define LZT_CONFIG_SCHEMA_H

#include "lazytrain/config.h"

#include <stdio.h>

typedef enum lzt_key_type {
    LZT_KEY_TEXT = 0, /* const char *; with choices: must match one of the globs */
    LZT_KEY_BOOL,     /* bool */
    LZT_KEY_UINT,     /* uint64_t */
    LZT_KEY_INT,      /* int64_t */
    LZT_KEY_REAL,     /* double */
    LZT_KEY_SIZE,     /* uint64_t bytes */
    LZT_KEY_STEPS,    /* lzt_steps: a whole number, or a ratio below 1 */
    LZT_KEY_CHOICE,   /* enum: index of the word in choices */
    LZT_KEY_LIST,     /* lzt_text_list; with choices: each item is one of them */
    LZT_KEY_NONE      /* accepted and without effect: the help says why, a note names it */
} lzt_key_type;

enum { LZT_LIMIT_MIN = 1, LZT_LIMIT_MIN_OPEN = 2, LZT_LIMIT_MAX = 4, LZT_LIMIT_MAX_OPEN = 8 };

typedef struct lzt_key {
    const char *name;    /* canonical: "learning_rate", "memory.device_cap" */
    const char *aliases; /* other spellings, separated by spaces; NULL: none */
    lzt_key_type type;
    size_t offset; /* of the field in lzt_config */
    const char *unit;
    const char *choices;     /* words separated by '|' */
    const char *value_alias; /* "true=auto last=auto": other words for a value */
    const char *fallback;    /* the default as text; NULL: the field stays zero, "unset" */
    const char *null_value;  /* what null means; NULL: the default */
    unsigned limits;         /* LZT_LIMIT_* bits that say which of min and max hold */
    double min, max;
    const char *not_yet; /* globs separated by '|' of values whose feature does not exist yet; "*": all but the default.
                            Delete the entry when the feature has landed. */
    bool plannable; /* not_yet is about running alone: a load for planning lets such values through, and notes them */
    const char *help;
} lzt_key;

int lzt__schema_count(void);
const lzt_key *lzt__schema_key(int index);

/* Any spelling ("lr", "training.learning_rate", "device-cap") to an index, or -1. */
int lzt__schema_find(const char *path);
/* The nearest spelling of a key, or NULL. buffer holds the answer where it is not static. */
const char *lzt__schema_nearest(const char *path, char *buffer, size_t size);
/* path names a section that keys may stand in ("training"). */
bool lzt__schema_is_section(const char *path);

/* "number, tokens, at least 1; default 8": type, unit, range, default. */
void lzt__schema_describe(const lzt_key *key, char *text, size_t size);
/* docs/config.md */
void lzt__schema_write_reference(FILE *out);

#endif
