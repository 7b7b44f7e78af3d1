/* Reals as text that reads back exactly.
 *
 * Threads: pure; allocates nothing.
 */
#ifndef LZT_BASE_REAL_TEXT_H
#define LZT_BASE_REAL_TEXT_H

#define LZT_REAL_TEXT 32

/* The shortest of 6 to 17 significant digits that strtod reads back as value: "3", "0.1", "1e-05". The decimal point is
 * a point in every locale. value must be finite (asserted). Returns text. */
const char *lzt__real_text(double value, char text[LZT_REAL_TEXT]);
/* The same of 1 to 9 digits that read back, as a double rounded to float, as value: "0.1". */
const char *lzt__real_text_f32(float value, char text[LZT_REAL_TEXT]);

#endif
