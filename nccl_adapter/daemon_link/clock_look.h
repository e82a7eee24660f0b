#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {

/// The look at an instance's comms by the clock: when one is due, and which comm is next. It goes
/// on in parts, in the order of the comms' numbers. Comms may be added and erased between two
/// parts. One that is there all the time is visited once in each look.
class ClockLook {
 public:
  /// A look is under way, or becomes due now.
  bool is_due(int64_t now_ns, bool is_attached) {
    if (next_ != 0) return true;
    ticks_ = is_attached && now_ns - ticked_ns_ >= kTickNs;
    shows_ = now_ns - shown_ns_ >= kShowNs;
    if (shows_) shown_ns_ = now_ns;
    return ticks_ || shows_;
  }
  bool is_under_way() const { return next_ != 0; }
  /// What the look does to each comm.
  bool ticks() const { return ticks_; }
  bool shows() const { return shows_; }
  /// Visits at most `most` comms, one at least where any is left. True: that ended the look.
  template <typename Comms, typename Visit>
  bool go_on(const Comms& comms, size_t most, Visit visit) {
    auto at = comms.lower_bound(next_);
    for (; most > 0 && at != comms.end(); ++at, --most) {
      next_ = at->first + 1;
      visit(at->second);
    }
    if (at == comms.end()) next_ = 0;
    return next_ == 0;
  }
  /// The next tick is due kTickNs from now. Returns the time since the last one.
  int64_t note_tick(int64_t now_ns) { return now_ns - std::exchange(ticked_ns_, now_ns); }

 private:
  uint64_t next_ = 0;  ///< the least number that was not visited; 0: no look is under way
  bool ticks_ = false;
  bool shows_ = false;
  int64_t ticked_ns_ = 0;
  int64_t shown_ns_ = 0;
};

}  // namespace lyre::nccl_adapter
