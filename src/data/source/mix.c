/* Mixing sources by weight: see mix.h. */
#include "data/source/mix.h"

#include "base/rng.h"

#include <assert.h>
#include <math.h>

#define PLACES_MAX ((double)(UINT64_C(1) << 48))
#define SLACK      1e-9 /* of a share of rows, for weights such as 0.1 that no double holds */

static double share(const double *weight, uint64_t k, double sum)
{
    return (weight ? weight[k] : 1) / sum;
}

/* Places that are left over when every share is rounded down go to the largest remainders, the first of equals. */
static void hand_out(const double *weight, uint64_t sources, double sum, double places, uint64_t *count)
{
    uint64_t given = 0, all = (uint64_t)places;
    for (uint64_t k = 0; k < sources; k++) {
        count[k] = (uint64_t)floor(places * share(weight, k, sum) + SLACK);
        given += count[k];
    }
    for (; given < all; given++) {
        uint64_t best = 0;
        double most = -2;
        for (uint64_t k = 0; k < sources; k++) {
            double rest = places * share(weight, k, sum) - (double)count[k];
            if (rest > most + SLACK) most = rest, best = k;
        }
        count[best]++;
    }
}

lzt_status lzt__mix_counts(const uint64_t *rows, const double *weight, uint64_t sources, bool under, uint64_t *count,
                           uint64_t *places, lzt_error *err)
{
    double sum = 0, best = under ? INFINITY : 0;
    for (uint64_t k = 0; k < sources; k++) {
        if (weight && !(weight[k] > 0 && weight[k] <= 1e9)) {
            lzt_fail(err, LZT_ERR_USAGE, "interleave_probs", "weight %llu is %g, not above 0",
                     (unsigned long long)k + 1, weight[k]);
            return lzt_hint(err, "leave the dataset out instead");
        }
        sum += weight ? weight[k] : 1;
    }
    for (uint64_t k = 0; k < sources; k++) {
        double until = (double)rows[k] / share(weight, k, sum);
        best = under ? fmin(best, until) : fmax(best, until);
    }
    best = under ? floor(best + SLACK) : ceil(best - SLACK);
    if (best > PLACES_MAX) return lzt_fail(err, LZT_ERR_USAGE, "interleave_probs", "the epoch has over 2^48 rows");
    hand_out(weight, sources, sum, best, count);
    *places = 0;
    for (uint64_t k = 0; k < sources; k++) {
        if (under && count[k] > rows[k]) count[k] = rows[k];
        if (!under && count[k] < rows[k]) count[k] = rows[k];
        *places += count[k];
    }
    return LZT_OK;
}

/* Places of all sources before the own-th of source k: those whose (2 j + 1) / (2 count) is smaller, and of equals
 * those of earlier sources. */
static uint64_t rank(const uint64_t *count, uint64_t sources, uint64_t k, uint64_t own)
{
    uint64_t before = own;
    for (uint64_t m = 0; m < sources; m++) {
        if (m == k || !count[m]) continue;
        /* j with (2 j + 1) count[k] < (2 own + 1) count[m], or = and m < k */
        unsigned __int128 limit = (unsigned __int128)(2 * own + 1) * count[m];
        unsigned __int128 odd = (limit - (m > k)) / count[k]; /* the largest 2 j + 1 that qualifies is at most this */
        uint64_t n = (uint64_t)((odd + 1) / 2);
        before += n < count[m] ? n : count[m];
    }
    return before;
}

uint64_t lzt__mix_place(const uint64_t *count, uint64_t sources, uint64_t place, uint64_t *own)
{
    for (uint64_t k = 0; k < sources; k++) {
        uint64_t low = 0, high = count[k]; /* the first own place whose rank is not below place */
        while (low < high) {
            uint64_t middle = low + (high - low) / 2;
            if (rank(count, sources, k, middle) < place)
                low = middle + 1;
            else
                high = middle;
        }
        if (low == count[k] || rank(count, sources, k, low) != place) continue;
        *own = low;
        return k;
    }
    assert(!"a place beyond the epoch");
    return 0;
}

uint64_t lzt__mix_row(uint64_t seed, bool shuffled, uint64_t k, uint64_t rows, uint64_t count, uint64_t epoch,
                      uint64_t own)
{
    unsigned __int128 at = (unsigned __int128)epoch * count + own;
    uint64_t pass = (uint64_t)(at / rows), place = (uint64_t)(at % rows);
    if (!shuffled) return place;
    return lzt__rng_permute(seed + UINT64_C(0x9e3779b97f4a7c15) * (k + 1), pass, rows, place);
}
