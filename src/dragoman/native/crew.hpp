// Threads that work for Python: each takes requests of its own.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "cancel.hpp"
#include "running.hpp"

namespace dragoman {

// Call `work` in several threads at once, without Python's lock. A signal (Ctrl-C), an exception or the interpreter's
// end sets `cancelled`, which ends the others; the first exception is thrown again when all have ended.
inline void run_together(int threads, CancelFlag& cancelled, const std::function<void()>& work) {
    const Running running(cancelled);
    std::mutex lock;
    std::condition_variable ended;
    std::exception_ptr error;
    int left = threads;
    const auto guarded = [&] {
        std::exception_ptr own;
        try {
            work();
        } catch (const Cancelled&) {
            // The reason is elsewhere.
        } catch (...) {
            own = std::current_exception();
            cancelled = true;
        }
        const std::lock_guard<std::mutex> guard(lock);
        if (own && !error) error = own;
        if (--left == 0) ended.notify_all();
    };
    bool interrupted = false;
    std::vector<std::thread> crew;
    crew.reserve(size_t(threads));
    {
        pybind11::gil_scoped_release unlocked;
        // Where no more threads are available, or no memory for them, those that were started do the work.
        const auto fewer = [&] {
            const std::lock_guard<std::mutex> guard(lock);
            left -= threads - int(crew.size());
            if (crew.empty()) error = std::current_exception();
        };
        try {
            for (int i = 0; i < threads; ++i) crew.emplace_back(guarded);
        } catch (const std::system_error&) {
            fewer();
        } catch (const std::bad_alloc&) {
            fewer();
        }
        while (true) {
            {
                std::unique_lock<std::mutex> guard(lock);
                if (ended.wait_for(guard, std::chrono::milliseconds(50), [&] { return left == 0; })) break;
            }
            pybind11::gil_scoped_acquire locked;
            if (!interrupted && PyErr_CheckSignals() != 0) cancelled = interrupted = true;
        }
        for (auto& thread : crew) thread.join();
    }
    if (interrupted) throw pybind11::error_already_set();
    if (error) std::rethrow_exception(error);
    if (cancelled) Running::throw_closed();
}

// Call `work` in this thread, without Python's lock; for work that ends within a few milliseconds.
inline void run_here(CancelFlag& cancelled, const std::function<void()>& work) {
    const Running running(cancelled);
    try {
        const pybind11::gil_scoped_release unlocked;
        work();
    } catch (const Cancelled&) {
        // The interpreter shuts down.
    }
    if (cancelled) Running::throw_closed();
}

}  // namespace dragoman
