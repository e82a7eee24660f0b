#include "stack/session/options.h"

namespace lyre::session {

bool apply_option(channel::SessionOption option, uint32_t value, tcp::ConnectionConfig& config,
                  IpMarking& marking) {
  if (!channel::is_allowed(option, value)) return false;
  switch (option) {
    case channel::SessionOption::kNodelay:
      config.nagle = value == 0;
      break;
    case channel::SessionOption::kCork:
      config.cork = value != 0;
      break;
    case channel::SessionOption::kQuickAck:
      config.quick_ack = value != 0;
      break;
    case channel::SessionOption::kUserTimeoutMs:
      config.user_timeout_ms = value;
      break;
    case channel::SessionOption::kKeepaliveIdleMs:
      config.keepalive = value != 0;
      if (value != 0) config.keepalive_idle_ms = value;
      break;
    case channel::SessionOption::kKeepaliveIntervalMs:
      config.keepalive_interval_ms = value;
      break;
    case channel::SessionOption::kKeepaliveProbes:
      config.keepalive_count = static_cast<uint8_t>(value);
      break;
    case channel::SessionOption::kDscp:
      marking.dscp = static_cast<uint8_t>(value);
      break;
    case channel::SessionOption::kHopLimit:
      marking.hop_limit = static_cast<uint8_t>(value);
      break;
    case channel::SessionOption::kCount:
      break;
  }
  return true;
}

}  // namespace lyre::session
