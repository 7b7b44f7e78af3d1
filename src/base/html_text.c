/* Text inside HTML and SVG: see html_text.h. */
#include "base/html_text.h"

void lzt__html_text(FILE *out, const char *text)
{
    for (; *text; text++) switch (*text) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        default: fputc(*text, out);
        }
}
