/* What commands say: talk goes to stderr, data to stdout. */
#ifndef LZT_CLI_TALK_H
#define LZT_CLI_TALK_H

#include "lazytrain/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* One line on stderr; the newline is added. */
void lzt_talk(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* stream is a terminal that can move the cursor (not TERM=dumb). */
bool lzt_talk_is_terminal(FILE *stream);
/* Whether to colour: a terminal and no NO_COLOR, or CLICOLOR_FORCE. */
bool lzt_talk_use_color(FILE *stream);

/* Prints document and a newline on stdout and drops the reference. NULL: LZT_ERR_NO_MEMORY. */
lzt_status lzt_talk_json(json_t *document, lzt_error *err);
/* The same, compact, for output of one document a line. */
lzt_status lzt_talk_json_line(json_t *document, lzt_error *err);
/* A real, or null where value is not finite. */
json_t *lzt_talk_json_real(double value);

/* "lazytrain: WHERE: MESSAGE" and the indented hint, on stderr. */
void lzt_talk_error(const lzt_error *err);

#endif
