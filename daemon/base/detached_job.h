#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace lyre {

/// A job of the control thread that may wait for what clients do. Each run is in a thread of its
/// own that nobody joins, at most one at a time. Where it is in a system call that cannot be
/// interrupted, the kernel keeps an ended process until that call returns. Thread: one.
class DetachedJob {
 public:
  /// `job` may run when this object is gone, and while the process ends: it uses only its own
  /// copies, and throws nothing. What it returns is added up.
  explicit DetachedJob(std::function<uint32_t()> job);
  DetachedJob(const DetachedJob&) = delete;
  DetachedJob& operator=(const DetachedJob&) = delete;

  /// False: the last run is under way, or there is no thread for this one.
  bool begin();
  bool is_under_way() const;
  /// The sum of what runs that have ended since the last call returned.
  uint32_t take_results();

 private:
  /// Shared with the thread.
  struct State {
    std::function<uint32_t()> job;
    std::atomic<bool> is_under_way{false};
    std::atomic<uint32_t> results{0};
  };

  std::shared_ptr<State> state_;
};

}  // namespace lyre
