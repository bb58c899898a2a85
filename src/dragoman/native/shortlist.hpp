// Target tokens by source token; see dragoman.translation.shortlist.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

namespace dragoman {

class Shortlist {
  public:
    // `always` are the tokens that every output may use, including `eos`; those of source token s are likely[starts[s]]
    // to likely[starts[s + 1]].
    Shortlist(std::vector<int> always, std::vector<int> likely, std::vector<int> starts, int target_vocabulary, int eos)
        : always_(std::move(always)), likely_(std::move(likely)), starts_(std::move(starts)) {
        const auto in_vocabulary = [=](int token) { return token >= 0 && token < target_vocabulary; };
        if (!std::all_of(always_.begin(), always_.end(), in_vocabulary) ||
            !std::all_of(likely_.begin(), likely_.end(), in_vocabulary))
            throw std::invalid_argument("a token of the shortlist is not in the vocabulary");
        if (std::find(always_.begin(), always_.end(), eos) == always_.end())
            throw std::invalid_argument("the shortlist does not allow the end-of-sentence token");
        if (starts_.empty() || starts_.front() != 0 || starts_.back() != int(likely_.size()) ||
            !std::is_sorted(starts_.begin(), starts_.end()))
            throw std::invalid_argument("the ranges of the shortlist are not consecutive");
    }

    // Return the tokens that the output of a source may use, ascending.
    std::vector<int> allowed(const std::vector<int>& source, const std::vector<int>& prefix) const {
        std::vector<int> tokens(always_);
        tokens.insert(tokens.end(), prefix.begin(), prefix.end());
        for (const int s : source)
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

}  // namespace dragoman
