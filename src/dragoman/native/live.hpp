// Search for sentences that are submitted while it runs.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "live_queue.hpp"
#include "running.hpp"

namespace dragoman {

// Threads, each with a batch of its own, that search for what is submitted, and sleep while there is nothing.
class LiveSearch {
  public:
    // `model` and `shortlist`, which may be null, must outlive this object.
    LiveSearch(Model& model, int threads, const BatchLimits& limits, const Shortlist* shortlist)
        : model_(model), crew_(std::make_unique<Crew>(limits)), forks_(Running::forks()) {
        if (Running::closed()) Running::throw_closed();
        if (shortlist) model.allow_selection();
        Crew& crew = *crew_;
        crew.threads.reserve(size_t(threads));
        crew.signs = std::vector<Signs>(size_t(threads));
        try {
            for (auto& signs : crew.signs)
                crew.threads.emplace_back([&model, &crew, &signs, shortlist] {
                    Signs::own = &signs;
                    work(model, crew.queue, shortlist);
                });
        } catch (const std::system_error&) {
            // Where no more threads are available, or no memory for them, those that were started do the work.
            if (crew.threads.empty()) throw;
        } catch (const std::bad_alloc&) {
            if (crew.threads.empty()) throw;
        }
    }
    LiveSearch(const LiveSearch&) = delete;

    ~LiveSearch() {
        close();
        // After a fork, the threads do not exist, and the lock may be held by one of them for ever.
        if (forked()) crew_.release();
    }

    void submit(int64_t ticket, int64_t group, Task task, bool watched) {
        if (forked())
            throw std::runtime_error("the live search belongs to the parent process: make one after the fork");
        check(task.request, model_.settings().source_vocabulary, model_.settings().target_vocabulary);
        check(task.config);
        crew_->queue.submit(ticket, group, std::move(task), watched);
    }

    void cancel(int64_t ticket) {
        if (!forked()) crew_->queue.cancel(ticket);
    }

    // See `LiveQueue::wait`.
    bool wait(std::vector<Outcome>& outcomes) { return !forked() && crew_->queue.wait(outcomes); }

    // Return the signs of life of each thread: a number that grows while it works, or -1 while it waits for work.
    std::vector<int64_t> signs() const {
        std::vector<int64_t> found;
        for (const auto& signs : crew_->signs) found.push_back(signs.working ? signs.count.load() : -1);
        return found;
    }

    // End the threads, and fail the tasks that are not finished.
    void close() {
        if (forked()) return;
        const std::lock_guard<std::mutex> guard(crew_->closing);
        if (crew_->threads.empty()) return;
        crew_->queue.close();
        for (auto& thread : crew_->threads) thread.join();
        crew_->threads.clear();
        crew_->queue.end();
    }

  private:
    struct Crew {
        explicit Crew(const BatchLimits& limits) : queue(limits) {}

        LiveQueue queue;
        std::vector<Signs> signs;  // of each thread
        std::vector<std::thread> threads;
        std::mutex closing;
    };

    bool forked() const { return forks_ != Running::forks(); }

    static void work(Model& model, LiveQueue& queue, const Shortlist* shortlist) {
        with_stepper(model, 1, queue.cancelled(), [&](auto& stepper) {
            Worker worker(stepper, model.special(), shortlist, queue);
            while (!queue.cancelled()) {
                try {
                    worker.run();
                } catch (const Cancelled&) {
                    return;
                } catch (...) {
                    // Memory is short.
                    worker.fail(std::current_exception());
                }
            }
        });
    }

    Model& model_;
    std::unique_ptr<Crew> crew_;
    const int forks_;
};

}  // namespace dragoman
