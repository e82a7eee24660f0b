#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/assembly.h"
#include "daemon/base/daemon_limits.h"
#include "daemon/config/config.h"
#include "daemon/control/control_server.h"
#include "daemon/control/reply_taker.h"
#include "daemon/memory/mapping_opener.h"
#include "daemon/upgrade/new_process.h"
#include "daemon/upgrade/upgrade_link.h"

namespace lyre {

/// The daemon that goes in an upgrade. It starts its program again. When the new process has
/// prepared all that needs no port, this one stops its workers, passes clients and sessions on as
/// records and descriptors, closes its ports, and ends once the new process serves. If that fails
/// anywhere before, it opens its ports again and goes on.
/// Thread: the control thread. Owner: borrows all that it is given.
class Predecessor {
 public:
  using Answer = std::function<void(const UpgradeResult&)>;

  struct Parts {
    const Config& config;
    Assembly& assembly;
    ReplyTaker& replies;
    MappingOpener& mappings;
    std::string program;               ///< to start; empty: no upgrade
    std::function<void()> keep_alive;  ///< called while ports are closed and opened
    /// The process of this pid serves: this one has to end at once, and must not touch anything.
    std::function<void(pid_t)> on_replaced;
    Nanos pause_max = kUpgradePause;  ///< how long the workers may stand still
  };

  Predecessor(boost::asio::io_context& io, Parts parts);

  /// Begins an upgrade. `answer` is called once, before on_replaced().
  /// Fails: ENOTSUP this daemon cannot be upgraded, EALREADY an upgrade is under way, EBUSY
  /// memory that clients register takes too long, or why the new process cannot serve.
  void begin(Answer answer);
  /// Ends an upgrade that is under way: the daemon stops.
  void cancel();
  bool is_under_way() const { return answer_ != nullptr; }

 private:
  Status check() const;
  Status start_process();
  Status wait_until_prepared();
  void watch_link();
  void on_prepared();
  void hand_over_when_quiet(Nanos begin);
  Status hand_over();
  Status leave_if_memory_allows();
  bool pause_when_quiet();
  bool settle_workers();
  bool is_quiet();
  bool is_registering();
  Status leave();
  Status await_taken_over(Nanos deadline);
  void write_state(record::Writer& records, std::vector<int>& descriptors);
  void go_on();
  Error explain(const Error& error);
  void fail(const Error& error);

  Parts parts_;
  boost::asio::posix::stream_descriptor watch_;
  boost::asio::steady_timer timer_;
  Answer answer_;
  std::optional<NewProcess> process_;
  std::optional<UpgradeLink> link_;
  std::string release_;  ///< of the new process
  Nanos pause_;
};

}  // namespace lyre
