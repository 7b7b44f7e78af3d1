/* Cross-entropy of one row of logits: see loss_rows_isa.h. Compiled once per instruction set.
 *
 * Exponentials are of logit - max, so none overflows. They are summed in F32 over BLOCK elements, a lane each VW, and
 * the blocks in F64: a vocabulary of 250,000 loses no digits. A non-finite logit makes the loss NaN or infinite.
 */
#include "kern/cpu/loss_rows_isa.h"

#include "base/isa_level.h"
#include "kern/cpu/vfast.h"

#include <math.h>

enum { BLOCK = 1024 };

static float row_max(const float *row, uint64_t count)
{
    vf most = vset1(-INFINITY);
    uint64_t i = 0;
    for (; i + VW <= count; i += VW) most = vmax_fast(vload(row + i), most);
    float result = vmax_lane(most);
    for (; i < count; i++) result = row[i] > result ? row[i] : result;
    return result;
}

/* row[i] = exp(row[i] - max) where keep, and the sum */
VINLINE float exp_block(float *row, uint64_t count, float max, bool keep)
{
    vf sum = {0};
    uint64_t i = 0;
    for (; i + VW <= count; i += VW) {
        vf e = vexp_fast(vload(row + i) - max);
        if (keep) vstore(row + i, e);
        sum += e;
    }
    if (i < count) {
        vf e = vexp_fast(vload_part(row + i, count - i) - max);
        float lane[VW] = {0};
        vstore_part(lane, e, count - i);
        if (keep) vstore_part(row + i, e, count - i);
        sum += vload(lane);
    }
    return vsum(sum);
}

static double exp_row(float *row, uint64_t count, float max, bool keep)
{
    double sum = 0;
    for (uint64_t i = 0; i < count; i += BLOCK) {
        uint64_t part = count - i < BLOCK ? count - i : BLOCK;
        sum += (double)(keep ? exp_block(row + i, part, max, true) : exp_block(row + i, part, max, false));
    }
    return sum;
}

/* to = row * factor; BF16 results lie below the F32 values still to be read */
VINLINE void scale_row(const float *row, void *to, uint64_t count, float factor, int bf16)
{
    uint64_t i = 0;
    for (; i + VW <= count; i += VW) vstore_dtype(to, i, vload(row + i) * factor, bf16);
    if (i < count) vstore_dtype_part(to, i, vload_part(row + i, count - i) * factor, count - i, bf16);
}

static double loss_row(float *row, uint64_t count, uint64_t target, bool gradient, bool bf16, float scale)
{
    float max = row_max(row, count);
    double logit = (double)row[target] - (double)max;
    double sum = exp_row(row, count, max, gradient);
    if (gradient) {
        float at_target = (float)(((double)row[target] / sum - 1) * (double)scale);
        float factor = (float)((double)scale / sum);
        bf16 ? scale_row(row, row, count, factor, 1) : scale_row(row, row, count, factor, 0);
        if (bf16)
            ((uint16_t *)(void *)row)[target] = lzt_bf16_from_f32(at_target);
        else
            row[target] = at_target;
    }
    return log(sum) - logit;
}

static uint64_t argmax(const float *row, uint64_t count)
{
    float most = row_max(row, count);
    for (uint64_t i = 0; i < count; i++)
        if (row[i] == most) return i;
    return 0; /* all NaN */
}

const lzt_loss_code ISA(lzt__loss_code) = {loss_row, argmax};
