// softmax(QKᵀ/√d_k)V for short sequences, one head at a time.
#pragma once

#include <algorithm>
#include <vector>

#include "simd.hpp"

namespace dragoman {

// Scores to weights that sum to one; what stands beyond `count`, up to a multiple of sixteen, becomes zero.
inline void softmax(float* scores, int count) {
    const int end = padded(count);
    std::fill(scores + count, scores + end, -INFINITE);
    Floats top = load(scores);
    for (int i = LANES; i < end; i += LANES) top = maximum(top, load(scores + i));
    const Floats shift = splat(largest(top));
    Floats total = splat(0.0f);
    for (int i = 0; i < end; i += LANES) {
        const Floats v = load(scores + i);
        const Floats e = v == splat(-INFINITE) ? splat(0.0f) : exponential(v - shift);
        store(scores + i, e);
        total += e;
    }
    const float inverse = 1.0f / sum(total);
    for (int i = 0; i < end; i += LANES) store(scores + i, load(scores + i) * inverse);
}

// Keys and values of one sentence and layer, arranged so that many queries can look at them.
//
// keys    [D, padded S]: a feature of all positions stands together, so that sixteen scores are summed at once
// values  [S, D] and sixteen floats more, so that the last head may be read in whole vectors
struct Memory {
    int length = 0;
    std::vector<float> keys, values;

    // `key` and `value` are [S, stride].
    void fill(const float* key, const float* value, int stride, int positions, int d_model) {
        length = positions;
        const int width = padded(positions);
        keys.assign(size_t(d_model) * width, 0.0f);
        values.assign(size_t(positions) * d_model + LANES, 0.0f);
        for (int s = 0; s < positions; ++s) {
            for (int d = 0; d < d_model; ++d) keys[size_t(d) * width + s] = key[size_t(s) * stride + d];
            std::copy(value + size_t(s) * stride, value + size_t(s) * stride + d_model, &values[size_t(s) * d_model]);
        }
    }
};

// QUERIES queries of one head; `query` and `out` are [QUERIES, stride] at the head's first feature.
template <int QUERIES>
inline void attend_head(const float* query, const Memory& memory, float* out, int stride, int d_model, int first,
                        int d_k, std::vector<float>& scratch) {
    const int length = memory.length, width = padded(length);
    scratch.resize(size_t(QUERIES) * width);
    const float scale = 1.0f / std::sqrt(float(d_k));
    for (int s = 0; s < width; s += LANES) {
        Floats sums[QUERIES][2];
        for (auto& each : sums) each[0] = each[1] = splat(0.0f);
        const float* keys = &memory.keys[size_t(first) * width + s];
        int d = 0;
        for (; d + 2 <= d_k; d += 2, keys += 2 * width) {
            const Floats even = load(keys), odd = load(keys + width);
            for (int q = 0; q < QUERIES; ++q) {
                sums[q][0] += even * query[size_t(q) * stride + d];
                sums[q][1] += odd * query[size_t(q) * stride + d + 1];
            }
        }
        if (d < d_k)
            for (int q = 0; q < QUERIES; ++q) sums[q][0] += load(keys) * query[size_t(q) * stride + d];
        for (int q = 0; q < QUERIES; ++q) store(&scratch[size_t(q) * width + s], (sums[q][0] + sums[q][1]) * scale);
    }
    for (int q = 0; q < QUERIES; ++q) softmax(&scratch[size_t(q) * width], length);
    for (int d = 0; d < d_k; d += LANES) {
        Floats sums[QUERIES];
        for (auto& each : sums) each = splat(0.0f);
        const float* values = &memory.values[size_t(first) + d];
        for (int s = 0; s < length; ++s, values += d_model) {
            const Floats value = load(values);
            for (int q = 0; q < QUERIES; ++q) sums[q] += value * scratch[size_t(q) * width + s];
        }
        const size_t bytes = sizeof(float) * size_t(std::min(LANES, d_k - d));
        for (int q = 0; q < QUERIES; ++q) std::memcpy(out + size_t(q) * stride + d, &sums[q], bytes);
    }
}

// All heads of `queries` rows [queries, stride]; a query's numbers are the same with or without the others.
inline void attend(const float* query, const Memory& memory, float* out, int queries, int stride, int d_model,
                   int heads, std::vector<float>& scratch) {
    const int d_k = d_model / heads;
    for (int h = 0; h < heads; ++h) {
        const int first = h * d_k;
        int q = 0;
        for (; q + 4 <= queries; q += 4)
            attend_head<4>(query + size_t(q) * stride + first, memory, out + size_t(q) * stride + first, stride,
                           d_model, first, d_k, scratch);
        for (; q < queries; ++q)
            attend_head<1>(query + size_t(q) * stride + first, memory, out + size_t(q) * stride + first, stride,
                           d_model, first, d_k, scratch);
    }
}

}  // namespace dragoman
