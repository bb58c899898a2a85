// Cancellation of a search in progress.
#pragma once

#include <atomic>

namespace dragoman {

// Set on Ctrl-C, on an error in another thread, or when the interpreter shuts down.
using CancelFlag = std::atomic<bool>;

// Thrown in a thread that finds the flag set; its results are discarded.
struct Cancelled {};

// Throw if the flag is set. Called wherever a part of a search may take more than a few milliseconds.
inline void stop_if(const CancelFlag& cancelled) {
    if (cancelled.load(std::memory_order_relaxed)) throw Cancelled();
}

}  // namespace dragoman
