#pragma once

#include <cstdint>

#include "lyre/lyre.h"
#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {

/// The wait of a thread whose round of tests found nothing. Other threads use the context
/// meanwhile, and one may take the event for which the resting thread waits.
/// The GPU may finish the data of NCCL's next send meanwhile, and no descriptor tells of that. So
/// each rest is twice as long as the one before: NCCL sees it at most about as late again as it has
/// waited already.
/// Thread: any. All but wait() under the instance's lock, wait() without it.
class Rest {
 public:
  Rest();
  ~Rest();
  Rest(const Rest&) = delete;
  Rest& operator=(const Rest&) = delete;

  /// Arms the context. False: do not wait, because events wait, another thread rests already, or
  /// lyre_arm_rest() sees no reason: no thread computes on this core, and the host is not crowded,
  /// messages are small, or yields reach another thread.
  bool begin(lyre_context* context);
  /// Waits for the daemon or for a thread that took events.
  void wait();
  void end();
  /// NCCL got something to do: the next rest is a short one.
  void begin_anew() { longest_us_ = kRestUsMin; }

  bool is_under_way() const { return is_under_way_; }
  /// A thread polled the context, which disarmed it. `has_news`: what it found.
  void after_poll(lyre_context* context, bool has_news);

 private:
  const int news_fd_;            ///< an eventfd; -1: none was left, resting is disabled
  int daemon_fd_ = -1;           ///< *borrowed* from the context
  int longest_us_ = kRestUsMin;  ///< of the next rest
  int64_t wait_ns_ = 0;          ///< of this one
  bool is_under_way_ = false;
  bool has_ended_early_ = false;  ///< news_fd_ is readable
};

}  // namespace lyre::nccl_adapter
