// The linear layer Y = activation(X Wᵀ + b), computed in tiles whose sums stay in registers.
//
// The order of the additions of each value of Y does not depend on the other rows, so the translation of a sentence
// does not depend on the rest of the batch.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "activation.hpp"
#include "multiply.hpp"
#include "packed.hpp"
#include "team.hpp"

namespace dragoman {

// Number of vectors in a group of channels.
constexpr int VECTORS = GROUP / LANES;

class Linear {
  public:
    Linear() = default;

    // `bias` is [out], or empty.
    explicit Linear(PackedMatrix weights, std::vector<float> bias = {})
        : weights_(std::move(weights)), bias_(std::move(bias)) {
        if (!bias_.empty()) bias_.resize(size_t(grouped(out())), 0.0f);
    }

    int out() const { return weights_.out(); }
    int in() const { return weights_.in(); }
    const PackedMatrix& weights() const { return weights_; }
    size_t bytes() const { return weights_.bytes() + bias_.size() * 4; }

    // Compute y [R, stride] = activation(x Wᵀ + b), or y += activation(x Wᵀ + b) if `residual`. Columns up to
    // `grouped(out)` are written.
    void apply(const Rows& x, float* y, int stride, Team& team, Activation activation = Activation::none,
               bool residual = false) const {
        const int groups = weights_.groups();
        const Output to{y, stride, activation, residual, team.cancelled()};
        // More parts than threads, since the threads do not all begin at the same time.
        const int parts = team.size() == 1 ? 1 : std::min(groups, 4 * team.size());
        team.share(parts, [&](int i) {
            const int first = int(int64_t(groups) * i / parts), last = int(int64_t(groups) * (i + 1) / parts);
            switch (weights_.precision()) {
                case Precision::fp32:
                    return product<MultiplyFp32>(x, to, first, last);
                case Precision::bf16:
                    return product<MultiplyBf16>(x, to, first, last);
                case Precision::int8:
                    return product<MultiplyInt8>(x, to, first, last);
            }
        });
    }

    // Prepare for calls of `select`.
    void allow_selection() { weights_.allow_selection(); }

    // Return a layer with only some of the output channels, in the given order.
    Linear select(const std::vector<int>& channels) const {
        std::vector<float> bias;
        if (!bias_.empty())
            for (const int n : channels) bias.push_back(bias_[size_t(n)]);
        return Linear(weights_.select(channels), std::move(bias));
    }

  private:
    struct Output {
        float* y;
        int stride;
        Activation activation;
        bool residual;
        const CancelFlag& cancelled;
    };

    // Compute the channels of groups `first` to `last`. For one or two rows, a tile has 8 vectors of channels: with
    // few sums, each addition would wait for the previous one.
    template <class Multiply>
    void product(const Rows& x, const Output& to, int first, int last) const {
        constexpr int TILE_ROWS = Multiply::Tile::rows, TILE = Multiply::Tile::vectors;
        int v = first * VECTORS;
        const int end = last * VECTORS;
        if (x.count == 1)
            for (; v + 8 <= end; v += 8) tile<Multiply, 1, 8>(x, 0, v, to);
        if (x.count == 2 && REGISTERS == 32)
            for (; v + 8 <= end; v += 8) tile<Multiply, 2, 8>(x, 0, v, to);
        for (; v < end; v += TILE) {
            stop_if(to.cancelled);
            int r = 0;
            for (; r + TILE_ROWS <= x.count; r += TILE_ROWS) tile<Multiply, TILE_ROWS, TILE>(x, r, v, to);
            rest<Multiply, TILE_ROWS - 1>(x, r, v, to);
        }
    }

    template <class Multiply, int ROWS>
    void rest(const Rows& x, int row, int vector, const Output& to) const {
        if constexpr (ROWS > 0) {
            if (x.count - row == ROWS)
                tile<Multiply, ROWS, Multiply::Tile::vectors>(x, row, vector, to);
            else
                rest<Multiply, ROWS - 1>(x, row, vector, to);
        }
    }

    // Compute a tile of ROWS rows by N vectors of channels.
    template <class Multiply, int ROWS, int N>
    __attribute__((noinline)) void tile(const Rows& x, int row, int vector, const Output& to) const {
        typename Multiply::Sums sums[ROWS][N];
        for (int r = 0; r < ROWS; ++r)
            for (int n = 0; n < N; ++n) sums[r][n] = typename Multiply::Sums{};
        const uint32_t* data = x.data + size_t(row) * x.words;
        const int words = weights_.words();
        const size_t next_group = size_t(words) * GROUP;
        const uint32_t* weights = weights_.data() + vector / VECTORS * next_group + size_t(vector % VECTORS) * LANES;
        for (int k = 0; k < words; ++k, weights += GROUP)
#pragma GCC unroll 8
            for (int r = 0; r < ROWS; ++r) {
                const uint32_t word = data[size_t(r) * x.words + k];
#pragma GCC unroll 8
                for (int n = 0; n < N; ++n)
                    Multiply::add(sums[r][n], weights + (n / VECTORS) * next_group + (n % VECTORS) * LANES, word);
            }
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 8
            for (int n = 0; n < N; ++n) finish(sums[r][n], x, row + r, (vector + n) * LANES, to);
    }

    void finish(Floats sums, const Rows&, int row, int channel, const Output& to) const {
        write(sums, row, channel, to);
    }

    // Σ w x = Σ (w + offset) x - offset Σ x, multiplied by the scales of the channel and of the row.
    void finish(Ints sums, const Rows& x, int row, int channel, const Output& to) const {
        const Ints exact = sums - INT8_OFFSET * x.total[row];
        const Floats scale = load(weights_.scale() + channel) * x.scale[row];
        write(__builtin_convertvector(exact, Floats) * scale, row, channel, to);
    }

    void write(Floats value, int row, int channel, const Output& to) const {
        if (!bias_.empty()) value += load(&bias_[channel]);
        value = activate(to.activation, value);
        float* y = to.y + size_t(row) * to.stride + channel;
        store(y, to.residual ? load(y) + value : value);
    }

    PackedMatrix weights_;
    std::vector<float> bias_;
};

}  // namespace dragoman
