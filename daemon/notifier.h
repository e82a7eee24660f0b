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
  /// How often keep_alive() is due; 0: there is no watchdog.
  Nanos watchdog_period() const { return watchdog_period_; }

 private:
  Nanos watchdog_period_{0};
};

}  // namespace lyre
