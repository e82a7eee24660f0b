#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace lyre::adapter_sim {

inline constexpr int64_t kUs = 1'000;
inline constexpr int64_t kMs = 1'000'000;
inline constexpr int64_t kSecond = 1'000'000'000;

/// Virtual time, and what happens at which moment of it. Events of one moment run in the order in
/// which they were scheduled.
class Events {
 public:
  int64_t now_ns() const { return now_ns_; }
  bool is_empty() const { return heap_.empty(); }
  /// Of the next event. REQUIRES: there is one.
  int64_t next_ns() const { return heap_.front().at_ns; }

  void at(int64_t at_ns, std::function<void()> action) {
    heap_.push_back({std::max(at_ns, now_ns_), ++count_, std::move(action)});
    std::push_heap(heap_.begin(), heap_.end());
  }
  void after(int64_t ns, std::function<void()> action) { at(now_ns_ + ns, std::move(action)); }

  /// Everything up to `until_ns`, which is now the time.
  void run_until(int64_t until_ns) {
    while (!heap_.empty() && heap_.front().at_ns <= until_ns) run_next();
    now_ns_ = std::max(now_ns_, until_ns);
  }
  void run_next() {
    std::pop_heap(heap_.begin(), heap_.end());
    const Event event = std::move(heap_.back());
    heap_.pop_back();
    now_ns_ = std::max(now_ns_, event.at_ns);
    ++run_count_;
    event.action();
  }
  uint64_t run_count() const { return run_count_; }

 private:
  struct Event {
    int64_t at_ns;
    uint64_t number;
    std::function<void()> action;
    bool operator<(const Event& other) const {
      return std::pair(at_ns, number) > std::pair(other.at_ns, other.number);
    }
  };

  std::vector<Event> heap_;
  int64_t now_ns_ = kSecond;  // not 0: no clock shows that
  uint64_t count_ = 0;
  uint64_t run_count_ = 0;
};

}  // namespace lyre::adapter_sim
