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

  /// `start_backend` is called once nothing is known to stand in the way.
  /// Fails: one line that says what could not be had.
  static Result<std::unique_ptr<Launcher>> start(const Config& config, boost::asio::io_context& io,
                                                 const StartBackend& start_backend);
  ~Launcher();

  /// Takes no more clients, has every worker reset its sessions, and stops `io` once they have, or
  /// when they took too long.
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
  ReplyTaker replies_;  ///< outlives the workers, which ring it
  std::unique_ptr<Assembly> parts_;
  std::unique_ptr<Housekeeping> housekeeping_;
  std::unique_ptr<Shutdown> shutdown_;
};

}  // namespace lyre
