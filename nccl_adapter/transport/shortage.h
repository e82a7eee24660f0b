#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace lyre::nccl_adapter {

/// What the comms of a process tell each other of daemons that are full. From ABI v11 on each
/// communicator has an instance of its own: a new one has no stream to give back, the others have.
/// Units: the operating system's monotonic clock. Thread: any.
class Shortage {
 public:
  /// A host counts as reached for so long after the last note_reached(). Comms note it at each look
  /// by the clock.
  static constexpr int64_t kReachedNs = 1'000'000'000;

  /// A comm has no stream, and a daemon has no room for one: every instance shall halve the number
  /// of its streams. False: this was declared less than kRedialNsMax ago. Streams that are given
  /// back carry their last bytes first, so what they free shows a little later.
  bool declare(int64_t now_ns);
  /// How often it was declared. Relaxed: a lone counter.
  uint64_t declared() const { return declared_.load(std::memory_order_relaxed); }
  /// A comm that sends has a stream to that host which is not stalled.
  void note_reached(const std::string& host, int64_t now_ns);
  bool is_reached(const std::string& host, int64_t now_ns) const;

 private:
  mutable std::mutex mutex_;
  std::atomic<uint64_t> declared_{0};
  std::optional<int64_t> declared_ns_;
  std::map<std::string, int64_t> reached_ns_;  ///< by host, when last
};

}  // namespace lyre::nccl_adapter
