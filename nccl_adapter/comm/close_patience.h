#pragma once

#include <cstdint>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {

/// How long closes wait for peers to place what is done for NCCL. NCCL closes the comms of a
/// communicator one after the other. Where its peers have not entered the operation, every close
/// waits in vain. The first one waits for kCloseWaitNs, those that follow it for kFollowerWaitNs.
/// Units: the environment's clock. Thread: that which closes; each has its own.
class ClosePatience {
 public:
  /// A close that begins so soon after a vain one follows it.
  static constexpr int64_t kFollowsWithinNs = 100'000'000;
  /// A peer that is there answers in less.
  static constexpr int64_t kFollowerWaitNs = 10'000'000;

  /// When the wait of a close that begins now has to end.
  int64_t deadline_ns(int64_t now_ns) const {
    const bool follows = now_ns < vain_until_ns_;
    return now_ns + (follows ? kFollowerWaitNs : kCloseWaitNs);
  }
  /// The close is over. `was_in_vain`: its wait ended before all was placed.
  void on_closed(bool was_in_vain, int64_t now_ns) {
    vain_until_ns_ = was_in_vain ? now_ns + kFollowsWithinNs : INT64_MIN;
  }

 private:
  int64_t vain_until_ns_ = INT64_MIN;
};

}  // namespace lyre::nccl_adapter
