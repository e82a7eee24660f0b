#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/config/config.h"
#include "daemon/workers/contended_poll.h"
#include "daemon/workers/short_gaps.h"
#include "daemon/workers/vain_polls.h"
#include "stack/base/core_contention.h"
#include "stack/base/nanos.h"

namespace lyre {

/// What a worker thread does between two turns. Decides only; the caller sleeps.
/// An adaptive worker that found nothing to do yields at once: client and daemon may share a core,
/// and the client that runs then makes the next work. While another thread computes on its core it
/// sleeps instead, after a short poll where that pays: the kernel interrupts a computing thread for
/// one that wakes up and has shorter slices, not for one that yielded. Through short gaps between
/// the steps of a job it stays awake, as long as no other thread computes on its core. On a host
/// with fewer processors than runnable threads it sleeps at once where its yields reach nobody.
class IdlePolicy {
 public:
  enum class Action : uint8_t { kPoll, kYield, kSleep };
  struct Decision {
    Action action = Action::kPoll;
    Nanos sleep{0};            ///< kSleep: the longest, where every port announces packets
    Nanos unsure_sleep{0};     ///< kSleep: the longest, where a port may not announce one
    bool is_step_due = false;  ///< kYield: it waits for the next step of a job, see ShortGaps
  };

  /// `awake`: the longest gap between two steps of a job through which it stays awake.
  IdlePolicy(IdleMode mode, Nanos spin, Nanos awake);

  /// Before after_turn(), after a turn that took so many submissions from clients. Packets for
  /// nobody are no step of a job, nor are acknowledgements that were delayed until its gap.
  void on_submissions(size_t count, Nanos now);
  /// After each look at the host, see CrowdedHost.
  void on_look(bool is_crowded) { vain_polls_.on_look(is_crowded); }
  bool is_bulk_on_crowded_host() const { return vain_polls_.is_bulk_on_crowded_host(); }
  /// Whether another thread computes on the worker's core.
  bool is_contended(Nanos now) const { return contention_.is_contended(now); }
  /// In the yield before the last turn another thread had a time slice, and nothing came for the
  /// worker meanwhile.
  bool has_given_freely() const { return has_given_freely_; }
  /// The worker runs on another core from now on.
  void on_core_change() { contention_ = {}; }
  /// After a turn that began at `now`, did `work`, and must be repeated at `deadline`.
  Decision after_turn(size_t work, Nanos now, Nanos deadline);

 private:
  void on_yield(Nanos took, Nanos now);
  Decision after_idle_turn(Nanos now, Nanos deadline);
  /// `is_wanted`: other threads wait for the core.
  Nanos next_unsure_sleep(Nanos now, bool is_wanted);

  IdleMode mode_;
  Nanos spin_;
  CoreContention contention_;
  ContendedPoll contended_poll_;
  VainPolls vain_polls_;
  ShortGaps short_gaps_;
  bool has_yielded_ = false;  ///< after the last turn
  bool has_given_freely_ = false;
  Nanos turned_at_{0};  ///< when the last turn began
  Nanos last_work_{INT64_MIN / 2};
  Nanos last_submission_{INT64_MIN / 2};
  Nanos unsure_sleep_;
};

}  // namespace lyre
