// How a search that takes long is told to end.
#pragma once

#include <atomic>

namespace dragoman {

// Set by Ctrl-C, by an error in another thread, or when the interpreter ends.
using CancelFlag = std::atomic<bool>;

// Thrown by a thread that has seen the flag; its results are not wanted any more.
struct Cancelled {};

// Called wherever a part of a search may take more than some milliseconds.
inline void stop_if(const CancelFlag& cancelled) {
    if (cancelled.load(std::memory_order_relaxed)) throw Cancelled();
}

}  // namespace dragoman
