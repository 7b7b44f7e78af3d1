/* What commands say: see talk.h. */
#include "cli/talk.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void lzt_talk(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
}

bool lzt_talk_is_terminal(FILE *stream)
{
    const char *term = getenv("TERM");
    return isatty(fileno(stream)) && term && strcmp(term, "dumb");
}

bool lzt_talk_use_color(FILE *stream)
{
    const char *force = getenv("CLICOLOR_FORCE"), *no = getenv("NO_COLOR");
    if (no && *no) return false;
    if (force && *force && strcmp(force, "0")) return true;
    return lzt_talk_is_terminal(stream);
}

static lzt_status print_json(json_t *document, size_t flags, lzt_error *err)
{
    if (!document) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the JSON output");
    int rc = json_dumpf(document, stdout, flags | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    json_decref(document);
    if (rc || fputc('\n', stdout) == EOF)
        return lzt_fail(err, LZT_ERR_STORAGE, "standard output", "cannot write the JSON output");
    return LZT_OK;
}

lzt_status lzt_talk_json(json_t *document, lzt_error *err)
{
    return print_json(document, JSON_INDENT(2), err);
}

lzt_status lzt_talk_json_line(json_t *document, lzt_error *err)
{
    return print_json(document, JSON_COMPACT, err);
}

json_t *lzt_talk_json_real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

void lzt_talk_error(const lzt_error *err)
{
    fprintf(stderr, "lazytrain: %s%s%s\n", err->where, err->where[0] ? ": " : "", err->message);
    if (err->hint[0]) fprintf(stderr, "  %s\n", err->hint);
}
