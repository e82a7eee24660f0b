#pragma once

#include <cstdint>

#include "stack/base/look_clock.h"
#include "stack/base/nanos.h"

namespace lyre::io::dpdk {

/// What a transmit queue has done so far, as its worker knows.
struct TxProgress {
  uint64_t freed = 0;  ///< packets
  uint64_t waits = 0;  ///< times that the worker wanted packets freed, and some were not
};

/// Finds transmit queues that free nothing while their worker waits for it. A queue for which
/// no worker waits may keep what it has: many drivers free only when they need room, and some
/// nothing while the link is down.
/// Thread: the control thread.
class TxWatch {
 public:
  /// More than a device with a watchdog of its own needs to ask for a reset (ENA: 5 s).
  static constexpr Nanos kStuckAfter = seconds(10);
  /// While the link is down. Clients wait to be told of sessions that have ended, and a device that
  /// is opened again has lost nothing. But its link is trained anew: the time doubles with each
  /// restart until the link is up, so that a link that takes longer comes up as well.
  static constexpr Nanos kStuckWithoutLinkAfter = seconds(5);
  static constexpr Nanos kStuckWithoutLinkAfterMax = seconds(60);

  /// The most that counts of the time between two looks. While this process was stopped, or its
  /// machine was paused, nobody took from the queue what the device had sent.
  static constexpr Nanos kCountedMax = seconds(1);

  /// True when nothing was freed for that time, the link was as it is, and in each look of that
  /// time the worker waited.
  bool is_stuck(const TxProgress& progress, bool is_link_up, Nanos now);
  /// The queue does not run.
  void forget() { is_waiting_ = false; }
  /// The port is started again because this queue, or another one, is stuck.
  void back_off();

 private:
  TxProgress last_;
  bool was_link_up_ = false;
  bool is_waiting_ = false;
  LookClock clock_;
  Nanos waited_;
  Nanos without_link_after_ = kStuckWithoutLinkAfter;
};

}  // namespace lyre::io::dpdk
