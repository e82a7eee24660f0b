#pragma once

#include <cstdint>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {

/// How long closes wait for peers to place what is done for NCCL, or to acknowledge the goodbye.
/// NCCL closes the comms of a communicator one after the other. Where its peers have not entered
/// the operation, or a host has vanished, every close waits in vain. The first one waits for
/// kCloseWaitNs, those that follow it for `follower_wait_ns`.
/// Units: the operating system's monotonic clock. Thread: one at a time.
class ClosePatience {
 public:
  /// A close that begins so soon after a vain one follows it.
  static constexpr int64_t kFollowsWithinNs = 100'000'000;
  /// A process that is there answers in less.
  static constexpr int64_t kFollowerWaitNs = 10'000'000;
  /// A host that is there acknowledges in less, though it may delay that by 40 ms.
  static constexpr int64_t kFollowerGoodbyeNs = 60'000'000;

  explicit ClosePatience(int64_t follower_wait_ns = kFollowerWaitNs)
      : follower_wait_ns_(follower_wait_ns) {}

  /// When the wait of a close that begins now has to end.
  int64_t deadline_ns(int64_t now_ns) const {
    return now_ns + (follows_vain_one(now_ns) ? follower_wait_ns_ : kCloseWaitNs);
  }
  /// The close is over. `was_in_vain`: its wait ended before it had what it waited for.
  void on_closed(bool was_in_vain, int64_t now_ns) { vain_ns_ = was_in_vain ? now_ns : INT64_MAX; }
  /// A close that began at `begun_ns` is over, and its wait has no result: it had nothing to wait
  /// for, or its comm failed. The time that it took does not count for the close after it.
  void on_closed_without_result(int64_t begun_ns, int64_t now_ns) {
    if (follows_vain_one(begun_ns)) vain_ns_ = now_ns;
  }

 private:
  bool follows_vain_one(int64_t begun_ns) const {
    return begun_ns >= vain_ns_ && begun_ns - vain_ns_ < kFollowsWithinNs;
  }

  int64_t follower_wait_ns_;
  int64_t vain_ns_ = INT64_MAX;  ///< when the last wait ended in vain
};

}  // namespace lyre::nccl_adapter
