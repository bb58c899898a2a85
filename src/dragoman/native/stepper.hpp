// A model seen one position at a time, with the buffers of one worker: dragoman.search.stepper. All that a search
// knows of a model.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "model.hpp"

namespace dragoman {

// A source to encode: its ids with EOS, and what its output may use, ascending (empty: the whole vocabulary).
struct Source {
    const std::vector<int>& tokens;
    std::vector<int> allowed;
};

// The logits of one hypothesis: of the whole vocabulary, or of the part that its sentence may use.
struct Logits {
    float* values;  // [count], with room up to a multiple of LANES
    int count;
    const VocabularyPart& part;

    int token(int place) const { return part.whole() ? place : part.tokens[size_t(place)]; }

    // `token` must be allowed.
    float of(int token) const {
        if (part.whole()) return values[token];
        return values[std::lower_bound(part.tokens.begin(), part.tokens.end(), token) - part.tokens.begin()];
    }
};

// `Cell` is the type in which keys and values are kept: float, or bf16 where the weights are not float32 either.
template <class Cell>
class Stepper {
  public:
    using State = DecoderState<Cell>;

    // For at most `beam` hypotheses a sentence; the arguments outlive this.
    Stepper(Model& model, int beam, int team_size, const CancelFlag& cancelled)
        : model_(model),
          scratch_(model.precision(), team_size, model.angles(), cancelled),
          pool_(model.decoder().layers(), beam, model.settings().d_model) {}

    // Encode sources together; the states of outputs with no tokens yet, one hypothesis each. They must not outlive
    // this.
    std::vector<std::unique_ptr<State>> start(std::vector<Source> sources) {
        std::vector<std::unique_ptr<State>> states;
        std::vector<State*> all;
        std::vector<int> starts{0};
        for (auto& source : sources) {
            starts.push_back(starts.back() + int(source.tokens.size()));
            states.push_back(std::make_unique<State>(pool_));
            all.push_back(states.back().get());
            if (source.allowed.empty()) continue;
            Linear output = model_.output().select(source.allowed);
            all.back()->part = {std::move(source.allowed), std::move(output)};
        }
        if (states.empty()) return states;
        scratch_.x.resize(starts.back(), model_.settings().d_model);
        size_t longest = 0;
        for (const auto& source : sources) longest = std::max(longest, source.tokens.size());
        scratch_.need(int(longest));
        for (size_t i = 0; i < sources.size(); ++i)
            for (int t = 0; t < starts[i + 1] - starts[i]; ++t)
                model_.source_embedding().embed(sources[i].tokens[size_t(t)], t, scratch_.angles,
                                                scratch_.x.row(starts[i] + t));
        model_.encoder().apply(starts, scratch_);
        model_.decoder().remember(starts, all, scratch_);
        return states;
    }

    // Extend every hypothesis of every state by its last token (`tokens`, state by state), and call
    // `see(state, hypothesis, logits)` for the logits of the next one.
    template <class See>
    void step(const std::vector<State*>& states, const std::vector<int>& tokens, const See& see) {
        scratch_.x.resize(int(tokens.size()), model_.settings().d_model);
        owners_.clear();
        for (size_t i = 0; i < states.size(); ++i) {
            const int position = states[i]->cache.length();
            scratch_.need(position + 1);
            states[i]->cache.extend();
            for (int h = 0; h < states[i]->hypotheses(); ++h) {
                const int row = int(owners_.size());
                model_.target_embedding().embed(tokens[size_t(row)], position, scratch_.angles, scratch_.x.row(row));
                owners_.push_back({i, h});
            }
        }
        model_.decoder().step(states, int(tokens.size()), scratch_);
        project(states, see);
    }

  private:
    struct Owner {
        size_t state;
        int hypothesis;
    };

    // Project onto the vocabulary, some rows at a time so that their logits stay in the processor's cache: rows of
    // sentences that use all of it together, others sentence by sentence.
    template <class See>
    void project(const std::vector<State*>& states, const See& see) {
        const int rows = int(owners_.size());
        const Rows x = scratch_.rows.convert(scratch_.x, rows);
        for (int first = 0; first < rows;) {
            const VocabularyPart& part = part_of(states, first);
            int last = first + 1;
            while (last < rows && (part.whole() ? part_of(states, last).whole() && last - first < LOGIT_ROWS
                                                : &part_of(states, last) == &part))
                ++last;
            const Linear& output = part.whole() ? model_.output() : part.output;
            float* logits = scratch_.logits.resize(last - first, output.out());
            output.apply(x.part(first, last - first), logits, scratch_.logits.stride(), scratch_.team);
            for (int row = first; row < last; ++row)
                see(owners_[size_t(row)].state, owners_[size_t(row)].hypothesis,
                    Logits{scratch_.logits.row(row - first), output.out(), part});
            first = last;
        }
    }

    const VocabularyPart& part_of(const std::vector<State*>& states, int row) const {
        return states[owners_[size_t(row)].state]->part;
    }

    static constexpr int LOGIT_ROWS = 36;

    const Model& model_;
    Scratch scratch_;
    PagePool<Cell> pool_;
    std::vector<Owner> owners_;  // [row]
};

}  // namespace dragoman
