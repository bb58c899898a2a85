// Token embeddings and positions: the input of the encoder and of the decoder.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "weights.hpp"

namespace dragoman {

// Sine and cosine of each angle of each position, [length, width].
using Angles = std::shared_ptr<const std::vector<float>>;

// Table of the angles pos / base^(2i / width) of the positions requested so far; thread-safe.
//
// The width is D for sinusoidal positions (Vaswani et al., 2017, section 3.5), d_k for rotary positions (Su et al.,
// 2021), and 0 for learned positions and for none.
class AngleTable {
  public:
    explicit AngleTable(const LayerSettings& settings)
        : width_(size_t(settings.positions == PositionKind::sinusoidal ? settings.d_model
                        : settings.positions == PositionKind::rotary   ? settings.d_model / settings.heads
                                                                       : 0)),
          base_(settings.position_base) {}

    // Return `angles` if it has at least `length` positions, else a longer table. Each table is at least twice as long
    // as the previous one, so that the mean cost per position is constant.
    Angles at_least(int length, const Angles& angles) {
        if (angles && angles->size() >= length * width_) return angles;
        const std::lock_guard<std::mutex> guard(lock_);
        if (angles_->size() < length * width_)
            angles_ = extended(std::max(size_t(length) * width_, 2 * angles_->size()));
        return angles_;
    }

  private:
    // Return a copy of the table, extended to `size` values.
    Angles extended(size_t size) const {
        auto table = std::make_shared<std::vector<float>>();
        table->reserve(size);
        *table = *angles_;
        table->resize(size);
        for (size_t d = 0; d < width_; d += 2) {
            const double divisor = std::pow(base_, double(d) / double(width_));
            for (size_t i = angles_->size() + d; i < size; i += width_) {
                const double angle = double(i / width_) / divisor;
                (*table)[i] = float(std::sin(angle));
                (*table)[i + 1] = float(std::cos(angle));
            }
        }
        return table;
    }

    const size_t width_;
    const double base_;
    Angles angles_ = std::make_shared<std::vector<float>>();
    std::mutex lock_;
};

// Token embeddings times a constant, plus sinusoidal or learned positions.
class Embedding {
  public:
    // `tokens` is [vocabulary, D] and must outlive this object; `name` is the name of the module in the model. Token
    // embeddings are multiplied by `scale`.
    Embedding(const Loader& load, const PackedMatrix& tokens, const std::string& name, float scale)
        : tokens_(tokens), scale_(scale), kind_(load.settings.positions), max_positions_(load.settings.max_positions) {
        if (kind_ == PositionKind::learned)
            learned_ = load.rows(name + ".positions.embedding.weight", max_positions_, tokens.in());
    }

    // Write the embedding of a token at a position to `to` [D].
    void embed(int token, int position, const Angles& angles, float* to) const {
        const int width = tokens_.in();
        tokens_.row(token, to);
        const float* added = positions(position, angles);
        for (int d = 0; d < width; ++d) to[d] = to[d] * scale_ + (added ? added[d] : 0.0f);
    }

  private:
    // Return the vector [D] to add at a position; null if nothing is added.
    const float* positions(int position, const Angles& angles) const {
        switch (kind_) {
            case PositionKind::learned:
                if (position >= max_positions_)
                    throw std::out_of_range("a sequence is longer than the " + std::to_string(max_positions_) +
                                            " learned positions of the model");
                return &learned_[size_t(position) * tokens_.in()];
            case PositionKind::sinusoidal:
                return angles->data() + size_t(position) * tokens_.in();
            case PositionKind::rotary:
            case PositionKind::none:
                return nullptr;
        }
        __builtin_unreachable();
    }

    const PackedMatrix& tokens_;
    const float scale_;
    const PositionKind kind_;
    const int max_positions_;
    std::vector<float> learned_;
};

}  // namespace dragoman
