/* Loss weights: see loss_weight.h. */
#include "data/loss_weight.h"

#include <stdlib.h>

bool lzt__weight_of(double value, float *weight)
{
    *weight = (float)value;
    return value == 0 || (*weight >= (float)LZT__WEIGHT_LEAST && value <= LZT__WEIGHT_MOST);
}

bool lzt__weight_vanishes(const lzt__json *node)
{
    if (node->type != LZT__JSON_NUMBER || strtod(node->text, NULL) != 0) return false;
    for (uint32_t i = 0; i < node->size && node->text[i] != 'e' && node->text[i] != 'E'; i++)
        if (node->text[i] >= '1' && node->text[i] <= '9') return true;
    return false;
}

lzt__weighing lzt__weigh(const float *weights, uint64_t n)
{
    lzt__weighing all = {0};
    for (uint64_t i = 0; i < n; i++) {
        all.sum += (double)weights[i];
        all.weighted += weights[i] != 0 && weights[i] != 1;
    }
    return all;
}
