// The decoder-only Transformer for inference; the reference is dragoman.models.language.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attention.hpp"
#include "layers.hpp"
#include "text_cache.hpp"

namespace dragoman {

struct LanguageLayer {
    LanguageLayer(const Loader& load, const std::string& name)
        : self_attention(load, name + "self_attention", name + "attention_residual"),
          feed_forward(load, name + "feed_forward") {}

    size_t bytes() const { return self_attention.bytes() + feed_forward.bytes(); }

    SelfAttention self_attention;
    FeedForward feed_forward;
};

class LanguageModel {
  public:
    LanguageModel(const LanguageSettings& settings, const ReadWeight& read, Precision precision)
        : LanguageModel({read, settings, precision}, settings) {}
    LanguageModel(const LanguageModel&) = delete;

    const LanguageSettings& settings() const { return settings_; }
    Precision precision() const { return precision_; }
    const Linear& output() const { return output_; }

    // Return a number that no other model has.
    uint64_t number() const { return number_; }

    // Return the size of the packed weights in memory.
    size_t bytes() const {
        size_t all = output_.bytes() + tokens_.bytes();
        for (const auto& layer : layers_) all += layer.bytes();
        return all;
    }

    // Thread-safe.
    AngleTable& angles() { return angles_; }

    // Extend `rows` texts by `count` tokens each, those of text i at tokens[i * stride]; write the states of the last
    // layer to `s.x`, text by text.
    template <class Cell>
    void read(TextCache<Cell>* const* texts, int rows, const int* tokens, int stride, int count, Scratch& s) const {
        s.x.resize(rows * count, settings_.d_model);
        for (int i = 0; i < rows; ++i) {
            const int start = texts[i]->length();
            s.ensure_positions(start + count);
            for (int t = 0; t < count; ++t)
                embedding_.embed(tokens[size_t(i) * stride + t], start + t, s.angles, s.x.row(i * count + t));
            texts[i]->extend(count);
        }
        for (int number = 0; number < settings_.layers; ++number) {
            const LanguageLayer& layer = layers_[size_t(number)];
            layer.self_attention.project(rows * count, s);
            for (int i = 0; i < rows; ++i) attend_to_past(number, *texts[i], i * count, count, s);
            layer.self_attention.add(rows * count, s);
            layer.feed_forward.apply(rows * count, s);
        }
    }

    // Call `on_logits(row, logits)` for the first rows of `s.x`. The logits have room up to a multiple of LANES.
    template <class OnLogits>
    void project(int rows, Scratch& s, const OnLogits& on_logits) const {
        if (final_norm_) final_norm_->apply(s.x, rows);
        const Rows x = s.rows.convert(s.x, rows);
        // In blocks, so that the logits stay in the processor's cache.
        for (int first = 0; first < rows; first += LOGIT_ROWS) {
            const int count = std::min(LOGIT_ROWS, rows - first);
            float* logits = s.logits.resize(count, output_.out());
            output_.apply(x.part(first, count), logits, s.logits.stride(), s.team);
            for (int row = 0; row < count; ++row) on_logits(first + row, s.logits.row(row));
        }
    }

  private:
    LanguageModel(const Loader& load, const LanguageSettings& settings)
        : settings_(settings),
          precision_(load.precision),
          output_(
              load.matrix(settings.tied_embeddings ? TOKENS : "output.weight", settings.vocabulary, settings.d_model)),
          tokens_(settings.tied_embeddings ? PackedMatrix()
                                           : load.matrix(TOKENS, settings.vocabulary, settings.d_model)),
          embedding_(load, settings.tied_embeddings ? output_.weights() : tokens_, "embedding",
                     settings.positions == PositionKind::sinusoidal ? std::sqrt(float(settings.d_model)) : 1.0f),
          heads_(settings),
          angles_(settings) {
        for (int i = 0; i < settings.layers; ++i) layers_.emplace_back(load, "layers." + std::to_string(i) + ".");
        if (settings.norm_placement == NormPlacement::pre) final_norm_.emplace(load, "final_norm");
    }

    // Compute the attention of the last `count` positions of a text, whose projections begin at row `first`.
    template <class Cell>
    void attend_to_past(int layer, const TextCache<Cell>& text, int first, int count, Scratch& s) const {
        const int width = heads_.d_model, start = text.length() - count;
        for (int t = 0; t < count; ++t)
            heads_.remember(s.projected.row(first + t), start + t, s.angles, text.at(layer, start + t));
        std::vector<const Cell*> past;
        text.past(layer, past);
        const int visible = text.visible() - count + 1;  // to the first of the positions
        if (count < PREFILL) {
            for (int t = 0; t < count; ++t) {
                stop_if(s.team.cancelled());
                attend_along(s.projected.row(first + t), past, visible + t, s.attended.row(first + t), width,
                             heads_.count, heads_.scale, s.scores);
            }
            return;
        }
        Memory<Cell> memory;
        memory.gather(past, width);
        attend(s.projected.row(first), memory, {visible, true}, s.attended.row(first), count, s.projected.stride(),
               s.attended.stride(), width, heads_.count, heads_.scale, s.scores, s.team.cancelled());
    }

    static constexpr const char* TOKENS = "embedding.tokens.weight";
    static constexpr int LOGIT_ROWS = 36;
    // For as many queries, it is faster to copy the keys to the layout of `Memory` first.
    static constexpr int PREFILL = 8;
    static inline std::atomic<uint64_t> models_{0};

    const uint64_t number_ = ++models_;
    const LanguageSettings settings_;
    const Precision precision_;
    const Linear output_;
    const PackedMatrix tokens_;  // empty if it is tied to the output
    const Embedding embedding_;
    const Heads heads_;
    std::vector<LanguageLayer> layers_;
    std::optional<Norm> final_norm_;
    AngleTable angles_;
};

// Reads texts with the buffers of one worker.
class Reader {
  public:
    // The arguments must outlive this object.
    Reader(LanguageModel& model, int team_size, const CancelFlag& cancelled)
        : model_(model), scratch_(model.precision(), team_size, model.angles(), cancelled) {}

    // Extend texts by `count` tokens each; `tokens` is [rows, count]. Call `on_logits(i, t, logits)` with the logits of
    // the token after token t of text i: for the last token, or for every token if `all`.
    //
    // Long texts are read in chunks, so that the buffers remain small. Chunks depend on `count` only.
    template <class Cell, class OnLogits>
    void read(const std::vector<TextCache<Cell>*>& texts, const int* tokens, int count, bool all,
              const OnLogits& on_logits) {
        const int rows = int(texts.size());
        const int together = std::max(1, CHUNK / std::max(1, std::min(count, CHUNK)));
        for (int first = 0; first < rows; first += together) {
            const int taken = std::min(together, rows - first);
            for (int start = 0; start < count; start += CHUNK) {
                const int length = std::min(CHUNK, count - start);
                model_.read(texts.data() + first, taken, tokens + size_t(first) * count + start, count, length,
                            scratch_);
                if (all)
                    model_.project(taken * length, scratch_, [&](int row, float* logits) {
                        on_logits(first + row / length, start + row % length, logits);
                    });
                else if (start + length == count) {
                    for (int i = 0; i < taken; ++i)
                        std::copy_n(scratch_.x.row((i + 1) * length - 1), scratch_.x.width(), scratch_.x.row(i));
                    model_.project(taken, scratch_,
                                   [&](int row, float* logits) { on_logits(first + row, count - 1, logits); });
                }
            }
        }
    }

  private:
    static constexpr int CHUNK = 256;

    LanguageModel& model_;
    Scratch scratch_;
};

}  // namespace dragoman
