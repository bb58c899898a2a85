// Rows of activations, and their conversion to the precision of matrix products.
#pragma once

#include <cstddef>
#include <vector>

#include "simd.hpp"

namespace dragoman {

enum class Precision { fp32, bf16, int8 };

// Output channels of a matrix are stored in groups of this size; the stride of activations is a multiple of it.
constexpr int GROUP = 64;
constexpr int grouped(int n) { return (n + GROUP - 1) / GROUP * GROUP; }

// Number of values in a word of 32 bits, the unit in which rows and weights are multiplied.
inline int per_word(Precision precision) {
    return precision == Precision::int8 ? 4 : precision == Precision::bf16 ? 2 : 1;
}

// What is added to int8 weights when they are stored: with AVX-512 VNNI, the processor multiplies unsigned bytes by
// signed bytes.
#ifdef __AVX512VNNI__
constexpr int INT8_OFFSET = 128;
#else
constexpr int INT8_OFFSET = 0;
#endif

// Factor that converts a row to int8, from the largest magnitude in the row; 0 below 2^-120, where it would be
// infinite.
inline float int8_inverse(float magnitude) { return magnitude > 0x1p-120f ? 127.0f / magnitude : 0.0f; }

// A matrix of activations [count, stride]. Columns beyond the width are zero, so that products can read whole vectors.
class Activations {
  public:
    float* resize(int count, int width) {
        width_ = width;
        stride_ = grouped(width);
        if (data_.size() < size_t(count) * stride_ + LANES) data_.assign(size_t(count) * stride_ + LANES, 0.0f);
        return data_.data();
    }
    float* data() { return data_.data(); }
    float* row(int number) { return data_.data() + size_t(number) * stride_; }
    int width() const { return width_; }
    int stride() const { return stride_; }

  private:
    std::vector<float> data_;
    int width_ = 0, stride_ = 0;
};

// Rows [count, words] converted to words for multiplication.
struct Rows {
    int count = 0, words = 0;  // `words` is per row
    const uint32_t* data = nullptr;
    const float* scale = nullptr;    // int8: the value of one unit of each row
    const int32_t* total = nullptr;  // int8: the sum of each row

    Rows part(int first, int rows) const {
        return {rows, words, data + size_t(first) * words, scale ? scale + first : nullptr,
                total ? total + first : nullptr};
    }
};

// Converts rows to a precision. The result is valid until the next conversion, for any number of products.
class RowBuffer {
  public:
    explicit RowBuffer(Precision precision) : precision_(precision) {}

    // Convert the first `width` columns of `x` [count, stride], which zeros follow. All rows to be multiplied are
    // converted here, so that a value that is not finite is detected in every precision.
    Rows convert(const float* x, int count, int stride, int width) {
        for (int r = 0; r < count; ++r) require_finite(x + size_t(r) * stride, width);
        if (precision_ == Precision::fp32)
            return {count, stride, reinterpret_cast<const uint32_t*>(x), nullptr, nullptr};
        const int words = padded(width) / per_word(precision_);
        data_.resize(size_t(count) * words);
        scale_.resize(count);
        total_.resize(count);
        for (int r = 0; r < count; ++r) {
            uint32_t* to = &data_[size_t(r) * words];
            if (precision_ == Precision::bf16)
                round(x + size_t(r) * stride, width, reinterpret_cast<Bf16*>(to));
            else
                quantise(x + size_t(r) * stride, width, reinterpret_cast<int8_t*>(to), scale_[r], total_[r]);
        }
        return {count, words, data_.data(), scale_.data(), total_.data()};
    }

    Rows convert(Activations& x, int count) { return convert(x.data(), count, x.stride(), x.width()); }

  private:
    static void round(const float* x, int width, Bf16* to) {
        for (int k = 0; k < width; k += LANES) store(to + k, load(x + k));
    }

    // Quantise a row symmetrically by its largest magnitude: x ≈ scale · q, with q in -127..127 and scale = max|x| /
    // 127.
    static void quantise(const float* x, int width, int8_t* to, float& scale, int32_t& total) {
        Floats top = splat(0.0f);
        for (int k = 0; k < width; k += LANES) {
            const Floats v = load(x + k);
            top = maximum(top, v < splat(0.0f) ? -v : v);
        }
        const float magnitude = largest(top);
        const float inverse = int8_inverse(magnitude);
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

    const Precision precision_;
    std::vector<uint32_t> data_;
    std::vector<float> scale_;
    std::vector<int32_t> total_;
};

}  // namespace dragoman
