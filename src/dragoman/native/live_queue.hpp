// Tasks that come and go while workers search, shared fairly between groups.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "search.hpp"

namespace dragoman {

// What has become of a task.
struct Outcome {
    int64_t ticket;
    std::vector<int> progress;  // tokens of the best hypothesis so far, if the task is not finished
    std::vector<Hypothesis> hypotheses;
    std::exception_ptr error;  // null if there is none
    bool finished;
};

// A supply of tasks that are submitted at any time. Thread-safe.
//
// Groups take turns: places go first to groups without a task in progress, then to the other groups in rotation. A
// group without a task in progress may also use a quarter more places than the limit, so that its first task is not
// delayed by the tasks of others. The tasks of a group are light until they have used LIGHT_ROWS. All members are
// guarded by `lock_`, and no function holds it while it computes.
class LiveQueue : public Supply {
  public:
    using Supply::Supply;

    // Throws if the queue is closed. `watched`: report the progress of the task.
    void submit(int64_t ticket, int64_t group, Task task, bool watched) {
        const std::lock_guard<std::mutex> guard(lock_);
        if (cancelled()) throw std::runtime_error("the live search is closed");
        if (tasks_.count(ticket)) throw std::invalid_argument("the ticket is in use");
        const Place home = group_of(group);
        tasks_.emplace(ticket, std::make_unique<Entry>(std::move(task), ticket, group, watched, home->used));
        home->waiting.push_back(ticket);
        place(home, false);
        ++waiting_;
        work_.notify_one();
    }

    // Give up a task. It leaves its batch at the next position; unknown tickets are ignored.
    void cancel(int64_t ticket) {
        const std::lock_guard<std::mutex> guard(lock_);
        const auto found = tasks_.find(ticket);
        if (found == tasks_.end()) return;
        if (found->second->in_progress) {
            found->second->abandoned = true;
        } else {
            // The ticket stays in its group until its turn.
            tasks_.erase(found);
            --waiting_;
        }
    }

    // Cancel the workers, and let `wait` return.
    void close() {
        const std::lock_guard<std::mutex> guard(lock_);
        cancelled() = true;
        work_.notify_all();
    }

    // Fail all tasks, and let `wait` return false after them. Call it when all workers have ended.
    void end() {
        const std::lock_guard<std::mutex> guard(lock_);
        const auto error = std::make_exception_ptr(std::runtime_error("the live search was closed"));
        for (const auto& [ticket, entry] : tasks_)
            if (!entry->abandoned) outcomes_.push_back({ticket, {}, {}, error, true});
        tasks_.clear();
        ended_ = true;
        reports_.notify_all();
    }

    // Wait for outcomes, and append them to `outcomes`; return false if there will be no more.
    bool wait(std::vector<Outcome>& outcomes) {
        std::unique_lock<std::mutex> guard(lock_);
        reports_.wait(guard, [&] { return ended_ || !outcomes_.empty() || !progressed_.empty(); });
        for (const int64_t ticket : progressed_) {
            const auto found = tasks_.find(ticket);
            if (found == tasks_.end()) continue;
            outcomes.push_back({ticket, std::move(found->second->progress), {}, nullptr, false});
            found->second->progress.clear();
        }
        progressed_.clear();
        for (auto& outcome : outcomes_) outcomes.push_back(std::move(outcome));
        outcomes_.clear();
        return !outcomes.empty() || !ended_;
    }

    void take(Load batch, std::vector<Task*>& tasks) override {
        std::unique_lock<std::mutex> guard(lock_);
        if (batch.sentences == 0) {
            ++idle_;
            if (Signs::own) Signs::own->working = false;
            work_.wait(guard, [&] { return cancelled() || waiting_ > 0; });
            if (Signs::own) Signs::own->working = true;
            --idle_;
        }
        if (cancelled()) return;
        const bool others = has_room(batch);
        // Leave idle workers their part.
        int64_t share = (waiting_ + idle_) / (idle_ + 1);
        while (share-- > 0) {
            Entry* entry = next(batch, others);
            if (!entry) break;
            tasks.push_back(entry);
            batch.add(*entry);
        }
        if (waiting_ > 0 && idle_ > 0) work_.notify_one();
    }

    bool abandoned(const Task& task) const override { return static_cast<const Entry&>(task).abandoned; }

    bool light(const Task& task) const override { return *static_cast<const Entry&>(task).used < LIGHT_ROWS; }

    void advanced(Task& task, const Beam& beam) override {
        auto& entry = static_cast<Entry&>(task);
        *entry.used += beam.hypotheses();
        if (!entry.watched) return;
        const std::lock_guard<std::mutex> guard(lock_);
        // A report that has not been fetched is replaced.
        if (entry.progress.empty()) progressed_.push_back(entry.ticket);
        entry.progress = beam.best();
        reports_.notify_one();
    }

    void finish(Task& task, std::vector<Hypothesis> hypotheses) override {
        leave(task, std::move(hypotheses), nullptr);
    }
    void fail(Task& task, std::exception_ptr error) override { leave(task, {}, std::move(error)); }

  private:
    // Rows of steps: those of a few sentences with a beam of 5.
    static constexpr int64_t LIGHT_ROWS = 1024;

    using Rows = std::atomic<int64_t>;

    struct Entry : Task {
        Entry(Task task, int64_t ticket, int64_t group, bool watched, std::shared_ptr<Rows> used)
            : Task(std::move(task)), ticket(ticket), group(group), watched(watched), used(std::move(used)) {}

        const int64_t ticket, group;
        const bool watched;
        const std::shared_ptr<Rows> used;  // by the tasks of the group
        bool in_progress = false;
        std::atomic<bool> abandoned{false};
        std::vector<int> progress;
    };

    struct Group {
        int64_t id;
        std::list<Group>* home;       // the list that contains it
        std::deque<int64_t> waiting;  // tickets, including those of tasks that were given up
        std::shared_ptr<Rows> used;
        int64_t in_progress = 0;
    };
    using Place = std::list<Group>::iterator;

    Place group_of(int64_t id) {
        const auto found = groups_.find(id);
        if (found != groups_.end()) return found->second;
        served_.push_back({id, &served_, {}, std::make_shared<Rows>(0)});
        return groups_[id] = std::prev(served_.end());
    }

    // Move a group to the end of the list where it belongs, if that is another list or `always`; forget it if it has
    // nothing left.
    void place(Place group, bool always) {
        if (group->waiting.empty() && group->in_progress == 0) {
            groups_.erase(group->id);
            group->home->erase(group);
            return;
        }
        std::list<Group>* to = group->waiting.empty() ? &served_ : group->in_progress == 0 ? &new_ : &others_;
        if (to == group->home && !always) return;
        to->splice(to->end(), *group->home, group);
        group->home = to;
    }

    // Remove the next task from its group, if it fits into a batch; else return null. Groups with a task in progress
    // are considered if `others`. The task whose turn it is is not
    // passed over for a shorter one, so that it is not delayed for ever.
    Entry* next(const Load& batch, bool others) {
        while (true) {
            const bool first = !new_.empty();
            if (!first && (others_.empty() || !others)) return nullptr;
            const Place group = first ? new_.begin() : others_.begin();
            const auto found = tasks_.find(group->waiting.front());
            if (found == tasks_.end()) {
                group->waiting.pop_front();
                place(group, false);
                continue;
            }
            Entry& entry = *found->second;
            if (!fits(batch, entry) && !(first && fits_in_reserve(batch, entry))) return nullptr;
            group->waiting.pop_front();
            ++group->in_progress;
            place(group, true);
            --waiting_;
            entry.in_progress = true;
            return &entry;
        }
    }

    bool fits_in_reserve(const Load& batch, const Task& task) const {
        return batch.sentences < limits_.sentences + std::max(int64_t(1), limits_.sentences / 4) &&
               task.weight() <= limits_.tokens / 4;
    }

    void leave(Task& task, std::vector<Hypothesis> hypotheses, std::exception_ptr error) {
        auto& entry = static_cast<Entry&>(task);
        const std::lock_guard<std::mutex> guard(lock_);
        if (!entry.abandoned) {
            outcomes_.push_back({entry.ticket, {}, std::move(hypotheses), std::move(error), true});
            reports_.notify_one();
        }
        const Place group = groups_.at(entry.group);
        --group->in_progress;
        place(group, false);
        tasks_.erase(entry.ticket);
    }

    std::mutex lock_;
    std::condition_variable work_, reports_;
    std::unordered_map<int64_t, std::unique_ptr<Entry>> tasks_;  // by ticket: waiting and in progress
    int64_t waiting_ = 0, idle_ = 0;                             // numbers of tasks and of workers
    // Groups whose tasks wait, without and with a task in progress, and groups without a task that waits.
    std::list<Group> new_, others_, served_;
    std::unordered_map<int64_t, Place> groups_;
    std::vector<int64_t> progressed_;  // tickets
    std::vector<Outcome> outcomes_;
    bool ended_ = false;
};

}  // namespace dragoman
