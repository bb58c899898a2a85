// Scaled dot-product attention softmax(QKᵀ/√d_k)V (Vaswani et al., 2017, equation 1), one head at a time. `scale` is
// the factor of QKᵀ, usually 1/√d_k.
//
// `Cell`, the type of keys and values, is float or bf16: reading them from memory takes most of the time.
#pragma once

#include <algorithm>
#include <vector>

#include "cancel.hpp"
#include "simd.hpp"

namespace dragoman {

// Compute softmax(x)ᵢ = exp(xᵢ) / Σ exp(xⱼ) in place. The padding from `count` to a multiple of LANES becomes zero.
inline void softmax(float* scores, int count) {
    const int end = padded(count);
    std::fill(scores + count, scores + end, LOWEST);
    FiniteCheck check;
    Floats top = load(scores);
    check.add(top);
    for (int i = LANES; i < end; i += LANES) {
        const Floats v = load(scores + i);
        check.add(v);
        top = maximum(top, v);
    }
    check.require();
    const Floats shift = splat(largest(top));
    Floats total = splat(0.0f);
    for (int i = 0; i < end; i += LANES) {
        const Floats v = load(scores + i);
        const Floats e = v == splat(LOWEST) ? splat(0.0f) : exponential(v - shift);
        store(scores + i, e);
        total += e;
    }
    const float inverse = 1.0f / sum(total);
    for (int i = 0; i < end; i += LANES) store(scores + i, load(scores + i) * inverse);
}

// Keys and values of one sentence and layer, laid out for many queries.
//
// keys    [D, padded S]: the values of one feature at all positions are contiguous, so that the attention scores of
//         LANES positions are summed at once
// values  [S, D], followed by padding, so that the last head can be read in whole vectors
template <class Cell>
struct Memory {
    int length = 0;
    std::vector<Cell> keys, values;

    // Store keys and values; `key` and `value` are [S, stride].
    void fill(const float* key, const float* value, int stride, int positions, int d_model) {
        resize(positions, d_model);
        for (int s = 0; s < positions; ++s) set(s, key + size_t(s) * stride, value + size_t(s) * stride, d_model);
    }

    // Store the keys to which `past` points, each followed by its value.
    void gather(const std::vector<const Cell*>& past, int d_model) {
        resize(int(past.size()), d_model);
        for (int s = 0; s < length; ++s) set(s, past[size_t(s)], past[size_t(s)] + d_model, d_model);
    }

  private:
    void resize(int positions, int d_model) {
        length = positions;
        keys.assign(size_t(d_model) * padded(positions), Cell(0));
        values.assign(size_t(positions) * d_model + 4 * LANES, Cell(0));
    }

    // Store the key and the value of position s.
    template <class From>
    void set(int s, const From* key, const From* value, int d_model) {
        const int width = padded(length);
        for (int d = 0; d < d_model; ++d) put(keys[size_t(d) * width + s], get(key[d]));
        for (int d = 0; d < d_model; ++d) put(values[size_t(s) * d_model + d], get(value[d]));
    }
};

// Store the first `count` floats of an array of vectors.
inline void store_part(float* to, const Floats* vectors, int count) { std::memcpy(to, vectors, sizeof(float) * count); }

// The positions that queries attend to: all, or, if `causal`, all up to that of the query. Query 0 attends to the first
// `first` positions; with `causal`, each further query attends to one more.
struct Visible {
    int first;
    bool causal;

    int to(int query) const { return causal ? first + query : first; }
    Visible from(int query) const { return {to(query), causal}; }
};

// Compute the attention of QUERIES queries of one head. `query` is [QUERIES, stride], `out` is [QUERIES, out_stride];
// both point to the first feature of the head.
//
// Each sum is split into SUMS partial sums, since an addition cannot begin before the previous one to the same sum has
// finished. The last bit of a result may therefore depend on QUERIES, which depends on the sentence only, never on the
// rest of the batch.
template <int QUERIES, class Cell>
inline void attend_head(const float* query, const Memory<Cell>& memory, Visible visible, float* out, int stride,
                        int out_stride, int d_model, int first, int d_k, float scale, std::vector<float>& scratch) {
    constexpr int SUMS = QUERIES == 1 ? 8 : 2, BLOCK = 4;
    const int length = visible.to(QUERIES - 1), width = padded(length), stored = padded(memory.length);
    scratch.resize(size_t(QUERIES) * width);
    for (int s = 0; s < width; s += LANES) {
        Floats sums[QUERIES][SUMS];
        for (auto& row : sums)
            for (auto& partial : row) partial = splat(0.0f);
        const Cell* keys = &memory.keys[size_t(first) * stored + s];
        int d = 0;
        for (; d + SUMS <= d_k; d += SUMS)
#pragma GCC unroll 8
            for (int i = 0; i < SUMS; ++i) {
                const Floats key = load(keys + size_t(d + i) * stored);
                for (int q = 0; q < QUERIES; ++q) sums[q][i] += key * query[size_t(q) * stride + d + i];
            }
        for (; d < d_k; ++d) {
            const Floats key = load(keys + size_t(d) * stored);
            for (int q = 0; q < QUERIES; ++q) sums[q][0] += key * query[size_t(q) * stride + d];
        }
        for (int q = 0; q < QUERIES; ++q) {
            Floats total = sums[q][0];
            for (int i = 1; i < SUMS; ++i) total += sums[q][i];
            store(&scratch[size_t(q) * width + s], total * scale);
        }
    }
    for (int q = 0; q < QUERIES; ++q) {
        float* weights = &scratch[size_t(q) * width];
        softmax(weights, visible.to(q));
        std::fill(weights + padded(visible.to(q)), weights + width, 0.0f);
    }
    for (int d = 0; d < d_k; d += BLOCK * LANES) {
        Floats sums[QUERIES][BLOCK];
        for (auto& row : sums)
            for (auto& partial : row) partial = splat(0.0f);
        const Cell* values = &memory.values[size_t(first) + d];
        for (int s = 0; s < length; ++s, values += d_model)
            for (int i = 0; i < BLOCK; ++i) {
                const Floats value = load(values + i * LANES);
                for (int q = 0; q < QUERIES; ++q) sums[q][i] += value * scratch[size_t(q) * width + s];
            }
        for (int q = 0; q < QUERIES; ++q)
            store_part(out + size_t(q) * out_stride + d, sums[q], std::min(BLOCK * LANES, d_k - d));
    }
}

// Compute the attention of all heads for `queries` rows; `query` is [queries, stride], `out` is [queries, out_stride].
template <class Cell>
inline void attend(const float* query, const Memory<Cell>& memory, Visible visible, float* out, int queries, int stride,
                   int out_stride, int d_model, int heads, float scale, std::vector<float>& scratch,
                   const CancelFlag& cancelled) {
    const int d_k = d_model / heads;
    for (int h = 0; h < heads; ++h) {
        const int first = h * d_k;
        int q = 0;
        for (; q + 4 <= queries; q += 4) {
            stop_if(cancelled);
            attend_head<4>(query + size_t(q) * stride + first, memory, visible.from(q),
                           out + size_t(q) * out_stride + first, stride, out_stride, d_model, first, d_k, scale,
                           scratch);
        }
        for (; q < queries; ++q)
            attend_head<1>(query + size_t(q) * stride + first, memory, visible.from(q),
                           out + size_t(q) * out_stride + first, stride, out_stride, d_model, first, d_k, scale,
                           scratch);
    }
}

// Compute the attention of one query, all heads, over the first `positions` of positions that are not contiguous:
// `past[t]` points to the key [D] of position t, which its value [D] follows.
template <class Cell>
inline void attend_along(const float* query, const std::vector<const Cell*>& past, int positions, float* out,
                         int d_model, int heads, float scale, std::vector<float>& scratch) {
    constexpr int BLOCK = 4;
    const int room = padded(positions), d_k = d_model / heads;
    scratch.resize(size_t(heads) * room);
    for (int t = 0; t < positions; ++t)
        for (int h = 0; h < heads; ++h) {
            const float* q = query + h * d_k;
            const Cell* key = past[t] + h * d_k;
            Floats even = splat(0.0f), odd = splat(0.0f);
            int d = 0;
            for (; d + 2 * LANES <= d_k; d += 2 * LANES) {
                even += load(q + d) * load(key + d);
                odd += load(q + d + LANES) * load(key + d + LANES);
            }
            if (d + LANES <= d_k) {
                even += load(q + d) * load(key + d);
                d += LANES;
            }
            float rest = 0.0f;
            for (; d < d_k; ++d) rest += q[d] * get(key[d]);
            scratch[size_t(h) * room + t] = (sum(even + odd) + rest) * scale;
        }
    for (int h = 0; h < heads; ++h) {
        float* weights = &scratch[size_t(h) * room];
        softmax(weights, positions);
        for (int d = 0; d < d_k; d += BLOCK * LANES) {
            Floats sums[BLOCK];
            for (auto& partial : sums) partial = splat(0.0f);
            for (int t = 0; t < positions; ++t) {
                const Cell* value = past[t] + d_model + h * d_k + d;
                for (int i = 0; i < BLOCK; ++i) sums[i] += load(value + i * LANES) * weights[t];
            }
            store_part(out + h * d_k + d, sums, std::min(BLOCK * LANES, d_k - d));
        }
    }
}

}  // namespace dragoman
