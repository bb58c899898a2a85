// Threads that share one worker's products when there are fewer sentences than cores.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "cancel.hpp"

namespace dragoman {

// A leader and its helpers. Work comes every few microseconds, so threads wait without sleeping: they spin, and then
// yield, since the thread that they wait for may be ready to run on the same core when other processes use the
// processor. Sleeping was measured to be slower there as well (docs/decisions). Parts are claimed one by one, and the
// leader takes all that no helper has begun: a helper that the system has suspended delays only the part that it works
// on. Results do not depend on who computes which part.
class Team {
  public:
    // `cancelled` outlives this.
    Team(int size, const CancelFlag& cancelled) : cancelled_(cancelled) {
        helpers_.reserve(size_t(size));
        try {
            for (int i = 1; i < size; ++i) helpers_.emplace_back([this] { help(); });
        } catch (const std::system_error&) {
            // No more threads are available: those that were started are enough.
        } catch (const std::bad_alloc&) {
            // Nor is memory for them.
        }
    }
    Team(const Team&) = delete;
    ~Team() {
        ended_.store(true);
        for (auto& helper : helpers_) helper.join();
    }

    int size() const { return int(helpers_.size()) + 1; }
    const CancelFlag& cancelled() const { return cancelled_; }

    // Call `part(i)` for every i below `parts`, and return when all are done. What one of them throws is thrown here.
    void share(int parts, const std::function<void(int)>& part) {
        if (helpers_.empty() || parts < 2) {
            for (int i = 0; i < parts; ++i) part(i);
            return;
        }
        // `next_` is closed and no helper is inside: `work_` may change before `next_` opens again.
        work_ = &part;
        parts_.store(parts);
        done_.store(0);
        next_.store(0);
        claim();
        for (int spins = 0; done_.load() < parts;) spin_or_yield(spins);
        // Close, and wait for helpers that are still checking whether a part is left.
        next_.store(CLOSED);
        for (int spins = 0; inside_.load() > 0;) spin_or_yield(spins);
        if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    }

  private:
    static constexpr int CLOSED = 1 << 30;
    // A few hundred microseconds: longer than most waits of a team that has its cores to itself.
    static constexpr int SPINS = 20'000;

    void claim() {
        for (int i = next_.fetch_add(1); i < parts_.load(); i = next_.fetch_add(1)) {
            try {
                (*work_)(i);
            } catch (...) {
                const std::lock_guard<std::mutex> guard(lock_);
                error_ = std::current_exception();
            }
            done_.fetch_add(1);
        }
    }

    void help() {
        int spins = 0;
        while (!ended_.load()) {
            if (next_.load() < parts_.load()) {
                inside_.fetch_add(1);
                if (next_.load() < parts_.load()) claim();
                inside_.fetch_sub(1);
                spins = 0;
            } else
                spin_or_yield(spins);
        }
    }

    static void spin_or_yield(int& spins) {
        if (++spins > SPINS) {
            spins = SPINS;
            std::this_thread::yield();
            return;
        }
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }

    const CancelFlag& cancelled_;
    std::vector<std::thread> helpers_;
    const std::function<void(int)>* work_ = nullptr;
    std::atomic<int> parts_{0}, next_{CLOSED}, done_{0}, inside_{0};
    std::atomic<bool> ended_{false};
    std::mutex lock_;
    std::exception_ptr error_;
};

}  // namespace dragoman
