/* Strict readings of one scalar's text, shared by the config and the command line.
 *
 * Each function reads the whole text or refuses it and says why; nothing is trimmed, guessed or rounded (sizes with a
 * fraction of a byte are rounded down). The locale has no effect. `why` is a phrase that completes "KEY: 'TEXT' ...",
 * such as "is not a number"; it is static.
 *
 * Numbers: an optional sign, decimal digits without leading zeros, single underscores between digits. Integers may
 * have a non-negative exponent (1e9) when the value is exact; reals have an optional fraction and exponent. nan, inf,
 * hexadecimal and octal spellings are refused. Sizes are those of base/units.h, or a bare integer of bytes.
 *
 * Threads: pure functions.
 */
#ifndef LZT_CONFIG_SCALAR_H
#define LZT_CONFIG_SCALAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool lzt__scalar_int(const char *text, int64_t *value, const char **why);
bool lzt__scalar_uint(const char *text, uint64_t *value, const char **why);
bool lzt__scalar_real(const char *text, double *value, const char **why);
bool lzt__scalar_size(const char *text, uint64_t *bytes, const char **why);
/* true, yes, on; false, no, off; any case */
bool lzt__scalar_bool(const char *text, bool *value, const char **why);
/* null, ~ and the empty text */
bool lzt__scalar_is_null(const char *text);

/* text is one of the words in choices ("cpu|nvme|auto", never empty). */
bool lzt__scalar_choice(const char *text, const char *choices, const char **why);

#endif
