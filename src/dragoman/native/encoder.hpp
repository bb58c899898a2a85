// The encoder, one row per token; the reference is dragoman.models.transformer.Encoder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attention.hpp"
#include "layers.hpp"

namespace dragoman {

struct EncoderLayer {
    EncoderLayer(const Loader& load, const std::string& name)
        : self_attention(load, name + "self_attention", name + "attention_residual"),
          feed_forward(load, name + "feed_forward") {}

    size_t bytes() const { return self_attention.bytes() + feed_forward.bytes(); }

    SelfAttention self_attention;
    FeedForward feed_forward;
};

class Encoder {
  public:
    Encoder(const Loader& load, int layers) : heads_(load.settings) {
        for (int i = 0; i < layers; ++i) layers_.emplace_back(load, "encoder.layers." + std::to_string(i) + ".");
        if (load.settings.norm_placement == NormPlacement::pre) final_norm_.emplace(load, "encoder.final_norm");
    }

    // Transform the embeddings `s.x` of several sentences to encoder states, in place. Sentence i is rows starts[i] to
    // starts[i + 1].
    void apply(const std::vector<int>& starts, Scratch& s) const {
        const int rows = starts.back();
        for (const auto& layer : layers_) {
            attend_to_self(layer, starts, s);
            layer.feed_forward.apply(rows, s);
        }
        if (final_norm_) final_norm_->apply(s.x, rows);
    }

    size_t bytes() const {
        size_t all = 0;
        for (const auto& layer : layers_) all += layer.bytes();
        return all;
    }

  private:
    void attend_to_self(const EncoderLayer& layer, const std::vector<int>& starts, Scratch& s) const {
        const int width = heads_.d_model;
        layer.self_attention.project(starts.back(), s);
        const int stride = s.projected.stride();
        Memory<float> memory;
        for (size_t i = 0; i + 1 < starts.size(); ++i) {
            const int first = starts[i], length = starts[i + 1] - first;
            float* p = s.projected.row(first);
            for (int t = 0; t < length; ++t) heads_.rotate(p + size_t(t) * stride, t, s.angles);
            memory.fill(p + width, p + 2 * width, stride, length, width);
            // [length, 3 D] -> [length, D]
            attend(p, memory, {length, false}, s.attended.row(first), length, stride, s.attended.stride(), width,
                   heads_.count, heads_.scale, s.scores, s.team.cancelled());
        }
        layer.self_attention.add(starts.back(), s);
    }

    const Heads heads_;
    std::vector<EncoderLayer> layers_;
    std::optional<Norm> final_norm_;
};

}  // namespace dragoman
