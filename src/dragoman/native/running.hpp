// The calls that work without Python's lock, so that the interpreter's end can wait for them.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <set>
#include <stdexcept>
#include <thread>

#include "cancel.hpp"

namespace dragoman {

// One such call, while this exists. A thread that asks for Python's lock after the interpreter has ended is killed by
// it, in the middle of C++, which aborts the process. Everything here is guarded by Python's lock.
class Running {
  public:
    // `cancelled`, which is set when the interpreter ends, outlives this.
    explicit Running(CancelFlag& cancelled) : cancelled_(cancelled) {
        if (closed_) throw_closed();
        all_.insert(this);
    }
    Running(const Running&) = delete;
    ~Running() { all_.erase(this); }

    [[noreturn]] static void throw_closed() { throw std::runtime_error("the interpreter is ending"); }

    // Called when the interpreter ends: cancel every call, refuse new ones, and return when none is left.
    static void close() {
        closed_ = true;
        for (Running* each : all_) each->cancelled_ = true;
        while (!all_.empty()) {
            pybind11::gil_scoped_release unlocked;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }

    // Called in the child of a fork, which has none of the other threads.
    static void forget() { all_.clear(); }

  private:
    static inline std::set<Running*> all_;
    static inline bool closed_ = false;
    CancelFlag& cancelled_;
};

}  // namespace dragoman
