// A weight matrix [out, in], packed in float32, bf16, or int8 with a scale per output channel.
#pragma once

#include <algorithm>
#include <vector>

#include "rows.hpp"

namespace dragoman {

// The layout is [group of GROUP channels, word, channel of the group], so that the same word of LANES channels is one
// vector.
class PackedMatrix {
  public:
    PackedMatrix() = default;

    // `weight` is [out, in].
    PackedMatrix(const float* weight, int out, int in, Precision precision)
        : PackedMatrix(out, in, padded(in) / per_word(precision), precision) {
        for (int n = 0; n < out; ++n) pack(weight + size_t(n) * in, n);
    }

    int out() const { return out_; }
    int in() const { return in_; }
    int words() const { return words_; }  // per channel
    int groups() const { return grouped(out_) / GROUP; }
    Precision precision() const { return precision_; }
    const uint32_t* data() const { return packed_.data(); }
    const float* scale() const { return scale_.data(); }  // int8: [grouped(out)]
    size_t bytes() const { return (packed_.size() + channels_.size() + scale_.size()) * 4; }

    // Make a second copy, channel by channel, from which `select` reads whole cache lines.
    void allow_selection() {
        if (!channels_.empty()) return;
        channels_.resize(size_t(out_) * words_);
        for (size_t n = 0; n < size_t(out_); ++n)
            for (size_t k = 0; k < size_t(words_); ++k)
                channels_[n * words_ + k] = packed_[(n / GROUP * words_ + k) * GROUP + n % GROUP];
    }

    // Return a matrix of only some channels, in the given order. Call `allow_selection` before.
    PackedMatrix select(const std::vector<int>& channels) const {
        PackedMatrix selected(int(channels.size()), in_, words_, precision_);
        for (size_t i = 0; i < channels.size(); ++i) {
            const size_t n = size_t(channels[i]);
            uint32_t* to = selected.channel(int(i));
            const uint32_t* from = &channels_[n * words_];
            for (int k = 0; k < words_; ++k) to[size_t(k) * GROUP] = from[k];
            if (!scale_.empty()) selected.scale_[i] = scale_[n];
        }
        return selected;
    }

    // Write row `n` to `to` [in] as floats: the embedding of a token.
    void row(int n, float* to) const {
        const uint32_t* words = &packed_[offset(n)];
        for (int k = 0; k < in_; ++k) {
            const uint32_t word = words[size_t(k / per_word(precision_)) * GROUP];
            if (precision_ == Precision::fp32)
                std::memcpy(to + k, &word, 4);
            else if (precision_ == Precision::bf16)
                to[k] = from_bf16(Bf16(word >> (16 * (k % 2))));
            else
                to[k] = float(int8_t((word >> (8 * (k % 4))) - INT8_OFFSET)) * scale_[n];
        }
    }

  private:
    // Make a matrix of zeros; in int8, a zero is stored as `INT8_OFFSET`.
    PackedMatrix(int out, int in, int words, Precision precision)
        : out_(out),
          in_(in),
          words_(words),
          precision_(precision),
          packed_(size_t(grouped(out)) * words, precision == Precision::int8 ? 0x01010101u * INT8_OFFSET : 0u),
          scale_(precision == Precision::int8 ? size_t(grouped(out)) : 0, 0.0f) {}

    // Return the offset of the first word of channel n; its words are GROUP words apart.
    size_t offset(int n) const { return size_t(n / GROUP) * words_ * GROUP + n % GROUP; }
    uint32_t* channel(int n) { return &packed_[offset(n)]; }

    void pack(const float* row, int n) {
        uint32_t* to = channel(n);
        float inverse = 0.0f;
        if (precision_ == Precision::int8) {
            float magnitude = 0.0f;
            for (int k = 0; k < in_; ++k) magnitude = std::max(magnitude, std::fabs(row[k]));
            scale_[n] = magnitude / 127.0f;
            inverse = int8_inverse(magnitude);
        }
        for (int k = 0; k < in_; ++k) {
            uint32_t& word = to[size_t(k / per_word(precision_)) * GROUP];
            if (precision_ == Precision::fp32)
                std::memcpy(&word, row + k, 4);
            else if (precision_ == Precision::bf16)
                word |= uint32_t(to_bf16(row[k])) << (16 * (k % 2));
            else {
                const int shift = 8 * (k % 4);
                const uint32_t byte = uint32_t(int(std::nearbyint(row[k] * inverse)) + INT8_OFFSET) & 255u;
                word = (word & ~(255u << shift)) | byte << shift;
            }
        }
    }

    int out_ = 0, in_ = 0, words_ = 0;
    Precision precision_ = Precision::fp32;
    std::vector<uint32_t> packed_, channels_;
    std::vector<float> scale_;
};

}  // namespace dragoman
