/* Products of small BF16 matrices that lie in cache, by the BF16 dot product (AVX512-BF16): vtile.h with pairs. For
 * *_bf16.c files only.
 *
 * A pair is a uint32 of two neighbours along the sum, the first in its low half. A row of BF16 is pairs as it lies; a
 * column is made into pairs by interleaving two rows. Products are exact, sums F32 in the order of k.
 */
#ifndef LZT_KERN_CPU_VPAIR_H
#define LZT_KERN_CPU_VPAIR_H

#include "kern/cpu/vtile.h"

VINLINE void vpair_store(uint32_t *p, vu v)
{
    memcpy(p, &v, sizeof v);
}

/* Two rows of F32 rounded to BF16: 16 elements of x, then 16 of y. */
VINLINE vu vpair_round(vf x, vf y)
{
    return (vu)_mm512_cvtne2ps_pbh((__m512)y, (__m512)x);
}

/* What vpair_round gives as pairs: element i of x with element i of y. */
VINLINE vu vpair_interleave(vu xy)
{
    static const uint16_t order[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                       8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return (vu)_mm512_permutexvar_epi16(_mm512_loadu_si512(order), (__m512i)xy);
}

/* dst[i] = pairs of rows 2i and 2i + 1 of src, columns of them; a missing last row and the columns up to ldd are 0.
 * lds in BF16 elements, ldd in pairs. */
static inline __attribute__((unused)) void vpair_interleave_rows(const uint16_t *src, uint64_t lds, uint64_t rows,
                                                                 uint64_t columns, uint32_t *dst, uint64_t ldd)
{
    for (uint64_t i = 0; i < rows; i += 2, dst += ldd) {
        const uint16_t *low = src + i * lds, *high = low + lds;
        if (i + 1 < rows)
            for (uint64_t j = 0; j < columns; j++) dst[j] = low[j] | (uint32_t)high[j] << 16;
        else
            for (uint64_t j = 0; j < columns; j++) dst[j] = low[j];
        for (uint64_t j = columns; j < ldd; j++) dst[j] = 0;
    }
}

/* dst[rows, ldd], pairs along the row = rows of columns BF16 elements; an odd last element's partner and the columns up
 * to ldd are 0. */
static inline __attribute__((unused)) void vpair_gather(const uint16_t *src, uint64_t lds, uint64_t rows,
                                                        uint64_t columns, uint32_t *dst, uint64_t ldd)
{
    for (uint64_t i = 0; i < rows; i++) {
        uint64_t j = 0;
        for (; 2 * (j + VW) <= columns; j += VW) {
            vu v;
            memcpy(&v, src + i * lds + 2 * j, sizeof v);
            vpair_store(dst + i * ldd + j, v);
        }
        if (2 * j < columns) {
            dst[i * ldd + (columns - 1) / 2] = 0;
            memcpy(dst + i * ldd + j, src + i * lds + 2 * j, 2 * (columns - 2 * j));
        }
        for (j = (columns + 1) / 2; j < ldd; j++) dst[i * ldd + j] = 0;
    }
}

#endif
