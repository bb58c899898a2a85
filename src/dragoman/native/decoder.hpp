// The decoder, one position at a time, one row per hypothesis; the reference is dragoman.models.transformer.Decoder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layers.hpp"
#include "state.hpp"

namespace dragoman {

struct DecoderLayer {
    DecoderLayer(const Loader& load, const std::string& name)
        : self_attention(load, name + "self_attention", name + "self_residual"),
          memory_residual(load, name + "memory_residual"),
          feed_forward(load, name + "feed_forward") {
        const std::string source = name + "memory_attention.";
        const int width = load.settings.d_model;
        memory_query = load.linear({source + "query"}, width, width);
        memory_key_value = load.linear({source + "key", source + "value"}, width, width);
        memory_output = load.linear({source + "output"}, width, width);
    }

    size_t bytes() const {
        return self_attention.bytes() + memory_query.bytes() + memory_key_value.bytes() + memory_output.bytes() +
               feed_forward.bytes();
    }

    SelfAttention self_attention;
    Linear memory_query, memory_key_value, memory_output;
    Residual memory_residual;
    FeedForward feed_forward;
};

class Decoder {
  public:
    Decoder(const Loader& load, int layers) : heads_(load.settings) {
        for (int i = 0; i < layers; ++i) layers_.emplace_back(load, "decoder.layers." + std::to_string(i) + ".");
        if (load.settings.norm_placement == NormPlacement::pre) final_norm_.emplace(load, "decoder.final_norm");
    }

    int layers() const { return int(layers_.size()); }

    // Compute the keys and values of the encoder's states `s.x` for each layer, and store them in the decoder states.
    // Sentence i is rows starts[i] to starts[i + 1].
    template <class Cell>
    void fill_memory(const std::vector<int>& starts, const std::vector<DecoderState<Cell>*>& states, Scratch& s) const {
        const int rows = starts.back(), width = heads_.d_model;
        const Rows x = s.rows.convert(s.x, rows);
        for (auto* state : states) state->memory.resize(layers_.size());
        for (size_t layer = 0; layer < layers_.size(); ++layer) {
            s.projected.resize(rows, 2 * width);
            const int stride = s.projected.stride();
            layers_[layer].memory_key_value.apply(x, s.projected.data(), stride, s.team);
            for (size_t i = 0; i < states.size(); ++i) {
                const float* p = s.projected.row(starts[i]);
                states[i]->memory[layer].fill(p, p + width, stride, starts[i + 1] - starts[i], width);
            }
        }
    }

    // Transform the embeddings `s.x` of one position of every hypothesis to decoder states, in place: one row per
    // hypothesis, sentence by sentence. The caches must have been extended by this position.
    template <class Cell>
    void step(const std::vector<DecoderState<Cell>*>& states, int rows, Scratch& s) const {
        for (int i = 0; i < layers(); ++i) {
            const DecoderLayer& layer = layers_[size_t(i)];
            attend_to_past(layer, i, states, rows, s);
            attend_to_memory(layer, i, states, rows, s);
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
    template <class Cell>
    void attend_to_past(const DecoderLayer& layer, int number, const std::vector<DecoderState<Cell>*>& states, int rows,
                        Scratch& s) const {
        layer.self_attention.project(rows, s);
        std::vector<const Cell*> past;
        int row = 0;
        for (auto* state : states) {
            Cache<Cell>& cache = state->cache;
            for (int h = 0; h < cache.hypotheses(); ++h)
                heads_.remember(s.projected.row(row + h), cache.length() - 1, s.angles, cache.last(number, h));
            for (int h = 0; h < cache.hypotheses(); ++h, ++row) {
                stop_if(s.team.cancelled());
                cache.past(number, h, past);
                attend_along(s.projected.row(row), past, int(past.size()), s.attended.row(row), heads_.d_model,
                             heads_.count, heads_.scale, s.scores);
            }
        }
        layer.self_attention.add(rows, s);
    }

    template <class Cell>
    void attend_to_memory(const DecoderLayer& layer, int number, const std::vector<DecoderState<Cell>*>& states,
                          int rows, Scratch& s) const {
        const int width = heads_.d_model;
        const Rows x = layer.memory_residual.input(rows, s);
        // Both are [rows, D], so their strides are equal.
        s.projected.resize(rows, width);
        s.attended.resize(rows, width);
        const int stride = s.projected.stride();
        layer.memory_query.apply(x, s.projected.data(), stride, s.team);
        int row = 0;
        for (const auto* state : states) {
            const Memory<Cell>& memory = state->memory[size_t(number)];
            attend(s.projected.row(row), memory, {memory.length, false}, s.attended.row(row), state->hypotheses(),
                   stride, stride, width, heads_.count, heads_.scale, s.scores, s.team.cancelled());
            row += state->hypotheses();
        }
        layer.memory_residual.add(layer.memory_output, s.attended, rows, s);
    }

    const Heads heads_;
    std::vector<DecoderLayer> layers_;
    std::optional<Norm> final_norm_;
};

}  // namespace dragoman
