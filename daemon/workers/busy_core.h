#pragma once

#include <cstdint>

#include "stack/base/nanos.h"

namespace lyre {

/// Whether a worker runs on its own core, or for a while on others, because another thread computes
/// there. The two would wait for each other's time slices, 3 to 4 ms each; elsewhere the worker
/// shares a core with threads of Lyre, which give it back within some 10 us.
/// Thread: its owner's.
class BusyCore {
 public:
  enum class Action : uint8_t { kStay, kLeave, kReturn };

  /// What computes for so long goes on. Measured on two cores: of 28 jobs alone 5 left a core to
  /// their own ranks, with 100 ms 2; but then 16 MiB beside a process take 42 ms, not 28.
  static constexpr Nanos kLongMin = millis(60);
  /// The answers of CoreContention have gaps, in which the worker tests again: less than this.
  static constexpr Nanos kGapMax = millis(10);
  /// How long the worker is away, at first and at most. It returns then, and leaves again if the
  /// thread still computes: each time it loses kLongMin. The same outcome soon doubles the time.
  static constexpr Nanos kAwayMin = seconds(1);
  static constexpr Nanos kAwayMax = seconds(16);

  /// After each turn. `is_contended`: another thread computes on the core that the worker has now.
  /// `is_free`: it had a time slice, and nothing came for the worker meanwhile. So does a client
  /// that computes: its job goes on afterwards.
  Action after_turn(bool is_contended, bool is_free, Nanos now) {
    if (is_away_ && now >= until_) return come_back(now);
    if (is_free) contended_at_ = Nanos{INT64_MIN / 2};
    if (!is_contended || is_free) return Action::kStay;
    if (now - contended_at_ > kGapMax) contended_since_ = now;
    contended_at_ = now;
    if (now - contended_since_ < kLongMin) return Action::kStay;
    // The others are no better. The worker stays for as long as it would have been away.
    if (is_away_) return come_back(now + away_);
    return now < until_ ? Action::kStay : leave(now);
  }
  /// The last kReturn could not be done: the worker is away still, and tries again after as long.
  void on_failed_return(Nanos now) { change(true, now + away_); }

 private:
  Action leave(Nanos now) {
    const bool is_soon = now - until_ < away_;
    away_ = is_soon ? earlier(away_ * 2, kAwayMax) : kAwayMin;
    return change(true, now + away_);
  }
  Action come_back(Nanos stays_until) { return change(false, stays_until); }
  Action change(bool is_away, Nanos until) {
    is_away_ = is_away;
    until_ = until;
    contended_at_ = Nanos{INT64_MIN / 2};  // that was the other core
    return is_away ? Action::kLeave : Action::kReturn;
  }

  bool is_away_ = false;
  Nanos away_ = kAwayMin;
  Nanos until_{INT64_MIN / 2};  ///< it is away, or stays, at least until then
  Nanos contended_since_{0};
  Nanos contended_at_{INT64_MIN / 2};  ///< the last turn that was
};

}  // namespace lyre
