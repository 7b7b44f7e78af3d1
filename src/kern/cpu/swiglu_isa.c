/* The rows of SwiGLU: s = g sigmoid(g) u, and its gradient. */
#include "kern/cpu/swiglu.h"

#include "kern/cpu/vfast.h"

VINLINE void forward_rows(const lzt_swiglu *s, uint64_t begin, uint64_t end, bool bf16)
{
    for (uint64_t t = begin; t < end; t++)
        for (uint64_t i = 0, at = 2 * t * s->size; i < s->size; i += VW) {
            uint64_t left = s->size - i;
            vf g = vload_left(s->gu, bf16, at + i, left), u = vload_left(s->gu, bf16, at + s->size + i, left);
            vstore_left(s->out, bf16, t * s->size + i, left, g * vsigmoid(g) * u);
        }
}

/* silu' = sigmoid (1 + g (1 - sigmoid)). dgu may be gu: each element is read before it is written. */
VINLINE void backward_rows(const lzt_swiglu *s, uint64_t begin, uint64_t end, bool bf16)
{
    for (uint64_t t = begin; t < end; t++)
        for (uint64_t i = 0, at = 2 * t * s->size; i < s->size; i += VW) {
            uint64_t left = s->size - i;
            vf g = vload_left(s->gu, bf16, at + i, left), u = vload_left(s->gu, bf16, at + s->size + i, left);
            vf d = vload_left(s->ds, bf16, t * s->size + i, left), sigmoid = vsigmoid(g), silu = g * sigmoid;
            vf slope = vfma(silu, 1.0f - sigmoid, sigmoid);
            vstore_left(s->out, bf16, at + i, left, d * u * slope);
            vstore_left(s->out, bf16, at + s->size + i, left, d * silu);
        }
}

static void forward(const lzt_swiglu *s, uint64_t begin, uint64_t end)
{
    if (s->bf16)
        forward_rows(s, begin, end, true);
    else
        forward_rows(s, begin, end, false);
}

static void backward(const lzt_swiglu *s, uint64_t begin, uint64_t end)
{
    if (s->bf16)
        backward_rows(s, begin, end, true);
    else
        backward_rows(s, begin, end, false);
}

const lzt_swiglu_code ISA(lzt__swiglu_code) = {.forward = forward, .backward = backward};
