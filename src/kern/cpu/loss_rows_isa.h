/* Cross-entropy of one row of logits, once per instruction set. */
#ifndef LZT_KERN_CPU_LOSS_ROWS_ISA_H
#define LZT_KERN_CPU_LOSS_ROWS_ISA_H

#include <stdbool.h>
#include <stdint.h>

typedef struct lzt_loss_code {
    /* Returns -log softmax(row)[target] for the count F32 logits of row. gradient: row is replaced by
     * (softmax - onehot(target)) * scale, as F32, or as BF16 at the row's beginning (its second half is then rubbish).
     */
    double (*row)(float *row, uint64_t count, uint64_t target, bool gradient, bool bf16, float scale);
    uint64_t (*argmax)(const float *row, uint64_t count); /* the lowest index of the largest value; NaN never wins */
} lzt_loss_code;

extern const lzt_loss_code lzt__loss_code_v2, lzt__loss_code_avx2, lzt__loss_code_avx512;

#endif
