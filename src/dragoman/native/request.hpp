// What a search is given and what it returns: dragoman.search.config and results.
#pragma once

#include <cmath>
#include <vector>

namespace dragoman {

struct SearchConfig {
    int beam, n_best;
    float length_penalty;
};

// Bounds of one worker's batch; the second counts source tokens times the beam.
struct BatchLimits {
    int sentences, tokens;
};

// One source: its ids and EOS, what its output begins with, and the least and greatest length of the output.
struct Request {
    std::vector<int> source, prefix;
    int minimum, maximum;
};

struct Hypothesis {
    std::vector<int> tokens;
    float log_probability, score;
    bool finished;
};

// lp(Y) = ((5 + |Y|) / 6)^α (Wu et al., 2016, equation 14)
inline float length_penalty(int length, float alpha) { return float(std::pow((5.0 + length) / 6.0, double(alpha))); }

}  // namespace dragoman
