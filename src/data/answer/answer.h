/* Answers: finding the final answer in a text that reasons its way to it, and judging it against a reference.
 *
 *     lzt__answer_pattern_open(NULL, &pattern, &err);
 *     if (lzt__answer_find(pattern, text, size, &answer)) right = lzt__answer_equal(&answer, &expected);
 *
 * The last match of the pattern counts: group 1 where the pattern has one, else the whole match. Two answers that are
 * both numbers are compared as exact rationals, whatever their spelling; anything else as trimmed strings.
 *
 * Threads: a pattern belongs to one thread at a time. Ownership: an answer lies in the text it was found in.
 */
#ifndef LZT_DATA_ANSWER_H
#define LZT_DATA_ANSWER_H

#include "lazytrain/status.h"

#include <stdbool.h>

/* What follows `####` or `The answer is:`, to the end of its line. */
#define LZT__ANSWER_PATTERN "(?:####|[Tt]he answer is:?)\\s*([^\\n]*)"

typedef struct lzt__answer_pattern lzt__answer_pattern;

typedef struct lzt__answer {
    const char *text; /* trimmed; not terminated */
    uint64_t size;
} lzt__answer;

/* pattern: Perl syntax (PCRE2, UTF-8); NULL: LZT__ANSWER_PATTERN. Errors: LZT_ERR_USAGE (a pattern that does not
 * compile, with the place), LZT_ERR_NO_MEMORY. */
lzt_status lzt__answer_pattern_open(const char *pattern, lzt__answer_pattern **out, lzt_error *err);
void lzt__answer_pattern_close(lzt__answer_pattern *pattern); /* NULL is allowed */
/* The last answer in the text; false: there is none (no match, an empty one, or the pattern gave up on the text). */
bool lzt__answer_find(const lzt__answer_pattern *pattern, const char *text, uint64_t size, lzt__answer *answer);
/* The text as an answer, trimmed of white space and of the full stop that ends a sentence. */
lzt__answer lzt__answer_trim(const char *text, uint64_t size);
bool lzt__answer_equal(const lzt__answer *a, const lzt__answer *b);

#endif
