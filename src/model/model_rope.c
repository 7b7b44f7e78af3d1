/* Rotary frequencies: the four scalings that transformers calls default, linear, llama3 and yarn.
 *
 * inv_freq[i] = theta^(-2i/R), i < R/2, is the plain form. linear divides all by the factor. llama3 (Llama 3.1) divides
 * those whose wavelength exceeds the old context and blends between two bounds. yarn (arXiv 2309.00071, section 3.2)
 * blends along a ramp between the dimensions that turn beta_fast and beta_slow times in the old context.
 */
#include "model_config.h"

#include <math.h>

static double plain_frequency(double theta, uint64_t i, uint64_t rotary_dim)
{
    return 1.0 / pow(theta, (double)(2 * i) / (double)rotary_dim);
}

static double llama3_frequency(const lzt__model_rope *rope, double frequency)
{
    double wavelength = 2.0 * M_PI / frequency;
    if (wavelength < rope->original_positions / rope->high_freq_factor) return frequency;
    if (wavelength > rope->original_positions / rope->low_freq_factor) return frequency / rope->factor;
    double smooth = (rope->original_positions / wavelength - rope->low_freq_factor) /
                    (rope->high_freq_factor - rope->low_freq_factor);
    return (1.0 - smooth) * frequency / rope->factor + smooth * frequency;
}

/* The (fractional) dimension whose frequency turns `rotations` times within the old context. */
static double yarn_dimension(const lzt__model_rope *rope, double rotations, double rotary_dim)
{
    return rotary_dim * log(rope->original_positions / (rotations * 2.0 * M_PI)) / (2.0 * log(rope->theta));
}

static void yarn_range(const lzt__model_rope *rope, double rotary_dim, double *low, double *high)
{
    *low = yarn_dimension(rope, rope->beta_fast, rotary_dim);
    *high = yarn_dimension(rope, rope->beta_slow, rotary_dim);
    if (rope->truncate) {
        *low = floor(*low);
        *high = ceil(*high);
    }
    *low = fmax(*low, 0.0);
    *high = fmin(*high, rotary_dim - 1.0);
    if (*low == *high) *high += 0.001;
}

static double yarn_mscale(double factor, double mscale)
{
    return factor <= 1.0 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

static double attention_factor_of(const lzt__model_rope *rope)
{
    if (rope->type != LZT_ROPE_YARN) return 1.0;
    if (rope->attention_factor > 0.0) return rope->attention_factor;
    if (rope->mscale != 0.0 && rope->mscale_all_dim != 0.0)
        return yarn_mscale(rope->factor, rope->mscale) / yarn_mscale(rope->factor, rope->mscale_all_dim);
    return yarn_mscale(rope->factor, 1.0);
}

void lzt__model_inv_freq(const lzt__model_rope *rope, uint64_t rotary_dim, float *out, double *attention_factor)
{
    double low = 0.0, high = 1.0;
    if (rope->type == LZT_ROPE_YARN) yarn_range(rope, (double)rotary_dim, &low, &high);
    for (uint64_t i = 0; i < rotary_dim / 2; i++) {
        double frequency = plain_frequency(rope->theta, i, rotary_dim);
        if (rope->type == LZT_ROPE_LINEAR) frequency /= rope->factor;
        if (rope->type == LZT_ROPE_LLAMA3) frequency = llama3_frequency(rope, frequency);
        if (rope->type == LZT_ROPE_YARN) {
            double keep = 1.0 - fmin(fmax(((double)i - low) / (high - low), 0.0), 1.0);
            frequency = frequency / rope->factor * (1.0 - keep) + frequency * keep;
        }
        out[i] = (float)frequency;
    }
    *attention_factor = attention_factor_of(rope);
}
