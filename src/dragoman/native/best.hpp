// The most probable tokens of a row of logits.
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

// The best continuations of one row of logits, best first, and their log-normaliser: log p = logit - log Σ exp(logits).
struct Best {
    std::vector<std::pair<float, int>> logits;
    float log_normaliser;
    int argmax;

    // One pass for the greatest and one for Σ exp, over [vocabulary]; `row` has room up to a multiple of LANES.
    // `wanted` is from 1 to `vocabulary`. Throws if a logit is not finite.
    void find(float* row, int vocabulary, int wanted) {
        const int end = padded(vocabulary);
        std::fill(row + vocabulary, row + end, LOWEST);
        logits.clear();
        float least = -INFINITE;
        for (int v = 0; v < end; v += LANES)
            for (uint32_t above = greater(load(row + v), least); above; above &= above - 1) {
                const int i = v + __builtin_ctz(above);
                if (row[i] > least) least = insert(row[i], i, wanted);
            }
        const float top = logits.empty() ? INFINITE : logits.front().first;
        FiniteCheck check;
        Floats total = splat(0.0f);
        for (int v = 0; v < end; v += LANES) {
            const Floats values = load(row + v);
            check.see(values);
            total += exponential(values - top);
        }
        check.require();
        argmax = logits.front().second;
        // Less what the padding added.
        log_normaliser = top + std::log(sum(total) - float(end - vocabulary) * exponential(splat(LOWEST) - top)[0]);
    }

  private:
    // A bit for each value that exceeds `bound`.
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

    // Keep the `wanted` greatest; return what the next one must exceed.
    float insert(float logit, int token, int wanted) {
        auto place = logits.end();
        while (place != logits.begin() && (place - 1)->first < logit) --place;
        logits.insert(place, {logit, token});
        if (int(logits.size()) > wanted) logits.pop_back();
        return int(logits.size()) == wanted ? logits.back().first : -INFINITE;
    }
};

}  // namespace dragoman
