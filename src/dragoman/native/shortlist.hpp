// Target tokens by source token: dragoman.translation.shortlist.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

namespace dragoman {

class Shortlist {
  public:
    // The tokens that every output may use, `eos` among them; those of source token s are likely[starts[s]] to
    // likely[starts[s + 1]].
    Shortlist(std::vector<int> always, std::vector<int> likely, std::vector<int> starts, int target_vocabulary, int eos)
        : always_(std::move(always)), likely_(std::move(likely)), starts_(std::move(starts)) {
        const auto known = [=](int token) { return token >= 0 && token < target_vocabulary; };
        if (!std::all_of(always_.begin(), always_.end(), known) || !std::all_of(likely_.begin(), likely_.end(), known))
            throw std::invalid_argument("a token of the shortlist is not in the vocabulary");
        if (std::find(always_.begin(), always_.end(), eos) == always_.end())
            throw std::invalid_argument("a shortlist without the end of a sentence");
        if (starts_.empty() || starts_.front() != 0 || starts_.back() != int(likely_.size()) ||
            !std::is_sorted(starts_.begin(), starts_.end()))
            throw std::invalid_argument("the parts of a shortlist do not follow each other");
    }

    // The tokens that an output may use, ascending.
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
