/* Random numbers as a function of their place: nothing to seed, save, or share between threads.
 *
 * A number is named by (seed, stream, index). Streams keep uses apart (shuffling, stochastic rounding, test delays);
 * the index counts within one. Resuming at step k is asking for index k. Not for cryptography.
 *
 * Threads: pure functions.
 */
#ifndef LZT_BASE_RNG_H
#define LZT_BASE_RNG_H

#include <stdint.h>

/* 64 uniform bits. */
uint64_t lzt__rng_u64(uint64_t seed, uint64_t stream, uint64_t index);

/* Uniform in 0..bound-1; bound > 0. The bias is below bound / 2^64. */
uint64_t lzt__rng_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t bound);

/* Uniform in [0, 1), a multiple of 2^-53. */
double lzt__rng_unit(uint64_t seed, uint64_t stream, uint64_t index);

/* Where index (0..count-1) goes in the permutation of 0..count-1 that (seed, epoch) names: a bijection in constant
 * expected time and memory. count: 1..2^62. */
uint64_t lzt__rng_permute(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t index);

#endif
