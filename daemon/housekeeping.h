#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <optional>

#include "daemon/assembly.h"
#include "daemon/base/clock.h"
#include "daemon/notifier.h"
#include "daemon/ports/device_counters.h"
#include "daemon/workers/core_keeper.h"
#include "daemon/workers/progress.h"
#include "stack/base/look_clock.h"
#include "stack/channel/stats.h"

namespace lyre {

/// The periodic work of a running daemon: links, ports that need a restart, gauges, counters of
/// devices, workers' cores, address conflicts, checksums that a kernel leaves out, the service
/// manager's watchdog, and the end of a daemon whose worker hangs. Thread: the one that runs `io`.
/// Owner: borrows all that it is given.
class Housekeeping {
 public:
  using Clock = Nanos (*)();

  /// `clock`: monotonic. Tests have one of their own.
  Housekeeping(boost::asio::io_context& io, Assembly& parts, Notifier& notifier,
               Clock clock = monotonic_now);

  void begin();
  /// True when a worker has made no turn for kHangAfter.
  bool is_worker_hanging() const;

 private:
  void watch_links();
  void schedule();
  void look();
  void restart_ports();
  template <typename Step>
  bool between_turns(const Step& step);
  void look_for_conflicts(Nanos now);
  std::optional<channel::ClaimView> last_claim(uint32_t port) const;
  void look_for_checksums();
  void keep_alive(Nanos now);
  [[noreturn]] void end_hung_daemon();

  Assembly& parts_;
  Notifier& notifier_;
  const Clock clock_;
  boost::asio::steady_timer links_timer_;
  boost::asio::steady_timer timer_;
  Progress progress_;
  LookClock looks_;
  DeviceCounters device_counters_;
  CoreKeeper cores_;
  RareWarning conflicts_;
  int64_t claims_told_unix_ns_ = 0;  ///< claims up to then were logged
  bool has_told_checksums_ = false;
  Nanos keep_alive_due_{0};
};

}  // namespace lyre
