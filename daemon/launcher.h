#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "daemon/assembly.h"
#include "daemon/config/config.h"
#include "daemon/control/reply_taker.h"
#include "daemon/housekeeping.h"
#include "daemon/memory/mapping_opener.h"
#include "daemon/notifier.h"
#include "daemon/predecessor.h"
#include "daemon/shutdown.h"
#include "daemon/stats_keeper.h"
#include "daemon/successor.h"

namespace lyre {

/// The running daemon, from its start to its end.
/// Thread: the control thread, which runs `io`.
class Launcher {
 public:
  using StartBackend = std::function<Result<std::unique_ptr<io::Backend>>(
      const Config&, const std::optional<io::NicOwner>&)>;
  using LimitWorkers = std::function<void(Config&, uint32_t least, uint32_t most)>;
  using DropPrivileges = std::function<Status(const Config&)>;

  /// What belongs to the process, and differs in tests.
  struct Process {
    StartBackend start_backend;  ///< called after all checks that need no NIC
    /// Chooses the cores of "auto" again, between `least` and `most`; may be empty.
    LimitWorkers limit_workers = {};
    /// Called when all is open, before the first packet and the first client; may be empty.
    DropPrivileges drop_privileges = {};
    MappingHelperProcess helper = {};  ///< none: no shared anonymous memory of clients
    StatsKeeper keeper = {};           ///< none: nothing is left of the stats segment
    std::string program = {};          ///< what an upgrade starts; empty: there is none
    OwnedFd predecessor = {};          ///< the socket of a daemon that this one takes over from
  };

  /// Fails: one line that says what is missing.
  static Result<std::unique_ptr<Launcher>> start(const Config& config, boost::asio::io_context& io,
                                                 Process process);
  ~Launcher();

  /// Stops accepting clients and asks every worker to reset its sessions. Stops `io` when they
  /// have, or after kShutdownTimeout.
  void begin_stop();

 private:
  Launcher(const Config& config, boost::asio::io_context& io, MappingHelperProcess helper,
           StatsKeeper keeper);

  Status assemble(const Process& process);
  Status make_all(const Process& process);
  Status try_to_succeed(const Process& process, Successor& successor);
  Status succeed(const Process& process, Successor& successor);
  [[noreturn]] void fail_to_succeed(const Successor& successor, const Error& error);
  bool limit_workers(const Process& process, uint32_t least, uint32_t most);
  void limit_to_queue_pairs(const Process& process, const io::Backend& backend);
  Status make_ready(const Process& process);
  void keep_stats();
  void serve_upgrades();
  [[noreturn]] void end_replaced(pid_t successor);
  void run();
  bool look_at_shutdown();
  void finish_stop();
  void give_up_on_workers();

  Config config_;  ///< changes before the parts are made only
  boost::asio::io_context& io_;
  Notifier notifier_;
  std::string program_;
  StatsKeeper keeper_;  ///< writes when all else has ended
  MappingOpener mappings_;
  ReplyTaker replies_;  ///< outlives the workers, which write to its eventfd
  std::unique_ptr<Assembly> parts_;
  std::unique_ptr<Housekeeping> housekeeping_;
  std::unique_ptr<Shutdown> shutdown_;
  std::unique_ptr<Predecessor> predecessor_;
};

}  // namespace lyre
