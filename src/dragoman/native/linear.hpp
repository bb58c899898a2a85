// Y = X Wᵀ + b with weights packed once, in float32, bf16, or int8 by output channel.
//
// Every number of Y is summed in one order, whatever the other rows are: a sentence's translation does not depend on
// what else is in the batch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "simd.hpp"
#include "team.hpp"

namespace dragoman {

enum class Precision { fp32, bf16, int8 };
enum class Activation { none, relu, gelu, silu };

// Weights stand in groups of so many output channels; a multiple of it is as long as any row of output.
constexpr int GROUP = 64;
constexpr int VECTORS = GROUP / LANES;
// So many rows by TILE vectors of channels keep their sums in registers, and leave some for the rest.
constexpr int TILE = 4;
constexpr int TILE_ROWS = REGISTERS == 32 ? 6 : 3;
constexpr int grouped(int n) { return (n + GROUP - 1) / GROUP * GROUP; }

// How many numbers of a row fit into a word of 32 bits, the unit in which rows and weights meet.
inline int per_word(Precision precision) {
    return precision == Precision::int8 ? 4 : precision == Precision::bf16 ? 2 : 1;
}

// Rows [R, K] as words, ready for a product; one conversion serves all products of the same rows.
struct Rows {
    Precision precision;
    int count = 0, words = 0;  // words a row
    const uint32_t* data = nullptr;
    const float* scale = nullptr;    // int8: what one unit of a row is worth
    const int32_t* total = nullptr;  // int8: the sum of a row

    Rows part(int first, int rows) const {
        return {precision,
                rows,
                words,
                data + size_t(first) * words,
                scale ? scale + first : nullptr,
                total ? total + first : nullptr};
    }
};

class RowBuffer {
  public:
    // `x` is [count, stride], of which the first `width` of each row count; zeros may follow them.
    Rows convert(const float* x, int count, int stride, int width, Precision precision) {
        if (precision == Precision::fp32)
            return {precision, count, stride, reinterpret_cast<const uint32_t*>(x), nullptr, nullptr};
        const int words = padded(width) / per_word(precision);
        data_.resize(size_t(count) * words);
        scale_.resize(count);
        total_.resize(count);
        for (int r = 0; r < count; ++r) {
            uint32_t* to = &data_[size_t(r) * words];
            if (precision == Precision::bf16)
                round(x + size_t(r) * stride, width, reinterpret_cast<Bf16*>(to));
            else
                quantise(x + size_t(r) * stride, width, reinterpret_cast<int8_t*>(to), scale_[r], total_[r]);
        }
        return {precision, count, words, data_.data(), scale_.data(), total_.data()};
    }

  private:
    static void round(const float* x, int width, Bf16* to) {
        for (int k = 0; k < width; k += LANES) store(to + k, load(x + k));
    }

    // Symmetric, by the row's own largest magnitude: x ≈ scale · q with q in -127..127.
    static void quantise(const float* x, int width, int8_t* to, float& scale, int32_t& total) {
        Floats top = splat(0.0f);
        for (int k = 0; k < width; k += LANES) {
            const Floats v = load(x + k);
            top = maximum(top, v < splat(0.0f) ? -v : v);
        }
        const float magnitude = largest(top);
        const float inverse = magnitude > 0.0f ? 127.0f / magnitude : 0.0f;
        Ints totals = splat(int32_t(0));
        for (int k = 0; k < width; k += LANES) {
            const Ints q = nearest(load(x + k) * inverse);
            totals += q;
            const Bytes bytes = __builtin_convertvector(q, Bytes);
            std::memcpy(to + k, &bytes, sizeof bytes);
        }
        scale = magnitude / 127.0f;
        total = 0;
        for (int i = 0; i < LANES; ++i) total += totals[i];
    }

    std::vector<uint32_t> data_;
    std::vector<float> scale_;
    std::vector<int32_t> total_;
};

// One word of LANES channels times one word of a row, added to their sums.
struct Fp32Step {
    using Sums = Floats;
    static void add(Sums& sums, const uint32_t* weights, uint32_t word) {
        float x;
        std::memcpy(&x, &word, 4);
        sums += load(reinterpret_cast<const float*>(weights)) * x;
    }
};

struct Bf16Step {
    using Sums = Floats;
    static void add(Sums& sums, const uint32_t* weights, uint32_t word) {
#ifdef __AVX512BF16__
        sums = Sums(_mm512_dpbf16_ps(__m512(sums), (__m512bh)_mm512_loadu_si512(weights),
                                     (__m512bh)_mm512_set1_epi32(int(word))));
#else
        Words w;
        std::memcpy(&w, weights, sizeof w);
        const Words low = w << 16, high = w & 0xFFFF0000u;
        Floats even, odd;
        std::memcpy(&even, &low, sizeof even);
        std::memcpy(&odd, &high, sizeof odd);
        sums += even * from_bf16(Bf16(word));
        sums += odd * from_bf16(Bf16(word >> 16));
#endif
    }
};

// Weights are stored plus 128, as the processor multiplies unsigned by signed bytes.
struct Int8Step {
    using Sums = Ints;
    static void add(Sums& sums, const uint32_t* weights, uint32_t word) {
#ifdef __AVX512VNNI__
        sums = Sums(_mm512_dpbusd_epi32(__m512i(sums), _mm512_loadu_si512(weights), _mm512_set1_epi32(int(word))));
#elif defined(__AVX2__)
        // Bytes 0 and 2, and bytes 1 and 3, as pairs of 16 bits.
        const auto pair = [word](int low, int high) {
            const auto bits = [word](int byte) { return uint32_t(uint16_t(int16_t(int8_t(word >> (8 * byte))))); };
            return _mm256_set1_epi32(int(bits(low) | bits(high) << 16));
        };
        const __m256i even = pair(0, 2), odd = pair(1, 3);
        const __m256i w = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights));
        const __m256i low = _mm256_and_si256(w, _mm256_set1_epi16(255)), high = _mm256_srli_epi16(w, 8);
        sums += Sums(_mm256_madd_epi16(low, even)) + Sums(_mm256_madd_epi16(high, odd));
#else
        Ints w;
        std::memcpy(&w, weights, sizeof w);
        for (int byte = 0; byte < 4; ++byte) sums += ((w >> (8 * byte)) & 255) * int32_t(int8_t(word >> (8 * byte)));
#endif
    }
};

class Linear {
  public:
    Linear() = default;

    // `weight` is [out, in], `bias` [out] or null.
    Linear(const float* weight, const float* bias, int out, int in, Precision precision)
        : out_(out), in_(in), precision_(precision), words_(padded(in) / per_word(precision)) {
        const int groups = grouped(out) / GROUP;
        packed_.assign(size_t(groups) * words_ * GROUP, precision == Precision::int8 ? 0x80808080u : 0u);
        if (bias) {
            bias_.assign(size_t(groups) * GROUP, 0.0f);
            std::copy(bias, bias + out, bias_.begin());
        }
        if (precision == Precision::int8) scale_.assign(size_t(groups) * GROUP, 0.0f);
        for (int n = 0; n < out; ++n) pack(weight + size_t(n) * in, n);
    }

    int out() const { return out_; }
    size_t bytes() const { return (packed_.size() + channels_.size()) * 4 + (bias_.size() + scale_.size()) * 4; }

    // y [R, stride] = activation(x Wᵀ + b), or with `residual` y += it; columns up to `grouped(out)` are written.
    void apply(const Rows& x, float* y, int stride, Team& team, Activation activation = Activation::none,
               bool residual = false) const {
        const int groups = grouped(out_) / GROUP;
        const Output to{y, stride, activation, residual};
        // A few parts for each of the team, as they do not all come at once.
        const int parts = team.size() == 1 ? 1 : std::min(groups, 4 * team.size());
        team.share(parts, [&](int i) {
            const int first = int(int64_t(groups) * i / parts), last = int(int64_t(groups) * (i + 1) / parts);
            switch (precision_) {
                case Precision::fp32:
                    return product<Fp32Step>(x, to, first, last);
                case Precision::bf16:
                    return product<Bf16Step>(x, to, first, last);
                case Precision::int8:
                    return product<Int8Step>(x, to, first, last);
            }
        });
    }

    // Keep a second copy, channel by channel, from which `select` reads whole cache lines.
    void allow_selection() {
        if (!channels_.empty()) return;
        channels_.resize(size_t(out_) * words_);
        for (size_t n = 0; n < size_t(out_); ++n)
            for (size_t k = 0; k < size_t(words_); ++k)
                channels_[n * words_ + k] = packed_[(n / GROUP * words_ + k) * GROUP + n % GROUP];
    }

    // The channels `chosen` alone, in that order: the words of the vocabulary that a sentence may use.
    Linear select(const std::vector<int>& chosen) const {
        Linear some;
        some.out_ = int(chosen.size());
        some.in_ = in_;
        some.precision_ = precision_;
        some.words_ = words_;
        const size_t channels = size_t(grouped(some.out_));
        some.packed_.assign(channels * words_, precision_ == Precision::int8 ? 0x80808080u : 0u);
        if (!bias_.empty()) some.bias_.assign(channels, 0.0f);
        if (!scale_.empty()) some.scale_.assign(channels, 0.0f);
        for (size_t i = 0; i < chosen.size(); ++i) {
            const size_t n = size_t(chosen[i]);
            uint32_t* to = &some.packed_[i / GROUP * words_ * GROUP + i % GROUP];
            const uint32_t* from = &channels_[n * words_];
            for (int k = 0; k < words_; ++k) to[size_t(k) * GROUP] = from[k];
            if (!bias_.empty()) some.bias_[i] = bias_[n];
            if (!scale_.empty()) some.scale_[i] = scale_[n];
        }
        return some;
    }

    // Row `n` of the weights as floats: the embedding of a token, where the two are tied.
    void row(int n, float* to) const {
        const uint32_t* words = &packed_[size_t(n / GROUP) * words_ * GROUP + n % GROUP];
        for (int k = 0; k < in_; ++k) {
            const int each = per_word(precision_);
            const uint32_t word = words[size_t(k / each) * GROUP];
            if (precision_ == Precision::fp32)
                std::memcpy(to + k, &word, 4);
            else if (precision_ == Precision::bf16)
                to[k] = from_bf16(Bf16(word >> (16 * (k % 2))));
            else
                to[k] = float(int((word >> (8 * (k % 4))) & 255) - 128) * scale_[n];
        }
    }

  private:
    struct Output {
        float* y;
        int stride;
        Activation activation;
        bool residual;
    };

    // Channel n: words_ words, each GROUP words after the one before.
    void pack(const float* row, int n) {
        uint32_t* to = &packed_[size_t(n / GROUP) * words_ * GROUP + n % GROUP];
        float inverse = 0.0f;
        if (precision_ == Precision::int8) {
            float magnitude = 0.0f;
            for (int k = 0; k < in_; ++k) magnitude = std::max(magnitude, std::fabs(row[k]));
            scale_[n] = magnitude / 127.0f;
            inverse = magnitude > 0.0f ? 127.0f / magnitude : 0.0f;
        }
        for (int k = 0; k < in_; ++k) {
            uint32_t& word = to[size_t(k / per_word(precision_)) * GROUP];
            if (precision_ == Precision::fp32)
                std::memcpy(&word, row + k, 4);
            else if (precision_ == Precision::bf16)
                word |= uint32_t(to_bf16(row[k])) << (16 * (k % 2));
            else {
                const int shift = 8 * (k % 4);
                const uint32_t byte = uint32_t(int(std::nearbyint(row[k] * inverse)) + 128);
                word = (word & ~(255u << shift)) | byte << shift;
            }
        }
    }

    // The channels of groups `first` to `last`. One or two rows take twice as many channels at a time: with few sums,
    // each would wait for the one before it.
    template <class Step>
    void product(const Rows& x, Output to, int first, int last) const {
        int v = first * VECTORS;
        const int end = last * VECTORS;
        if (x.count == 1)
            for (; v + 2 * TILE <= end; v += 2 * TILE) tile<Step, 1, 2 * TILE>(x, 0, v, to);
        if (x.count == 2 && REGISTERS == 32)
            for (; v + 2 * TILE <= end; v += 2 * TILE) tile<Step, 2, 2 * TILE>(x, 0, v, to);
        for (; v < end; v += TILE) {
            int r = 0;
            for (; r + TILE_ROWS <= x.count; r += TILE_ROWS) tile<Step, TILE_ROWS, TILE>(x, r, v, to);
            rest<Step, TILE_ROWS - 1>(x, r, v, to);
        }
    }

    template <class Step, int ROWS>
    void rest(const Rows& x, int row, int vector, Output to) const {
        if constexpr (ROWS > 0) {
            if (x.count - row == ROWS)
                tile<Step, ROWS, TILE>(x, row, vector, to);
            else
                rest<Step, ROWS - 1>(x, row, vector, to);
        }
    }

    // ROWS rows by N vectors of channels, all of whose sums stay in registers.
    template <class Step, int ROWS, int N>
    __attribute__((noinline)) void tile(const Rows& x, int row, int vector, Output to) const {
        typename Step::Sums sums[ROWS][N];
        for (int r = 0; r < ROWS; ++r)
            for (int n = 0; n < N; ++n) sums[r][n] = typename Step::Sums{};
        const uint32_t* data = x.data + size_t(row) * x.words;
        const size_t next_group = size_t(words_) * GROUP;
        const uint32_t* weights = &packed_[vector / VECTORS * next_group + size_t(vector % VECTORS) * LANES];
        for (int k = 0; k < words_; ++k, weights += GROUP)
#pragma GCC unroll 8
            for (int r = 0; r < ROWS; ++r) {
                const uint32_t word = data[size_t(r) * x.words + k];
#pragma GCC unroll 8
                for (int n = 0; n < N; ++n)
                    Step::add(sums[r][n], weights + (n / VECTORS) * next_group + (n % VECTORS) * LANES, word);
            }
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 8
            for (int n = 0; n < N; ++n) finish(sums[r][n], x, row + r, (vector + n) * LANES, to);
    }

    void finish(Floats sums, const Rows&, int row, int channel, Output to) const { write(sums, row, channel, to); }

    void finish(Ints sums, const Rows& x, int row, int channel, Output to) const {
        const Ints exact = sums - 128 * x.total[row];
        write(__builtin_convertvector(exact, Floats) * (load(&scale_[channel]) * x.scale[row]), row, channel, to);
    }

    void write(Floats value, int row, int channel, Output to) const {
        if (!bias_.empty()) value += load(&bias_[channel]);
        switch (to.activation) {
            case Activation::none:
                break;
            case Activation::relu:
                value = maximum(value, splat(0.0f));
                break;
            case Activation::gelu:
                value = gelu(value);
                break;
            case Activation::silu:
                value = silu(value);
                break;
        }
        float* y = to.y + size_t(row) * to.stride + channel;
        store(y, to.residual ? load(y) + value : value);
    }

    int out_ = 0, in_ = 0;
    Precision precision_ = Precision::fp32;
    int words_ = 0;
    std::vector<uint32_t> packed_, channels_;
    std::vector<float> bias_, scale_;
};

}  // namespace dragoman
