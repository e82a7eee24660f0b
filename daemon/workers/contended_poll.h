#pragma once

#include <cstdint>

#include "stack/base/nanos.h"

namespace lyre {

/// Whether a worker polls for a moment before it sleeps while another thread computes on its core.
/// A sleep and its wake-up take longer than most packets need to come. But a poll that finds
/// nothing takes the core from a client that would make the next work there. So the worker polls
/// while at least half of its recent polls found work.
/// Thread: its owner's.
class ContendedPoll {
 public:
  /// A poll lasts no longer: a wake-up on a virtual processor takes 15 to 30 us.
  static constexpr Nanos kLongest = micros(40);
  /// Where polls do not pay, one of so many waits begins with one nevertheless.
  static constexpr uint32_t kTryAgainAfter = 64;

  /// A turn had work, `idle` after the one before that had.
  void on_work(Nanos idle) {
    if (state_ == State::kPolling) record(idle < kLongest);
    state_ = State::kFresh;
  }
  /// A turn had none, `idle` after the last one that had. True: poll, false: sleep.
  /// A wait whose first turn comes after a poll's end has no poll: another thread had the core.
  bool must_go_on(Nanos idle) {
    if (state_ == State::kFresh) {
      state_ = idle < kLongest && is_worthwhile() ? State::kPolling : State::kEnded;
    }
    if (state_ == State::kPolling && idle >= kLongest) {
      record(false);
      state_ = State::kEnded;
    }
    return state_ == State::kPolling;
  }

 private:
  enum class State : uint8_t { kFresh, kPolling, kEnded };

  bool is_worthwhile() {
    if (score_ >= kAll / 2) return true;
    left_out_ = (left_out_ + 1) % kTryAgainAfter;
    return left_out_ == 0;
  }
  void record(bool has_found) { score_ += ((has_found ? kAll : 0) - score_) / kRemembered; }

  static constexpr int32_t kAll = 1 << 10;
  static constexpr int32_t kRemembered = 16;  ///< so many polls, about

  State state_ = State::kFresh;
  int32_t score_ = kAll;  ///< the share of recent polls that found work, of kAll
  uint32_t left_out_ = 0;
};

}  // namespace lyre
