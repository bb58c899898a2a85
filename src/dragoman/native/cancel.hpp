// Cancellation of a search in progress, and the signs by which another thread sees that it proceeds.
#pragma once

#include <atomic>
#include <cstdint>

namespace dragoman {

// Set on Ctrl-C, on an error in another thread, or when the interpreter shuts down.
using CancelFlag = std::atomic<bool>;

// Thrown in a thread that finds the flag set; its results are discarded.
struct Cancelled {};

// Signs of life of a thread, for a thread that watches it.
struct Signs {
    std::atomic<int64_t> count{0};     // grows while the thread works
    std::atomic<bool> working{false};  // false while the thread waits for work

    // The signs of this thread; null if it is not watched.
    static inline thread_local Signs* own = nullptr;
};

// Throw if the flag is set. Called wherever a part of a search may take more than a few milliseconds, so that each call
// is a sign of life.
inline void stop_if(const CancelFlag& cancelled) {
    if (Signs::own) Signs::own->count.fetch_add(1, std::memory_order_relaxed);
    if (cancelled.load(std::memory_order_relaxed)) throw Cancelled();
}

}  // namespace dragoman
