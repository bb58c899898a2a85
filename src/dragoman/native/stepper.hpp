// Interface between the search and the model, one position at a time, with the buffers of one worker; see
// dragoman.search.stepper.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "model.hpp"

namespace dragoman {

// A source to encode: its ids with EOS, the largest number of its hypotheses, and the tokens that its output may use,
// ascending (empty: the whole vocabulary).
struct Source {
    const std::vector<int>& tokens;
    int beam;
    std::vector<int> allowed;
};

// The logits of one hypothesis, over the whole vocabulary or over the part that its sentence may use.
struct Logits {
    float* values;  // [count], with room up to a multiple of LANES
    int count;
    const VocabularyPart& part;

    // Return the token of the logit values[index].
    int token(int index) const { return part.whole() ? index : part.tokens[size_t(index)]; }

    // Return the logit of a token, which must be allowed.
    float of(int token) const {
        if (part.whole()) return values[token];
        return values[std::lower_bound(part.tokens.begin(), part.tokens.end(), token) - part.tokens.begin()];
    }
};

// `Cell` is the type of stored keys and values: float for weights in float32, else bf16.
template <class Cell>
class Stepper {
  public:
    using State = DecoderState<Cell>;

    // The arguments must outlive this object.
    Stepper(Model& model, int team_size, const CancelFlag& cancelled)
        : model_(model), scratch_(model.precision(), team_size, model.angles(), cancelled) {}

    // Encode sources together; return the initial decoder state of each, with one hypothesis without tokens.
    std::vector<std::unique_ptr<State>> start(std::vector<Source> sources) {
        std::vector<std::unique_ptr<State>> states;
        std::vector<State*> all;
        std::vector<int> starts{0};
        for (auto& source : sources) {
            starts.push_back(starts.back() + int(source.tokens.size()));
            states.push_back(std::make_unique<State>(pool(source.beam)));
            all.push_back(states.back().get());
            if (source.allowed.empty()) continue;
            Linear output = model_.output().select(source.allowed);
            all.back()->part = {std::move(source.allowed), std::move(output)};
        }
        if (states.empty()) return states;
        scratch_.x.resize(starts.back(), model_.settings().d_model);
        size_t longest = 0;
        for (const auto& source : sources) longest = std::max(longest, source.tokens.size());
        scratch_.ensure_positions(int(longest));
        for (size_t i = 0; i < sources.size(); ++i)
            for (int t = 0; t < starts[i + 1] - starts[i]; ++t)
                model_.source_embedding().embed(sources[i].tokens[size_t(t)], t, scratch_.angles,
                                                scratch_.x.row(starts[i] + t));
        model_.encoder().apply(starts, scratch_);
        model_.decoder().fill_memory(starts, all, scratch_);
        return states;
    }

    // Extend every hypothesis of every state by its last token (`tokens`, state by state), and call
    // `on_logits(state, hypothesis, logits)` with the logits of the next token.
    template <class OnLogits>
    void step(const std::vector<State*>& states, const std::vector<int>& tokens, const OnLogits& on_logits) {
        scratch_.x.resize(int(tokens.size()), model_.settings().d_model);
        owners_.clear();
        for (size_t i = 0; i < states.size(); ++i) {
            const int position = states[i]->cache.length();
            scratch_.ensure_positions(position + 1);
            states[i]->cache.extend();
            for (int h = 0; h < states[i]->hypotheses(); ++h) {
                const int row = int(owners_.size());
                model_.target_embedding().embed(tokens[size_t(row)], position, scratch_.angles, scratch_.x.row(row));
                owners_.push_back({i, h});
            }
        }
        model_.decoder().step(states, int(tokens.size()), scratch_);
        project(states, on_logits);
    }

  private:
    // The state and hypothesis to which a row belongs.
    struct Owner {
        size_t state;
        int hypothesis;
    };

    // Project onto the vocabulary: rows of sentences that use the whole vocabulary in blocks of LOGIT_ROWS, so that
    // their logits stay in the processor's cache; other rows sentence by sentence.
    template <class OnLogits>
    void project(const std::vector<State*>& states, const OnLogits& on_logits) {
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
                on_logits(owners_[size_t(row)].state, owners_[size_t(row)].hypothesis,
                          Logits{scratch_.logits.row(row - first), output.out(), part});
            first = last;
        }
    }

    // Return the pool of pages for this number of hypotheses. Without a limit, pools that are no longer used would keep
    // their memory.
    std::shared_ptr<PagePool<Cell>> pool(int beam) {
        if (pools_.size() == MOST_POOLS && pools_.count(beam) == 0)
            for (auto each = pools_.begin(); each != pools_.end();)
                each = each->second.use_count() == 1 ? pools_.erase(each) : std::next(each);
        auto& pool = pools_[beam];
        if (!pool) pool = std::make_shared<PagePool<Cell>>(model_.decoder().layers(), beam, model_.settings().d_model);
        return pool;
    }

    const VocabularyPart& part_of(const std::vector<State*>& states, int row) const {
        return states[owners_[size_t(row)].state]->part;
    }

    static constexpr int LOGIT_ROWS = 36;
    static constexpr size_t MOST_POOLS = 8;

    const Model& model_;
    Scratch scratch_;
    std::map<int, std::shared_ptr<PagePool<Cell>>> pools_;  // by the largest number of hypotheses
    std::vector<Owner> owners_;                             // [row]
};

// Call `function` with a stepper whose keys and values are stored as float for weights in float32, else as bf16.
template <class Function>
void with_stepper(Model& model, int team_size, const CancelFlag& cancelled, const Function& function) {
    if (model.precision() == Precision::fp32) {
        Stepper<float> stepper(model, team_size, cancelled);
        function(stepper);
    } else {
        Stepper<Bf16> stepper(model, team_size, cancelled);
        function(stepper);
    }
}

}  // namespace dragoman
