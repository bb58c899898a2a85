// Continuation of texts by random or most probable tokens; the reference is dragoman.search.continuation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "language.hpp"
#include "sampler.hpp"

namespace dragoman {

// What the continuation of several texts reads and writes, in arrays with a row for each text.
struct Continuation {
    int count;                      // T, the number of tokens to write
    int end;                        // token that ends a text
    std::vector<int> last;          // [B]: the last token of each text, which has not been read
    const double* uniforms;         // [B, T]: random numbers
    std::vector<uint8_t> occurred;  // [B, V]: nonzero for tokens that occurred in the text; empty without a penalty
    int64_t* tokens;                // [B, T]: the output; after the end of a text, `end`
    float* log_probabilities;       // [B, T]: of the tokens of the output; after the end of a text, 0
};

// Continue the texts `first` to `last`; the other texts are not touched. The last token written is not read.
template <class Cell>
void continue_texts(std::vector<TextCache<Cell>>& texts, int first, int last, Continuation& to, Reader& reader,
                    Sampler& sampler) {
    std::vector<int> running, tokens;
    std::vector<TextCache<Cell>*> caches;
    for (int i = first; i < last; ++i) running.push_back(i);
    for (int t = 0; t < to.count && !running.empty(); ++t) {
        tokens.clear();
        caches.clear();
        for (const int i : running) {
            tokens.push_back(to.last[size_t(i)]);
            caches.push_back(&texts[size_t(i)]);
        }
        reader.read(caches, tokens.data(), 1, true, [&](int index, int, float* logits) {
            const size_t i = size_t(running[size_t(index)]), place = i * size_t(to.count) + size_t(t);
            uint8_t* occurred = to.occurred.empty() ? nullptr : &to.occurred[i * size_t(sampler.vocabulary())];
            const auto [token, log_probability] = sampler.choose(logits, occurred, to.uniforms[place]);
            if (occurred) occurred[token] = 1;
            to.last[i] = token;
            to.tokens[place] = token;
            to.log_probabilities[place] = log_probability;
        });
        const auto ended = [&](int i) {
            if (to.last[size_t(i)] != to.end) return false;
            const size_t after = size_t(i) * size_t(to.count) + size_t(t) + 1, left = size_t(to.count - t - 1);
            std::fill_n(to.tokens + after, left, to.end);
            std::fill_n(to.log_probabilities + after, left, 0.0f);
            return true;
        };
        running.erase(std::remove_if(running.begin(), running.end(), ended), running.end());
    }
}

}  // namespace dragoman
