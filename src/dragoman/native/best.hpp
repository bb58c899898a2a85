// Search for the most probable tokens in a row of logits.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "simd.hpp"

namespace dragoman {

// Return log Σ exp(row[v]) of a row whose greatest value is `top`. The row is padded with LOWEST to a multiple of
// LANES. Throws if a value is not finite.
inline float log_sum_exp(const float* row, int count, float top) {
    const int end = padded(count);
    FiniteCheck check;
    Floats total = splat(0.0f);
    for (int v = 0; v < end; v += LANES) {
        const Floats values = load(row + v);
        check.add(values);
        total += exponential(values - top);
    }
    check.require();
    // Subtract the contribution of the padding.
    return top + std::log(sum(total) - float(end - count) * exponential(splat(LOWEST) - top)[0]);
}

// Return log Σ exp(row[v]) of a row, which must have room up to a multiple of LANES. Throws if a value is not finite.
inline float log_normaliser(float* row, int count) {
    const int end = padded(count);
    std::fill(row + count, row + end, LOWEST);
    Floats top = load(row);
    for (int v = LANES; v < end; v += LANES) top = maximum(load(row + v), top);
    return log_sum_exp(row, count, largest(top));
}

// The greatest logits of a row with their tokens, greatest first, and the log-normaliser log Σ exp(logits) of the row:
// log p = logit - log_normaliser.
struct Best {
    std::vector<std::pair<float, int>> logits;
    float log_normaliser;
    int argmax;

    // Find the `count` greatest (1 to `vocabulary`) of the logits `row` [vocabulary]; the row must have room up to a
    // multiple of LANES. One pass finds the greatest, a second one computes Σ exp. Throws if a logit is not finite.
    void find(float* row, int vocabulary, int count) {
        const int end = padded(vocabulary);
        std::fill(row + vocabulary, row + end, LOWEST);
        logits.clear();
        float threshold = -INFINITE;
        for (int v = 0; v < end; v += LANES)
            for (uint32_t above = greater(load(row + v), threshold); above; above &= above - 1) {
                const int i = v + __builtin_ctz(above);
                if (row[i] > threshold) threshold = insert(row[i], i, count);
            }
        log_normaliser = log_sum_exp(row, vocabulary, logits.empty() ? INFINITE : logits.front().first);
        argmax = logits.front().second;
    }

  private:
    // Return a bit mask of the values that exceed `bound`.
    static uint32_t greater(Floats values, float bound) {
#ifdef __AVX512F__
        return _mm512_cmp_ps_mask(__m512(values), _mm512_set1_ps(bound), _CMP_GT_OQ);
#else
        if (!(largest(values) > bound)) return 0;
        uint32_t bits = 0;
        for (int i = 0; i < LANES; ++i) bits |= uint32_t(values[i] > bound) << i;
        return bits;
#endif
    }

    // Insert a logit, keeping the `count` greatest; return the value that the next one must exceed.
    float insert(float logit, int token, int count) {
        auto place = logits.end();
        while (place != logits.begin() && (place - 1)->first < logit) --place;
        logits.insert(place, {logit, token});
        if (int(logits.size()) > count) logits.pop_back();
        return int(logits.size()) == count ? logits.back().first : -INFINITE;
    }
};

}  // namespace dragoman
