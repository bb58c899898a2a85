// Keys and values of one text; the reference is dragoman.layers.key_value_cache.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "simd.hpp"

namespace dragoman {

// Keys and values of the past positions of a text, in pages that copies share. `Cell` is float or bf16.
//
// A copy takes no new memory. A position is written once: of the copies of a text, the first that is extended continues
// the last page, and the others continue copies of it. Copies may be extended in different threads.
template <class Cell>
class TextCache {
  public:
    TextCache(int layers, int d_model)
        : cell_(size_t(2) * d_model), position_(size_t(layers) * cell_), size_(PAGE * position_) {}

    // Return the number of positions, including those that were forgotten.
    int length() const { return length_; }

    // Return the number of positions that later positions attend to.
    int visible() const { return length_ - forgotten_; }

    // Add positions, whose keys and values are then written to `at`.
    void extend(int count) {
        for (const int end = length_ + count; length_ < end;) {
            const int used = length_ % PAGE, taken = std::min(PAGE - used, end - length_);
            if (used == 0)
                pages_.push_back(std::make_shared<Page>(size_, taken));
            else if (int expected = used; !pages_.back()->used.compare_exchange_strong(expected, used + taken))
                pages_.back() = copy(*pages_.back(), used, used + taken);
            length_ += taken;
        }
    }

    // Forget all but the last positions.
    void keep_last(int count) {
        forgotten_ = std::max(forgotten_, length_ - count);
        for (int page = 0; page < forgotten_ / PAGE; ++page) pages_[size_t(page)].reset();
    }

    // Return a pointer to the key [D] of a position, which its value [D] follows.
    Cell* at(int layer, int position) const {
        return pages_[size_t(position / PAGE)]->cells.get() + size_t(position % PAGE) * position_ +
               size_t(layer) * cell_;
    }

    // Write pointers to the keys of the visible positions, each followed by the value, to `positions`.
    void past(int layer, std::vector<const Cell*>& positions) const {
        positions.resize(size_t(visible()));
        for (int t = forgotten_; t < length_; ++t) positions[size_t(t - forgotten_)] = at(layer, t);
    }

  private:
    static constexpr int PAGE = 16;

    // [position, layer, key or value, D]
    struct Page {
        // Padding, so that the last head can be read in whole vectors.
        Page(size_t size, int used) : cells(new Cell[size + 4 * LANES]()), used(used) {}

        std::unique_ptr<Cell[]> cells;
        std::atomic<int> used;  // number of positions that belong to a text
    };

    // Return a page with the first positions of another one, of which `used` belong to the text.
    std::shared_ptr<Page> copy(const Page& page, int positions, int used) const {
        auto copied = std::make_shared<Page>(size_, used);
        std::copy(page.cells.get(), page.cells.get() + size_t(positions) * position_, copied->cells.get());
        return copied;
    }

    size_t cell_, position_, size_;
    int length_ = 0, forgotten_ = 0;
    std::vector<std::shared_ptr<Page>> pages_;
};

}  // namespace dragoman
