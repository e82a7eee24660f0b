#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>

#include "daemon/assembly.h"
#include "daemon/config.h"
#include "daemon/housekeeping.h"
#include "daemon/notifier.h"
#include "daemon/reply_taker.h"
#include "daemon/shutdown.h"

namespace lyre {

/// The running daemon, from its start to its end.
/// Thread: the control thread, which runs `io`.
class Launcher {
 public:
  using StartBackend = std::function<Result<std::unique_ptr<io::Backend>>(const Config&)>;

  /// `start_backend` is called after all checks that need no NIC.
  /// Fails: one line that says what is missing.
  static Result<std::unique_ptr<Launcher>> start(const Config& config, boost::asio::io_context& io,
                                                 const StartBackend& start_backend);
  ~Launcher();

  /// Accepts no more clients and asks every worker to reset its sessions. Stops `io` when they
  /// have, or after kShutdownTimeout.
  void begin_stop();

 private:
  Launcher(const Config& config, boost::asio::io_context& io);

  Status assemble(const StartBackend& start_backend);
  void run();
  bool look_at_shutdown();
  void finish_stop();
  void give_up_on_workers();

  const Config config_;
  boost::asio::io_context& io_;
  Notifier notifier_;
  ReplyTaker replies_;  ///< outlives the workers, which write to its eventfd
  std::unique_ptr<Assembly> parts_;
  std::unique_ptr<Housekeeping> housekeeping_;
  std::unique_ptr<Shutdown> shutdown_;
};

}  // namespace lyre
