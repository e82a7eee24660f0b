#include "daemon/notifier.h"

#include <systemd/sd-daemon.h>

namespace lyre {

Notifier::Notifier() {
  uint64_t timeout_us = 0;
  if (::sd_watchdog_enabled(0, &timeout_us) > 0) {
    watchdog_timeout_ = micros(static_cast<int64_t>(timeout_us));
  }
}

void Notifier::ready(const std::string& status) {
  ::sd_notify(0, ("READY=1\nSTATUS=" + status).c_str());
}

void Notifier::stopping() { ::sd_notify(0, "STOPPING=1\nSTATUS=Resetting sessions"); }

void Notifier::replaced(pid_t by) { ::sd_notify(0, ("MAINPID=" + std::to_string(by)).c_str()); }

void Notifier::keep_alive() { ::sd_notify(0, "WATCHDOG=1"); }

}  // namespace lyre
