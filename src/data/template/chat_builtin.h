/* The built-in chat templates by name. */
#ifndef LZT_DATA_CHAT_BUILTIN_H
#define LZT_DATA_CHAT_BUILTIN_H

#include "lazytrain/template.h"

const char *lzt__chat_builtin_source(const char *name); /* NULL: there is none */

#endif
