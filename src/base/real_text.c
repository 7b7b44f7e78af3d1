/* Reals as text: see real_text.h. */
#include "base/real_text.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *lzt__real_text(double value, char text[LZT_REAL_TEXT])
{
    assert(isfinite(value));
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, LZT_REAL_TEXT, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    char *comma = strchr(text, ','); /* some locale's decimal point */
    if (comma) *comma = '.';
    return text;
}
