// Beam search for one sentence, one position at a time; the reference is dragoman.search.beam.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "best.hpp"
#include "request.hpp"
#include "settings.hpp"

namespace dragoman {

// Beam search state. At each position, pass the logits of every hypothesis to `observe`, then call `advance`.
class Beam {
  public:
    // Begin with one hypothesis without tokens. The arguments must outlive this object.
    Beam(const Request& request, const SearchConfig& config, const SpecialTokens& special)
        : request_(request),
          config_(config),
          special_(special),
          tokens_(1),
          totals_(1),
          log_probability_{0.0f},
          observed_(1) {}

    int hypotheses() const { return int(tokens_.size()); }
    int position() const { return position_; }

    // Return the tokens of the most probable hypothesis that is not finished; there must be one.
    const std::vector<int>& best() const { return tokens_.front(); }

    // Return the next input token of the decoder.
    int last_token(int hypothesis) const {
        const auto& tokens = tokens_[size_t(hypothesis)];
        return tokens.empty() ? special_.bos : tokens.back();
    }

    // Record the most probable next tokens from the logits, which are a `Logits` (see stepper.hpp).
    template <class Logits>
    void observe(int hypothesis, const Logits& logits) {
        Observed& observed = observed_[size_t(hypothesis)];
        observed.required = logits.of(required());
        // `advance` considers 2 * beam tokens. EOS and the tokens that are never generated may not be allowed.
        const int count = 2 * config_.beam + int(special_.never_generated.size()) + 1;
        observed.best.find(logits.values, logits.count, std::min(count, logits.count));
        for (auto& each : observed.best.logits) each.second = logits.token(each.second);
        observed.best.argmax = logits.token(observed.best.argmax);
    }

    // Extend the hypotheses by one token; return the parent of each new hypothesis. With a beam of K, the 2K best
    // continuations are considered: EOS among the first K of them finishes a hypothesis, and the best K others
    // continue.
    std::vector<int> advance() {
        std::vector<Candidate> candidates = continuations();
        const size_t considered = std::min(candidates.size(), size_t(2 * config_.beam));
        std::partial_sort(candidates.begin(), candidates.begin() + std::ptrdiff_t(considered), candidates.end(),
                          [](const Candidate& a, const Candidate& b) { return a.log_probability > b.log_probability; });
        std::vector<std::vector<int>> tokens;
        std::vector<std::vector<float>> totals;
        std::vector<float> log_probability;
        std::vector<int> parents;
        for (size_t i = 0; i < considered; ++i) {
            const Candidate& each = candidates[i];
            if (each.token == special_.eos) {
                if (int(i) < config_.beam) finish(each);
            } else if (int(tokens.size()) < config_.beam) {
                tokens.push_back(tokens_[size_t(each.parent)]);
                tokens.back().push_back(each.token);
                totals.push_back(totals_[size_t(each.parent)]);
                totals.back().push_back(each.log_probability);
                log_probability.push_back(each.log_probability);
                parents.push_back(each.parent);
            }
        }
        tokens_ = std::move(tokens);
        totals_ = std::move(totals);
        log_probability_ = std::move(log_probability);
        observed_.resize(tokens_.size());
        ++position_;
        return parents;
    }

    // Return true if the `n_best` outputs are final; dragoman.search.beam explains the two rules.
    bool decided() const {
        const int last = position_ - 1;
        if (hypotheses() == 0 || last >= request_.maximum) return true;
        if (int(finished_.size()) < config_.n_best) return false;
        const float needed = finished_[size_t(config_.n_best) - 1].score;
        const float running = log_probability_[0], alpha = config_.length_penalty;
        if (needed >= running / length_penalty(request_.maximum + 1, alpha)) return true;
        return int(finished_.size()) == config_.beam && needed >= running / length_penalty(last + 1, alpha);
    }

    // Return the `n_best` hypotheses, best first. Call this once, at the end.
    std::vector<Hypothesis> results() {
        if (int(finished_.size()) > config_.n_best) finished_.resize(size_t(config_.n_best));
        return std::move(finished_);
    }

  private:
    struct Candidate {
        float log_probability;  // of the parent hypothesis followed by `token`
        int token, parent;
    };

    // What is recorded of the logits of one hypothesis.
    struct Observed {
        Best best;
        float required;  // the logit of the token `required()`
    };

    bool forced() const { return position_ < int(request_.prefix.size()); }
    bool at_limit() const { return position_ >= request_.maximum; }

    // Return the only token that the prefix or the maximum length allows; valid if `forced()` or `at_limit()`.
    int required() const { return forced() ? request_.prefix[size_t(position_)] : special_.eos; }

    bool may_follow(int token) const {
        if (token == special_.eos) return position_ >= request_.minimum;
        const auto& never = special_.never_generated;
        return std::find(never.begin(), never.end(), token) == never.end();
    }

    std::vector<Candidate> continuations() const {
        std::vector<Candidate> candidates;
        for (int h = 0; h < hypotheses(); ++h) {
            const Observed& observed = observed_[size_t(h)];
            const auto consider = [&](float logit, int token) {
                candidates.push_back({log_probability_[size_t(h)] + (logit - observed.best.log_normaliser), token, h});
            };
            if (forced() || at_limit())
                consider(observed.required, required());
            else
                for (const auto& [logit, token] : observed.best.logits)
                    if (may_follow(token)) consider(logit, token);
        }
        return candidates;
    }

    // Record a finished hypothesis, if it is among the `beam` best finished ones.
    void finish(const Candidate& candidate) {
        // At the maximum length EOS is forced: the output is unfinished if another token was more probable.
        const bool finished = observed_[size_t(candidate.parent)].best.argmax == special_.eos || !at_limit();
        Hypothesis hypothesis{
            tokens_[size_t(candidate.parent)], totals_[size_t(candidate.parent)], candidate.log_probability,
            candidate.log_probability / length_penalty(position_ + 1, config_.length_penalty), finished};
        auto place = finished_.end();
        while (place != finished_.begin() && (place - 1)->score < hypothesis.score) --place;
        finished_.insert(place, std::move(hypothesis));
        if (int(finished_.size()) > config_.beam) finished_.pop_back();
    }

    const Request& request_;
    const SearchConfig& config_;
    const SpecialTokens& special_;
    int position_ = 0;
    std::vector<std::vector<int>> tokens_;    // [hypothesis][position], best first
    std::vector<std::vector<float>> totals_;  // [hypothesis][position]: see `Hypothesis`
    std::vector<float> log_probability_;      // [hypothesis]
    std::vector<Observed> observed_;          // [hypothesis]
    std::vector<Hypothesis> finished_;        // at most `beam`, best first
};

}  // namespace dragoman
