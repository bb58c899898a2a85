// What a search is given and what it keeps of each sentence: dragoman.search.config and results, in compiled form.
#pragma once

#include "model.hpp"

namespace dragoman {

constexpr int PAD = 0, UNK = 1, BOS = 2, EOS = 3;
// Positions that a page of the cache holds.
constexpr int PAGE = 16;

struct SearchConfig {
    int beam, n_best;
    float length_penalty;
    int batch_sentences, batch_tokens;  // at most so many at a time, and source tokens times beam
};

// One source: its ids and EOS, what its output begins with, and the output's least and greatest length.
struct Request {
    std::vector<int> source, prefix;
    int minimum, maximum;
};

// dragoman.translation.shortlist.Shortlist
class Shortlist {
  public:
    Shortlist(std::vector<int> always, std::vector<int> likely, std::vector<int> starts, int target_vocabulary)
        : always_(std::move(always)), likely_(std::move(likely)), starts_(std::move(starts)) {
        const auto known = [=](int token) { return token >= 0 && token < target_vocabulary; };
        if (!std::all_of(always_.begin(), always_.end(), known) || !std::all_of(likely_.begin(), likely_.end(), known))
            throw std::invalid_argument("a token beyond the vocabulary");
        if (std::find(always_.begin(), always_.end(), EOS) == always_.end())
            throw std::invalid_argument("a shortlist without the end of a sentence");
        if (starts_.empty() || starts_.front() != 0 || starts_.back() != int(likely_.size()) ||
            !std::is_sorted(starts_.begin(), starts_.end()))
            throw std::invalid_argument("the parts of a shortlist do not follow each other");
    }

    // What the output of a request may use, ascending.
    std::vector<int> allowed(const Request& request) const {
        std::vector<int> tokens(always_);
        tokens.insert(tokens.end(), request.prefix.begin(), request.prefix.end());
        for (const int s : request.source)
            if (size_t(s) + 1 < starts_.size())
                tokens.insert(tokens.end(), likely_.begin() + starts_[size_t(s)],
                              likely_.begin() + starts_[size_t(s) + 1]);
        std::sort(tokens.begin(), tokens.end());
        tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
        return tokens;
    }

  private:
    std::vector<int> always_, likely_, starts_;
};

// dragoman.search.results.Hypothesis
struct Hypothesis {
    std::vector<int> tokens;
    float log_probability, score;
    bool own_end;
};

struct Candidate {
    float log_probability;  // of all that was said, with `token`
    int token, parent;
};

// lp(Y) = ((5 + |Y|) / 6)^α (Wu et al., 2016, equation 14)
inline float length_penalty(int length, float alpha) { return float(std::pow((5.0 + length) / 6.0, double(alpha))); }

// Keys and values that the decoder has made of a sentence's hypotheses so far, in pages of PAGE positions.
//
// A page is [layer, position, hypothesis, key or value, D]. It is never copied: when hypotheses branch or die, only
// their ancestry changes, the place at which each of their positions stands.
template <class Cell>
class PagePool {
  public:
    PagePool(int layers, int beam, int d_model)
        : position_(size_t(beam) * 2 * d_model), layer_(PAGE * position_), size_(layers * layer_ + 4 * LANES) {}

    std::unique_ptr<Cell[]> take() {
        if (free_.empty()) return std::unique_ptr<Cell[]>(new Cell[size_]());
        auto page = std::move(free_.back());
        free_.pop_back();
        return page;
    }
    void give_back(std::vector<std::unique_ptr<Cell[]>>& pages) {
        for (auto& page : pages) free_.push_back(std::move(page));
        pages.clear();
    }
    size_t offset(int layer, int position) const { return layer * layer_ + size_t(position % PAGE) * position_; }

  private:
    const size_t position_, layer_, size_;
    std::vector<std::unique_ptr<Cell[]>> free_;
};

// A sentence in the midst of its search.
template <class Cell>
struct Sentence {
    size_t index;
    const Request* request;
    int position = 0;                  // tokens said so far
    std::vector<int> allowed;          // tokens, ascending, EOS among them; none: all are allowed
    Linear output;                     // of the allowed tokens
    std::vector<Memory<Cell>> memory;  // [layer]
    std::vector<std::unique_ptr<Cell[]>> pages;
    std::vector<std::vector<uint16_t>> ancestry;  // [hypothesis][position]: where its keys and values stand
    std::vector<std::vector<int>> tokens;         // [hypothesis][position], best first
    std::vector<float> log_probability;           // [hypothesis]
    std::vector<Hypothesis> finished;             // at most `beam`, best first

    int hypotheses() const { return int(tokens.size()); }
};

// The best continuations of one row of logits, best first, and what turns a logit into a log-probability.
struct Best {
    std::vector<std::pair<float, int>> logits;
    float log_normaliser;
    int argmax;

    // One pass for the greatest and one for Σ exp, over [vocabulary]; `row` has room up to a multiple of LANES.
    void find(float* row, int vocabulary, int wanted) {
        const int end = padded(vocabulary);
        std::fill(row + vocabulary, row + end, -INFINITE);
        logits.clear();
        float least = -INFINITE;
        for (int v = 0; v < end; v += LANES)
            for (uint32_t above = greater(load(row + v), least); above; above &= above - 1) {
                const int i = v + __builtin_ctz(above);
                if (row[i] > least) least = insert(row[i], i, wanted);
            }
        argmax = logits.empty() ? -1 : logits.front().second;
        const float top = logits.empty() ? 0.0f : logits.front().first;
        Floats total = splat(0.0f);
        for (int v = 0; v < end; v += LANES) total += exponential(load(row + v) - top);
        // What was added for the places that are no token.
        log_normaliser = top + std::log(sum(total) - float(end - vocabulary) * exponential(splat(-INFINITE))[0]);
    }

  private:
    // A bit for each value that exceeds `bound`.
    static uint32_t greater(Floats values, float bound) {
#ifdef __AVX512F__
        return _mm512_cmp_ps_mask(__m512(values), _mm512_set1_ps(bound), _CMP_GT_OQ);
#else
        if (!(largest(values) > bound)) return 0;
        uint32_t bits = 0;
        for (int i = 0; i < LANES; ++i) bits |= uint32_t(values[i] > bound) << i;
        return bits;
#endif
    }

    // Keep the `wanted` greatest; returns what a further one must exceed.
    float insert(float logit, int token, int wanted) {
        auto place = logits.end();
        while (place != logits.begin() && (place - 1)->first < logit) --place;
        logits.insert(place, {logit, token});
        if (int(logits.size()) > wanted) logits.pop_back();
        return int(logits.size()) == wanted ? logits.back().first : -INFINITE;
    }
};

}  // namespace dragoman
