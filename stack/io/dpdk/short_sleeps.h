#pragma once

#include <signal.h>
#include <time.h>

namespace lyre::io::dpdk {

/// While it lives, a signal every 10 ms ends the sleeps of the calling thread.
///
/// Where CPUID does not tell the rate of the time-stamp counter, rte_eal_init() sleeps for 100 ms
/// to measure it, a third of the daemon's start. It reads the clock on both sides of the sleep, and
/// rounds to 10 MHz, so a tenth of that suffices. A driver's sleep must not be cut short: its
/// device may need the time. Fails: silently; sleeps then last as long as they would.
class ShortSleeps {
 public:
  ShortSleeps();
  ~ShortSleeps();
  ShortSleeps(const ShortSleeps&) = delete;
  ShortSleeps& operator=(const ShortSleeps&) = delete;

 private:
  struct sigaction before_ {};
  timer_t timer_{};
  bool has_handler_ = false;
  bool has_timer_ = false;
};

}  // namespace lyre::io::dpdk
