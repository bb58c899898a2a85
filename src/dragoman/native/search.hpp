// Search for many sentences with continuous batching: each sentence is at its own position, and finished sentences are
// replaced by others.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "beam.hpp"
#include "shortlist.hpp"
#include "stepper.hpp"

namespace dragoman {

// Where workers get tasks and leave results. Workers call it from several threads.
class Supply {
  public:
    explicit Supply(const BatchLimits& limits) : limits_(limits) {}
    virtual ~Supply() = default;

    // Set to end all workers soon.
    CancelFlag& cancelled() { return cancelled_; }

    // Append tasks to admit to a worker's batch, each of which must stay in place until `finish` or `fail`. None for an
    // empty batch ends the worker.
    virtual void take(Load batch, std::vector<Task*>& tasks) = 0;

    // Return true if the results of a task are no longer needed; `finish` is then called without hypotheses.
    virtual bool abandoned(const Task& task) const = 0;

    // Return true if a task must not wait for those that are not light: see `Worker::next_step`.
    virtual bool light(const Task& task) const = 0;

    // Called after each position of a task that is not finished.
    virtual void advanced(Task& task, const Beam& beam) = 0;

    virtual void finish(Task& task, std::vector<Hypothesis> hypotheses) = 0;

    // Called if a task throws; the other tasks of the batch continue.
    virtual void fail(Task& task, std::exception_ptr error) = 0;

  protected:
    // Return true if a quarter of the batch is free: encoding several sentences together is faster.
    bool has_room(const Load& batch) const {
        return batch.sentences <= limits_.sentences - std::max(int64_t(1), limits_.sentences / 4) ||
               batch.sentences == 0;
    }

    // Return true if a task may be added. A sentence that exceeds the limit is searched alone.
    bool fits(const Load& batch, const Task& task) const {
        return batch.sentences < limits_.sentences &&
               (batch.sentences == 0 || batch.tokens + task.weight() <= limits_.tokens);
    }

    const BatchLimits limits_;

  private:
    CancelFlag cancelled_{false};
};

// The tasks of one search, all of which are present when it begins; the first error ends it.
class Queue : public Supply {
  public:
    // `tasks` must outlive this object.
    Queue(std::vector<Task>& tasks, const BatchLimits& limits)
        : Supply(limits), tasks_(tasks), order_(tasks.size()), results_(tasks.size()) {
        // Longest first, so that no long sentence is started last.
        std::iota(order_.begin(), order_.end(), size_t(0));
        std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
            return tasks_[a].request.source.size() > tasks_[b].request.source.size();
        });
    }

    void take(Load batch, std::vector<Task*>& tasks) override {
        if (!has_room(batch)) return;
        while (true) {
            // Another worker may take the task that is checked here; the one taken instead is not longer.
            const size_t checked = next_.load();
            if (checked >= order_.size() || !fits(batch, tasks_[order_[checked]])) return;
            const size_t next = next_.fetch_add(1);
            if (next >= order_.size()) return;
            tasks.push_back(&tasks_[order_[next]]);
            batch.add(*tasks.back());
        }
    }

    bool abandoned(const Task&) const override { return false; }
    bool light(const Task&) const override { return false; }
    void advanced(Task&, const Beam&) override {}
    void finish(Task& task, std::vector<Hypothesis> hypotheses) override {
        results_[size_t(&task - tasks_.data())] = std::move(hypotheses);
    }
    void fail(Task&, std::exception_ptr error) override { std::rethrow_exception(error); }

    // Return the hypotheses of task i, after the search.
    const std::vector<Hypothesis>& results(size_t i) const { return results_[i]; }

  private:
    std::vector<Task>& tasks_;
    std::vector<size_t> order_;
    std::atomic<size_t> next_{0};  // index in `order_`
    std::vector<std::vector<Hypothesis>> results_;
};

// A worker with a batch of its own; there is one worker per thread.
template <class Cell>
class Worker {
  public:
    // `shortlist` may be null.
    Worker(Stepper<Cell>& stepper, const SpecialTokens& special, const Shortlist* shortlist, Supply& supply)
        : stepper_(stepper), special_(special), shortlist_(shortlist), supply_(supply) {}

    // Search until the supply is empty or cancelled.
    void run() {
        while (!supply_.cancelled()) {
            admit();
            if (active_.empty()) {
                if (taken_.empty()) return;
                continue;
            }
            advance();
        }
    }

    // Give up all tasks of the batch, after `run` has thrown an exception.
    void fail(const std::exception_ptr& error) {
        for (auto& sentence : active_)
            if (sentence.task) supply_.fail(*sentence.task, error);
        for (Task* task : taken_)
            if (task) supply_.fail(*task, error);
        active_.clear();
        taken_.clear();
    }

  private:
    using State = DecoderState<Cell>;

    struct Sentence {
        Task* task;  // null once it has been finished
        Beam beam;
        std::unique_ptr<State> state;
        std::exception_ptr error;
        bool light;
    };

    void admit() {
        taken_.clear();
        Load batch;
        for (const auto& sentence : active_) batch.add(*sentence.task);
        supply_.take(batch, taken_);
        if (taken_.empty()) return;
        try {
            begin(taken_.begin(), taken_.end());
        } catch (const Cancelled&) {
            throw;
        } catch (...) {
            for (auto task = taken_.begin(); task != taken_.end(); ++task) begin_alone(task);
        }
    }

    using TaskIterator = std::vector<Task*>::iterator;

    void begin(TaskIterator first, TaskIterator last) {
        std::vector<Source> sources;
        for (auto task = first; task != last; ++task) {
            const Request& request = (*task)->request;
            sources.push_back({request.source, (*task)->config.beam,
                               shortlist_ ? shortlist_->allowed(request.source, request.prefix) : std::vector<int>()});
        }
        auto states = stepper_.start(std::move(sources));
        active_.reserve(active_.size() + states.size());
        for (auto& state : states) {
            Task* const task = *first;
            active_.push_back({task, Beam(task->request, task->config, special_), std::move(state), nullptr, false});
            *first++ = nullptr;
        }
    }

    void begin_alone(TaskIterator task) {
        try {
            begin(task, task + 1);
        } catch (const Cancelled&) {
            throw;
        } catch (...) {
            supply_.fail(*std::exchange(*task, nullptr), std::current_exception());
        }
    }

    // Advance sentences by one position, and remove those whose results are final.
    void advance() {
        for (auto& sentence : active_)
            if (supply_.abandoned(*sentence.task)) finish(sentence, {});
        remove_finished();
        if (active_.empty()) return;
        const size_t count = next_step();
        try {
            step(0, count);
        } catch (const Cancelled&) {
            throw;
        } catch (...) {
            for (size_t i = 0; i < count; ++i) step_alone(i);
        }
        for (size_t i = 0; i < count; ++i) {
            Sentence& sentence = active_[i];
            if (sentence.error) {
                supply_.fail(*std::exchange(sentence.task, nullptr), sentence.error);
                continue;
            }
            const std::vector<int> parents = sentence.beam.advance();
            if (sentence.beam.decided()) {
                finish(sentence, sentence.beam.results());
            } else {
                sentence.state->reorder(parents);
                supply_.advanced(*sentence.task, sentence.beam);
            }
        }
        remove_finished();
    }

    // Move the sentences of the next step to the front, and return their number. A step of the whole batch takes long:
    // between two of them, the light sentences advance by themselves, for about as many rows.
    size_t next_step() {
        size_t count = 0;
        int64_t light_rows = 0, other_rows = 0;
        for (auto& sentence : active_) {
            // Asked once, since the answer can change.
            sentence.light = supply_.light(*sentence.task);
            count += sentence.light;
            (sentence.light ? light_rows : other_rows) += sentence.beam.hypotheses();
        }
        if (count == 0 || ahead_ >= other_rows) {
            ahead_ = 0;
            return active_.size();
        }
        ahead_ += std::max(light_rows, LEAST_ROWS);
        running_.clear();
        for (const bool light : {true, false})
            for (auto& sentence : active_)
                if (sentence.light == light) running_.push_back(std::move(sentence));
        std::swap(active_, running_);
        running_.clear();
        return count;
    }

    // Compute the logits of the sentences `first` to `last`.
    void step(size_t first, size_t last) {
        states_.clear();
        tokens_.clear();
        for (size_t i = first; i < last; ++i) {
            const Sentence& sentence = active_[i];
            states_.push_back(sentence.state.get());
            for (int h = 0; h < sentence.beam.hypotheses(); ++h) tokens_.push_back(sentence.beam.last_token(h));
        }
        stepper_.step(states_, tokens_, [&](size_t sentence, int hypothesis, const Logits& logits) {
            active_[first + sentence].beam.observe(hypothesis, logits);
        });
    }

    // Repeat a step that threw, with one sentence; the results of a sentence do not depend on the others.
    void step_alone(size_t i) {
        Sentence& sentence = active_[i];
        sentence.state->cache.keep(sentence.beam.position());
        try {
            step(i, i + 1);
        } catch (const Cancelled&) {
            throw;
        } catch (...) {
            sentence.error = std::current_exception();
        }
    }

    void finish(Sentence& sentence, std::vector<Hypothesis> hypotheses) {
        supply_.finish(*std::exchange(sentence.task, nullptr), std::move(hypotheses));
    }

    void remove_finished() {
        running_.clear();
        for (auto& sentence : active_)
            if (sentence.task) running_.push_back(std::move(sentence));
        std::swap(active_, running_);
        running_.clear();
    }

    // A step of fewer rows takes as long.
    static constexpr int64_t LEAST_ROWS = 16;

    Stepper<Cell>& stepper_;
    const SpecialTokens& special_;
    const Shortlist* const shortlist_;
    Supply& supply_;
    std::vector<Sentence> active_, running_;
    std::vector<Task*> taken_;  // null once it is in `active_` or has failed
    int64_t ahead_ = 0;         // rows of the steps of light sentences since the last step of all
    std::vector<State*> states_;
    std::vector<int> tokens_;
};

}  // namespace dragoman
