// Beam search for one sentence, one position at a time: dragoman.search.beam and limits.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "best.hpp"
#include "request.hpp"
#include "settings.hpp"

namespace dragoman {

// At each position: give every hypothesis' logits to `see`, then call `advance`.
class Beam {
  public:
    // One hypothesis without tokens; the arguments outlive this.
    Beam(const Request& request, const SearchConfig& config, const SpecialTokens& special)
        : request_(request), config_(config), special_(special), tokens_(1), log_probability_{0.0f}, seen_(1) {}

    int hypotheses() const { return int(tokens_.size()); }

    // The token that the decoder reads next.
    int last_token(int hypothesis) const {
        const auto& tokens = tokens_[size_t(hypothesis)];
        return tokens.empty() ? special_.bos : tokens.back();
    }

    // Keep what matters of the next token's logits, which are those of a `Logits`.
    template <class Logits>
    void see(int hypothesis, const Logits& logits) {
        Seen& seen = seen_[size_t(hypothesis)];
        seen.required = logits.of(required());
        // As many more than the search looks at as cannot be chosen: tokens that are never generated, and EOS.
        const int wanted = 2 * config_.beam + int(special_.never_generated.size()) + 1;
        seen.best.find(logits.values, logits.count, std::min(wanted, logits.count));
        for (auto& each : seen.best.logits) each.second = logits.token(each.second);
        seen.best.argmax = logits.token(seen.best.argmax);
    }

    // One more token for every hypothesis. The 2K best continuations of K hypotheses are considered: EOS among the
    // first K of them finishes a hypothesis; the best K that do not end continue. Returns their parents.
    std::vector<int> advance() {
        std::vector<Candidate> candidates = continuations();
        const size_t considered = std::min(candidates.size(), size_t(2 * config_.beam));
        std::partial_sort(candidates.begin(), candidates.begin() + std::ptrdiff_t(considered), candidates.end(),
                          [](const Candidate& a, const Candidate& b) { return a.log_probability > b.log_probability; });
        std::vector<std::vector<int>> tokens;
        std::vector<float> log_probability;
        std::vector<int> parents;
        for (size_t i = 0; i < considered; ++i) {
            const Candidate& each = candidates[i];
            if (each.token == special_.eos) {
                if (int(i) < config_.beam) finish(each);
            } else if (int(tokens.size()) < config_.beam) {
                tokens.push_back(tokens_[size_t(each.parent)]);
                tokens.back().push_back(each.token);
                log_probability.push_back(each.log_probability);
                parents.push_back(each.parent);
            }
        }
        tokens_ = std::move(tokens);
        log_probability_ = std::move(log_probability);
        seen_.resize(tokens_.size());
        ++position_;
        return parents;
    }

    // Whether the `n_best` are final: see `_decided` of dragoman.search.beam for the two rules.
    bool decided() const {
        const int last = position_ - 1;
        if (hypotheses() == 0 || last >= request_.maximum) return true;
        if (int(finished_.size()) < config_.n_best) return false;
        const float needed = finished_[size_t(config_.n_best) - 1].score;
        const float running = log_probability_[0], alpha = config_.length_penalty;
        if (needed >= running / length_penalty(request_.maximum + 1, alpha)) return true;
        return int(finished_.size()) == config_.beam && needed >= running / length_penalty(last + 1, alpha);
    }

    // The `n_best` hypotheses, best first; call it once, at the end.
    std::vector<Hypothesis> results() {
        if (int(finished_.size()) > config_.n_best) finished_.resize(size_t(config_.n_best));
        return std::move(finished_);
    }

  private:
    struct Candidate {
        float log_probability;  // of the hypothesis and `token`
        int token, parent;
    };

    // What is kept of the logits of one hypothesis.
    struct Seen {
        Best best;
        float required;  // the logit of `required()`
    };

    bool forced() const { return position_ < int(request_.prefix.size()); }
    bool at_limit() const { return position_ >= request_.maximum; }

    // The one token that the prefix or the maximum length allows, where they do.
    int required() const { return forced() ? request_.prefix[size_t(position_)] : special_.eos; }

    bool may_follow(int token) const {
        if (token == special_.eos) return position_ >= request_.minimum;
        const auto& never = special_.never_generated;
        return std::find(never.begin(), never.end(), token) == never.end();
    }

    std::vector<Candidate> continuations() const {
        std::vector<Candidate> candidates;
        for (int h = 0; h < hypotheses(); ++h) {
            const Seen& seen = seen_[size_t(h)];
            const auto consider = [&](float logit, int token) {
                candidates.push_back({log_probability_[size_t(h)] + (logit - seen.best.log_normaliser), token, h});
            };
            if (forced() || at_limit())
                consider(seen.required, required());
            else
                for (const auto& [logit, token] : seen.best.logits)
                    if (may_follow(token)) consider(logit, token);
        }
        return candidates;
    }

    // Keep a hypothesis that ends, if it is among the `beam` best of those.
    void finish(const Candidate& candidate) {
        const bool own_end = seen_[size_t(candidate.parent)].best.argmax == special_.eos || !at_limit();
        Hypothesis hypothesis{tokens_[size_t(candidate.parent)], candidate.log_probability,
                              candidate.log_probability / length_penalty(position_ + 1, config_.length_penalty),
                              own_end};
        auto place = finished_.end();
        while (place != finished_.begin() && (place - 1)->score < hypothesis.score) --place;
        finished_.insert(place, std::move(hypothesis));
        if (int(finished_.size()) > config_.beam) finished_.pop_back();
    }

    const Request& request_;
    const SearchConfig& config_;
    const SpecialTokens& special_;
    int position_ = 0;
    std::vector<std::vector<int>> tokens_;  // [hypothesis][position], best first
    std::vector<float> log_probability_;    // [hypothesis]
    std::vector<Seen> seen_;                // [hypothesis]
    std::vector<Hypothesis> finished_;      // at most `beam`, best first
};

}  // namespace dragoman
