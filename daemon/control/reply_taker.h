#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <vector>

#include "daemon/control/context_registry.h"
#include "daemon/control/control_servers.h"
#include "stack/base/result.h"

namespace lyre {

/// Takes the workers' replies and passes them to the clients: when a worker writes to an eventfd,
/// and periodically. Thread: the one that runs `io`. Owner: ends after the workers, which write to
/// its eventfd.
class ReplyTaker {
 public:
  explicit ReplyTaker(boost::asio::io_context& io) : bell_(io), timer_(io) {}

  /// Makes the eventfd. Fails: no descriptor, or the system watches no more of them.
  Status open();
  int bell_fd() { return bell_.native_handle(); }
  /// Begins. `on_look` is called after each periodic poll; it returns true while replies are due
  /// soon.
  void begin(ContextRegistry& registry, ControlServers& control, std::function<bool()> on_look);
  /// Takes what is there now.
  void look();

 private:
  void wait_for_bell();
  void schedule(bool is_due);
  void look_by_timer();

  boost::asio::posix::stream_descriptor bell_;
  boost::asio::steady_timer timer_;
  ContextRegistry* registry_ = nullptr;
  ControlServers* control_ = nullptr;
  std::function<bool()> on_look_;
  std::vector<Expulsion> expulsions_;  ///< kept for its memory
};

}  // namespace lyre
