#pragma once

#include <cstdint>

namespace lyre::tcp {

/// RFC 9293 3.3.2. LISTEN is missing: a listener is not a connection.
enum class State : uint8_t {
  kClosed,
  kSynSent,
  kSynReceived,
  kEstablished,
  kFinWait1,
  kFinWait2,
  kCloseWait,
  kClosing,
  kLastAck,
  kTimeWait,
};
inline constexpr uint32_t kStateCount = 10;

/// The RFC's name, e.g. "FIN-WAIT-1".
const char* state_name(State state);

}  // namespace lyre::tcp
