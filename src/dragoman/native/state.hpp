// Decoder state of the hypotheses of one sentence, in pages of memory; the reference is dragoman.models.state.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "attention.hpp"
#include "linear.hpp"

namespace dragoman {

// Pool of pages of keys and values, which successive sentences reuse. `Cell` is float or bf16.
//
// A page is [layer, position, hypothesis, key or value, D], for PAGE positions.
template <class Cell>
class PagePool {
  public:
    static constexpr int PAGE = 16;
    using Page = std::unique_ptr<Cell[]>;

    PagePool(int layers, int beam, int d_model)
        : cell_(size_t(2) * d_model),
          position_(size_t(beam) * cell_),
          layer_(PAGE * position_),
          size_(size_t(layers) * layer_) {}

    Page take() {
        if (free_.empty()) {
            free_.reserve(++made_);
            // Padding, so that the last head can be read in whole vectors.
            return Page(new Cell[size_ + 4 * LANES]());
        }
        Page page = std::move(free_.back());
        free_.pop_back();
        return page;
    }

    void give_back(std::vector<Page>& pages) {
        for (auto& page : pages) free_.push_back(std::move(page));
        pages.clear();
    }

    // Return the offset of the key of a position in its page; the value follows the key.
    size_t offset(int layer, int position, int hypothesis) const {
        return size_t(layer) * layer_ + size_t(position % PAGE) * position_ + size_t(hypothesis) * cell_;
    }

  private:
    const size_t cell_, position_, layer_, size_;
    size_t made_ = 0;
    std::vector<Page> free_;
};

// Keys and values of the past positions of the hypotheses of a sentence.
//
// Keys and values are never copied when hypotheses branch or end. Instead, the ancestry of each hypothesis records, for
// each position, the hypothesis under which the keys and values were written.
template <class Cell>
class Cache {
  public:
    // Begin with one hypothesis without positions.
    explicit Cache(std::shared_ptr<PagePool<Cell>> pool) : pool_(std::move(pool)), ancestry_(1) {}
    Cache(const Cache&) = delete;
    ~Cache() { pool_->give_back(pages_); }

    int hypotheses() const { return int(ancestry_.size()); }
    int length() const { return length_; }

    // Add a position to every hypothesis.
    void extend() {
        if (size_t(length_) == pages_.size() * PagePool<Cell>::PAGE) pages_.push_back(pool_->take());
        for (size_t h = 0; h < ancestry_.size(); ++h) ancestry_[h].push_back(uint16_t(h));
        ++length_;
    }

    // Forget all but the first `length` positions, also after an `extend` that failed.
    void keep(int length) {
        for (auto& positions : ancestry_) positions.resize(size_t(length));
        length_ = length;
    }

    // Return a pointer to the key [D] of the last position, followed by the value [D].
    Cell* last(int layer, int hypothesis) {
        return pages_.back().get() + pool_->offset(layer, length_ - 1, hypothesis);
    }

    // Write pointers to the key of every position of a hypothesis, each followed by the value, to `positions`.
    void past(int layer, int hypothesis, std::vector<const Cell*>& positions) const {
        const auto& ancestry = ancestry_[size_t(hypothesis)];
        positions.resize(ancestry.size());
        for (size_t t = 0; t < ancestry.size(); ++t)
            positions[t] = pages_[t / PagePool<Cell>::PAGE].get() + pool_->offset(layer, int(t), ancestry[t]);
    }

    // Replace the hypotheses by copies of `parents`, which may contain a hypothesis several times or not at all.
    void reorder(const std::vector<int>& parents) {
        std::vector<std::vector<uint16_t>> ancestry;
        ancestry.reserve(parents.size());
        for (const int parent : parents) ancestry.push_back(ancestry_[size_t(parent)]);
        ancestry_ = std::move(ancestry);
    }

  private:
    const std::shared_ptr<PagePool<Cell>> pool_;
    int length_ = 0;
    std::vector<typename PagePool<Cell>::Page> pages_;
    std::vector<std::vector<uint16_t>> ancestry_;  // [hypothesis][position]
};

// The part of the target vocabulary that an output may use.
struct VocabularyPart {
    std::vector<int> tokens;  // ascending; empty: the whole vocabulary
    Linear output;            // the projection onto these tokens

    bool whole() const { return tokens.empty(); }
};

// Decoder state of one sentence; the reference is dragoman.models.transformer.TransformerState.
template <class Cell>
struct DecoderState {
    explicit DecoderState(std::shared_ptr<PagePool<Cell>> pool) : cache(std::move(pool)) {}

    int hypotheses() const { return cache.hypotheses(); }
    void reorder(const std::vector<int>& parents) { cache.reorder(parents); }

    std::vector<Memory<Cell>> memory;  // [layer], keys and values of the source
    VocabularyPart part;
    Cache<Cell> cache;
};

}  // namespace dragoman
