// Calls in progress that have released Python's global interpreter lock, for which the interpreter's shutdown waits.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <set>
#include <stdexcept>
#include <thread>

#include "cancel.hpp"

namespace dragoman {

// Marks a call as in progress during the lifetime of this object. A thread that acquires the lock after the interpreter
// has shut down is terminated inside C++ code, which aborts the process. The lock guards all members.
class Running {
  public:
    // `cancelled` is set when the interpreter shuts down, and must outlive this object.
    explicit Running(CancelFlag& cancelled) : cancelled_(cancelled) {
        if (closed_) throw_closed();
        all_.insert(this);
    }
    Running(const Running&) = delete;
    ~Running() { all_.erase(this); }

    // Return true once the interpreter shuts down.
    static bool closed() { return closed_; }

    // Return the number of forks by which this process was made.
    static int forks() { return forks_; }

    [[noreturn]] static void throw_closed() { throw std::runtime_error("the Python interpreter is shutting down"); }

    // Cancel all calls, refuse new ones, and wait until none is left. Called when the interpreter shuts down.
    static void close() {
        closed_ = true;
        for (Running* call : all_) call->cancelled_ = true;
        while (!all_.empty()) {
            pybind11::gil_scoped_release unlocked;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }

    // Forget all calls. Called in the child process after a fork, in which the other threads do not exist.
    static void forget() {
        all_.clear();
        ++forks_;
    }

  private:
    static inline std::set<Running*> all_;
    static inline bool closed_ = false;
    static inline int forks_ = 0;
    CancelFlag& cancelled_;
};

}  // namespace dragoman
