#include "stack/session/options.h"

namespace lyre::session {

bool apply_option(channel::SessionOption option, uint32_t value, tcp::ConnectionConfig& config) {
  constexpr uint32_t kProbesMax = 127;
  switch (option) {
    case channel::SessionOption::kNodelay:
      config.nagle = value == 0;
      return true;
    case channel::SessionOption::kCork:
      config.cork = value != 0;
      return true;
    case channel::SessionOption::kQuickAck:
      config.quick_ack = value != 0;
      return true;
    case channel::SessionOption::kUserTimeoutMs:
      if (value == 0) return false;
      config.user_timeout = millis(value);
      return true;
    case channel::SessionOption::kKeepaliveIdleMs:
      config.keepalive = value != 0;
      if (value != 0) config.keepalive_idle = millis(value);
      return true;
    case channel::SessionOption::kKeepaliveIntervalMs:
      if (value == 0) return false;
      config.keepalive_interval = millis(value);
      return true;
    case channel::SessionOption::kKeepaliveProbes:
      if (value == 0 || value > kProbesMax) return false;
      config.keepalive_count = static_cast<uint8_t>(value);
      return true;
    case channel::SessionOption::kCount:
      break;
  }
  return false;
}

}  // namespace lyre::session
