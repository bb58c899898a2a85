// Choice of the next token of a text; the reference is dragoman.search.continuation and dragoman.search.sampling.draw.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "best.hpp"
#include "settings.hpp"

namespace dragoman {

// The fields of dragoman.search.config.SamplingConfig and ContinuationConfig that the choice of a token needs.
struct SamplingSettings {
    bool greedy;  // take the most probable token
    double temperature;
    int top_k;  // 0: all tokens
    double top_p, min_p;
    float repetition_penalty;
};

inline void check(const SamplingSettings& settings) {
    require(settings.temperature > 0.0 && std::isfinite(settings.temperature), "temperature must be above 0");
    require(settings.top_k >= 0, "top_k must be at least 1");
    require(settings.top_p > 0.0 && settings.top_p <= 1.0, "top_p must lie above 0 and not above 1");
    require(settings.min_p >= 0.0 && settings.min_p <= 1.0, "min_p must lie between 0 and 1");
    require(settings.repetition_penalty >= 1.0f && std::isfinite(settings.repetition_penalty),
            "repetition_penalty must be at least 1");
}

class Sampler {
  public:
    // `never` are the tokens that are never chosen, all in the vocabulary; another token must be left.
    Sampler(const SamplingSettings& settings, const std::vector<int>& never, int vocabulary)
        : settings_(settings), never_(never), vocabulary_(vocabulary), penalised_(size_t(vocabulary)) {}

    int vocabulary() const { return vocabulary_; }

    // Choose a token from logits [vocabulary], with room up to a multiple of LANES; return its log-probability, without
    // temperature, penalty and truncation, too. `occurred` [vocabulary] is nonzero for the tokens that the penalty
    // applies to, `uniform` is a random number in [0, 1).
    std::pair<int, float> choose(float* logits, const uint8_t* occurred, double uniform) {
        const float normaliser = log_normaliser(logits, vocabulary_);
        std::copy(logits, logits + vocabulary_, penalised_.begin());
        if (settings_.repetition_penalty > 1.0f)
            for (int v = 0; v < vocabulary_; ++v)
                if (occurred[v]) penalise(penalised_[size_t(v)]);
        for (const int token : never_) penalised_[size_t(token)] = -INFINITE;
        const int token = settings_.greedy
                              ? int(std::max_element(penalised_.begin(), penalised_.end()) - penalised_.begin())
                              : draw(uniform);
        return {token, logits[token] - normaliser};
    }

  private:
    static constexpr double NOTHING = -std::numeric_limits<double>::infinity();

    // Make a token less probable (Keskar et al., 2019, section 4.1).
    void penalise(float& logit) const {
        logit = logit > 0.0f ? logit / settings_.repetition_penalty : logit * settings_.repetition_penalty;
    }

    // Sample a token by inverting the cumulative distribution over token ids.
    int draw(double uniform) {
        scaled_.resize(penalised_.size());
        for (size_t v = 0; v < scaled_.size(); ++v) scaled_[v] = double(penalised_[v]) / settings_.temperature;
        if (settings_.top_k > 0 && settings_.top_k < vocabulary_) keep_top_k();
        top_ = *std::max_element(scaled_.begin(), scaled_.end());
        if (settings_.top_p < 1.0) keep_top_p();
        if (settings_.min_p > 0.0) keep_above(top_ + std::log(settings_.min_p));
        const double target = uniform * exponentiate();
        double cumulative = 0.0;
        for (size_t v = 0; v < weights_.size(); ++v)
            if ((cumulative += weights_[v]) > target) return int(v);
        // Not reached, since `uniform` is below 1.
        throw std::logic_error("the random number is not below 1");
    }

    void keep_above(double threshold) {
        for (double& each : scaled_)
            if (each < threshold) each = NOTHING;
    }

    // Tokens as probable as the k-th are kept.
    void keep_top_k() {
        weights_ = scaled_;
        const auto kth = weights_.begin() + (settings_.top_k - 1);
        std::nth_element(weights_.begin(), kth, weights_.end(), std::greater<double>());
        keep_above(*kth);
    }

    // Keep the most probable tokens up to the one with which their probabilities sum to top_p.
    void keep_top_p() {
        const double total = exponentiate();
        order_.clear();
        for (int v = 0; v < vocabulary_; ++v)
            if (weights_[size_t(v)] > 0.0) order_.push_back(v);
        const auto later = [&](int a, int b) {
            const double one = weights_[size_t(a)], other = weights_[size_t(b)];
            return one != other ? one < other : a > b;
        };
        std::make_heap(order_.begin(), order_.end(), later);
        double cumulative = 0.0;
        auto end = order_.end();
        for (; end != order_.begin(); --end) {
            const double probability = weights_[size_t(order_.front())] / total;
            cumulative += probability;
            if (cumulative - probability >= settings_.top_p) break;
            std::pop_heap(order_.begin(), end, later);
        }
        // What is left in the heap is less probable.
        for (auto rest = order_.begin(); rest != end; ++rest) scaled_[size_t(*rest)] = NOTHING;
    }

    // Compute the weights exp(scaled - top) and return their sum.
    double exponentiate() {
        weights_.resize(scaled_.size());
        double total = 0.0;
        for (size_t v = 0; v < scaled_.size(); ++v) {
            weights_[v] = scaled_[v] == NOTHING ? 0.0 : std::exp(scaled_[v] - top_);
            total += weights_[v];
        }
        return total;
    }

    const SamplingSettings settings_;
    const std::vector<int>& never_;
    const int vocabulary_;
    double top_ = 0.0;
    std::vector<float> penalised_;
    std::vector<double> scaled_, weights_;
    std::vector<int> order_;
};

}  // namespace dragoman
