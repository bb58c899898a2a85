// Search for many sentences with continuous batching: each sentence is at its own position, and finished sentences are
// replaced by others.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "beam.hpp"
#include "shortlist.hpp"
#include "stepper.hpp"

namespace dragoman {

// The requests of one search; workers take them one by one.
struct Queue {
    const std::vector<Request>& requests;
    std::vector<size_t> order;
    std::atomic<size_t> next{0};  // index in `order`
    CancelFlag cancelled{false};
};

// A worker with a batch of its own; there is one worker per thread.
template <class Cell>
class Worker {
  public:
    // `shortlist` may be null.
    Worker(Stepper<Cell>& stepper, const SpecialTokens& special, const SearchConfig& config, const BatchLimits& limits,
           const Shortlist* shortlist)
        : stepper_(stepper), special_(special), config_(config), limits_(limits), shortlist_(shortlist) {}

    // Search until the queue is empty or cancelled. The hypotheses of request i are written to `results[i]`.
    void run(Queue& queue, std::vector<std::vector<Hypothesis>>& results) {
        while (!queue.cancelled) {
            admit(queue);
            if (active_.empty()) return;
            advance(results);
        }
    }

  private:
    struct Sentence {
        size_t index;    // of the request
        int64_t weight;  // source tokens times the beam, see `BatchLimits`
        Beam beam;
        std::unique_ptr<DecoderState<Cell>> state;
    };

    int64_t weight(const Request& request) const { return int64_t(request.source.size()) * config_.beam; }

    // Admit sentences if a quarter of the batch is free: encoding several sentences together is faster.
    void admit(Queue& queue) {
        const int64_t maximum = limits_.sentences;
        if (!active_.empty() && int64_t(active_.size()) > maximum - std::max(int64_t(1), maximum / 4)) return;
        int64_t weights = 0;
        for (const auto& sentence : active_) weights += sentence.weight;
        std::vector<size_t> taken;
        while (int64_t(active_.size() + taken.size()) < maximum) {
            // A sentence that exceeds the limit is searched alone. Another worker may take the sentence that is checked
            // here; the one taken instead is not longer, since the order is by descending length.
            const size_t checked = queue.next.load();
            if (checked >= queue.order.size()) break;
            if (weights > 0 && weights + weight(queue.requests[queue.order[checked]]) > limits_.tokens) break;
            const size_t next = queue.next.fetch_add(1);
            if (next >= queue.order.size()) break;
            taken.push_back(queue.order[next]);
            weights += weight(queue.requests[taken.back()]);
        }
        std::vector<Source> sources;
        for (const size_t i : taken) {
            const Request& request = queue.requests[i];
            sources.push_back({request.source,
                               shortlist_ ? shortlist_->allowed(request.source, request.prefix) : std::vector<int>()});
        }
        auto states = stepper_.start(std::move(sources));
        for (size_t i = 0; i < taken.size(); ++i) {
            const Request& request = queue.requests[taken[i]];
            active_.push_back({taken[i], weight(request), Beam(request, config_, special_), std::move(states[i])});
        }
    }

    // Advance every sentence by one position, and remove those whose results are final.
    void advance(std::vector<std::vector<Hypothesis>>& results) {
        std::vector<DecoderState<Cell>*> states;
        std::vector<int> tokens;
        for (auto& sentence : active_) {
            states.push_back(sentence.state.get());
            for (int h = 0; h < sentence.beam.hypotheses(); ++h) tokens.push_back(sentence.beam.last_token(h));
        }
        stepper_.step(states, tokens, [&](size_t sentence, int hypothesis, const Logits& logits) {
            active_[sentence].beam.observe(hypothesis, logits);
        });
        std::vector<Sentence> running;
        for (auto& sentence : active_) {
            const std::vector<int> parents = sentence.beam.advance();
            if (sentence.beam.decided()) {
                results[sentence.index] = sentence.beam.results();
            } else {
                sentence.state->reorder(parents);
                running.push_back(std::move(sentence));
            }
        }
        active_ = std::move(running);
    }

    Stepper<Cell>& stepper_;
    const SpecialTokens& special_;
    const SearchConfig& config_;
    const BatchLimits& limits_;
    const Shortlist* const shortlist_;
    std::vector<Sentence> active_;
};

}  // namespace dragoman
