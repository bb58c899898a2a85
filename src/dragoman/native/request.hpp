// Input and output of a search, and checks of the input; see dragoman.search.config and dragoman.search.results.
#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace dragoman {

// Limits beyond which counters of type int or of 16 bits would overflow. The limits for users, in
// dragoman.search.config, are lower.
constexpr int LONGEST = 1 << 24, WIDEST = 1 << 15, MOST_THREADS = 1 << 12;
constexpr int64_t LARGEST_BATCH = 1 << 30;

struct SearchConfig {
    int beam, n_best;
    float length_penalty;
};

// Limits of one worker's batch: the number of sentences, and the number of source tokens times the beam.
struct BatchLimits {
    int64_t sentences, tokens;
};

// One source: its ids with EOS, the prefix of its output, and the minimum and maximum length of the output.
struct Request {
    std::vector<int> source, prefix;
    int minimum, maximum;
};

// A sentence to search, and how.
struct Task {
    Request request;
    SearchConfig config;

    // Return the part of a batch that the sentence takes, see `BatchLimits`.
    int64_t weight() const { return int64_t(request.source.size()) * config.beam; }
};

// What is in a worker's batch, see `BatchLimits`.
struct Load {
    int64_t sentences = 0, tokens = 0;

    void add(const Task& task) {
        ++sentences;
        tokens += task.weight();
    }
};

struct Hypothesis {
    std::vector<int> tokens;
    std::vector<float> totals;  // log-probability of the tokens up to each of them
    float log_probability, score;
    bool finished;
};

// Throw unless `minimum` <= `value` <= `maximum`.
inline void require_between(const char* name, int64_t value, int64_t minimum, int64_t maximum) {
    if (value < minimum || value > maximum)
        throw std::invalid_argument(std::string(name) + " must lie between " + std::to_string(minimum) + " and " +
                                    std::to_string(maximum) + ", got " + std::to_string(value));
}

inline void check(const std::vector<int>& tokens, int vocabulary) {
    for (const int token : tokens)
        if (token < 0 || token >= vocabulary) throw std::invalid_argument("a token is not in the vocabulary");
}

inline void check_source(const std::vector<int>& source, int vocabulary) {
    require_between("the length of a source", int64_t(source.size()), 1, LONGEST);
    check(source, vocabulary);
}

inline void check(const Request& request, int source_vocabulary, int target_vocabulary) {
    check_source(request.source, source_vocabulary);
    check(request.prefix, target_vocabulary);
    require_between("minimum", request.minimum, 0, LONGEST);
    require_between("maximum", request.maximum, int64_t(request.prefix.size()), LONGEST);
}

inline void check(const SearchConfig& config) {
    require_between("beam", config.beam, 1, WIDEST);
    require_between("n_best", config.n_best, 1, config.beam);
    if (!(config.length_penalty >= 0.0f && std::isfinite(config.length_penalty)))
        throw std::invalid_argument("length_penalty must be a number of at least 0");
}

inline void check(const BatchLimits& limits) {
    require_between("batch_sentences", limits.sentences, 1, LARGEST_BATCH);
    require_between("batch_tokens", limits.tokens, 1, LARGEST_BATCH);
}

// lp(Y) = ((5 + |Y|) / 6)^α (Wu et al., 2016, equation 14)
inline float length_penalty(int length, float alpha) { return float(std::pow((5.0 + length) / 6.0, double(alpha))); }

}  // namespace dragoman
