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
  /// How often keep_alive() is due; 0: there is no watchdog. An operator may have shortened the
  /// service's time since this process, or the one before it, was told.
  Nanos watchdog_period() const {
    return earlier(nanos(watchdog_timeout_.value / 3), kKeepAlivePeriodMax);
  }

 private:
  static constexpr Nanos kKeepAlivePeriodMax = seconds(3);

  Nanos watchdog_timeout_{0};  ///< after this time without keep_alive() the daemon is ended
};

}  // namespace lyre
