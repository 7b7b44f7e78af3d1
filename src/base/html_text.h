/* Text inside HTML and SVG. */
#ifndef LZT_BASE_HTML_TEXT_H
#define LZT_BASE_HTML_TEXT_H

#include <stdio.h>

/* Writes text with <, >, & and " escaped: good for elements and for quoted attributes. */
void lzt__html_text(FILE *out, const char *text);

#endif
