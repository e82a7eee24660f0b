#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "stack/base/nanos.h"

namespace lyre {

/// Notifications to systemd (sd_notify). No effect without a service manager.
class Notifier {
 public:
  Notifier();
  void ready(const std::string& status);
  void stopping();
  /// Another process is the service's from now on.
  void replaced(pid_t by);
  void keep_alive();
  /// After this time without keep_alive() the daemon is ended; 0: there is no watchdog.
  Nanos watchdog_timeout() const { return watchdog_timeout_; }
  /// How often keep_alive() is due.
  Nanos watchdog_period() const { return nanos(watchdog_timeout_.value / 3); }

 private:
  Nanos watchdog_timeout_{0};
};

}  // namespace lyre
