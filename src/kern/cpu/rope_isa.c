/* The rows of the rotary embedding: (a, b) -> (a cos - b sin, b cos + a sin) of columns i and i + rotated / 2. */
#include "kern/cpu/rope.h"

#include "kern/cpu/vfast.h"

enum { PAIRS = 128 }; /* of the table that are taken apart at a time */

VINLINE void rotate_pairs(void *x, uint64_t at, uint64_t half, uint64_t count, const float *cosine, const float *sine,
                          bool bf16)
{
    for (uint64_t i = 0; i < count; i += VW) {
        uint64_t left = count - i;
        vf c = vload(cosine + i), s = vload(sine + i);
        vf a = vload_left(x, bf16, at + i, left), b = vload_left(x, bf16, at + half + i, left);
        vstore_left(x, bf16, at + i, left, vfma(a, c, -(b * s)));
        vstore_left(x, bf16, at + half + i, left, vfma(b, c, a * s));
    }
}

VINLINE void rotate_rows(const lzt_rope *r, uint64_t begin, uint64_t end, bool bf16)
{
    uint64_t half = r->rotated / 2;
    for (uint64_t t = begin; t < end; t++)
        for (uint64_t first = 0; first < half; first += PAIRS) {
            float cosine[PAIRS + VW] = {0}, sine[PAIRS + VW] = {0};
            uint64_t count = half - first < PAIRS ? half - first : PAIRS;
            const float *pair = r->table + (t * half + first) * 2;
            for (uint64_t i = 0; i < count; i++) {
                cosine[i] = pair[2 * i];
                sine[i] = r->sign * pair[2 * i + 1];
            }
            for (uint64_t head = 0; head < r->heads; head++)
                rotate_pairs(r->x, t * r->ld + head * r->head_dim + first, half, count, cosine, sine, bf16);
        }
}

static void rotate(const lzt_rope *r, uint64_t begin, uint64_t end)
{
    if (r->bf16)
        rotate_rows(r, begin, end, true);
    else
        rotate_rows(r, begin, end, false);
}

const lzt_rope_code ISA(lzt__rope_code) = {.rotate = rotate};
