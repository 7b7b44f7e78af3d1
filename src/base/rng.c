/* Counter-based random numbers and permutations: see rng.h.
 *
 * The mixing function is the 64-bit finaliser of MurmurHash3 with David Stafford's constants (variant 13, as in
 * Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014). The permutation is a balanced
 * Feistel network over the smallest even number of bits that holds count, restricted to 0..count-1 by walking its
 * cycles (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002).
 */
#include "base/rng.h"

#include <assert.h>

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15) /* 2^64 / the golden ratio: Weyl step of splitmix64 */
#define ROUNDS 12                           /* four suffice for large halves; halves of one or two bits need more */

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t lzt__rng_u64(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint64_t key = mix(mix(seed + GOLDEN) + (stream + 1) * GOLDEN);
    return mix(mix(key ^ index) + GOLDEN + index);
}

uint64_t lzt__rng_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t bound)
{
    assert(bound > 0);
    return (uint64_t)(((unsigned __int128)lzt__rng_u64(seed, stream, index) * bound) >> 64);
}

double lzt__rng_unit(uint64_t seed, uint64_t stream, uint64_t index)
{
    return (double)(lzt__rng_u64(seed, stream, index) >> 11) * 0x1p-53;
}

static uint64_t feistel(uint64_t key, unsigned half_bits, uint64_t value)
{
    uint64_t mask = (UINT64_C(1) << half_bits) - 1;
    uint64_t left = value >> half_bits, right = value & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t next = left ^ (lzt__rng_u64(key, round, right) & mask);
        left = right;
        right = next;
    }
    return left << half_bits | right;
}

uint64_t lzt__rng_permute(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t index)
{
    assert(count >= 1 && count <= UINT64_C(1) << 62);
    assert(index < count);
    unsigned bits = count > 1 ? 64 - (unsigned)__builtin_clzll(count - 1) : 0;
    unsigned half_bits = (bits + 1) / 2;
    if (half_bits == 0) return 0;
    uint64_t key = lzt__rng_u64(seed, ~UINT64_C(0), epoch);
    /* A Feistel network makes even permutations only. A swap under one bit of the key makes both parities as likely. */
    uint64_t place = index < 2 ? index ^ (key >> 63) : index;
    do place = feistel(key, half_bits, place);
    while (place >= count); /* the domain is under 4 * count: fewer than four rounds of this on average */
    return place;
}
