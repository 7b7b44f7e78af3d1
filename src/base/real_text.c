/* Reals as text: see real_text.h. */
#include "base/real_text.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *with_point(char text[LZT_REAL_TEXT])
{
    char *comma = strchr(text, ','); /* some locale's decimal point */
    if (comma) *comma = '.';
    return text;
}

const char *lzt__real_text(double value, char text[LZT_REAL_TEXT])
{
    assert(isfinite(value));
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, LZT_REAL_TEXT, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    return with_point(text);
}

const char *lzt__real_text_f32(float value, char text[LZT_REAL_TEXT])
{
    assert(isfinite(value));
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, LZT_REAL_TEXT, "%.*g", digits, (double)value);
        if ((float)strtod(text, NULL) == value) break;
    }
    return with_point(text);
}
